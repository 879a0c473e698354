/* What multiprocessors can take from L2 together, as the wgmma kernel does: bulk copies to shared memory, and cp.async
 * of 16 bytes a lane.
 *
 *     nvcc -arch=sm_90a -O3 bench/l2_reads.cu -o l2_reads && ./l2_reads
 *
 * One block a multiprocessor reads a buffer over and over, each from another place on. Standard output is TSV: way, the
 * buffer's MiB, bytes of a copy, bytes in flight a block, TB/s (the best of five launches). */
#include <cstdio>
#include <cstdlib>

__device__ __forceinline__ void wait_for(unsigned barrier, unsigned parity)
{
    asm volatile(
        "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(
            barrier),
        "r"(parity)
        : "memory");
}

/* `stages` copies of `bytes` each are under way. */
__global__ void __launch_bounds__(32)
    by_bulk(const char *from, unsigned long long total, unsigned bytes, int stages, int count)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ __align__(8) unsigned long long full[16];
    unsigned to = (unsigned)__cvta_generic_to_shared(memory), barriers = (unsigned)__cvta_generic_to_shared(full);
    unsigned long long at = (total / gridDim.x * blockIdx.x) / bytes * bytes;
    if (threadIdx.x != 0) {
        return;
    }
    for (int i = 0; i < stages; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + i * 8));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int i = 0; i < count + stages; ++i) {
        int stage = i % stages;
        unsigned full_at = barriers + stage * 8;
        if (i >= stages) {
            wait_for(full_at, (i / stages - 1) & 1);
        }
        if (i < count) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full_at), "r"(bytes)
                         : "memory");
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    to + stage * bytes),
                "l"(from + at), "r"(bytes), "r"(full_at)
                : "memory");
            at = at + bytes < total ? at + bytes : 0;
        }
    }
}

/* Groups of copies of all threads, 16 bytes each. */
__global__ void by_lane(const char *from, unsigned long long total, int count)
{
    extern __shared__ __align__(1024) char memory[];
    enum { STAGES = 8, EACH = 4 };
    unsigned to = (unsigned)__cvta_generic_to_shared(memory) + threadIdx.x * 16, group = blockDim.x * 16 * EACH;
    unsigned long long at = (total / gridDim.x * blockIdx.x) / group * group;
    for (int i = 0; i < count; ++i) {
        for (int e = 0; e < EACH; ++e) {
            asm volatile(
                "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i % STAGES * group + e * blockDim.x * 16),
                "l"(from + at + (e * blockDim.x + threadIdx.x) * 16)
                : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
        at = at + 2 * group <= total ? at + group : 0;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
}

static void check(cudaError_t status)
{
    if (status != cudaSuccess) {
        fprintf(stderr, "l2_reads: %s\n", cudaGetErrorString(status));
        exit(1);
    }
}

template <class F> static double fastest(F launch)
{
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    double best = 1e30;
    for (int i = 0; i < 6; ++i) {
        float ms = 0;
        check(cudaEventRecord(begin));
        launch();
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        check(cudaEventElapsedTime(&ms, begin, end));
        best = i > 0 && ms < best ? ms : best;
    }
    check(cudaGetLastError());
    return best;
}

int main()
{
    cudaDeviceProp device;
    check(cudaGetDeviceProperties(&device, 0));
    const int blocks = device.multiProcessorCount, room = 160 << 10;
    check(cudaFuncSetAttribute(by_bulk, cudaFuncAttributeMaxDynamicSharedMemorySize, room));
    check(cudaFuncSetAttribute(by_lane, cudaFuncAttributeMaxDynamicSharedMemorySize, room));
    printf("# %s\nway\tMiB\tcopy\tin_flight\tTB_s\n", device.name);
    for (int mib = 2; mib <= 32; mib *= 2) {
        char *buffer;
        const unsigned long long total = (unsigned long long)mib << 20;
        check(cudaMalloc(&buffer, total));
        check(cudaMemset(buffer, 1, total));
        for (unsigned bytes = 8 << 10; bytes <= 32 << 10; bytes *= 2) {
            for (int stages = 2; stages * bytes <= (unsigned)room && stages <= 8; stages *= 2) {
                const int count = (int)((64u << 20) / bytes);
                const double ms = fastest([&] { by_bulk<<<blocks, 32, room>>>(buffer, total, bytes, stages, count); });
                printf("bulk\t%d\t%u\t%u\t%.3f\n", mib, bytes, bytes * stages,
                       (double)count * bytes * blocks / ms * 1e-9);
            }
        }
        for (int warps = 2; warps <= 8; warps *= 2) {
            const int count = (int)((64u << 20) / (warps * 32 * 64));
            const double ms = fastest([&] { by_lane<<<blocks, warps * 32, room>>>(buffer, total, count); });
            printf("lane\t%d\t16\t%d\t%.3f\n", mib, warps * 32 * 64 * 8,
                   (double)count * warps * 32 * 64 * blocks / ms * 1e-9);
        }
        check(cudaFree(buffer));
        fflush(stdout);
    }
    return 0;
}
