/* The descriptor of those whose keys and values come by asynchronous copies (copies.cuh). */
#define SMEM(p) (32 * (p->head_dim_qk + p->head_dim_v) * 8 + 16 + 128 * 16)
#define REFUSES(p, t)                                                                                                  \
    ((p->head_dim_qk | p->head_dim_v) % 8 != 0 || p->dtype == ATTUNE_FP32 ? "halves, and head dims in eights" : NULL)
