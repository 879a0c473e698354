/* Pages change where keys and values lie, and nothing else. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/call.h"
#include "core/problem.h"
#include "reference/pages.h"
#include "reference/reference.h"
#include "reference/sequence.h"

static at_pool *pool;

static void ok(attune_status status)
{
    if (status != ATTUNE_OK) {
        fail_msg("%s", attune_last_detail());
    }
}

static void draw(const char *text, at_family family, uint64_t seed, at_inputs *inputs)
{
    at_test_problem test;
    ok(at_test_problem_parse(text, &test));
    const at_draw how = {.seed = seed, .length_seed = test.length_seed, .family = family, .gaps = seed & 1};
    ok(at_inputs_draw(&test.problem, &how, inputs));
}

/* K or V of all sequences, one behind the other in each head, without pages; what no query sees stays zero. */
static void *unpaged(const at_inputs *inputs, const attune_args *args, attune_role role)
{
    const at_extent extent = at_pages_extent(inputs, role);
    const size_t row_bytes = (size_t)extent.row * at_dtype_bytes(args->tensor[role].dtype);
    unsigned char *all = calloc((size_t)(extent.count[0] * extent.count[1] * extent.count[2]) + 1, row_bytes);
    assert_non_null(all);
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        const at_sequence sequence = at_sequence_of(args, b);
        int64_t low = INT64_MAX, first, end;
        for (int64_t i = 0; i < sequence.seqlen_q; ++i) {
            at_sequence_range(args, &sequence, i, &first, &end);
            low = first < low && first < end ? first : low;
        }
        for (int64_t h = 0; h < extent.count[1]; ++h) {
            for (int64_t j = low; j < sequence.seqlen_kv; ++j) {
                memcpy(all + (size_t)((h * extent.count[0] + b) * extent.count[2] + j) * row_bytes,
                       (unsigned char *)args->tensor[role].data + at_pages_row(inputs, role, b, h, j), row_bytes);
            }
        }
    }
    return all;
}

static void make_plain(const at_inputs *inputs, const attune_args *paged, int32_t *cu, attune_args *plain)
{
    *plain = *paged;
    plain->features &= ~(uint32_t)(ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V);
    for (attune_role role = ATTUNE_K; role <= ATTUNE_V; ++role) {
        const at_extent extent = at_pages_extent(inputs, role);
        attune_tensor *tensor = &plain->tensor[role];
        tensor->data = unpaged(inputs, paged, role);
        tensor->stride[ATTUNE_STRIDE_SEQ] = extent.row;
        tensor->stride[ATTUNE_STRIDE_BATCH] = extent.row * extent.count[2];
        tensor->stride[ATTUNE_STRIDE_HEAD] = extent.row * extent.count[2] * extent.count[0];
    }
    for (int32_t b = 0; b <= plain->batch; ++b) {
        cu[b] = b * (int32_t)plain->seqlen_kv; /* where keys are packed, as long as they can be */
    }
    plain->tensor[ATTUNE_CU_KV].data = cu;
}

static void compare(const char *text, at_family family, uint64_t seed)
{
    at_inputs inputs;
    attune_args paged, plain;
    at_rows rows;
    draw(text, family, seed, &inputs);
    at_call_args(&inputs.problem, &inputs.call, &paged);
    int32_t cu[8];
    make_plain(&inputs, &paged, cu, &plain);
    ok(at_rows_all(&paged, &rows));
    const size_t outputs = (size_t)(rows.count * paged.head_dim_v) + 1;
    double *o = calloc(2 * outputs + 2 * ((size_t)rows.count + 1), sizeof *o);
    assert_non_null(o);
    double *lse = o + 2 * outputs;
    ok(at_reference_run(pool, &paged, &rows, o, lse));
    ok(at_reference_run(pool, &plain, &rows, o + outputs, lse + rows.count));
    for (size_t i = 0; i < outputs - 1; ++i) {
        const bool same = memcmp(&o[i], &o[outputs + i], sizeof o[i]) == 0;
        if (!same || (family != AT_FAMILY_VISIBLE && !isfinite(o[i]))) {
            fail_msg("%s, %s, seed %llu: output %zu is %g, without pages %g", text, at_family_name(family),
                     (unsigned long long)seed, i, o[i], o[outputs + i]);
        }
    }
    assert_memory_equal(lse, lse + rows.count, (size_t)rows.count * sizeof *lse);
    free(o);
    free(plain.tensor[ATTUNE_K].data);
    free(plain.tensor[ATTUNE_V].data);
    at_rows_free(&rows);
    at_inputs_free(&inputs);
}

static void pages_change_nothing(void **state)
{
    static const char *const texts[] = {
        "b4,h4,hkv2,sq3,skv40,d8,dv16,fp16,seqused,page=4,vtable",
        "b3,h2,sq1,skv70,d16,bf16,seqused,page=1,causal,sink",
        "b3,h2,sq9,skv70,d16,fp32,seqused,page=16,window=13:0,softcap=9,alibi",
        "b3,h2,sq7,skv33,d16,fp32,page=64,causal,layout=bshd",
        "b5,h4,hkv1,sq9,skv50,d8,fp16,seqused,page=8,varlen=3,causal",
        "b4,h2,sq5,skv40,d8,fp32,k=fp16,v=fp16,seqused,page=4,draft",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        for (uint64_t seed = 0; seed < 12; ++seed) {
            compare(texts[i], AT_FAMILY_NORMAL, seed);
            compare(texts[i], AT_FAMILY_HIDDEN, seed);
            compare(texts[i], AT_FAMILY_VISIBLE, seed);
            compare(texts[i], AT_FAMILY_NEEDLE, seed);
        }
    }
}

/* Tables of the suite permute, share, and hold nonsense where nobody may look. */
static void tables_are_hard(void **state)
{
    int shared = 0, nonsense = 0, apart = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 40; ++seed) {
        at_inputs inputs;
        attune_args args;
        draw("b4,h1,sq1,skv64,d8,fp16,seqused,page=4", AT_FAMILY_NORMAL, seed, &inputs);
        at_call_args(&inputs.problem, &inputs.call, &args);
        const attune_tensor *table = &args.tensor[ATTUNE_PAGE_TABLE_K];
        for (int64_t b = 0; b < args.batch; ++b) {
            const int32_t *row = (const int32_t *)table->data + b * table->stride[0];
            const int64_t pages = (at_sequence_of(&args, b).seqlen_kv + 3) / 4;
            for (int64_t c = 0; c < args.page_table_width; ++c) {
                const bool in_pool = row[c] >= 0 && row[c] < args.page_count;
                assert_true(in_pool || c >= pages);
                nonsense += !in_pool;
                apart += c > 0 && c < pages && row[c] != row[c - 1] + 1;
                shared += b > 0 && c < pages && c == 0 && row[c] == *(const int32_t *)table->data;
            }
        }
        at_inputs_free(&inputs);
    }
    assert_true(shared > 0 && nonsense > 100 && apart > 100);
}

/* An entry out of the pool is the nearest page, and a length beyond seqlen_kv is seqlen_kv. */
static void what_is_out_of_range_is_taken_to_the_nearest(void **state)
{
    at_inputs inputs;
    attune_args args;
    (void)state;
    draw("b1,h1,sq1,skv8,d8,fp16,seqused,page=4", AT_FAMILY_NORMAL, 1, &inputs);
    ((int32_t *)inputs.call.tensor[ATTUNE_USED_KV].data)[0] = INT32_MAX;
    int32_t *table = inputs.call.tensor[ATTUNE_PAGE_TABLE_K].data;
    table[0] = INT32_MIN;
    table[1] = INT32_MAX;
    at_call_args(&inputs.problem, &inputs.call, &args);
    assert_int_equal(at_sequence_of(&args, 0).seqlen_kv, 8);
    assert_int_equal(at_page_of(&args, ATTUNE_K, 0, 3), 0);
    assert_int_equal(at_page_of(&args, ATTUNE_V, 0, 4), args.page_count - 1);
    at_inputs_free(&inputs);
}

/* By hand: what each row of a draft sees. */
static void drafts_by_hand(void **state)
{
    at_inputs inputs;
    attune_args args;
    (void)state;
    draw("b1,h1,sq3,skv5,d8,fp16,draft", AT_FAMILY_NORMAL, 2, &inputs);
    uint32_t *words = inputs.call.tensor[ATTUNE_DRAFT_MASK].data;
    words[0] = 1;
    words[1] = 2;
    words[2] = 5;
    at_call_args(&inputs.problem, &inputs.call, &args);
    const at_sequence sequence = at_sequence_of(&args, 0);
    static const char expected[3][6] = {"11100", "11010", "11101"};
    for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < 5; ++j) {
            assert_int_equal(at_draft_sees(&args, &sequence, i, j), expected[i][j] == '1');
        }
    }
    at_inputs_free(&inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_change_nothing),
        cmocka_unit_test(tables_are_hard),
        cmocka_unit_test(what_is_out_of_range_is_taken_to_the_nearest),
        cmocka_unit_test(drafts_by_hand),
    };
    ok(at_pool_create(1, 0, &pool));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    at_pool_destroy(pool);
    return failed;
}
