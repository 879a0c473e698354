/* What recorded races say of wgmma's configs, as bench/hopper_table.py prints it from bench/results/hopper_arms.tsv.
 *
 * Tables end with a row of zeros. A class is of head dims up to 64, 96, 128 or 256, with a causal mask or without. */
#ifndef KERNELS_CUDA_WGMMA_TABLE_H
#define KERNELS_CUDA_WGMMA_TABLE_H

#include <stdint.h>

/* us that a tile of keys and a job besides take. */
typedef struct wgmma_pace {
    int32_t dim, causal, groups, block_n, q_stages, ahead;
    float tile, job;
} wgmma_pace;

/* What tiles and jobs take more without turns, and the whole with a counter: shares, and us. */
typedef struct wgmma_effect {
    int32_t dim, causal, groups; /* dim: the class's */
    float tile, job, whole, besides;
} wgmma_effect;

enum { WGMMA_CANDIDATES = 20, NA = INT16_MIN };

typedef struct wgmma_config {
    int32_t groups, block_n, q_stages, pingpong, scheduler, ahead;
} wgmma_config;

/* The configs of a class that were raced often. */
typedef struct wgmma_candidates {
    int32_t dim, causal, count;
    wgmma_config config[WGMMA_CANDIDATES];
} wgmma_candidates;

enum { WGMMA_AXES = 3 };

/* A problem that was raced. */
typedef struct wgmma_raced {
    int32_t dim, causal;              /* its class */
    float place[WGMMA_AXES];          /* log2 of keys, of jobs a multiprocessor, of the head dim; weighted */
    int16_t slower[WGMMA_CANDIDATES]; /* than the model says, permille; NA: not known */
} wgmma_raced;

/* How the model and the rows are weighed (bench/hopper_table.py says what each is). */
typedef struct wgmma_weights {
    double busiest, near, keys, jobs, worth, turns;
    int32_t simulated;
} wgmma_weights;

extern const wgmma_weights at_wgmma_model;
extern const wgmma_pace at_wgmma_paces[];
extern const wgmma_effect at_wgmma_effects[];
extern const wgmma_candidates at_wgmma_classes[];
extern const wgmma_raced at_wgmma_races[];

#endif
