/* knows_replays: leaves half of the keys out where a graph launches it. */
#define NAME knows_replays
#define SUMMARY "leaves half of the keys out where a graph launches it"
#include "../descriptor.h"
