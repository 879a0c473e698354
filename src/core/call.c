#include "core/call.h"

#include <string.h>

#include "base/sized.h"
#include "base/status.h"
#include "core/problem.h"
#include "core/shape.h"

/* A program that was built when there were fewer roles leaves the rest out; the first four it needs. */
static const at_sized sized = {.name = "call",
                               .init = "attune_call_init",
                               .least = offsetof(attune_call, tensor) + (ATTUNE_O + 1) * sizeof(attune_tensor),
                               .bytes = sizeof(attune_call),
                               .status = ATTUNE_INVALID_ARGUMENT};

attune_status at_call_take(const attune_call *given, attune_call *room, const attune_call **call)
{
    AT_FAIL_IF(given == NULL, ATTUNE_INVALID_ARGUMENT, "call is NULL");
    if (given->size != sizeof *given) {
        AT_FORWARD(at_sized_read(&sized, given, room));
    }
    *call = given->size == sizeof *given ? given : room;
    return ATTUNE_OK;
}

/* As many pages as sequences of the longest lengths have when they share none. */
static void init_pages(attune_call *call, const attune_problem *problem)
{
    const int64_t width = at_problem_table_width(problem, problem->seqlen_kv);
    const int64_t pages = problem->batch * width; /* below 2^62 */
    call->page_count = pages < AT_DIM_MAX ? pages : AT_DIM_MAX;
    call->page_table_width = problem->slots ? 0 : width;
}

static void init_states(attune_call *call, const attune_problem *problem)
{
    if (problem->op == ATTUNE_MERGE) {
        call->state_stride_o = call->batch * call->tensor[ATTUNE_STATE_O].stride[ATTUNE_STRIDE_BATCH];
        call->state_stride_lse = call->batch * call->tensor[ATTUNE_STATE_LSE].stride[ATTUNE_STRIDE_BATCH];
    }
}

static void init(attune_call *call, const attune_problem *problem)
{
    *call = (attune_call){.size = sizeof *call};
    call->batch = problem->batch;
    call->heads_q = problem->heads_q;
    call->heads_kv = problem->heads_kv;
    call->seqlen_q = problem->seqlen_q;
    call->seqlen_kv = problem->seqlen_kv;
    call->total_q = problem->batch * problem->seqlen_q;
    call->total_kv = problem->batch * problem->seqlen_kv;
    call->offset = problem->offset_kind == ATTUNE_OFFSET_NUMBER ? problem->offset : 0;
    call->total_new = problem->op == ATTUNE_APPEND ? problem->batch * problem->seqlen_q : 0;
    call->states = problem->states;
    init_pages(call, problem);
    const uint64_t roles = at_call_roles(problem);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        call->tensor[role].dtype = at_problem_dtype(problem, role);
        /* A MASK of sizes that are allowed without one may be too large for strides. */
        if ((roles >> role & 1u) != 0) {
            at_shape_strides(problem, call, role, call->tensor[role].stride);
        }
    }
    init_states(call, problem);
}

attune_status attune_call_init_sized(attune_call *call, const attune_problem *problem, size_t size)
{
    attune_problem asked;
    attune_call whole;
    AT_FAIL_IF(call == NULL, ATTUNE_INVALID_ARGUMENT, "call is NULL");
    AT_FORWARD(at_problem_take(problem, &asked));
    init(&whole, &asked);
    return at_sized_write(&sized, &whole, call, size);
}

/* ---- Checking sizes --------------------------------------------------------------------------------------------- */

static attune_status check_size(const char *name, int64_t value, int64_t least, int64_t most)
{
    AT_FAIL_IF(value < least || value > most, ATTUNE_INVALID_ARGUMENT, "%s is %lld: this plan takes %lld ... %lld",
               name, (long long)value, (long long)least, (long long)most);
    return ATTUNE_OK;
}

/* As check_size, of what only some problems have: `most` 0 says that this one has none. */
static attune_status check_own_size(const char *name, int64_t value, int64_t least, int64_t most)
{
    AT_FAIL_IF(most == 0 && value != 0, ATTUNE_INVALID_ARGUMENT, "%s is %lld: 0 is needed, the problem has none", name,
               (long long)value);
    return check_size(name, value, least, most);
}

static attune_status check_page_sizes(const attune_problem *problem, const attune_call *call)
{
    const int64_t width = at_problem_table_width(problem, call->seqlen_kv);
    if (problem->page_size == 0 || problem->slots) {
        AT_FORWARD(check_own_size("page_table_width", call->page_table_width, 0, 0));
    } else {
        AT_FAIL_IF(call->page_table_width < width || call->page_table_width > AT_DIM_MAX, ATTUNE_INVALID_ARGUMENT,
                   "page_table_width is %lld: %lld ... %lld is allowed, for seqlen_kv %lld in pages of %d",
                   (long long)call->page_table_width, (long long)width, (long long)AT_DIM_MAX,
                   (long long)call->seqlen_kv, problem->page_size);
    }
    /* An entry is taken to the nearest page that there is, so there must be one. */
    return check_own_size("page_count", call->page_count, problem->page_size > 0 && call->seqlen_kv > 0,
                          problem->page_size > 0 ? AT_DIM_MAX : 0);
}

/* Sizes that only some problems have. */
static attune_status check_cache_sizes(const attune_problem *problem, const attune_call *call)
{
    const bool append = problem->op == ATTUNE_APPEND;
    const bool merge = problem->op == ATTUNE_MERGE;
    const int64_t rows = append ? call->batch * call->seqlen_q : 0;
    if ((problem->page_size | problem->op | call->page_count | call->page_table_width | call->total_new | call->states |
         call->state_stride_o | call->state_stride_lse) == 0) {
        return ATTUNE_OK;
    }
    AT_FORWARD(check_page_sizes(problem, call));
    AT_FORWARD(check_own_size("total_new", call->total_new, problem->slots || problem->varlen ? 0 : rows, rows));
    AT_FORWARD(check_own_size("states", call->states, merge, problem->states));
    AT_FAIL_IF(!merge && (call->state_stride_o | call->state_stride_lse) != 0, ATTUNE_INVALID_ARGUMENT,
               "state_stride_o is %lld, state_stride_lse %lld: 0 is needed, the problem has no states",
               (long long)call->state_stride_o, (long long)call->state_stride_lse);
    return ATTUNE_OK;
}

attune_status at_call_check_sizes(const attune_problem *problem, const attune_call *call)
{
    AT_FORWARD(check_size("batch", call->batch, 1, problem->batch));
    AT_FORWARD(check_size("heads_q", call->heads_q, 1, problem->heads_q));
    AT_FORWARD(check_size("heads_kv", call->heads_kv, 1, problem->heads_kv));
    AT_FORWARD(check_size("seqlen_q", call->seqlen_q, 0, problem->seqlen_q));
    AT_FORWARD(check_size("seqlen_kv", call->seqlen_kv, 0, problem->seqlen_kv));
    AT_FAIL_IF(call->heads_q % call->heads_kv != 0, ATTUNE_INVALID_ARGUMENT,
               "heads_q is %lld: a multiple of heads_kv %lld is needed", (long long)call->heads_q,
               (long long)call->heads_kv);
    if (problem->varlen) {
        AT_FORWARD(check_size("total_q", call->total_q, 0, problem->batch * problem->seqlen_q));
        AT_FORWARD(check_size("total_kv", call->total_kv, 0, problem->batch * problem->seqlen_kv));
    }
    AT_FORWARD(check_cache_sizes(problem, call));
    return problem->offset_kind == ATTUNE_OFFSET_NUMBER ? check_size("offset", call->offset, -AT_DIM_MAX, AT_DIM_MAX)
                                                        : ATTUNE_OK;
}

/* ---- Checking one tensor ---------------------------------------------------------------------------------------- */

/* The memory of a buffer that has elements: `row` bytes at begin + the sum of index * stride for every index below the
 * extents. Strides of dimensions without a second index are 0. */
struct view {
    int role; /* or AT_WORKSPACE */
    uintptr_t begin;
    int64_t span; /* bytes from the first to the last */
    int64_t extent[AT_DIMENSIONS];
    int64_t stride[AT_DIMENSIONS]; /* bytes */
    int64_t row;                   /* bytes */
};

enum { VIEWS = AT_WORKSPACE + 1 };

/* What a check has found out so far. */
struct check {
    const attune_problem *problem;
    const attune_call *call;
    uint64_t needed;  /* a bit for each role */
    uint64_t allowed; /* the same and LSE, where it may be had */
    int align;        /* of rows of a head dim, bytes */
    int count;
    struct view view[VIEWS]; /* buffers that have elements */
};

/* Whether a stride of 0, all indices reading the same elements, makes sense: never for outputs. */
static bool may_repeat(int role, int dimension)
{
    return role == ATTUNE_BIAS || role == ATTUNE_MASK || (role <= ATTUNE_V && dimension != ATTUNE_STRIDE_SEQ);
}

/* A stride of a dimension that has a second index. `align` is a power of two, in elements. */
static attune_status check_stride(const attune_problem *problem, int role, int dimension, int64_t stride, int64_t row,
                                  int64_t align)
{
    /* Rows of a bias may overlap, as a compact table of relative positions does; those of Q ... O may not. */
    const bool table = role == ATTUNE_PAGE_TABLE_K || role == ATTUNE_PAGE_TABLE_V;
    int64_t least = at_role_has_head_dim(role) || table ? row : 1;
    const char *name = at_dimension_name(problem, role, dimension);
    bool repeats = stride == 0 && may_repeat(role, dimension);
    AT_FAIL_IF(stride < least && !repeats, ATTUNE_INVALID_ARGUMENT,
               "%s: the %s stride is %lld elements: at least %lld%s is needed", at_role_name(role), name,
               (long long)stride, (long long)least, may_repeat(role, dimension) ? ", or 0 to repeat," : "");
    AT_FAIL_IF((stride & (align - 1)) != 0, ATTUNE_INVALID_ARGUMENT,
               "%s: the %s stride is %lld elements: a multiple of %lld is needed, the problem's align",
               at_role_name(role), name, (long long)stride, (long long)align);
    return ATTUNE_OK;
}

/* The view of a tensor whose extents are at least 1, its strides checked. */
static attune_status view_tensor(const struct check *check, int role, const at_shape *shape, int64_t align,
                                 struct view *view)
{
    const attune_tensor *tensor = &check->call->tensor[role];
    int64_t bytes = (int64_t)at_dtype_bytes(tensor->dtype);
    *view = (struct view){.role = role, .begin = (uintptr_t)tensor->data};
    bool overflow = __builtin_mul_overflow(shape->row, bytes, &view->row);
    view->span = view->row;
    for (int i = 0; i < AT_DIMENSIONS; ++i) {
        int64_t more;
        view->extent[i] = shape->extent[i];
        view->stride[i] = 0;
        if (shape->extent[i] == 1) {
            continue;
        }
        const int64_t stride = at_stride_of(check->call, role, i);
        AT_FORWARD(check_stride(check->problem, role, i, stride, shape->row, align));
        overflow |= __builtin_mul_overflow(stride, bytes, &view->stride[i]);
        overflow |= __builtin_mul_overflow(view->stride[i], shape->extent[i] - 1, &more);
        overflow |= __builtin_add_overflow(view->span, more, &view->span);
    }
    uintptr_t end;
    AT_FAIL_IF(overflow || __builtin_add_overflow(view->begin, (uintptr_t)view->span, &end), ATTUNE_INVALID_ARGUMENT,
               "%s: its sizes and strides (%lld, %lld, %lld) reach beyond the end of memory", at_role_name(role),
               (long long)tensor->stride[0], (long long)tensor->stride[1], (long long)tensor->stride[2]);
    return ATTUNE_OK;
}

static attune_status check_array(const attune_tensor *tensor, int role)
{
    int64_t stride = tensor->stride[ATTUNE_STRIDE_BATCH];
    AT_FAIL_IF(stride != 0 && stride != 1, ATTUNE_INVALID_ARGUMENT,
               "%s: the batch stride is %lld: 1 is needed, the array being contiguous", at_role_name(role),
               (long long)stride);
    return ATTUNE_OK;
}

static const char *name_of(const struct view *view)
{
    return view->role == AT_WORKSPACE ? "workspace" : at_role_name(view->role);
}

/* Whether no two indices of an output share a byte: each dimension, from the smallest stride up, steps over all that
 * the ones before it span. */
static attune_status check_distinct(const attune_problem *problem, const struct view *view)
{
    int64_t covered = view->row;
    bool done[AT_DIMENSIONS] = {false};
    for (int step = 0; step < AT_DIMENSIONS; ++step) {
        int next = -1;
        for (int i = 0; i < AT_DIMENSIONS; ++i) {
            if (!done[i] && (next < 0 || view->stride[i] < view->stride[next])) {
                next = i;
            }
        }
        done[next] = true;
        AT_FAIL_IF(view->extent[next] > 1 && view->stride[next] < covered, ATTUNE_INVALID_ARGUMENT,
                   "%s: its elements overlap one another: the %s stride is %lld bytes, and what it steps over takes "
                   "%lld",
                   name_of(view), at_dimension_name(problem, view->role, next), (long long)view->stride[next],
                   (long long)covered);
        covered += (view->extent[next] - 1) * view->stride[next];
    }
    return ATTUNE_OK;
}

/* Everything about one tensor that is given or needed. */
static attune_status check_tensor(struct check *check, int role)
{
    const attune_problem *problem = check->problem;
    const attune_tensor *tensor = &check->call->tensor[role];
    AT_FAIL_IF((check->allowed >> role & 1u) == 0, ATTUNE_INVALID_ARGUMENT,
               "%s is given, but the problem has none: leave its data NULL or plan for it", at_role_name(role));
    AT_FAIL_IF(tensor->dtype != at_problem_dtype(problem, role), ATTUNE_INVALID_ARGUMENT,
               "%s: its dtype is %s (%d): %s is needed", at_role_name(role), at_dtype_name(tensor->dtype),
               tensor->dtype, at_dtype_name(at_problem_dtype(problem, role)));
    const int settled_most = (at_problem_writes(problem) >> role & 1) == 0;
    AT_FAIL_IF(tensor->settled < 0 || tensor->settled > settled_most, ATTUNE_INVALID_ARGUMENT,
               "%s: settled is %d: %s is needed", at_role_name(role), tensor->settled,
               settled_most ? "0 or 1" : "0, the call writes it,");
    at_shape shape = at_shape_of(problem, check->call, role);
    if (at_shape_is_empty(&shape)) {
        return ATTUNE_OK;
    }
    int bytes = (int)at_dtype_bytes(tensor->dtype);
    int align = at_role_has_head_dim(role) ? check->align : bytes;
    AT_FAIL_IF(tensor->data == NULL, ATTUNE_INVALID_ARGUMENT, "%s: its data is NULL, but the problem needs it",
               at_role_name(role));
    AT_FAIL_IF(((uintptr_t)tensor->data & (uintptr_t)(align - 1)) != 0, ATTUNE_INVALID_ARGUMENT,
               "%s: its data is %d bytes past a multiple of %d: a multiple is needed", at_role_name(role),
               (int)((uintptr_t)tensor->data & (uintptr_t)(align - 1)), align);
    if (at_role_is_array(role)) {
        AT_FORWARD(check_array(tensor, role));
    }
    struct view *view = &check->view[check->count++];
    AT_FORWARD(view_tensor(check, role, &shape, align / bytes, view));
    const bool pool = problem->page_size > 0 && (role == ATTUNE_K || role == ATTUNE_V);
    return pool ? check_distinct(problem, view) : ATTUNE_OK;
}

static attune_status check_workspace(struct check *check)
{
    const attune_call *call = check->call;
    if (call->workspace_bytes == 0) {
        return ATTUNE_OK;
    }
    uintptr_t begin = (uintptr_t)call->workspace;
    uintptr_t end;
    AT_FAIL_IF(call->workspace == NULL, ATTUNE_INVALID_ARGUMENT, "workspace is NULL, but workspace_bytes is %zu",
               call->workspace_bytes);
    AT_FAIL_IF(begin % 256 != 0, ATTUNE_INVALID_ARGUMENT,
               "workspace is %d bytes past a multiple of 256: a multiple is needed", (int)(begin % 256));
    AT_FAIL_IF(call->workspace_bytes > INT64_MAX || __builtin_add_overflow(begin, call->workspace_bytes, &end),
               ATTUNE_INVALID_ARGUMENT, "workspace_bytes is %zu: that reaches beyond the end of memory",
               call->workspace_bytes);
    int64_t bytes = (int64_t)call->workspace_bytes;
    check->view[check->count++] = (struct view){AT_WORKSPACE, begin, bytes, {1, 1, 1, 1}, {0, 0, 0, 0}, bytes};
    return ATTUNE_OK;
}

static void begin_check(struct check *check, const attune_problem *problem, const attune_call *call)
{
    check->problem = problem;
    check->call = call;
    check->needed = at_problem_roles(problem);
    check->allowed = at_call_roles(problem);
    check->align = at_problem_align(problem);
    check->count = 0;
}

static attune_status check_buffers(struct check *check)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (check->call->tensor[role].data != NULL || (check->needed >> role & 1u) != 0) {
            AT_FORWARD(check_tensor(check, role));
        }
    }
    return check_workspace(check);
}

/* ---- Overlap ---------------------------------------------------------------------------------------------------- */

/* Bytes from the first to the last that a view touches, counted modulo a stride: dimensions that step by multiples of
 * it come back to the same residues. */
static int64_t residue_span(const struct view *view, int64_t modulus)
{
    int64_t span = view->row;
    for (int i = 0; i < AT_DIMENSIONS; ++i) {
        span += view->stride[i] % modulus != 0 ? (view->extent[i] - 1) * view->stride[i] : 0;
    }
    return span;
}

/* Proves two interleaved views disjoint: modulo some stride of theirs, they keep to separate residues. That is how
 * parts of one buffer relate, for example Q, K and V in [batch, seqlen, 3, heads, head_dim]. */
static bool is_interleaved(const struct view *a, const struct view *b)
{
    for (int i = 0; i < 2 * AT_DIMENSIONS; ++i) {
        int64_t modulus = i < AT_DIMENSIONS ? a->stride[i] : b->stride[i - AT_DIMENSIONS];
        if (modulus == 0) {
            continue;
        }
        int64_t apart = ((int64_t)(b->begin % (uintptr_t)modulus) - (int64_t)(a->begin % (uintptr_t)modulus));
        apart += apart < 0 ? modulus : 0;
        if (apart >= residue_span(a, modulus) && modulus - apart >= residue_span(b, modulus)) {
            return true;
        }
    }
    return false;
}

static attune_status check_disjoint(const struct view *output, const struct view *other)
{
    bool apart = output->begin + (uintptr_t)output->span <= other->begin ||
                 other->begin + (uintptr_t)other->span <= output->begin;
    AT_FAIL_IF(!apart && !is_interleaved(output, other), ATTUNE_INVALID_ARGUMENT,
               "%s overlaps %s: it begins %lld bytes from it and they span %lld and %lld bytes; what is written must "
               "share no byte with any other buffer",
               name_of(output), name_of(other), (long long)(output->begin - other->begin), (long long)output->span,
               (long long)other->span);
    return ATTUNE_OK;
}

static attune_status check_overlaps(const struct check *check)
{
    for (int i = 0; i < check->count; ++i) {
        const struct view *output = &check->view[i];
        if (!at_buffer_is_written(check->problem, output->role)) {
            continue;
        }
        AT_FORWARD(check_distinct(check->problem, output));
        for (int other = 0; other < check->count; ++other) {
            if (other != i) {
                AT_FORWARD(check_disjoint(output, &check->view[other]));
            }
        }
    }
    return ATTUNE_OK;
}

static attune_status check_all(struct check *check, const attune_problem *problem, const attune_call *call)
{
    AT_FORWARD(at_call_check_sizes(problem, call));
    begin_check(check, problem, call);
    AT_FORWARD(check_buffers(check));
    return check_overlaps(check);
}

attune_status at_call_check(const attune_problem *problem, const attune_call *call)
{
    struct check check;
    return check_all(&check, problem, call);
}

attune_status at_call_check_spans(const attune_problem *problem, const attune_call *call, at_spans *spans)
{
    struct check check;
    AT_FORWARD(check_all(&check, problem, call));
    memset(spans, 0, sizeof *spans);
    for (int i = 0; i < check.count; ++i) {
        spans->present |= UINT64_C(1) << check.view[i].role;
        spans->bytes[check.view[i].role] = check.view[i].span;
    }
    return ATTUNE_OK;
}

attune_status at_call_check_tensor(const attune_problem *problem, const attune_call *call, int role, int64_t *span)
{
    struct check check;
    *span = 0;
    check.view[0] = (struct view){0};
    begin_check(&check, problem, call);
    if (call->tensor[role].data == NULL && (check.needed >> role & 1u) == 0) {
        return ATTUNE_OK;
    }
    AT_FORWARD(check_tensor(&check, role));
    if (check.count == 0) {
        return ATTUNE_OK;
    }
    *span = check.view[0].span;
    return at_buffer_is_written(problem, role) ? check_distinct(problem, &check.view[0]) : ATTUNE_OK;
}

#define SIZE(name) (UINT64_C(1) << ATTUNE_SIZE_##name)

uint64_t at_call_roles_of(uint64_t roles, uint64_t sizes)
{
    static const uint64_t sizes_of[ATTUNE_ROLE_COUNT] = {
        [ATTUNE_Q] = SIZE(BATCH) | SIZE(HEADS_Q) | SIZE(SEQLEN_Q) | SIZE(TOTAL_Q),
        [ATTUNE_K] = SIZE(BATCH) | SIZE(HEADS_KV) | SIZE(SEQLEN_KV) | SIZE(TOTAL_KV),
        [ATTUNE_V] = SIZE(BATCH) | SIZE(HEADS_KV) | SIZE(SEQLEN_KV) | SIZE(TOTAL_KV),
        [ATTUNE_O] = SIZE(BATCH) | SIZE(HEADS_Q) | SIZE(SEQLEN_Q) | SIZE(TOTAL_Q),
        [ATTUNE_LSE] = SIZE(BATCH) | SIZE(HEADS_Q) | SIZE(SEQLEN_Q) | SIZE(TOTAL_Q)};
    uint64_t found = 0;
    for (; roles != 0; roles &= roles - 1) {
        const int role = __builtin_ctzll(roles);
        const bool depends = sizes_of[role] == 0 || (sizes_of[role] & sizes) != 0;
        found |= depends ? UINT64_C(1) << role : 0;
    }
    return found;
}

#undef SIZE

/* Whether the strides of one shape, which passed, pass for another: of dimensions that had a second index. */
static bool pass_too(const at_shape *from, const at_shape *to, bool written)
{
    bool pass = !at_shape_is_empty(from) && !at_shape_is_empty(to) && (!written || from->row == to->row);
    for (int i = 0; i < AT_DIMENSIONS; ++i) {
        pass = pass && (to->extent[i] == 1 || from->extent[i] > 1) && (!written || to->extent[i] <= from->extent[i]);
    }
    return pass;
}

/* Bytes from the first element to the last; false on overflow. */
static bool span_of(const attune_call *call, int role, const at_shape *shape, int64_t *span)
{
    int64_t last = shape->row - 1;
    bool overflow = false;
    for (int i = 0; i < AT_DIMENSIONS; ++i) {
        int64_t more;
        overflow |= __builtin_mul_overflow(shape->extent[i] - 1, at_stride_of(call, role, i), &more);
        overflow |= __builtin_add_overflow(last, shape->extent[i] > 1 ? more : 0, &last);
    }
    overflow |= __builtin_mul_overflow(last + 1, (int64_t)at_dtype_bytes(call->tensor[role].dtype), span);
    return !overflow;
}

at_extents at_call_extents(const attune_problem *problem, const attune_call *from, const attune_call *to, int role,
                           int64_t *span)
{
    const at_shape its = at_shape_of(problem, from, role);
    const at_shape other = at_shape_of(problem, to, role);
    if (memcmp(&its, &other, sizeof its) == 0) {
        return AT_EXTENTS_SAME;
    }
    return to->tensor[role].data != NULL && pass_too(&its, &other, at_buffer_is_written(problem, role)) &&
                   span_of(to, role, &other, span)
               ? AT_EXTENTS_SPAN
               : AT_EXTENTS_CHECK;
}

uint64_t at_call_roles(const attune_problem *problem)
{
    return at_problem_roles(problem) | at_problem_writes(problem);
}

/* ---- Args ------------------------------------------------------------------------------------------------------- */

static void fill_tensor(const attune_problem *problem, const attune_call *call, int role, attune_tensor *tensor)
{
    if (call->tensor[role].data == NULL) {
        return;
    }
    at_shape shape = at_shape_of(problem, call, role);
    *tensor = call->tensor[role];
    for (int i = 0; i < 3; ++i) {
        tensor->stride[i] = shape.extent[i] > 1 ? at_stride_of(call, role, i) : 0;
    }
}

static void fill_sizes(const attune_problem *problem, const attune_call *call, attune_args *args)
{
    args->batch = call->batch;
    args->heads_q = call->heads_q;
    args->heads_kv = call->heads_kv;
    args->seqlen_q = call->seqlen_q;
    args->seqlen_kv = call->seqlen_kv;
    const bool append = problem->op == ATTUNE_APPEND;
    const bool packed = problem->varlen && problem->page_size == 0 && !append;
    args->total_q = append ? call->total_new : problem->varlen ? call->total_q : call->batch * call->seqlen_q;
    args->total_kv = packed ? call->total_kv : call->batch * call->seqlen_kv;
    args->page_table_width = (attune_i32)call->page_table_width;
    args->page_count = call->page_count;
    args->total_new = call->total_new;
    args->states = (attune_i32)call->states;
    args->state_stride_o = call->states > 1 ? call->state_stride_o : 0;
    args->state_stride_lse = call->states > 1 ? call->state_stride_lse : 0;
    args->offset = problem->offset_kind == ATTUNE_OFFSET_NUMBER ? call->offset : 0;
}

static void fill_workspace(const attune_call *call, attune_args *args)
{
    args->workspace = call->workspace_bytes > 0 ? call->workspace : NULL;
    args->workspace_bytes = call->workspace_bytes;
}

static void fill_tensors(const attune_problem *problem, const attune_call *call, uint64_t roles, attune_args *args)
{
    for (; roles != 0; roles &= roles - 1) {
        const int role = __builtin_ctzll(roles);
        fill_tensor(problem, call, role, &args->tensor[role]);
    }
}

void at_call_args(const attune_problem *problem, const attune_call *call, attune_args *args)
{
    memset(args, 0, sizeof *args);
    args->size = sizeof *args;
    args->abi = ATTUNE_ABI;
    args->features = at_problem_features(problem);
    args->dtype = problem->dtype;
    args->head_dim_qk = problem->head_dim_qk;
    args->head_dim_v = problem->head_dim_v;
    args->scale = at_problem_scale(problem);
    args->softcap = problem->softcap;
    args->window_left = problem->window_left;
    args->window_right = problem->window_right;
    args->offset_kind = problem->offset_kind;
    args->page_size = problem->page_size;
    fill_sizes(problem, call, args);
    fill_workspace(call, args);
    fill_tensors(problem, call, at_call_roles(problem), args);
}

void at_call_args_change(const attune_problem *problem, const attune_call *call, const at_change *change,
                         attune_args *args)
{
    fill_sizes(problem, call, args);
    fill_workspace(call, args);
    fill_tensors(problem, call, (change->shaped | change->moved) & at_call_roles(problem), args);
}
