#include "worker/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/status.h"
#include "core/problem.h"
#include "core/term.h"
#include "stranger/wire_kernel.h"

/* A right kernel may be as slow as this, and has so much longer for large problems before it is said to hang. */
static const double slowest_flops[] = {[ATTUNE_TARGET_CPU] = 1e8, [ATTUNE_TARGET_CUDA] = 2e10};

enum { ARENA_BYTES = 64 << 20, PATIENCE_S = 10, LOAD_S = 120 };

/* An arm as its plans see it. */
typedef struct remote_loaded {
    at_loaded base;
    attune_kernel face; /* name and traits; nothing else of it is ever asked */
    attune_problem problem;
    char *asked;   /* the name that it was opened by, or the digest of its recipe */
    char *account; /* what it says of itself */
    char kernel_text[AT_KERNEL_TEXT_MAX];
    int64_t arm;
    struct remote_loaded *next;
} remote_loaded;

typedef struct remote {
    at_device base;
    at_channel *channel;
    double patience_s, load_s;
    json_t *greeting;
    remote_loaded *loaded; /* all of them */
    bool broken;
} remote;

static remote *of(const at_device *device)
{
    return (remote *)(uintptr_t)device;
}

/* ---- Asking ----------------------------------------------------------------------------------------------------- */

static attune_status ask(remote *on, const char *op, json_t *fields, double seconds, json_t **ok)
{
    attune_status status = fields == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to ask for \"%s\"", op)
                                          : at_channel_ask(on->channel, op, fields, seconds, ok);
    on->broken = on->broken || status == ATTUNE_DEVICE_ERROR || at_channel_death(on->channel) != NULL;
    return status;
}

static json_int_t number(const void *address)
{
    return (json_int_t)(uintptr_t)address;
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static attune_status allocate(at_device *device, size_t bytes, void **data)
{
    json_t *ok;
    *data = NULL;
    AT_FORWARD(ask(of(device), "alloc", json_pack("{s:I}", "bytes", (json_int_t)bytes), of(device)->patience_s, &ok));
    attune_status status = at_wire_address(ok, "data", data);
    json_decref(ok);
    return status;
}

static void release(at_device *device, void *data)
{
    if (data != NULL) {
        (void)ask(of(device), "free", json_pack("{s:I}", "data", number(data)), of(device)->patience_s, NULL);
    }
}

static attune_status upload(at_device *device, void *to, const void *from, size_t bytes)
{
    remote *on = of(device);
    size_t room;
    unsigned char *arena = at_channel_arena(on->channel, &room);
    for (size_t at = 0; at < bytes; at += room) {
        size_t step = bytes - at < room ? bytes - at : room;
        memcpy(arena, (const unsigned char *)from + at, step);
        AT_FORWARD(
            ask(on, "send",
                json_pack("{s:I,s:i,s:I}", "to", number((unsigned char *)to + at), "at", 0, "bytes", (json_int_t)step),
                on->patience_s, NULL));
    }
    return ATTUNE_OK;
}

/* Brings so many bytes to the beginning of the arena. */
static attune_status fetch(remote *on, const void *from, size_t bytes)
{
    return ask(on, "fetch", json_pack("{s:I,s:i,s:I}", "from", number(from), "at", 0, "bytes", (json_int_t)bytes),
               on->patience_s, NULL);
}

static attune_status download(at_device *device, void *to, const void *from, size_t bytes)
{
    remote *on = of(device);
    size_t room;
    const unsigned char *arena = at_channel_arena(on->channel, &room);
    for (size_t at = 0; at < bytes; at += room) {
        size_t step = bytes - at < room ? bytes - at : room;
        AT_FORWARD(fetch(on, (const unsigned char *)from + at, step));
        memcpy((unsigned char *)to + at, arena, step);
    }
    return ATTUNE_OK;
}

/* Where they were brought to, so much at a time as caches hold. */
static attune_status compare(at_device *device, const void *host, const void *data, size_t bytes, bool *same)
{
    enum { PIECE = 8 << 20 };
    remote *on = of(device);
    size_t room;
    const unsigned char *arena = at_channel_arena(on->channel, &room);
    const size_t most = room < PIECE ? room : PIECE;
    *same = true;
    for (size_t at = 0; at < bytes && *same; at += most) {
        size_t step = bytes - at < most ? bytes - at : most;
        AT_FORWARD(fetch(on, (const unsigned char *)data + at, step));
        *same = memcmp(arena, (const unsigned char *)host + at, step) == 0;
    }
    return ATTUNE_OK;
}

static attune_status synchronise(at_device *device, void *stream)
{
    return ask(of(device), "sync", json_pack("{s:I}", "stream", number(stream)), of(device)->patience_s, NULL);
}

static attune_status poison_scratch(at_device *device, int pattern)
{
    return ask(of(device), "poison_scratch", json_pack("{s:i}", "pattern", pattern), of(device)->load_s, NULL);
}

static attune_status fence(at_device *device)
{
    return ask(of(device), "fence", json_object(), of(device)->patience_s, NULL);
}

static attune_status delay(at_device *device, const at_loaded *loaded, bool on)
{
    const json_int_t arm = (json_int_t)((const remote_loaded *)loaded)->arm;
    return ask(of(device), "delay", json_pack("{s:I,s:b}", "arm", arm, "on", on), of(device)->load_s, NULL);
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

/* Sizes and tensors as the call had them: the worker checks them again and makes its own args. */
static attune_call call_of(const attune_args *args, void *stream)
{
    attune_call call = {.size = sizeof call,
                        .batch = args->batch,
                        .heads_q = args->heads_q,
                        .heads_kv = args->heads_kv,
                        .seqlen_q = args->seqlen_q,
                        .seqlen_kv = args->seqlen_kv,
                        .total_q = args->total_q,
                        .total_kv = args->total_kv,
                        .offset = args->offset,
                        .page_count = args->page_count,
                        .page_table_width = args->page_table_width,
                        .total_new = args->total_new,
                        .states = args->states,
                        .state_stride_o = args->state_stride_o,
                        .state_stride_lse = args->state_stride_lse,
                        .workspace = args->workspace,
                        .workspace_bytes = args->workspace_bytes,
                        .stream = stream};
    memcpy(call.tensor, args->tensor, sizeof call.tensor);
    return call;
}

/* Done when it returns. */
static attune_status launch(const at_loaded *loaded, at_made *made, void *stream)
{
    const remote_loaded *own = (const remote_loaded *)loaded;
    remote *on = of(loaded->device);
    const attune_call call = call_of(&made->args, stream);
    return ask(on, "run", json_pack("{s:I,s:o}", "arm", (json_int_t)own->arm, "call", at_wire_from_call(&call)),
               on->patience_s + attune_problem_flops(&own->problem) / slowest_flops[on->base.target.kind], NULL);
}

/* ---- Arms ------------------------------------------------------------------------------------------------------- */

static void loaded_free(remote_loaded *loaded)
{
    free(loaded->asked);
    free(loaded->account);
    free(loaded);
}

static remote_loaded *find(const remote *on, const attune_problem *problem, const char *asked)
{
    remote_loaded *at = on->loaded;
    while (at != NULL && (strcmp(at->asked, asked) != 0 || !at_problem_equal(&at->problem, problem))) {
        at = at->next;
    }
    return at;
}

static attune_status read_loaded(const json_t *ok, remote_loaded *made)
{
    const char *kernel;
    const char *account;
    int64_t traits;
    AT_FORWARD(at_json_int(ok, "answer", "arm", 0, INT64_MAX, &made->arm));
    AT_FORWARD(at_json_string(ok, "answer", "kernel", &kernel));
    AT_FORWARD(at_json_string(ok, "answer", "account", &account));
    AT_FORWARD(at_json_int(ok, "answer", "traits", 0, UINT32_MAX, &traits));
    made->face.traits = (uint32_t)traits;
    made->face.name = made->kernel_text;
    made->account = strdup(account);
    AT_FAIL_IF(made->account == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an arm");
    (void)snprintf(made->kernel_text, sizeof made->kernel_text, "%s", kernel);
    return at_wire_term(json_object_get(ok, "workspace"), &made->base.resources.workspace);
}

/* Takes `fields`, what the arm is, over. `asked`: what it is found by when it is asked for again. */
static attune_status open_arm(remote *on, const attune_problem *problem, const char *asked, json_t *fields,
                              remote_loaded *made)
{
    json_t *ok;
    made->base.device = &on->base;
    made->base.kernel = &made->face;
    made->face = (attune_kernel){.size = sizeof made->face, .abi = ATTUNE_ABI, .target = on->base.target.kind};
    made->problem = *problem;
    made->asked = strdup(asked);
    if (made->asked == NULL || fields == NULL) {
        json_decref(fields);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for an arm");
    }
    AT_FORWARD(ask(on, "load", fields, on->load_s, &ok));
    attune_status status = read_loaded(ok, made);
    json_decref(ok);
    return status;
}

/* Takes `fields` over. */
static attune_status get_arm(remote *on, const attune_problem *problem, const char *asked, json_t *fields,
                             remote_loaded **loaded)
{
    *loaded = find(on, problem, asked);
    if (*loaded != NULL) {
        json_decref(fields);
        return ATTUNE_OK;
    }
    remote_loaded *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an arm");
    attune_status status = open_arm(on, problem, asked, fields, made);
    if (status != ATTUNE_OK) {
        loaded_free(made);
        return status;
    }
    made->next = on->loaded;
    on->loaded = made;
    *loaded = made;
    return ATTUNE_OK;
}

attune_status at_remote_plan(at_device *device, const attune_problem *problem, const char *arm, attune_plan **plan)
{
    remote_loaded *loaded;
    *plan = NULL;
    AT_FORWARD(attune_problem_check(problem));
    AT_FORWARD(get_arm(of(device), problem, arm,
                       json_pack("{s:s,s:o}", "arm", arm, "problem", at_wire_from_problem(problem)), &loaded));
    AT_FORWARD(at_plan_bind(problem, &loaded->base, AT_ORIGIN_NAMED, plan));
    memcpy((*plan)->kernel_text, loaded->kernel_text, sizeof loaded->kernel_text);
    return ATTUNE_OK;
}

/* A digest of all that a recipe says: folders may give kernels of one name. */
static attune_status digest_recipe(const json_t *recipe, char digest[AT_DIGEST_TEXT_MAX])
{
    char *text = recipe == NULL ? NULL : json_dumps(recipe, JSON_COMPACT);
    AT_FAIL_IF(text == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a recipe");
    at_digest_of(text, strlen(text), digest);
    free(text);
    return ATTUNE_OK;
}

/* What is loaded belongs to the device. */
static attune_status load(at_device *device, const at_recipe *recipe, at_loaded **loaded)
{
    char arm[AT_KERNEL_TEXT_MAX], asked[AT_DIGEST_TEXT_MAX];
    remote_loaded *made;
    *loaded = NULL;
    at_config_print(recipe->kernel, &recipe->config, arm);
    json_t *wire = at_wire_from_recipe(recipe);
    attune_status status = digest_recipe(wire, asked);
    if (status != ATTUNE_OK) {
        json_decref(wire);
        return status;
    }
    AT_FORWARD(get_arm(
        of(device), &recipe->problem, asked,
        json_pack("{s:s,s:o,s:o}", "arm", arm, "problem", at_wire_from_problem(&recipe->problem), "recipe", wire),
        &made));
    made->base.config = recipe->config;
    made->base.steps = recipe->steps;
    *loaded = &made->base;
    return ATTUNE_OK;
}

static void unload(at_loaded *loaded)
{
    (void)loaded;
}

int64_t at_remote_arm(const attune_plan *plan)
{
    return ((const remote_loaded *)plan->loaded)->arm;
}

const char *at_remote_account(const attune_plan *plan)
{
    return ((const remote_loaded *)plan->loaded)->account;
}

/* ---- Opening and closing ---------------------------------------------------------------------------------------- */

static void close_device(at_device *device)
{
    remote *on = of(device);
    at_channel_close(on->channel);
    json_decref(on->greeting);
    while (on->loaded != NULL) {
        remote_loaded *next = on->loaded->next;
        loaded_free(on->loaded);
        on->loaded = next;
    }
    free(on);
}

static const at_device_ops operations = {
    .load = load,
    .unload = unload,
    .launch = launch,
    .synchronise = synchronise,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .download = download,
    .compare = compare,
    .poison_scratch = poison_scratch,
    .fence = fence,
    .delay = delay,
    .close = close_device,
};

static attune_status greet(remote *on)
{
    int64_t protocol;
    size_t arena;
    (void)at_channel_arena(on->channel, &arena);
    AT_FORWARD(ask(on, "hello", json_pack("{s:i,s:I}", "protocol", AT_PROTOCOL, "arena", (json_int_t)arena), on->load_s,
                   &on->greeting));
    AT_FORWARD(at_json_int(on->greeting, "answer", "protocol", 0, INT32_MAX, &protocol));
    AT_FAIL_IF(protocol != AT_PROTOCOL, ATTUNE_UNSUPPORTED, "the worker speaks protocol %lld, this attune %d",
               (long long)protocol, AT_PROTOCOL);
    return ATTUNE_OK;
}

static attune_status open_target(remote *on, const at_remote_options *options)
{
    json_t *ok;
    json_t *facts;
    AT_FORWARD(ask(on, "open",
                   json_pack("{s:i,s:s*,s:s*,s:b}", "threads", options->threads, "target", options->target, "isa",
                             options->isa, "confined", options->confined),
                   on->load_s, &ok));
    attune_status status = at_json_field(ok, "answer", "facts", JSON_OBJECT, &facts);
    if (status == ATTUNE_OK) {
        status = at_wire_target(facts, &on->base.target);
    }
    json_decref(ok);
    return status;
}

attune_status at_remote_start(const at_remote_options *options, at_device **device)
{
    const at_channel_options channel = {.command = options->command, .arena_bytes = ARENA_BYTES};
    *device = NULL;
    remote *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a worker");
    made->base.ops = &operations;
    made->base.apart = true;
    made->patience_s = options->patience_s > 0 ? options->patience_s : PATIENCE_S;
    made->load_s = options->load_s > 0 ? options->load_s : LOAD_S;
    attune_status status = at_channel_open(&channel, &made->channel);
    if (status != ATTUNE_OK) {
        close_device(&made->base);
        return status;
    }
    *device = &made->base;
    return ATTUNE_OK;
}

attune_status at_remote_begin(at_device *device, const at_remote_options *options)
{
    AT_FORWARD(greet(of(device)));
    return open_target(of(device), options);
}

attune_status at_remote_open(const at_remote_options *options, at_device **device)
{
    AT_FORWARD(at_remote_start(options, device));
    attune_status status = at_remote_begin(*device, options);
    if (status != ATTUNE_OK) {
        close_device(*device);
        *device = NULL;
    }
    return status;
}

at_channel *at_remote_channel(const at_device *device)
{
    return of(device)->channel;
}

bool at_remote_is_broken(const at_device *device)
{
    return of(device)->broken;
}

const json_t *at_remote_greeting(const at_device *device)
{
    return of(device)->greeting;
}
