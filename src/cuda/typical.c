/* What a typical device of each architecture offers, for compiling and predicting where there is none. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cuda/cuda.h"

static const struct {
    int32_t arch, features, sm_count, smem_optin, smem_sm, threads_sm;
    int64_t l2;
    const char *like;
} typical[] = {
    {80, 0, 108, 166912, 167936, 2048, 40 << 20, "NVIDIA_A100"},
    {86, 0, 84, 101376, 102400, 1536, 6 << 20, "NVIDIA_RTX_A6000"},
    {89, 0, 58, 101376, 102400, 1536, 48 << 20, "NVIDIA_L4"},
    {90, 1, 132, 232448, 233472, 2048, 60 << 20, "NVIDIA_H200"},
    {100, 1, 148, 232448, 233472, 2048, 126 << 20, "NVIDIA_B200"},
    {120, 1, 170, 101376, 102400, 1536, 96 << 20, "NVIDIA_GeForce_RTX_5090"},
};

attune_status at_cuda_typical(int arch, attune_target *target)
{
    for (size_t i = 0; i < sizeof typical / sizeof typical[0]; ++i) {
        if (typical[i].arch == arch) {
            *target = (attune_target){.size = sizeof *target,
                                      .kind = ATTUNE_TARGET_CUDA,
                                      .device = -1,
                                      .arch = arch,
                                      .arch_features = typical[i].features,
                                      .sm_count = typical[i].sm_count,
                                      .smem_block_bytes = 49152,
                                      .smem_optin_bytes = typical[i].smem_optin,
                                      .smem_sm_bytes = typical[i].smem_sm,
                                      .regs_sm = 65536,
                                      .threads_sm = typical[i].threads_sm,
                                      .memory_l2_bytes = typical[i].l2};
            (void)snprintf(target->model, sizeof target->model, "%s", typical[i].like);
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_NOT_FOUND, "architecture %d: 80, 86, 89, 90, 100 and 120 are known", arch);
}
