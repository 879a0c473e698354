/* Inputs: reproducible, guarded, laid out as promised, and nasty where they should be. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/status.h"
#include "core/call.h"
#include "core/problem.h"
#include "reference/draw_text.h"
#include "reference/inputs.h"
#include "reference/reference.h"

static attune_problem parsed(const char *text)
{
    attune_problem problem;
    assert_int_equal(attune_problem_parse(text, &problem), ATTUNE_OK);
    return problem;
}

static at_inputs drawn(const char *text, const at_draw *draw)
{
    at_inputs inputs;
    draw_text(text, draw, &inputs);
    return inputs;
}

static float half_at(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row,
                     int64_t column)
{
    const unsigned char *data = inputs->call.tensor[role].data;
    uint16_t bits;
    memcpy(&bits, data + at_inputs_row(inputs, role, batch, head, row) + (size_t)column * 2, sizeof bits);
    return at_fp16_to_float(bits);
}

static const char *const everything = "b3,h4,hkv2,sq20,skv70,d24,dv8,fp16,causal,window=40:-1,softcap=4,bias=bx1,mask,"
                                      "alibi,sink,seqused";

static void test_equal_draws_are_equal(void **state)
{
    (void)state;
    for (int family = 0; family < AT_FAMILY_COUNT; ++family) {
        at_draw draw = {.seed = 11, .family = (at_family)family, .gaps = true};
        at_inputs a = drawn(everything, &draw);
        at_inputs b = drawn(everything, &draw);
        draw.seed = 12;
        at_inputs c = drawn(everything, &draw);
        assert_true(at_inputs_digest(&a) == at_inputs_digest(&b));
        assert_true(at_inputs_digest(&a) != at_inputs_digest(&c));
        at_inputs_free(&a);
        at_inputs_free(&b);
        at_inputs_free(&c);
    }
}

/* Layout and gaps move values, and change none. */
static void test_values_do_not_depend_on_layout(void **state)
{
    (void)state;
    at_draw plain = {.seed = 3, .family = AT_FAMILY_NORMAL};
    at_draw gaps = {.seed = 3, .family = AT_FAMILY_NORMAL, .gaps = true};
    at_inputs a = drawn("b2,h3,s20,d24,fp16", &plain);
    at_inputs b = drawn("b2,h3,s20,d24,fp16,layout=bshd", &gaps);
    for (int64_t i = 0; i < 2 * 3 * 20 * 24; ++i) {
        int64_t at[4] = {i / (3 * 20 * 24), i / (20 * 24) % 3, i / 24 % 20, i % 24};
        assert_true(half_at(&a, ATTUNE_K, at[0], at[1], at[2], at[3]) ==
                    half_at(&b, ATTUNE_K, at[0], at[1], at[2], at[3]));
    }
    at_inputs_free(&a);
    at_inputs_free(&b);
}

/* Neighbouring seeds give other values in the same places; a MASK comes in every form all the same. */
static void test_form_is_of_the_seeds_upper_half(void **state)
{
    (void)state;
    bool met[8] = {false};
    for (uint64_t form = 0; form < 500; ++form) {
        at_draw draw = {.seed = form << 32 | 7};
        at_inputs a = drawn("b2,h3,sq5,skv9,d8,fp16,mask,bias=bxh", &draw);
        draw.seed += 1;
        at_inputs b = drawn("b2,h3,sq5,skv9,d8,fp16,mask,bias=bxh", &draw);
        assert_true(at_inputs_digest(&a) != at_inputs_digest(&b));
        for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
            assert_memory_equal(a.call.tensor[role].stride, b.call.tensor[role].stride, sizeof(int64_t[3]));
            assert_int_equal(a.buffer[role].bytes, b.buffer[role].bytes);
        }
        const int64_t *stride = a.call.tensor[ATTUNE_MASK].stride;
        met[(stride[0] != 0) + 2 * (stride[1] != 0) + 4 * (stride[2] != 0)] = true;
        at_inputs_free(&a);
        at_inputs_free(&b);
    }
    for (int i = 0; i < 8; ++i) {
        assert_true(met[i]);
    }
}

/* Half of the masks are of 0 and 1, as most callers' are, and all that are timed: others show any byte. */
static void test_masks_are_of_ones_or_of_any_byte(void **state)
{
    int of_ones = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 200; ++seed) {
        const at_draw draw = {.seed = seed, .family = seed < 100 ? AT_FAMILY_NORMAL : AT_FAMILY_MIXED};
        at_inputs inputs = drawn("b2,h3,sq50,skv90,d8,fp16,mask", &draw);
        const at_extent extent = at_inputs_extent(&inputs, ATTUNE_MASK);
        unsigned all = 0;
        for (int64_t i = 0; i < extent.count[2]; ++i) {
            const unsigned char *mask = inputs.call.tensor[ATTUNE_MASK].data;
            mask += at_inputs_row(&inputs, ATTUNE_MASK, 0, 0, i);
            for (int64_t j = 0; j < extent.row; ++j) {
                all |= mask[j];
            }
        }
        assert_true(seed < 100 || all <= 1);
        of_ones += seed < 100 && all <= 1;
        at_inputs_free(&inputs);
    }
    assert_in_range(of_ones, 30, 70);
}

static void test_calls_are_accepted(void **state)
{
    (void)state;
    const char *const texts[] = {everything,
                                 "b1,h1,s1,d1,fp32",
                                 "b4,h2,s40,d64,bf16,varlen=5",
                                 "b1,h2,s0,d8,fp16",
                                 "b2,h3,sq5,skv9,d7,dv3,fp16,layout=bshd",
                                 "b2,h2,s9,d64,fp32,align=64"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        for (int gaps = 0; gaps < 2; ++gaps) {
            at_draw draw = {.seed = i, .gaps = gaps != 0};
            at_inputs inputs = drawn(texts[i], &draw);
            if (at_call_check(&inputs.problem, &inputs.call) != ATTUNE_OK) {
                fail_msg("%s, gaps %d: %s", texts[i], gaps, attune_last_detail());
            }
            at_inputs_free(&inputs);
        }
    }
}

static void test_guards(void **state)
{
    (void)state;
    at_draw draw = {.seed = 1, .gaps = true};
    at_inputs inputs = drawn("b2,h2,s9,d5,fp32", &draw);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        at_buffer *buffer = &inputs.buffer[role];
        if (buffer->base == NULL) {
            continue;
        }
        const size_t places[] = {0, buffer->at - 1, buffer->at + buffer->bytes, buffer->total - 1};
        for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
            assert_int_equal(at_inputs_guards(&inputs), ATTUNE_OK);
            buffer->base[places[i]] ^= 1;
            assert_int_equal(at_inputs_guards(&inputs), ATTUNE_WRONG_RESULT);
            assert_non_null(strstr(attune_last_detail(), at_role_name(role)));
            buffer->base[places[i]] ^= 1;
        }
        buffer->base[buffer->at] ^= 1; /* the data are not a guard */
        assert_int_equal(at_inputs_guards(&inputs), ATTUNE_OK);
    }
    at_inputs_free(&inputs);
}

static void test_digest_sees_every_input_byte_and_no_output(void **state)
{
    (void)state;
    at_draw draw = {.seed = 1, .gaps = true};
    at_inputs inputs = drawn(everything, &draw);
    uint64_t digest = at_inputs_digest(&inputs);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        at_buffer *buffer = &inputs.buffer[role];
        if (buffer->base == NULL) {
            continue;
        }
        bool output = role == ATTUNE_O || role == ATTUNE_LSE;
        for (size_t at = 0; at < buffer->bytes; at += 1 + buffer->bytes / 50) {
            buffer->base[buffer->at + at] ^= 0x10;
            assert_int_equal(at_inputs_digest(&inputs) == digest, output);
            buffer->base[buffer->at + at] ^= 0x10;
        }
    }
    for (uint64_t seed = 0; seed < 8; ++seed) {
        const at_poison poison = at_poison_draw(seed);
        at_inputs_poison(&inputs, poison);
        assert_true(at_inputs_digest(&inputs) == digest);
        for (attune_role role = ATTUNE_O; role <= ATTUNE_LSE; ++role) {
            const at_buffer *buffer = &inputs.buffer[role];
            assert_int_equal(
                at_poison_intact(poison, at_inputs_poison_place(role, 0), buffer->base + buffer->at, buffer->bytes),
                buffer->bytes);
        }
        assert_ok(at_inputs_guards(&inputs));
    }
    at_inputs_free(&inputs);
}

/* Pieces are looked at some hundred megabytes at a time; what lies behind the first of them counts as well. */
static void test_digest_sees_the_end_of_what_is_large(void **state)
{
    (void)state;
    const size_t bytes = ((size_t)256 << 20) + 5;
    at_inputs inputs = {.call = {.size = sizeof inputs.call}};
    at_buffer *buffer = &inputs.buffer[ATTUNE_K];
    *buffer =
        (at_buffer){.base = calloc(bytes, 1), .total = bytes, .bytes = bytes}; /* pages that nobody writes are one */
    assert_non_null(buffer->base);
    uint64_t digest = at_inputs_digest(&inputs);
    buffer->base[bytes - 1] = 1;
    assert_true(at_inputs_digest(&inputs) != digest);
    buffer->base[bytes - 1] = 0;
    --buffer->bytes;
    assert_true(at_inputs_digest(&inputs) != digest);
    free(buffer->base);
}

static int innermost(const attune_tensor *tensor)
{
    const int64_t *stride = tensor->stride;
    const int of_two = stride[0] < stride[1] ? 0 : 1;
    return stride[of_two] < stride[2] ? of_two : 2;
}

/* Addresses, strides and the order of dimensions are drawn, and no more aligned than was promised; what lies between
 * rows is the guard's. */
static void test_gaps_hold_pointers_to_their_promise(void **state)
{
    (void)state;
    uint64_t strides = 0, leads = 0;
    int orders[3] = {0}, differ = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
        at_draw draw = {.seed = seed << 32, .gaps = true};
        at_inputs inputs = drawn("b2,h2,s9,d64,fp16", &draw);
        const attune_tensor *k = &inputs.call.tensor[ATTUNE_K];
        const int inner = innermost(k);
        int64_t stride = k->stride[inner];
        size_t gap_bytes = (size_t)(stride - 64) * 2;
        assert_int_equal((uintptr_t)inputs.call.tensor[ATTUNE_Q].data % 32, 16);
        assert_int_equal(stride % 8, 0);
        assert_in_range(stride, 72, 120);
        strides |= UINT64_C(1) << (stride - 64) / 8;
        leads |= UINT64_C(1) << (uintptr_t)k->data % 1024 / 16;
        ++orders[inner];
        differ += inner != innermost(&inputs.call.tensor[ATTUNE_Q]);
        assert_int_equal(at_poison_intact(at_inputs_guard(&inputs, ATTUNE_K),
                                          at_inputs_poison_place(ATTUNE_K, (size_t)64 * 2),
                                          (const unsigned char *)k->data + (size_t)64 * 2, gap_bytes),
                         gap_bytes);
        at_inputs_free(&inputs);
    }
    assert_int_equal(strides, 0xfe);
    assert_true(__builtin_popcountll(leads) > 8);
    assert_true(orders[0] > 2 && orders[1] > 2 && orders[2] > 15 && differ > 5);
}

/* Guards of each role and draw differ; those of inputs are NaN, anything and numbers. */
static void test_guards_are_drawn(void **state)
{
    (void)state;
    int seen[AT_POISON_KINDS] = {0};
    for (uint64_t seed = 0; seed < 40; ++seed) {
        const at_inputs inputs = {.draw = {.seed = seed}}, other = {.draw = {.seed = seed + 1}};
        assert_true(at_inputs_guard(&inputs, ATTUNE_O).seed != at_inputs_guard(&other, ATTUNE_O).seed);
        assert_true(at_inputs_guard(&inputs, ATTUNE_O).seed != at_inputs_guard(&inputs, ATTUNE_LSE).seed);
        assert_int_equal(at_inputs_guard(&inputs, ATTUNE_O).kind, AT_POISON_BITS);
        ++seen[at_inputs_guard(&inputs, ATTUNE_K).kind];
    }
    assert_true(seen[AT_POISON_NAN] > 10 && seen[AT_POISON_BITS] > 2 && seen[AT_POISON_NUMBERS] > 2);
    assert_int_equal(seen[AT_POISON_ZERO], 0);
}

/* How many of `count` lengths are empty, full, and between. */
typedef struct spread {
    int empty, full, between;
} spread;

static void spread_add(spread *on, int32_t length, int32_t longest)
{
    assert_in_range(length, 0, longest);
    on->empty += length == 0;
    on->full += length == longest;
    on->between += length > 0 && length < longest;
}

static void test_lengths(void **state)
{
    (void)state;
    spread all = {0, 0, 0};
    for (uint64_t seed = 0; seed < 50; ++seed) {
        const attune_problem problem = parsed("b6,h1,sq30,skv50,d8,fp32,varlen=1");
        int32_t cu_q[7], cu_kv[7], again_q[7], again_kv[7];
        at_inputs_lengths(&problem, seed, cu_q, cu_kv);
        at_inputs_lengths(&problem, seed, again_q, again_kv);
        assert_memory_equal(cu_q, again_q, sizeof cu_q);
        assert_memory_equal(cu_kv, again_kv, sizeof cu_kv);
        int full = 0, empty = 0;
        for (int b = 0; b < 6; ++b) {
            assert_in_range(cu_q[b + 1] - cu_q[b], 0, 30);
            spread_add(&all, cu_kv[b + 1] - cu_kv[b], 50);
            full += cu_q[b + 1] - cu_q[b] == 30 && cu_kv[b + 1] - cu_kv[b] == 50;
            empty += cu_kv[b + 1] == cu_kv[b];
        }
        assert_true(full > 0 && empty > 0);
    }
    assert_true(all.between > 100); /* of 300, two in each draw being full and empty */
}

static void test_used_lengths(void **state)
{
    (void)state;
    spread all = {0, 0, 0};
    for (uint64_t seed = 0; seed < 20; ++seed) {
        at_draw draw = {.seed = seed};
        at_inputs inputs = drawn("b16,h1,sq1,skv50,d8,fp32,seqused", &draw);
        const int32_t *used = inputs.call.tensor[ATTUNE_USED_KV].data;
        for (int b = 0; b < 16; ++b) {
            spread_add(&all, used[b], 50);
        }
        at_inputs_free(&inputs);
    }
    assert_true(all.empty > 16 && all.full > 16 && all.between > 160); /* of 320: about 45, 45 and 230 */
}

/* A needle is a key as long as a logit of 15 makes it: about 15, where normal ones are about 8. */
static void test_needles_are_few(void **state)
{
    (void)state;
    at_draw draw = {.seed = 2, .family = AT_FAMILY_NEEDLE};
    at_inputs inputs = drawn("b1,h1,sq64,skv1000,d64,fp16", &draw);
    int needles = 0;
    for (int64_t j = 0; j < 1000; ++j) {
        double square = 0;
        for (int64_t c = 0; c < 64; ++c) {
            square += pow((double)half_at(&inputs, ATTUNE_K, 0, 0, j, c), 2);
        }
        needles += square > 150;
    }
    assert_in_range(needles, 5, 40); /* both ends, a tile's edge, and one in a hundred */
    at_inputs_free(&inputs);
}

static void test_far_offsets(void **state)
{
    (void)state;
    at_draw draw = {.seed = 4, .far = true};
    at_inputs inputs = drawn("b1,h2,s5,d8,fp16", &draw);
    assert_true(inputs.call.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_HEAD] > INT32_MAX);
    assert_true(inputs.buffer[ATTUNE_O].bytes > (size_t)1 << 32);
    assert_int_equal(at_call_check(&inputs.problem, &inputs.call), ATTUNE_OK);
    at_draw near = {.seed = 4};
    at_inputs same = drawn("b1,h2,s5,d8,fp16", &near);
    assert_true(half_at(&inputs, ATTUNE_V, 0, 1, 4, 7) == half_at(&same, ATTUNE_V, 0, 1, 4, 7));
    assert_true(isnan(half_at(&inputs, ATTUNE_O, 0, 1, 4, 7)));
    uint64_t digest = at_inputs_digest(&inputs);
    ((unsigned char *)inputs.call.tensor[ATTUNE_K].data)[at_inputs_row(&inputs, ATTUNE_K, 0, 1, 4)] ^= 1;
    assert_true(at_inputs_digest(&inputs) != digest);
    assert_int_equal(at_inputs_guards(&inputs), ATTUNE_OK);
    at_inputs_free(&inputs);
    at_inputs_free(&same);
}

/* ---- Families --------------------------------------------------------------------------------------------------- */

static void reference_of(const at_inputs *inputs, at_rows *rows, double **o, double **lse)
{
    at_pool *pool;
    attune_args args;
    at_call_args(&inputs->problem, &inputs->call, &args);
    assert_int_equal(at_pool_create(1, 0, &pool), ATTUNE_OK);
    assert_int_equal(at_rows_all(&args, rows), ATTUNE_OK);
    *o = malloc((size_t)(rows->count * args.head_dim_v + 1) * sizeof **o);
    *lse = malloc((size_t)(rows->count + 1) * sizeof **lse);
    assert_int_equal(at_reference_run(pool, &args, rows, *o, *lse), ATTUNE_OK);
    at_pool_destroy(pool);
}

typedef struct summary {
    double largest_lse, smallest_lse, largest_o;
    int64_t strange; /* outputs that are not finite */
    int64_t count;
} summary;

static summary summary_of(const char *text, at_family family, uint64_t seed)
{
    at_draw draw = {.seed = seed, .family = family};
    at_inputs inputs = drawn(text, &draw);
    at_rows rows;
    double *o, *lse;
    summary found = {.largest_lse = -HUGE_VAL, .smallest_lse = HUGE_VAL};
    reference_of(&inputs, &rows, &o, &lse);
    for (int64_t r = 0; r < rows.count; ++r) {
        found.largest_lse = fmax(found.largest_lse, lse[r]);
        found.smallest_lse = fmin(found.smallest_lse, lse[r]);
    }
    for (int64_t i = 0; i < rows.count * inputs.problem.head_dim_v; ++i) {
        found.strange += !isfinite(o[i]);
        found.largest_o = isfinite(o[i]) ? fmax(found.largest_o, fabs(o[i])) : found.largest_o;
        ++found.count;
    }
    free(o);
    free(lse);
    at_rows_free(&rows);
    at_inputs_free(&inputs);
    return found;
}

static void test_families_do_what_they_say(void **state)
{
    (void)state;
    const char *const text = "b1,h4,s150,d64,fp16";
    assert_true(summary_of(text, AT_FAMILY_NORMAL, 1).largest_lse < 20.0);
    assert_true(summary_of(text, AT_FAMILY_LARGE, 1).largest_lse > 88.0);
    assert_true(summary_of(text, AT_FAMILY_NEGATIVE, 1).largest_lse < -88.0);
    assert_true(summary_of(text, AT_FAMILY_NEEDLE, 1).largest_lse > 12.0);
    assert_true(summary_of(text, AT_FAMILY_SUBNORMAL, 1).largest_o < 0x1p-14);
    assert_true(summary_of(text, AT_FAMILY_MIXED, 1).largest_lse > 88.0);
    assert_true(summary_of(text, AT_FAMILY_MIXED, 1).smallest_lse < 20.0);
    summary tail = summary_of("b1,h4,s2048,d64,fp16", AT_FAMILY_TAIL, 1); /* a share of 0.005 to 0.1 of values of 1 */
    assert_true(tail.largest_lse < 13.9 && tail.smallest_lse > 9.9);
    assert_true(tail.largest_o > 0.05 && tail.largest_o < 0.2);
    summary equal = summary_of("b1,h1,s150,d64,fp16", AT_FAMILY_EQUAL, 2);
    assert_true(equal.largest_o < 0.6);                                                 /* means of 150 values */
    assert_true(summary_of("b1,h1,s150,d64,fp16", AT_FAMILY_EQUAL, 1).largest_o > 0.6); /* three keys win */
    summary visible = summary_of("b1,h4,s150,d64,fp16,causal", AT_FAMILY_VISIBLE, 1);
    assert_true(visible.strange > 0 && visible.strange < visible.count);
}

/* HIDDEN holds strangers, and none of them shows. */
static void test_hidden_is_hidden(void **state)
{
    (void)state;
    const char *const texts[] = {
        "b3,h4,hkv2,s70,d16,fp16,seqused",     "b1,h2,sq20,skv90,d16,fp32,causal,offset=tl",
        "b5,h2,s40,d16,bf16,varlen=9,seqused", "b2,h4,hkv2,sq6,skv70,d16,fp16,mask",
        "b1,h2,sq9,skv80,d16,fp32,window=3:3", "b2,h1,sq2,skv70,d16,fp16,bias=bxh",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        assert_int_equal(summary_of(texts[i], AT_FAMILY_HIDDEN, i).strange, 0);
        at_draw draw = {.seed = i, .family = AT_FAMILY_HIDDEN};
        at_inputs inputs = drawn(texts[i], &draw);
        const at_extent extent = at_inputs_extent(&inputs, ATTUNE_K);
        int64_t strangers = 0;
        for (int64_t b = 0; b < extent.count[0]; ++b) {
            for (int64_t h = 0; h < extent.count[1]; ++h) {
                for (int64_t j = 0; j < extent.count[2]; ++j) {
                    const unsigned char *row = inputs.call.tensor[ATTUNE_K].data;
                    float value;
                    uint16_t bits;
                    row += at_inputs_row(&inputs, ATTUNE_K, b, h, j);
                    memcpy(&value, row, sizeof value);
                    memcpy(&bits, row, sizeof bits);
                    value = inputs.problem.dtype == ATTUNE_FP16   ? at_fp16_to_float(bits)
                            : inputs.problem.dtype == ATTUNE_BF16 ? at_bf16_to_float(bits)
                                                                  : value;
                    strangers += !isfinite(value);
                }
            }
        }
        if (strangers == 0) {
            fail_msg("%s hides nothing", texts[i]);
        }
        at_inputs_free(&inputs);
    }
}

/* What of a role's elements is not finite: NaN, inf or both; and the last key or query that has it. */
enum { HAS_NAN = 1, HAS_INF = 2 };

static int strange_in(const at_inputs *inputs, attune_role role, int64_t *row)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    int found = 0;
    for (int64_t at = 0; at < extent.count[0] * extent.count[1] * extent.count[2]; ++at) {
        int64_t i = at % extent.count[2];
        int64_t head = at / extent.count[2] % extent.count[1];
        int64_t batch = at / extent.count[2] / extent.count[1];
        for (int64_t c = 0; c < extent.row; ++c) {
            float value = half_at(inputs, role, batch, head, i, c);
            found |= isnan(value) ? HAS_NAN : isinf(value) ? HAS_INF : 0;
            *row = isfinite(value) ? *row : i;
        }
    }
    return found;
}

/* The draws that sanity makes show every kind, however few heads there are and whatever the seed. */
static void test_every_kind_is_visible(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int draws, of_q, of_k, of_v;
    } of[] = {
        {"b1,h1,s40,d16,fp16", 5, HAS_NAN, HAS_NAN | HAS_INF, HAS_NAN | HAS_INF},
        {"b1,h4,s40,d16,fp16,causal", 5, HAS_NAN, HAS_NAN | HAS_INF, HAS_NAN | HAS_INF},
        {"b1,h32,s40,d16,fp16,causal", 1, HAS_NAN, HAS_NAN | HAS_INF, HAS_NAN | HAS_INF},
        {"b1,h2,s40,d16,fp16,causal,scale=0.1", 3, HAS_NAN, HAS_NAN | HAS_INF, HAS_NAN | HAS_INF},
        {"b2,h6,hkv3,sq9,skv70,d16,fp16,causal,window=20:0", 2, HAS_NAN, HAS_NAN, HAS_NAN},
        {"b2,h2,s40,d16,fp16,bias=bxh", 3, HAS_NAN, HAS_NAN, HAS_NAN},
        {"b5,h2,s40,d16,fp16,varlen=9", 5, HAS_NAN, HAS_NAN | HAS_INF, HAS_NAN | HAS_INF},
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; ++i) {
        const attune_problem problem = parsed(of[i].problem);
        assert_int_equal(at_visible_draws(&problem), of[i].draws);
        for (uint64_t seed = 0; seed < 17; ++seed) {
            int q = 0, k = 0, v = 0;
            int64_t row = 0;
            for (int d = 0; d < of[i].draws; ++d) {
                at_draw draw = {.seed = at_visible_seed(&problem, seed, d), .family = AT_FAMILY_VISIBLE};
                at_inputs inputs = drawn(of[i].problem, &draw);
                q |= strange_in(&inputs, ATTUNE_Q, &row);
                k |= strange_in(&inputs, ATTUNE_K, &row);
                v |= strange_in(&inputs, ATTUNE_V, &row);
                at_inputs_free(&inputs);
            }
            if (q != of[i].of_q || k != of[i].of_k || v != of[i].of_v) {
                fail_msg("%s, seed %d: kinds of Q %d, K %d, V %d", of[i].problem, (int)seed, q, k, v);
            }
        }
    }
}

/* Where rows see different keys, the first kind of sanity's draws, whatever their seed, is where an even row beside an
 * odd one sees it, or the other way round. `edge`: query row 0 is the first that sees this key, or behind a window's
 * left edge that does not. */
static void test_visible_stands_at_an_edge(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int64_t edge, least;
    } of[] = {
        {"b1,h1,s40,d16,fp16,causal", 0, 1},         {"b1,h1,sq9,skv70,d16,fp16,causal", 61, 62},
        {"b1,h1,sq8,skv70,d16,fp16,causal", 62, 63}, {"b1,h1,sq8,skv70,d16,fp16,causal,offset=7", 7, 8},
        {"b1,h1,sq1,skv71,d16,fp16,causal", 70, 1},  {"b1,h1,s40,d16,fp16,window=-1:4", 4, 1},
        {"b1,h1,s40,d16,fp16,window=5:-1", -6, 1},   {"b1,h1,s2,d16,fp16,causal", 0, 1},
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; ++i) {
        const attune_problem problem = parsed(of[i].problem);
        for (uint64_t seed = 0; seed < 40; ++seed) {
            int64_t key = -1;
            at_draw draw = {.seed = at_visible_seed(&problem, seed, 0), .family = AT_FAMILY_VISIBLE};
            at_inputs inputs = drawn(of[i].problem, &draw);
            assert_int_equal(strange_in(&inputs, ATTUNE_V, &key), HAS_NAN);
            if ((key - of[i].edge) % 2 == 0 || key < of[i].least) {
                fail_msg("%s, seed %d: the stranger is key %d", of[i].problem, (int)seed, (int)key);
            }
            at_inputs_free(&inputs);
        }
    }
}

static void test_families_apply(void **state)
{
    (void)state;
    attune_problem plain = parsed("b1,h1,s8,d8,fp32");
    attune_problem used = parsed("b2,h1,s8,d8,fp32,seqused");
    assert_false(at_family_applies(AT_FAMILY_HIDDEN, &plain));
    assert_false(at_family_applies(AT_FAMILY_MIXED, &plain));
    assert_true(at_family_applies(AT_FAMILY_NEEDLE, &plain));
    assert_true(at_family_applies(AT_FAMILY_HIDDEN, &used));
    assert_true(at_family_applies(AT_FAMILY_MIXED, &used));
    assert_false(at_family_applies(AT_FAMILY_COUNT, &used));
    assert_string_equal(at_family_name(AT_FAMILY_NEEDLE), "needle");
    assert_string_equal(at_family_name(AT_FAMILY_COUNT), "?");
}

static void test_bad_problem_leaves_nothing(void **state)
{
    (void)state;
    attune_problem problem = parsed("b1,h1,s8,d8,fp32");
    at_draw draw = {0};
    at_inputs inputs;
    problem.head_dim_qk = 0;
    assert_int_equal(at_inputs_draw(&problem, &draw, &inputs), ATTUNE_INVALID_PROBLEM);
    at_inputs_free(&inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_draws_are_equal),
        cmocka_unit_test(test_values_do_not_depend_on_layout),
        cmocka_unit_test(test_form_is_of_the_seeds_upper_half),
        cmocka_unit_test(test_masks_are_of_ones_or_of_any_byte),
        cmocka_unit_test(test_calls_are_accepted),
        cmocka_unit_test(test_guards),
        cmocka_unit_test(test_digest_sees_every_input_byte_and_no_output),
        cmocka_unit_test(test_digest_sees_the_end_of_what_is_large),
        cmocka_unit_test(test_gaps_hold_pointers_to_their_promise),
        cmocka_unit_test(test_guards_are_drawn),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_used_lengths),
        cmocka_unit_test(test_needles_are_few),
        cmocka_unit_test(test_far_offsets),
        cmocka_unit_test(test_families_do_what_they_say),
        cmocka_unit_test(test_hidden_is_hidden),
        cmocka_unit_test(test_every_kind_is_visible),
        cmocka_unit_test(test_visible_stands_at_an_edge),
        cmocka_unit_test(test_families_apply),
        cmocka_unit_test(test_bad_problem_leaves_nothing),
    };
    return cmocka_run_group_tests_name("inputs", tests, NULL, NULL);
}
