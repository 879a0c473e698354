/* launch_inside: launches more work from inside, where nobody times it. */
#define NAME launch_inside
#define SUMMARY "launches more work from inside, where nobody times it"
#include "../descriptor.h"
