/* The problem noun: what is valid, what is equal, and what follows from it. Its text form is in problem_text.c. */
#include "core/problem.h"

#include <math.h>
#include <string.h>

#include "base/sized.h"
#include "base/status.h"

#define SIZE_FIELD(term, name, least, most)                                                                            \
    {                                                                                                                  \
        term, #name, offsetof(attune_problem, name), sizeof(((attune_problem *)NULL)->name), least, most               \
    }

const at_size_field at_size_fields[AT_FIELD_COUNT] = {
    [AT_FIELD_BATCH] = SIZE_FIELD("b", batch, 1, AT_DIM_MAX),
    [AT_FIELD_HEADS_Q] = SIZE_FIELD("h", heads_q, 1, AT_DIM_MAX),
    [AT_FIELD_HEADS_KV] = SIZE_FIELD("hkv", heads_kv, 1, AT_DIM_MAX),
    [AT_FIELD_SEQLEN_Q] = SIZE_FIELD("sq", seqlen_q, 0, AT_DIM_MAX),
    [AT_FIELD_SEQLEN_KV] = SIZE_FIELD("skv", seqlen_kv, 0, AT_DIM_MAX),
    [AT_FIELD_HEAD_DIM_QK] = SIZE_FIELD("d", head_dim_qk, 1, 256),
    [AT_FIELD_HEAD_DIM_V] = SIZE_FIELD("dv", head_dim_v, 1, 256),
};

static const struct {
    const char *name;
    size_t offset;
} switches[] = {
    {"mask", offsetof(attune_problem, mask)},     {"alibi", offsetof(attune_problem, alibi)},
    {"sink", offsetof(attune_problem, sink)},     {"seqused_kv", offsetof(attune_problem, seqused_kv)},
    {"strict", offsetof(attune_problem, strict)}, {"varlen", offsetof(attune_problem, varlen)},
};
enum { SWITCHES = sizeof switches / sizeof *switches };

static const char *const op_names[] = {[ATTUNE_FORWARD] = "fwd", [ATTUNE_APPEND] = "append", [ATTUNE_MERGE] = "merge"};

static const char *const dtype_names[ATTUNE_DTYPE_COUNT] = {"fp32", "fp16", "bf16", "int32", "bool"};
static const unsigned char dtype_bytes[ATTUNE_DTYPE_COUNT] = {4, 2, 2, 4, 1};
static const char *const role_names[ATTUNE_ROLE_COUNT] = {
    "Q",       "K",       "V",        "O",          "LSE",     "BIAS",         "MASK",
    "SINK",    "SLOPES",  "CU_Q",     "CU_KV",      "USED_KV", "DO",           "DQ",
    "DK",      "DV",      "DBIAS",    "DSINK",      "DLSE",    "PAGE_TABLE_K", "PAGE_TABLE_V",
    "NEW_K",   "NEW_V",   "SLOTS",    "DRAFT_MASK", "SCALE_Q", "SCALE_K",      "SCALE_V",
    "SCALE_O", "STATE_O", "STATE_LSE"};
/* The dtype of roles that have one whatever the problem's, + 1. */
static const uint8_t own_dtypes[ATTUNE_ROLE_COUNT] = {
    [ATTUNE_LSE] = ATTUNE_FP32 + 1,           [ATTUNE_MASK] = ATTUNE_BOOL + 1,
    [ATTUNE_SINK] = ATTUNE_FP32 + 1,          [ATTUNE_SLOPES] = ATTUNE_FP32 + 1,
    [ATTUNE_CU_Q] = ATTUNE_INT32 + 1,         [ATTUNE_CU_KV] = ATTUNE_INT32 + 1,
    [ATTUNE_USED_KV] = ATTUNE_INT32 + 1,      [ATTUNE_DSINK] = ATTUNE_FP32 + 1,
    [ATTUNE_DLSE] = ATTUNE_FP32 + 1,          [ATTUNE_PAGE_TABLE_K] = ATTUNE_INT32 + 1,
    [ATTUNE_PAGE_TABLE_V] = ATTUNE_INT32 + 1, [ATTUNE_SLOTS] = ATTUNE_INT32 + 1,
    [ATTUNE_DRAFT_MASK] = ATTUNE_INT32 + 1,   [ATTUNE_SCALE_Q] = ATTUNE_FP32 + 1,
    [ATTUNE_SCALE_K] = ATTUNE_FP32 + 1,       [ATTUNE_SCALE_V] = ATTUNE_FP32 + 1,
    [ATTUNE_SCALE_O] = ATTUNE_FP32 + 1,       [ATTUNE_STATE_LSE] = ATTUNE_FP32 + 1};
/* Roles whose dtype a problem may state. */
static const uint8_t stated_dtypes[] = {ATTUNE_K, ATTUNE_V, ATTUNE_O, ATTUNE_BIAS};
static const char *const bias_names[] = {"?", "1x1", "bx1", "1xh", "bxh"};
static const char *const layout_names[] = {"bhsd", "bshd"};

const char *at_op_name(int op)
{
    const bool known = op >= 0 && op < (int)(sizeof op_names / sizeof *op_names) && op_names[op] != NULL;
    return known ? op_names[op] : "?";
}

size_t at_dtype_bytes(int dtype)
{
    return dtype >= 0 && dtype < ATTUNE_DTYPE_COUNT ? dtype_bytes[dtype] : 0;
}

const char *at_dtype_name(int dtype)
{
    return dtype >= 0 && dtype < ATTUNE_DTYPE_COUNT ? dtype_names[dtype] : "?";
}

const char *at_role_name(int role)
{
    return role >= 0 && role < ATTUNE_ROLE_COUNT ? role_names[role] : "?";
}

const char *at_bias_name(int bias)
{
    return bias >= 0 && bias <= ATTUNE_BIAS_BXH ? bias_names[bias] : "?";
}

const char *at_layout_name(int layout)
{
    return layout >= 0 && layout <= ATTUNE_BSHD ? layout_names[layout] : "?";
}

static const at_sized sized = {.name = "problem",
                               .init = "attune_problem_init",
                               .least = offsetof(attune_problem, role_dtype),
                               .bytes = sizeof(attune_problem),
                               .status = ATTUNE_INVALID_PROBLEM};

attune_status at_problem_give(const attune_problem *whole, attune_problem *problem, size_t size)
{
    return at_sized_write(&sized, whole, problem, size);
}

void attune_problem_init_sized(attune_problem *problem, size_t size)
{
    static const attune_problem defaults = {
        .size = sizeof(attune_problem),
        .dtype = ATTUNE_FP32,
        .batch = 1,
        .heads_q = 1,
        .heads_kv = 1,
        .head_dim_qk = 64,
        .head_dim_v = 64,
        .window_left = -1,
        .window_right = -1,
    };
    if (problem != NULL) {
        (void)at_problem_give(&defaults, problem, size);
    }
}

/* ---- Derived facts ---------------------------------------------------------------------------------------------- */

static int64_t size_of(const attune_problem *problem, const at_size_field *field)
{
    const char *at = (const char *)problem + field->offset;
    int64_t wide = 0;
    int32_t narrow = 0;
    if (field->bytes == sizeof narrow) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static int32_t switch_of(const attune_problem *problem, int index)
{
    int32_t value;
    memcpy(&value, (const char *)problem + switches[index].offset, sizeof value);
    return value;
}

int at_problem_dtype(const attune_problem *problem, int role)
{
    if (role < 0 || role >= ATTUNE_ROLE_COUNT) {
        return -1;
    }
    if (own_dtypes[role] != 0) {
        return own_dtypes[role] - 1;
    }
    role = role == ATTUNE_NEW_K ? ATTUNE_K : role == ATTUNE_NEW_V ? ATTUNE_V : role; /* copied as they are */
    return problem->role_dtype[role] != 0 ? problem->role_dtype[role] - 1 : problem->dtype;
}

uint64_t at_problem_dtypes(const attune_problem *problem)
{
    uint64_t all = (uint64_t)problem->dtype;
    for (size_t i = 0; i < sizeof stated_dtypes; ++i) {
        const int dtype = at_problem_dtype(problem, stated_dtypes[i]);
        all |= dtype == problem->dtype ? 0 : (uint64_t)(dtype + 1) << (8 * i + 8);
    }
    return all;
}

static int element_bytes(const attune_problem *problem, int role)
{
    return (int)at_dtype_bytes(at_problem_dtype(problem, role));
}

static float default_scale(const attune_problem *problem)
{
    return (float)(1.0 / sqrt((double)problem->head_dim_qk));
}

float at_problem_scale(const attune_problem *problem)
{
    return problem->scale != 0.0f ? problem->scale : default_scale(problem);
}

int at_problem_align_default(const attune_problem *problem)
{
    /* The lowest set bit of both row lengths together is the largest power of two that divides them. */
    int rows = 16;
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        rows |= (role <= ATTUNE_K ? problem->head_dim_qk : problem->head_dim_v) * element_bytes(problem, role);
    }
    return rows & -rows;
}

int at_problem_align(const attune_problem *problem)
{
    int align = problem->align != 0 ? problem->align : at_problem_align_default(problem);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        align = element_bytes(problem, role) > align ? element_bytes(problem, role) : align;
    }
    return align;
}

int32_t at_problem_layout_default(const attune_problem *problem)
{
    return problem->varlen ? ATTUNE_BSHD : ATTUNE_BHSD;
}

#define ROLE(name) (UINT64_C(1) << ATTUNE_##name)

uint32_t at_problem_features(const attune_problem *problem)
{
    uint32_t features = 0;
    features |= attune_is_causal(problem) ? ATTUNE_FEATURE_CAUSAL : 0u;
    features |= attune_is_windowed(problem) ? ATTUNE_FEATURE_WINDOW : 0u;
    features |= problem->softcap > 0.0f ? ATTUNE_FEATURE_SOFTCAP : 0u;
    features |= problem->bias != ATTUNE_BIAS_NONE ? ATTUNE_FEATURE_BIAS : 0u;
    features |= problem->mask ? ATTUNE_FEATURE_MASK : 0u;
    features |= problem->alibi ? ATTUNE_FEATURE_ALIBI : 0u;
    features |= problem->sink ? ATTUNE_FEATURE_SINK : 0u;
    features |= problem->seqused_kv ? ATTUNE_FEATURE_SEQUSED : 0u;
    features |= problem->varlen ? ATTUNE_FEATURE_VARLEN : 0u;
    features |= problem->strict ? ATTUNE_FEATURE_STRICT : 0u;
    features |= problem->page_size > 0 ? ATTUNE_FEATURE_PAGED : 0u;
    features |= problem->page_table_v ? ATTUNE_FEATURE_PAGED_V : 0u;
    features |= problem->draft_mask ? ATTUNE_FEATURE_DRAFT : 0u;
    features |= problem->slots ? ATTUNE_FEATURE_SLOTS : 0u;
    features |= problem->tf32 ? ATTUNE_FEATURE_TF32 : 0u;
    return features;
}

uint32_t at_problem_demands(const attune_problem *problem)
{
    return at_problem_features(problem) & ~(uint32_t)ATTUNE_FEATURE_TF32;
}

/* Those that hold the inputs and outputs of an operation, whatever its features. */
static const uint64_t op_roles[] = {
    [ATTUNE_FORWARD] = ROLE(Q) | ROLE(K) | ROLE(V) | ROLE(O),
    [ATTUNE_APPEND] = ROLE(K) | ROLE(V) | ROLE(NEW_K) | ROLE(NEW_V),
    [ATTUNE_MERGE] = ROLE(STATE_O) | ROLE(STATE_LSE) | ROLE(O),
};

uint64_t at_problem_roles(const attune_problem *problem)
{
    const bool paged = problem->page_size > 0 && !problem->slots;
    uint64_t roles = op_roles[problem->op];
    roles |= problem->bias != ATTUNE_BIAS_NONE ? ROLE(BIAS) : 0;
    roles |= problem->mask ? ROLE(MASK) : 0;
    roles |= problem->sink ? ROLE(SINK) : 0;
    roles |= problem->alibi ? ROLE(SLOPES) : 0;
    roles |= problem->varlen ? ROLE(CU_Q) : 0;
    roles |= problem->varlen && problem->op == ATTUNE_FORWARD && !paged ? ROLE(CU_KV) : 0;
    roles |= problem->seqused_kv ? ROLE(USED_KV) : 0;
    roles |= paged ? ROLE(PAGE_TABLE_K) : 0;
    roles |= problem->page_table_v ? ROLE(PAGE_TABLE_V) : 0;
    roles |= problem->draft_mask ? ROLE(DRAFT_MASK) : 0;
    roles |= problem->slots ? ROLE(SLOTS) : 0;
    return roles;
}

uint64_t at_problem_writes(const attune_problem *problem)
{
    return problem->op == ATTUNE_APPEND ? ROLE(K) | ROLE(V) : ROLE(O) | ROLE(LSE);
}

bool at_problem_is_decode(const attune_problem *problem)
{
    const bool few = problem->seqlen_q <= AT_DRAFT_MAX && problem->seqlen_kv >= 8 * problem->seqlen_q;
    return problem->op == ATTUNE_APPEND || (problem->op == ATTUNE_FORWARD && few && problem->seqlen_kv > 0);
}

int64_t at_problem_table_width(const attune_problem *problem, int64_t seqlen_kv)
{
    return problem->page_size > 0 ? (seqlen_kv + problem->page_size - 1) / problem->page_size : 0;
}

bool at_problem_needs(const attune_problem *problem, attune_role role)
{
    return (int)role >= 0 && (int)role < ATTUNE_ROLE_COUNT && (at_problem_roles(problem) >> role & 1u) != 0;
}

/* ---- Equality --------------------------------------------------------------------------------------------------- */

attune_problem at_problem_canonical(const attune_problem *problem)
{
    attune_problem canonical = *problem;
    if (problem->scale == 0.0f || problem->scale == default_scale(problem)) {
        canonical.scale = 0.0f; /* minus zero too */
    }
    if (problem->softcap == 0.0f) {
        canonical.softcap = 0.0f;
    }
    if (problem->offset_kind != ATTUNE_OFFSET_NUMBER) {
        canonical.offset = 0;
    }
    for (size_t i = 0; i < sizeof stated_dtypes; ++i) {
        uint8_t *dtype = &canonical.role_dtype[stated_dtypes[i]];
        *dtype = *dtype == problem->dtype + 1 ? 0 : *dtype;
    }
    int align = at_problem_align(problem);
    canonical.align = align == at_problem_align_default(problem) ? 0 : align;
    return canonical;
}

enum { OLD_WORDS = 26, WORDS = OLD_WORDS + 6 };

/* Every field of the canonical form but the struct's size as a number, and the seed, so that equality and the hash see
 * the same and no padding. NOTE: in the order of ABI 2, whose causal masks were a switch and whose problems had the
 * seed, so that hashes, which seed inputs, stay; what came later is behind that. */
static void words_of(const attune_problem *problem, uint64_t length_seed, uint64_t word[WORDS])
{
    attune_problem canonical = at_problem_canonical(problem);
    int at = 0;
    for (int i = 0; i < AT_FIELD_COUNT; ++i) {
        word[at++] = (uint64_t)size_of(&canonical, &at_size_fields[i]);
    }
    const bool causal = attune_is_causal(&canonical);
    word[at++] = causal;
    for (int i = 0; i < SWITCHES; ++i) {
        word[at++] = (uint64_t)switch_of(&canonical, i);
    }
    uint32_t scale;
    uint32_t softcap;
    memcpy(&scale, &canonical.scale, sizeof scale);
    memcpy(&softcap, &canonical.softcap, sizeof softcap);
    word[at++] = scale;
    word[at++] = softcap;
    word[at++] = (uint64_t)canonical.op;
    word[at++] = at_problem_dtypes(&canonical);
    word[at++] = (uint64_t)canonical.window_left;
    word[at++] = causal ? UINT64_MAX : (uint64_t)canonical.window_right;
    word[at++] = (uint64_t)canonical.offset;
    word[at++] = (uint64_t)canonical.offset_kind;
    word[at++] = (uint64_t)canonical.layout;
    word[at++] = (uint64_t)canonical.bias;
    word[at++] = (uint64_t)canonical.align;
    word[at++] = canonical.varlen ? length_seed : 0;
    word[at++] = (uint64_t)canonical.page_size;
    word[at++] = (uint64_t)canonical.page_table_v;
    word[at++] = (uint64_t)canonical.draft_mask;
    word[at++] = (uint64_t)canonical.slots;
    word[at++] = (uint64_t)canonical.states;
    word[at] = (uint64_t)canonical.tf32;
}

_Static_assert(AT_FIELD_COUNT + SWITCHES + 13 == OLD_WORDS, "one word for each field");

bool at_problem_equal(const attune_problem *a, const attune_problem *b)
{
    const at_test_problem left = {*a, 0};
    const at_test_problem right = {*b, 0};
    return at_test_problem_equal(&left, &right);
}

bool at_test_problem_equal(const at_test_problem *a, const at_test_problem *b)
{
    uint64_t left[WORDS];
    uint64_t right[WORDS];
    words_of(&a->problem, a->length_seed, left);
    words_of(&b->problem, b->length_seed, right);
    return memcmp(left, right, sizeof left) == 0;
}

uint64_t at_test_problem_hash(const at_test_problem *test)
{
    uint64_t word[WORDS];
    uint64_t hash = 0x617474756e65u;
    words_of(&test->problem, test->length_seed, word);
    int words = WORDS;
    while (words > OLD_WORDS && word[words - 1] == 0) {
        --words;
    }
    for (int i = 0; i < words; ++i) {
        hash = (hash ^ word[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

uint64_t attune_problem_hash(const attune_problem *problem)
{
    at_test_problem whole = {.length_seed = 0};
    if (problem == NULL || at_sized_read(&sized, problem, &whole.problem) != ATTUNE_OK) {
        return 0;
    }
    return at_test_problem_hash(&whole);
}

/* ---- Validity --------------------------------------------------------------------------------------------------- */

static attune_status check_sizes(const attune_problem *problem)
{
    for (int i = 0; i < AT_FIELD_COUNT; ++i) {
        const at_size_field *field = &at_size_fields[i];
        int64_t value = size_of(problem, field);
        AT_FAIL_IF(value < field->least || value > field->most, ATTUNE_INVALID_PROBLEM,
                   "%s (%s) is %lld: %lld ... %lld is allowed", field->field, field->term, (long long)value,
                   (long long)field->least, (long long)field->most);
    }
    AT_FAIL_IF(problem->heads_q % problem->heads_kv != 0, ATTUNE_INVALID_PROBLEM,
               "heads_q (h) is %lld: a multiple of heads_kv (hkv) %lld is needed", (long long)problem->heads_q,
               (long long)problem->heads_kv);
    return ATTUNE_OK;
}

static attune_status check_kinds(const attune_problem *problem)
{
    AT_FAIL_IF(*at_op_name(problem->op) == '?', ATTUNE_INVALID_PROBLEM,
               "op is %d: %d (fwd), %d (append) or %d (merge) is needed", problem->op, ATTUNE_FORWARD, ATTUNE_APPEND,
               ATTUNE_MERGE);
    AT_FAIL_IF(problem->dtype < 0 || problem->dtype > ATTUNE_BF16, ATTUNE_INVALID_PROBLEM,
               "dtype is %d (%s): fp32, fp16 or bf16 is needed", problem->dtype, at_dtype_name(problem->dtype));
    AT_FAIL_IF(problem->offset_kind < 0 || problem->offset_kind > ATTUNE_OFFSET_NUMBER, ATTUNE_INVALID_PROBLEM,
               "offset_kind is %d: 0 (br), 1 (tl) or 2 (number) is needed", problem->offset_kind);
    AT_FAIL_IF(problem->layout < 0 || problem->layout > ATTUNE_BSHD, ATTUNE_INVALID_PROBLEM,
               "layout is %d: 0 (bhsd) or 1 (bshd) is needed", problem->layout);
    AT_FAIL_IF(problem->bias < 0 || problem->bias > ATTUNE_BIAS_BXH, ATTUNE_INVALID_PROBLEM,
               "bias is %d: 0 (none), 1 (1x1), 2 (bx1), 3 (1xh) or 4 (bxh) is needed", problem->bias);
    for (int i = 0; i < SWITCHES; ++i) {
        int value = switch_of(problem, i);
        AT_FAIL_IF(value != 0 && value != 1, ATTUNE_INVALID_PROBLEM, "%s is %d: 0 or 1 is needed", switches[i].name,
                   value);
    }
    return ATTUNE_OK;
}

static attune_status check_dtypes(const attune_problem *problem)
{
    for (int role = 0; role < ATTUNE_ROLES_MAX; ++role) {
        const int given = problem->role_dtype[role];
        bool free = false;
        for (size_t i = 0; i < sizeof stated_dtypes; ++i) {
            free = free || stated_dtypes[i] == role;
        }
        AT_FAIL_IF(given != 0 && !free, ATTUNE_INVALID_PROBLEM,
                   "role_dtype[%s] is %d: 0 is needed, only K, V, O and BIAS may have a dtype of their own",
                   at_role_name(role), given);
        AT_FAIL_IF(given > ATTUNE_BF16 + 1, ATTUNE_INVALID_PROBLEM,
                   "role_dtype[%s] is %d (%s): fp32, fp16 or bf16, + 1, is needed, or 0 for the problem's dtype",
                   at_role_name(role), given, at_dtype_name(given - 1));
    }
    AT_FAIL_IF(problem->role_dtype[ATTUNE_BIAS] != 0 && problem->bias == ATTUNE_BIAS_NONE, ATTUNE_INVALID_PROBLEM,
               "role_dtype[BIAS] is %d, but the problem has no bias", problem->role_dtype[ATTUNE_BIAS]);
    AT_FAIL_IF(problem->tf32 != 0 && problem->tf32 != 1, ATTUNE_INVALID_PROBLEM, "tf32 is %d: 0 or 1 is needed",
               problem->tf32);
    AT_FAIL_IF(problem->tf32 && problem->dtype != ATTUNE_FP32, ATTUNE_INVALID_PROBLEM,
               "tf32 is 1: 0 is needed with dtype %s, or dtype fp32", at_dtype_name(problem->dtype));
    return ATTUNE_OK;
}

static attune_status check_values(const attune_problem *problem)
{
    AT_FAIL_IF(!isfinite(problem->scale), ATTUNE_INVALID_PROBLEM,
               "scale is %g: a finite number is needed, or 0 for 1/sqrt(head_dim_qk)", (double)problem->scale);
    AT_FAIL_IF(!isfinite(problem->softcap) || problem->softcap < 0.0f, ATTUNE_INVALID_PROBLEM,
               "softcap is %g: a finite number above 0 is needed, or 0 for none", (double)problem->softcap);
    AT_FAIL_IF(problem->window_left < -1 || problem->window_left > AT_DIM_MAX, ATTUNE_INVALID_PROBLEM,
               "window_left is %lld: -1 (unbounded) ... %lld is allowed", (long long)problem->window_left,
               (long long)AT_DIM_MAX);
    AT_FAIL_IF(problem->window_right < -1 || problem->window_right > AT_DIM_MAX, ATTUNE_INVALID_PROBLEM,
               "window_right is %lld: -1 (unbounded) ... %lld is allowed", (long long)problem->window_right,
               (long long)AT_DIM_MAX);
    AT_FAIL_IF(problem->offset_kind == ATTUNE_OFFSET_NUMBER &&
                   (problem->offset < -AT_DIM_MAX || problem->offset > AT_DIM_MAX),
               ATTUNE_INVALID_PROBLEM, "offset is %lld: %lld ... %lld is allowed", (long long)problem->offset,
               (long long)-AT_DIM_MAX, (long long)AT_DIM_MAX);
    AT_FAIL_IF(problem->align < 0 || problem->align > AT_ALIGN_MAX || (problem->align & (problem->align - 1)) != 0,
               ATTUNE_INVALID_PROBLEM, "align is %d: a power of two of 1 ... %d bytes is needed, or 0 for the default",
               problem->align, AT_ALIGN_MAX);
    AT_FAIL_IF(problem->varlen && problem->layout != ATTUNE_BSHD, ATTUNE_INVALID_PROBLEM,
               "layout is bhsd: varlen needs bshd, packed tensors being [total, heads, head_dim]");
    return ATTUNE_OK;
}

/* Extents of one count as one even where they are zero, so that strides stay within the limit too. */
static attune_status check_elements(const char *role, int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    const int64_t extent[4] = {batch, heads, rows, columns};
    int64_t elements = 1;
    bool overflow = false;
    for (int i = 0; i < 4; ++i) {
        overflow |= __builtin_mul_overflow(elements, extent[i] > 1 ? extent[i] : 1, &elements);
    }
    AT_FAIL_IF(overflow || elements > AT_ELEMENTS_MAX, ATTUNE_INVALID_PROBLEM,
               "%s has %lld x %lld x %lld x %lld elements: fewer than 2^62 are allowed", role, (long long)batch,
               (long long)heads, (long long)rows, (long long)columns);
    return ATTUNE_OK;
}

/* Elements of a row of Q, K, V or O where contiguous rows are as the problem's align wants them. */
static int64_t row_of(const attune_problem *problem, int role)
{
    int64_t head_dim = role <= ATTUNE_K ? problem->head_dim_qk : problem->head_dim_v;
    int64_t bytes = element_bytes(problem, role);
    int64_t step = bytes > 0 ? at_problem_align(problem) / bytes : 1;
    return (head_dim + step - 1) / step * step;
}

static attune_status check_products(const attune_problem *problem)
{
    const attune_problem *p = problem;
    AT_FORWARD(check_elements("Q", p->batch, p->heads_q, p->seqlen_q, row_of(p, ATTUNE_Q)));
    const int64_t keys = p->page_size > 0 ? at_problem_table_width(p, p->seqlen_kv) * p->page_size : p->seqlen_kv;
    AT_FORWARD(check_elements("K", p->batch, p->heads_kv, keys, row_of(p, ATTUNE_K)));
    AT_FORWARD(check_elements("V", p->batch, p->heads_kv, keys, row_of(p, ATTUNE_V)));
    AT_FORWARD(check_elements("O", p->batch, p->heads_q, p->seqlen_q, row_of(p, ATTUNE_O)));
    if (p->op == ATTUNE_MERGE) {
        return check_elements("STATE_O", p->batch * p->states, p->heads_q, p->seqlen_q, row_of(p, ATTUNE_O));
    }
    if (p->bias != ATTUNE_BIAS_NONE) {
        bool of_batch = p->bias == ATTUNE_BIAS_BX1 || p->bias == ATTUNE_BIAS_BXH;
        bool of_heads = p->bias == ATTUNE_BIAS_1XH || p->bias == ATTUNE_BIAS_BXH;
        AT_FORWARD(
            check_elements("BIAS", of_batch ? p->batch : 1, of_heads ? p->heads_q : 1, p->seqlen_q, p->seqlen_kv));
    }
    return p->mask ? check_elements("MASK", p->batch, p->heads_q, p->seqlen_q, p->seqlen_kv) : ATTUNE_OK;
}

/* What only some operations have, and its value where there is none. */
static const struct {
    const char *name;
    size_t offset;
    int64_t none;
    uint32_t ops; /* a bit for each */
} owned[] = {
#define OWNED(field, none, ops)                                                                                        \
    {                                                                                                                  \
#field, offsetof(attune_problem, field), none, ops                                                             \
    }
    OWNED(offset_kind, ATTUNE_OFFSET_BOTTOM_RIGHT, ATTUNE_BIT(ATTUNE_FORWARD)),
    OWNED(bias, ATTUNE_BIAS_NONE, ATTUNE_BIT(ATTUNE_FORWARD)),
    OWNED(mask, 0, ATTUNE_BIT(ATTUNE_FORWARD)),
    OWNED(alibi, 0, ATTUNE_BIT(ATTUNE_FORWARD)),
    OWNED(sink, 0, ATTUNE_BIT(ATTUNE_FORWARD) | ATTUNE_BIT(ATTUNE_MERGE)),
    OWNED(seqused_kv, 0, ATTUNE_BIT(ATTUNE_FORWARD) | ATTUNE_BIT(ATTUNE_APPEND)),
    OWNED(strict, 0, ATTUNE_BIT(ATTUNE_FORWARD)),
    OWNED(varlen, 0, ATTUNE_BIT(ATTUNE_FORWARD) | ATTUNE_BIT(ATTUNE_APPEND)),
    OWNED(page_size, 0, ATTUNE_BIT(ATTUNE_FORWARD) | ATTUNE_BIT(ATTUNE_APPEND)),
    OWNED(page_table_v, 0, ATTUNE_BIT(ATTUNE_FORWARD) | ATTUNE_BIT(ATTUNE_APPEND)),
    OWNED(draft_mask, 0, ATTUNE_BIT(ATTUNE_FORWARD)),
    OWNED(slots, 0, ATTUNE_BIT(ATTUNE_APPEND)),
    OWNED(states, 0, ATTUNE_BIT(ATTUNE_MERGE)),
    OWNED(tf32, 0, ATTUNE_BIT(ATTUNE_FORWARD)),
#undef OWNED
};

static attune_status check_owned(const attune_problem *problem)
{
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; ++i) {
        int32_t value;
        memcpy(&value, (const char *)problem + owned[i].offset, sizeof value);
        AT_FAIL_IF(value != owned[i].none && (owned[i].ops & ATTUNE_BIT(problem->op)) == 0, ATTUNE_INVALID_PROBLEM,
                   "%s is %d: %d is needed, %s has none", owned[i].name, value, (int)owned[i].none,
                   at_op_name(problem->op));
    }
    if (problem->op == ATTUNE_FORWARD) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(problem->scale != 0.0f || problem->softcap != 0.0f || problem->window_left != -1 ||
                   problem->window_right != -1,
               ATTUNE_INVALID_PROBLEM, "scale %g, softcap %g or window %lld:%lld: %s has none", (double)problem->scale,
               (double)problem->softcap, (long long)problem->window_left, (long long)problem->window_right,
               at_op_name(problem->op));
    AT_FAIL_IF(problem->heads_q != problem->heads_kv, ATTUNE_INVALID_PROBLEM,
               "heads_q (h) is %lld, heads_kv (hkv) %lld: %s has heads of one kind", (long long)problem->heads_q,
               (long long)problem->heads_kv, at_op_name(problem->op));
    return ATTUNE_OK;
}

static attune_status check_cache(const attune_problem *p)
{
    const struct {
        const char *name;
        int32_t value;
    } more[] = {{"page_table_v", p->page_table_v}, {"draft_mask", p->draft_mask}, {"slots", p->slots}};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; ++i) {
        AT_FAIL_IF(more[i].value != 0 && more[i].value != 1, ATTUNE_INVALID_PROBLEM, "%s is %d: 0 or 1 is needed",
                   more[i].name, more[i].value);
    }
    AT_FAIL_IF(p->page_size < 0 || p->page_size > AT_PAGE_MAX, ATTUNE_INVALID_PROBLEM,
               "page_size (page) is %d: 1 ... %d rows are allowed, or 0 for no pages", p->page_size, AT_PAGE_MAX);
    AT_FAIL_IF(p->page_table_v && (p->page_size == 0 || p->slots), ATTUNE_INVALID_PROBLEM,
               "page_table_v (vtable) is 1: pages are needed, and no slots");
    AT_FAIL_IF(p->page_size > 0 && p->varlen && !p->seqused_kv, ATTUNE_INVALID_PROBLEM,
               "seqused_kv (seqused) is 0: with page_size and varlen, lengths in USED_KV are needed");
    return ATTUNE_OK;
}

static attune_status check_draft(const attune_problem *p)
{
    if (!p->draft_mask) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(p->seqlen_q > AT_DRAFT_MAX, ATTUNE_INVALID_PROBLEM,
               "seqlen_q (sq) is %lld: at most %d rows are allowed with draft_mask, a bit for each",
               (long long)p->seqlen_q, AT_DRAFT_MAX);
    AT_FAIL_IF(p->window_left != -1 || p->window_right != -1, ATTUNE_INVALID_PROBLEM,
               "window is %lld:%lld: -1:-1 is needed with draft_mask, which says what its rows see",
               (long long)p->window_left, (long long)p->window_right);
    AT_FAIL_IF(p->offset_kind != ATTUNE_OFFSET_BOTTOM_RIGHT, ATTUNE_INVALID_PROBLEM,
               "offset_kind is %d: 0 (br) is needed with draft_mask, drafts being a sequence's last rows",
               p->offset_kind);
    return ATTUNE_OK;
}

static attune_status check_append(const attune_problem *p)
{
    AT_FAIL_IF(p->slots == p->seqused_kv, ATTUNE_INVALID_PROBLEM,
               "slots is %d and seqused_kv (seqused) %d: append needs one of them, to know where rows go", p->slots,
               p->seqused_kv);
    AT_FAIL_IF(p->slots && p->varlen, ATTUNE_INVALID_PROBLEM, "varlen is 1: 0 is needed, slots knowing no sequences");
    AT_FAIL_IF(p->role_dtype[ATTUNE_O] != 0, ATTUNE_INVALID_PROBLEM, "role_dtype[O] is %d: append has no O",
               p->role_dtype[ATTUNE_O]);
    return ATTUNE_OK;
}

static attune_status check_merge(const attune_problem *p)
{
    AT_FAIL_IF(p->states < 1 || p->states > AT_STATES_MAX, ATTUNE_INVALID_PROBLEM, "states is %d: 1 ... %d is allowed",
               p->states, AT_STATES_MAX);
    AT_FAIL_IF(p->seqlen_kv != 0, ATTUNE_INVALID_PROBLEM, "seqlen_kv (skv) is %lld: 0 is needed, merge has no keys",
               (long long)p->seqlen_kv);
    AT_FAIL_IF(p->head_dim_v != p->head_dim_qk, ATTUNE_INVALID_PROBLEM,
               "head_dim_v (dv) is %d: as head_dim_qk (d), %d, is needed, merge having one", p->head_dim_v,
               p->head_dim_qk);
    AT_FAIL_IF((p->role_dtype[ATTUNE_K] | p->role_dtype[ATTUNE_V]) != 0, ATTUNE_INVALID_PROBLEM,
               "role_dtype[K] is %d, role_dtype[V] %d: merge has neither", p->role_dtype[ATTUNE_K],
               p->role_dtype[ATTUNE_V]);
    return ATTUNE_OK;
}

static attune_status check_operation(const attune_problem *problem)
{
    AT_FORWARD(check_owned(problem));
    AT_FORWARD(check_cache(problem));
    AT_FORWARD(check_draft(problem));
    AT_FORWARD(problem->op == ATTUNE_APPEND ? check_append(problem) : ATTUNE_OK);
    return problem->op == ATTUNE_MERGE ? check_merge(problem) : ATTUNE_OK;
}

attune_status at_problem_take(const attune_problem *given, attune_problem *problem)
{
    AT_FAIL_IF(given == NULL, ATTUNE_INVALID_ARGUMENT, "problem is NULL");
    AT_FORWARD(at_sized_read(&sized, given, problem));
    AT_FORWARD(check_sizes(problem));
    AT_FORWARD(check_kinds(problem));
    AT_FORWARD(check_dtypes(problem));
    AT_FORWARD(check_values(problem));
    AT_FORWARD(check_operation(problem));
    return check_products(problem);
}

attune_status attune_problem_check(const attune_problem *problem)
{
    attune_problem whole;
    return at_problem_take(problem, &whole);
}

/* ---- Work ------------------------------------------------------------------------------------------------------- */

/* Sum of min(max(t, 0), most) over all integers t < end. */
static uint64_t clamped_sum(int64_t end, int64_t most)
{
    if (end <= 0 || most == 0) {
        return 0;
    }
    uint64_t ramp = (uint64_t)(end < most ? end : most);
    uint64_t flat = (uint64_t)end - ramp;
    return ramp * (ramp - 1) / 2 + flat * (uint64_t)most;
}

/* Row i sees the keys from clamp(first + i) to before clamp(last + i), both clamped to 0 ... seqlen_kv; sums over the
 * rows of a clamped line are differences of clamped_sum. */
uint64_t at_problem_pairs(const attune_problem *problem, int64_t seqlen_q, int64_t seqlen_kv)
{
    int64_t offset = problem->offset_kind == ATTUNE_OFFSET_NUMBER     ? problem->offset
                     : problem->offset_kind == ATTUNE_OFFSET_TOP_LEFT ? 0
                                                                      : seqlen_kv - seqlen_q;
    uint64_t ends = (uint64_t)seqlen_q * (uint64_t)seqlen_kv;
    uint64_t starts = 0;
    if (problem->window_right >= 0) {
        const int64_t right = problem->window_right;
        ends = clamped_sum(offset + right + 1 + seqlen_q, seqlen_kv) - clamped_sum(offset + right + 1, seqlen_kv);
    }
    if (problem->window_left >= 0) {
        int64_t first = offset - problem->window_left;
        starts = clamped_sum(first + seqlen_q, seqlen_kv) - clamped_sum(first, seqlen_kv);
    }
    return ends - starts;
}

double attune_problem_flops(const attune_problem *problem)
{
    attune_problem p;
    if (at_problem_take(problem, &p) != ATTUNE_OK) {
        return 0.0;
    }
    if (p.op != ATTUNE_FORWARD) {
        return 2.0 * p.states * (double)p.batch * (double)p.heads_q * (double)p.seqlen_q * p.head_dim_v;
    }
    double pairs = (double)at_problem_pairs(&p, p.seqlen_q, p.seqlen_kv);
    return 2.0 * (p.head_dim_qk + p.head_dim_v) * pairs * (double)p.batch * (double)p.heads_q;
}
