/* Writing a problem's canonical text form, and the text of its class. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/number.h"
#include "core/problem.h"

struct writer {
    char *text;
    size_t bytes, used;
};

__attribute__((format(printf, 2, 3))) static void write_term(struct writer *writer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int more = vsnprintf(writer->text + writer->used, writer->bytes - writer->used, format, list);
    va_end(list);
    writer->used += more > 0 ? (size_t)more : 0;
}

static void write_float(struct writer *writer, const char *name, float value)
{
    char number[AT_FLOAT_TEXT_MAX];
    if (value != 0.0f) {
        at_float_print(value, number);
        write_term(writer, ",%s=%s", name, number);
    }
}

static void write_sizes(struct writer *writer, const attune_problem *p)
{
    write_term(writer, "b%lld,h%lld", (long long)p->batch, (long long)p->heads_q);
    if (p->heads_kv != p->heads_q) {
        write_term(writer, ",hkv%lld", (long long)p->heads_kv);
    }
    if (p->seqlen_q == p->seqlen_kv) {
        write_term(writer, ",s%lld", (long long)p->seqlen_q);
    } else {
        write_term(writer, ",sq%lld,skv%lld", (long long)p->seqlen_q, (long long)p->seqlen_kv);
    }
    write_term(writer, ",d%d", p->head_dim_qk);
    if (p->head_dim_v != p->head_dim_qk) {
        write_term(writer, ",dv%d", p->head_dim_v);
    }
    write_term(writer, ",%s", at_dtype_name((int)p->dtype));
}

static void write_positions(struct writer *writer, const attune_problem *p)
{
    if (p->causal) {
        write_term(writer, ",causal");
    }
    if (p->offset_kind == ATTUNE_OFFSET_TOP_LEFT) {
        write_term(writer, ",offset=tl");
    } else if (p->offset_kind == ATTUNE_OFFSET_NUMBER) {
        write_term(writer, ",offset=%lld", (long long)p->offset);
    }
    if (p->window_left >= 0 || p->window_right >= 0) {
        write_term(writer, ",window=%lld:%lld", (long long)p->window_left, (long long)p->window_right);
    }
}

static void write_bias_and_flags(struct writer *writer, const attune_problem *p)
{
    if (p->bias != ATTUNE_BIAS_NONE) {
        write_term(writer, ",bias=%s", at_bias_name((int)p->bias));
    }
    write_term(writer, "%s%s%s%s%s", p->mask ? ",mask" : "", p->alibi ? ",alibi" : "", p->sink ? ",sink" : "",
               p->seqused_kv ? ",seqused" : "", p->strict ? ",strict" : "");
    if (p->align != 0) {
        write_term(writer, ",align=%d", p->align);
    }
}

static void write_layout(struct writer *writer, const attune_problem *p)
{
    if (p->layout != at_problem_layout_default(p)) {
        write_term(writer, ",layout=%s", at_layout_name((int)p->layout));
    }
}

attune_status attune_problem_print(const attune_problem *problem, char *text, size_t bytes)
{
    char whole[ATTUNE_PROBLEM_TEXT_MAX] = "";
    struct writer writer = {whole, sizeof whole, 0};
    AT_FAIL_IF(text == NULL, ATTUNE_INVALID_ARGUMENT, "text is NULL");
    AT_FORWARD(attune_problem_check(problem));
    attune_problem canonical = at_problem_canonical(problem);
    write_sizes(&writer, &canonical);
    write_positions(&writer, &canonical);
    write_float(&writer, "softcap", canonical.softcap);
    write_float(&writer, "scale", canonical.scale);
    write_bias_and_flags(&writer, &canonical);
    if (canonical.varlen) {
        write_term(&writer, ",varlen=%llu", (unsigned long long)canonical.varlen_seed);
    }
    write_layout(&writer, &canonical);
    AT_FAIL_IF(writer.used >= bytes, ATTUNE_INVALID_ARGUMENT,
               "bytes is %zu: this problem's text takes %zu, and %d are always enough", bytes, writer.used + 1,
               ATTUNE_PROBLEM_TEXT_MAX);
    memcpy(text, whole, writer.used + 1);
    return ATTUNE_OK;
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
    struct writer writer = {text, AT_CLASS_TEXT_MAX, 0};
    attune_problem p = at_problem_canonical(problem);
    write_term(&writer, "fwd,bh%lld,g%lld,sq%lld,skv%lld,d%d,dv%d,%s%s%s", bucket(p.batch * p.heads_q),
               (long long)(p.heads_q / p.heads_kv), bucket(p.seqlen_q), bucket(p.seqlen_kv), p.head_dim_qk,
               p.head_dim_v, at_dtype_name((int)p.dtype), p.causal ? ",causal" : "", offsets[p.offset_kind]);
    if (p.window_left >= 0 || p.window_right >= 0) {
        write_term(&writer, ",window=%lld:%lld", bucket(p.window_left), bucket(p.window_right));
    }
    write_term(&writer, "%s", p.softcap > 0.0f ? ",softcap" : "");
    write_bias_and_flags(&writer, &p);
    write_term(&writer, "%s", p.varlen ? ",varlen" : "");
    write_layout(&writer, &p);
}
