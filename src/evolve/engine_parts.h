/* What the files of the engine share. */
#ifndef EVOLVE_ENGINE_PARTS_H
#define EVOLVE_ENGINE_PARTS_H

#include "base/threads.h"
#include "evolve/engine.h"
#include "stranger/stranger.h"

/* Searched before the gate judges them together, so that they share its processes: some, or as many as are refreshed.
 */
enum { AT_CELLS_SOME = 6, AT_CELLS_MAX = 64 };

/* One problem: its search, and what follows. */
typedef struct at_cell {
    const at_test_problem *test;
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    at_space *space;
    at_measurer *measurer; /* while it is searched */
    at_ledger *ledger;
    at_ledger_log *before;
    at_search_result result;
    bool searched;
    char winner[AT_KERNEL_TEXT_MAX], opponent[AT_KERNEL_TEXT_MAX], author[AT_KERNEL_TEXT_MAX]; /* "" where there is
                                                                                                  none */
    bool judged;
    bool left; /* the gate had no time for it: its ledger has no end yet */
} at_cell;

typedef struct at_engine {
    const at_evolve_options *options;
    at_evolve_result *result;
    at_found_kernel found;
    const attune_kernel *kernel;    /* its */
    char text[AT_KERNEL_TEXT_MAX];  /* what was named, without parameters: its name, or its folder */
    char fixed[AT_KERNEL_TEXT_MAX]; /* parameters that stay as they are, settled: "PARAM=VALUE,..."; "" for none */
    attune_target target;
    char target_text[AT_TARGET_TEXT_MAX];
    at_remote_options worker;
    at_pool *pool;
    at_compilers *compilers;                         /* NULL on a CPU */
    attune_context *planner;                         /* for the target, which it does not open */
    char learned[AT_CELLS_SOME][AT_KERNEL_TEXT_MAX]; /* the last winners of this call */
    int learned_count;
    double began_s;
} at_engine;

/* Seconds since the engine began. */
double at_engine_seconds(const at_engine *on);
void at_engine_note(const at_engine *on, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What to begin a cell's search with: what the planner would take now, where that is this kernel's, the winners of the
 * problems before it, the micro-benchmark's, and the kernel's own order. `chosen` is the planner's choice, whatever
 * kernel's. */
attune_status at_engine_seeds(at_engine *on, const at_cell *cell, at_seed *seed, int *count,
                              char chosen[AT_KERNEL_TEXT_MAX]);
/* What a file of the micro-benchmark knows a cell by. */
struct at_micro_key;
void at_engine_micro_key(const at_engine *on, const at_cell *cell, struct at_micro_key *key);
/* The digest of the kernel's own file, of a folder all files; what it includes is in the digests of builds. */
void at_engine_source(const at_engine *on, char digest[AT_DIGEST_TEXT_MAX]);
/* A config's text as the gate takes it: that of a folder's kernel begins with the folder. In place. */
void at_engine_named(const at_engine *on, char text[AT_KERNEL_TEXT_MAX]);
/* Candidates that are raced together: many share the champion's samples, few let a strategy learn sooner. */
int at_engine_batch(const at_engine *on);
/* Whether a problem's ledger can be begun, or gone on with: asked before the first of the searches. */
attune_status at_engine_check_ledger(const at_engine *on, const at_test_problem *test);
/* Opens or resumes a problem's ledger, where one is wanted. *ended: its search is over. */
attune_status at_engine_open_ledger(const at_engine *on, at_cell *cell, bool *ended);
/* Whether what the micro-benchmark finds can be kept where the caller wants it. */
attune_status at_engine_check_micro(const at_engine *on);
/* Searches one problem. */
attune_status at_engine_search(at_engine *on, at_cell *cell);
/* Has the gate judge the winners of the cells, adds rows of wisdom, and ends their ledgers. */
attune_status at_engine_prove(at_engine *on, at_cell *cells, int count);

#endif
