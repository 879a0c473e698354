/* A program of your own as a peer, or a candidate, of the gate:
 *
 *     attune gate cpu_tiled b1,h8,s512,d64,fp32 --against mine --worker ./gate_worker
 *
 * The gate starts the program, which serves it until it is done. The arm "mine" is attention as one would write it
 * down; put yours in its place. On CUDA `run` enqueues on call->stream instead, and an arm that captures its own graphs
 * has `capture` and `release`. */
#include <attune/gate.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct mine {
    attune_problem problem;
    float *scores; /* of one row */
} mine;

static float *row_of(const attune_call *call, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const attune_tensor *tensor = &call->tensor[role];
    return (float *)tensor->data + batch * tensor->stride[ATTUNE_STRIDE_BATCH] +
           head * tensor->stride[ATTUNE_STRIDE_HEAD] + row * tensor->stride[ATTUNE_STRIDE_SEQ];
}

/* One row of O; keys behind the row's position are not seen. */
static void attend(const mine *self, const attune_call *call, int64_t batch, int64_t head, int64_t row)
{
    const attune_problem *problem = &self->problem;
    int64_t head_kv = head / (call->heads_q / call->heads_kv);
    int64_t seen = problem->window_right == 0 ? row + call->seqlen_kv - call->seqlen_q + 1 : call->seqlen_kv;
    float scale = problem->scale != 0 ? problem->scale : 1 / sqrtf((float)problem->head_dim_qk);
    float largest = -INFINITY, sum = 0;
    const float *q = row_of(call, ATTUNE_Q, batch, head, row);
    float *o = row_of(call, ATTUNE_O, batch, head, row);
    memset(o, 0, (size_t)problem->head_dim_v * sizeof *o);
    for (int64_t j = 0; j < seen; ++j) {
        const float *k = row_of(call, ATTUNE_K, batch, head_kv, j);
        float dot = 0;
        for (int d = 0; d < problem->head_dim_qk; ++d) {
            dot += q[d] * k[d];
        }
        self->scores[j] = scale * dot;
        largest = fmaxf(largest, self->scores[j]);
    }
    for (int64_t j = 0; j < seen; ++j) {
        const float *v = row_of(call, ATTUNE_V, batch, head_kv, j);
        float weight = expf(self->scores[j] - largest);
        sum += weight;
        for (int d = 0; d < problem->head_dim_v; ++d) {
            o[d] += weight * v[d];
        }
    }
    for (int d = 0; d < problem->head_dim_v && sum > 0; ++d) {
        o[d] /= sum;
    }
    if (call->tensor[ATTUNE_LSE].data != NULL) {
        *row_of(call, ATTUNE_LSE, batch, head, row) = largest + logf(sum);
    }
}

static attune_status run(void *of, const attune_call *call)
{
    for (int64_t batch = 0; batch < call->batch; ++batch) {
        for (int64_t head = 0; head < call->heads_q; ++head) {
            for (int64_t row = 0; row < call->seqlen_q; ++row) {
                attend(of, call, batch, head, row);
            }
        }
    }
    return ATTUNE_OK;
}

static void close_mine(void *of)
{
    mine *self = of;
    free(self->scores);
    free(self);
}

static int is_plain(const attune_problem *problem)
{
    return problem->dtype == ATTUNE_FP32 && problem->softcap == 0 && problem->bias == ATTUNE_BIAS_NONE &&
           problem->window_left < 0 && problem->window_right <= 0 && !problem->mask && !problem->alibi &&
           !problem->sink && !problem->seqused_kv && !problem->varlen &&
           (problem->window_right < 0 || problem->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT);
}

static attune_status open_mine(void *unused, const char *name, const attune_problem *problem, int32_t device,
                               int32_t threads, attune_arm *arm)
{
    (void)unused;
    (void)threads; /* this arm uses one */
    if (strcmp(name, "mine") != 0) {
        return ATTUNE_NOT_FOUND;
    }
    if (device >= 0 || !is_plain(problem)) {
        return attune_report(ATTUNE_UNSUPPORTED, "mine computes fp32 on a CPU, without features but causal");
    }
    mine *self = calloc(1, sizeof *self);
    if (self == NULL || (self->scores = calloc((size_t)problem->seqlen_kv + 1, sizeof(float))) == NULL) {
        free(self);
        return attune_report(ATTUNE_OUT_OF_MEMORY, "mine: no memory for a row of scores");
    }
    self->problem = *problem;
    arm->self = self;
    arm->account = "an example, one thread";
    arm->run = run;
    arm->close = close_mine;
    return ATTUNE_OK;
}

int main(void)
{
    attune_arm_hooks hooks = {.size = sizeof hooks, .open = open_mine};
    return attune_worker_serve(&hooks) == ATTUNE_OK ? 0 : 1;
}
