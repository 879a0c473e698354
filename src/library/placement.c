#include "library/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"
#include "core/call.h"

enum { GUARD_BYTES = 4096 };

/* Where a workspace's bytes are in a poison: behind those of all roles. */
static const uint64_t workspace_place = (uint64_t)ATTUNE_ROLE_COUNT << 48;

bool at_placement_apart(const at_placement *place)
{
    return place->device != NULL && (place->device->target.kind != ATTUNE_TARGET_CPU || place->device->apart);
}

/* Those that the operation writes. */
static bool is_output(const at_placement *place, int role)
{
    return at_buffer_is_written(&place->inputs->problem, role);
}

/* Of inputs that the kernel has itself; else they are what the device's are compared with. */
static uint64_t digest_of(const at_placement *place)
{
    return at_placement_apart(place) ? 0 : at_inputs_digest(place->inputs);
}

/* ---- Moving ----------------------------------------------------------------------------------------------------- */

typedef attune_status (*mover)(at_placement *place, int role, size_t at, size_t bytes);

static attune_status send(at_placement *place, int role, size_t at, size_t bytes)
{
    return place->device->ops->upload(place->device, place->twin[role] + at, place->inputs->buffer[role].base + at,
                                      bytes);
}

static attune_status bring(at_placement *place, int role, size_t at, size_t bytes)
{
    return place->device->ops->download(place->device, place->inputs->buffer[role].base + at, place->twin[role] + at,
                                        bytes);
}

/* Rows that follow one another are moved together. */
typedef struct run {
    size_t at, bytes;
} run;

static attune_status add_row(at_placement *place, int role, mover move, size_t at, size_t bytes, run *now)
{
    if (now->bytes > 0 && at == now->at + now->bytes) {
        now->bytes += bytes;
        return ATTUNE_OK;
    }
    const run before = *now;
    *now = (run){at, bytes};
    return before.bytes > 0 ? move(place, role, before.at, before.bytes) : ATTUNE_OK;
}

/* A sparse buffer's guards and rows alone: the pages between do not exist. */
static attune_status move_rows(at_placement *place, int role, mover move)
{
    const at_buffer *buffer = &place->inputs->buffer[role];
    const at_extent extent = at_inputs_extent(place->inputs, (attune_role)role);
    size_t row_bytes = (size_t)extent.row * at_dtype_bytes(place->inputs->call.tensor[role].dtype);
    size_t end = buffer->at + buffer->bytes;
    run now = {0, buffer->at};
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        for (int64_t h = 0; h < extent.count[1]; ++h) {
            for (int64_t i = 0; i < extent.count[2]; ++i) {
                size_t at = buffer->at + at_inputs_row(place->inputs, (attune_role)role, b, h, i);
                AT_FORWARD(add_row(place, role, move, at, row_bytes, &now));
            }
        }
    }
    AT_FORWARD(add_row(place, role, move, end, buffer->total - end, &now));
    return move(place, role, now.at, now.bytes);
}

static attune_status move_role(at_placement *place, int role, mover move)
{
    const at_buffer *buffer = &place->inputs->buffer[role];
    if (buffer->base == NULL || !at_placement_apart(place)) {
        return ATTUNE_OK;
    }
    return buffer->sparse ? move_rows(place, role, move) : move(place, role, 0, buffer->total);
}

void at_placement_open(at_device *device, const attune_call *call, at_placement *place)
{
    *place = (at_placement){.device = device, .call = *call};
}

attune_status at_placement_own(at_placement *place, attune_role role, const void *data, size_t bytes)
{
    const at_device_ops *ops = place->device->ops;
    void *twin = NULL;
    AT_FORWARD(ops->allocate(place->device, bytes > 0 ? bytes : 1, &twin));
    place->twin[role] = twin;
    place->call.tensor[role].data = twin;
    return data == NULL ? ATTUNE_OK : ops->upload(place->device, twin, data, bytes);
}

attune_status at_placement_bring(at_placement *place, attune_role role, void *data, size_t bytes)
{
    const unsigned char *twin = place->twin[role];
    return twin == NULL ? ATTUNE_OK : place->device->ops->download(place->device, data, twin, bytes);
}

attune_status at_placement_create(at_device *device, at_inputs *inputs, at_placement *place)
{
    at_placement_open(device, &inputs->call, place);
    place->inputs = inputs;
    place->digest = digest_of(place);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        const at_buffer *buffer = &inputs->buffer[role];
        if (buffer->base == NULL || !at_placement_apart(place)) {
            continue;
        }
        AT_FORWARD(at_placement_own(place, (attune_role)role, NULL, buffer->total));
        place->call.tensor[role].data = place->twin[role] + buffer->at;
        AT_FORWARD(move_role(place, role, send));
    }
    return ATTUNE_OK;
}

void at_placement_free(at_placement *place)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (place->twin[role] != NULL) {
            place->device->ops->release(place->device, place->twin[role]);
        }
    }
    if (place->workspace != NULL) {
        place->device->ops->release(place->device, place->workspace);
    }
    memset(place, 0, sizeof *place);
}

/* ---- Workspace -------------------------------------------------------------------------------------------------- */

/* Uploads `bytes` of a poison, from byte `from` of it on. */
static attune_status paint(at_placement *place, unsigned char *to, at_poison poison, uint64_t from, size_t bytes)
{
    enum { CHUNK = 1 << 20 };
    unsigned char *chunk = malloc(bytes < CHUNK ? bytes + 1 : CHUNK);
    attune_status status = ATTUNE_OK;
    AT_FAIL_IF(chunk == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to paint %zu bytes", bytes);
    for (size_t at = 0; at < bytes && status == ATTUNE_OK; at += CHUNK) {
        size_t step = bytes - at < CHUNK ? bytes - at : CHUNK;
        at_poison_write(poison, from + at, chunk, step);
        status = place->device->ops->upload(place->device, to + at, chunk, step);
    }
    free(chunk);
    return status;
}

static at_poison workspace_guard(const at_placement *place)
{
    return at_inputs_guard(place->inputs, ATTUNE_O);
}

attune_status at_placement_reserve(at_placement *place, size_t bytes)
{
    const at_device_ops *ops = place->device->ops;
    void *workspace = NULL;
    if (place->workspace != NULL ? bytes == 0 || bytes == place->workspace_bytes
                                 : bytes == 0 && place->inputs == NULL) {
        return ATTUNE_OK;
    }
    if (place->workspace != NULL) {
        ops->release(place->device, place->workspace);
    }
    place->workspace = NULL;
    place->workspace_bytes = place->spare_bytes = 0;
    place->call.workspace = NULL;
    place->call.workspace_bytes = 0;
    /* Exactly as much as the plan asked for, so that one byte more shows in the guard. */
    AT_FORWARD(ops->allocate(place->device, bytes + GUARD_BYTES, &workspace));
    place->workspace = workspace;
    place->workspace_bytes = bytes;
    place->call.workspace = bytes > 0 ? workspace : NULL;
    place->call.workspace_bytes = bytes;
    if (place->inputs == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(paint(place, place->workspace, place->inputs->draw.poison, workspace_place, bytes));
    return paint(place, place->workspace + bytes, workspace_guard(place), 0, GUARD_BYTES);
}

attune_status at_placement_fit(at_placement *place, const attune_plan *plan, const attune_call *call)
{
    size_t bytes = 0;
    AT_FORWARD(attune_plan_workspace(plan, call, &bytes));
    return at_placement_reserve(place, bytes);
}

/* Bytes beyond what the plan asked for that a run has, of the guard's: none, or some, as callers have whose workspace
 * serves several plans. */
static size_t spare_bytes(const at_placement *place)
{
    enum { LINE = 256, SPARE = 0x73706172 };
    if (place->inputs == NULL) {
        return 0;
    }
    at_random random = at_random_seed(place->inputs->draw.poison.seed, SPARE);
    return at_random_below(&random, 2) == 0 ? 0 : LINE * (1 + (size_t)at_random_below(&random, GUARD_BYTES / LINE - 1));
}

static attune_status workspace_intact(at_placement *place)
{
    unsigned char guard[GUARD_BYTES];
    if (place->workspace == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(
        place->device->ops->download(place->device, guard, place->workspace + place->workspace_bytes, sizeof guard));
    const size_t spare = place->spare_bytes, guarded = sizeof guard - spare;
    size_t intact = at_poison_intact(workspace_guard(place), spare, guard + spare, guarded);
    AT_FAIL_IF(intact < guarded, ATTUNE_WRONG_RESULT,
               "guards: the workspace of %zu bytes was written %zu bytes past its end", place->workspace_bytes + spare,
               intact + 1);
    return ATTUNE_OK;
}

/* ---- Outputs ---------------------------------------------------------------------------------------------------- */

static attune_status move_outputs(at_placement *place, mover move)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        AT_FORWARD(is_output(place, role) ? move_role(place, role, move) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

attune_status at_placement_send_outputs(at_placement *place)
{
    return move_outputs(place, send);
}

attune_status at_placement_poison(at_placement *place, at_poison poison)
{
    at_inputs_poison(place->inputs, poison);
    AT_FORWARD(at_placement_send_outputs(place));
    return place->workspace == NULL ? ATTUNE_OK
                                    : paint(place, place->workspace, poison, workspace_place, place->workspace_bytes);
}

/* Strides and bytes, without which a copy would put rows elsewhere, or read past their end. */
static bool lies_alike(const at_inputs *a, const at_inputs *b, int role)
{
    const attune_tensor *of_a = &a->call.tensor[role], *of_b = &b->call.tensor[role];
    return a->buffer[role].bytes == b->buffer[role].bytes && of_a->dtype == of_b->dtype &&
           memcmp(of_a->stride, of_b->stride, sizeof of_a->stride) == 0;
}

attune_status at_placement_replace(at_placement *place, const at_inputs *other)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (place->inputs->buffer[role].base != NULL && !is_output(place, role)) {
            AT_FAIL_IF(!lies_alike(place->inputs, other, role), ATTUNE_INTERNAL,
                       "other inputs: %s has %zu bytes where %zu lie, or other strides", at_role_name(role),
                       other->buffer[role].bytes, place->inputs->buffer[role].bytes);
        }
    }
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        at_buffer *to = &place->inputs->buffer[role];
        if (to->base != NULL && !is_output(place, role)) {
            memcpy(to->base + to->at, other->buffer[role].base + other->buffer[role].at, to->bytes);
            AT_FORWARD(move_role(place, role, send));
        }
    }
    place->digest = digest_of(place);
    return ATTUNE_OK;
}

typedef struct scaling {
    int32_t dtype;
    double by;
} scaling;

static void scale_element(const scaling *on, unsigned char *at)
{
    float value;
    uint16_t half;
    memcpy(&half, at, sizeof half);
    if (on->dtype == ATTUNE_FP32) {
        memcpy(&value, at, sizeof value);
        value = (float)(value * on->by);
        memcpy(at, &value, sizeof value);
    } else if (on->dtype == ATTUNE_FP16) {
        half = at_fp16_from_float((float)(at_fp16_to_float(half) * on->by));
        memcpy(at, &half, sizeof half);
    } else {
        half = at_bf16_from_float((float)(at_bf16_to_float(half) * on->by));
        memcpy(at, &half, sizeof half);
    }
}

static void scale_row(void *context, unsigned char *row, size_t bytes)
{
    const scaling *on = context;
    for (size_t at = 0; at < bytes; at += at_dtype_bytes(on->dtype)) {
        scale_element(on, row + at);
    }
}

attune_status at_placement_scale(at_placement *place, attune_role role, double by)
{
    scaling on = {place->inputs->call.tensor[role].dtype, by};
    at_inputs_each_row(place->inputs, role, scale_row, &on);
    return at_placement_send_input(place, role);
}

attune_status at_placement_send_input(at_placement *place, attune_role role)
{
    place->digest = digest_of(place);
    return move_role(place, role, send);
}

attune_status at_placement_poison_input(at_placement *place, attune_role role, size_t at, size_t bytes,
                                        at_poison poison)
{
    return paint(place, (unsigned char *)place->call.tensor[role].data + at, poison, at_inputs_poison_place(role, at),
                 bytes);
}

attune_status at_placement_fetch(at_placement *place)
{
    return move_outputs(place, bring);
}

attune_status at_placement_run(at_placement *place, const attune_plan *plan, const attune_call *call)
{
    attune_call with = *call;
    AT_FORWARD(at_placement_fit(place, plan, call));
    if (place->spare_bytes > 0) { /* of the run before: guarded again */
        AT_FORWARD(
            paint(place, place->workspace + place->workspace_bytes, workspace_guard(place), 0, place->spare_bytes));
    }
    place->spare_bytes = place->workspace == NULL ? 0 : spare_bytes(place);
    with.workspace = place->workspace;
    with.workspace_bytes = place->workspace_bytes + place->spare_bytes;
    AT_FORWARD(attune_plan_execute(plan, &with));
    AT_FORWARD(place->device->ops->synchronise(place->device, with.stream));
    return at_placement_fetch(place);
}

/* Marks the bytes of every row that the role has; what stays unmarked lies between rows. */
static void mark_rows(const at_inputs *inputs, attune_role role, unsigned char *marks)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    size_t row_bytes = (size_t)extent.row * at_dtype_bytes(inputs->call.tensor[role].dtype);
    const bool packed = inputs->problem.varlen && (role == ATTUNE_O || role == ATTUNE_LSE);
    const int32_t *cu = packed ? inputs->call.tensor[ATTUNE_CU_Q].data : NULL;
    int64_t rows =
        cu == NULL ? extent.count[2] : cu[inputs->problem.batch]; /* packed: the tail belongs to no sequence */
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        for (int64_t h = 0; h < extent.count[1]; ++h) {
            for (int64_t i = 0; i < rows; ++i) {
                memset(marks + at_inputs_row(inputs, role, b, h, i), 1, row_bytes);
            }
        }
    }
}

/* The first byte that is neither of a row nor poison any more; `bytes` where there is none. */
static size_t first_stray(const at_placement *place, attune_role role, const unsigned char *marks)
{
    const at_buffer *buffer = &place->inputs->buffer[role];
    const unsigned char *data = buffer->base + buffer->at;
    size_t at = 0;
    while (at < buffer->bytes) {
        const unsigned char *row = memchr(marks + at, 1, buffer->bytes - at);
        size_t end = row == NULL ? buffer->bytes : (size_t)(row - marks);
        at += at_poison_intact(place->inputs->draw.poison, at_inputs_poison_place(role, at), data + at, end - at);
        if (at < end) {
            return at;
        }
        while (at < buffer->bytes && marks[at] != 0) {
            ++at;
        }
    }
    return at;
}

/* What lies between an output's rows must still be poison. */
static attune_status gaps_untouched(const at_placement *place, attune_role role)
{
    const at_buffer *buffer = &place->inputs->buffer[role];
    if (buffer->base == NULL || buffer->sparse || buffer->bytes == 0 || !place->inputs->draw.gaps) {
        return ATTUNE_OK;
    }
    unsigned char *marks = calloc(buffer->bytes, 1);
    AT_FAIL_IF(marks == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to look between %zu bytes", buffer->bytes);
    mark_rows(place->inputs, role, marks);
    size_t at = first_stray(place, role, marks);
    free(marks);
    AT_FAIL_IF(at < buffer->bytes, ATTUNE_WRONG_RESULT, "guards: %s was written between its rows, at byte %zu of %zu",
               at_role_name((int)role), at, buffer->bytes);
    return ATTUNE_OK;
}

/* Some of it at a time: what has just been copied is still in the cache. */
static attune_status compare_copies(at_device *device, const void *host, const unsigned char *data, size_t bytes,
                                    bool *same)
{
    enum { PIECE = 8 << 20 };
    unsigned char *copy = malloc(bytes < PIECE ? bytes + 1 : PIECE);
    attune_status status = ATTUNE_OK;
    AT_FAIL_IF(copy == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to look at %zu bytes", bytes);
    *same = true;
    for (size_t done = 0; done < bytes && *same && status == ATTUNE_OK; done += PIECE) {
        size_t step = bytes - done < PIECE ? bytes - done : PIECE;
        status = device->ops->download(device, copy, data + done, step);
        *same = status == ATTUNE_OK && memcmp(copy, (const unsigned char *)host + done, step) == 0;
    }
    free(copy);
    return status;
}

/* Compares a range of a twin with the host's. */
static attune_status compare(at_placement *place, int role, size_t at, size_t bytes)
{
    at_device *device = place->device;
    const unsigned char *host = place->inputs->buffer[role].base + at, *twin = place->twin[role] + at;
    bool same = true;
    AT_FORWARD(device->ops->compare != NULL ? device->ops->compare(device, host, twin, bytes, &same)
                                            : compare_copies(device, host, twin, bytes, &same));
    AT_FAIL_IF(!same, ATTUNE_WRONG_RESULT, "inputs: %s was changed", at_role_name(role));
    return ATTUNE_OK;
}

static attune_status inputs_unchanged(at_placement *place)
{
    AT_FAIL_IF(digest_of(place) != place->digest, ATTUNE_WRONG_RESULT, "inputs: they were changed");
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (!is_output(place, role)) {
            AT_FORWARD(move_role(place, role, compare));
        }
    }
    return ATTUNE_OK;
}

attune_status at_placement_untouched(at_placement *place)
{
    attune_status status = at_inputs_guards(place->inputs);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "guards");
    }
    AT_FORWARD(workspace_intact(place));
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        AT_FORWARD(is_output(place, role) ? gaps_untouched(place, (attune_role)role) : ATTUNE_OK);
    }
    return inputs_unchanged(place);
}

size_t at_placement_spaced(at_random *random, size_t bytes)
{
    enum { LINE = 256 };
    return (bytes + LINE - 1) / LINE * LINE + LINE * (1 + (size_t)at_random_below(random, AT_SPACED_MAX / LINE - 2));
}
