/* cpu_merge: one result of several, by their LSE. docs/cpu.md explains it.
 *
 * A work item is a few rows. Weights are divided by their sum before they multiply, so that outputs stay means.
 */
#include "device/sequence.h"

enum { ROWS = 8, DIMS = 256 }; /* of an item, as in the descriptor; the largest head dim */

typedef struct merged {
    const attune_args *args;
    int64_t batch, head, row;
    float top, sum; /* of e^(LSE - top), the sink's included */
    bool empty;     /* all states are */
} merged;

static int64_t index_of(const merged *m, attune_role role)
{
    const int64_t *stride = m->args->tensor[role].stride;
    return m->batch * stride[ATTUNE_STRIDE_BATCH] + m->head * stride[ATTUNE_STRIDE_HEAD] +
           m->row * stride[ATTUNE_STRIDE_SEQ];
}

static float lse_of(const merged *m, int64_t state)
{
    float lse;
    const int64_t at = index_of(m, ATTUNE_STATE_LSE) + state * m->args->state_stride_lse;
    memcpy(&lse, (const float *)m->args->tensor[ATTUNE_STATE_LSE].data + at, sizeof lse);
    return lse;
}

/* NaN becomes the sum's. */
static void sum_states(merged *m)
{
    const float sink = sink_of(m->args, m->head);
    m->top = sink;
    m->empty = true;
    for (int64_t s = 0; s < m->args->states; ++s) {
        const float lse = lse_of(m, s);
        m->empty = m->empty && lse == -INFINITY;
        m->top = lse > m->top || m->top != m->top ? lse : m->top;
    }
    m->sum = sink == -INFINITY ? 0 : expf(sink - m->top);
    for (int64_t s = 0; s < m->args->states && !m->empty; ++s) {
        const float lse = lse_of(m, s);
        m->sum += lse == -INFINITY ? 0 : expf(lse - m->top);
    }
}

/* An infinite value has a weight, however small. */
static void add_state(const merged *m, int64_t state, float *out)
{
    const attune_tensor *t = &m->args->tensor[ATTUNE_STATE_O];
    const int64_t at = index_of(m, ATTUNE_STATE_O) + state * m->args->state_stride_o;
    const char *from = (const char *)t->data + at * bytes_of(t->dtype);
    const float weight = expf(lse_of(m, state) - m->top) / m->sum;
    const float least = weight < 0x1p-126f ? 0x1p-126f : weight;
    for (int c = 0; c < m->args->head_dim_v; c += VL) {
        vf x = load_some(from + c * bytes_of(t->dtype), t->dtype, m->args->head_dim_v - c);
        vf by = blend(magnitude(x) == splat(INFINITY), splat(least), splat(weight));
        store(out + c, load(out + c) + by * x);
    }
}

static void merge_row(merged *m)
{
    const attune_args *args = m->args;
    const int dtype = args->tensor[ATTUNE_O].dtype;
    float out[DIMS] __attribute__((aligned(64))) = {0};
    sum_states(m);
    for (int64_t s = 0; s < args->states; ++s) {
        if (!(lse_of(m, s) == -INFINITY)) {
            add_state(m, s, out);
        }
    }
    char *to = (char *)args->tensor[ATTUNE_O].data + index_of(m, ATTUNE_O) * bytes_of(dtype);
    for (int c = 0; c < args->head_dim_v; c += VL) {
        store_some(to + c * bytes_of(dtype), dtype, args->head_dim_v - c, load(out + c));
    }
    store_row_lse(args, m->batch, m->head, m->row, m->empty ? sink_of(args, m->head) : m->top + logf(m->sum));
}

void ATTUNE_TIER(attune_cpu_merge)(const attune_args *args, int64_t index, void *scratch);

void ATTUNE_TIER(attune_cpu_merge)(const attune_args *args, int64_t index, void *scratch)
{
    (void)scratch;
    const int64_t blocks = (args->seqlen_q + ROWS - 1) / ROWS;
    const int64_t owner = index / blocks;
    merged m = {.args = args, .batch = owner / args->heads_q, .head = owner % args->heads_q};
    m.row = index % blocks * ROWS;
    for (const int64_t end = lesser_of(m.row + ROWS, args->seqlen_q); m.row < end; ++m.row) {
        merge_row(&m);
    }
}
