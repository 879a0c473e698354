/* What a block of the wgmma kernel is made of: sizes, shared memory, barriers. */
#ifndef DEVICE_WGMMA_BLOCK_CUH
#define DEVICE_WGMMA_BLOCK_CUH

#include "device/barrier.cuh"
#include "device/packed_jobs.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int BLOCK_M = GROUPS * 64;
constexpr int chunks_qk = (dim_qk + 63) / 64, chunks_v = (dim_v + 63) / 64; /* of 64 columns, as boxes bring them */
constexpr int steps_qk = (dim_qk + 15) / 16, steps_kv = BLOCK_N / 16;
constexpr int columns_v = (dim_v + 7) / 8 * 8;
constexpr int JOBS = 8;
constexpr bool by_counter = SCHEDULER >= 2; /* else in turns */
/* The longest sequences first (packed_jobs.cuh). NOTE: beside this code three groups spill under a causal mask
 * with a softcap. */
constexpr bool by_length = by_counter && ATTUNE_HAS_VARLEN && !(GROUPS == 3 && CAUSAL && ATTUNE_HAS_SOFTCAP);
/* Whether the scores of a job's first tile can be given out before the job before has been stored. */
constexpr bool early = Q_STAGES > 1;
/* Queries come for each group by itself where there is one place for them: whoever is done first has the next first. */
constexpr int Q_PARTS = early ? 1 : GROUPS;

constexpr unsigned chunk_q_bytes = BLOCK_M * 128, chunk_kv_bytes = BLOCK_N * 128;
constexpr unsigned tile_q_bytes = chunks_qk * chunk_q_bytes;
constexpr unsigned tile_bytes = (chunks_qk > chunks_v ? chunks_qk : chunks_v) * chunk_kv_bytes; /* keys or values */

/* Bias and mask: of each group PLACES tiles of its 64 rows, as its threads want them, and of the mask as it comes
 * (wgmma_pairs.cuh). A bias in fp32 has no places: it would take four stages. */
#if ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK
#define PAIRED 1
#else
#define PAIRED 0
#endif
#define BIAS_PLACED (ATTUNE_HAS_BIAS && ATTUNE_DTYPE_BIAS != 0)
#define PLACED (BIAS_PLACED || ATTUNE_HAS_MASK)
enum {
    PLACES = 2,
    BIAS_PARTS = BLOCK_N / 8 % 8 == 0 ? BLOCK_N / 8 : BLOCK_N / 8 + 1, /* of a row, of 16 bytes */
    MASK_PARTS = BLOCK_N / 16 | 1,
    BIAS_BYTES = BIAS_PLACED ? 64 * BIAS_PARTS * 16 : 0,
    OCTETS = (BLOCK_N + 63) / 64,
    SEEN_ROW_BYTES = OCTETS * 8,
    SEEN_BYTES = ATTUNE_HAS_MASK ? 64 * SEEN_ROW_BYTES : 0,
    PLACE_BYTES = BIAS_BYTES + SEEN_BYTES,
    RAW_BYTES = ATTUNE_HAS_MASK ? 64 * MASK_PARTS * 16 : 0,
    GROUP_PAIRS_BYTES = PLACES * (PLACE_BYTES + RAW_BYTES),
    PAIRS_BYTES = GROUPS * GROUP_PAIRS_BYTES
};

/* As many stages as the descriptor has found room for. */
constexpr int STAGES = (ATTUNE_SMEM_BYTES - 1024 - Q_STAGES * (int)tile_q_bytes - (int)PAIRS_BYTES) / (int)tile_bytes;

/* Whether O leaves through the copy engine, box by box, sixteen rows a warp: from the place of its queries, or from two
 * tiles that came before the job's last values, one for each group. The producer fills these again two and three tiles
 * later, the first values of the next job being the second at the earliest. */
constexpr bool boxes = dim_v % 16 == 0 && !ATTUNE_HAS_VARLEN;
constexpr bool boxed_by_queries = boxes && early && chunks_v <= chunks_qk;
constexpr bool boxed_by_tiles = boxes && !early && GROUPS == 2 && STAGES >= 5;
constexpr bool boxed = boxed_by_queries || boxed_by_tiles;
static_assert(!boxed_by_tiles || tile_bytes >= chunks_v * 64 * 128, "a group's rows of O in a tile of values");

struct alignas(1024) Shared {
    unsigned char q[Q_STAGES][tile_q_bytes];
    unsigned char tile[STAGES][tile_bytes];
#if PLACED
    unsigned char pairs[GROUPS][GROUP_PAIRS_BYTES];
#endif
    unsigned long long full[STAGES], empty[STAGES], full_q[Q_STAGES * Q_PARTS], empty_q[Q_STAGES * Q_PARTS];
    unsigned long long never;          /* nobody arrives here */
    unsigned long long stored;         /* O has left the tiles it went through */
    unsigned long long planned, taken; /* the next job: worked out, begun */
#if PLACED
    unsigned long long full_pairs[GROUPS * PLACES], empty_pairs[GROUPS * PLACES];
    unsigned all_seen[GROUPS * PLACES]; /* whether the mask hides nothing */
#endif
    job jobs[JOBS];
    queue jobs_to_do;
};

/* Where what consumers use begins. NOTE: NVRTC works out &shared.full[i] in 64 bits, and anew each time; base + place +
 * i * size in 32 are 30 of 500 instructions less in the loop over tiles. */
constexpr unsigned smem_q = 0, smem_tile = smem_q + Q_STAGES * tile_q_bytes;
constexpr unsigned smem_full = smem_tile + STAGES * tile_bytes + PAIRS_BYTES, smem_empty = smem_full + STAGES * 8;
constexpr unsigned smem_full_q = smem_empty + STAGES * 8, smem_empty_q = smem_full_q + Q_STAGES * Q_PARTS * 8;
constexpr unsigned smem_never = smem_empty_q + Q_STAGES * Q_PARTS * 8, smem_stored = smem_never + 8;
#if PLACED
constexpr unsigned smem_pairs = smem_full - PAIRS_BYTES, smem_full_pairs = smem_stored + 24;
constexpr unsigned smem_empty_pairs = smem_full_pairs + GROUPS * PLACES * 8;
constexpr unsigned smem_all_seen = smem_empty_pairs + GROUPS * PLACES * 8;
#endif
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(STAGES >= 3, "a tile of keys, one of values, and the next");
static_assert((GROUPS + 1) * 128 == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256 && BLOCK_M <= 256, "what boxes and products take");
static_assert(dim_qk % 8 == 0 && dim_v % 8 == 0 && ATTUNE_ALIGN % 16 == 0, "what tensor maps take");

/* Registers of a thread: together what the launch has given. */
constexpr bool irregular = ATTUNE_HAS_VARLEN || ATTUNE_HAS_SEQUSED || WINDOWED || PAIRED; /* for the producer */
constexpr int producer_registers = GROUPS == 3 ? 32 : irregular ? 40 : 24;
constexpr int consumer_registers = GROUPS == 3 ? 160 : irregular ? 232 : 240;

ATTUNE_INLINE unsigned address(const unsigned long long &barrier)
{
    return ptx_cvta_shared(&barrier);
}

ATTUNE_INLINE void init_barriers(Shared &shared)
{
    for (int i = 0; i < Q_STAGES * Q_PARTS; ++i) {
        ptx_mbarrier_init(address(shared.full_q[i]), 1);
        ptx_mbarrier_init(address(shared.empty_q[i]), boxed_by_queries ? 4 * GROUPS : GROUPS / Q_PARTS);
    }
    for (int i = 0; i < STAGES; ++i) {
        ptx_mbarrier_init(address(shared.full[i]), 1);
        ptx_mbarrier_init(address(shared.empty[i]), GROUPS);
    }
    ptx_mbarrier_init(address(shared.planned), 1);
    ptx_mbarrier_init(address(shared.taken), 1);
    ptx_mbarrier_init(address(shared.never), 1);
    ptx_mbarrier_init(address(shared.stored), 4 * GROUPS);
#if PLACED
    for (int i = 0; i < GROUPS * PLACES; ++i) {
        ptx_mbarrier_init(address(shared.full_pairs[i]), 32 * (BIAS_PLACED + ATTUNE_HAS_MASK));
        ptx_mbarrier_init(address(shared.empty_pairs[i]), 4);
    }
#endif
    ptx_fence_mbarrier_init();
}

#endif
