/* Reading a problem's text form: docs/problems.md is its grammar for people, `terms` below the same for the machine. */
#include <string.h>

#include "base/status.h"
#include "core/number.h"
#include "core/problem.h"

/* ---- What terms there are --------------------------------------------------------------------------------------- */

struct token {
    const char *text; /* "softcap=30", not terminated */
    size_t length;
    const char *value; /* what follows the name, or the name and its '=' */
    size_t value_length;
    char shown[48]; /* for error messages */
};

typedef attune_status (*reader)(const struct token *token, attune_problem *problem);

enum form {
    FORM_FLAG,  /* "causal" */
    FORM_SIZE,  /* "b8" */
    FORM_VALUE, /* "scale=0.5" */
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
};

struct term {
    const char *name;
    enum form form;
    uint32_t sets;
    const char *example;
    reader read;
};

/* ---- Reading values --------------------------------------------------------------------------------------------- */

static bool value_is(const struct token *token, const char *word)
{
    return strlen(word) == token->value_length && memcmp(token->value, word, token->value_length) == 0;
}

/* The size a field's term gives. The check of the whole problem would find a bad one too, but not name the term. */
static attune_status read_int(const struct token *token, const char *what, int64_t least, int64_t most, int64_t *value)
{
    int64_t number = 0;
    at_number outcome = at_number_int64(token->value, token->value_length, &number);
    AT_FAIL_IF(outcome == AT_NUMBER_MALFORMED, ATTUNE_INVALID_PROBLEM, "term '%s': %s must be an integer", token->shown,
               what);
    AT_FAIL_IF(outcome == AT_NUMBER_TOO_LARGE || number < least || number > most, ATTUNE_INVALID_PROBLEM,
               "term '%s': %s must be %lld ... %lld", token->shown, what, (long long)least, (long long)most);
    *value = number;
    return ATTUNE_OK;
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

static attune_status read_dtype(const struct token *token, attune_problem *problem)
{
    for (int dtype = ATTUNE_FP32; dtype <= ATTUNE_BF16; ++dtype) {
        if (strncmp(token->text, at_dtype_name(dtype), token->length) == 0) {
            problem->dtype = (attune_dtype)dtype;
        }
    }
    return ATTUNE_OK;
}

#define READ_SWITCH(field)                                                                                             \
    static attune_status read_##field(const struct token *token, attune_problem *problem)                              \
    {                                                                                                                  \
        (void)token;                                                                                                   \
        problem->field = 1;                                                                                            \
        return ATTUNE_OK;                                                                                              \
    }

READ_SWITCH(causal)
READ_SWITCH(mask)
READ_SWITCH(alibi)
READ_SWITCH(sink)
READ_SWITCH(seqused_kv)
READ_SWITCH(strict)

static attune_status read_offset(const struct token *token, attune_problem *problem)
{
    if (value_is(token, "br")) {
        problem->offset_kind = ATTUNE_OFFSET_BOTTOM_RIGHT;
        return ATTUNE_OK;
    }
    if (value_is(token, "tl")) {
        problem->offset_kind = ATTUNE_OFFSET_TOP_LEFT;
        return ATTUNE_OK;
    }
    problem->offset_kind = ATTUNE_OFFSET_NUMBER;
    return read_int(token, "offset (tl, br or an integer)", -AT_DIM_MAX, AT_DIM_MAX, &problem->offset);
}

static attune_status read_window(const struct token *whole, attune_problem *problem)
{
    const char *colon = memchr(whole->value, ':', whole->value_length);
    AT_FAIL_IF(colon == NULL, ATTUNE_INVALID_PROBLEM,
               "term '%s': a window is LEFT:RIGHT, each -1 (unbounded) or more; for example window=1023:0",
               whole->shown);
    struct token left = *whole;
    struct token right = *whole;
    left.value_length = (size_t)(colon - whole->value);
    right.value = colon + 1;
    right.value_length = whole->value_length - left.value_length - 1;
    AT_FORWARD(read_int(&left, "the left side", -1, AT_DIM_MAX, &problem->window_left));
    return read_int(&right, "the right side", -1, AT_DIM_MAX, &problem->window_right);
}

static attune_status read_float(const struct token *token, const char *without, float *value)
{
    float number = 0.0f;
    at_number outcome = at_number_float(token->value, token->value_length, &number);
    AT_FAIL_IF(outcome == AT_NUMBER_MALFORMED, ATTUNE_INVALID_PROBLEM, "term '%s': a decimal number is needed",
               token->shown);
    AT_FAIL_IF(outcome == AT_NUMBER_TOO_LARGE, ATTUNE_INVALID_PROBLEM, "term '%s': the largest float is 3.4028235e+38",
               token->shown);
    AT_FAIL_IF(number == 0.0f, ATTUNE_INVALID_PROBLEM, "term '%s': zero is not allowed; without the term, %s",
               token->shown, without);
    *value = number;
    return ATTUNE_OK;
}

static attune_status read_scale(const struct token *token, attune_problem *problem)
{
    return read_float(token, "the scale is 1/sqrt(d)", &problem->scale);
}

static attune_status read_softcap(const struct token *token, attune_problem *problem)
{
    AT_FORWARD(read_float(token, "there is no cap", &problem->softcap));
    AT_FAIL_IF(problem->softcap < 0.0f, ATTUNE_INVALID_PROBLEM, "term '%s': softcap must be above 0", token->shown);
    return ATTUNE_OK;
}

static attune_status read_bias(const struct token *token, attune_problem *problem)
{
    for (int bias = 1; bias <= ATTUNE_BIAS_BXH; ++bias) {
        if (value_is(token, at_bias_name(bias))) {
            problem->bias = (attune_bias)bias;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_PROBLEM, "term '%s': bias must be 1x1, bx1, 1xh or bxh (batch by heads)",
                   token->shown);
}

static attune_status read_align(const struct token *token, attune_problem *problem)
{
    int64_t align = 0;
    AT_FORWARD(read_int(token, "align", 1, AT_ALIGN_MAX, &align));
    AT_FAIL_IF((align & (align - 1)) != 0, ATTUNE_INVALID_PROBLEM,
               "term '%s': align must be a power of two of 1 ... %d bytes", token->shown, AT_ALIGN_MAX);
    problem->align = (int32_t)align;
    return ATTUNE_OK;
}

static attune_status read_varlen(const struct token *token, attune_problem *problem)
{
    at_number outcome = at_number_uint64(token->value, token->value_length, &problem->varlen_seed);
    AT_FAIL_IF(outcome != AT_NUMBER_OK, ATTUNE_INVALID_PROBLEM,
               "term '%s': the seed of varlen must be an integer 0 ... 18446744073709551615", token->shown);
    problem->varlen = 1;
    return ATTUNE_OK;
}

static attune_status read_layout(const struct token *token, attune_problem *problem)
{
    for (int layout = 0; layout <= ATTUNE_BSHD; ++layout) {
        if (value_is(token, at_layout_name(layout))) {
            problem->layout = (attune_layout)layout;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_PROBLEM, "term '%s': layout must be bhsd or bshd", token->shown);
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
    {"align", FORM_VALUE, SETS_ALIGN, "align=16", read_align},
    {"varlen", FORM_VALUE, SETS_VARLEN, "varlen=1", read_varlen},
    {"layout", FORM_VALUE, SETS_LAYOUT, "layout=bshd", read_layout},
};
enum { TERMS = sizeof terms / sizeof *terms };

/* ---- Finding terms ---------------------------------------------------------------------------------------------- */

/* A copy fit for a message: cut where long, with what does not print shown as '?'. */
static void show(const char *text, size_t length, char shown[48])
{
    size_t kept = length < 48 ? length : 44;
    for (size_t i = 0; i < kept; ++i) {
        shown[i] = text[i];
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x7f) {
            shown[i] = '?';
        }
    }
    memcpy(shown + kept, length < 48 ? "" : "...", length < 48 ? 1 : 4);
}

static size_t letters(const char *text, size_t length)
{
    size_t count = 0;
    while (count < length && text[count] >= 'a' && text[count] <= 'z') {
        ++count;
    }
    return count;
}

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* Edits (insert, remove, replace, swap neighbours; case aside) that turn one word into the other. */
static int distance(const char *a, int a_length, const char *b, int b_length)
{
    enum { LONGEST = 16 };
    int cost[LONGEST + 1][LONGEST + 1];
    if (a_length > LONGEST || b_length > LONGEST) {
        return LONGEST;
    }
    for (int i = 0; i <= a_length; ++i) {
        for (int j = 0; j <= b_length; ++j) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            int best = cost[i - 1][j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            best = cost[i - 1][j] + 1 < best ? cost[i - 1][j] + 1 : best;
            best = cost[i][j - 1] + 1 < best ? cost[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]) &&
                cost[i - 2][j - 2] + 1 < best) {
                best = cost[i - 2][j - 2] + 1;
            }
            cost[i][j] = best;
        }
    }
    return cost[a_length][b_length];
}

/* Where a name ends that may be misspelt: at '=', and for sizes and values also at the first digit. */
static int word_length(const struct token *token, enum form form)
{
    size_t at = 0;
    while (at < token->length && token->text[at] != '=' &&
           (form == FORM_FLAG || token->text[at] < '0' || token->text[at] > '9')) {
        ++at;
    }
    return at < 32 ? (int)at : 32;
}

static const struct term *nearest(const struct token *token)
{
    const struct term *best = NULL;
    int least = 3; /* two edits at most, and never most of the word */
    for (int i = 0; i < TERMS; ++i) {
        int name_length = (int)strlen(terms[i].name);
        int edits = distance(token->text, word_length(token, terms[i].form), terms[i].name, name_length);
        if (edits < least && 2 * edits <= name_length) {
            least = edits;
            best = &terms[i];
        }
    }
    return best;
}

static attune_status unknown_term(const struct token *token)
{
    const struct term *meant = nearest(token);
    AT_FAIL_IF(token->length == 0, ATTUNE_INVALID_PROBLEM,
               "empty term: terms stand between single commas, for example b1,h8,s512,d64,fp16");
    AT_FAIL_IF(memchr(token->text, ' ', token->length) != NULL, ATTUNE_INVALID_PROBLEM,
               "term '%s': blanks are not allowed", token->shown);
    AT_FAIL_IF(meant != NULL, ATTUNE_INVALID_PROBLEM, "unknown term '%s': did you mean %s?", token->shown,
               meant->example);
    return at_fail(ATTUNE_INVALID_PROBLEM,
                   "unknown term '%s': known are b h hkv s sq skv d dv fp16 bf16 fp32 causal offset window softcap "
                   "scale bias mask alibi sink seqused strict align varlen layout",
                   token->shown);
}

/* The term of this token, whose value it sets, or NULL. */
static const struct term *find_term(struct token *token)
{
    size_t before = letters(token->text, token->length);
    const char *equals = memchr(token->text, '=', token->length);
    size_t word = equals != NULL ? (size_t)(equals - token->text) : token->length;
    for (int i = 0; i < TERMS; ++i) {
        size_t length = terms[i].form == FORM_FLAG ? word : before;
        if (length == strlen(terms[i].name) && memcmp(token->text, terms[i].name, length) == 0) {
            bool skip = terms[i].form == FORM_VALUE && length < token->length;
            token->value = token->text + length + skip;
            token->value_length = token->length - length - skip;
            return &terms[i];
        }
    }
    return NULL;
}

static attune_status check_form(const struct token *token, const struct term *term)
{
    char after = term->form == FORM_VALUE && token->value > token->text ? token->value[-1] : '\0';
    AT_FAIL_IF(term->form == FORM_FLAG && token->value_length > 0, ATTUNE_INVALID_PROBLEM,
               "term '%s': %s takes no value", token->shown, term->name);
    AT_FAIL_IF(term->form == FORM_SIZE && (token->value_length == 0 || *token->value == '='), ATTUNE_INVALID_PROBLEM,
               "term '%s': %s is followed by its number at once, for example %s", token->shown, term->name,
               term->example);
    AT_FAIL_IF(term->form == FORM_VALUE && (after != '=' || token->value_length == 0), ATTUNE_INVALID_PROBLEM,
               "term '%s': %s needs a value, for example %s", token->shown, term->name, term->example);
    return ATTUNE_OK;
}

/* ---- Parsing ---------------------------------------------------------------------------------------------------- */

static attune_status read_term(const char *text, size_t length, attune_problem *problem, uint32_t *settled)
{
    struct token token = {text, length, text, 0, ""};
    show(text, length, token.shown);
    const struct term *term = find_term(&token);
    if (term == NULL) {
        return unknown_term(&token);
    }
    AT_FORWARD(check_form(&token, term));
    AT_FAIL_IF((*settled & term->sets) != 0, ATTUNE_INVALID_PROBLEM,
               "term '%s' repeats what an earlier term has settled%s", token.shown,
               *term->name == 's' && (term->sets & (SETS_SEQLEN_Q | SETS_SEQLEN_KV)) != 0
                   ? ": give s, or sq and skv, each once"
               : term->sets == SETS_DTYPE ? ": give one dtype"
                                          : "");
    *settled |= term->sets;
    return term->read(&token, problem);
}

/* Steps over "fwd:". */
static attune_status read_op(const char **text)
{
    size_t length = letters(*text, strlen(*text));
    char shown[48];
    if (length == 0 || (*text)[length] != ':') {
        return ATTUNE_OK;
    }
    show(*text, length, shown);
    AT_FAIL_IF(length != 3 || memcmp(*text, "fwd", 3) != 0, ATTUNE_INVALID_PROBLEM, "unknown op '%s': known is fwd",
               shown);
    *text += length + 1;
    return ATTUNE_OK;
}

static attune_status check_required(uint32_t settled)
{
    static const struct {
        uint32_t sets;
        const char *words;
    } required[] = {
        {SETS_BATCH, "b (batch)"},           {SETS_HEADS_Q, "h (heads)"},
        {SETS_SEQLEN_Q, "s or sq (length)"}, {SETS_SEQLEN_KV, "s or skv (length)"},
        {SETS_HEAD_DIM_QK, "d (head dim)"},  {SETS_DTYPE, "fp16, bf16 or fp32 (dtype)"},
    };
    for (size_t i = 0; i < sizeof required / sizeof *required; ++i) {
        AT_FAIL_IF((settled & required[i].sets) == 0, ATTUNE_INVALID_PROBLEM,
                   "missing term %s; for example b1,h8,s512,d64,fp16", required[i].words);
    }
    return ATTUNE_OK;
}

attune_status attune_problem_parse(const char *text, attune_problem *problem)
{
    attune_problem read;
    uint32_t settled = 0;
    AT_FAIL_IF(text == NULL, ATTUNE_INVALID_ARGUMENT, "text is NULL");
    AT_FAIL_IF(problem == NULL, ATTUNE_INVALID_ARGUMENT, "problem is NULL");
    AT_FAIL_IF(*text == '\0', ATTUNE_INVALID_PROBLEM, "empty text; a problem is for example b1,h8,s512,d64,fp16");
    attune_problem_init(&read);
    AT_FORWARD(read_op(&text));
    for (;;) {
        size_t length = strcspn(text, ",");
        AT_FORWARD(read_term(text, length, &read, &settled));
        if (text[length] == '\0') {
            break;
        }
        text += length + 1;
    }
    AT_FORWARD(check_required(settled));
    read.heads_kv = (settled & SETS_HEADS_KV) != 0 ? read.heads_kv : read.heads_q;
    read.head_dim_v = (settled & SETS_HEAD_DIM_V) != 0 ? read.head_dim_v : read.head_dim_qk;
    read.layout = (settled & SETS_LAYOUT) != 0 ? read.layout : at_problem_layout_default(&read);
    AT_FORWARD(attune_problem_check(&read));
    *problem = at_problem_canonical(&read);
    return ATTUNE_OK;
}
