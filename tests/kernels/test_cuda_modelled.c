/* CUDA kernels without a GPU: those made of plain code, and mma with its few instructions for matrices and copies, and
 * wgmma and wgmma_fp32 are compiled for the CPU, with a model of CUDA's words (cuda_modelled/), and go through the
 * gate's own suite. What only a device shows, tests/gpu shows. */
#include "base/cm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "base/half.h"
#include "cuda/cuda.h"
#include "judge/sanity.h"
#include "judge/suite.h"
#include "kernels/modelled.h"
#include "kernels/wild_pages.h"
#include "library/catalogue.h"
#include "library/context.h"

enum { SEED = 5, CASES = 6 };

static const struct {
    const char *kernel, *problem;
} modelled[] =
    {
        {"tiled", "b2,h8,hkv2,sq1,skv300,d64,fp16,seqused,page=16"},
        {"tiled", "b2,h4,hkv2,sq40,skv90,d32,bf16,causal,window=50:0,seqused,page=8,varlen=3,sink"},
        {"tiled", "b2,h4,hkv2,sq5,skv100,d40,dv24,fp32,k=bf16,v=fp16,seqused,page=64,vtable,draft"},
        {"append", "append:b3,h4,sq2,skv100,d64,dv40,bf16,page=16,slots"},
        {"append", "append:b40,h2,sq7,skv90,d33,fp32,k=fp16,page=5,vtable,seqused,varlen=2"},
        {"merge", "merge:b2,h4,sq13,d64,fp32,o=bf16,states=4,sink"},
        {"merge", "merge:b1,h3,sq20,d33,fp16,states=17"},
},
  of_mma[] =
      {
          {"mma", "b2,h4,hkv2,s150,d64,fp16,causal"},
          {"mma", "b1,h3,sq70,skv200,d128,bf16,window=40:10,softcap=20,sink"},
          {"mma", "b2,h2,s100,d72,dv40,bf16,causal,bias=bxh,mask,alibi,sink,seqused,strict"},
          {"mma", "b1,h2,s90,d256,fp16,mask"},
          {"mma", "b3,h2,s130,d8,dv16,bf16,varlen=3,bias=1xh,strict"},
          {"mma", "b1,h2,hkv1,sq1,skv500,d64,fp16,alibi,offset=tl"},
          {"mma", "b1,h2,sq96,skv160,d64,fp16,bias=1xh:fp32,mask"},
          {"mma", "b2,h4,hkv2,sq40,skv300,d128,bf16,causal,seqused,page=16,sink"},
          {"mma", "b2,h4,hkv2,sq8,skv300,d64,fp16,seqused,varlen=1,page=128,vtable,draft,o=fp32"},
          {"mma", "b2,h2,hkv1,sq20,skv130,d40,dv24,bf16,window=60:5,seqused,page=1,o=fp16"},
          {"mma", "b1,h8,hkv2,sq2,skv1500,d64,bf16,causal,seqused,sink"},
          {"mma", "b5,h4,hkv2,s200,d64,fp16,varlen=2,causal"},
          {"mma", "b34,h1,s40,d32,bf16,varlen=5,causal"},
          {"mma", "b1,h2,sq70,skv150,d64,fp16,scale=-0.2,softcap=2"},
          {"mma:WARPS=4,STRIPS=2,BLOCK_N=64,AHEAD=1,CHUNK=0", "b1,h2,s500,d64,bf16,window=130:0"},
          {"mma:WARPS=2,STRIPS=2,BLOCK_N=128,AHEAD=1,CHUNK=0", "b1,h2,sq200,skv300,d64,fp16,window=90:40,sink"},
          {"mma:WARPS=4,STRIPS=2,BLOCK_N=128,AHEAD=1,CHUNK=0", "b1,h2,hkv1,s520,d40,fp16,window=250:3,sink"},
          {"mma:WARPS=4,STRIPS=2,BLOCK_N=128,AHEAD=1,CHUNK=0",
           "b2,h2,sq255,skv131,d64,bf16,window=64:52,seqused,strict"},
          {"mma:WARPS=4,STRIPS=2,BLOCK_N=128,AHEAD=1,CHUNK=0", "b1,h2,s220,d64,bf16,window=128:4"},
          {"mma:WARPS=4,STRIPS=2,BLOCK_N=64,AHEAD=0", "b3,h2,hkv1,s300,d64,fp16,varlen=1,causal"},
          {"mma:WARPS=2,STRIPS=2,BLOCK_N=64,AHEAD=1,CHUNK=0", "b5,h2,s300,d128,bf16,varlen=1"},
          {"mma:WARPS=2,STRIPS=2,BLOCK_N=32,AHEAD=1", "b2,h2,s300,d72,dv40,bf16,causal,softcap=20,alibi,strict"},
          {"mma:WARPS=4,STRIPS=2,BLOCK_N=64,AHEAD=1,CHUNK=0", "b1,h2,hkv1,s420,d128,bf16,window=191:0"},
          {"mma:WARPS=4,STRIPS=2,BLOCK_N=128,AHEAD=1,CHUNK=0", "b1,h2,s390,d64,fp16,window=255:0"},
          {"mma:WARPS=2,STRIPS=2,BLOCK_N=128,AHEAD=1,CHUNK=0", "b2,h2,hkv1,sq70,skv300,d40,fp16,varlen=1,sink"},
          {"mma:WARPS=4,STRIPS=2,BLOCK_N=128,AHEAD=1,CHUNK=0", "b5,h2,s300,d64,bf16,varlen=1"},
          {"mma:WARPS=1,STRIPS=1,BLOCK_N=32", "b3,h12,s70,d16,bf16,window=40:0"},
          {"mma:WARPS=2,STRIPS=2,BLOCK_N=32,AHEAD=0", "b1,h2,s150,d64,bf16,causal,bias=1xh:fp32,mask"},
          {"mma:WARPS=2,STRIPS=1,BLOCK_N=32", "b300,h2,s40,d16,fp16,varlen=5"},
},
  of_fp32[] =
      {
          {"wgmma_fp32", "b1,h2,hkv1,s70,d16,dv8,fp32,causal,sink"},
          {"wgmma_fp32", "b1,h2,hkv1,s150,d24,dv40,fp32,window=70:20,tf32"},
},
  of_wgmma[] =
      {
          {"wgmma", "b1,h2,hkv1,s150,d32,bf16,causal"},
          {"wgmma:RESCALE=16", "b1,h2,s300,d32,bf16"},
          {"wgmma", "b1,h2,sq128,skv256,d64,fp16,bias=1xh"},
          {"wgmma", "b1,h2,sq100,skv130,d64,bf16,causal,mask"},
          {"wgmma", "b2,h2,hkv1,s130,d72,dv40,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,"
                    "varlen=1,strict"},
          {"wgmma", "b1,h2,s130,d32,dv48,fp16,bias=bx1,mask,alibi"},
          {"wgmma:SCHEDULER=2", "b3,h2,hkv1,s200,d32,fp16,causal,varlen=1"},
          {"wgmma:GROUPS=3,SCHEDULER=2", "b2,h1,s450,d32,bf16,varlen=1,alibi"},
          {"wgmma:SCHEDULER=2", "b34,h1,s40,d32,bf16,varlen=5"},
          {"wgmma", "b2,h1,s300,d32,bf16,bias=1xh,mask,window=100:40"},
          {"wgmma", "b1,h2,sq260,skv500,d32,fp16,causal,window=150:0"},
          {"wgmma", "b2,h1,s280,d40,bf16,window=30:90,softcap=20,alibi,seqused"},
          {"wgmma", "b2,h2,hkv1,s280,d32,fp16,causal,softcap=30"},
          {"wgmma", "b2,h1,sq280,skv300,d32,bf16,window=90:30,softcap=50,sink,varlen=1"},
},
  of_decode[] = {
      {"decode", "b1,h4,hkv2,sq1,skv1500,d128,bf16"},
      {"decode", "b2,h4,hkv2,sq8,skv300,d64,fp16,causal,seqused,page=16"},
      {"decode", "b2,h6,hkv1,sq5,skv700,d64,dv40,bf16,seqused,page=64,draft,sink"},
      {"decode", "b3,h4,hkv2,sq9,skv600,d72,bf16,causal,window=200:0,varlen=2,seqused,page=24,softcap=20,strict"},
      {"decode", "b2,h2,sq3,skv400,d32,dv128,fp16,alibi,seqused,page=1,vtable"},
      {"decode", "b1,h8,hkv1,sq4,skv1100,d256,fp16,causal,varlen=3"},
      {"decode:ROWS=8,WARPS=4,TILE=16,TILES=2,CLUSTER=0", "b5,h4,hkv2,sq2,skv2100,d64,fp16"},
      {"decode:CLUSTER=2", "b1,h4,hkv2,sq3,skv1300,d64,dv40,bf16,causal,sink"},
      {"decode:CLUSTER=2", "b1,h4,hkv1,sq7,skv2300,d64,dv40,bf16,causal,sink"},
      {"decode:CLUSTER=2", "b1,h4,hkv1,sq7,skv2300,d64,dv128,fp16,causal,sink"},
      {"decode:CLUSTER=4", "b1,h8,hkv1,sq2,skv1700,d64,fp16,draft"},
      {"decode:CLUSTER=8,PARTS=4", "b1,h8,hkv2,sq1,skv1024,d64,dv72,bf16"},
      {"decode:CLUSTER=8,PARTS=2", "b1,h8,hkv1,sq2,skv1700,d64,fp16,causal,seqused,page=16,sink"},
      {"decode:CLUSTER=4", "b1,h2,hkv1,sq1,skv1700,d64,fp16,seqused,page=16,window=900:0"},
      {"decode:WARPS=4,TILES=2,PIECES=1,BLOCKS=2", "b3,h4,hkv2,sq1,skv2300,d64,bf16"},
      {"decode:WARPS=4,TILES=2,PIECES=2", "b2,h4,hkv2,sq2,skv2500,d64,fp16,window=1200:0"},
      {"decode:WARPS=4,TILES=2,PIECES=4", "b1,h4,hkv2,sq3,skv4200,d64,dv40,bf16,causal,sink"},
};

/* ---- The suite --------------------------------------------------------------------------------------------------- */

static at_suite suite_of(const char *kernel)
{
    char name[AT_KERNEL_TEXT_MAX];
    assert_ok(at_kernel_text_split(kernel, name, sizeof name, &model.params));
    model.kernel = at_catalogue_find(name);
    assert_non_null(model.kernel);
    return (at_suite){.device = at_context_device(model.context),
                      .pool = at_context_pool(model.context),
                      .plan = plan_modelled,
                      .seed = SEED,
                      .cases = CASES,
                      .only = -1,
                      .command = ""};
}

static void expect_right(const char *kernel, const char *text)
{
    at_suite_result result;
    at_test_problem problem;
    const at_suite suite = suite_of(kernel);
    assert_ok(at_test_problem_parse(text, &problem));
    assert_ok(at_suite_run(&suite, &problem, &result));
    if (result.failures > 0) {
        fail_msg("%s, %s: case %lld (%s): %s", kernel, result.failure[0].problem, (long long)result.failure[0].index,
                 result.failure[0].how, result.failure[0].what);
    }
    assert_true(at_suite_right(&result));
    assert_int_equal(result.executed, CASES);
}

/* Case `index` of a suite of `seed`. */
static void expect_case(const char *kernel, const char *text, uint64_t seed, int64_t index)
{
    at_suite_result result;
    at_test_problem problem;
    at_suite suite = suite_of(kernel);
    suite.seed = seed;
    suite.cases = (int)index + 1;
    suite.only = index;
    assert_ok(at_test_problem_parse(text, &problem));
    assert_ok(at_suite_run(&suite, &problem, &result));
    assert_int_equal(result.executed, 1);
    if (result.failures > 0) {
        fail_msg("%s, %s: %s", kernel, result.failure[0].problem, result.failure[0].what);
    }
}

static void expect_sane(const char *kernel, const char *text)
{
    at_test_problem problem;
    const char *done = NULL;
    const at_suite suite = suite_of(kernel);
    assert_ok(at_test_problem_parse(text, &problem));
    assert_ok(at_sanity_run(&suite, &problem, 2, &done));
}

/* Lengths that are wrong a CPU's context refuses before its kernels see them: those are the device's to show. */
static void wild_entries_are_clamped(void **state)
{
    attune_problem problem;
    attune_plan *plan = NULL;
    int wild = 0;
    (void)state;
    skip_without_compiler();
    model.kernel = at_catalogue_find("tiled");
    model.params = "";
    assert_ok(attune_problem_parse("b3,h2,hkv1,sq2,skv64,d16,fp32,seqused,page=8", &problem));
    assert_ok(plan_modelled(NULL, &problem, &plan));
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        wild += expect_wild_to_be_clamped(at_context_device(model.context), plan, &problem, seed, false);
    }
    assert_true(wild > 0);
    attune_plan_destroy(plan);
}

static void modelled_kernels_pass_the_suite(void **state)
{
    (void)state;
    skip_without_compiler();
    for (size_t i = 0; i < sizeof modelled / sizeof modelled[0]; ++i) {
        expect_right(modelled[i].kernel, modelled[i].problem);
    }
}

static void mma_passes_the_suite(void **state)
{
    (void)state;
    skip_without_compiler();
    for (size_t i = 0; i < sizeof of_mma / sizeof of_mma[0]; ++i) {
        expect_right(of_mma[i].kernel, of_mma[i].problem);
    }
}

/* A row that sees far keys alone, under ALiBi, and a sink: what is left of O is a subnormal number of bf16. */
static void what_a_sink_leaves_may_be_small(void **state)
{
    at_suite_result result;
    at_test_problem problem;
    at_suite suite;
    (void)state;
    skip_without_compiler();
    suite = suite_of("mma");
    suite.seed = 1;
    suite.only = 50;
    assert_ok(at_test_problem_parse(
        "b2,h8,hkv2,sq30,skv1300,d72,dv40,bf16,causal,bias=bxh,mask,alibi,sink,seqused,strict", &problem));
    assert_ok(at_suite_run(&suite, &problem, &result));
    assert_int_equal(result.executed, 1);
    assert_int_equal(result.failures, 0);
}

static void wgmma_fp32_passes_the_suite(void **state)
{
    (void)state;
    skip_without_compiler();
    model.target.arch_features = 1;
    for (size_t i = 0; i < sizeof of_fp32 / sizeof of_fp32[0]; ++i) {
        expect_right(of_fp32[i].kernel, of_fp32[i].problem);
    }
    model.target.arch_features = 0;
}

static void mma_fp32_passes_the_suite(void **state)
{
    static const char *const problems[] = {
        "b1,h2,hkv1,s150,d64,fp32,causal,sink",
        "b2,h2,sq70,skv130,d128,fp32",
        "b2,h2,hkv1,s90,d72,dv40,fp32,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,strict",
        "b3,h2,s100,d5,fp32,causal,varlen=1,align=4",
        "b1,h2,sq40,skv170,d96,dv128,fp32,window=60:20,softcap=20,offset=tl",
        "b1,h2,sq3,skv100,d16,dv8,fp32,mask",
        "b2,h2,hkv1,sq90,skv140,d40,fp32,causal,sink,strict,tf32",
    };
    (void)state;
    skip_without_compiler();
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        expect_right("mma_fp32", problems[i]);
    }
}

/* On few multiprocessors: blocks have several jobs. */
static void wgmma_passes_the_suite(void **state)
{
    const int32_t sm_count = model.target.sm_count;
    (void)state;
    skip_without_compiler();
    model.target.arch_features = 1;
    model.target.sm_count = 3;
    for (size_t i = 0; i < sizeof of_wgmma / sizeof of_wgmma[0]; ++i) {
        expect_right(of_wgmma[i].kernel, of_wgmma[i].problem);
    }
    /* A row whose keys weigh 2^-128 beside its sink. */
    expect_case("wgmma", "b2,h4,s512,d64,bf16,softcap=30,bias=bxh,mask,alibi,sink", 1, 17);
    model.target.sm_count = sm_count;
    model.target.arch_features = 0;
}

/* On few multiprocessors: blocks have several jobs then, and pieces of them. */
static void decode_passes_the_suite(void **state)
{
    const int32_t sm_count = model.target.sm_count;
    (void)state;
    skip_without_compiler();
    model.target.sm_count = 5;
    for (size_t i = 0; i < sizeof of_decode / sizeof of_decode[0]; ++i) {
        expect_right(of_decode[i].kernel, of_decode[i].problem);
    }
    model.target.sm_count = sm_count;
}

/* Where what is not finite lies behind lengths, and behind windows. */
static void hidden_keys_leave_no_trace(void **state)
{
    (void)state;
    skip_without_compiler();
    expect_sane("mma", "b2,h2,sq40,skv100,d64,dv40,bf16,window=30:5,seqused,mask");
    expect_sane("mma", "b1,h2,sq140,skv100,d64,bf16,window=30:5,seqused");
    expect_sane("mma:WARPS=4,STRIPS=2,BLOCK_N=128,AHEAD=1,CHUNK=0", "b1,h1,sq1200,skv20,d16,bf16,window=8:0,offset=12");
    expect_sane("decode", "b2,h2,hkv1,sq3,skv300,d64,fp16,causal,window=100:0,seqused,page=16,vtable");
    expect_sane("decode", "b2,h4,hkv2,sq1,skv200,d64,bf16,seqused,page=16");
    model.target.arch_features = 1;
    expect_sane("wgmma", "b1,h2,sq40,skv100,d32,bf16,bias=1xh,mask");
    expect_sane("wgmma", "b3,h2,s100,d32,fp16,varlen=1");
    model.target.arch_features = 0;
}

static void fill(const at_inputs *inputs, attune_role role, int byte)
{
    if (inputs->buffer[role].base != NULL) {
        memset(inputs->buffer[role].base + inputs->buffer[role].at, byte, inputs->buffer[role].bytes);
    }
}

/* Queries are NaN, and all see keys: so are the outputs, though no score is above -inf. */
static void expect_nan(const char *text)
{
    const at_draw draw = {.seed = SEED};
    at_placement place = {0};
    at_inputs inputs;
    attune_problem problem;
    attune_plan *plan = NULL;
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(plan_modelled(NULL, &problem, &plan));
    assert_ok(at_inputs_draw(&problem, &draw, &inputs));
    fill(&inputs, ATTUNE_Q, 0xff);
    fill(&inputs, ATTUNE_BIAS, 0);
    fill(&inputs, ATTUNE_MASK, 1);
    assert_ok(at_placement_create(at_context_device(model.context), &inputs, &place));
    assert_ok(at_placement_run(&place, plan, &place.call));
    const uint16_t *o = inputs.call.tensor[ATTUNE_O].data;
    const uint16_t infinity = problem.dtype == ATTUNE_FP16 ? 0x7c00 : 0x7f80;
    for (size_t i = 0; i < inputs.buffer[ATTUNE_O].bytes / sizeof *o; ++i) {
        if ((o[i] & 0x7fff) <= infinity) {
            fail_msg("%s: element %zu of O is 0x%04x, no NaN", text, i, o[i]);
        }
    }
    at_placement_free(&place);
    at_inputs_free(&inputs);
    attune_plan_destroy(plan);
}

static void scores_of_nan_are_seen(void **state)
{
    (void)state;
    skip_without_compiler();
    model.kernel = at_catalogue_find("mma");
    model.params = "";
    expect_nan("b1,h2,sq1,skv300,d64,fp16,mask");
    expect_nan("b1,h2,sq40,skv100,d64,bf16,bias=1xh");
    expect_nan("b1,h2,sq32,skv160,d64,bf16,draft");
}

/* The first sequence's rows of O where the next one's queries are made of `byte`. */
static size_t outputs_beside(const attune_problem *problem, attune_plan *plan, int byte, uint16_t *o, size_t room)
{
    const at_draw draw = {.seed = SEED, .length_seed = 2};
    at_placement place = {0};
    at_inputs inputs;
    assert_ok(at_inputs_draw(problem, &draw, &inputs));
    const size_t rows = (size_t)((const int32_t *)inputs.call.tensor[ATTUNE_CU_Q].data)[1];
    const size_t count = rows * (size_t)problem->head_dim_v;
    assert_true(rows % 64 != 0 && rows > 64 && count <= room);
    const attune_tensor *q = &inputs.call.tensor[ATTUNE_Q];
    const size_t first = rows * (size_t)q->stride[ATTUNE_STRIDE_SEQ] * sizeof(uint16_t);
    unsigned char *queries = q->data;
    memset(queries + first, byte, inputs.buffer[ATTUNE_Q].bytes - first);
    assert_ok(at_placement_create(at_context_device(model.context), &inputs, &place));
    assert_ok(at_placement_run(&place, plan, &place.call));
    memcpy(o, inputs.call.tensor[ATTUNE_O].data, count * sizeof *o);
    at_placement_free(&place);
    at_inputs_free(&inputs);
    return count;
}

/* A tile's rows behind the end of a packed sequence are the next one's: they have no say in how its own are computed.
 */
static void next_sequences_have_no_say(void **state)
{
    enum { ROOM = 400 * 32 };
    static uint16_t found[2][ROOM];
    attune_problem problem;
    attune_plan *plan = NULL;
    (void)state;
    skip_without_compiler();
    model.target.arch_features = 1;
    model.kernel = at_catalogue_find("wgmma");
    model.params = "GROUPS=2,BLOCK_N=64,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=4";
    assert_ok(attune_problem_parse("b2,h1,sq400,skv1500,d32,fp16,varlen=1", &problem));
    assert_ok(plan_modelled(NULL, &problem, &plan));
    const size_t count = outputs_beside(&problem, plan, 0, found[0], ROOM);
    assert_int_equal(outputs_beside(&problem, plan, 0x50, found[1], ROOM), count);
    assert_memory_equal(found[0], found[1], count * sizeof found[0][0]);
    attune_plan_destroy(plan);
    model.target.arch_features = 0;
}

/* O where keys are seen by bytes as they are drawn, or by ones. */
static size_t outputs_by_mask(const attune_problem *problem, attune_plan *plan, bool ones, uint16_t *o, size_t room)
{
    const at_draw draw = {.seed = SEED};
    at_placement place = {0};
    at_inputs inputs;
    assert_ok(at_inputs_draw(problem, &draw, &inputs));
    unsigned char *mask = inputs.buffer[ATTUNE_MASK].base + inputs.buffer[ATTUNE_MASK].at;
    unsigned char largest = 0;
    for (size_t i = 0; i < inputs.buffer[ATTUNE_MASK].bytes; ++i) {
        largest = mask[i] > largest ? mask[i] : largest;
        mask[i] = ones ? mask[i] != 0 : mask[i];
    }
    assert_true(largest > 1 && inputs.buffer[ATTUNE_O].bytes <= room);
    assert_ok(at_placement_create(at_context_device(model.context), &inputs, &place));
    assert_ok(at_placement_run(&place, plan, &place.call));
    const size_t bytes = inputs.buffer[ATTUNE_O].bytes;
    memcpy(o, inputs.call.tensor[ATTUNE_O].data, bytes);
    at_placement_free(&place);
    at_inputs_free(&inputs);
    return bytes;
}

/* Masks of 0 and 1 are packed in a way of their own. */
static void ones_say_what_other_bytes_say(void **state)
{
    enum { ROOM = 2 * 200 * 32 };
    static uint16_t found[2][ROOM];
    static const char *const params[] = {"GROUPS=2,BLOCK_N=128,Q_STAGES=1,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=2",
                                         "GROUPS=2,BLOCK_N=80,Q_STAGES=1,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=2"};
    (void)state;
    skip_without_compiler();
    model.target.arch_features = 1;
    model.kernel = at_catalogue_find("wgmma");
    for (size_t i = 0; i < sizeof params / sizeof params[0]; ++i) {
        attune_problem problem;
        attune_plan *plan = NULL;
        model.params = params[i];
        assert_ok(attune_problem_parse("b1,h2,s200,d32,bf16,mask", &problem));
        assert_ok(plan_modelled(NULL, &problem, &plan));
        const size_t bytes = outputs_by_mask(&problem, plan, false, found[0], sizeof found[0]);
        assert_int_equal(outputs_by_mask(&problem, plan, true, found[1], sizeof found[1]), bytes);
        assert_memory_equal(found[0], found[1], bytes);
        attune_plan_destroy(plan);
    }
    model.target.arch_features = 0;
}

/* Scores that are `spread` times as far apart, and rise along the walk by so many nats each 64 keys. */
static void lay_scores(at_inputs *inputs, float spread, float rise)
{
    const attune_tensor *q = &inputs->call.tensor[ATTUNE_Q], *k = &inputs->call.tensor[ATTUNE_K];
    const attune_problem *problem = &inputs->problem;
    for (int64_t i = 0; i < problem->seqlen_q * problem->head_dim_qk; ++i) {
        uint16_t *x = (uint16_t *)q->data + i;
        *x = at_bf16_from_float(at_bf16_to_float(*x) * spread);
        if (rise != 0 && i % problem->head_dim_qk == 0) {
            *x = at_bf16_from_float(16);
        }
    }
    for (int64_t i = 0; rise != 0 && i < problem->seqlen_kv; ++i) {
        const float step = -rise / 64 / (16 * at_problem_scale(problem));
        ((uint16_t *)k->data)[i * problem->head_dim_qk] =
            at_bf16_from_float(step * ((float)i - (float)problem->seqlen_kv / 2));
    }
}

/* By the first column: queries have 16 there, the others stay what they are. Values of the last 64 keys are 1 above
 * those of the others, so that what both weigh is seen. */
static void lay_levels(at_inputs *inputs, const float *level)
{
    const attune_tensor *q = &inputs->call.tensor[ATTUNE_Q], *k = &inputs->call.tensor[ATTUNE_K];
    const attune_problem *problem = &inputs->problem;
    uint16_t *v = inputs->call.tensor[ATTUNE_V].data;
    for (int64_t i = 0; i < problem->seqlen_q; ++i) {
        ((uint16_t *)q->data)[i * problem->head_dim_qk] = at_bf16_from_float(16);
    }
    for (int64_t i = 0; i < problem->seqlen_kv; ++i) {
        const bool last = i >= problem->seqlen_kv - 64;
        const float score = last ? level[0] : level[1] * (i % 2 == 0 ? 1.0f : 0.9f);
        ((uint16_t *)k->data)[i * problem->head_dim_qk] =
            at_bf16_from_float(score / (16 * (float)at_problem_scale(problem)));
        for (int64_t c = 0; c < problem->head_dim_v; ++c) {
            uint16_t *x = v + i * problem->head_dim_v + c;
            *x = at_bf16_from_float(at_bf16_to_float(*x) / 4 + (last ? 1.0f : i % 2 == 0 ? 0.0f : -1.0f));
        }
    }
}

/* Row `row` of O, in double. */
static void attend_in_double(const at_inputs *inputs, int64_t row, double *out)
{
    const attune_problem *problem = &inputs->problem;
    const uint16_t *q = inputs->call.tensor[ATTUNE_Q].data, *k = inputs->call.tensor[ATTUNE_K].data;
    const uint16_t *v = inputs->call.tensor[ATTUNE_V].data;
    const int64_t dim = problem->head_dim_qk;
    const int64_t end =
        attune_is_causal(problem) ? row + 1 + problem->seqlen_kv - problem->seqlen_q : problem->seqlen_kv;
    double largest = -INFINITY, sum = 0;
    for (int64_t c = 0; c < dim; ++c) {
        out[c] = 0;
    }
    for (int pass = 0; pass < 2; ++pass) {
        for (int64_t j = 0; j < end; ++j) {
            double score = 0;
            for (int64_t c = 0; c < dim; ++c) {
                score += (double)at_bf16_to_float(q[row * dim + c]) * at_bf16_to_float(k[j * dim + c]);
            }
            score *= at_problem_scale(problem);
            score = problem->softcap != 0 ? problem->softcap * tanh(score / problem->softcap) : score;
            largest = pass == 0 ? fmax(largest, score) : largest;
            const double weight = pass == 0 ? 0 : exp(score - largest);
            sum += weight;
            for (int64_t c = 0; c < dim; ++c) {
                out[c] += weight * at_bf16_to_float(v[j * dim + c]);
            }
        }
    }
    for (int64_t c = 0; c < dim; ++c) {
        out[c] /= sum;
    }
}

/* Scores laid out by `spread` and `rise`, or, where `level` is there, near its first number in the last 64 keys, which
 * a walk begins with, and in the others near the second and nine tenths of it in turns. */
static void expect_attention_of(const char *text, const char *params, float spread, float rise, const float *level)
{
    const at_draw draw = {.seed = SEED};
    at_placement place = {0};
    at_inputs inputs;
    attune_problem problem;
    attune_plan *plan = NULL;
    model.params = params;
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(plan_modelled(NULL, &problem, &plan));
    assert_ok(at_inputs_draw(&problem, &draw, &inputs));
    lay_scores(&inputs, spread, rise);
    if (level != NULL) {
        lay_levels(&inputs, level);
    }
    assert_ok(at_placement_create(at_context_device(model.context), &inputs, &place));
    assert_ok(at_placement_run(&place, plan, &place.call));
    const uint16_t *o = inputs.call.tensor[ATTUNE_O].data;
    for (int64_t row = 0; row < problem.seqlen_q; row += 7) {
        double right[256];
        attend_in_double(&inputs, row, right);
        for (int64_t c = 0; c < problem.head_dim_v; ++c) {
            const double is = at_bf16_to_float(o[row * problem.head_dim_v + c]);
            if (!(fabs(is - right[c]) <= 0x1p-8 * fabs(right[c]) + 0x1p-7)) {
                fail_msg("%s, %s, spread %g, rise %g, levels %g, %g: row %lld, column %lld: %g, not %g", text, params,
                         (double)spread, (double)rise, level != NULL ? (double)level[0] : 0.0,
                         level != NULL ? (double)level[1] : 0.0, (long long)row, (long long)c, is, right[c]);
            }
        }
    }
    at_placement_free(&place);
    at_inputs_free(&inputs);
    attune_plan_destroy(plan);
}

static void expect_attention(const char *text, const char *params, float spread, float rise)
{
    expect_attention_of(text, params, spread, rise, NULL);
}

/* References are raised, once, twice and more often; by the first tile's word jobs take maxima. */
static void scores_may_rise_and_spread(void **state)
{
    static const char *const params[] = {"GROUPS=2,BLOCK_N=64,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=4",
                                         "GROUPS=2,BLOCK_N=64,Q_STAGES=1,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=2",
                                         "GROUPS=2,BLOCK_N=64,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=4"};
    static const struct {
        float spread, rise;
    } kind[] = {{1, 0}, {1, 8}, {4, 0}, {16, 0}, {16, 20}, {64, 0}, {64, 50}};
    (void)state;
    skip_without_compiler();
    model.target.arch_features = 1;
    model.kernel = at_catalogue_find("wgmma");
    for (size_t i = 0; i < sizeof params / sizeof params[0] * (sizeof kind / sizeof kind[0]); ++i) {
        const size_t of = i % (sizeof kind / sizeof kind[0]);
        expect_attention("b1,h1,sq140,skv900,d32,bf16,causal", params[i / (sizeof kind / sizeof kind[0])],
                         kind[of].spread, kind[of].rise);
    }
    expect_attention("b1,h1,sq70,skv600,d136,bf16", "RESCALE=16", 4, 0);
    expect_attention("b1,h1,sq70,skv600,d136,bf16", "RESCALE=16", 16, 20);
    model.target.arch_features = 0;
}

/* The polynomial that stands for a softcap ends: scores above it, in the first tile and in later ones; scores below,
 * where they weigh something, beside low ones and with a small cap. */
static void softcaps_curve_ends(void **state)
{
    static const char params[] = "GROUPS=2,BLOCK_N=64,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=4";
    static const struct {
        const char *problem;
        float level[2];
    } ends[] = {
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {0, 30}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {0, 60}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {25, 26}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=50", {45, 10}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {-30, -42}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {-60, -60}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=3", {0, -4.5f}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {4e9f, 4e9f}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {4e9f, 2}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {-4e9f, -4e9f}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {-1e21f, -10}},
        {"b1,h1,sq140,skv896,d32,bf16,softcap=30", {1, -1e21f}},
    };
    static const float spread[] = {1, 4, 16, 64};
    (void)state;
    skip_without_compiler();
    model.target.arch_features = 1;
    model.kernel = at_catalogue_find("wgmma");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; ++i) {
        expect_attention_of(ends[i].problem, params, 0.25f, 0, ends[i].level);
    }
    for (size_t i = 0; i < sizeof spread / sizeof spread[0]; ++i) {
        expect_attention("b1,h1,sq140,skv900,d32,bf16,causal,softcap=30", params, spread[i], 0);
    }
    model.target.arch_features = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wild_entries_are_clamped),   cmocka_unit_test(modelled_kernels_pass_the_suite),
        cmocka_unit_test(mma_passes_the_suite),       cmocka_unit_test(what_a_sink_leaves_may_be_small),
        cmocka_unit_test(mma_fp32_passes_the_suite),  cmocka_unit_test(wgmma_fp32_passes_the_suite),
        cmocka_unit_test(wgmma_passes_the_suite),     cmocka_unit_test(decode_passes_the_suite),
        cmocka_unit_test(hidden_keys_leave_no_trace), cmocka_unit_test(scores_of_nan_are_seen),
        cmocka_unit_test(next_sequences_have_no_say), cmocka_unit_test(ones_say_what_other_bytes_say),
        cmocka_unit_test(scores_may_rise_and_spread), cmocka_unit_test(softcaps_curve_ends)};
    return cmocka_run_group_tests(tests, model_open, model_close);
}
