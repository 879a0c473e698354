/* Whether racecheck follows barriers of parts of a block: compute-sanitizer --tool racecheck racecheck [LAUNCHES].
 *
 * Two parts of a block exchange words among themselves, each in as many rounds as it is asked for, with two meetings a
 * round. Then each thread writes its word, the whole block meets, and each thread reads a word of the other part. With
 * one barrier of the block or more nothing can go wrong, and the words are checked; with none it is a race, which the
 * tool has to report. docs/notes/ladder.md shows what it reports. */
#include <stdio.h>
#include <stdlib.h>

enum { PART = 64, THREADS = 2 * PART, BLOCKS = 64 };

static __device__ void meet(int part)
{
    asm volatile("barrier.sync %0, %1;" ::"r"(1 + part), "r"(PART) : "memory");
}

template <int barriers> __global__ void exchange(int *out, int first, int second)
{
    __shared__ int among[THREADS], word[THREADS];
    int part = (int)threadIdx.x / PART, rounds = part == 0 ? first : second, sum = 0;
    __syncthreads();
    for (int i = 0; i < rounds; ++i) {
        among[threadIdx.x] = i;
        meet(part);
        sum += among[threadIdx.x ^ 32];
        meet(part);
    }
    word[threadIdx.x] = (int)threadIdx.x + sum;
    if (barriers > 0) {
        __syncthreads();
    }
    if (barriers > 1) {
        __syncthreads();
    }
    out[blockIdx.x * THREADS + threadIdx.x] = word[threadIdx.x ^ PART];
}

/* What the parts' own exchange sums up to. */
static int sum_of(int rounds)
{
    return rounds * (rounds - 1) / 2;
}

/* Launches once and says how many words were not the other part's. */
static int wrong_words(int *device, int first, int second, int barriers)
{
    static void (*const kernels[])(int *, int, int) = {exchange<0>, exchange<1>, exchange<2>};
    static int host[BLOCKS * THREADS];
    int wrong = 0;
    kernels[barriers]<<<BLOCKS, THREADS>>>(device, first, second);
    if (cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError()));
        exit(1);
    }
    for (int i = 0; i < BLOCKS * THREADS; ++i) {
        int other = i % THREADS ^ PART;
        wrong += host[i] != other + sum_of(other < PART ? first : second);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    static const int cases[][3] = {{1, 1, 0}, {1, 1, 1}, {2, 2, 1}, {1, 0, 1}, {2, 1, 1}, {1, 0, 2}, {2, 1, 2},
                                   {2, 0, 1}, {2, 0, 2}, {4, 0, 2}, {0, 4, 2}, {8, 4, 2}, {16, 1, 2}};
    int launches = argc > 1 ? atoi(argv[1]) : 20, *device = NULL;
    cudaMalloc(&device, BLOCKS * THREADS * sizeof *device);
    for (const int *c : cases) {
        for (int i = 0; i < launches; ++i) {
            /* The tool's reports are between these two lines. */
            printf("launch %d %d %d\n", 2 * c[0], 2 * c[1], c[2]);
            fflush(stdout);
            printf("wrong %d\n", wrong_words(device, c[0], c[1], c[2]));
            fflush(stdout);
        }
    }
    return 0;
}
