/* no_kernel: it defines no kernel. */
int nothing;
