/* Work of drawn lengths: what the reference's own ranges of keys add up to. */
#include "base/cm.h"

#include "core/call.h"
#include "core/problem.h"
#include "reference/draw_text.h"
#include "reference/inputs.h"
#include "reference/least.h"
#include "reference/sequence.h"

static const at_draw draw = {.seed = UINT64_C(0x1234567890), .length_seed = 5};

/* Of fp16 tensors; every key that some row sees, and every row that sees a key. */
static at_least counted(const at_inputs *inputs)
{
    attune_args args;
    at_least least = {0, 0};
    at_call_args(&inputs->problem, &inputs->call, &args);
    for (int64_t b = 0; b < args.batch; ++b) {
        const at_sequence sequence = at_sequence_of(&args, b);
        int64_t seeing = 0, seen = 0;
        for (int64_t row = 0; row < sequence.seqlen_q; ++row) {
            int64_t first, end;
            at_sequence_range(&args, &sequence, row, &first, &end);
            least.flops += 2.0 * (double)((end - first) * args.heads_q * (args.head_dim_qk + args.head_dim_v));
            seeing += end > first;
            seen = end > seen ? end : seen;
        }
        least.bytes += 2.0 * (double)(args.heads_q * (seeing * args.head_dim_qk + sequence.seqlen_q * args.head_dim_v) +
                                      args.heads_kv * seen * (args.head_dim_qk + args.head_dim_v));
    }
    return least;
}

static void drawn_lengths_are_those_of_the_inputs(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "b7,h4,hkv2,s96,d16,dv8,fp16,varlen=5",       "b7,h4,hkv2,s96,d16,fp16,causal,varlen=5",
        "b7,h4,sq96,skv40,d16,fp16,causal,varlen=5",  "b7,h4,sq24,skv90,d16,fp16,causal,offset=tl,varlen=5",
        "b9,h4,sq3,skv90,d16,fp16,causal,seqused",    "b9,h4,sq30,skv90,d16,fp16,causal,offset=-7,seqused",
        "b5,h4,sq30,skv90,d16,fp16,varlen=5,seqused", "b2,h4,s50,d16,fp16,causal"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        at_inputs inputs;
        at_least least;
        draw_text(texts[i], &draw, &inputs);
        assert_ok(at_least_count(&inputs.problem, &draw, &least));
        const at_least wanted = counted(&inputs);
        if (least.flops != wanted.flops || least.bytes != wanted.bytes) {
            fail_msg("%s: %g flops and %g bytes, not %g and %g", texts[i], least.flops, least.bytes, wanted.flops,
                     wanted.bytes);
        }
        assert_true(wanted.flops > 0);
        at_inputs_free(&inputs);
    }
}

/* Keys that values or tables choose are not counted: operations are, with all lengths the problem's own. */
static void what_is_hidden_is_no_byte(void **state)
{
    (void)state;
    static const char *const texts[] = {"b2,h4,s64,d16,fp16,mask", "b2,h4,s64,d16,fp16,window=7:0"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        at_inputs inputs;
        at_least least;
        draw_text(texts[i], &draw, &inputs);
        assert_ok(at_least_count(&inputs.problem, &draw, &least));
        assert_true(least.flops == attune_problem_flops(&inputs.problem));
        assert_true(least.bytes == 2.0 * 2 * 4 * 64 * (16 + 16));
        at_inputs_free(&inputs);
    }
}

/* In pages, lengths are drawn by another rule, and nobody says that sequences share none. */
static void pages_have_operations_alone(void **state)
{
    (void)state;
    at_inputs inputs;
    at_least least;
    draw_text("b9,h4,sq1,skv90,d16,fp16,seqused,page=16", &draw, &inputs);
    assert_ok(at_least_count(&inputs.problem, &draw, &least));
    assert_true(least.flops == counted(&inputs).flops);
    assert_true(least.bytes < counted(&inputs).bytes);
    at_inputs_free(&inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_lengths_are_those_of_the_inputs),
        cmocka_unit_test(what_is_hidden_is_no_byte),
        cmocka_unit_test(pages_have_operations_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
