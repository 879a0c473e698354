/* The arms of a bench: read from a list of names, and made ready on one problem's inputs. */
#ifndef CLI_BENCH_ARMS_H
#define CLI_BENCH_ARMS_H

#include "library/workload.h"
#include "measure/order.h"
#include "worker/arms.h"

/* The arms of a list, at most; one more may be timed with them. */
enum { AT_LIST_ARMS_MAX = AT_ARMS_MAX - 1 };

/* Names as given; duplicates are allowed, for controls. */
typedef struct at_arm_names {
    int count;
    char *name[AT_LIST_ARMS_MAX]; /* as in worker/arms.h, but for what takes hooks */
} at_arm_names;

/* Splits "auto,NAME:A=1,B=2,openblas": a piece with a "=" and no ":" goes on with the arm before it. Unknown kernels
 * and parameters are refused. Free with at_arm_names_free, also after a failure. */
attune_status at_arm_names_read(const char *list, at_arm_names *names);
void at_arm_names_free(at_arm_names *names);

typedef enum at_entry_state {
    AT_ENTRY_READY,
    AT_ENTRY_REFUSED, /* it cannot run this problem here */
    AT_ENTRY_WRONG    /* its result broke the rules for numbers */
} at_entry_state;

/* One arm on one problem. */
typedef struct at_entry {
    at_entry_state state;
    char reason[512]; /* unless it is ready */
    attune_arm arm;
    at_binding binding; /* to the problem's inputs */
} at_entry;

/* A problem's inputs and the arms that run on them. */
typedef struct at_bench_setup {
    char problem_text[ATTUNE_PROBLEM_TEXT_MAX]; /* canonical */
    at_workload work;
    int count;
    at_entry entry[AT_LIST_ARMS_MAX];
} at_bench_setup;

/* Draws the inputs, makes each arm ready and judges its output. An arm's refusal or error is no failure of the setup;
 * what ends it is memory, an interrupt, or a device that broke. It must not be moved. */
attune_status at_bench_setup_open(attune_context *context, const at_test_problem *test, const at_arm_names *names,
                                  at_bench_setup *setup);
void at_bench_setup_close(at_bench_setup *setup);
/* Collects the arms that are ready, in order; returns how many. */
int at_bench_setup_ready(const at_bench_setup *setup, at_bound arms[AT_ARMS_MAX]);
/* Turns what an arm alone is to blame for into its state; returns the rest, which ends a setup. */
attune_status at_bench_blame(at_entry *entry, attune_status status);
/* Bytes of all tensors of the problem: what has to be read or written at least once. */
size_t at_bench_setup_bytes(const at_bench_setup *setup);

#endif
