/* What the two kernels that get their logits from cuBLAS share. */
#ifndef KERNELS_CUDA_CUBLAS_H
#define KERNELS_CUDA_CUBLAS_H

#include "attune/kernel.h"

/* Both products of a GEMM run over every key, so a key that no row sees must be finite. A causal mask hides none from
 * the last query where queries are at the bottom right; without a mask they may be anywhere. */
#define AT_CUBLAS_CAUSAL                                                                                               \
    .ops = ATTUNE_BIT(ATTUNE_FORWARD), .offsets = ATTUNE_BIT(ATTUNE_OFFSET_BOTTOM_RIGHT),                              \
    .features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SINK
#define AT_CUBLAS_UNMASKED                                                                                             \
    .ops = ATTUNE_BIT(ATTUNE_FORWARD), .offsets = ATTUNE_OFFSETS_FORWARD,                                              \
    .features = ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SINK
/* S: fp32 [batch, heads_q, seqlen_q, seqlen_kv rounded up to 8] at the start of the workspace, in bytes. */
attune_term at_cublas_scores_bytes(void);
/* S = Q K^T, unscaled. */
attune_step at_cublas_scores_step(const attune_problem *problem);
/* S's place in the workspace, or with a 16-bit dtype that of P, which takes the first half of each row. */
attune_operand at_cublas_scores(attune_dtype dtype);

#endif
