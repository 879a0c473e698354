/* The engine: finds the fastest config of a kernel on each of several problems, has the gate prove what it found, and
 * teaches the planner. Everything that touches a device or compiles happens in worker processes. docs/evolve.md is the
 * guide. */
#ifndef EVOLVE_ENGINE_H
#define EVOLVE_ENGINE_H

#include "evolve/search.h"
#include "gate/gate.h"
#include "library/wisdom.h"

/* Configs of a search's result; "" where there is none. */
typedef struct at_found_texts {
    const char *winner, *opponent, *author;
} at_found_texts;

/* Called when something happens; any of them may be NULL. */
typedef struct at_evolve_watch {
    void *self;
    void (*problem)(void *self, const char *problem, const at_space *space, const char *champion, const char *from);
    void (*found)(void *self, const at_search_result *result, const at_found_texts *texts);
    void (*top)(void *self, int place, const char *config, double us, double score);
    void (*wisdom)(void *self, const at_wisdom_row *row, const char *why_not); /* NULL: it was added */
    at_search_watch search; /* of every search; its self is its own */
    at_gate_watch gate;     /* of what follows */
} at_evolve_watch;

typedef struct at_evolve_options {
    const char *kernel; /* a name; with :PARAM=VALUE,... those stay as they are */
    const char *one;    /* "NAME:PARAM=VALUE,...": this config alone, instead of a search; or NULL */
    const at_test_problem *problem;
    int problem_count;
    const char *strategy; /* NULL: the default */
    at_fitness fitness;
    double budget_s;    /* 0: none. Of each problem's search, the final and the gate not included */
    int budget_runs;    /* 0: none */
    const char *budget; /* as it was given, for the ledger */
    bool exhaustive;
    bool refresh;       /* no search: a short race among what is known, of many problems */
    const char *ledger; /* a file, or of several problems a directory; NULL: none is kept */
    bool resume;
    const char *wisdom; /* a file to read, and to add proven rows to; NULL: none */
    const char *seeds;  /* the file of the micro-benchmark; NULL: in the user's cache; "none": there is none */
    bool prove;         /* have the gate judge the winners */
    /* How it judges them, and where everything runs. Without peers: against the second best. The seed is the strategy's
     * too, the limit that of the whole run. Candidates, problems, wisdom and the watch are not read here. */
    at_gate_options gate;
    at_evolve_watch watch;
} at_evolve_options;

typedef struct at_evolve_result {
    bool begun;                 /* what is asked for can be: names, ledgers and places were found fit */
    int gains, no_gains, voids; /* searches by their ends */
    int right, wrong, unproven; /* verdicts: right; not; inconclusive, or none where one was wanted */
    int slower;                 /* right ones that are not faster than a peer that was asked for by name */
    int refused;                /* problems that the kernel does not support */
    int known;                  /* problems whose ledger had its end already */
    int left;                   /* problems that the limit left over */
    int rows;                   /* of wisdom */
    int exit_code;              /* of these */
} at_evolve_result;

/* ATTUNE_OK when the engine ran, whatever it found. Errors are the caller's, the machine's, or ATTUNE_INTERRUPTED. */
attune_status at_evolve_run(const at_evolve_options *options, at_evolve_result *result);

/* The first that holds: 1 something is wrong, 3 nothing could run, 4 void, unproven or left over, 1 something is slower
 * than a peer, 0 fine. */
int at_evolve_exit_code(const at_evolve_result *result);

#endif
