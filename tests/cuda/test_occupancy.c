/* Occupancy against known figures and, where the toolkit is, against its own calculator. */
#include "base/cm.h"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#define TOOLKIT 1
#endif

#include "cuda/cuda.h"
#include "cuda/occupancy.h"

static attune_target target_of(int arch)
{
    attune_target target;
    assert_ok(at_cuda_typical(arch, &target));
    return target;
}

static void known_figures(void **state)
{
    (void)state;
    attune_target h200 = target_of(90);
    at_occupancy of = at_occupancy_of(&h200, 128, 32, 0);
    assert_int_equal(of.blocks, 16);
    assert_string_equal(of.limit, "threads");
    assert_true(of.share == 1.0);
    of = at_occupancy_of(&h200, 384, 168, 200000); /* FlashAttention-3's shape */
    assert_int_equal(of.blocks, 1);
    assert_true(of.share == 12.0 / 64.0);
    of = at_occupancy_of(&h200, 128, 255, 0);
    assert_int_equal(of.blocks, 2);
    assert_string_equal(of.limit, "registers");
    of = at_occupancy_of(&h200, 32, 16, 0);
    assert_int_equal(of.blocks, 32);
    assert_string_equal(of.limit, "blocks");
    of = at_occupancy_of(&h200, 128, 32, 60000);
    assert_int_equal(of.blocks, 3);
    assert_string_equal(of.limit, "shared memory");
    attune_target l4 = target_of(89);
    assert_int_equal(at_occupancy_of(&l4, 256, 64, 57376).blocks, 1);
    assert_int_equal(at_occupancy_of(&l4, 256, 64, 131072).blocks, 0);
    assert_int_equal(at_occupancy_of(&l4, 0, 64, 0).blocks, 0);
    assert_int_equal(at_occupancy_of(&l4, 1024, 255, 0).blocks, 0);
}

static void unknown_architectures_have_no_typical_device(void **state)
{
    attune_target target;
    (void)state;
    assert_fails(at_cuda_typical(75, &target), ATTUNE_NOT_FOUND, "75");
}

#ifdef TOOLKIT
static void as_the_toolkit_says(void **state)
{
    static const int archs[] = {80, 86, 89, 90, 100, 120};
    (void)state;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; ++i) {
        attune_target target = target_of(archs[i]);
        struct cudaOccDeviceProp device = {.computeMajor = archs[i] / 10,
                                           .computeMinor = archs[i] % 10,
                                           .maxThreadsPerBlock = 1024,
                                           .maxThreadsPerMultiprocessor = target.threads_sm,
                                           .regsPerBlock = 65536,
                                           .regsPerMultiprocessor = target.regs_sm,
                                           .warpSize = 32,
                                           .sharedMemPerBlock = 49152,
                                           .sharedMemPerMultiprocessor = (size_t)target.smem_sm_bytes,
                                           .numSms = target.sm_count,
                                           .sharedMemPerBlockOptin = (size_t)target.smem_optin_bytes,
                                           .reservedSharedMemPerBlock = 1024};
        struct cudaOccDeviceState prefer = {.cacheConfig = CACHE_PREFER_SHARED, .carveoutConfig = 100};
        for (int threads = 32; threads <= 1024; threads += 96) {
            for (int registers = 16; registers <= 255; registers += 13) {
                for (int smem = 0; smem <= target.smem_optin_bytes; smem += 9973) {
                    struct cudaOccFuncAttributes code = {.maxThreadsPerBlock = 1024,
                                                         .numRegs = registers,
                                                         .sharedSizeBytes = 0,
                                                         .partitionedGCConfig = PARTITIONED_GC_OFF,
                                                         .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
                                                         .maxDynamicSharedSizeBytes = (size_t)target.smem_optin_bytes};
                    cudaOccResult theirs;
                    assert_int_equal(cudaOccMaxActiveBlocksPerMultiprocessor(&theirs, &device, &code, &prefer, threads,
                                                                             (size_t)smem),
                                     CUDA_OCC_SUCCESS);
                    at_occupancy ours = at_occupancy_of(&target, threads, registers, smem);
                    if (ours.blocks != theirs.activeBlocksPerMultiprocessor) {
                        fail_msg("sm_%d, %d threads, %d registers, %d bytes: %d blocks, the toolkit says %d", archs[i],
                                 threads, registers, smem, ours.blocks, theirs.activeBlocksPerMultiprocessor);
                    }
                }
            }
        }
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_figures),
        cmocka_unit_test(unknown_architectures_have_no_typical_device),
#ifdef TOOLKIT
        cmocka_unit_test(as_the_toolkit_says),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
