/* The cases of a suite: case i of a problem depends on (problem, seed, i) alone. */
#ifndef JUDGE_CASES_H
#define JUDGE_CASES_H

#include "core/problem.h"
#include "reference/inputs.h"

/* Above this much work a problem is checked at its exact size 4 times in 100 instead of 40, the other cases having its
 * features at lengths below AT_SMALL_FLOPS, and not every row is compared with the fp64 reference. */
#define AT_BIG_FLOPS 20e9
#define AT_SMALL_FLOPS 2e9
/* Above so many elements of K and V likewise, which then take longer to draw and to look at than all else; each row is
 * compared. */
#define AT_BIG_KEYS 1e8
#define AT_SMALL_KEYS 3e7

/* What a case is there for. */
typedef enum at_stratum {
    AT_STRATUM_EXACT = 0, /* the problem itself */
    AT_STRATUM_EDGES,     /* lengths 1, tile - 1, tile, tile + 1, primes */
    AT_STRATUM_UNEVEN,    /* seqlen_q > seqlen_kv, and far apart */
    AT_STRATUM_HEADS,     /* other batches and groups of heads */
    AT_STRATUM_LAYOUT,    /* the other layout */
    AT_STRATUM_FAR,       /* offsets over 2^31 */
    AT_STRATUM_MASK,      /* causal, offsets, windows, boolean masks */
    AT_STRATUM_FEATURE,   /* softcap, bias, ALiBi, sink, scale */
    AT_STRATUM_LENGTHS,   /* seqused_kv, packed sequences, empty ones */
    AT_STRATUM_SMALLER,   /* the problem's own plan, called for less than it was made for */
    AT_STRATUM_LONG,      /* a few rows over thousands of keys, whatever the problem's length */
    AT_STRATUM_COUNT
} at_stratum;

const char *at_stratum_name(at_stratum stratum);

typedef struct at_gate_case {
    int64_t index;
    attune_problem problem; /* of the call */
    attune_problem planned; /* that the plan is made for: the same, or one of larger sizes */
    at_draw draw;
    at_stratum stratum;
} at_gate_case;

/* Whether few cases are of the problem's own size. */
bool at_case_big(const attune_problem *problem);
/* The problem is valid; so is the case's. Index 0 is an exact one. */
void at_case_make(const at_test_problem *test, uint64_t seed, int64_t index, at_gate_case *one);
/* Of a kernel that declares sums in fp16: every fourth case has inputs whose sums fp16 carries exactly, or nearly so.
 * The tolerance, which follows what such sums cost, is narrow there: no other error hides behind the declaration. */
void at_case_make_acc16(at_gate_case *one);

#endif
