/* Reading a problem's text form: docs/problems.md is its grammar for people, `terms` below the same for the machine. */
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/problem.h"

/* ---- What terms there are --------------------------------------------------------------------------------------- */

enum { TERM_MAX = 96 };

/* One term of the text, terminated, with what does not print replaced by '?', so that messages can show it. No such
 * character is part of any valid term. */
struct token {
    char text[TERM_MAX];
    const char *value;     /* in text: what follows the name, or the name and its '=' */
    uint64_t *length_seed; /* where varlen's number goes, which is not the problem's */
};

typedef attune_status (*reader)(const struct token *token, attune_problem *problem);

enum form {
    FORM_FLAG,  /* "causal" */
    FORM_SIZE,  /* "b8" */
    FORM_VALUE, /* "scale=0.5" */
    FORM_MAYBE, /* "varlen", "varlen=7" */
};

/* What a term settles; each may be settled once. */
enum {
    SETS_BATCH = 1 << 0,
    SETS_HEADS_Q = 1 << 1,
    SETS_HEADS_KV = 1 << 2,
    SETS_SEQLEN_Q = 1 << 3,
    SETS_SEQLEN_KV = 1 << 4,
    SETS_HEAD_DIM_QK = 1 << 5,
    SETS_HEAD_DIM_V = 1 << 6,
    SETS_DTYPE = 1 << 7,
    SETS_CAUSAL = 1 << 8,
    SETS_OFFSET = 1 << 9,
    SETS_WINDOW = 1 << 10,
    SETS_SOFTCAP = 1 << 11,
    SETS_SCALE = 1 << 12,
    SETS_BIAS = 1 << 13,
    SETS_MASK = 1 << 14,
    SETS_ALIBI = 1 << 15,
    SETS_SINK = 1 << 16,
    SETS_SEQUSED = 1 << 17,
    SETS_STRICT = 1 << 18,
    SETS_ALIGN = 1 << 19,
    SETS_VARLEN = 1 << 20,
    SETS_LAYOUT = 1 << 21,
    SETS_DTYPE_K = 1 << 22,
    SETS_DTYPE_V = 1 << 23,
    SETS_DTYPE_O = 1 << 24,
    SETS_PAGE = 1 << 25,
    SETS_VTABLE = 1 << 26,
    SETS_DRAFT = 1 << 27,
    SETS_SLOTS = 1 << 28,
    SETS_STATES = 1 << 29,
    SETS_TF32 = 1 << 30,
};

struct term {
    const char *name;
    enum form form;
    uint32_t sets;
    const char *example;
    reader read;
};

/* ---- Reading values --------------------------------------------------------------------------------------------- */

/* Says which term it was, and that the problem is wrong rather than an argument. */
static attune_status fail_in_term(const struct token *token)
{
    return at_fail_in(ATTUNE_INVALID_PROBLEM, "term '%s'", token->text);
}

static attune_status read_int(const struct token *token, const char *what, int64_t least, int64_t most, int64_t *value)
{
    attune_status status = at_parse_int64(what, token->value, least, most, value);
    return status == ATTUNE_OK ? ATTUNE_OK : fail_in_term(token);
}

static attune_status read_size(const struct token *token, int index, attune_problem *problem)
{
    const at_size_field *field = &at_size_fields[index];
    int64_t wide = 0;
    AT_FORWARD(read_int(token, field->field, field->least, field->most, &wide));
    int32_t narrow = (int32_t)wide;
    char *at = (char *)problem + field->offset;
    memcpy(at, field->bytes == sizeof narrow ? (const void *)&narrow : (const void *)&wide, field->bytes);
    return ATTUNE_OK;
}

static attune_status read_batch(const struct token *token, attune_problem *problem)
{
    return read_size(token, AT_FIELD_BATCH, problem);
}

static attune_status read_heads_q(const struct token *token, attune_problem *problem)
{
    return read_size(token, AT_FIELD_HEADS_Q, problem);
}

static attune_status read_heads_kv(const struct token *token, attune_problem *problem)
{
    return read_size(token, AT_FIELD_HEADS_KV, problem);
}

static attune_status read_seqlen_q(const struct token *token, attune_problem *problem)
{
    return read_size(token, AT_FIELD_SEQLEN_Q, problem);
}

static attune_status read_seqlen_kv(const struct token *token, attune_problem *problem)
{
    return read_size(token, AT_FIELD_SEQLEN_KV, problem);
}

static attune_status read_seqlens(const struct token *token, attune_problem *problem)
{
    AT_FORWARD(read_seqlen_q(token, problem));
    return read_seqlen_kv(token, problem);
}

static attune_status read_head_dim_qk(const struct token *token, attune_problem *problem)
{
    return read_size(token, AT_FIELD_HEAD_DIM_QK, problem);
}

static attune_status read_head_dim_v(const struct token *token, attune_problem *problem)
{
    return read_size(token, AT_FIELD_HEAD_DIM_V, problem);
}

/* -1 for what is none. */
static int dtype_named(const char *name)
{
    int found = -1;
    for (int dtype = ATTUNE_FP32; dtype <= ATTUNE_BF16; ++dtype) {
        found = strcmp(name, at_dtype_name(dtype)) == 0 ? dtype : found;
    }
    return found;
}

static attune_status read_dtype(const struct token *token, attune_problem *problem)
{
    problem->dtype = dtype_named(token->text);
    return ATTUNE_OK;
}

static attune_status read_role_dtype(const struct token *token, const char *name, int role, attune_problem *problem)
{
    const int dtype = dtype_named(name);
    AT_FAIL_IF(dtype < 0, ATTUNE_INVALID_PROBLEM, "term '%s': the dtype of %s must be fp16, bf16 or fp32", token->text,
               at_role_name(role));
    problem->role_dtype[role] = (uint8_t)(dtype + 1);
    return ATTUNE_OK;
}

static attune_status read_dtype_k(const struct token *token, attune_problem *problem)
{
    return read_role_dtype(token, token->value, ATTUNE_K, problem);
}

static attune_status read_dtype_v(const struct token *token, attune_problem *problem)
{
    return read_role_dtype(token, token->value, ATTUNE_V, problem);
}

static attune_status read_dtype_o(const struct token *token, attune_problem *problem)
{
    return read_role_dtype(token, token->value, ATTUNE_O, problem);
}

#define READ_SWITCH(field)                                                                                             \
    static attune_status read_##field(const struct token *token, attune_problem *problem)                              \
    {                                                                                                                  \
        (void)token;                                                                                                   \
        problem->field = 1;                                                                                            \
        return ATTUNE_OK;                                                                                              \
    }

READ_SWITCH(mask)
READ_SWITCH(alibi)
READ_SWITCH(sink)
READ_SWITCH(seqused_kv)
READ_SWITCH(strict)
READ_SWITCH(page_table_v)
READ_SWITCH(draft_mask)
READ_SWITCH(slots)
READ_SWITCH(tf32)

/* One term of two that may bound the right side: finish has the other's say. */
static attune_status read_causal(const struct token *token, attune_problem *problem)
{
    (void)token;
    problem->window_right = 0;
    return ATTUNE_OK;
}

static attune_status read_offset(const struct token *token, attune_problem *problem)
{
    if (strcmp(token->value, "br") == 0) {
        problem->offset_kind = ATTUNE_OFFSET_BOTTOM_RIGHT;
        return ATTUNE_OK;
    }
    if (strcmp(token->value, "tl") == 0) {
        problem->offset_kind = ATTUNE_OFFSET_TOP_LEFT;
        return ATTUNE_OK;
    }
    problem->offset_kind = ATTUNE_OFFSET_NUMBER;
    return read_int(token, "offset, if not tl or br,", -AT_DIM_MAX, AT_DIM_MAX, &problem->offset);
}

static attune_status read_window(const struct token *token, attune_problem *problem)
{
    struct token side = *token;
    char *colon = strchr(side.text + (token->value - token->text), ':');
    AT_FAIL_IF(colon == NULL, ATTUNE_INVALID_PROBLEM,
               "term '%s': a window is LEFT:RIGHT, each -1 (unbounded) or more; for example window=1023:0",
               token->text);
    *colon = '\0';
    side.value = side.text + (token->value - token->text);
    attune_status left = at_parse_int64("the left side", side.value, -1, AT_DIM_MAX, &problem->window_left);
    if (left != ATTUNE_OK) {
        return fail_in_term(token);
    }
    attune_status right = at_parse_int64("the right side", colon + 1, -1, AT_DIM_MAX, &problem->window_right);
    return right == ATTUNE_OK ? ATTUNE_OK : fail_in_term(token);
}

static attune_status read_float(const struct token *token, const char *what, const char *without, float *value)
{
    if (at_parse_float(what, token->value, value) != ATTUNE_OK) {
        return fail_in_term(token);
    }
    AT_FAIL_IF(*value == 0.0f, ATTUNE_INVALID_PROBLEM, "term '%s': zero is not allowed; without the term, %s",
               token->text, without);
    return ATTUNE_OK;
}

static attune_status read_scale(const struct token *token, attune_problem *problem)
{
    return read_float(token, "scale", "the scale is 1/sqrt(d)", &problem->scale);
}

static attune_status read_softcap(const struct token *token, attune_problem *problem)
{
    AT_FORWARD(read_float(token, "softcap", "there is no cap", &problem->softcap));
    AT_FAIL_IF(problem->softcap < 0.0f, ATTUNE_INVALID_PROBLEM, "term '%s': softcap must be above 0", token->text);
    return ATTUNE_OK;
}

static attune_status read_bias(const struct token *token, attune_problem *problem)
{
    const size_t length = strcspn(token->value, ":");
    for (int bias = 1; bias <= ATTUNE_BIAS_BXH; ++bias) {
        if (length == strlen(at_bias_name(bias)) && memcmp(token->value, at_bias_name(bias), length) == 0) {
            problem->bias = bias;
        }
    }
    AT_FAIL_IF(problem->bias == ATTUNE_BIAS_NONE, ATTUNE_INVALID_PROBLEM,
               "term '%s': bias must be 1x1, bx1, 1xh or bxh (batch by heads)", token->text);
    return token->value[length] == '\0' ? ATTUNE_OK
                                        : read_role_dtype(token, token->value + length + 1, ATTUNE_BIAS, problem);
}

static attune_status read_align(const struct token *token, attune_problem *problem)
{
    int64_t align = 0;
    AT_FORWARD(read_int(token, "align", 1, AT_ALIGN_MAX, &align));
    AT_FAIL_IF((align & (align - 1)) != 0, ATTUNE_INVALID_PROBLEM,
               "term '%s': align must be a power of two of 1 ... %d bytes", token->text, AT_ALIGN_MAX);
    problem->align = (int32_t)align;
    return ATTUNE_OK;
}

static attune_status read_page(const struct token *token, attune_problem *problem)
{
    int64_t page = 0;
    AT_FORWARD(read_int(token, "page_size", 1, AT_PAGE_MAX, &page));
    problem->page_size = (int32_t)page;
    return ATTUNE_OK;
}

static attune_status read_states(const struct token *token, attune_problem *problem)
{
    int64_t states = 0;
    AT_FORWARD(read_int(token, "states", 1, AT_STATES_MAX, &states));
    problem->states = (int32_t)states;
    return ATTUNE_OK;
}

static attune_status read_varlen(const struct token *token, attune_problem *problem)
{
    problem->varlen = 1;
    if (*token->value != '\0' && at_parse_uint64("the seed", token->value, token->length_seed) != ATTUNE_OK) {
        return fail_in_term(token);
    }
    return ATTUNE_OK;
}

static attune_status read_layout(const struct token *token, attune_problem *problem)
{
    for (int layout = 0; layout <= ATTUNE_BSHD; ++layout) {
        if (strcmp(token->value, at_layout_name(layout)) == 0) {
            problem->layout = layout;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_PROBLEM, "term '%s': layout must be bhsd or bshd", token->text);
}

static const struct term terms[] = {
    {"b", FORM_SIZE, SETS_BATCH, "b8", read_batch},
    {"h", FORM_SIZE, SETS_HEADS_Q, "h32", read_heads_q},
    {"hkv", FORM_SIZE, SETS_HEADS_KV, "hkv8", read_heads_kv},
    {"s", FORM_SIZE, SETS_SEQLEN_Q | SETS_SEQLEN_KV, "s4096", read_seqlens},
    {"sq", FORM_SIZE, SETS_SEQLEN_Q, "sq1", read_seqlen_q},
    {"skv", FORM_SIZE, SETS_SEQLEN_KV, "skv8192", read_seqlen_kv},
    {"d", FORM_SIZE, SETS_HEAD_DIM_QK, "d128", read_head_dim_qk},
    {"dv", FORM_SIZE, SETS_HEAD_DIM_V, "dv64", read_head_dim_v},
    {"fp16", FORM_FLAG, SETS_DTYPE, "fp16", read_dtype},
    {"bf16", FORM_FLAG, SETS_DTYPE, "bf16", read_dtype},
    {"fp32", FORM_FLAG, SETS_DTYPE, "fp32", read_dtype},
    {"k", FORM_VALUE, SETS_DTYPE_K, "k=fp16", read_dtype_k},
    {"v", FORM_VALUE, SETS_DTYPE_V, "v=fp16", read_dtype_v},
    {"o", FORM_VALUE, SETS_DTYPE_O, "o=fp32", read_dtype_o},
    {"causal", FORM_FLAG, SETS_CAUSAL, "causal", read_causal},
    {"offset", FORM_VALUE, SETS_OFFSET, "offset=tl", read_offset},
    {"window", FORM_VALUE, SETS_WINDOW, "window=1023:0", read_window},
    {"softcap", FORM_VALUE, SETS_SOFTCAP, "softcap=30", read_softcap},
    {"scale", FORM_VALUE, SETS_SCALE, "scale=0.125", read_scale},
    {"bias", FORM_VALUE, SETS_BIAS, "bias=1xh", read_bias},
    {"mask", FORM_FLAG, SETS_MASK, "mask", read_mask},
    {"alibi", FORM_FLAG, SETS_ALIBI, "alibi", read_alibi},
    {"sink", FORM_FLAG, SETS_SINK, "sink", read_sink},
    {"seqused", FORM_FLAG, SETS_SEQUSED, "seqused", read_seqused_kv},
    {"strict", FORM_FLAG, SETS_STRICT, "strict", read_strict},
    {"tf32", FORM_FLAG, SETS_TF32, "tf32", read_tf32},
    {"align", FORM_VALUE, SETS_ALIGN, "align=16", read_align},
    {"page", FORM_VALUE, SETS_PAGE, "page=16", read_page},
    {"vtable", FORM_FLAG, SETS_VTABLE, "vtable", read_page_table_v},
    {"draft", FORM_FLAG, SETS_DRAFT, "draft", read_draft_mask},
    {"slots", FORM_FLAG, SETS_SLOTS, "slots", read_slots},
    {"states", FORM_VALUE, SETS_STATES, "states=4", read_states},
    {"varlen", FORM_MAYBE, SETS_VARLEN, "varlen", read_varlen},
    {"layout", FORM_VALUE, SETS_LAYOUT, "layout=bshd", read_layout},
};
enum { TERMS = sizeof terms / sizeof *terms };

/* ---- Finding terms ---------------------------------------------------------------------------------------------- */

static attune_status copy_token(const char *text, size_t length, struct token *token)
{
    size_t kept = length < TERM_MAX ? length : TERM_MAX - 1;
    for (size_t i = 0; i < kept; ++i) {
        token->text[i] = text[i] < 0x20 || text[i] >= 0x7f ? '?' : text[i];
    }
    token->text[kept] = '\0';
    token->value = token->text;
    AT_FAIL_IF(kept < length, ATTUNE_INVALID_PROBLEM, "term '%.40s...' has %zu characters: at most %d are read",
               token->text, length, TERM_MAX - 1);
    return ATTUNE_OK;
}

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* A term that the misspelt one may have meant, by its name; NULL if none is near. */
static const struct term *nearest(const struct token *token)
{
    const char *names[TERMS];
    char word[TERM_MAX] = "";
    for (size_t i = 0; token->text[i] != '\0' && token->text[i] != '='; ++i) {
        word[i] = lower(token->text[i]);
    }
    for (int i = 0; i < TERMS; ++i) {
        names[i] = terms[i].name;
    }
    const char *name = at_text_nearest(word, names, TERMS);
    for (int i = 0; i < TERMS; ++i) {
        if (name == terms[i].name) {
            return &terms[i];
        }
    }
    return NULL;
}

static attune_status unknown_term(const struct token *token)
{
    const struct term *meant = nearest(token);
    AT_FAIL_IF(token->text[0] == '\0', ATTUNE_INVALID_PROBLEM,
               "empty term: terms are separated by single commas, for example b1,h8,s512,d64,fp16");
    AT_FAIL_IF(strchr(token->text, ' ') != NULL, ATTUNE_INVALID_PROBLEM, "term '%s': blanks are not allowed",
               token->text);
    AT_FAIL_IF(meant != NULL, ATTUNE_INVALID_PROBLEM, "unknown term '%s': did you mean %s?", token->text,
               meant->example);
    return at_fail(
        ATTUNE_INVALID_PROBLEM,
        "unknown term '%s': known are b h hkv s sq skv d dv fp16 bf16 fp32 k v o causal offset window "
        "softcap scale bias mask alibi sink seqused strict tf32 align page vtable draft slots states varlen layout",
        token->text);
}

/* The term of this token, or NULL. Flags are named up to a '=', the others by the letters they begin with. */
static const struct term *find_term(struct token *token)
{
    size_t word = strcspn(token->text, "=");
    size_t letters = strspn(token->text, "abcdefghijklmnopqrstuvwxyz");
    for (int i = 0; i < TERMS; ++i) {
        size_t length = terms[i].form == FORM_FLAG ? word : letters;
        if (length == strlen(terms[i].name) && memcmp(token->text, terms[i].name, length) == 0) {
            token->value = token->text + length;
            return &terms[i];
        }
    }
    return NULL;
}

/* Checks what follows the name, and steps over the '=' of a value. */
static attune_status check_form(struct token *token, const struct term *term)
{
    char after = *token->value;
    AT_FAIL_IF(term->form == FORM_FLAG && after != '\0', ATTUNE_INVALID_PROBLEM, "term '%s': %s takes no value",
               token->text, term->name);
    AT_FAIL_IF(term->form == FORM_SIZE && (after == '\0' || after == '='), ATTUNE_INVALID_PROBLEM,
               "term '%s': %s is followed by its number at once, for example %s", token->text, term->name,
               term->example);
    const bool bare = term->form == FORM_MAYBE && after == '\0';
    AT_FAIL_IF(term->form >= FORM_VALUE && !bare && (after != '=' || token->value[1] == '\0'), ATTUNE_INVALID_PROBLEM,
               "term '%s': %s needs a value, for example %s", token->text, term->name, term->example);
    token->value += term->form >= FORM_VALUE && !bare;
    return ATTUNE_OK;
}

/* ---- Parsing ---------------------------------------------------------------------------------------------------- */

static attune_status read_term(const char *text, size_t length, at_test_problem *test, uint32_t *settled)
{
    struct token token = {.length_seed = &test->length_seed};
    AT_FORWARD(copy_token(text, length, &token));
    const struct term *term = find_term(&token);
    if (term == NULL) {
        return unknown_term(&token);
    }
    AT_FORWARD(check_form(&token, term));
    AT_FAIL_IF((*settled & term->sets) != 0, ATTUNE_INVALID_PROBLEM,
               "term '%s' repeats what an earlier term has settled%s", token.text,
               *term->name == 's' && (term->sets & (SETS_SEQLEN_Q | SETS_SEQLEN_KV)) != 0
                   ? ": give s, or sq and skv, each once"
               : term->sets == SETS_DTYPE ? ": give one dtype"
                                          : "");
    *settled |= term->sets;
    return term->read(&token, &test->problem);
}

/* Steps over "append:". */
static attune_status read_op(const char **text, attune_problem *problem)
{
    size_t length = strspn(*text, "abcdefghijklmnopqrstuvwxyz");
    if (length == 0 || (*text)[length] != ':') {
        return ATTUNE_OK;
    }
    for (int op = ATTUNE_FORWARD; op <= ATTUNE_MERGE; ++op) {
        if (strlen(at_op_name(op)) == length && memcmp(*text, at_op_name(op), length) == 0) {
            problem->op = op;
            *text += length + 1;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_PROBLEM, "unknown op '%.*s': known are fwd, append and merge",
                   length < 40 ? (int)length : 40, *text);
}

static attune_status check_required(const attune_problem *read, uint32_t settled)
{
    static const struct {
        uint32_t sets;
        const char *words;
    } required[] = {
        {SETS_BATCH, "b (batch)"},           {SETS_HEADS_Q, "h (heads)"},
        {SETS_SEQLEN_Q, "s or sq (length)"}, {SETS_SEQLEN_KV, "s or skv (length)"},
        {SETS_HEAD_DIM_QK, "d (head dim)"},  {SETS_DTYPE, "fp16, bf16 or fp32 (dtype)"},
    };
    settled |= read->op == ATTUNE_MERGE ? SETS_SEQLEN_KV : 0; /* which it does not have */
    for (size_t i = 0; i < sizeof required / sizeof *required; ++i) {
        AT_FAIL_IF((settled & required[i].sets) == 0, ATTUNE_INVALID_PROBLEM,
                   "missing term %s; for example b1,h8,s512,d64,fp16", required[i].words);
    }
    return ATTUNE_OK;
}

/* What terms that are not there mean. */
static attune_status finish(attune_problem *read, uint32_t settled)
{
    AT_FORWARD(check_required(read, settled));
    read->window_right = (settled & SETS_CAUSAL) != 0 ? 0 : read->window_right; /* whatever window says */
    read->heads_kv = (settled & SETS_HEADS_KV) != 0 ? read->heads_kv : read->heads_q;
    read->head_dim_v = (settled & SETS_HEAD_DIM_V) != 0 ? read->head_dim_v : read->head_dim_qk;
    read->layout = (settled & SETS_LAYOUT) != 0 ? read->layout : at_problem_layout_default(read);
    AT_FORWARD(attune_problem_check(read));
    *read = at_problem_canonical(read);
    return ATTUNE_OK;
}

attune_status at_test_problem_parse(const char *text, at_test_problem *test)
{
    at_test_problem read = {.length_seed = 0};
    uint32_t settled = 0;
    AT_FAIL_IF(text == NULL, ATTUNE_INVALID_ARGUMENT, "text is NULL");
    AT_FAIL_IF(*text == '\0', ATTUNE_INVALID_PROBLEM, "empty text; a problem is for example b1,h8,s512,d64,fp16");
    attune_problem_init(&read.problem);
    AT_FORWARD(read_op(&text, &read.problem));
    for (;;) {
        size_t length = strcspn(text, ",");
        AT_FORWARD(read_term(text, length, &read, &settled));
        if (text[length] == '\0') {
            break;
        }
        text += length + 1;
    }
    AT_FORWARD(finish(&read.problem, settled));
    *test = read;
    return ATTUNE_OK;
}

attune_status attune_problem_parse_sized(const char *text, attune_problem *problem, size_t size)
{
    at_test_problem read;
    AT_FAIL_IF(problem == NULL, ATTUNE_INVALID_ARGUMENT, "problem is NULL");
    AT_FORWARD(at_test_problem_parse(text, &read));
    return at_problem_give(&read.problem, problem, size);
}
