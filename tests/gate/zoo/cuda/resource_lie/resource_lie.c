/* resource_lie: predicts less shared memory than its code has. */
#define NAME resource_lie
#define SUMMARY "predicts less shared memory than its code has"
#include "../descriptor.h"
