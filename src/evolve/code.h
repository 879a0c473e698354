/* The search for code: a proposer changes sources, and what it answers is compiled, checked, tuned, raced against the
 * champion, and at the end proven by the gate. Its course is a function of its options, of what proposers answered and
 * of what the machine said; all of it is in the ledger, so that a run can be resumed, and gone through again without
 * machine and proposer. docs/proposers.md is the guide. */
#ifndef EVOLVE_CODE_H
#define EVOLVE_CODE_H

#include "evolve/code_lineage.h"
#include "evolve/ledger.h"
#include "evolve/proposer.h"

/* How much a task says: the task and the code; what was tried, and what limits it; both, and everybody's ideas. */
typedef enum at_task_level { AT_TASK_FREE = 0, AT_TASK_INSIGHT, AT_TASK_FULL } at_task_level;

/* "free", "insight", "full"; ends with NULL. */
extern const char *const at_names_of_levels[];

/* One source as the machine takes it. */
typedef struct at_code_side {
    int id;
    const at_sources *sources;
    const char *config; /* "PARAM=VALUE,..." */
} at_code_side;

/* Everything that the search asks of the machine. `id`s are set by who asks. Functions fail for reasons that are no
 * source's; what a source did wrong is in what they fill in. */
typedef struct at_code_machine {
    void *self;
    attune_status (*make)(void *self, const at_code_side *side, at_event_made *made);
    /* `config` is where its search begins, if the source has it. */
    attune_status (*tune)(void *self, const at_code_side *side, int runs, at_event_tuned *tuned);
    attune_status (*duel)(void *self, const at_code_side *side, const at_code_side *champion, int round,
                          at_event_duel *duel);
    /* All of them in fresh processes, on inputs that no race had; the first is what the others are held against. */
    attune_status (*final)(void *self, const at_code_side *side, int count, at_event_last *last);
    attune_status (*prove)(void *self, const at_code_side *winner, const at_code_side *first, at_event_gate *gate);
    double (*seconds)(void *self);
} at_code_machine;

/* What proposers may cost, all arms by themselves; 0: no limit. */
typedef struct at_code_budget {
    int proposals;
    double seconds, usd, tokens; /* the proposer's own */
    double all_s;                /* of proposer and machine together */
    double each_s;               /* for one proposal */
} at_code_budget;

/* How sources race: for longer while one seems faster, and by the shorter of two samples. */
void at_code_race_policy(at_race_policy *policy, uint64_t seed);

/* Called when something happens; may be NULL. */
typedef struct at_code_watch {
    void *self;
    void (*event)(void *self, const at_event *event, const at_lineage *lineage);
} at_code_watch;

/* What the task says that does not change. */
typedef struct at_code_about {
    const char *problems; /* one a line, as texts */
    const char *target;
    const char *machine;            /* roof and what else is known of it, sentences; "" for none */
    double roof_us;                 /* of the first problem; 0: not known */
    const char *device;             /* facts for level full; "" for none */
    const at_proposer_extra *extra; /* files for docs/; ends with a NULL name; NULL: none */
    bool cuda;
} at_code_about;

typedef struct at_code_options {
    at_event_start start; /* the ledger's first line */
    const at_sources *first;
    at_code_about about;
    at_task_level level;
    at_code_budget budget;
    int tune_runs;      /* measurements for each source */
    bool controls;      /* run the arms that the engine is held against, too */
    bool no_repairs;    /* the proposer is not asked for any, but for more precision where that was given away */
    bool keep_comments; /* in parents/ */
    bool prove;
    const char *allow; /* words that at_sources_scan lets through */
    double limit_s;    /* nothing is begun that would end later, by the machine's clock; 0: no limit */
    uint64_t seed;
    const char *folder; /* of ledger and answers; NULL: nothing is kept */
    bool resume;
    const char *replay; /* a folder whose run is gone through again: neither machine nor proposer are asked */
    at_proposer proposer;
    at_code_machine machine;
    at_code_watch watch;
} at_code_options;

/* Finalists that the gate is asked about, one after the other, until it calls one not wrong. */
enum { AT_CODE_GATES_MAX = 3 };

typedef struct at_code_result {
    int proposals[AT_ARM_COUNT], verdicts[AT_CODE_NONE + 1];
    int tries;
    int champion[AT_ARM_COUNT]; /* ids */
    int winner;                 /* of the final; 0: the first source stays */
    double gain;                /* the first source's time / the winner's, in the final; 1 where it stays */
    double gain_low, gain_high;
    double gain_of[AT_ARM_COUNT]; /* each arm's best in the final, likewise; 0: it had none there */
    /* The time of each arm's best / the engine's best's, process by process of the final; 0s: one of them had none. */
    at_interval beside[AT_ARM_COUNT];
    char config[AT_KERNEL_TEXT_MAX];
    bool unfinished;    /* the limit came: a run that has a folder can be gone on with */
    int refuted;        /* finalists that the gate called wrong, each of them the best until then */
    bool proven, wrong; /* the gate's last word: on the winner; wrong: on the last of those, and there is no winner */
    bool replayed;      /* to the end, and every decision was the recorded one */
    char why[AT_CODE_WHY_MAX];
} at_code_result;

/* ATTUNE_OK however it ended. `winner`, which may be NULL, receives the winner's sources (at_sources_free). */
attune_status at_code_run(const at_code_options *options, at_code_result *result, at_sources *winner);

/* The file of a run's ledger in its folder; of an answer, by its digest. */
void at_code_ledger_path(const char *folder, char *path, size_t bytes);
attune_status at_code_answer_read(const char *folder, const char *digest, at_sources *sources);
attune_status at_code_answer_write(const char *folder, const char *digest, const at_sources *sources);

/* ---- The task (code_task.c) ---------------------------------------------------------------------------------------
 */

typedef struct at_task {
    const at_code_about *about;
    at_task_level level;
    const at_lineage *lineage;
    at_code_arm arm; /* whose proposals it tells of */
    at_next next;
    int number, proposals; /* this one of so many */
    double seconds;        /* that this one may take */
} at_task;

/* task.md, and request.json. */
attune_status at_task_print(const at_task *task, at_text *text);
attune_status at_task_request(const at_task *task, at_text *text);

#endif
