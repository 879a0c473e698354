/* does_not_compile: it is no C. */
this is no C
