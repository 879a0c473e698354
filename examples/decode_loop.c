/* A language model's loop: one plan for a prompt of 64 tokens and for every token after it, over a cache of keys and
 * values that grows. The plan holds what is best for one query as well as for 64 (attune_plan_kernel_for says which).
 *
 * All keys are alike here and row j of V is j, so each row of O is the mean of the rows that it sees. */
#include <attune/attune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 8, HEADS_KV = 2, DIM = 64, PROMPT = 64, TOKENS = 1000, CACHE = PROMPT + TOKENS };

typedef struct model {
    attune_context *context;
    attune_plan *plan;
    attune_call call;
    float *q, *o;         /* [HEADS, PROMPT, DIM] */
    float *keys, *values; /* [HEADS_KV, CACHE, DIM] */
    void *workspace;
} model;

static float *floats(size_t count)
{
    void *memory = aligned_alloc(64, count * sizeof(float));
    if (memory == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; ++i) {
        ((float *)memory)[i] = 0;
    }
    return (float *)memory;
}

static void set_tensor(attune_tensor *tensor, float *data, int64_t rows)
{
    tensor->data = data;
    tensor->stride[ATTUNE_STRIDE_SEQ] = DIM;
    tensor->stride[ATTUNE_STRIDE_HEAD] = rows * DIM;
    tensor->stride[ATTUNE_STRIDE_BATCH] = HEADS * rows * DIM;
}

/* All that is allocated, chosen or compiled is here. */
static attune_status open_model(model *m, const char *target)
{
    attune_options options;
    attune_problem problem;
    size_t bytes = 0;
    attune_options_init(&options);
    options.target = target;
    attune_status status = attune_context_create(&options, &m->context);
    status = status ? status : attune_problem_parse("b1,h8,hkv2,sq64,skv1064,d64,fp32,causal", &problem);
    status = status ? status : attune_plan_create(m->context, &problem, NULL, &m->plan);
    status = status ? status : attune_call_init(&m->call, &problem);
    status = status ? status : attune_plan_workspace(m->plan, NULL, &bytes);
    m->q = floats(HEADS * PROMPT * DIM);
    m->o = floats(HEADS * PROMPT * DIM);
    m->keys = floats(HEADS_KV * CACHE * DIM);
    m->values = floats(HEADS_KV * CACHE * DIM);
    m->workspace = aligned_alloc(256, (bytes / 256 + 1) * 256);
    set_tensor(&m->call.tensor[ATTUNE_Q], m->q, PROMPT);
    set_tensor(&m->call.tensor[ATTUNE_K], m->keys, CACHE);
    set_tensor(&m->call.tensor[ATTUNE_V], m->values, CACHE);
    set_tensor(&m->call.tensor[ATTUNE_O], m->o, PROMPT);
    m->call.workspace = m->workspace;
    m->call.workspace_bytes = bytes;
    return status;
}

static void close_model(model *m)
{
    free(m->workspace);
    free(m->values);
    free(m->keys);
    free(m->o);
    free(m->q);
    attune_plan_destroy(m->plan);
    attune_context_destroy(m->context);
}

/* Adds `queries` rows to the cache that has `length`, and attends from them. */
static attune_status attend(model *m, int64_t length, int64_t queries)
{
    for (int64_t head = 0; head < HEADS_KV; ++head) {
        for (int64_t row = length; row < length + queries; ++row) {
            for (int64_t d = 0; d < DIM; ++d) {
                m->values[(head * CACHE + row) * DIM + d] = (float)row;
            }
        }
    }
    m->call.seqlen_q = queries;
    m->call.seqlen_kv = length + queries;
    return attune_plan_execute(m->plan, &m->call);
}

/* The last query sees all rows: 0 ... length - 1. */
static int is_right(const model *m, int64_t length, int64_t queries)
{
    const float mean = (float)(length - 1) / 2;
    const float found = m->o[(queries - 1) * DIM];
    return fabsf(found - mean) <= 1e-4F * (1 + mean);
}

int main(void)
{
    model m = {.context = NULL};
    char kernel[512] = "";
    int wrong = 0;
    attune_status status = open_model(&m, "cpu");
    status = status ? status : attend(&m, 0, PROMPT);
    wrong += !status && !is_right(&m, PROMPT, PROMPT);
    for (int64_t length = PROMPT; !status && length < CACHE; ++length) {
        status = attend(&m, length, 1);
        wrong += !status && !is_right(&m, length + 1, 1);
    }
    status = status ? status : attune_plan_kernel_for(m.plan, &m.call, kernel, sizeof kernel);
    if (status) {
        (void)printf("%s\n", attune_last_detail());
    } else {
        (void)printf("prompt: %s\ntoken:  %s\n%d tokens, %d wrong\n", attune_plan_kernel(m.plan), kernel, TOKENS,
                     wrong);
    }
    close_model(&m);
    return status || wrong;
}
