/* Targets and their text forms. */
#ifndef CORE_TARGET_H
#define CORE_TARGET_H

#include "attune/kernel.h"

#define AT_TARGET_TEXT_MAX 160

/* The exact target, key of wisdom: "cpu/AMD_EPYC_7B13/avx2,threads=2", "cuda/NVIDIA_H200/90a,sm=132,driver=13000,
 * compiler=13000" (in one piece). */
void at_target_print(const attune_target *target, char text[AT_TARGET_TEXT_MAX]);
/* Whether what is fast on one target is so on the other, by their texts. Devices: of the same model, their first two
 * parts are equal. CPUs: besides of the same tier and as many threads, for tiles are chosen by both. */
int at_target_alike(const char *a, const char *b);
/* How far apart devices of one architecture are, by their texts: by so many multiprocessors; -1 where they are no
 * relatives, being of another architecture, CPUs, or apart by more than a tenth. */
int at_target_distance(const char *a, const char *b);
const char *at_isa_name(attune_isa isa);
/* Reads "baseline", "avx2", "avx512", "avx512_bf16" or "amx". */
attune_status at_isa_parse(const char *text, attune_isa *isa);
/* Reads "cpu", "cuda" or "cuda:N" (device 0 if not given; -1 for cpu). */
attune_status at_target_parse(const char *text, attune_target_kind *kind, int *device);

#endif
