/* cublas_qk: Q K^T by cuBLAS into the workspace, all the rest in one kernel: wmma's, whose logits come from memory
 * instead of from fragments.
 *
 * What it taught: fusing half saves half the traffic, P's, and the other half still grows with the square. */
#define LOGITS_GIVEN 1
#define FWD_WMMA fwd_cublas_qk
#include "wmma.cu"
