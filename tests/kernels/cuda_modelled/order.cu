/* The jobs of packed sequences in their order, as blocks come by them: at O of each its sequence's first row, its head,
 * row and keys, by number. Blocks go on by as many numbers as there are blocks; one, of a warp, does so for all. */
#include "device/packed_jobs.cuh"

extern "C" __global__ void order(const __grid_constant__ attune_args args)
{
    enum { BLOCKS = 7 };
    const int lane = (int)threadIdx.x % 32;
    for (int block = 0; block < BLOCKS; ++block) {
        packed_queue q = packed_queue_of<GROUPS * 64>(args, lane);
        for (int number = block; reach(args, q, number, lane); number += BLOCKS) {
            job j;
            job_at<GROUPS * 64, BLOCK_N>(args, q, number, lane, j);
            if (lane == 0) {
                int *to = static_cast<int *>(args.tensor[ATTUNE_O].data) + number * 4;
                to[0] = j.first_q, to[1] = j.head, to[2] = j.row, to[3] = j.keys;
            }
        }
    }
}
