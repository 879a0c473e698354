/* opens_file: opens a file through the C library. */
#define NAME opens_file
#define SUMMARY "opens a file through the C library"
#include "../descriptor.h"
