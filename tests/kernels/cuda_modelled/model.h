/* CUDA's words and built-in functions, as far as plain device code has them, for a CPU's compiler: a kernel's source is
 * compiled behind this header, and model.cc runs its blocks. What only some architectures have is not here. */
#ifndef TESTS_KERNELS_CUDA_MODELLED_MODEL_H
#define TESTS_KERNELS_CUDA_MODELLED_MODEL_H

/* NOTE: C++'s headers are more to read than a kernel, and hundreds of kernels are compiled. */
extern "C" {
float exp2f(float x) noexcept;
float expf(float x) noexcept;
float fabsf(float x) noexcept;
float fmaf(float x, float y, float z) noexcept;
float fmaxf(float x, float y) noexcept;
float fminf(float x, float y) noexcept;
float log2f(float x) noexcept;
float logf(float x) noexcept;
float nextafterf(float from, float to) noexcept;
float tanhf(float x) noexcept;
double fabs(double x) noexcept;
double fmax(double x, double y) noexcept;
double ldexp(double x, int by) noexcept;
int ilogb(double x) noexcept;
}

template <class T> static inline bool isinf(T x)
{
    return __builtin_isinf(x);
}

template <class T> static inline bool signbit(T x)
{
    return __builtin_signbit(x);
}

#define __device__
#define __global__ inline /* those that no step names are not compiled */
#define __shared__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))

struct alignas(16) float4 {
    float x, y, z, w;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

struct alignas(8) uint2 {
    unsigned x, y;
};

struct alignas(8) float2 {
    float x, y;
};

struct three {
    unsigned x, y, z;
};

extern three threadIdx, blockIdx, gridDim, blockDim;
extern unsigned char memory[]; /* shared, dynamic */

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

template <class A, class B> static inline auto min(A a, B b) -> decltype(a + b)
{
    return a < b ? a : b;
}

template <class A, class B> static inline auto max(A a, B b) -> decltype(a + b)
{
    return a > b ? a : b;
}

/* ---- Bits ---- */

template <class To, class From> static inline To same_bits(From from)
{
    To to;
    static_assert(sizeof to == sizeof from, "as many bits");
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

static inline float __uint_as_float(unsigned x)
{
    return same_bits<float>(x);
}

static inline float __int_as_float(int x)
{
    return same_bits<float>(x);
}

static inline unsigned __float_as_uint(float x)
{
    return same_bits<unsigned>(x);
}

static inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline unsigned __vimax3_u32(unsigned a, unsigned b, unsigned c)
{
    return max(max(a, b), c);
}

/* Bytes of the two, the first one's below, by the four digits of `order`. */
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned order)
{
    const unsigned long long both = (unsigned long long)high << 32 | low;
    unsigned x = 0;
    for (int i = 0; i < 4; ++i) {
        x |= (unsigned)(both >> (order >> i * 4 & 7) * 8 & 0xff) << i * 8;
    }
    return x;
}

static inline float __fdividef(float a, float b)
{
    return a / b;
}

/* Threads take turns only where they wait for one another. */
template <class T, class By> static inline T atomicAdd(T *to, By by)
{
    const T before = *to;
    *to += by;
    return before;
}

/* ---- Threads of a block ---- */

/* Waits for all threads that have not ended; whether any of them said yes. */
bool model_block(bool yes);
/* Waits for all threads of the warp; what each of them brought. */
void model_warp_words(const unsigned *brought, int words, unsigned (*all)[32]);
/* Waits for so many threads at one of the block's named barriers. */
void model_barrier(int id, int threads);
/* The same; how many of them said yes. */
int model_barrier_count(int id, int threads, bool yes);
/* Arrives there and goes on. */
void model_barrier_pass(int id, int threads);
/* Waits for the warp group. */
void model_group();
/* Copies to shared memory: `room` bytes, of which `bytes` are read and the rest are zeros; groups of them. */
void model_copy(unsigned shared, const void *global, unsigned bytes, unsigned room = 16);
void model_commit();
void model_wait(int pending);
/* Where so many bytes of shared memory are, which the block has. */
void *model_shared(unsigned at, unsigned bytes);

/* mbarriers: a phase ends with its arrivals and bytes; waiting brings what was copied and told to arrive there. */
void model_barrier_init(unsigned barrier, unsigned arrivals);
void model_barrier_expect(unsigned barrier, int bytes);
void model_barrier_arrive(unsigned barrier);
/* An arrival when all of the thread's copies so far have arrived. */
void model_barrier_arrive_behind_copies(unsigned barrier);
void model_barrier_wait(unsigned barrier, unsigned parity);
/* A cluster's blocks: all tell that they have come, and wait for all others; bytes of another's shared memory. */
void model_cluster_arrive();
void model_cluster_wait();
unsigned model_cluster_address(unsigned shared, unsigned rank);
void *model_cluster_shared(unsigned remote, unsigned bytes);
/* Waits for what blocks send; sends so many bytes, announced at a barrier of the same block. */
void model_cluster_barrier_wait(unsigned barrier, unsigned parity);
void model_cluster_send(unsigned remote, const float *from, unsigned bytes, unsigned remote_barrier);
/* A run of bytes that arrives at the barrier. */
void model_bulk(unsigned shared, const void *global, unsigned bytes, unsigned barrier);
/* A box of 64 columns of the step's map `map`, swizzled by 128 bytes. */
int model_map_index(const void *map);
void model_box(unsigned shared, int map, unsigned barrier, int column, int row, int head, int batch);
/* The way back, at once. */
void model_store_box(unsigned shared, int map, int column, int row, int head, int batch);

template <int words> static inline void model_warp_many(const unsigned (&brought)[words], unsigned (&all)[words][32])
{
    model_warp_words(brought, words, all);
}

static inline void model_warp(unsigned brought, unsigned (&all)[32])
{
    model_warp_words(&brought, 1, &all);
}

static inline void __syncthreads()
{
    (void)model_block(false);
}

static inline int __syncthreads_or(int yes)
{
    return model_block(yes != 0);
}

static inline void __syncwarp()
{
    unsigned all[32];
    model_warp(0, all);
}

template <class T> static inline T __shfl_sync(unsigned, T x, int lane)
{
    static_assert(sizeof x == 4 || sizeof x == 8, "words");
    unsigned own[2] = {0, 0}, all[2][32];
    __builtin_memcpy(own, &x, sizeof x);
    model_warp_many(own, all);
    const unsigned theirs[2] = {all[0][lane & 31], all[1][lane & 31]};
    __builtin_memcpy(&x, theirs, sizeof x);
    return x;
}

template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int other)
{
    return __shfl_sync(mask, x, (int)threadIdx.x % 32 ^ other);
}

template <class T> static inline T __shfl_up_sync(unsigned mask, T x, int lanes)
{
    const int lane = (int)threadIdx.x % 32;
    return __shfl_sync(mask, x, lane < lanes ? lane : lane - lanes);
}

static inline unsigned __ballot_sync(unsigned, bool yes)
{
    unsigned all[32], votes = 0;
    model_warp(yes, all);
    for (int lane = 0; lane < 32; ++lane) {
        votes |= (all[lane] & 1U) << lane;
    }
    return votes;
}

static inline unsigned __match_any_sync(unsigned, unsigned x)
{
    unsigned all[32], same = 0;
    model_warp(x, all);
    for (int lane = 0; lane < 32; ++lane) {
        same |= (unsigned)(all[lane] == x) << lane;
    }
    return same;
}

static inline bool __any_sync(unsigned mask, bool yes)
{
    return __ballot_sync(mask, yes) != 0;
}

static inline bool __all_sync(unsigned mask, bool yes)
{
    return __ballot_sync(mask, yes) == ~0U;
}

#endif
