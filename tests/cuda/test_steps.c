/* What is worked out for tensor maps and multiplications, without a device. */
#include "base/cm.h"
#include "cuda/cublas.h"
#include "cuda/maps.h"

/* ---- Tensor maps ----------------------------------------------------------------------------------------------------
 */

static attune_args args_of(int64_t batch, int64_t heads, int64_t heads_kv, int64_t rows, int64_t keys, int dim)
{
    attune_args args = {.batch = batch,
                        .heads_q = heads,
                        .heads_kv = heads_kv,
                        .seqlen_q = rows,
                        .seqlen_kv = keys,
                        .total_q = batch * rows,
                        .total_kv = batch * keys,
                        .head_dim_qk = dim,
                        .head_dim_v = dim + 16};
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        int64_t width = role == ATTUNE_V || role == ATTUNE_O ? dim + 16 : dim;
        int64_t length = role == ATTUNE_Q || role == ATTUNE_O ? rows : keys;
        int64_t count = role == ATTUNE_Q || role == ATTUNE_O ? heads : heads_kv;
        args.tensor[role] =
            (attune_tensor){(void *)(uintptr_t)4096, {count * length * width, length * width, width}, ATTUNE_FP16, 0};
    }
    return args;
}

static void maps_describe_the_roles(void **state)
{
    attune_args args = args_of(3, 8, 2, 100, 300, 64);
    attune_map map = {.role = ATTUNE_V, .box = {64, 128, 1, 1}};
    (void)state;
    at_map_shape shape = at_map_shape_of(&map, &args, false);
    assert_int_equal(shape.rank, 4);
    assert_int_equal(shape.size[0], 80);
    assert_int_equal(shape.size[1], 300);
    assert_int_equal(shape.size[2], 2);
    assert_int_equal(shape.size[3], 3);
    assert_int_equal(shape.stride[0], 160);
    assert_int_equal(shape.stride[1], 300 * 160);
    assert_int_equal(shape.stride[2], 2 * 300 * 160);
    assert_int_equal(shape.box[1], 128);
    map.role = ATTUNE_Q;
    shape = at_map_shape_of(&map, &args, false);
    assert_int_equal(shape.size[0], 64);
    assert_int_equal(shape.size[1], 100);
    assert_int_equal(shape.size[2], 8);
    shape = at_map_shape_of(&map, &args, true);
    assert_int_equal(shape.rank, 3);
    assert_int_equal(shape.size[1], 300); /* rows of the whole */
    assert_int_equal(shape.size[2], 8);
}

/* A dimension of one may come with any stride, which the driver would refuse; one of nothing still needs a size. */
static void maps_bear_odd_strides(void **state)
{
    attune_args args = args_of(1, 1, 1, 0, 17, 8);
    attune_map map = {.role = ATTUNE_K, .box = {8, 16, 0, 0}};
    (void)state;
    args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_HEAD] = 3;
    args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_BATCH] = 0;
    at_map_shape shape = at_map_shape_of(&map, &args, false);
    assert_int_equal(shape.stride[0], 16);
    assert_int_equal(shape.stride[1], 16);
    assert_int_equal(shape.stride[2], 16);
    assert_int_equal(shape.box[2], 1);
    map.role = ATTUNE_Q;
    shape = at_map_shape_of(&map, &args, false);
    assert_int_equal(shape.size[1], 1);
    assert_int_equal(shape.stride[0], 16);
}

/* ---- Multiplications ------------------------------------------------------------------------------------------------
 */

enum { BATCH = 3, HEADS = 6 };

/* Goes through all batches and notes which (batch, head) each multiplication is of, by the operands' own strides. */
static void cover(const at_gemm_operand operand[3], int64_t batch, int64_t heads_q, int64_t heads_kv,
                  int expected_calls)
{
    bool seen[BATCH][HEADS] = {{false}};
    at_gemm_batch found;
    int calls = 0;
    int products = 0;
    for (; at_gemm_batch_at(operand, batch, heads_q, heads_kv, calls, &found); ++calls) {
        for (int64_t i = 0; i < found.count; ++i) {
            bool matched = false;
            for (int64_t b = 0; b < batch && !matched; ++b) {
                for (int64_t h = 0; h < heads_q && !matched; ++h) {
                    matched = !seen[b][h];
                    for (int o = 0; o < 3; ++o) {
                        int64_t head = operand[o].shared ? h / (heads_q / heads_kv) : h;
                        matched = matched && found.offset[o] + i * found.stride[o] ==
                                                 b * operand[o].batch + head * operand[o].head;
                    }
                    seen[b][h] |= matched;
                }
            }
            assert_true(matched);
            ++products;
        }
    }
    assert_int_equal(products, batch * heads_q);
    assert_int_equal(calls, expected_calls);
}

static at_gemm_operand operand_of(int64_t head, int64_t batch, bool shared)
{
    return (at_gemm_operand){.row = 64, .head = head, .batch = batch, .shared = shared};
}

static void every_head_is_multiplied_once(void **state)
{
    (void)state;
    /* Contiguous: one call. */
    at_gemm_operand even[3] = {operand_of(1000, 6000, false), operand_of(700, 4200, true), operand_of(90, 540, false)};
    cover(even, BATCH, HEADS, HEADS, 1);
    cover(even, 1, HEADS, HEADS, 1);
    /* Grouped heads: a call for each member of the groups. */
    at_gemm_operand grouped[3] = {operand_of(1000, 6000, false), operand_of(700, 1400, true),
                                  operand_of(90, 540, false)};
    cover(grouped, BATCH, HEADS, 2, 3);
    at_gemm_operand single[3] = {operand_of(1000, 6000, false), operand_of(700, 700, true), operand_of(90, 540, false)};
    cover(single, BATCH, HEADS, 1, 6);
    /* Gaps between batches: heads in one call, a call for each batch. */
    at_gemm_operand gaps[3] = {operand_of(1000, 7001, false), operand_of(700, 4200, true), operand_of(90, 540, false)};
    cover(gaps, BATCH, HEADS, HEADS, BATCH);
    at_gemm_operand grouped_gaps[3] = {operand_of(1000, 7001, false), operand_of(701, 9999, true),
                                       operand_of(90, 540, false)};
    cover(grouped_gaps, BATCH, HEADS, 2, 2 * 3);
    cover(grouped_gaps, BATCH, HEADS, 1, 1 * 6);
    /* [batch, sequence, heads, dim]: heads next to one another. */
    at_gemm_operand bshd[3] = {operand_of(64, 64 * 6 * 100, false), operand_of(64, 64 * 6 * 90, true),
                               operand_of(9000, 54000, false)};
    cover(bshd, BATCH, HEADS, HEADS, BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_describe_the_roles),
        cmocka_unit_test(maps_bear_odd_strides),
        cmocka_unit_test(every_head_is_multiplied_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
