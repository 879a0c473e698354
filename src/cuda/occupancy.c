#include "cuda/occupancy.h"

enum {
    WARP = 32,
    PARTITIONS = 4,        /* of a multiprocessor; a warp's registers come from one of them */
    REGISTERS_UNIT = 256,  /* that a warp is given */
    SMEM_UNIT = 128,       /* that a block is given */
    SMEM_RESERVED = 1024,  /* of each block, for the system, since sm_80 */
    REGISTERS_THREAD = 255 /* at most */
};

/* NOTE: resident blocks are not among attune_target's figures; these are the CUDA guide's. */
static int32_t blocks_most(int32_t arch)
{
    return arch == 86 || arch == 87 ? 16 : arch == 89 || arch / 10 == 12 ? 24 : 32;
}

static int32_t round_up(int32_t value, int32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* NOTE: whether a block may run at all is judged as if all partitions held equally many of its warps; how many run at
 * once is not. */
static int32_t by_registers(const attune_target *target, int32_t warps, int32_t registers)
{
    int32_t warp = round_up(registers * WARP, REGISTERS_UNIT);
    if (registers <= 0) {
        return INT32_MAX;
    }
    if (registers > REGISTERS_THREAD || warp * round_up(warps, PARTITIONS) > target->regs_sm) {
        return 0;
    }
    return target->regs_sm / PARTITIONS / warp * PARTITIONS / warps;
}

at_occupancy at_occupancy_of(const attune_target *target, int32_t threads, int32_t registers, int32_t smem_bytes)
{
    static const char *const name[] = {"threads", "blocks", "registers", "shared memory"};
    at_occupancy result = {0, 0.0, name[0]};
    if (threads <= 0 || smem_bytes < 0 || smem_bytes > target->smem_optin_bytes) {
        result.limit = threads <= 0 ? name[0] : name[3];
        return result;
    }
    int32_t warps = (threads + WARP - 1) / WARP;
    const int32_t most[] = {target->threads_sm / WARP / warps, blocks_most(target->arch),
                            by_registers(target, warps, registers),
                            target->smem_sm_bytes / round_up(smem_bytes + SMEM_RESERVED, SMEM_UNIT)};
    result.blocks = most[0];
    for (int i = 1; i < 4; ++i) {
        if (most[i] < result.blocks) {
            result.blocks = most[i];
            result.limit = name[i];
        }
    }
    result.share = target->threads_sm < WARP ? 0.0 : (double)(result.blocks * warps) / (target->threads_sm / WARP);
    return result;
}
