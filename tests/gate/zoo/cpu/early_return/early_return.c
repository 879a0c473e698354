/* early_return: returns where O seems to be written already. */
#define NAME early_return
#define SUMMARY "returns where O seems to be written already"
#include "../descriptor.h"
