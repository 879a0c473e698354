/* Whether racecheck follows barriers of parts of a block: compute-sanitizer --tool racecheck racecheck [LAUNCHES].
 *
 * Two parts of a block meet among themselves, each as often as it is told; then each thread writes its word, the whole
 * block meets, and each thread reads a word of the other part. With one barrier of the block or more nothing can go
 * wrong, and the words are checked; with none it is a race, which the tool has to report. docs/ladder.md shows what it
 * reports. */
#include <stdio.h>
#include <stdlib.h>

enum { PART = 64, THREADS = 2 * PART, BLOCKS = 64 };

__global__ void meet(int *out, int first, int second, int barriers)
{
    __shared__ int word[THREADS];
    int part = (int)threadIdx.x / PART;
    for (int i = 0; i < (part == 0 ? first : second); ++i) {
        asm volatile("barrier.sync %0, %1;" ::"r"(1 + part), "r"(PART) : "memory");
    }
    word[threadIdx.x] = (int)threadIdx.x;
    for (int i = 0; i < barriers; ++i) {
        __syncthreads();
    }
    out[blockIdx.x * THREADS + threadIdx.x] = word[threadIdx.x ^ PART];
}

/* Launches once and says how many words were not the other part's. */
static int wrong_words(int *device, int first, int second, int barriers)
{
    static int host[BLOCKS * THREADS];
    int wrong = 0;
    meet<<<BLOCKS, THREADS>>>(device, first, second, barriers);
    if (cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError()));
        exit(1);
    }
    for (int i = 0; i < BLOCKS * THREADS; ++i) {
        wrong += host[i] != (i % THREADS ^ PART);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    static const int cases[][3] = {{1, 1, 0}, {1, 1, 1}, {2, 2, 1}, {1, 0, 1}, {2, 1, 1}, {1, 0, 2}, {2, 1, 2}};
    int launches = argc > 1 ? atoi(argv[1]) : 20, *device = NULL;
    cudaMalloc(&device, BLOCKS * THREADS * sizeof *device);
    for (const int *c : cases) {
        for (int i = 0; i < launches; ++i) {
            /* The tool's reports stand between these two lines. */
            printf("launch %d %d %d\n", c[0], c[1], c[2]);
            fflush(stdout);
            printf("wrong %d\n", wrong_words(device, c[0], c[1], c[2]));
            fflush(stdout);
        }
    }
    return 0;
}
