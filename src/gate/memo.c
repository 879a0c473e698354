#include "gate/memo.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* All members are of one size, so that keys compare as bytes. */
typedef struct key {
    uint64_t problem, seed;
    int64_t family, gaps, far, acc16, wanted, tile;
} key;

typedef struct kept {
    key of;
    at_truth truth;
    struct kept *next;
} kept;

struct at_memo {
    kept *first;
    size_t bytes, most_bytes, found;
};

attune_status at_memo_create(size_t most_bytes, at_memo **memo)
{
    *memo = calloc(1, sizeof **memo);
    AT_FAIL_IF(*memo == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to keep references in");
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    size_t quarter = pages > 0 && page > 0 ? (size_t)pages / 4 * (size_t)page : 0;
    (*memo)->most_bytes = most_bytes > 0 ? most_bytes : quarter;
    return ATTUNE_OK;
}

void at_memo_destroy(at_memo *memo)
{
    while (memo != NULL && memo->first != NULL) {
        kept *next = memo->first->next;
        at_truth_free(&memo->first->truth);
        free(memo->first);
        memo->first = next;
    }
    free(memo);
}

static const kept *find(const at_memo *memo, const key *of)
{
    const kept *at = memo->first;
    while (at != NULL && memcmp(&at->of, of, sizeof *of) != 0) {
        at = at->next;
    }
    return at;
}

/* Computes a truth and keeps it. */
static attune_status keep(at_memo *memo, const key *of, at_pool *pool, const at_inputs *inputs,
                          const at_truth_want *want, const kept **made)
{
    kept *one = calloc(1, sizeof *one);
    AT_FAIL_IF(one == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to keep a reference in");
    attune_status status = at_truth_compute(pool, inputs, want, &one->truth);
    if (status != ATTUNE_OK) {
        at_truth_free(&one->truth);
        free(one);
        return status;
    }
    one->of = *of;
    one->next = memo->first;
    memo->first = one;
    memo->bytes += at_truth_bytes(&one->truth);
    *made = one;
    return ATTUNE_OK;
}

attune_status at_memo_truth(at_memo *memo, at_pool *pool, const at_inputs *inputs, const at_truth_want *want,
                            at_truth *truth)
{
    memset(truth, 0, sizeof *truth);
    if (memo == NULL) {
        return at_truth_compute(pool, inputs, want, truth);
    }
    const at_draw *draw = &inputs->draw;
    const key of = {attune_problem_hash(&inputs->problem),
                    draw->seed,
                    (int64_t)draw->family,
                    draw->gaps,
                    draw->far,
                    want->acc16,
                    want->wanted,
                    want->tile};
    const kept *one = find(memo, &of);
    if (one == NULL && memo->bytes >= memo->most_bytes) {
        return at_truth_compute(pool, inputs, want, truth);
    }
    memo->found += one != NULL;
    if (one == NULL) {
        AT_FORWARD(keep(memo, &of, pool, inputs, want, &one));
    }
    at_truth_view(&one->truth, inputs, truth);
    return ATTUNE_OK;
}

size_t at_memo_found(const at_memo *memo)
{
    return memo->found;
}
