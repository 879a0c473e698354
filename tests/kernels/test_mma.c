/* What mma takes, of what types, and what bias and masks cost it in shared memory. */
#include <stdio.h>
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
        &at_kernel_mma, "WARPS=4,SPLITS=1,STRIPS=2,BLOCK_N=64,STAGES=2,Q_REGISTERS=0,AHEAD=0,MIN_BLOCKS=1", &config));
    assert_ok(at_config_parse(
        &at_kernel_mma, "WARPS=4,SPLITS=1,STRIPS=2,BLOCK_N=64,STAGES=3,Q_REGISTERS=0,AHEAD=0,MIN_BLOCKS=1", &deeper));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_resources resources;
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        at_kernel_mma.resources(&problem, &target, &config, &resources);
        assert_int_equal(resources.smem_bytes, asked[i].bytes);
        assert_int_equal(at_kernel_mma.valid(&problem, &target, &deeper, &reason), i == 0);
    }
    assert_string_equal(reason.text, "STAGES 3: with a bias or a mask 2 only");
    assert_ok(at_config_parse(&at_kernel_mma, "BLOCK_N=48", &config));
    assert_false(at_kernel_mma.valid(&problem, &target, &config, &reason));
    assert_string_equal(reason.text, "BLOCK_N 48: with a bias or a mask a power of 2");
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
                                  "WARPS=1,SPLITS=4,STRIPS=1,BLOCK_N=32,STAGES=2,Q_REGISTERS=1,AHEAD=0,MIN_BLOCKS=1",
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

/* Keys ahead of values take a ring of two tiles; a mask spares products, and pairs have one tile ahead. */
static void keys_go_ahead_alone(void **state)
{
    static const struct {
        const char *problem, *config;
        bool valid;
    } asked[] = {
        {"b1,h8,s512,d64,fp16", "STAGES=2", true},
        {"b1,h8,s512,d64,fp16", "STAGES=1", false},
        {"b1,h8,s512,d64,fp16,bias=1xh", "STAGES=2", false},
        {"b1,h8,s512,d64,fp16,mask", "STAGES=2", false},
        {"b1,h8,s512,d64,fp16,causal,window=64:0,softcap=20", "STAGES=2,BLOCK_N=48", true},
    };
    attune_target target;
    (void)state;
    assert_ok(at_cuda_typical(90, &target));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_config config = {{0}};
        attune_reason reason = {""};
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        assert_ok(at_config_parse(&at_kernel_mma,
                                  "WARPS=4,SPLITS=1,STRIPS=2,BLOCK_N=64,Q_REGISTERS=0,AHEAD=1,MIN_BLOCKS=2", &config));
        assert_ok(at_config_parse(&at_kernel_mma, asked[i].config, &config));
        assert_int_equal(at_kernel_mma.valid(&problem, &target, &config, &reason), asked[i].valid);
        assert_string_equal(reason.text, asked[i].valid ? "" : "AHEAD 1: with STAGES 2, no bias and no mask only");
    }
}

/* Few queries against many keys: the chunk is one, whatever the lengths and the batch. */
static void long_keys_are_cut_alike(void **state)
{
    static const struct {
        const char *problem;
        int32_t pack, chunk;
    } asked[] = {
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16", 1, 512},      {"b16,h32,hkv8,sq1,skv32768,d128,bf16", 1, 512},
        {"b64,h32,sq4,skv1024,d64,fp16,causal", 1, 512},    {"b1,h32,hkv8,sq1,skv8192,d128,bf16,mask", 0, 256},
        {"b2,h8,hkv1,sq2,skv8192,d256,bf16,alibi", 0, 512}, {"b1,h32,hkv8,sq1,skv512,d128,bf16", 0, 0},
        {"b1,h32,hkv8,sq5,skv8192,d128,bf16", 0, 0},
    };
    attune_target target;
    (void)state;
    assert_ok(at_cuda_typical(90, &target));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_config config;
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        assert_true(at_kernel_mma.heuristic(&problem, &target, 0, &config));
        assert_int_equal(config.value[8], asked[i].pack);
        assert_int_equal(config.value[9], asked[i].chunk);
    }
}

/* Two configs at least for each head dim where a block has 99 KB. */
static void small_blocks_have_a_choice(void **state)
{
    static const int32_t archs[] = {86, 89, 120};
    attune_target target;
    (void)state;
    for (size_t a = 0; a < sizeof archs / sizeof archs[0]; ++a) {
        assert_ok(at_cuda_typical(archs[a], &target));
        assert_int_equal(target.smem_optin_bytes, 101376);
        for (int dim = 8; dim <= 256; dim += 8) {
            attune_problem problem;
            attune_config config;
            char text[64];
            int32_t fit = 0;
            (void)snprintf(text, sizeof text, "b8,h16,s2048,d%d,fp16", dim);
            assert_ok(attune_problem_parse(text, &problem));
            for (int32_t i = 0; at_kernel_mma.heuristic(&problem, &target, i, &config); ++i) {
                fit += at_kernel_fits(&at_kernel_mma, &problem, &target, &config, NULL);
            }
            if (fit < 2) {
                fail_msg("sm_%d, head dim %d: %d configs fit", archs[a], dim, fit);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_pages_drafts_and_types),     cmocka_unit_test(pairs_take_their_tile),
        cmocka_unit_test(chunks_need_whole_tiles_and_room), cmocka_unit_test(keys_go_ahead_alone),
        cmocka_unit_test(long_keys_are_cut_alike),          cmocka_unit_test(small_blocks_have_a_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
