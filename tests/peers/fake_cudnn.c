#include "peers/fake_cudnn.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers/cudnn_graph.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern fake_cudnn fake;
fake_cudnn fake = {.version = 91900, .refuses = -1, .choices = {1, 1}, .engine = {{2}, {1}}, .workspace = 256};

enum { SUCCESS = 0, NOT_SUPPORTED = 3000, BAD_PARAM = 2000 };

/* Every attribute that is looked at, whatever the kind. */
typedef struct descriptor {
    unsigned int kind;
    int mode;     /* of a pointwise operation, a reduction, or heuristics */
    int64_t axis; /* of GEN_INDEX */
    int64_t engine;
    struct descriptor *how; /* what an operation does; the config of a plan */
    int operations;
    struct descriptor *operation[AT_CUDNN_OPERATIONS_MAX];
} descriptor;

static char last_error[128];

EXPORT size_t cudnnGetVersion(void);
EXPORT const char *cudnnGetErrorString(unsigned int error);
EXPORT void cudnnGetLastErrorString(char *text, size_t bytes);
EXPORT unsigned int cudnnCreate(at_cudnn_handle *handle);
EXPORT unsigned int cudnnDestroy(at_cudnn_handle handle);
EXPORT unsigned int cudnnSetStream(at_cudnn_handle handle, void *stream);
EXPORT unsigned int cudnnBackendCreateDescriptor(unsigned int kind, at_cudnn_descriptor *made);
EXPORT unsigned int cudnnBackendDestroyDescriptor(at_cudnn_descriptor of);
EXPORT unsigned int cudnnBackendSetAttribute(at_cudnn_descriptor of, unsigned int attribute, unsigned int type,
                                             int64_t count, const void *values);
EXPORT unsigned int cudnnBackendGetAttribute(at_cudnn_descriptor of, unsigned int attribute, unsigned int type,
                                             int64_t room, int64_t *found, void *values);
EXPORT unsigned int cudnnBackendFinalize(at_cudnn_descriptor of);
EXPORT unsigned int cudnnBackendExecute(at_cudnn_handle handle, at_cudnn_descriptor plan, at_cudnn_descriptor pack);

size_t cudnnGetVersion(void)
{
    return fake.version;
}

const char *cudnnGetErrorString(unsigned int error)
{
    return error == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_FAKE";
}

void cudnnGetLastErrorString(char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "%s", last_error);
}

unsigned int cudnnCreate(at_cudnn_handle *handle)
{
    static char place;
    if (fake.start == SUCCESS) {
        ++fake.handles;
        *handle = (at_cudnn_handle)(void *)&place;
    }
    return fake.start;
}

unsigned int cudnnDestroy(at_cudnn_handle handle)
{
    (void)handle;
    --fake.handles;
    return SUCCESS;
}

unsigned int cudnnSetStream(at_cudnn_handle handle, void *stream)
{
    fake.stream = stream;
    return handle != NULL ? SUCCESS : BAD_PARAM;
}

unsigned int cudnnBackendCreateDescriptor(unsigned int kind, at_cudnn_descriptor *made)
{
    descriptor *one = calloc(1, sizeof *one);
    if (one == NULL) {
        return BAD_PARAM;
    }
    one->kind = kind;
    ++fake.descriptors;
    *made = one;
    return SUCCESS;
}

unsigned int cudnnBackendDestroyDescriptor(at_cudnn_descriptor of)
{
    free(of);
    --fake.descriptors;
    return SUCCESS;
}

unsigned int cudnnBackendSetAttribute(at_cudnn_descriptor of, unsigned int attribute, unsigned int type, int64_t count,
                                      const void *values)
{
    descriptor *one = of;
    (void)type;
    switch (attribute) {
    case AT_CUDNN_POINTWISE_MODE:
    case AT_CUDNN_REDUCTION_OPERATOR:
    case AT_CUDNN_HEUR_MODE:
        memcpy(&one->mode, values, sizeof one->mode);
        break;
    case AT_CUDNN_POINTWISE_AXIS:
        memcpy(&one->axis, values, sizeof one->axis);
        break;
    case AT_CUDNN_OP_POINTWISE_DESC:
    case AT_CUDNN_OP_MATMUL_DESC:
    case AT_CUDNN_OP_REDUCTION_DESC:
    case AT_CUDNN_PLAN_CONFIG:
        memcpy(&one->how, values, sizeof one->how);
        break;
    case AT_CUDNN_GRAPH_OPS:
        one->operations = (int)count;
        memcpy(one->operation, values, (size_t)count * sizeof one->operation[0]);
        break;
    case AT_CUDNN_PACK_IDS:
        fake.count = count;
        memcpy(fake.id, values, (size_t)count * sizeof fake.id[0]);
        break;
    case AT_CUDNN_PACK_POINTERS:
        memcpy(fake.data, values, (size_t)count * sizeof fake.data[0]);
        break;
    case AT_CUDNN_PACK_WORKSPACE:
        memcpy(&fake.given_workspace, values, sizeof fake.given_workspace);
        break;
    default:
        break;
    }
    return SUCCESS;
}

static void offer(const descriptor *of, int64_t room, int64_t *found, descriptor *const *configs)
{
    int mode = of->mode == AT_CUDNN_HEUR_A ? 0 : 1;
    *found = fake.choices[mode] < room ? fake.choices[mode] : room;
    for (int64_t i = 0; i < *found; ++i) {
        configs[i]->engine = fake.engine[mode][i];
    }
}

unsigned int cudnnBackendGetAttribute(at_cudnn_descriptor of, unsigned int attribute, unsigned int type, int64_t room,
                                      int64_t *found, void *values)
{
    descriptor *one = of;
    (void)type;
    switch (attribute) {
    case AT_CUDNN_HEUR_RESULTS:
        offer(one, room, found, values);
        return SUCCESS;
    case AT_CUDNN_CONFIG_ENGINE:
        (*(descriptor **)values)->engine = one->engine;
        return SUCCESS;
    case AT_CUDNN_ENGINE_INDEX:
        memcpy(values, &one->engine, sizeof one->engine);
        return SUCCESS;
    case AT_CUDNN_PLAN_WORKSPACE:
        memcpy(values, &fake.workspace, sizeof fake.workspace);
        return SUCCESS;
    default:
        return BAD_PARAM;
    }
}

/* ---- Finishing ------------------------------------------------------------------------------------------------------
 */

static const char *word_of(const descriptor *operation)
{
    static const struct {
        int mode;
        const char *word;
    } words[] = {
        {AT_CUDNN_ADD, "add"}, {AT_CUDNN_MUL, "mul"}, {AT_CUDNN_DIV, "div"},   {AT_CUDNN_SUB, "sub"},
        {AT_CUDNN_EXP, "exp"}, {AT_CUDNN_LOG, "log"}, {AT_CUDNN_CMP_GE, "ge"}, {AT_CUDNN_SELECT, "select"},
    };
    const descriptor *how = operation->how;
    if (operation->kind == AT_CUDNN_OPERATION_MATMUL) {
        return "matmul";
    }
    if (operation->kind == AT_CUDNN_OPERATION_REDUCTION) {
        return how->mode == AT_CUDNN_REDUCE_MAX ? "max" : "sum";
    }
    if (how->mode == AT_CUDNN_GEN_INDEX) {
        return how->axis == 2 ? "row" : how->axis == 3 ? "column" : "?";
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        if (words[i].mode == how->mode) {
            return words[i].word;
        }
    }
    return "?";
}

static void write_form(const descriptor *graph)
{
    fake.form[0] = '\0';
    for (int i = 0; i < graph->operations; ++i) {
        size_t length = strlen(fake.form);
        (void)snprintf(fake.form + length, sizeof fake.form - length, "%s%s", i > 0 ? " " : "",
                       word_of(graph->operation[i]));
    }
}

static unsigned int refuse(const char *why)
{
    (void)snprintf(last_error, sizeof last_error, "%s", why);
    return NOT_SUPPORTED;
}

unsigned int cudnnBackendFinalize(at_cudnn_descriptor of)
{
    descriptor *one = of;
    if ((int)one->kind == fake.refuses) {
        return refuse("this graph\nis not for me");
    }
    if (one->kind == AT_CUDNN_OPERATIONGRAPH) {
        write_form(one);
    }
    fake.questions += one->kind == AT_CUDNN_ENGINEHEUR;
    if (one->kind == AT_CUDNN_EXECUTION_PLAN) {
        one->engine = one->how->engine;
        if ((fake.broken >> one->engine & 1) != 0) {
            return refuse("the engine is broken");
        }
        ++fake.plans;
    }
    return SUCCESS;
}

static void read_scalars(void)
{
    for (int64_t i = 0; i < fake.count; ++i) {
        switch (fake.id[i]) {
        case AT_CUDNN_ID_SCALE:
            memcpy(&fake.scale, fake.data[i], sizeof fake.scale);
            break;
        case AT_CUDNN_ID_HIDDEN:
            memcpy(&fake.hidden, fake.data[i], sizeof fake.hidden);
            break;
        case AT_CUDNN_ID_SEQLEN_Q:
            memcpy(&fake.seqlen_q, fake.data[i], sizeof fake.seqlen_q);
            break;
        case AT_CUDNN_ID_SEQLEN_KV:
            memcpy(&fake.seqlen_kv, fake.data[i], sizeof fake.seqlen_kv);
            break;
        default:
            break;
        }
    }
}

unsigned int cudnnBackendExecute(at_cudnn_handle handle, at_cudnn_descriptor plan, at_cudnn_descriptor pack)
{
    (void)handle;
    (void)pack;
    fake.ran = ((descriptor *)plan)->engine;
    ++fake.runs;
    read_scalars();
    if (fake.running != NULL) {
        fake.running(fake.ran);
    }
    (void)snprintf(last_error, sizeof last_error, "%s", fake.execute == SUCCESS ? "" : "the run failed");
    return fake.execute;
}
