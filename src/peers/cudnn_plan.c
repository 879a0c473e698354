#include "peers/cudnn_plan.h"

#include <float.h>
#include <math.h>

#include "base/status.h"

/* One call of the table whose failure has a name. */
#define CHECK(cudnn, status, what, function, ...)                                                                      \
    AT_FORWARD(at_cudnn_check((cudnn), (cudnn)->function(__VA_ARGS__), (status), (what)))

static void destroy(const at_cudnn *cudnn, at_cudnn_descriptor descriptor)
{
    if (descriptor != NULL) {
        (void)cudnn->cudnnBackendDestroyDescriptor(descriptor);
    }
}

/* ---- Choices --------------------------------------------------------------------------------------------------------
 */

static attune_status ask(const at_cudnn_graph *graph, int mode, at_cudnn_choices *choices)
{
    static const char what[] = "asking the heuristics";
    const at_cudnn *cudnn = graph->cudnn;
    at_cudnn_descriptor *made = &choices->heuristic[choices->heuristics];
    CHECK(cudnn, ATTUNE_UNSUPPORTED, what, cudnnBackendCreateDescriptor, AT_CUDNN_ENGINEHEUR, made);
    ++choices->heuristics;
    CHECK(cudnn, ATTUNE_UNSUPPORTED, what, cudnnBackendSetAttribute, *made, AT_CUDNN_HEUR_GRAPH,
          AT_CUDNN_TYPE_DESCRIPTOR, 1, &graph->whole);
    CHECK(cudnn, ATTUNE_UNSUPPORTED, what, cudnnBackendSetAttribute, *made, AT_CUDNN_HEUR_MODE, AT_CUDNN_TYPE_HEUR_MODE,
          1, &mode);
    CHECK(cudnn, ATTUNE_UNSUPPORTED, what, cudnnBackendFinalize, *made);
    return ATTUNE_OK;
}

/* Collects the results of the last question behind those that are there. */
static attune_status collect(at_cudnn_choices *choices)
{
    static const char what[] = "reading the heuristics' choices";
    const at_cudnn *cudnn = choices->cudnn;
    at_cudnn_descriptor asked = choices->heuristic[choices->heuristics - 1];
    at_cudnn_descriptor *fresh = choices->config + choices->count;
    int64_t found = 0;
    int64_t room = 0;
    while (choices->count + room < AT_CUDNN_CHOICES_MAX) {
        CHECK(cudnn, ATTUNE_OUT_OF_MEMORY, what, cudnnBackendCreateDescriptor, AT_CUDNN_ENGINECFG, &fresh[room]);
        ++room;
    }
    attune_status status = at_cudnn_check(
        cudnn,
        cudnn->cudnnBackendGetAttribute(asked, AT_CUDNN_HEUR_RESULTS, AT_CUDNN_TYPE_DESCRIPTOR, room, &found, fresh),
        ATTUNE_UNSUPPORTED, what);
    found = status != ATTUNE_OK ? 0 : found < room ? found : room;
    for (int64_t i = found; i < room; ++i) {
        destroy(cudnn, fresh[i]);
        fresh[i] = NULL;
    }
    choices->count += (int)found;
    return status;
}

attune_status at_cudnn_choose(const at_cudnn_graph *graph, bool all, at_cudnn_choices *choices)
{
    static const int modes[2] = {AT_CUDNN_HEUR_A, AT_CUDNN_HEUR_FALLBACK};
    *choices = (at_cudnn_choices){.cudnn = graph->cudnn};
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < (all ? 2 : 1); ++i) {
        status = ask(graph, modes[i], choices);
        status = status == ATTUNE_OK ? collect(choices) : status;
    }
    AT_FAIL_IF(choices->count == 0 && status == ATTUNE_OK, ATTUNE_UNSUPPORTED,
               "cuDNN %s: its heuristics offer no engine", graph->cudnn->version_text);
    return choices->count > 0 ? ATTUNE_OK : status;
}

void at_cudnn_choices_free(at_cudnn_choices *choices)
{
    for (int i = 0; i < AT_CUDNN_CHOICES_MAX; ++i) {
        destroy(choices->cudnn, choices->config[i]);
    }
    for (int i = 0; i < choices->heuristics; ++i) {
        destroy(choices->cudnn, choices->heuristic[i]);
    }
    *choices = (at_cudnn_choices){0};
}

/* ---- Plans ----------------------------------------------------------------------------------------------------------
 */

/* The engine's number, for reports. */
static attune_status read_engine(const at_cudnn *cudnn, at_cudnn_descriptor config, int64_t *number)
{
    static const char what[] = "reading the engine's number";
    at_cudnn_descriptor engine = NULL;
    int64_t found = 0;
    CHECK(cudnn, ATTUNE_OUT_OF_MEMORY, what, cudnnBackendCreateDescriptor, AT_CUDNN_ENGINE, &engine);
    unsigned int error =
        cudnn->cudnnBackendGetAttribute(config, AT_CUDNN_CONFIG_ENGINE, AT_CUDNN_TYPE_DESCRIPTOR, 1, &found, &engine);
    if (error == AT_CUDNN_SUCCESS) {
        error = cudnn->cudnnBackendGetAttribute(engine, AT_CUDNN_ENGINE_INDEX, AT_CUDNN_TYPE_INT64, 1, &found, number);
    }
    attune_status status = at_cudnn_check(cudnn, error, ATTUNE_UNSUPPORTED, what);
    destroy(cudnn, engine);
    return status;
}

static attune_status compile(const at_cudnn *cudnn, at_cudnn_descriptor config, at_cudnn_plan *plan)
{
    static const char what[] = "compiling an engine";
    int64_t found = 0;
    CHECK(cudnn, ATTUNE_OUT_OF_MEMORY, what, cudnnBackendCreateDescriptor, AT_CUDNN_EXECUTION_PLAN, &plan->ready);
    CHECK(cudnn, ATTUNE_UNSUPPORTED, what, cudnnBackendSetAttribute, plan->ready, AT_CUDNN_PLAN_HANDLE,
          AT_CUDNN_TYPE_HANDLE, 1, &cudnn->handle);
    CHECK(cudnn, ATTUNE_UNSUPPORTED, what, cudnnBackendSetAttribute, plan->ready, AT_CUDNN_PLAN_CONFIG,
          AT_CUDNN_TYPE_DESCRIPTOR, 1, &config);
    CHECK(cudnn, ATTUNE_UNSUPPORTED, what, cudnnBackendFinalize, plan->ready);
    CHECK(cudnn, ATTUNE_UNSUPPORTED, what, cudnnBackendGetAttribute, plan->ready, AT_CUDNN_PLAN_WORKSPACE,
          AT_CUDNN_TYPE_INT64, 1, &found, &plan->workspace_bytes);
    return read_engine(cudnn, config, &plan->engine);
}

attune_status at_cudnn_plan_make(const at_cudnn_choices *choices, int index, at_cudnn_plan *plan)
{
    *plan = (at_cudnn_plan){.cudnn = choices->cudnn};
    attune_status status = compile(choices->cudnn, choices->config[index], plan);
    if (status != ATTUNE_OK) {
        at_cudnn_plan_free(plan);
    }
    return status;
}

void at_cudnn_plan_free(at_cudnn_plan *plan)
{
    destroy(plan->cudnn, plan->ready);
    *plan = (at_cudnn_plan){0};
}

/* ---- Running --------------------------------------------------------------------------------------------------------
 */

/* A variant pack's tensors by their ids; scalars are read when a run is enqueued. */
typedef struct arguments {
    float scale, hidden;
    int32_t seqlen_q, seqlen_kv;
    int64_t count;
    int64_t id[9];
    void *data[9];
} arguments;

static void add(arguments *all, int64_t id, void *data)
{
    all->id[all->count] = id;
    all->data[all->count++] = data;
}

static void gather(const at_cudnn *cudnn, const at_cudnn_shape *shape, float scale, const attune_call *call,
                   arguments *all)
{
    /* NOTE: engines before 9.10 made NaN of rows that begin with minus infinity. */
    *all = (arguments){.scale = scale,
                       .hidden = cudnn->version < 91000 ? -FLT_MAX : -INFINITY,
                       .seqlen_q = (int32_t)shape->seqlen_q,
                       .seqlen_kv = (int32_t)shape->seqlen_kv};
    for (int role = 0; role <= (shape->lse != 0 ? ATTUNE_LSE : ATTUNE_O); ++role) {
        add(all, AT_CUDNN_ID_ROLES + role, call->tensor[role].data);
    }
    add(all, AT_CUDNN_ID_SCALE, &all->scale);
    if (shape->mask != AT_CUDNN_MASK_NONE) {
        add(all, AT_CUDNN_ID_HIDDEN, &all->hidden);
    }
    if (shape->mask == AT_CUDNN_MASK_BOTTOM_RIGHT) {
        add(all, AT_CUDNN_ID_SEQLEN_Q, &all->seqlen_q);
        add(all, AT_CUDNN_ID_SEQLEN_KV, &all->seqlen_kv);
    }
}

static attune_status fill(const at_cudnn *cudnn, at_cudnn_descriptor pack, const arguments *all, void *workspace)
{
    static const char what[] = "gathering the tensors";
    CHECK(cudnn, ATTUNE_DEVICE_ERROR, what, cudnnBackendSetAttribute, pack, AT_CUDNN_PACK_IDS, AT_CUDNN_TYPE_INT64,
          all->count, all->id);
    CHECK(cudnn, ATTUNE_DEVICE_ERROR, what, cudnnBackendSetAttribute, pack, AT_CUDNN_PACK_POINTERS,
          AT_CUDNN_TYPE_POINTER, all->count, all->data);
    CHECK(cudnn, ATTUNE_DEVICE_ERROR, what, cudnnBackendSetAttribute, pack, AT_CUDNN_PACK_WORKSPACE,
          AT_CUDNN_TYPE_POINTER, 1, &workspace);
    CHECK(cudnn, ATTUNE_DEVICE_ERROR, what, cudnnBackendFinalize, pack);
    return ATTUNE_OK;
}

static attune_status execute(const at_cudnn_plan *plan, at_cudnn_descriptor pack, const arguments *all,
                             const attune_call *call)
{
    const at_cudnn *cudnn = plan->cudnn;
    AT_FORWARD(fill(cudnn, pack, all, call->workspace));
    CHECK(cudnn, ATTUNE_DEVICE_ERROR, "setting the stream", cudnnSetStream, cudnn->handle, call->stream);
    CHECK(cudnn, ATTUNE_DEVICE_ERROR, "running", cudnnBackendExecute, cudnn->handle, plan->ready, pack);
    return ATTUNE_OK;
}

attune_status at_cudnn_plan_run(const at_cudnn_plan *plan, const at_cudnn_shape *shape, float scale,
                                const attune_call *call)
{
    arguments all;
    at_cudnn_descriptor pack = NULL;
    CHECK(plan->cudnn, ATTUNE_OUT_OF_MEMORY, "gathering the tensors", cudnnBackendCreateDescriptor,
          AT_CUDNN_VARIANT_PACK, &pack);
    gather(plan->cudnn, shape, scale, call, &all);
    attune_status status = execute(plan, pack, &all, call);
    destroy(plan->cudnn, pack);
    return status;
}
