/* The latest calls of a plan. A call that comes again word for word was checked before, and everything that its launch
 * takes is at hand: nothing is left to do but to launch. One that is like the latest new one takes over what they have
 * in common. Whoever makes calls on several threads needs to know nothing of it: a place is used by one thread at a
 * time, and who finds it taken does as if there were none. */
#ifndef CORE_RECENT_H
#define CORE_RECENT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/call.h"
#include "core/device.h"

/* One call. It is only kept when it is made for the second time, so that calls that never come again cost next to
 * nothing. */
typedef struct at_recent {
    atomic_flag taken;
    bool kept;     /* whether call and made are those of `mark` */
    uint64_t mark; /* of the call that was last seen here */
    at_made *made;
    attune_call call;
} at_recent;

/* The latest call that was in none of the places: the next one is made of it if it is like it. */
typedef struct at_model {
    atomic_flag taken;
    bool kept; /* whether there is one, with all that follows */
    at_made *made;
    attune_call call;
    at_spans spans;
} at_model;

enum { AT_RECENT_BITS = 4, AT_RECENTS = 1 << AT_RECENT_BITS };

typedef struct at_recents {
    uint64_t roles;    /* that calls may have */
    size_t made_bytes; /* of each `made` */
    at_model model;
    at_recent place[AT_RECENTS];
} at_recents;

/* For calls of this problem and kernel. They hold nothing, and are the caller's to free, with all that they point to;
 * NULL without memory: then nothing is kept. */
at_recents *at_recents_create(const attune_problem *problem, const at_loaded *loaded);
/* What it holds, itself included. */
size_t at_recents_bytes(const at_recents *recents);
/* The place of a call, to be given back by at_recent_leave; NULL where another thread has it, which those below put up
 * with. */
at_recent *at_recent_take(at_recents *recents, const attune_call *call);
void at_recent_leave(at_recent *recent);
/* Whether this is the very call that is kept there. */
bool at_recent_is(const at_recents *recents, const at_recent *recent, const attune_call *call);
/* The call was launched: keeps it if this was not the first time. */
void at_recent_keep(const at_recents *recents, at_recent *recent, const attune_call *call, const at_made *made);

/* The model, to be given back by at_model_leave; NULL where another thread has it. */
at_model *at_model_take(at_recents *recents);
void at_model_leave(at_model *model);

#endif
