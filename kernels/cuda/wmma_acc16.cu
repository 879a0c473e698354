/* wmma_acc16: wmma with every sum of Q K^T and P V carried in fp16, declared as such. Half the accumulator registers,
 * twice the rate on chips whose tensor cores are throttled for fp32 sums; docs/ladder.md has the error and the gain. */
#define ATTUNE_ACC16 1
#define FWD_WMMA fwd_wmma_acc16
#include "wmma.cu"
