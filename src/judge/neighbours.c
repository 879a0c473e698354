#include "judge/neighbours.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "worker/transform.h"

enum {
    SLOTS = 4,
    SLOTS_LARGE = 2,
    LARGE = 32 << 20, /* bytes of a call from which on two calls must do; and no more of a workspace is touched */
    SPARED = 64       /* of so many words one is changed, at random */
};

/* Where one call's output and workspace lie, from the slab's beginning. */
typedef struct slot {
    size_t output, workspace;
} slot;

typedef struct strip {
    at_placement *place;
    const attune_plan *plan;
    double share;
    at_random random;
    at_poison poison;                                    /* by the place in the slab */
    at_transform_map transformed;                        /* its O is what is wanted */
    size_t output_bytes, workspace_bytes, touched_bytes; /* the last: of a workspace */
    slot slot[SLOTS];
    int slots;
    size_t bytes;
    unsigned char *slab; /* the device's */
    unsigned char *room; /* ours, for an output or a workspace */
    unsigned char *wanted;
} strip;

static const at_device_ops *ops_of(const strip *on)
{
    return on->place->device->ops;
}

static size_t lay(strip *on, size_t bytes)
{
    size_t at = on->bytes;
    on->bytes += at_placement_spaced(&on->random, bytes);
    return at;
}

/* Timed calls need no LSE: nor do these. */
static attune_call call_of(const strip *on, int index)
{
    attune_call call = on->place->call;
    call.tensor[ATTUNE_LSE].data = NULL;
    call.tensor[ATTUNE_O].data = on->slab + on->slot[index].output;
    call.workspace = on->workspace_bytes > 0 ? on->slab + on->slot[index].workspace : NULL;
    call.workspace_bytes = on->workspace_bytes;
    return call;
}

static attune_status run(const strip *on, int index, bool *right)
{
    const attune_call call = call_of(on, index);
    AT_FORWARD(attune_plan_execute(on->plan, &call));
    AT_FORWARD(ops_of(on)->synchronise(on->place->device, NULL));
    AT_FORWARD(ops_of(on)->download(on->place->device, on->room, call.tensor[ATTUNE_O].data, on->output_bytes));
    attune_tensor got = call.tensor[ATTUNE_O];
    got.data = on->room;
    *right = memcmp(on->room, on->wanted, on->output_bytes) == 0 ||
             at_transform_matches(&on->transformed, 0, &got, on->share);
    return ATTUNE_OK;
}

static attune_status poison(const strip *on, size_t at, size_t bytes)
{
    at_poison_write(on->poison, at, on->room, bytes);
    return ops_of(on)->upload(on->place->device, on->slab + at, on->room, bytes);
}

/* Turns the sign of some numbers, of whatever type, and changes what is no number. */
static attune_status change(strip *on, size_t at, size_t bytes)
{
    AT_FORWARD(ops_of(on)->download(on->place->device, on->room, on->slab + at, bytes));
    for (size_t word = 0; word + 4 <= bytes; word += 4) {
        if (at_random_below(&on->random, SPARED) == 0) {
            on->room[word + 1] ^= 0x80;
            on->room[word + 3] ^= 0x80;
        }
    }
    return ops_of(on)->upload(on->place->device, on->slab + at, on->room, bytes);
}

static attune_status change_all_but_last(strip *on)
{
    for (int i = 0; i < on->slots - 1; ++i) {
        AT_FORWARD(change(on, on->slot[i].output, on->output_bytes));
        AT_FORWARD(change(on, on->slot[i].workspace, on->touched_bytes));
    }
    AT_FORWARD(poison(on, on->slot[on->slots - 1].output, on->output_bytes));
    return poison(on, on->slot[on->slots - 1].workspace, on->touched_bytes);
}

static attune_status walk(strip *on)
{
    bool right = false;
    for (int i = 0; i < on->slots; ++i) {
        AT_FORWARD(poison(on, on->slot[i].output, on->output_bytes));
        AT_FORWARD(poison(on, on->slot[i].workspace, on->touched_bytes));
    }
    for (int i = 0; i < on->slots; ++i) {
        AT_FORWARD(run(on, i, &right));
        AT_FAIL_IF(!right, ATTUNE_WRONG_RESULT,
                   "calls in a row, without LSE: call %d of the same inputs has another result than alone", i + 1);
    }
    AT_FORWARD(change_all_but_last(on));
    AT_FORWARD(run(on, on->slots - 1, &right));
    AT_FAIL_IF(!right, ATTUNE_WRONG_RESULT,
               "neighbours: a call's result changed with what earlier calls had left nearby in memory");
    return ATTUNE_OK;
}

/* What is wanted: the result in the placement, without neighbours. */
static attune_status find_wanted(strip *on)
{
    const attune_call *host = &on->place->inputs->call;
    const int32_t *cu = host->tensor[ATTUNE_CU_Q].data;
    attune_call call = on->place->call;
    call.tensor[ATTUNE_LSE].data = NULL;
    AT_FORWARD(attune_plan_execute(on->plan, &call));
    AT_FORWARD(ops_of(on)->synchronise(on->place->device, NULL));
    AT_FORWARD(at_placement_fetch(on->place));
    at_transform_describe(&on->place->inputs->problem, host, cu == NULL ? host->seqlen_q : cu[host->batch],
                          &on->transformed);
    on->output_bytes = on->transformed.role[ATTUNE_O].bytes;
    on->wanted = malloc(on->output_bytes + 1);
    AT_FAIL_IF(on->wanted == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes of output", on->output_bytes);
    memcpy(on->wanted, on->transformed.role[ATTUNE_O].tensor.data, on->output_bytes);
    on->transformed.role[ATTUNE_O].tensor.data = on->wanted;
    return ATTUNE_OK;
}

static attune_status build(strip *on)
{
    AT_FORWARD(attune_plan_workspace(on->plan, &on->place->call, &on->workspace_bytes));
    AT_FORWARD(at_placement_reserve(on->place, on->workspace_bytes));
    AT_FORWARD(find_wanted(on));
    on->slots = on->output_bytes + on->workspace_bytes < LARGE ? SLOTS : SLOTS_LARGE;
    on->touched_bytes = on->workspace_bytes < LARGE ? on->workspace_bytes : LARGE;
    for (int i = 0; i < on->slots; ++i) {
        on->slot[i].output = lay(on, on->output_bytes);
        on->slot[i].workspace = on->workspace_bytes > 0 ? lay(on, on->workspace_bytes) : 0;
    }
    size_t larger = on->output_bytes > on->touched_bytes ? on->output_bytes : on->touched_bytes;
    on->room = malloc(larger + 1);
    AT_FAIL_IF(on->room == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes of output", larger);
    return ops_of(on)->allocate(on->place->device, on->bytes, (void **)&on->slab);
}

attune_status at_neighbours_run(at_placement *place, const attune_plan *plan, uint64_t seed, double share)
{
    strip on = {.place = place,
                .plan = plan,
                .share = share,
                .random = at_random_seed(seed, 0),
                .poison = at_poison_draw(seed)};
    attune_status status = build(&on);
    if (status == ATTUNE_OK) {
        status = walk(&on);
    }
    if (on.slab != NULL) {
        ops_of(&on)->release(place->device, on.slab);
    }
    free(on.room);
    free(on.wanted);
    return status;
}
