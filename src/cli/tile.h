/* attune bench --tile: what one small product costs on a GPU. */
#ifndef CLI_TILE_H
#define CLI_TILE_H

#include "cli/cli.h"

/* The verb's work under --tile; returns its exit code. */
int at_bench_tile(const at_cli *cli);

/* Whether every one of the m x n results is the product of row-major q [m,d] and k [n,d] in fp16, as near as sums in
 * fp32 come whatever their order. */
bool at_tile_right(const uint16_t *q, const uint16_t *k, const float *result, int m, int n, int d);

#endif
