/* From the tensors of a run and its options to the problem they state, and the call. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "cli/run.h"
#include "core/problem.h"

/* ---- Q, K and V ------------------------------------------------------------------------------------------------- */

/* A tensor's sizes under the names of its dimensions; those it lacks are 1. */
typedef struct sizes {
    int64_t batch, heads, rows, width;
} sizes;

static attune_status wrong_shape(const at_run_tensor *tensor, const char *expected)
{
    char shape[AT_ARRAY_TEXT_MAX];
    at_array_shape_text(&tensor->array, shape);
    return at_fail(ATTUNE_INVALID_ARGUMENT, "%s: its shape is %s, expected %s", tensor->source, shape, expected);
}

static attune_status read_sizes(const at_run_tensor *tensor, const attune_problem *problem, sizes *out)
{
    const at_array *array = &tensor->array;
    const int64_t *shape = array->shape;
    bool heads_inside = problem->layout == ATTUNE_BSHD;
    if (array->rank == 4 && !problem->varlen) {
        *out = (sizes){shape[0], shape[heads_inside ? 2 : 1], shape[heads_inside ? 1 : 2], shape[3]};
    } else if (array->rank == 3) {
        *out = (sizes){1, shape[heads_inside ? 1 : 0], shape[heads_inside ? 0 : 1], shape[2]};
    } else if (array->rank == 2) {
        *out = (sizes){1, 1, shape[0], shape[1]};
    } else {
        return wrong_shape(tensor, problem->varlen ? "[total, heads, dim] or [total, dim], as CU_Q and CU_KV are given"
                                   : heads_inside  ? "[batch, seq, heads, dim], [seq, heads, dim] or [seq, dim]"
                                                   : "[batch, heads, seq, dim], [heads, seq, dim] or [seq, dim]");
    }
    return ATTUNE_OK;
}

/* One size of a tensor against what another tensor has said. */
static attune_status agree(const at_run_tensor *tensor, const char *field, int64_t value, const at_run_tensor *other,
                           const char *other_name, int64_t expected)
{
    AT_FAIL_IF(value != expected, ATTUNE_INVALID_ARGUMENT, "%s: its %s is %lld, %s (%s) has %lld", tensor->source,
               field, (long long)value, other_name, other->source, (long long)expected);
    return ATTUNE_OK;
}

static attune_status check_dtype(const at_run_tensor *tensor, int32_t dtype, const char *why)
{
    AT_FAIL_IF(tensor->array.dtype != dtype, ATTUNE_INVALID_ARGUMENT, "%s: its dtype is %s, expected %s%s",
               tensor->source, at_dtype_name(tensor->array.dtype), at_dtype_name(dtype), why);
    return ATTUNE_OK;
}

static attune_status fits_int32(const at_run_tensor *tensor, const char *field, int64_t value, int32_t *out)
{
    AT_FAIL_IF(value < 1 || value > 256, ATTUNE_INVALID_ARGUMENT, "%s: its %s is %lld, allowed are 1 ... 256",
               tensor->source, field, (long long)value);
    *out = (int32_t)value;
    return ATTUNE_OK;
}

static attune_status state_dtype(at_run_job *job)
{
    const at_run_tensor *q = &job->input[ATTUNE_Q];
    int32_t dtype = q->array.dtype;
    AT_FAIL_IF(dtype != ATTUNE_FP32 && dtype != ATTUNE_FP16 && dtype != ATTUNE_BF16, ATTUNE_INVALID_ARGUMENT,
               "%s: its dtype is %s, Q must be fp32, fp16 or bf16", q->source, at_dtype_name(dtype));
    job->problem.dtype = (attune_dtype)dtype;
    AT_FORWARD(check_dtype(&job->input[ATTUNE_K], dtype, ", as Q has"));
    return check_dtype(&job->input[ATTUNE_V], dtype, ", as Q has");
}

/* Sizes of Q, K and V, which must agree; in `q` and `kv` for who needs the rows of packed tensors. */
static attune_status state_sizes(at_run_job *job, sizes *q, sizes *kv)
{
    attune_problem *p = &job->problem;
    const at_run_tensor *tq = &job->input[ATTUNE_Q], *tk = &job->input[ATTUNE_K], *tv = &job->input[ATTUNE_V];
    sizes v;
    AT_FORWARD(read_sizes(tq, p, q));
    AT_FORWARD(read_sizes(tk, p, kv));
    AT_FORWARD(read_sizes(tv, p, &v));
    AT_FORWARD(agree(tk, "number of dimensions", tk->array.rank, tq, "Q", tq->array.rank));
    AT_FORWARD(agree(tv, "number of dimensions", tv->array.rank, tq, "Q", tq->array.rank));
    AT_FORWARD(agree(tk, "batch", kv->batch, tq, "Q", q->batch));
    AT_FORWARD(agree(tk, "head dim", kv->width, tq, "Q", q->width));
    AT_FORWARD(agree(tv, "batch", v.batch, tq, "Q", q->batch));
    AT_FORWARD(agree(tv, "number of heads", v.heads, tk, "K", kv->heads));
    AT_FORWARD(agree(tv, "sequence length", v.rows, tk, "K", kv->rows));
    AT_FORWARD(fits_int32(tq, "head dim", q->width, &p->head_dim_qk));
    AT_FORWARD(fits_int32(tv, "head dim", v.width, &p->head_dim_v));
    AT_FAIL_IF(kv->heads < 1 || q->heads < 1 || q->heads % kv->heads != 0, ATTUNE_INVALID_ARGUMENT,
               "%s: has %lld heads, K (%s) has %lld: a multiple of them, and at least one, is expected", tq->source,
               (long long)q->heads, tk->source, (long long)kv->heads);
    p->batch = q->batch;
    p->heads_q = q->heads;
    p->heads_kv = kv->heads;
    p->seqlen_q = q->rows;
    p->seqlen_kv = kv->rows;
    return ATTUNE_OK;
}

/* ---- Packed sequences ------------------------------------------------------------------------------------------- */

/* The view's numbers, whatever its address: files do not align them. */
static int32_t int_at(const at_run_tensor *tensor, int64_t index)
{
    int32_t value;
    memcpy(&value, (const char *)tensor->array.data + (size_t)index * sizeof value, sizeof value);
    return value;
}

static attune_status check_list(const at_run_tensor *tensor, int32_t dtype, int64_t count, const char *expected)
{
    AT_FORWARD(check_dtype(tensor, dtype, ""));
    return tensor->array.rank == 1 && tensor->array.shape[0] == count ? ATTUNE_OK : wrong_shape(tensor, expected);
}

/* Checks first rows of sequences and finds the longest. */
static attune_status read_cu(const at_run_tensor *tensor, int64_t rows, const at_run_tensor *of, int64_t *longest)
{
    int64_t batch = tensor->array.shape[0] - 1;
    AT_FAIL_IF(int_at(tensor, 0) != 0, ATTUNE_INVALID_ARGUMENT, "%s: begins with %d, expected 0", tensor->source,
               int_at(tensor, 0));
    *longest = 0;
    for (int64_t i = 0; i < batch; i++) {
        int64_t from = int_at(tensor, i), to = int_at(tensor, i + 1);
        AT_FAIL_IF(to < from, ATTUNE_INVALID_ARGUMENT, "%s: decreases from %lld to %lld at index %lld", tensor->source,
                   (long long)from, (long long)to, (long long)i + 1);
        *longest = to - from > *longest ? to - from : *longest;
    }
    AT_FAIL_IF(int_at(tensor, batch) != rows, ATTUNE_INVALID_ARGUMENT, "%s: ends with %d, expected the %lld rows of %s",
               tensor->source, int_at(tensor, batch), (long long)rows, of->source);
    return ATTUNE_OK;
}

static attune_status state_varlen(at_run_job *job, const sizes *q, const sizes *kv)
{
    const at_run_tensor *cu_q = &job->input[ATTUNE_CU_Q], *cu_kv = &job->input[ATTUNE_CU_KV];
    int64_t count = cu_q->array.rank == 1 ? cu_q->array.shape[0] : 0;
    AT_FORWARD(check_dtype(cu_q, ATTUNE_INT32, ""));
    if (count < 2) {
        return wrong_shape(cu_q, "[batch + 1], at least two numbers");
    }
    AT_FORWARD(check_list(cu_kv, ATTUNE_INT32, count, "as many numbers as CU_Q"));
    job->problem.batch = count - 1;
    AT_FORWARD(read_cu(cu_q, q->rows, &job->input[ATTUNE_Q], &job->problem.seqlen_q));
    return read_cu(cu_kv, kv->rows, &job->input[ATTUNE_K], &job->problem.seqlen_kv);
}

/* ---- Roles that features bring ---------------------------------------------------------------------------------- */

/* The tensor's shape read from the right against [batch, heads, sq, skv]: missing dimensions count as 1, and those in
 * `fixed` cannot be 1 unless the problem's are. */
static attune_status read_broadcast(const at_run_tensor *tensor, const attune_problem *p, const bool fixed[4],
                                    const char *expected, int64_t extent[4])
{
    const int64_t full[4] = {p->batch, p->heads_q, p->seqlen_q, p->seqlen_kv};
    int missing = 4 - tensor->array.rank;
    if (missing < 0 || missing > 2) {
        return wrong_shape(tensor, expected);
    }
    for (int i = 0; i < 4; i++) {
        extent[i] = i < missing ? 1 : tensor->array.shape[i - missing];
        if (extent[i] != full[i] && (fixed[i] || extent[i] != 1)) {
            char words[200];
            at_text text;
            at_text_init_fixed(&text, words, sizeof words);
            at_text_add(&text, "%s = [%lld, %lld, %lld, %lld]", expected, (long long)full[0], (long long)full[1],
                        (long long)full[2], (long long)full[3]);
            return wrong_shape(tensor, words);
        }
    }
    return ATTUNE_OK;
}

static attune_status state_bias(at_run_job *job)
{
    static const bool fixed[4] = {false, false, true, true};
    const at_run_tensor *bias = &job->input[ATTUNE_BIAS];
    int64_t extent[4];
    if (!bias->given) {
        return ATTUNE_OK;
    }
    AT_FORWARD(check_dtype(bias, (int32_t)job->problem.dtype, ", as Q has"));
    AT_FORWARD(read_broadcast(bias, &job->problem, fixed, "[1 or batch, 1 or heads, seqlen_q, seqlen_kv]", extent));
    bool of_batch = extent[0] > 1, of_heads = extent[1] > 1;
    job->problem.bias =
        of_batch ? (of_heads ? ATTUNE_BIAS_BXH : ATTUNE_BIAS_BX1) : (of_heads ? ATTUNE_BIAS_1XH : ATTUNE_BIAS_1X1);
    return ATTUNE_OK;
}

static attune_status check_used(const at_run_tensor *used, const attune_problem *p, const at_run_tensor *cu_kv)
{
    for (int64_t i = 0; i < p->batch; i++) {
        int64_t most = p->varlen ? int_at(cu_kv, i + 1) - int_at(cu_kv, i) : p->seqlen_kv;
        AT_FAIL_IF(int_at(used, i) < 0 || int_at(used, i) > most, ATTUNE_INVALID_ARGUMENT,
                   "%s: number %lld is %d, allowed are 0 ... %lld, the keys of that sequence", used->source,
                   (long long)i, int_at(used, i), (long long)most);
    }
    return ATTUNE_OK;
}

static attune_status state_lists(at_run_job *job)
{
    attune_problem *p = &job->problem;
    const at_run_tensor *used = &job->input[ATTUNE_USED_KV];
    p->alibi = job->input[ATTUNE_SLOPES].given;
    p->sink = job->input[ATTUNE_SINK].given;
    p->seqused_kv = used->given;
    if (p->alibi) {
        AT_FORWARD(check_list(&job->input[ATTUNE_SLOPES], ATTUNE_FP32, p->heads_q, "[heads], one slope a head of Q"));
    }
    if (p->sink) {
        AT_FORWARD(check_list(&job->input[ATTUNE_SINK], ATTUNE_FP32, p->heads_q, "[heads], one sink a head of Q"));
    }
    if (p->seqused_kv) {
        AT_FORWARD(check_list(used, ATTUNE_INT32, p->batch, "[batch], one length a sequence"));
        AT_FORWARD(check_used(used, p, &job->input[ATTUNE_CU_KV]));
    }
    return ATTUNE_OK;
}

/* ---- Options ---------------------------------------------------------------------------------------------------- */

static attune_status state_offset(const at_cli *cli, attune_problem *p)
{
    const char *text = at_cli_text(cli, "--offset");
    if (text == NULL || strcmp(text, "br") == 0) {
        return ATTUNE_OK;
    }
    if (strcmp(text, "tl") == 0) {
        p->offset_kind = ATTUNE_OFFSET_TOP_LEFT;
        return ATTUNE_OK;
    }
    attune_status status = at_parse_int64("--offset", text, -AT_DIM_MAX, AT_DIM_MAX, &p->offset);
    p->offset_kind = ATTUNE_OFFSET_NUMBER;
    return status == ATTUNE_OK ? status : at_fail_in(status, "neither tl nor br");
}

static attune_status state_window(const at_cli *cli, attune_problem *p)
{
    const char *text = at_cli_text(cli, "--window");
    if (text == NULL) {
        return ATTUNE_OK;
    }
    char left[24];
    const char *colon = strchr(text, ':');
    AT_FAIL_IF(colon == NULL || colon - text >= (ptrdiff_t)sizeof left, ATTUNE_INVALID_ARGUMENT,
               "--window is %.60s, expected LEFT:RIGHT, such as 256:0 (-1: unbounded)", text);
    memcpy(left, text, (size_t)(colon - text));
    left[colon - text] = '\0';
    AT_FORWARD(at_parse_int64("left side of --window", left, -1, AT_DIM_MAX, &p->window_left));
    return at_parse_int64("right side of --window", colon + 1, -1, AT_DIM_MAX, &p->window_right);
}

static attune_status state_options(const at_cli *cli, attune_problem *p)
{
    const char *scale = at_cli_text(cli, "--scale"), *softcap = at_cli_text(cli, "--softcap");
    p->strict = at_cli_given(cli, "--strict");
    p->tf32 = at_cli_given(cli, "--tf32");
    if (scale != NULL) {
        AT_FORWARD(at_parse_float("--scale", scale, &p->scale));
        AT_FAIL_IF(p->scale == 0.0f, ATTUNE_INVALID_ARGUMENT, "--scale is %s, expected a number other than 0", scale);
    }
    if (softcap != NULL) {
        AT_FORWARD(at_parse_float("--softcap", softcap, &p->softcap));
        AT_FAIL_IF(!(p->softcap > 0.0f), ATTUNE_INVALID_ARGUMENT, "--softcap is %s, expected a number above 0",
                   softcap);
    }
    AT_FORWARD(state_offset(cli, p));
    AT_FORWARD(state_window(cli, p));
    p->window_right = at_cli_given(cli, "--causal") ? 0 : p->window_right;
    return ATTUNE_OK;
}

static attune_status state_layout(const at_cli *cli, attune_problem *p)
{
    const char *text = at_cli_text(cli, "--layout");
    bool bhsd = text != NULL && strcmp(text, "bhsd") == 0;
    AT_FAIL_IF(bhsd && p->varlen, ATTUNE_INVALID_ARGUMENT,
               "--layout is bhsd, but packed sequences (CU_Q, CU_KV) are [total, heads, dim]");
    p->layout = p->varlen || (text != NULL && !bhsd) ? ATTUNE_BSHD : ATTUNE_BHSD;
    return ATTUNE_OK;
}

/* ---- The call --------------------------------------------------------------------------------------------------- */

static attune_status make_output(const char *role, at_array *array)
{
    AT_FORWARD(at_array_size(role, array->shape, array->rank, at_array_element(array->dtype), &array->bytes));
    void *data = NULL;
    AT_FAIL_IF(posix_memalign(&data, 256, array->bytes > 0 ? array->bytes : 1) != 0, ATTUNE_OUT_OF_MEMORY,
               "no memory for the %zu bytes of %s", array->bytes, role);
    memset(data, 0, array->bytes);
    array->data = data;
    return ATTUNE_OK;
}

/* O has the shape of Q but for its head dim; LSE [batch, heads, seq] as far as Q has these, packed: [heads, total]. */
static attune_status make_outputs(at_run_job *job, int64_t rows)
{
    const attune_problem *p = &job->problem;
    const at_array *q = &job->input[ATTUNE_Q].array;
    job->o = (at_array){.dtype = (int32_t)p->dtype, .rank = q->rank};
    memcpy(job->o.shape, q->shape, sizeof q->shape);
    job->o.shape[q->rank - 1] = p->head_dim_v;
    job->lse = (at_array){.dtype = ATTUNE_FP32, .rank = q->rank - 1};
    const int64_t full[3] = {p->batch, p->heads_q, rows};
    memcpy(job->lse.shape, full + 3 - job->lse.rank, sizeof full[0] * (size_t)job->lse.rank);
    AT_FORWARD(make_output("O", &job->o));
    return make_output("LSE", &job->lse);
}

/* Strides of a tensor that is broadcast over what it has one of. */
static void broadcast_strides(at_run_job *job, int role)
{
    const at_array *array = &job->input[role].array;
    int64_t stride = array->rank > 0 ? array->shape[array->rank - 1] : 1;
    attune_tensor *tensor = &job->call.tensor[role];
    for (int i = 2; i >= 0; i--) {
        int from = array->rank - 4 + i;
        int64_t extent = from < 0 ? 1 : array->shape[from];
        tensor->stride[i] = extent == 1 ? 0 : stride;
        stride *= extent;
    }
}

static attune_status make_call(at_run_job *job, const sizes *q, const sizes *kv)
{
    AT_FORWARD(attune_call_init(&job->call, &job->problem));
    job->call.total_q = job->problem.varlen ? q->rows : job->call.total_q;
    job->call.total_kv = job->problem.varlen ? kv->rows : job->call.total_kv;
    AT_FORWARD(make_outputs(job, q->rows));
    for (int role = 0; role < ATTUNE_ROLE_COUNT; role++) {
        /* The public struct is for inputs and outputs alike, and so not const; inputs are only read. */
        job->call.tensor[role].data = job->input[role].given ? (void *)(uintptr_t)job->input[role].array.data : NULL;
    }
    job->call.tensor[ATTUNE_O].data = (void *)(uintptr_t)job->o.data;
    job->call.tensor[ATTUNE_LSE].data = (void *)(uintptr_t)job->lse.data;
    if (job->problem.varlen) {
        /* attune_call_init's strides of LSE are those of the longest lengths allowed; ours are of the actual rows. */
        job->call.tensor[ATTUNE_LSE].stride[ATTUNE_STRIDE_HEAD] = q->rows;
        job->call.tensor[ATTUNE_LSE].stride[ATTUNE_STRIDE_SEQ] = 1;
    }
    broadcast_strides(job, ATTUNE_BIAS);
    broadcast_strides(job, ATTUNE_MASK);
    return ATTUNE_OK;
}

static attune_status check_present(const at_run_job *job)
{
    static const char *const option[] = {"--q", "--k", "--v"};
    for (int role = ATTUNE_Q; role <= ATTUNE_V; role++) {
        AT_FAIL_IF(!job->input[role].given, ATTUNE_INVALID_ARGUMENT,
                   "%s is missing: give %s FILE, or --in FILE with a tensor %s", at_role_name(role), option[role],
                   at_role_name(role));
    }
    bool q = job->input[ATTUNE_CU_Q].given, kv = job->input[ATTUNE_CU_KV].given;
    AT_FAIL_IF(q != kv, ATTUNE_INVALID_ARGUMENT, "%s is given but %s is not: packed sequences need both",
               q ? "CU_Q" : "CU_KV", q ? "CU_KV" : "CU_Q");
    return ATTUNE_OK;
}

attune_status at_run_state(const at_cli *cli, at_run_job *job)
{
    static const bool mask_fixed[4] = {false, false, false, true};
    attune_problem *p = &job->problem;
    sizes q, kv;
    int64_t extent[4];
    attune_problem_init(p);
    AT_FORWARD(check_present(job));
    p->varlen = job->input[ATTUNE_CU_Q].given;
    AT_FORWARD(state_layout(cli, p));
    AT_FORWARD(state_dtype(job));
    AT_FORWARD(state_sizes(job, &q, &kv));
    if (p->varlen) {
        AT_FORWARD(state_varlen(job, &q, &kv));
    }
    AT_FORWARD(state_bias(job));
    AT_FORWARD(state_lists(job));
    p->mask = job->input[ATTUNE_MASK].given;
    if (p->mask) {
        AT_FORWARD(check_dtype(&job->input[ATTUNE_MASK], ATTUNE_BOOL, ""));
        AT_FORWARD(read_broadcast(&job->input[ATTUNE_MASK], p, mask_fixed,
                                  "[1 or batch, 1 or heads, 1 or seqlen_q, seqlen_kv]", extent));
    }
    AT_FORWARD(state_options(cli, p));
    AT_FORWARD(attune_problem_check(p));
    return make_call(job, &q, &kv);
}

void at_run_free(at_run_job *job)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; role++) {
        at_run_unload(&job->input[role]);
    }
    at_safetensors_destroy(job->in);
    free((void *)(uintptr_t)job->o.data);
    free((void *)(uintptr_t)job->lse.data);
    *job = (at_run_job){.in = NULL};
}
