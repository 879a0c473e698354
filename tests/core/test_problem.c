#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "core/problem.h"

static attune_problem parse(const char *text)
{
    attune_problem problem;
    if (attune_problem_parse(text, &problem) != ATTUNE_OK) {
        fail_msg("%s: %s", text, attune_last_detail());
    }
    return problem;
}

static attune_problem defaults(void)
{
    attune_problem problem;
    memset(&problem, 0xa5, sizeof problem);
    attune_problem_init(&problem);
    return problem;
}

static void init_is_valid(void **state)
{
    (void)state;
    attune_problem p = defaults();
    assert_int_equal(attune_problem_check(&p), ATTUNE_OK);
    assert_int_equal(p.size, sizeof p);
    assert_int_equal(p.head_dim_qk, 64);
    assert_int_equal(p.window_left, -1);
    assert_int_equal(p.seqlen_kv, 0);
    attune_problem_init(NULL);
}

/* ---- Validity: the message names the field, its value and the limit --------------------------------------------- */

static void refused(const attune_problem *problem, const char *field, const char *value, const char *limit)
{
    assert_int_equal(attune_problem_check(problem), ATTUNE_INVALID_PROBLEM);
    const char *detail = attune_last_detail();
    if (strstr(detail, field) == NULL || strstr(detail, value) == NULL || strstr(detail, limit) == NULL) {
        fail_msg("the message lacks '%s', '%s' or '%s': %s", field, value, limit, detail);
    }
}

#define REFUSED(member, bad, field, value, limit)                                                                      \
    do {                                                                                                               \
        attune_problem p_ = defaults();                                                                                \
        p_.member = (bad);                                                                                             \
        refused(&p_, field, value, limit);                                                                             \
    } while (0)

static void bad_sizes(void **state)
{
    (void)state;
    assert_int_equal(attune_problem_check(NULL), ATTUNE_INVALID_ARGUMENT);
    REFUSED(size, 0, "size", "0", "attune_problem_init");
    REFUSED(size, offsetof(attune_problem, role_dtype) - 1, "problem.size", "", "attune_problem_init");
    REFUSED(batch, 0, "batch", "0", "1 ... 2147483647");
    REFUSED(batch, -1, "batch", "-1", "1 ... 2147483647");
    REFUSED(batch, INT64_MIN, "batch", "-9223372036854775808", "1 ... 2147483647");
    REFUSED(heads_q, 0, "heads_q", "0", "1 ... 2147483647");
    REFUSED(heads_q, 2147483648, "heads_q", "2147483648", "1 ... 2147483647");
    REFUSED(heads_kv, 0, "heads_kv", "0", "1 ... 2147483647");
    REFUSED(heads_kv, 2, "heads_kv", "2", "multiple");
    REFUSED(seqlen_q, -1, "seqlen_q", "-1", "0 ... 2147483647");
    REFUSED(seqlen_kv, INT64_MAX, "seqlen_kv", "9223372036854775807", "0 ... 2147483647");
    REFUSED(head_dim_qk, 0, "head_dim_qk", "0", "1 ... 256");
    REFUSED(head_dim_qk, 257, "head_dim_qk", "257", "1 ... 256");
    REFUSED(head_dim_v, -8, "head_dim_v", "-8", "1 ... 256");
}

static void bad_kinds(void **state)
{
    (void)state;
    REFUSED(op, (attune_op)1, "op", "1", "fwd");
    REFUSED(op, (attune_op)4, "op", "4", "merge");
    REFUSED(dtype, ATTUNE_INT32, "dtype", "int32", "fp32, fp16 or bf16");
    REFUSED(dtype, (attune_dtype)77, "dtype", "77", "fp32, fp16 or bf16");
    REFUSED(dtype, (attune_dtype)-1, "dtype", "-1", "fp32, fp16 or bf16");
    REFUSED(offset_kind, (attune_offset)3, "offset_kind", "3", "br");
    REFUSED(layout, (attune_layout)2, "layout", "2", "bshd");
    REFUSED(bias, (attune_bias)5, "bias", "5", "bxh");
    REFUSED(bias, (attune_bias)-1, "bias", "-1", "bxh");
    REFUSED(mask, 2, "mask", "2", "0 or 1");
    REFUSED(role_dtype[ATTUNE_K], ATTUNE_INT32 + 1, "role_dtype[K]", "int32", "fp32, fp16 or bf16");
    REFUSED(role_dtype[ATTUNE_Q], ATTUNE_FP16 + 1, "role_dtype[Q]", "2", "only K, V, O and BIAS");
    REFUSED(role_dtype[ATTUNE_ROLES_MAX - 1], 1, "role_dtype", "1", "0 is needed");
    REFUSED(role_dtype[ATTUNE_BIAS], ATTUNE_FP16 + 1, "role_dtype[BIAS]", "2", "no bias");
    REFUSED(mask, -1, "mask", "-1", "0 or 1");
    REFUSED(alibi, 3, "alibi", "3", "0 or 1");
    REFUSED(sink, 4, "sink", "4", "0 or 1");
    REFUSED(seqused_kv, 5, "seqused_kv", "5", "0 or 1");
    REFUSED(strict, 6, "strict", "6", "0 or 1");
    REFUSED(varlen, 7, "varlen", "7", "0 or 1");
    REFUSED(tf32, 8, "tf32", "8", "0 or 1");
    REFUSED(varlen, 1, "layout", "bhsd", "bshd");
}

static void bad_values(void **state)
{
    (void)state;
    REFUSED(scale, NAN, "scale", "nan", "finite");
    REFUSED(scale, -INFINITY, "scale", "-inf", "finite");
    REFUSED(softcap, INFINITY, "softcap", "inf", "finite");
    REFUSED(softcap, -1.0f, "softcap", "-1", "above 0");
    REFUSED(softcap, NAN, "softcap", "nan", "finite");
    REFUSED(window_left, -2, "window_left", "-2", "-1");
    REFUSED(window_right, 2147483648, "window_right", "2147483648", "2147483647");
    REFUSED(align, 3, "align", "3", "power of two");
    REFUSED(align, -16, "align", "-16", "power of two");
    REFUSED(align, 512, "align", "512", "256");
    attune_problem p = defaults();
    p.offset = 2147483648;
    assert_int_equal(attune_problem_check(&p), ATTUNE_OK); /* no meaning without the kind */
    p.offset_kind = ATTUNE_OFFSET_NUMBER;
    refused(&p, "offset", "2147483648", "2147483647");
    p.offset = -2147483648;
    refused(&p, "offset", "-2147483648", "2147483647");
}

/* Any tensor of 2^62 elements is refused, of just under accepted. */
static void bad_products(void **state)
{
    (void)state;
    attune_problem p = parse("b1048576,h1048576,hkv1,sq2097151,skv1,d2,fp16");
    p.seqlen_q = 2097152;
    refused(&p, "Q has", "2097152", "2^62");
    p = parse("b1048576,h1048576,hkv1,sq1048576,skv1,d2,dv1,fp16");
    p.head_dim_v = 4;
    refused(&p, "O has", "4", "2^62");
    p = parse("b2147483647,h1,sq1,skv1073741824,d1,fp32");
    p.seqlen_kv = 2147483647;
    p.head_dim_v = 2;
    refused(&p, "V has", "2147483647", "2^62");
    p.head_dim_qk = 2;
    refused(&p, "K has", "2147483647", "2^62");
    p = parse("b2147483647,h1,s65535,d1,fp32,bias=1x1");
    p.bias = ATTUNE_BIAS_BX1;
    refused(&p, "BIAS has", "2147483647", "2^62");
    p.bias = ATTUNE_BIAS_1XH;
    assert_int_equal(attune_problem_check(&p), ATTUNE_OK);
    p.mask = 1;
    refused(&p, "MASK has", "65535", "2^62");
    /* Padding to align counts. */
    p = parse("b1048576,h1048576,hkv1,sq524288,skv1,d1,fp32");
    p.align = 256;
    refused(&p, "Q has", "64", "2^62");
}

/* ---- Equality --------------------------------------------------------------------------------------------------- */

static void expect_equal(const attune_problem *a, const attune_problem *b, bool equal)
{
    assert_int_equal(at_problem_equal(a, b), equal);
    assert_int_equal(attune_problem_hash(a) == attune_problem_hash(b), equal);
}

static void equality_sees_meaning(void **state)
{
    (void)state;
    attune_problem a = parse("b2,h4,s8,d64,fp32");
    attune_problem b = a;
    b.scale = 0.125f;
    expect_equal(&a, &b, true);
    b.scale = -0.0f;
    expect_equal(&a, &b, true);
    b.scale = nextafterf(0.125f, 1.0f);
    expect_equal(&a, &b, false);
    b = a;
    b.align = 16;
    b.softcap = -0.0f;
    b.offset = 99;
    expect_equal(&a, &b, true);
    b.align = 8;
    expect_equal(&a, &b, false);
    a.align = 8;
    expect_equal(&a, &b, true);
    assert_true(attune_problem_hash(NULL) == 0);
}

/* Padding bytes, which memcmp would see, mean nothing. */
static void equality_ignores_padding(void **state)
{
    (void)state;
    attune_problem a;
    attune_problem b;
    memset(&a, 0x00, sizeof a);
    memset(&b, 0xff, sizeof b);
    attune_problem source = parse("b2,h4,s8,d64,fp32");
#define COPY(field) a.field = b.field = source.field
    COPY(size), COPY(op), COPY(dtype), COPY(batch), COPY(heads_q), COPY(heads_kv), COPY(seqlen_q), COPY(seqlen_kv);
    COPY(head_dim_qk), COPY(head_dim_v), COPY(scale), COPY(softcap), COPY(window_left), COPY(window_right);
    COPY(offset), COPY(offset_kind), COPY(layout), COPY(bias), COPY(align), COPY(mask), COPY(alibi);
    COPY(sink), COPY(seqused_kv), COPY(strict), COPY(varlen);
    COPY(page_size), COPY(page_table_v), COPY(draft_mask), COPY(slots), COPY(states), COPY(tf32);
#undef COPY
    memset(a.role_dtype, 0, sizeof a.role_dtype);
    memset(b.role_dtype, 0, sizeof b.role_dtype);
    expect_equal(&a, &b, true);
}

/* Every field changes equality and the hash. */
static void every_field_counts(void **state)
{
    (void)state;
    static const char *const others[] = {
        "b3,h4,hkv2,s8,d64,fp32",
        "b2,h8,hkv2,s8,d64,fp32",
        "b2,h4,hkv4,s8,d64,fp32",
        "b2,h4,hkv2,sq9,skv8,d64,fp32",
        "b2,h4,hkv2,sq8,skv9,d64,fp32",
        "b2,h4,hkv2,s8,d32,dv64,fp32",
        "b2,h4,hkv2,s8,d64,dv32,fp32",
        "b2,h4,hkv2,s8,d64,fp16",
        "b2,h4,hkv2,s8,d64,bf16",
        "b2,h4,hkv2,s8,d64,fp32,k=fp16",
        "b2,h4,hkv2,s8,d64,fp32,v=fp16",
        "b2,h4,hkv2,s8,d64,fp32,v=bf16",
        "b2,h4,hkv2,s8,d64,fp32,bias=1x1:fp16",
        "b2,h4,hkv2,s8,d64,fp32,o=bf16",
        "b2,h4,hkv2,s8,d64,fp32,causal",
        "b2,h4,hkv2,s8,d64,fp32,offset=tl",
        "b2,h4,hkv2,s8,d64,fp32,offset=0",
        "b2,h4,hkv2,s8,d64,fp32,offset=1",
        "b2,h4,hkv2,s8,d64,fp32,window=1:-1",
        "b2,h4,hkv2,s8,d64,fp32,window=-1:1",
        "b2,h4,hkv2,s8,d64,fp32,softcap=1",
        "b2,h4,hkv2,s8,d64,fp32,scale=1",
        "b2,h4,hkv2,s8,d64,fp32,bias=1x1",
        "b2,h4,hkv2,s8,d64,fp32,bias=bxh",
        "b2,h4,hkv2,s8,d64,fp32,mask",
        "b2,h4,hkv2,s8,d64,fp32,alibi",
        "b2,h4,hkv2,s8,d64,fp32,sink",
        "b2,h4,hkv2,s8,d64,fp32,seqused",
        "b2,h4,hkv2,s8,d64,fp32,strict",
        "b2,h4,hkv2,s8,d64,fp32,tf32",
        "b2,h4,hkv2,s8,d64,fp32,align=32",
        "b2,h4,hkv2,s8,d64,fp32,layout=bshd",
        "b2,h4,hkv2,s8,d64,fp32,varlen",
        "b2,h4,hkv2,s8,d64,fp32,page=1",
        "b2,h4,hkv2,s8,d64,fp32,page=2",
        "b2,h4,hkv2,s8,d64,fp32,page=2,vtable",
        "b2,h4,hkv2,s8,d64,fp32,draft",
        "append:b2,h4,s8,d64,fp32,seqused",
        "append:b2,h4,s8,d64,fp32,slots",
        "merge:b2,h4,sq8,d64,fp32,states=1",
        "merge:b2,h4,sq8,d64,fp32,states=2",
        "b2,h4,hkv2,s8,d64,fp32",
    };
    enum { COUNT = sizeof others / sizeof *others };
    for (int i = 0; i < COUNT; ++i) {
        for (int j = 0; j < COUNT; ++j) {
            attune_problem a = parse(others[i]);
            attune_problem b = parse(others[j]);
            expect_equal(&a, &b, i == j);
        }
    }
}

/* Written down once: files of other machines depend on them. */
static void hashes_stay(void **state)
{
    (void)state;
    attune_problem p = parse("b1,h8,s512,d64,fp16");
    assert_true(attune_problem_hash(&p) == UINT64_C(0xac73115be4eff9ec));
    p = parse("b2,h32,hkv8,sq1,skv8192,d128,dv64,bf16,causal,offset=-5,window=3:-1,scale=0.3,softcap=30,varlen=7");
    const at_test_problem test = {p, 7}, none = {p, 0};
    assert_true(at_test_problem_hash(&test) == UINT64_C(0xa3cb2f35f3d95d2a));
    assert_true(at_test_problem_hash(&none) == attune_problem_hash(&p));
    assert_false(at_test_problem_equal(&test, &none));
}

/* ---- Derived facts ---------------------------------------------------------------------------------------------- */

static void alignment(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int align;
    } examples[] = {
        {"b1,h1,s1,d64,fp16", 16},         {"b1,h1,s1,d4,fp16", 8},
        {"b1,h1,s1,d1,fp16", 2},           {"b1,h1,s1,d1,fp32", 4},
        {"b1,h1,s1,d64,dv7,fp16", 2},      {"b1,h1,s1,d4,dv64,fp32", 16},
        {"b1,h1,s1,d64,fp16,align=1", 2},  {"b1,h1,s1,d64,fp32,align=1", 4},
        {"b1,h1,s1,d1,fp16,align=64", 64}, {"b1,h1,s1,d256,fp32,align=256", 256},
        {"b1,h1,s1,d256,fp32", 16},        {"b1,h1,s1,d72,bf16", 16},
        {"b1,h1,s1,d12,bf16", 8},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; ++i) {
        attune_problem p = parse(examples[i].text);
        assert_int_equal(at_problem_align(&p), examples[i].align);
    }
}

static void names_and_needs(void **state)
{
    (void)state;
    attune_problem plain = parse("b1,h1,s1,d8,fp16");
    attune_problem all = parse("b1,h1,s1,d8,fp16,causal,window=1:-1,softcap=1,bias=1x1,mask,alibi,sink,seqused,strict,"
                               "varlen=1");
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        assert_int_equal(at_problem_needs(&plain, (attune_role)role), role <= ATTUNE_O);
        assert_int_equal(at_problem_needs(&all, (attune_role)role), role < ATTUNE_ROLES_FORWARD && role != ATTUNE_LSE);
        assert_string_not_equal(at_role_name(role), "?");
    }
    assert_int_equal(at_problem_features(&plain), 0);
    assert_int_equal(at_problem_features(&all), (1 << 10) - 1);
    assert_string_equal(at_role_name(ATTUNE_CU_KV), "CU_KV");
    assert_string_equal(at_role_name(-1), "?");
    assert_string_equal(at_role_name(ATTUNE_ROLE_COUNT), "?");
    assert_string_equal(at_dtype_name(ATTUNE_BF16), "bf16");
    assert_string_equal(at_dtype_name(-1), "?");
    assert_string_equal(at_bias_name(ATTUNE_BIAS_BX1), "bx1");
    assert_string_equal(at_bias_name(9), "?");
    assert_string_equal(at_layout_name(ATTUNE_BSHD), "bshd");
    assert_string_equal(at_layout_name(2), "?");
    assert_int_equal(at_dtype_bytes(ATTUNE_BOOL), 1);
    assert_int_equal(at_dtype_bytes(ATTUNE_DTYPE_COUNT), 0);
    assert_true(at_problem_scale(&plain) == (float)(1.0 / sqrt(8.0)));
    plain.scale = -3.0f;
    assert_true(at_problem_scale(&plain) == -3.0f);
}

/* ---- Work ------------------------------------------------------------------------------------------------------- */

static uint64_t pairs_counted(const attune_problem *p, int64_t seqlen_q, int64_t seqlen_kv)
{
    uint64_t count = 0;
    int64_t offset = p->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT ? seqlen_kv - seqlen_q
                     : p->offset_kind == ATTUNE_OFFSET_TOP_LEFT   ? 0
                                                                  : p->offset;
    for (int64_t i = 0; i < seqlen_q; ++i) {
        for (int64_t j = 0; j < seqlen_kv; ++j) {
            bool seen = (p->window_left < 0 || j >= i + offset - p->window_left);
            seen = seen && (p->window_right < 0 || j <= i + offset + p->window_right);
            count += seen;
        }
    }
    return count;
}

static void pairs_equal_counting(void **state)
{
    (void)state;
    at_random random = at_random_seed(5, 5);
    for (int draw = 0; draw < 20000; ++draw) {
        attune_problem p = defaults();
        int64_t seqlen_q = (int64_t)at_random_below(&random, 20);
        int64_t seqlen_kv = (int64_t)at_random_below(&random, 20);
        p.window_left = (int64_t)at_random_below(&random, 25) - 1;
        p.window_right = (int64_t)at_random_below(&random, 25) - 1;
        p.window_left = at_random_below(&random, 2) ? -1 : p.window_left;
        p.window_right = at_random_below(&random, 2) ? -1 : p.window_right;
        p.offset_kind = (attune_offset)at_random_below(&random, 3);
        p.offset = (int64_t)at_random_below(&random, 61) - 30;
        assert_int_equal(at_problem_pairs(&p, seqlen_q, seqlen_kv), pairs_counted(&p, seqlen_q, seqlen_kv));
    }
}

static void flops(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double flops;
    } examples[] = {
        {"b1,h8,s512,d64,fp16", 4.0 * 8 * 512 * 512 * 64},
        {"b2,h4,hkv2,sq3,skv5,d8,dv16,fp16", 2.0 * 24 * 8 * 15},
        {"b1,h1,s100,d64,fp16,causal", 256.0 * 5050},
        {"b1,h1,sq1,skv8192,d64,fp16,causal", 256.0 * 8192},
        {"b1,h1,sq1,skv8192,d64,fp16,causal,offset=tl", 256.0},
        {"b1,h1,s100,d64,fp16,window=0:0", 256.0 * 100},
        {"b1,h1,s100,d64,fp16,causal,offset=-100", 0.0},
        {"b1,h1,s0,d64,fp16", 0.0},
        {"b1,h1,s2147483647,d1,fp16,causal,offset=2147483647,window=2147483647:2147483647",
         2.0 * 2147483647.0 * 2147483648.0},
        {"b1,h1,s2147483647,d1,fp16,window=-1:2147483647", 4.0 * 2147483647.0 * 2147483647.0},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; ++i) {
        attune_problem p = parse(examples[i].text);
        double relative = fabs(attune_problem_flops(&p) - examples[i].flops) / fmax(1.0, examples[i].flops);
        if (relative > 1e-15) {
            fail_msg("%s: %.17g, not %.17g", examples[i].text, attune_problem_flops(&p), examples[i].flops);
        }
    }
    attune_problem bad = defaults();
    bad.batch = -1;
    assert_true(attune_problem_flops(&bad) == 0.0);
    assert_true(attune_problem_flops(NULL) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_is_valid),
        cmocka_unit_test(bad_sizes),
        cmocka_unit_test(bad_kinds),
        cmocka_unit_test(bad_values),
        cmocka_unit_test(bad_products),
        cmocka_unit_test(equality_sees_meaning),
        cmocka_unit_test(equality_ignores_padding),
        cmocka_unit_test(every_field_counts),
        cmocka_unit_test(hashes_stay),
        cmocka_unit_test(alignment),
        cmocka_unit_test(names_and_needs),
        cmocka_unit_test(pairs_equal_counting),
        cmocka_unit_test(flops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
