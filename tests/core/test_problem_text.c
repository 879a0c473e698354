#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/text.h"
#include "core/problem.h"

/* ---- Drawing valid problems ------------------------------------------------------------------------------------- */

static int64_t between(at_random *random, int64_t least, int64_t most)
{
    return least + (int64_t)at_random_below(random, (uint64_t)(most - least) + 1);
}

static bool coin(at_random *random)
{
    return at_random_below(random, 2) == 1;
}

/* Any finite float but zero, all exponents alike. */
static float any_float(at_random *random)
{
    for (;;) {
        uint32_t bits = (uint32_t)at_random_next(random);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value) && value != 0.0f) {
            return value;
        }
    }
}

static void draw_sizes(at_random *random, attune_problem *p)
{
    p->dtype = (attune_dtype)at_random_below(random, 3);
    p->batch = between(random, 1, 1 << 10);
    p->heads_kv = between(random, 1, 64);
    p->heads_q = p->heads_kv * between(random, 1, 8);
    p->seqlen_q = coin(random) ? between(random, 0, 64) : between(random, 0, AT_DIM_MAX / 4096);
    p->seqlen_kv = coin(random) ? p->seqlen_q : between(random, 0, AT_DIM_MAX / 4096);
    p->head_dim_qk = (int32_t)between(random, 1, 256);
    p->head_dim_v = coin(random) ? p->head_dim_qk : (int32_t)between(random, 1, 256);
}

static void draw_features(at_random *random, attune_problem *p)
{
    p->scale = coin(random) ? 0.0f : any_float(random);
    p->softcap = coin(random) ? 0.0f : fabsf(any_float(random));
    p->window_left = coin(random) ? -1 : between(random, -1, AT_DIM_MAX);
    p->window_right = coin(random) ? -1 : between(random, -1, 4096);
    p->offset_kind = (attune_offset)at_random_below(random, 3);
    p->offset = between(random, -AT_DIM_MAX, AT_DIM_MAX); /* means something with a number only */
    p->bias = (attune_bias)at_random_below(random, 5);
    p->align = coin(random) ? 0 : 1 << at_random_below(random, 9);
    p->mask = coin(random);
    p->alibi = coin(random);
    p->sink = coin(random);
    p->seqused_kv = coin(random);
    p->strict = coin(random);
    p->tf32 = p->dtype == ATTUNE_FP32 && coin(random);
    p->varlen = coin(random);
    p->layout = p->varlen || coin(random) ? ATTUNE_BSHD : ATTUNE_BHSD;
    for (int role = ATTUNE_K; role <= ATTUNE_O && coin(random); ++role) {
        p->role_dtype[role] = (uint8_t)at_random_below(random, ATTUNE_BF16 + 2);
    }
    p->role_dtype[ATTUNE_BIAS] = p->bias != ATTUNE_BIAS_NONE ? (uint8_t)at_random_below(random, ATTUNE_BF16 + 2) : 0;
}

static void draw_pages(at_random *random, attune_problem *p)
{
    if (coin(random)) {
        p->page_size = (int32_t)between(random, 1, AT_PAGE_MAX);
        p->page_table_v = coin(random);
        p->seqused_kv |= p->varlen;
    }
    if (coin(random)) {
        p->draft_mask = 1;
        p->seqlen_q = between(random, 0, AT_DRAFT_MAX);
        p->window_left = p->window_right = -1;
        p->offset_kind = ATTUNE_OFFSET_BOTTOM_RIGHT;
    }
}

/* What append and merge have of what was drawn. */
static attune_problem draw_operation(at_random *random, const attune_problem *forward)
{
    attune_problem p;
    const bool merge = coin(random);
    attune_problem_init(&p);
    p.op = merge ? ATTUNE_MERGE : ATTUNE_APPEND;
    p.dtype = forward->dtype;
    p.batch = forward->batch;
    p.heads_q = p.heads_kv = forward->heads_kv;
    p.seqlen_q = forward->seqlen_q;
    p.seqlen_kv = merge ? 0 : forward->seqlen_kv;
    p.head_dim_qk = forward->head_dim_qk;
    p.head_dim_v = merge ? forward->head_dim_qk : forward->head_dim_v;
    p.layout = forward->layout;
    p.align = forward->align;
    p.sink = merge && forward->sink;
    p.states = merge ? (int32_t)between(random, 1, 1 << at_random_below(random, 17)) : 0;
    p.role_dtype[ATTUNE_O] = merge ? forward->role_dtype[ATTUNE_O] : 0;
    if (!merge) {
        p.slots = coin(random);
        p.seqused_kv = !p.slots;
        p.varlen = !p.slots && forward->varlen;
        p.page_size = forward->page_size;
        p.page_table_v = !p.slots && forward->page_table_v;
    }
    return p;
}

static attune_problem draw(at_random *random)
{
    attune_problem p;
    attune_problem_init(&p);
    draw_sizes(random, &p);
    draw_features(random, &p);
    draw_pages(random, &p);
    return at_random_below(random, 4) == 0 ? draw_operation(random, &p) : p;
}

/* ---- Properties ------------------------------------------------------------------------------------------------- */

enum { DRAWS = 20000 };

static void prints_and_parses_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < DRAWS; ++seed) {
        at_random random = at_random_seed(seed, 1);
        attune_problem drawn = draw(&random);
        attune_problem read;
        char text[ATTUNE_PROBLEM_TEXT_MAX];
        char again[ATTUNE_PROBLEM_TEXT_MAX];
        char class_drawn[AT_CLASS_TEXT_MAX];
        char class_read[AT_CLASS_TEXT_MAX];
        if (attune_problem_check(&drawn) != ATTUNE_OK) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, attune_last_detail());
        }
        assert_int_equal(attune_problem_print(&drawn, text, sizeof text), ATTUNE_OK);
        if (attune_problem_parse(text, &read) != ATTUNE_OK) {
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, text, attune_last_detail());
        }
        assert_int_equal(attune_problem_print(&read, again, sizeof again), ATTUNE_OK);
        assert_string_equal(text, again);
        assert_true(at_problem_equal(&drawn, &read));
        assert_true(attune_problem_hash(&drawn) == attune_problem_hash(&read));
        at_problem_class(&drawn, class_drawn);
        at_problem_class(&read, class_read);
        assert_string_equal(class_drawn, class_read);
        /* What a kernel is given is the same too. */
        assert_true(at_problem_scale(&drawn) == at_problem_scale(&read));
        assert_int_equal(at_problem_align(&drawn), at_problem_align(&read));
        assert_int_equal(at_problem_features(&drawn), at_problem_features(&read));
    }
}

/* Terms of a text in random order mean the same. */
static void order_does_not_matter(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        at_random random = at_random_seed(seed, 2);
        attune_problem drawn = draw(&random);
        attune_problem read;
        char text[ATTUNE_PROBLEM_TEXT_MAX];
        char shuffled[ATTUNE_PROBLEM_TEXT_MAX + 8];
        at_text out;
        char *term[32];
        size_t count = 0;
        assert_int_equal(attune_problem_print(&drawn, text, sizeof text), ATTUNE_OK);
        char *colon = strchr(text, ':');
        const bool op = colon != NULL && colon < strchr(text, ',');
        char *rest = op ? colon + 1 : text;
        while ((term[count] = strsep(&rest, ",")) != NULL) {
            ++count;
        }
        at_text_init_fixed(&out, shuffled, sizeof shuffled);
        at_text_add(&out, "%.*s", op ? (int)(colon + 1 - text) : 0, text);
        at_text_add(&out, "%s", !op && coin(&random) ? "fwd:" : "");
        while (count > 0) {
            size_t pick = at_random_below(&random, count);
            at_text_add(&out, "%s%s", term[pick], count > 1 ? "," : "");
            term[pick] = term[--count];
        }
        if (attune_problem_parse(shuffled, &read) != ATTUNE_OK) {
            fail_msg("%s: %s", shuffled, attune_last_detail());
        }
        assert_true(at_problem_equal(&drawn, &read));
    }
}

/* Damaged texts are refused with a message or read as some valid problem; a refused one leaves the output alone. */
static void damage_is_survived(void **state)
{
    (void)state;
    int refused = 0;
    for (uint64_t seed = 0; seed < DRAWS; ++seed) {
        at_random random = at_random_seed(seed, 3);
        attune_problem drawn = draw(&random);
        attune_problem read;
        attune_problem before;
        char text[ATTUNE_PROBLEM_TEXT_MAX];
        assert_int_equal(attune_problem_print(&drawn, text, sizeof text), ATTUNE_OK);
        for (int edits = (int)at_random_below(&random, 3); edits >= 0; --edits) {
            text[at_random_below(&random, strlen(text))] = (char)(1 + at_random_below(&random, 255));
        }
        memset(&read, 0xa5, sizeof read);
        memset(&before, 0xa5, sizeof before);
        attune_status status = attune_problem_parse(text, &read);
        if (status == ATTUNE_OK) {
            assert_int_equal(attune_problem_check(&read), ATTUNE_OK);
            continue;
        }
        ++refused;
        assert_int_equal(status, ATTUNE_INVALID_PROBLEM);
        assert_true(strlen(attune_last_detail()) > 0);
        for (const char *at = attune_last_detail(); *at != '\0'; ++at) {
            assert_true(*at >= 0x20 && *at < 0x7f);
        }
        assert_memory_equal(&read, &before, sizeof read);
    }
    assert_true(refused > DRAWS / 4);
}

/* ---- Examples --------------------------------------------------------------------------------------------------- */

static void canonical_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } examples[] = {
        {"b1,h8,s512,d64,fp16", "b1,h8,s512,d64,fp16"},
        {"fwd:b1,h8,s512,d64,fp16", "b1,h8,s512,d64,fp16"},
        {"page=16,b8,h32,hkv8,sq1,skv8192,d128,bf16,seqused,vtable",
         "b8,h32,hkv8,sq1,skv8192,d128,bf16,seqused,page=16,vtable"},
        {"draft,b8,h32,hkv8,sq5,skv8192,d128,bf16,seqused,page=1",
         "b8,h32,hkv8,sq5,skv8192,d128,bf16,seqused,page=1,draft"},
        {"append:b64,h8,sq1,skv4096,d128,bf16,page=16,slots", "append:b64,h8,sq1,skv4096,d128,bf16,page=16,slots"},
        {"append:b64,h8,hkv8,sq4,skv4,d128,dv64,bf16,seqused", "append:b64,h8,s4,d128,dv64,bf16,seqused"},
        {"merge:b8,h32,sq16,d128,fp32,o=bf16,states=4,sink", "merge:b8,h32,sq16,d128,fp32,o=bf16,sink,states=4"},
        {"merge:b8,h32,sq16,skv0,d128,dv128,fp32,states=1", "merge:b8,h32,sq16,d128,fp32,states=1"},
        {"fp16,d64,s512,h8,b1", "b1,h8,s512,d64,fp16"},
        {"b2,h32,hkv8,s4096,d128,bf16,causal", "b2,h32,hkv8,s4096,d128,bf16,causal"},
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16", "b1,h32,hkv8,sq1,skv8192,d128,bf16"},
        {"b1,h8,hkv8,sq5,skv5,d64,dv64,fp16", "b1,h8,s5,d64,fp16"},
        {"b01,h008,s0512,d064,fp16", "b1,h8,s512,d64,fp16"},
        {"b1,h8,s0,d64,fp16", "b1,h8,s0,d64,fp16"},
        {"b1,h8,sq0,skv7,d64,fp16", "b1,h8,sq0,skv7,d64,fp16"},
        {"b1,h1,s9,d64,fp32,offset=br,window=-1:-1,layout=bhsd", "b1,h1,s9,d64,fp32"},
        {"b1,h1,s9,d64,fp32,offset=0", "b1,h1,s9,d64,fp32,offset=0"},
        {"b1,h1,s9,d64,fp32,offset=tl,causal", "b1,h1,s9,d64,fp32,causal,offset=tl"},
        {"b1,h1,s9,d64,fp32,offset=-0", "b1,h1,s9,d64,fp32,offset=0"},
        {"b1,h1,s9,d64,fp32,scale=0.125,align=16", "b1,h1,s9,d64,fp32"},
        {"b1,h1,s9,d64,fp32,scale=0.1250", "b1,h1,s9,d64,fp32"},
        {"b1,h1,s9,d64,fp32,scale=1e-1", "b1,h1,s9,d64,fp32,scale=0.1"},
        {"b1,h1,s9,d64,fp32,scale=-2,softcap=3e1", "b1,h1,s9,d64,fp32,softcap=30,scale=-2"},
        {"b1,h1,s9,d64,fp32,softcap=0.30000001192092896", "b1,h1,s9,d64,fp32,softcap=0.3"},
        {"b1,h1,s9,d64,fp32,softcap=16777216", "b1,h1,s9,d64,fp32,softcap=16777216"},
        {"b1,h1,s9,d1,fp16,align=2", "b1,h1,s9,d1,fp16"},
        {"b1,h1,s9,d1,fp16,align=1", "b1,h1,s9,d1,fp16"},
        {"b1,h1,s9,d1,fp16,align=16", "b1,h1,s9,d1,fp16,align=16"},
        {"b1,h1,s9,d64,fp32,align=1", "b1,h1,s9,d64,fp32,align=4"},
        {"b1,h1,s9,d64,fp32,align=256", "b1,h1,s9,d64,fp32,align=256"},
        {"b1,h1,s9,d64,fp32,layout=bshd", "b1,h1,s9,d64,fp32,layout=bshd"},
        {"b1,h1,s9,d64,fp32,layout=bshd,varlen=0", "b1,h1,s9,d64,fp32,varlen"},
        {"varlen=18446744073709551615,b1,h1,s9,d64,fp32", "b1,h1,s9,d64,fp32,varlen"},
        {"b1,h1,s9,d64,fp32,window=-1:0", "b1,h1,s9,d64,fp32,causal"},
        {"b1,h1,s9,d64,fp32,window=-1:7,causal", "b1,h1,s9,d64,fp32,causal"},
        {"b1,h1,s9,d64,fp32,causal,offset=tl,window=4:0", "b1,h1,s9,d64,fp32,offset=tl,window=4:0"},
        {"b1,h1,s9,d64,bf16,o=fp32,v=bf16,k=fp16", "b1,h1,s9,d64,bf16,k=fp16,o=fp32"},
        {"b1,h1,s9,d64,bf16,bias=1x1:fp32,v=fp16", "b1,h1,s9,d64,bf16,v=fp16,bias=1x1:fp32"},
        {"b1,h1,s9,d64,fp16,bias=bxh:fp16", "b1,h1,s9,d64,fp16,bias=bxh"},
        {"b1,h1,s9,d3,fp16,k=fp32,align=2", "b1,h1,s9,d3,fp16,k=fp32,align=4"},
        {"tf32,strict,seqused,sink,alibi,mask,bias=1xh,window=3:-1,offset=7,causal,fp32,dv8,d4,skv2,sq1,hkv2,h4,b3",
         "b3,h4,hkv2,sq1,skv2,d4,dv8,fp32,offset=7,window=3:0,bias=1xh,mask,alibi,sink,seqused,strict,tf32"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; ++i) {
        attune_problem read;
        char text[ATTUNE_PROBLEM_TEXT_MAX] = "";
        if (attune_problem_parse(examples[i].text, &read) != ATTUNE_OK) {
            fail_msg("%s: %s", examples[i].text, attune_last_detail());
        }
        assert_int_equal(attune_problem_print(&read, text, sizeof text), ATTUNE_OK);
        assert_string_equal(text, examples[i].canonical);
    }
}

static void fields_are_set(void **state)
{
    (void)state;
    attune_problem p;
    assert_int_equal(attune_problem_parse("b3,h4,hkv2,sq10,skv20,d40,dv80,bf16,causal,offset=-7,window=3:5,softcap=2.5,"
                                          "scale=0.5,bias=bx1,mask,alibi,sink,seqused,strict,align=32,varlen=9",
                                          &p),
                     ATTUNE_OK);
    assert_int_equal(p.size, sizeof p);
    assert_int_equal(p.op, ATTUNE_FORWARD);
    assert_int_equal(p.dtype, ATTUNE_BF16);
    assert_int_equal(p.batch, 3);
    assert_int_equal(p.heads_q, 4);
    assert_int_equal(p.heads_kv, 2);
    assert_int_equal(p.seqlen_q, 10);
    assert_int_equal(p.seqlen_kv, 20);
    assert_int_equal(p.head_dim_qk, 40);
    assert_int_equal(p.head_dim_v, 80);
    assert_true(p.scale == 0.5f && p.softcap == 2.5f);
    assert_int_equal(p.window_left, 3);
    assert_int_equal(p.window_right, 0); /* causal, whatever the window says */
    assert_int_equal(p.offset_kind, ATTUNE_OFFSET_NUMBER);
    assert_int_equal(p.offset, -7);
    assert_int_equal(p.layout, ATTUNE_BSHD);
    assert_int_equal(p.bias, ATTUNE_BIAS_BX1);
    assert_int_equal(p.align, 32);
    assert_true(p.mask && p.alibi && p.sink && p.seqused_kv && p.strict && p.varlen);
}

/* The number of `varlen=` is read and printed beside the problem, and is no part of it. */
static void length_seeds(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
        uint64_t length_seed;
    } examples[] = {
        {"varlen=7,b1,h1,s9,d64,fp32", "b1,h1,s9,d64,fp32,varlen=7", 7},
        {"b1,h1,s9,d64,fp32,varlen=0", "b1,h1,s9,d64,fp32,varlen", 0},
        {"b1,h1,s9,d64,fp32,varlen", "b1,h1,s9,d64,fp32,varlen", 0},
        {"b1,h1,s9,d64,fp32,varlen=18446744073709551615", "b1,h1,s9,d64,fp32,varlen=18446744073709551615", UINT64_MAX},
        {"b1,h1,s9,d64,fp32", "b1,h1,s9,d64,fp32", 0},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; ++i) {
        at_test_problem test;
        attune_problem alone;
        char text[ATTUNE_PROBLEM_TEXT_MAX] = "";
        assert_int_equal(at_test_problem_parse(examples[i].text, &test), ATTUNE_OK);
        assert_int_equal(attune_problem_parse(examples[i].text, &alone), ATTUNE_OK);
        assert_true(test.length_seed == examples[i].length_seed);
        assert_true(at_problem_equal(&test.problem, &alone));
        assert_int_equal(at_test_problem_print(&test, text, sizeof text), ATTUNE_OK);
        assert_string_equal(text, examples[i].canonical);
    }
}

static void classes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *class_text;
    } examples[] = {
        {"b1,h8,s512,d64,fp16,causal", "fwd,bh8,g1,sq512,skv512,d64,dv64,fp16,causal"},
        {"b1,h8,s512,d64,fp16,window=-1:0", "fwd,bh8,g1,sq512,skv512,d64,dv64,fp16,causal"},
        {"b1,h8,s512,d64,fp16,causal,window=100:-1", "fwd,bh8,g1,sq512,skv512,d64,dv64,fp16,window=128:0"},
        {"b1,h8,s512,d64,fp16,v=fp32,causal", "fwd,bh8,g1,sq512,skv512,d64,dv64,fp16,v=fp32,causal"},
        {"b3,h3,s513,d64,fp16", "fwd,bh16,g1,sq1024,skv1024,d64,dv64,fp16"},
        {"b1,h32,hkv8,sq1,skv8191,d128,bf16", "fwd,bh32,g4,sq1,skv8192,d128,dv128,bf16"},
        {"b1,h1,sq0,skv3,d4,dv8,fp32,scale=3,softcap=9,offset=12,window=100:-1,varlen=4",
         "fwd,bh1,g1,sq0,skv4,d4,dv8,fp32,offset=n,window=128:-1,softcap,varlen"},
        {"b1,h1,s2,d4,fp32,bias=bxh,mask,alibi,sink,seqused,strict,tf32,align=4,layout=bshd",
         "fwd,bh1,g1,sq2,skv2,d4,dv4,fp32,bias=bxh,mask,alibi,sink,seqused,strict,tf32,align=4,layout=bshd"},
        {"b8,h32,hkv8,sq1,skv8192,d128,bf16,page=24,vtable,seqused",
         "fwd,bh256,g4,sq1,skv8192,d128,dv128,bf16,seqused,page=24,vtable"},
        {"append:b64,h8,sq1,skv4096,d128,bf16,page=16,slots",
         "append,bh512,g1,sq1,skv4096,d128,dv128,bf16,page=16,slots"},
        {"merge:b8,h32,sq16,d128,fp32,states=5", "merge,bh256,g1,sq16,skv0,d128,dv128,fp32,states=8"},
        {"b2147483647,h1048576,hkv1,s1,d1,fp16", "fwd,bh2251799813685248,g1048576,sq1,skv1,d1,dv1,fp16"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; ++i) {
        attune_problem read;
        char text[AT_CLASS_TEXT_MAX];
        if (attune_problem_parse(examples[i].text, &read) != ATTUNE_OK) {
            fail_msg("%s: %s", examples[i].text, attune_last_detail());
        }
        at_problem_class(&read, text);
        assert_string_equal(text, examples[i].class_text);
    }
}

/* ---- Refusals --------------------------------------------------------------------------------------------------- */

static void expect_words(const char *text, char *words)
{
    for (char *word = strsep(&words, "|"); word != NULL; word = strsep(&words, "|")) {
        if (strstr(attune_last_detail(), word) == NULL) {
            fail_msg("'%s': the message lacks '%s': %s", text, word, attune_last_detail());
        }
    }
}

static void bad_texts_are_refused_in_words(void **state)
{
    (void)state;
    char line[1024];
    int count = 0;
    FILE *file = fopen(ATTUNE_SOURCE_DIR "/tests/core/bad_problems.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        attune_problem read;
        char *text = line;
        char *arrow = strstr(line, " -> ");
        if (*text == '#') {
            continue;
        }
        assert_non_null(arrow);
        *arrow = '\0';
        char *words = arrow + strlen(" -> ");
        words[strcspn(words, "\n")] = '\0';
        if (attune_problem_parse(text, &read) != ATTUNE_INVALID_PROBLEM) {
            fail_msg("'%s' was not refused", text);
        }
        expect_words(text, words);
        ++count;
    }
    assert_int_equal(fclose(file), 0);
    assert_true(count > 100);
}

/* A term that is longer than any sensible one is not copied anywhere it does not fit. */
static void long_terms_are_refused(void **state)
{
    (void)state;
    for (size_t length = 80; length < 5000; length += length < 120 ? 1 : 977) {
        char text[5001];
        attune_problem read;
        memset(text, '0', sizeof text);
        memcpy(text, "h1,s1,d1,fp16,b", 15);
        text[length] = '\0';
        text[length - 1] = '1';
        bool fits = length - 14 <= 95;
        assert_int_equal(attune_problem_parse(text, &read), fits ? ATTUNE_OK : ATTUNE_INVALID_PROBLEM);
        assert_true(fits || strstr(attune_last_detail(), "at most 95") != NULL);
    }
}

static void odd_arguments(void **state)
{
    (void)state;
    attune_problem p;
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    attune_problem_init(&p);
    assert_int_equal(attune_problem_parse(NULL, &p), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_problem_parse("", &p), ATTUNE_INVALID_PROBLEM);
    assert_non_null(strstr(attune_last_detail(), "empty text"));
    assert_int_equal(attune_problem_parse("b1,h1,s1,d1,fp16", NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_problem_parse("", &p), ATTUNE_INVALID_PROBLEM);
    assert_int_equal(attune_problem_parse("b1,h1,s1,d1,fp16,\x01\xff", &p), ATTUNE_INVALID_PROBLEM);
    assert_non_null(strstr(attune_last_detail(), "'?"
                                                 "?'"));
    assert_int_equal(attune_problem_print(NULL, text, sizeof text), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_problem_print(&p, NULL, 0), ATTUNE_INVALID_ARGUMENT);
    p.batch = 0;
    assert_int_equal(attune_problem_print(&p, text, sizeof text), ATTUNE_INVALID_PROBLEM);
}

static void print_fits_exactly(void **state)
{
    (void)state;
    attune_problem p;
    char text[64];
    attune_problem_init(&p);
    memset(text, '#', sizeof text);
    size_t needed = sizeof "b1,h1,s0,d64,fp32";
    assert_int_equal(attune_problem_print(&p, text, needed - 1), ATTUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(attune_last_detail(), "18"));
    assert_int_equal(text[0], '#');
    assert_int_equal(attune_problem_print(&p, text, needed), ATTUNE_OK);
    assert_string_equal(text, "b1,h1,s0,d64,fp32");
    assert_int_equal(text[needed], '#');
}

/* The longest values everywhere stay well inside the promised sizes. */
static void longest_text_fits(void **state)
{
    (void)state;
    attune_problem p;
    attune_problem read;
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    char class_text[AT_CLASS_TEXT_MAX];
    attune_problem_init(&p);
    p.dtype = ATTUNE_FP32;
    p.batch = 65536;
    p.heads_q = 131070;
    p.heads_kv = 65535;
    p.seqlen_q = 1000001;
    p.seqlen_kv = 1000002;
    p.head_dim_qk = 199;
    p.head_dim_v = 201;
    p.scale = -1.17549435e-38f;
    p.softcap = 1.17549435e-38f;
    p.window_left = p.window_right = AT_DIM_MAX;
    p.offset_kind = ATTUNE_OFFSET_NUMBER;
    p.offset = -AT_DIM_MAX;
    p.align = 256;
    p.alibi = p.sink = p.seqused_kv = p.strict = p.varlen = p.page_table_v = p.tf32 = 1;
    p.page_size = AT_PAGE_MAX;
    p.bias = ATTUNE_BIAS_1XH;
    p.layout = ATTUNE_BSHD;
    const at_test_problem test = {p, UINT64_MAX};
    assert_int_equal(at_test_problem_print(&test, text, sizeof text), ATTUNE_OK);
    assert_true(strlen(text) < ATTUNE_PROBLEM_TEXT_MAX / 2 + 64);
    assert_int_equal(attune_problem_parse(text, &read), ATTUNE_OK);
    assert_true(at_problem_equal(&p, &read));
    at_problem_class(&p, class_text);
    assert_true(strlen(class_text) < AT_CLASS_TEXT_MAX - 1);
    assert_non_null(strstr(class_text, ",varlen"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_and_parses_back),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(canonical_forms),
        cmocka_unit_test(fields_are_set),
        cmocka_unit_test(length_seeds),
        cmocka_unit_test(classes),
        cmocka_unit_test(bad_texts_are_refused_in_words),
        cmocka_unit_test(long_terms_are_refused),
        cmocka_unit_test(odd_arguments),
        cmocka_unit_test(print_fits_exactly),
        cmocka_unit_test(longest_text_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
