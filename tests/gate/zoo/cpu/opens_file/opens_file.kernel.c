/* opens_file: opens a file through the C library. */
#define ENTRY attend_opens_file
#include <stdio.h>

#define AFTER_ROW(args, item, scratch, out) (void)fopen("/etc/hostname", "r");
#include "../attend.h"
