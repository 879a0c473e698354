/* Writing a problem's canonical text form, and the text of its class. */
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/problem.h"

static void write_float(at_text *out, const char *name, float value)
{
    if (value != 0.0f) {
        at_text_add(out, ",%s=", name);
        at_text_add_float(out, value);
    }
}

static void write_role_dtypes(at_text *out, const attune_problem *p)
{
    static const struct {
        int role;
        const char *name;
    } terms[] = {{ATTUNE_K, "k"}, {ATTUNE_V, "v"}, {ATTUNE_O, "o"}};
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; ++i) {
        if (p->role_dtype[terms[i].role] != 0) {
            at_text_add(out, ",%s=%s", terms[i].name, at_dtype_name(at_problem_dtype(p, terms[i].role)));
        }
    }
}

static void write_sizes(at_text *out, const attune_problem *p)
{
    if (p->op != ATTUNE_FORWARD) {
        at_text_add(out, "%s:", at_op_name(p->op));
    }
    at_text_add(out, "b%lld,h%lld", (long long)p->batch, (long long)p->heads_q);
    if (p->heads_kv != p->heads_q) {
        at_text_add(out, ",hkv%lld", (long long)p->heads_kv);
    }
    if (p->op == ATTUNE_MERGE) {
        at_text_add(out, ",sq%lld", (long long)p->seqlen_q);
    } else if (p->seqlen_q == p->seqlen_kv) {
        at_text_add(out, ",s%lld", (long long)p->seqlen_q);
    } else {
        at_text_add(out, ",sq%lld,skv%lld", (long long)p->seqlen_q, (long long)p->seqlen_kv);
    }
    at_text_add(out, ",d%d", p->head_dim_qk);
    if (p->head_dim_v != p->head_dim_qk) {
        at_text_add(out, ",dv%d", p->head_dim_v);
    }
    at_text_add(out, ",%s", at_dtype_name(p->dtype));
    write_role_dtypes(out, p);
}

static void write_positions(at_text *out, const attune_problem *p)
{
    if (attune_is_causal(p) && !attune_is_windowed(p)) {
        at_text_add(out, ",causal");
    }
    if (p->offset_kind == ATTUNE_OFFSET_TOP_LEFT) {
        at_text_add(out, ",offset=tl");
    } else if (p->offset_kind == ATTUNE_OFFSET_NUMBER) {
        at_text_add(out, ",offset=%lld", (long long)p->offset);
    }
    if (attune_is_windowed(p)) {
        at_text_add(out, ",window=%lld:%lld", (long long)p->window_left, (long long)p->window_right);
    }
}

static void write_bias_and_flags(at_text *out, const attune_problem *p)
{
    if (p->bias != ATTUNE_BIAS_NONE) {
        at_text_add(out, ",bias=%s", at_bias_name(p->bias));
        if (p->role_dtype[ATTUNE_BIAS] != 0) {
            at_text_add(out, ":%s", at_dtype_name(at_problem_dtype(p, ATTUNE_BIAS)));
        }
    }
    at_text_add(out, "%s%s%s%s%s%s", p->mask ? ",mask" : "", p->alibi ? ",alibi" : "", p->sink ? ",sink" : "",
                p->seqused_kv ? ",seqused" : "", p->strict ? ",strict" : "", p->tf32 ? ",tf32" : "");
    if (p->align != 0) {
        at_text_add(out, ",align=%d", p->align);
    }
}

static void write_cache(at_text *out, const attune_problem *p, int64_t states)
{
    if (p->page_size > 0) {
        at_text_add(out, ",page=%d", p->page_size);
    }
    at_text_add(out, "%s%s%s", p->page_table_v ? ",vtable" : "", p->draft_mask ? ",draft" : "",
                p->slots ? ",slots" : "");
    if (states > 0) {
        at_text_add(out, ",states=%lld", (long long)states);
    }
}

static void write_layout(at_text *out, const attune_problem *p)
{
    if (p->layout != at_problem_layout_default(p)) {
        at_text_add(out, ",layout=%s", at_layout_name((int)p->layout));
    }
}

static void write_varlen(at_text *out, const attune_problem *p, uint64_t length_seed)
{
    if (p->varlen) {
        at_text_add(out, ",varlen");
    }
    if (p->varlen && length_seed != 0) {
        at_text_add(out, "=%llu", (unsigned long long)length_seed);
    }
}

static attune_status print(const attune_problem *problem, uint64_t length_seed, char *text, size_t bytes)
{
    char whole[ATTUNE_PROBLEM_TEXT_MAX] = "";
    at_text out;
    AT_FAIL_IF(text == NULL, ATTUNE_INVALID_ARGUMENT, "text is NULL");
    attune_problem canonical;
    AT_FORWARD(at_problem_take(problem, &canonical));
    canonical = at_problem_canonical(&canonical);
    at_text_init_fixed(&out, whole, sizeof whole);
    write_sizes(&out, &canonical);
    write_positions(&out, &canonical);
    write_float(&out, "softcap", canonical.softcap);
    write_float(&out, "scale", canonical.scale);
    write_bias_and_flags(&out, &canonical);
    write_cache(&out, &canonical, canonical.states);
    write_varlen(&out, &canonical, length_seed);
    write_layout(&out, &canonical);
    AT_FAIL_IF(out.length >= bytes, ATTUNE_INVALID_ARGUMENT,
               "bytes is %zu: this problem's text takes %zu, and %d are always enough", bytes, out.length + 1,
               ATTUNE_PROBLEM_TEXT_MAX);
    memcpy(text, whole, out.length + 1);
    return ATTUNE_OK;
}

attune_status attune_problem_print(const attune_problem *problem, char *text, size_t bytes)
{
    return print(problem, 0, text, bytes);
}

attune_status at_test_problem_print(const at_test_problem *test, char *text, size_t bytes)
{
    return print(&test->problem, test->length_seed, text, bytes);
}

/* ---- Class ------------------------------------------------------------------------------------------------------ */

/* The power of two that is not below value; 0 stays 0, and -1 (unbounded) too. */
static long long bucket(int64_t value)
{
    long long power = 1;
    while (power < value) {
        power *= 2;
    }
    return value <= 0 ? value : power;
}

void at_problem_class(const attune_problem *problem, char text[AT_CLASS_TEXT_MAX])
{
    static const char *const offsets[] = {"", ",offset=tl", ",offset=n"};
    at_text out;
    attune_problem p = at_problem_canonical(problem);
    at_text_init_fixed(&out, text, AT_CLASS_TEXT_MAX);
    at_text_add(&out, "%s,bh%lld,g%lld,sq%lld,skv%lld,d%d,dv%d,%s", at_op_name(p.op), bucket(p.batch * p.heads_q),
                (long long)(p.heads_q / p.heads_kv), bucket(p.seqlen_q), bucket(p.seqlen_kv), p.head_dim_qk,
                p.head_dim_v, at_dtype_name(p.dtype));
    write_role_dtypes(&out, &p);
    at_text_add(&out, "%s%s", attune_is_causal(&p) && !attune_is_windowed(&p) ? ",causal" : "", offsets[p.offset_kind]);
    if (attune_is_windowed(&p)) {
        at_text_add(&out, ",window=%lld:%lld", bucket(p.window_left), bucket(p.window_right));
    }
    at_text_add(&out, "%s", p.softcap > 0.0f ? ",softcap" : "");
    write_bias_and_flags(&out, &p);
    write_cache(&out, &p, bucket(p.states));
    write_varlen(&out, &p, 0);
    write_layout(&out, &p);
}
