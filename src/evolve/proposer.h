/* A proposer: any command that reads a task and answers with a changed kernel. For each proposal it has a private
 * folder:
 *
 *     task.md        the task, on its standard input too
 *     request.json   the same for programs
 *     candidate/     the parent's sources, to be edited in place
 *     parents/ docs/ what it may read
 *     log/           of the last failure, where there was one
 *     bin/attune-try compiles candidate/, checks public cases and times roughly; every call is counted
 *
 * It answers by editing candidate/, by files in fences or one unified diff on standard output (proposer_answer.h), and
 * ends with 0; with 3 where it has nothing to propose. Whatever else it does is a failure of that one proposal. Its
 * processes are ended with it. docs/proposers.md is the guide. */
#ifndef EVOLVE_PROPOSER_H
#define EVOLVE_PROPOSER_H

#include "base/scratch.h"
#include "evolve/proposer_answer.h"
#include "evolve/trial.h"
#include "stranger/jail.h"

enum { AT_PROPOSER_WHY_MAX = 480, AT_PROPOSER_OUTPUT_MAX = 8 << 20, AT_PROPOSER_TRIES = 20 };

/* One more file that the folder has, by its relative name: "docs/kernels.md". */
typedef struct at_proposer_extra {
    const char *name, *text;
} at_proposer_extra;

/* What is asked for. */
typedef struct at_proposal_request {
    int number;          /* from 1, in its arm: who draws by it draws alike for the engine and its controls */
    bool repair;         /* of the parent, rather than a change */
    bool anew;           /* another way of doing it */
    const char *task;    /* task.md */
    const char *request; /* request.json */
    const at_sources *parent;
    const at_sources *other, *base; /* of a cross: the other parent, and what both came from; else NULL */
    const at_proposer_extra *extra; /* ends with a NULL name; NULL: none */
    const at_trials *trials;        /* what changes by rules did before; NULL: who draws by rules knows nothing */
    bool (*is_new)(const void *self, const at_sources *sources); /* whether nobody proposed these; NULL: not known */
    const void *is_new_self;
    double seconds; /* that it may take */
} at_proposal_request;

typedef enum at_proposed {
    AT_PROPOSED = 0,     /* the sources are there, and differ from the parent's */
    AT_PROPOSED_NOTHING, /* it said that it has nothing to propose */
    AT_PROPOSED_SAME,    /* it answered with the parent */
    AT_PROPOSED_FAILED   /* it failed, or its answer is none */
} at_proposed;

/* "proposed", "nothing", "same", "failed"; ends with NULL. */
extern const char *const at_names_of_proposed[];

/* What came of it. Release with at_proposal_reply_free. */
typedef struct at_proposal_reply {
    at_proposed proposed;
    char why[AT_PROPOSER_WHY_MAX]; /* of a failure; "" else */
    at_sources sources;            /* where it proposed */
    at_answer_facts facts;
    int64_t bytes_in, bytes_out; /* of the task and of the answer: what tokens are reckoned from where nobody counts */
    int tries;                   /* of attune-try, refused ones too */
    double seconds;              /* that it took */
} at_proposal_reply;

void at_proposal_reply_free(at_proposal_reply *reply);

/* Who is asked. */
typedef struct at_proposer {
    void *self;
    /* ATTUNE_OK whatever the proposer did; errors are this machine's, or ATTUNE_INTERRUPTED. */
    attune_status (*ask)(void *self, const at_proposal_request *request, at_proposal_reply *reply);
} at_proposer;

/* Looks at a candidate for attune-try: a few lines for the proposer. */
typedef attune_status (*at_try_of)(void *self, const at_sources *candidate, at_text *answer);

/* A command. */
typedef struct at_command_proposer {
    const char *command; /* for sh -c, in the folder */
    const char *env;     /* names of the environment's variables that it has, commas between; NULL: none */
    at_jail jail;
    const char *const *run_command; /* what runs `propose FOLDER JAIL COMMAND`; ends with NULL: attune sandbox */
    at_try_of look;                 /* NULL: there is no attune-try */
    void *look_self;
    const char *allow;  /* words that are let through when it looks; NULL: none */
    int tries_max;      /* calls of attune-try in one proposal */
    double try_pause_s; /* between the end of one and the next */
} at_command_proposer;

/* `command` must outlive it. */
at_proposer at_proposer_of_command(at_command_proposer *command);

/* Whether what is asked of a command can be had here: a jail. */
attune_status at_command_proposer_check(const at_command_proposer *command);

#endif
