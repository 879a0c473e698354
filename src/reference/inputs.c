/* Buffers for every role: extents, strides, guard bands. What is in them is fill.c's. */
#include "reference/inputs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/random.h"
#include "base/status.h"
#include "core/call.h"
#include "core/shape.h"

enum {
    PIECE_BYTES = 1 << 20, /* painted by one thread at a time */
    GUARD_BYTES = 4096,
    LEAD_BYTES = 1024, /* at most so much further from there, with gaps */
};

static const char *const family_names[AT_FAMILY_COUNT] = {
    "normal", "large", "needle", "tail", "equal", "mixed", "negative", "hidden", "visible", "subnormal", "sparse",
};

const char *at_family_name(at_family family)
{
    return (unsigned)family < AT_FAMILY_COUNT ? family_names[family] : "?";
}

static bool has_hidden(const attune_problem *problem)
{
    bool some_range = attune_is_windowed(problem);
    bool past_end = attune_is_causal(problem) &&
                    (problem->offset_kind == ATTUNE_OFFSET_NUMBER ||
                     (problem->offset_kind == ATTUNE_OFFSET_TOP_LEFT && problem->seqlen_kv > problem->seqlen_q));
    return problem->seqused_kv || problem->varlen || problem->page_size > 0 || problem->draft_mask || problem->mask ||
           problem->bias != ATTUNE_BIAS_NONE || some_range || past_end;
}

bool at_family_applies(at_family family, const attune_problem *problem)
{
    if (problem->op != ATTUNE_FORWARD) {
        const bool of_merge = family != AT_FAMILY_NEEDLE && family != AT_FAMILY_MIXED && family < AT_FAMILY_SPARSE;
        return family == AT_FAMILY_NORMAL || (problem->op == ATTUNE_MERGE && of_merge);
    }
    switch (family) {
    case AT_FAMILY_MIXED:
        return problem->batch * problem->heads_kv > 1;
    case AT_FAMILY_HIDDEN:
        return has_hidden(problem);
    default:
        return family >= 0 && family < AT_FAMILY_COUNT;
    }
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------ */

/* A length in [0, longest]: full, empty, or anything between. */
static int64_t draw_length(at_random *random, int64_t longest)
{
    uint64_t kind = at_random_below(random, 8);
    if (kind == 0) {
        return 0;
    }
    return kind == 1 ? longest : (int64_t)at_random_below(random, (uint64_t)longest + 1);
}

void at_inputs_lengths(const attune_problem *problem, uint64_t length_seed, int32_t *cu_q, int32_t *cu_kv)
{
    at_random random = at_random_seed(length_seed, 0x6c656e);
    int64_t full = (int64_t)at_random_below(&random, (uint64_t)problem->batch);
    int64_t empty = (full + 1) % problem->batch;
    cu_q[0] = cu_kv[0] = 0;
    for (int64_t b = 0; b < problem->batch; ++b) {
        int64_t length_q = draw_length(&random, problem->seqlen_q);
        int64_t length_kv = draw_length(&random, problem->seqlen_kv);
        if (problem->seqlen_q == problem->seqlen_kv && at_random_below(&random, 4) != 0) {
            length_kv = length_q; /* self-attention */
        }
        if (b == full) {
            length_q = problem->seqlen_q;
            length_kv = problem->seqlen_kv;
        } else if (b == empty && problem->batch > 2) {
            length_q = at_random_below(&random, 2) ? 0 : length_q;
            length_kv = 0;
        }
        cu_q[b + 1] = (int32_t)(cu_q[b] + length_q);
        cu_kv[b + 1] = (int32_t)(cu_kv[b] + length_kv);
    }
}

static int64_t longest_of(const int32_t *cu, int64_t batch)
{
    int64_t longest = 0;
    for (int64_t b = 0; b < batch; ++b) {
        longest = cu[b + 1] - cu[b] > longest ? cu[b + 1] - cu[b] : longest;
    }
    return longest;
}

/* Of a pool that is larger than what is used, by the seed's upper half; a table has columns to spare. */
static void set_cache_sizes(at_inputs *inputs)
{
    const attune_problem *problem = &inputs->problem;
    attune_call *call = &inputs->call;
    at_random random = at_random_seed(inputs->draw.seed >> 32, 0x7061676573);
    const int64_t width = at_problem_table_width(problem, problem->seqlen_kv);
    if (problem->page_size > 0) {
        const int64_t pages = problem->batch * width;
        call->page_count = pages + 1 + (int64_t)at_random_below(&random, (uint64_t)pages / 2 + 2);
        call->page_table_width = problem->slots ? 0 : width + (int64_t)at_random_below(&random, 3);
    }
    call->total_new = problem->op == ATTUNE_APPEND ? problem->batch * problem->seqlen_q : 0;
    call->states = problem->states;
}

static void set_sizes(at_inputs *inputs)
{
    const attune_problem *problem = &inputs->problem;
    attune_call *call = &inputs->call;
    *call = (attune_call){
        .size = sizeof *call,
        .batch = problem->batch,
        .heads_q = problem->heads_q,
        .heads_kv = problem->heads_kv,
        .seqlen_q = problem->seqlen_q,
        .seqlen_kv = problem->seqlen_kv,
        .total_q = problem->batch * problem->seqlen_q,
        .total_kv = problem->batch * problem->seqlen_kv,
        .offset = problem->offset,
    };
    set_cache_sizes(inputs);
}

/* Rows of a packed tensor: with gaps, up to three follow the last sequence and belong to none. */
static int64_t packed_rows(const at_inputs *inputs, int64_t used, int64_t longest)
{
    int64_t most = inputs->problem.batch * longest;
    int64_t rows = used + (inputs->draw.gaps ? 3 : 0);
    return rows < most ? rows : most;
}

static attune_status set_packed_sizes(at_inputs *inputs)
{
    const attune_problem *problem = &inputs->problem;
    attune_call *call = &inputs->call;
    size_t entries = (size_t)problem->batch + 1;
    int32_t *cu = malloc(2 * entries * sizeof *cu);
    AT_FAIL_IF(cu == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %lld sequence lengths", (long long)problem->batch);
    at_inputs_lengths(problem, inputs->draw.length_seed, cu, cu + entries);
    call->total_q = packed_rows(inputs, cu[problem->batch], problem->seqlen_q);
    call->total_kv = packed_rows(inputs, cu[entries + (size_t)problem->batch], problem->seqlen_kv);
    call->total_new = problem->op == ATTUNE_APPEND ? call->total_q : 0;
    call->seqlen_q = longest_of(cu, problem->batch);
    call->seqlen_kv = problem->page_size > 0 || problem->op == ATTUNE_APPEND ? problem->seqlen_kv
                                                                             : longest_of(cu + entries, problem->batch);
    free(cu);
    return ATTUNE_OK;
}

/* Which of batch, head and row the MASK really has: drawn, so that every broadcast is met; by the seed's upper half, so
 * that draws of neighbouring seeds fit into each other's buffers. */
static bool mask_has(const at_inputs *inputs, int dimension)
{
    at_random random = at_random_seed(inputs->draw.seed >> 32, 0x6d61736b);
    uint64_t bits = at_random_next(&random);
    bool broadcast = dimension == ATTUNE_STRIDE_SEQ ? (bits & 0x70) == 0 : bits >> (8 + dimension) & 1;
    return !broadcast;
}

/* Whether K and V have this dimension once, for all to read. */
static bool is_repeated(const at_inputs *inputs, attune_role role, int dimension)
{
    const attune_problem *problem = &inputs->problem;
    const bool can = problem->op == ATTUNE_FORWARD && problem->page_size == 0 && !problem->varlen &&
                     !problem->seqused_kv && (role == ATTUNE_K || role == ATTUNE_V);
    return can && (inputs->draw.repeats >> dimension & 1) != 0;
}

at_extent at_inputs_extent(const at_inputs *inputs, attune_role role)
{
    const attune_problem *problem = &inputs->problem;
    const attune_call *call = &inputs->call;
    int64_t batch = problem->varlen ? 1 : call->batch;
    int64_t rows_q = problem->varlen ? call->total_q : call->seqlen_q;
    const bool packed_kv = problem->varlen && problem->op == ATTUNE_FORWARD;
    const int64_t batch_kv = packed_kv ? 1 : call->batch;
    int64_t rows_kv = packed_kv ? call->total_kv : call->seqlen_kv;
    const bool pool = problem->page_size > 0;
    switch (role) {
    case ATTUNE_Q:
        return (at_extent){{batch, call->heads_q, rows_q}, problem->head_dim_qk};
    case ATTUNE_K:
    case ATTUNE_V:
        return (at_extent){{pool                                             ? call->page_count
                            : is_repeated(inputs, role, ATTUNE_STRIDE_BATCH) ? 1
                                                                             : batch_kv,
                            is_repeated(inputs, role, ATTUNE_STRIDE_HEAD) ? 1 : call->heads_kv,
                            pool ? problem->page_size : rows_kv},
                           role == ATTUNE_K ? problem->head_dim_qk : problem->head_dim_v};
    case ATTUNE_O:
        return (at_extent){{batch, call->heads_q, rows_q}, problem->head_dim_v};
    case ATTUNE_LSE:
        return (at_extent){{batch, call->heads_q, rows_q}, 1};
    case ATTUNE_BIAS:
        return (at_extent){{problem->bias == ATTUNE_BIAS_BX1 || problem->bias == ATTUNE_BIAS_BXH ? call->batch : 1,
                            problem->bias == ATTUNE_BIAS_1XH || problem->bias == ATTUNE_BIAS_BXH ? call->heads_q : 1,
                            call->seqlen_q},
                           call->seqlen_kv};
    case ATTUNE_MASK:
        return (at_extent){{mask_has(inputs, ATTUNE_STRIDE_BATCH) ? call->batch : 1,
                            mask_has(inputs, ATTUNE_STRIDE_HEAD) ? call->heads_q : 1,
                            mask_has(inputs, ATTUNE_STRIDE_SEQ) ? call->seqlen_q : 1},
                           call->seqlen_kv};
    case ATTUNE_SINK:
    case ATTUNE_SLOPES:
        return (at_extent){{1, call->heads_q, 1}, 1};
    case ATTUNE_CU_Q:
    case ATTUNE_CU_KV:
        return (at_extent){{1, 1, 1}, call->batch + 1};
    case ATTUNE_PAGE_TABLE_K:
    case ATTUNE_PAGE_TABLE_V:
        return (at_extent){{call->batch, 1, 1}, call->page_table_width};
    case ATTUNE_DRAFT_MASK:
        return (at_extent){{batch, 1, rows_q}, 1};
    case ATTUNE_NEW_K:
    case ATTUNE_NEW_V:
        return (at_extent){{1, call->heads_kv, call->total_new},
                           role == ATTUNE_NEW_K ? problem->head_dim_qk : problem->head_dim_v};
    case ATTUNE_SLOTS:
        return (at_extent){{1, 1, 1}, call->total_new};
    case ATTUNE_STATE_O: /* a state's sequences lie behind those of the state before */
    case ATTUNE_STATE_LSE:
        return (at_extent){{call->states * call->batch, call->heads_q, call->seqlen_q},
                           role == ATTUNE_STATE_O ? problem->head_dim_v : 1};
    default: /* USED_KV */
        return (at_extent){{1, 1, 1}, call->batch};
    }
}

/* ---- Strides ---------------------------------------------------------------------------------------------------- */

static int32_t dtype_of(const at_inputs *inputs, attune_role role)
{
    return at_problem_dtype(&inputs->problem, role);
}

/* Elements that strides of the role are multiples of. */
static int64_t unit_of(const at_inputs *inputs, attune_role role)
{
    int64_t bytes = (int64_t)at_dtype_bytes(dtype_of(inputs, role));
    int64_t align = at_role_has_head_dim((int)role) ? at_problem_align(&inputs->problem) : bytes;
    return align > bytes ? align / bytes : 1;
}

/* Dimensions from the innermost on: the layout's; with gaps every other time any of the six orders that Q, K, V and O
 * can have. */
static const int *order_of(const at_inputs *inputs, attune_role role)
{
    enum { B = ATTUNE_STRIDE_BATCH, H = ATTUNE_STRIDE_HEAD, S = ATTUNE_STRIDE_SEQ, ORDERS = 6 };
    static const int order[ORDERS][3] = {{S, H, B}, {H, S, B}, {B, H, S}, {H, B, S}, {S, B, H}, {B, S, H}};
    const attune_problem *problem = &inputs->problem;
    const bool interleaved = at_role_has_head_dim((int)role) && (problem->layout == ATTUNE_BSHD || problem->varlen);
    at_random random = at_random_seed(inputs->draw.seed >> 32, 0x6f72646572 + (uint64_t)role);
    const bool any = inputs->draw.gaps && role <= ATTUNE_O && problem->op == ATTUNE_FORWARD && problem->page_size == 0;
    return order[any && at_random_below(&random, 2) == 0 ? at_random_below(&random, ORDERS) : interleaved];
}

/* With gaps, rows, heads and batches are drawn distances further apart than they need. */
static void set_strides(at_inputs *inputs, attune_role role)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    attune_tensor *tensor = &inputs->call.tensor[role];
    const int *order = order_of(inputs, role);
    int64_t unit = unit_of(inputs, role);
    int64_t stride = extent.row;
    /* By the seed's upper half: see at_draw. */
    at_random random = at_random_seed(inputs->draw.seed >> 32, 0x67617073 + (uint64_t)role);
    if (at_role_is_array((int)role)) {
        tensor->stride[ATTUNE_STRIDE_BATCH] = 1;
        return;
    }
    for (int k = 0; k < 3; ++k) {
        int dimension = order[k];
        stride = (stride + unit - 1) / unit * unit;
        stride += inputs->draw.gaps ? unit * (1 + (int64_t)at_random_below(&random, 7)) : 0;
        tensor->stride[dimension] = stride;
        stride *= extent.count[dimension] > 0 ? extent.count[dimension] : 1;
    }
    for (int k = 0; k < 3; ++k) {
        const bool broadcast = (role == ATTUNE_BIAS || role == ATTUNE_MASK) && extent.count[k] == 1;
        tensor->stride[k] = broadcast || is_repeated(inputs, role, k) ? 0 : tensor->stride[k];
    }
}

/* Moves the last index of the outermost dimension that has several beyond 2^31 elements. */
static void set_far_stride(at_inputs *inputs, attune_role role)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    attune_tensor *tensor = &inputs->call.tensor[role];
    int64_t unit = unit_of(inputs, role);
    for (int k = ATTUNE_STRIDE_BATCH; k <= ATTUNE_STRIDE_SEQ; ++k) {
        if (extent.count[k] > 1) {
            int64_t stride = ((INT64_C(1) << 31) / (extent.count[k] - 1) / unit + 1) * unit;
            tensor->stride[k] = stride > tensor->stride[k] ? stride : tensor->stride[k];
            inputs->buffer[role].sparse = true;
            return;
        }
    }
}

static size_t extent_bytes(const at_inputs *inputs, attune_role role)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    const attune_tensor *tensor = &inputs->call.tensor[role];
    int64_t last = extent.row;
    for (int k = 0; k < 3; ++k) {
        if (extent.count[k] == 0) {
            return 0;
        }
        last += (extent.count[k] - 1) * tensor->stride[k];
    }
    return (size_t)last * at_dtype_bytes(tensor->dtype);
}

size_t at_inputs_row(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const attune_tensor *tensor = &inputs->call.tensor[role];
    int64_t index = batch * tensor->stride[ATTUNE_STRIDE_BATCH] + head * tensor->stride[ATTUNE_STRIDE_HEAD] +
                    row * tensor->stride[ATTUNE_STRIDE_SEQ];
    return (size_t)index * at_dtype_bytes(tensor->dtype);
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static bool is_output(const at_inputs *inputs, attune_role role)
{
    return at_buffer_is_written(&inputs->problem, (int)role);
}

/* NOTE: an input's is NaN half of the time: what reads past an end taints its result. Else its values are ordinary or
 * wild, for whoever tells a judged call by a NaN beside it. */
at_poison at_inputs_guard(const at_inputs *inputs, attune_role role)
{
    at_random random = at_random_seed(inputs->draw.seed, 0x6775617264 + (uint64_t)role);
    at_poison guard = {.seed = at_random_next(&random), .kind = AT_POISON_BITS};
    if (!is_output(inputs, role)) {
        const int32_t kinds[] = {AT_POISON_NAN, AT_POISON_NAN, AT_POISON_BITS, AT_POISON_NUMBERS};
        guard.kind = kinds[at_random_below(&random, 4)];
    }
    return guard;
}

uint64_t at_inputs_poison_place(attune_role role, size_t at)
{
    return ((uint64_t)role << 48) + at;
}

/* A range of memory and its poison. */
typedef struct painting {
    unsigned char *at;
    size_t bytes;
    at_poison poison;
    uint64_t place;
} painting;

static void paint_piece(void *context, int64_t piece, void *scratch)
{
    const painting *on = context;
    size_t first = (size_t)piece * PIECE_BYTES;
    (void)scratch;
    at_poison_write(on->poison, on->place + first, on->at + first,
                    on->bytes - first < PIECE_BYTES ? on->bytes - first : PIECE_BYTES);
}

/* Fresh pages take longer to get than to write: all threads help. */
static void paint(const at_inputs *inputs, attune_role role, at_poison poison)
{
    const at_buffer *buffer = &inputs->buffer[role];
    painting on = {buffer->base + buffer->at, buffer->bytes, poison, at_inputs_poison_place(role, 0)};
    int64_t pieces = (int64_t)((buffer->bytes + PIECE_BYTES - 1) / PIECE_BYTES);
    if (inputs->draw.pool != NULL) {
        at_pool_run(inputs->draw.pool, pieces, paint_piece, &on);
    } else {
        at_poison_write(on.poison, on.place, on.at, on.bytes);
    }
}

/* With gaps, pointers have no more alignment than was promised. */
static size_t draw_lead(const at_inputs *inputs, attune_role role)
{
    at_random random = at_random_seed(inputs->draw.seed >> 32, 0x6c656164 + (uint64_t)role);
    size_t align = (size_t)at_problem_align(&inputs->problem);
    if (!inputs->draw.gaps || !at_role_has_head_dim((int)role)) {
        return 0;
    }
    return align < LEAD_BYTES ? align * (1 + 2 * (size_t)at_random_below(&random, LEAD_BYTES / 2 / align)) : 0;
}

static attune_status allocate(at_inputs *inputs, attune_role role)
{
    at_buffer *buffer = &inputs->buffer[role];
    buffer->at = GUARD_BYTES + draw_lead(inputs, role);
    buffer->bytes = extent_bytes(inputs, role);
    buffer->total = (buffer->at + buffer->bytes + GUARD_BYTES + 255) / 256 * 256;
    if (buffer->sparse) {
        void *pages =
            mmap(NULL, buffer->total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        buffer->base = pages == MAP_FAILED ? NULL : pages;
    } else {
        buffer->base = aligned_alloc(256, buffer->total);
    }
    AT_FAIL_IF(buffer->base == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %s: %zu bytes", at_role_name((int)role),
               buffer->total);
    inputs->call.tensor[role].data = buffer->base + buffer->at;
    const at_poison guard = at_inputs_guard(inputs, role);
    const size_t end = buffer->at + buffer->bytes;
    at_poison_write(guard, 0, buffer->base, buffer->at);
    at_poison_write(guard, end, buffer->base + end, buffer->total - end);
    if (!buffer->sparse && !is_output(inputs, role)) {
        paint(inputs, role, guard);
    }
    return ATTUNE_OK;
}

static bool is_present(const attune_problem *problem, attune_role role)
{
    return (at_call_roles(problem) >> role & 1u) != 0;
}

attune_status at_inputs_place(at_inputs *inputs)
{
    set_sizes(inputs);
    if (inputs->problem.varlen) {
        AT_FORWARD(set_packed_sizes(inputs));
    }
    for (attune_role role = ATTUNE_Q; role < ATTUNE_ROLE_COUNT; ++role) {
        if (!is_present(&inputs->problem, role)) {
            continue;
        }
        inputs->call.tensor[role].dtype = dtype_of(inputs, role);
        set_strides(inputs, role);
        if (inputs->draw.far && at_role_has_head_dim((int)role)) {
            set_far_stride(inputs, role);
        }
        AT_FORWARD(allocate(inputs, role));
    }
    if (inputs->problem.op == ATTUNE_MERGE) {
        attune_call *call = &inputs->call;
        call->state_stride_o = call->batch * call->tensor[ATTUNE_STATE_O].stride[ATTUNE_STRIDE_BATCH];
        call->state_stride_lse = call->batch * call->tensor[ATTUNE_STATE_LSE].stride[ATTUNE_STRIDE_BATCH];
    }
    return ATTUNE_OK;
}

void at_inputs_free(at_inputs *inputs)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        at_buffer *buffer = &inputs->buffer[role];
        if (buffer->sparse && buffer->base != NULL) {
            (void)munmap(buffer->base, buffer->total);
        } else {
            free(buffer->base);
        }
        *buffer = (at_buffer){0};
        inputs->call.tensor[role].data = NULL;
    }
}

/* ---- What a kernel may and may not touch ------------------------------------------------------------------------ */

void at_inputs_each_row(const at_inputs *inputs, attune_role role, void (*see)(void *, unsigned char *, size_t),
                        void *context)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    const at_buffer *buffer = &inputs->buffer[role];
    size_t bytes = (size_t)extent.row * at_dtype_bytes(inputs->call.tensor[role].dtype);
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        for (int64_t h = 0; h < extent.count[1]; ++h) {
            for (int64_t i = 0; i < extent.count[2]; ++i) {
                see(context, buffer->base + buffer->at + at_inputs_row(inputs, role, b, h, i), bytes);
            }
        }
    }
}

/* `context` is the painting of the whole buffer. */
static void poison_range(void *context, unsigned char *data, size_t bytes)
{
    const painting *on = context;
    at_poison_write(on->poison, on->place + (uint64_t)(data - on->at), data, bytes);
}

void at_inputs_poison(at_inputs *inputs, at_poison poison)
{
    inputs->draw.poison = poison;
    for (attune_role role = ATTUNE_Q; role < ATTUNE_ROLE_COUNT; ++role) {
        const at_buffer *buffer = &inputs->buffer[role];
        if (buffer->base == NULL || !is_output(inputs, role)) {
            continue;
        }
        painting on = {buffer->base + buffer->at, buffer->bytes, poison, at_inputs_poison_place(role, 0)};
        if (buffer->sparse) {
            at_inputs_each_row(inputs, role, poison_range, &on);
        } else {
            paint(inputs, role, poison);
        }
    }
}

static uint64_t digest_word(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * 0x9fb21c651e98df25u;
    return digest ^ digest >> 29;
}

/* In four chains, for each step waits for the one before it. */
static void digest_range(void *context, unsigned char *data, size_t bytes)
{
    enum { CHAINS = 4 };
    uint64_t *digest = context;
    uint64_t chain[CHAINS] = {*digest, 1, 2, 3};
    uint64_t word[CHAINS];
    for (; bytes >= sizeof word; data += sizeof word, bytes -= sizeof word) {
        memcpy(word, data, sizeof word);
        for (int i = 0; i < CHAINS; ++i) {
            chain[i] = digest_word(chain[i], word[i]);
        }
    }
    memset(word, 0, sizeof word);
    memcpy(word, data, bytes);
    *digest = digest_word(chain[0], bytes);
    for (int i = 0; i < CHAINS; ++i) {
        *digest = digest_word(digest_word(*digest, chain[i]), word[i]);
    }
}

enum { PIECES = 256 }; /* that are looked at together */

typedef struct digests {
    unsigned char *data;
    size_t bytes;
    uint64_t piece[PIECES];
} digests;

static void digest_piece(void *context, int64_t piece, void *scratch)
{
    digests *on = context;
    size_t first = (size_t)piece * PIECE_BYTES;
    (void)scratch;
    on->piece[piece] = 0;
    digest_range(&on->piece[piece], on->data + first,
                 on->bytes - first < PIECE_BYTES ? on->bytes - first : PIECE_BYTES);
}

/* In pieces, by all threads. */
static void digest_data(const at_inputs *inputs, const at_buffer *buffer, uint64_t *digest)
{
    const size_t most = (size_t)PIECES * PIECE_BYTES;
    for (size_t at = 0; at < buffer->bytes; at += most) {
        digests on = {buffer->base + buffer->at + at, buffer->bytes - at < most ? buffer->bytes - at : most, {0}};
        int64_t pieces = (int64_t)((on.bytes + PIECE_BYTES - 1) / PIECE_BYTES);
        if (inputs->draw.pool != NULL) {
            at_pool_run(inputs->draw.pool, pieces, digest_piece, &on);
        }
        for (int64_t i = 0; i < pieces; ++i) {
            if (inputs->draw.pool == NULL) {
                digest_piece(&on, i, NULL);
            }
            *digest = digest_word(*digest, on.piece[i]);
        }
    }
}

uint64_t at_inputs_digest(const at_inputs *inputs)
{
    uint64_t digest = 0x243f6a8885a308d3u;
    for (attune_role role = ATTUNE_Q; role < ATTUNE_ROLE_COUNT; ++role) {
        const at_buffer *buffer = &inputs->buffer[role];
        if (buffer->base == NULL || is_output(inputs, role)) {
            continue;
        }
        if (buffer->sparse) {
            at_inputs_each_row(inputs, role, digest_range, &digest);
        } else {
            digest_data(inputs, buffer, &digest);
        }
    }
    return digest;
}

static attune_status guards_of(const at_inputs *inputs, attune_role role)
{
    const at_buffer *buffer = &inputs->buffer[role];
    const at_poison guard = at_inputs_guard(inputs, role);
    const size_t end = buffer->at + buffer->bytes, after = buffer->total - end;
    size_t intact = at_poison_intact(guard, 0, buffer->base, buffer->at);
    AT_FAIL_IF(intact < buffer->at, ATTUNE_WRONG_RESULT, "%s was written %zu bytes before it", at_role_name((int)role),
               buffer->at - intact);
    intact = at_poison_intact(guard, end, buffer->base + end, after);
    AT_FAIL_IF(intact < after, ATTUNE_WRONG_RESULT, "%s was written %zu bytes past it", at_role_name((int)role),
               intact + 1);
    return ATTUNE_OK;
}

attune_status at_inputs_guards(const at_inputs *inputs)
{
    for (attune_role role = ATTUNE_Q; role < ATTUNE_ROLE_COUNT; ++role) {
        if (inputs->buffer[role].base != NULL) {
            AT_FORWARD(guards_of(inputs, role));
        }
    }
    return ATTUNE_OK;
}
