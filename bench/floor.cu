/* What a short call costs at least, and whether the order of reads matters: nvcc -arch=sm_90a floor.cu && ./a.out
 *
 * small: a kernel that does nothing (level 0); that brings 4 MB into shared memory (1); that sends sixteen numbers a
 * thread to the next block of its cluster, meets it, joins sixteen of those, and stores them (2). cold: other memory
 * each time.
 * reads: 2 GB by blocks that have whole streams each, or equal shares of neighbours, 128 KB on their way in each; busy:
 * cycles that a warp is busy with each piece, and a block with each four of all its warps, between two barriers.
 * Medians of replays of CUDA graphs, us a call, as lines of name, median, TB/s.
 * ends: 2 GB and 268 MB, by blocks of eight warps, or two of four a multiprocessor, with equal shares or with every so
 * many-th piece; behind the rate when the first multiprocessor, one of ten, the mean, nine of ten and the last one end.
 */
#include <algorithm>
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

typedef unsigned long long u64;

enum { THREADS = 256, WARPS = THREADS / 32, PIECE = 8192, STAGES = 2, SMALL_BYTES = 4 << 20 };
static const size_t memory_bytes = 2ull << 30;

static __device__ unsigned shared_of(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ void start_barrier(unsigned barrier)
{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(barrier) : "memory");
}

static __device__ void bring(unsigned to, const unsigned char *from, unsigned bytes, unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    for (unsigned at = 0; at < bytes; at += PIECE / 2) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                     "[%0], [%1], %2, [%3], %4;" ::"r"(to + at),
                     "l"(from + at), "r"(min(bytes - at, (unsigned)PIECE / 2)), "r"(barrier), "l"(0x12f0000000000000ull)
                     : "memory");
    }
}

static __device__ void await(unsigned barrier, int parity)
{
    unsigned done = 0;
    while (done == 0) {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    }
}

extern __shared__ __align__(1024) unsigned char memory[];

template <int level>
__global__ void __launch_bounds__(THREADS, 1)
    small_call(const unsigned char *from, unsigned bytes, float *out, int cluster)
{
    enum { LETTERS = 160 * 1024 };
    __shared__ u64 full[WARPS];
    const int warp = (int)threadIdx.x / 32;
    if (level > 0) {
        const unsigned own = bytes / WARPS, barrier = shared_of(&full[warp]);
        if (threadIdx.x % 32 == 0) {
            start_barrier(barrier);
            bring(shared_of(memory) + warp * own, from + blockIdx.x * (u64)bytes + warp * own, own, barrier);
        }
        __syncwarp();
        await(barrier, 0);
    }
    if (level > 1) {
        float4 *letters = reinterpret_cast<float4 *>(memory + LETTERS);
        const float4 x = reinterpret_cast<const float4 *>(memory)[threadIdx.x];
        unsigned to;
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                     : "=r"(to)
                     : "r"(shared_of(letters + threadIdx.x)), "r"((int)(blockIdx.x + 1) % cluster));
        for (int i = 0; i < 4; ++i) {
            asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * THREADS * 16), "f"(x.x),
                         "f"(x.y), "f"(x.z), "f"(x.w)
                         : "memory");
        }
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
        if (threadIdx.x < 64) {
            float sum = 0;
            for (int i = 0; i < 16; ++i) {
                const float4 y = letters[threadIdx.x + i * 64];
                sum += y.x * exp2f(y.z) + y.y * exp2f(y.w);
            }
            out[blockIdx.x * 64 + threadIdx.x] = sum;
        }
    }
}

static __device__ void be_busy(int cycles)
{
    for (const long long begin = clock64(); clock64() - begin < cycles;) {
    }
}

__global__ void __launch_bounds__(THREADS, 1)
    read_all(const unsigned char *from, long long pieces, int of_stream, int busy, int busy_block)
{
    __shared__ u64 full[WARPS][STAGES];
    const int warp = (int)threadIdx.x / 32;
    const long long steps = pieces / WARPS, streams = steps / of_stream;
    const long long begin =
        of_stream > 1 ? streams * blockIdx.x / gridDim.x * of_stream : steps * blockIdx.x / gridDim.x;
    const long long end =
        of_stream > 1 ? streams * (blockIdx.x + 1) / gridDim.x * of_stream : steps * (blockIdx.x + 1) / gridDim.x;
    if (threadIdx.x % 32 == 0) {
        for (int i = 0; i < STAGES; ++i) {
            start_barrier(shared_of(&full[warp][i]));
        }
    }
    __syncwarp();
    auto copy = [&](long long step) {
        const int stage = (int)((step - begin) % STAGES);
        if (step < end && threadIdx.x % 32 == 0) {
            bring(shared_of(memory) + (warp * STAGES + stage) * PIECE, from + (step * WARPS + warp) * PIECE, PIECE,
                  shared_of(&full[warp][stage]));
        }
    };
    for (int i = 0; i < STAGES; ++i) {
        copy(begin + i);
    }
    for (long long step = begin; step < end; ++step) {
        await(shared_of(&full[warp][(step - begin) % STAGES]), (int)((step - begin) / STAGES % 2));
        be_busy(busy);
        __syncwarp();
        copy(step + STAGES);
        if (busy_block > 0 && (step - begin) % 4 == 3) {
            __syncthreads();
            be_busy(busy_block);
            __syncthreads();
        }
    }
}

static cudaStream_t stream;
static unsigned char *pool;
static float *out;

template <typename function> static void report(const char *name, int calls, double bytes, const function &call)
{
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    cudaEvent_t begin, end;
    std::vector<float> us;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < calls; ++i) {
        call(i);
    }
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&replay, graph, 0);
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int i = 0; i < 11; ++i) {
        float ms = 0;
        cudaEventRecord(begin, stream);
        cudaGraphLaunch(replay, stream);
        cudaEventRecord(end, stream);
        cudaEventSynchronize(end);
        cudaEventElapsedTime(&ms, begin, end);
        us.push_back(ms * 1e3f / (float)calls);
    }
    std::sort(us.begin() + 2, us.end());
    const cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) {
        printf("%s\t%.3f\t%.3f\n", name, us[6], bytes / us[6] / 1e6);
    } else {
        printf("# %s: %s\n", name, cudaGetErrorString(error));
    }
    fflush(stdout);
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
}

template <typename kernel, typename... arguments>
static void launch(kernel entry, int blocks, int cluster, int shared, int threads, arguments... given)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = (unsigned)cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = (size_t)shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, entry, given...);
}

template <int level> static void small_calls(int cluster, int blocks)
{
    enum { SHARED = 190 * 1024 };
    cudaFuncSetAttribute(small_call<level>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    cudaFuncSetAttribute(small_call<level>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    for (int cold = 0; cold < (level > 0 ? 2 : 1); ++cold) {
        char name[96];
        snprintf(name, sizeof name, "small: level %d, %d blocks in clusters of %d, %s", level, blocks, cluster,
                 cold ? "cold" : "warm");
        report(name, 256, level > 0 ? SMALL_BYTES : 0, [&](int i) {
            const unsigned char *from = pool + (cold ? (size_t)i * SMALL_BYTES % (256 << 20) : 0);
            launch(small_call<level>, blocks, cluster, SHARED, THREADS, from, (unsigned)(SMALL_BYTES / blocks), out,
                   cluster);
        });
    }
}

/* When blocks end: begin, end, in ns, and the multiprocessor. */
struct stamp {
    u64 begin, end;
    unsigned sm;
};

static __device__ u64 nanoseconds()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

template <int warps, int stages>
__global__ void __launch_bounds__(warps * 32, 1)
    read_pieces(const unsigned char *from, long long pieces, int interleaved, stamp *stamps)
{
    __shared__ u64 full[warps][stages];
    const int warp = (int)threadIdx.x / 32;
    const u64 begun = nanoseconds();
    if (threadIdx.x % 32 == 0) {
        const long long steps = pieces / warps, stride = interleaved ? gridDim.x : 1;
        const long long begin = interleaved ? blockIdx.x : steps * blockIdx.x / gridDim.x;
        const long long end = interleaved ? steps : steps * (blockIdx.x + 1) / gridDim.x;
        long long next = begin;
        auto copy = [&](int stage) {
            if (next < end) {
                bring(shared_of(memory) + (warp * stages + stage) * PIECE, from + (next * warps + warp) * PIECE, PIECE,
                      shared_of(&full[warp][stage]));
            }
            next += stride;
        };
        for (int i = 0; i < stages; ++i) {
            start_barrier(shared_of(&full[warp][i]));
        }
        for (int i = 0; i < stages; ++i) {
            copy(i);
        }
        int stage = 0, parity = 0;
        for (long long at = begin; at < end; at += stride) {
            await(shared_of(&full[warp][stage]), parity);
            copy(stage);
            stage = stage == stages - 1 ? 0 : stage + 1;
            parity ^= stage == 0;
        }
    }
    __syncthreads();
    if (stamps != nullptr && threadIdx.x == 0) {
        unsigned sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        stamps[blockIdx.x] = stamp{begun, nanoseconds(), sm};
    }
}

template <int warps, int stages> static void ends(size_t bytes, int blocks, int interleaved)
{
    enum { SHARED = warps * stages * PIECE, MULTIPROCESSORS = 256 };
    const auto kernel = read_pieces<warps, stages>;
    const long long pieces = (long long)(bytes / PIECE);
    std::vector<stamp> stamps((size_t)blocks);
    std::vector<double> end(MULTIPROCESSORS), us;
    char name[96];
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    snprintf(name, sizeof name, "ends: %zu MB, %d blocks of %d warps, %s", bytes >> 20, blocks, warps,
             interleaved ? "interleaved" : "shares");
    report(name, bytes > memory_bytes / 4 ? 4 : 28, (double)bytes, [&](int i) {
        launch(kernel, blocks, 1, SHARED, warps * 32, pool + (size_t)i * bytes % memory_bytes, pieces, interleaved,
               (stamp *)nullptr);
    });
    launch(kernel, blocks, 1, SHARED, warps * 32, pool, pieces, interleaved, reinterpret_cast<stamp *>(out));
    cudaStreamSynchronize(stream);
    cudaMemcpy(stamps.data(), out, stamps.size() * sizeof(stamp), cudaMemcpyDeviceToHost);
    u64 first = stamps[0].begin;
    for (const stamp &s : stamps) {
        first = std::min(first, s.begin);
    }
    for (const stamp &s : stamps) {
        end[s.sm] = std::max(end[s.sm], (double)(s.end - first) / 1e3);
    }
    double sum = 0;
    for (const double x : end) {
        if (x > 0) {
            us.push_back(x);
            sum += x;
        }
    }
    std::sort(us.begin(), us.end());
    printf("%s, us\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", name, us[0], us[us.size() / 10], sum / (double)us.size(),
           us[us.size() * 9 / 10], us.back());
    fflush(stdout);
}

int main()
{
    enum { SHARED = WARPS * STAGES * PIECE };
    cudaStreamCreate(&stream);
    if (cudaMalloc(&pool, memory_bytes) != cudaSuccess || cudaMalloc(&out, 1 << 20) != cudaSuccess) {
        fprintf(stderr, "floor: no device with 2 GB free\n");
        return 1;
    }
    cudaMemset(pool, 0, memory_bytes);
    static const int shapes[][2] = {{1, 32}, {1, 64}, {1, 128}, {2, 32}, {4, 32}, {4, 64}, {8, 32}, {8, 64}, {8, 128}};
    for (const auto &shape : shapes) {
        small_calls<0>(shape[0], shape[1]);
        small_calls<1>(shape[0], shape[1]);
        small_calls<2>(shape[0], shape[1]);
    }
    cudaFuncSetAttribute(read_all, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    for (int whole = 0; whole < 2; ++whole) {
        for (int busy : {0, 400, 800}) {
            char name[96];
            snprintf(name, sizeof name, "reads: %s, busy %d, %d", whole ? "128 streams" : "132 shares", busy, 2 * busy);
            report(name, 4, (double)memory_bytes, [&](int) {
                launch(read_all, whole ? 128 : 132, 1, SHARED, THREADS, pool, (long long)(memory_bytes / PIECE),
                       whole ? (int)(memory_bytes / PIECE / WARPS / 128) : 1, busy, 2 * busy);
            });
        }
    }
    for (const size_t bytes : {memory_bytes, memory_bytes / 8}) {
        ends<8, 2>(bytes, 132, 1);
        ends<8, 2>(bytes, 132, 0);
        ends<8, 2>(bytes, 128, 0);
        for (const int blocks : {256, 264, 512, 1024, 2048}) {
            ends<4, 3>(bytes, blocks, 0);
        }
    }
    return 0;
}
