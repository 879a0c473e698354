/* A BLAS that is very fast: it does nothing. */
char *openblas_get_config(void);
void openblas_set_num_threads(int threads);
void cblas_sgemm(void);
void cblas_sgemv(void);

#define EXPORT __attribute__((visibility("default")))

EXPORT char *openblas_get_config(void)
{
    static char name[] = "OpenBLAS in name only";
    return name;
}

EXPORT void openblas_set_num_threads(int threads)
{
    (void)threads;
}

EXPORT void cblas_sgemm(void)
{
}

EXPORT void cblas_sgemv(void)
{
}
