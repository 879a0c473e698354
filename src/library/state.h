/* What is behind a context's handle; for the files of this room and their tests only. */
#ifndef LIBRARY_STATE_H
#define LIBRARY_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/fork.h"
#include "core/config.h"
#include "library/catalogue.h"
#include "library/context.h"
#include "library/lookup.h"
#include "library/wisdom.h"
#include "measure/clock.h"

/* What a context is assembled from. Tests bring their own devices, kernels and clocks. */
typedef struct at_parts {
    at_pool *pool;                       /* these two then belong to the context, */
    at_device *device;                   /* even where assembling fails */
    const attune_kernel *const *kernels; /* in order of preference, ends with NULL; outlives the context */
    at_clock clock;
} at_parts;

/* A kernel that plans are held to. */
typedef struct at_named {
    const attune_kernel *kernel; /* NULL: plans are free */
    char *params;                /* "PARAM=VALUE,...", maybe empty */
} at_named;

/* Lock order: planning, then lock. */
struct attune_context {
    at_parts parts;
    char *target_text;
    at_named named;
    at_wisdom *shipped; /* what is built in; never written to files */
    size_t skipped;

    pthread_mutex_t planning; /* one thread chooses, races or loads at a time */
    pthread_rwlock_t lock;    /* guards everything below */
    at_wisdom *wisdom;        /* read and measured rows */
    at_lookup *choices;       /* at_key -> at_choice */
    at_lookup *loaded;        /* at_load_key -> at_resident */
    at_lookup *variants;      /* at_variants_key -> at_plan_choices */
    atomic_int changes;       /* of what is known: wisdom read */
    char **failure;           /* for each of parts.kernels: its first failure, or NULL */
    at_fork_watch watch;
};

attune_status at_context_assemble(const at_parts *parts, attune_context **context);
/* Holds plans to a kernel; before the context is shared. `from` is the option or variable that asked for it. */
attune_status at_context_name(attune_context *context, const char *from, const char *kernel_text);

/* The static part of a problem and its buckets: as much as its class says, without text. All members are of one size,
 * so that there is no padding and keys compare as bytes. */
typedef struct at_key {
    int64_t shape[5];  /* op, dtypes, head_dim_qk, head_dim_v, heads_q / heads_kv */
    int64_t form[5];   /* layout, bias, align in effect, offset kind, ATTUNE_FEATURE_ bits */
    int64_t cache[2];  /* page_size, states as a bucket */
    int64_t bucket[5]; /* window left and right, batch * heads_q, seqlen_q, seqlen_kv; the last three are 0 in keys of
                          loaded kernels */
} at_key;

void at_key_fill(at_key *key, const attune_problem *problem);

/* What a caller asks of a plan. */
typedef struct at_wanted {
    int32_t effort;   /* attune_effort */
    uint32_t avoided; /* ATTUNE_TRAIT_ bits */
} at_wanted;

typedef struct at_choice {
    const attune_kernel *kernel;
    attune_config config;
    at_origin origin;
} at_choice;

typedef struct at_load_key {
    at_key key; /* buckets zero */
    const attune_kernel *kernel;
    attune_config config;
} at_load_key;

/* Kernels loaded for one key. There is more than one only where a descriptor's steps depend on sizes that it should
 * have left to terms: such plans must not share. */
typedef struct at_resident {
    at_loaded *loaded;
    attune_term workspace; /* as the descriptor asked; a target may have added to what loaded->resources needs */
    struct at_resident *next;
} at_resident;

/* Finds the loaded kernel, or loads it. With `may_load` false: *loaded is NULL where it is not there yet. Call without
 * the lock; with `planning` held where it may load. */
attune_status at_residents_get(attune_context *context, const attune_problem *problem, const attune_kernel *kernel,
                               const attune_config *config, bool may_load, const at_loaded **loaded);
void at_residents_free(at_lookup *table);

/* By wisdom: false where it knows nothing that can be used. With `planning` held. */
bool at_choose_by_wisdom(attune_context *context, const attune_problem *problem, uint32_t avoided, at_choice *choice);
/* By wisdom or, unless the effort is only that, by the kernels' heuristics; nothing is raced, and the choice is not
 * remembered. With `planning` held. */
attune_status at_choose_unraced(attune_context *context, const attune_problem *problem, const at_wanted *want,
                                at_choice *choice);

/* All of one size, so that keys compare as bytes. */
typedef struct at_variants_key {
    at_key key;
    /* batch, heads_q, seqlen_q, seqlen_kv; whether wisdom alone; what is loaded for those sizes; `changes` */
    int64_t size[7];
} at_variants_key;

/* What a plan of this problem, for whose own sizes `loaded` was chosen, has for shorter calls; NULL where that is the
 * same, or may not be another. The context keeps it for all plans that are alike. Call without locks. */
attune_status at_variants_get(attune_context *context, const attune_problem *problem, const at_wanted *want,
                              const at_loaded *loaded, const at_plan_choices **variants);
/* Bytes of workspace for every call. */
size_t at_variants_workspace(const at_plan_choices *variants);

/* The kernel and parameters of "NAME[:PARAM=VALUE,...]", checked. */
attune_status at_named_read(const attune_context *context, const char *text, const attune_kernel **kernel,
                            const char **params);
/* Whether the kernel is for this kind of target. */
bool at_is_for(const attune_kernel *kernel, const attune_target *target, attune_reason *reason);
/* Whether it has none of the ATTUNE_TRAIT_ bits that are to be avoided. */
bool at_keeps_demands(const attune_kernel *kernel, uint32_t avoided, attune_reason *reason);
/* A kernel the planner may choose by itself: of the context's target, without the ATTUNE_TRAIT_ bits to be avoided, and
 * not reserved for those who name it. */
bool at_eligible(const attune_context *context, const attune_kernel *kernel, uint32_t avoided, attune_reason *reason);
/* ATTUNE_OK where a kernel that is eligible could run the problem; else why the last one asked could not. */
attune_status at_supports_any(const attune_context *context, const attune_problem *problem, uint32_t avoided);
/* The first heuristic config that fits. False, with the reason of the first that does not, if none does. */
bool at_first_fitting(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                      attune_config *config, attune_reason *reason);
/* Remembers the thread's detail as the kernel's failure, if it is its first. */
void at_remember_failure(attune_context *context, const attune_kernel *kernel);

/* Races the likeliest configs (or, if patient, many more) of eligible kernels on drawn inputs; each must give a right
 * result before it is timed. With `planning` held. */
attune_status at_race_run(attune_context *context, const attune_problem *problem, bool patient, uint32_t avoided,
                          at_choice *winner);

#endif
