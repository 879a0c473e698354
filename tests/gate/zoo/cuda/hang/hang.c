/* hang: waits for something that does not come. */
#define NAME hang
#define SUMMARY "waits for something that does not come"
#include "../descriptor.h"
