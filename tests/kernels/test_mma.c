/* What mma takes, of what types, and what bias and masks cost it in shared memory. */
#include <string.h>

#include "base/cm.h"
#include "core/config.h"
#include "cuda/cuda.h"

extern const attune_kernel at_kernel_mma;

static void takes_pages_drafts_and_types(void **state)
{
    static const struct {
        const char *problem, *refusal; /* NULL: none */
    } asked[] = {
        {"b2,h8,hkv2,sq130,skv700,d128,bf16,causal,seqused,page=16", NULL},
        {"b3,h8,hkv2,sq8,skv600,d128,fp16,seqused,varlen=1,page=16,vtable,draft", NULL},
        {"b2,h4,s300,d40,dv24,fp16,bias=1xh:fp32,mask,o=bf16", NULL},
        {"b2,h4,s300,d64,fp32", "dtype fp32"},
        {"b2,h4,sq1,skv300,d64,fp16,k=bf16", "K in bf16"},
        {"b2,h4,s300,d60,fp16", "head_dim_qk 60: a multiple of 8"},
    };
    attune_target target;
    (void)state;
    assert_ok(at_cuda_typical(80, &target));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_reason reason = {""};
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        bool takes = at_kernel_supports(&at_kernel_mma, &problem, &target, &reason);
        if (takes != (asked[i].refusal == NULL) || (!takes && strstr(reason.text, asked[i].refusal) == NULL)) {
            fail_msg("%s: %s", asked[i].problem, takes ? "taken" : reason.text);
        }
    }
}

/* A tile of 128 queries and 64 keys of head dim 128: Q, two of K and V, and what pairs add. */
static void pairs_take_their_tile(void **state)
{
    static const struct {
        const char *problem;
        int32_t bytes;
    } asked[] = {
        {"b1,h8,s512,d128,fp16", 96 * 1024},
        {"b1,h8,s512,d128,fp16,bias=1xh", 112 * 1024},
        {"b1,h8,s512,d128,fp16,mask", 104 * 1024},
        {"b1,h8,s512,d128,fp16,bias=1xh:fp32,mask", 136 * 1024},
    };
    attune_target target;
    attune_config config = {{0}}, deeper = {{0}}; /* what is not named stays */
    attune_problem problem;
    attune_reason reason = {""};
    (void)state;
    assert_ok(at_cuda_typical(90, &target));
    assert_ok(at_config_parse(
        &at_kernel_mma, "WARPS=4,SPLITS=1,STRIPS=2,BLOCK_N=64,STAGES=2,Q_REGISTERS=0,OVERLAP=0,MIN_BLOCKS=1", &config));
    assert_ok(at_config_parse(
        &at_kernel_mma, "WARPS=4,SPLITS=1,STRIPS=2,BLOCK_N=64,STAGES=3,Q_REGISTERS=0,OVERLAP=0,MIN_BLOCKS=1", &deeper));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_resources resources;
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        at_kernel_mma.resources(&problem, &target, &config, &resources);
        assert_int_equal(resources.smem_bytes, asked[i].bytes);
        assert_int_equal(at_kernel_mma.valid(&problem, &target, &deeper, &reason), i == 0);
    }
    assert_string_equal(reason.text, "STAGES 3: with a bias or a mask 2 only");
}

/* Of rows that blocks share, and keys that they divide. */
static void chunks_need_whole_tiles_and_room(void **state)
{
    static const struct {
        const char *problem, *config, *refusal; /* NULL: none */
    } asked[] = {
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16", "PACK=1,CHUNK=512", NULL},
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16", "PACK=1,CHUNK=0", "PACK 1: with CHUNK only"},
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16,alibi", "PACK=1,CHUNK=512", "PACK 1: with a bias, a mask or ALiBi 0 only"},
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16,alibi", "PACK=0,CHUNK=512", NULL},
        {"b64,h32,hkv8,sq64,skv8192,d128,bf16", "PACK=0,CHUNK=256", "CHUNK 256: a workspace of"},
    };
    attune_target target;
    (void)state;
    assert_ok(at_cuda_typical(90, &target));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_config config = {{0}};
        attune_reason reason = {""};
        attune_resources resources;
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        assert_ok(at_config_parse(&at_kernel_mma,
                                  "WARPS=1,SPLITS=4,STRIPS=1,BLOCK_N=32,STAGES=2,Q_REGISTERS=1,OVERLAP=0,MIN_BLOCKS=1",
                                  &config));
        assert_ok(at_config_parse(&at_kernel_mma, asked[i].config, &config));
        bool takes = at_kernel_mma.valid(&problem, &target, &config, &reason);
        if (takes != (asked[i].refusal == NULL) || (!takes && strstr(reason.text, asked[i].refusal) == NULL)) {
            fail_msg("%s, %s: %s", asked[i].problem, asked[i].config, takes ? "taken" : reason.text);
        }
        at_kernel_mma.resources(&problem, &target, &config, &resources);
        assert_int_equal(resources.workspace.value[0] > 0, config.value[9] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_pages_drafts_and_types),
        cmocka_unit_test(pairs_take_their_tile),
        cmocka_unit_test(chunks_need_whole_tiles_and_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
