/* What it costs to bring keys and values that lie in pages at random places into shared memory, by ways of copying:
 * nvcc -O3 -arch=sm_90a page_reads.cu -lcuda && ./a.out
 *
 * 64 sequences of 4,096 keys with 8 heads of 128 columns of 16 bits, 2 x 537 MB in pools [pages, heads, rows, columns];
 * 132 blocks of eight warps, each with a ring of two tiles of 16 keys, as kernels/cuda/decode.cu has them; nothing is
 * done with what comes.
 * box: two boxes of 16 rows and 64 columns for K, two for V; one: a box of both halves; run: a run of bytes for as many
 * rows as are neighbours, at most 16; rows: a run a row, by a lane each; parts: cp.async of 16 bytes; all: in one
 * piece. Medians of replays of CUDA graphs, as lines of way, page, us, TB/s. */
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

typedef unsigned long long u64;

enum {
    BATCH = 64,
    KEYS = 4096,
    HEADS = 8,
    DIM = 128,
    ROW = DIM * 2,
    WARPS = 8,
    TILE = 16,
    STAGES = 2,
    HALF = TILE * ROW
};
enum way { BOX, ONE, RUN, ROWS, PARTS };
enum { UNITS = BATCH * HEADS * (KEYS / 512) };

static __device__ unsigned shared_of(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
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

static __device__ void bulk(unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
                 "[%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(0x12f0000000000000ull)
                 : "memory");
}

static __device__ void box(unsigned to, const CUtensorMap *map, unsigned barrier, int a, int b, int c, int d)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "l"(0x12f0000000000000ull), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

static __device__ void box5(unsigned to, const CUtensorMap *map, unsigned barrier, int b, int c, int d)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%4, %4, %5, %6, %7}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "l"(0x12f0000000000000ull), "r"(0), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

extern __shared__ __align__(1024) unsigned char memory[];

template <int way, int PAGE>
__global__ void __launch_bounds__(WARPS * 32, 1)
    read_pages(const __grid_constant__ CUtensorMap map_k, const __grid_constant__ CUtensorMap map_v,
               const unsigned char *k, const unsigned char *v, const int *table)
{
    __shared__ u64 full[WARPS][STAGES];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (lane < STAGES) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" ::"r"(
                         shared_of(&full[warp][lane])),
                     "r"(way == PARTS ? 32 : 1)
                     : "memory");
    }
    __syncwarp();
    const int begin = UNITS * (int)blockIdx.x / (int)gridDim.x * 4,
              end = UNITS * ((int)blockIdx.x + 1) / (int)gridDim.x * 4;
    /* step: unit and tile of the warp in it */
    auto key_of = [&](int step) { return step / 4 % (KEYS / 512) * 512 + (step % 4 * WARPS + warp) * TILE; };
    const int own_row = way == PARTS || way == ROWS ? lane % 16 : 0;
    auto entry_of = [&](int step) {
        return table[step / 4 / (KEYS / 512) / HEADS * (KEYS / PAGE) + (key_of(step) + own_row) / PAGE];
    };
    int entry = entry_of(begin);
    auto copy = [&](int step) {
        if (step >= end) {
            return;
        }
        const int stage = (step - begin) % STAGES, head = step / 4 / (KEYS / 512) % HEADS, key = key_of(step),
                  page = entry;
        const unsigned to = shared_of(memory) + (warp * STAGES + stage) * 2 * HALF,
                       barrier = shared_of(&full[warp][stage]);
        const u64 at = (u64)page * (HEADS * PAGE * ROW) + head * (PAGE * ROW) + (key + own_row) % PAGE * ROW;
        if (way != PARTS && lane == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(2 * HALF)
                         : "memory");
        }
        if (way == BOX && lane < 4) {
            box(to + lane * (HALF / 2), lane < 2 ? &map_k : &map_v, barrier, lane % 2 * 64, key % PAGE, head, page);
        }
        if (way == ONE && lane < 2) {
            box5(to + lane * HALF, lane < 1 ? &map_k : &map_v, barrier, key % PAGE, head, page);
        }
        if (way == RUN && lane < 2) {
            bulk(to + lane * HALF, (lane < 1 ? k : v) + at, HALF, barrier);
        }
        if (way == ROWS) {
            bulk(to + lane * ROW, (lane < 16 ? k : v) + at, ROW, barrier);
        }
        if (way == PARTS) {
#pragma unroll
            for (int i = 0; i < TILE / 2; ++i) {
                const u64 from = __shfl_sync(0xffffffff, at, i * 2 + lane / 16) + lane % 16 * 16;
                const unsigned place = to + i * 512 + lane * 16;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(k + from) : "memory");
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place + HALF), "l"(v + from) : "memory");
            }
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
        }
        if (step + 1 < end) {
            entry = entry_of(step + 1);
        }
    };
    for (int i = 0; i < STAGES; ++i) {
        copy(begin + i);
    }
    for (int step = begin; step < end; ++step) {
        await(shared_of(&full[warp][(step - begin) % STAGES]), (int)((step - begin) / STAGES % 2));
        __syncwarp();
        copy(step + STAGES);
    }
}

static cudaStream_t stream;

static CUtensorMap map_of(void *pool, int page, bool both, CUtensorMapL2promotion promotion)
{
    CUtensorMap map;
    const u64 pages = (u64)BATCH * KEYS / page;
    cuuint64_t dims[5] = {64, (cuuint64_t)2, (cuuint64_t)page, HEADS, pages};
    cuuint64_t strides[4] = {128, ROW, (cuuint64_t)page * ROW, (cuuint64_t)HEADS * page * ROW};
    cuuint32_t boxes[5] = {64, 2, (cuuint32_t)std::min(page, 16), 1, 1}, ones[5] = {1, 1, 1, 1, 1};
    if (!both) {
        cuuint64_t d[4] = {DIM, (cuuint64_t)page, HEADS, pages};
        cuuint32_t b[4] = {64, (cuuint32_t)std::min(page, 16), 1, 1};
        cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, pool, d, strides + 1, b, ones,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, promotion,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    } else {
        cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5, pool, dims, strides, boxes, ones,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, promotion,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }
    return map;
}

template <int way, int PAGE>
static void measure(const char *name, unsigned char **pool, CUtensorMapL2promotion promotion, bool mixed)
{
    static std::mt19937 random(1);
    std::vector<int> order((size_t)BATCH * KEYS / PAGE);
    std::iota(order.begin(), order.end(), 0);
    if (mixed) {
        std::shuffle(order.begin(), order.end(), random);
    }
    int *table;
    cudaMalloc(&table, order.size() * 4);
    cudaMemcpy(table, order.data(), order.size() * 4, cudaMemcpyHostToDevice);
    CUtensorMap map[2] = {map_of(pool[0], PAGE, way == ONE, promotion), map_of(pool[1], PAGE, way == ONE, promotion)};
    cudaFuncSetAttribute(read_pages<way, PAGE>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         WARPS * STAGES * 2 * HALF + 1024);
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < 8; ++i) {
        read_pages<way, PAGE>
            <<<132, WARPS * 32, WARPS * STAGES * 2 * HALF + 1024, stream>>>(map[0], map[1], pool[0], pool[1], table);
    }
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&replay, graph, 0);
    std::vector<float> us;
    for (int i = 0; i < 8; ++i) {
        float ms;
        cudaEventRecord(begin, stream);
        cudaGraphLaunch(replay, stream);
        cudaEventRecord(end, stream);
        cudaEventSynchronize(end);
        cudaEventElapsedTime(&ms, begin, end);
        us.push_back(ms * 1e3f / 8);
    }
    std::sort(us.begin(), us.end());
    printf("%s\t%d\t%s\t%.1f\t%.3f\t%s\n", name, PAGE, mixed ? "permuted" : "in order", us[4],
           2. * BATCH * KEYS * HEADS * ROW / us[4] / 1e6, cudaGetErrorString(cudaGetLastError()));
    fflush(stdout);
    cudaFree(table);
}

int main()
{
    unsigned char *pool[2];
    cudaStreamCreate(&stream);
    cudaMalloc(&pool[0], (size_t)BATCH * KEYS * HEADS * ROW);
    cudaMalloc(&pool[1], (size_t)BATCH * KEYS * HEADS * ROW);
    const CUtensorMapL2promotion p128 = CU_TENSOR_MAP_L2_PROMOTION_L2_128B, p256 = CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                 none = CU_TENSOR_MAP_L2_PROMOTION_NONE;
    for (int turn = 0; turn < 2; ++turn) {
        measure<BOX, 64>("box", pool, p128, false);
        measure<BOX, 64>("box", pool, p128, true);
        measure<BOX, 16>("box", pool, p128, false);
        measure<BOX, 16>("box", pool, p128, true);
        measure<BOX, 16>("box 256", pool, p256, true);
        measure<BOX, 16>("box none", pool, none, true);
        measure<ONE, 16>("one", pool, p128, true);
        measure<ONE, 16>("one 256", pool, p256, true);
        measure<ONE, 64>("one", pool, p128, true);
        measure<RUN, 16>("run", pool, p128, true);
        measure<RUN, 64>("run", pool, p128, true);
        measure<ROWS, 64>("rows", pool, p128, true);
        measure<ROWS, 16>("rows", pool, p128, true);
        measure<ROWS, 1>("rows", pool, p128, false);
        measure<ROWS, 1>("rows", pool, p128, true);
        measure<PARTS, 64>("parts", pool, p128, true);
        measure<PARTS, 16>("parts", pool, p128, true);
        measure<PARTS, 1>("parts", pool, p128, false);
        measure<PARTS, 1>("parts", pool, p128, true);
    }
    return 0;
}
