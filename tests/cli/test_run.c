/* attune run, from files to files: what it computes, and what it says of files that cannot be. */
#include "base/cm.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/half.h"
#include "base/random.h"
#include "cli/npy.h"
#include "cli/safetensors.h"
#include "command.h"

static folder home;
static char paths[16][PATH_MAX]; /* of the files of one test */
static int path_count;

static int set_up(void **state)
{
    (void)state;
    path_count = 0;
    at_file_resume();
    (void)setenv("ATTUNE_TARGET", "cpu", 1);
    return folder_make(&home);
}

static int tear_down(void **state)
{
    (void)state;
    at_file_resume();
    folder_remove(&home);
    return 0;
}

/* A path in the test's folder that lasts as long as the test. */
static const char *in_home(const char *name)
{
    assert_true(path_count < 16);
    return folder_path(&home, name, paths[path_count++]);
}

enum { ROOM = 1 << 16 };

/* An array of reproducible normal numbers; `room` holds its elements. */
static at_array normal(int32_t dtype, int32_t rank, const int64_t *shape, uint64_t seed, void *room)
{
    at_array array = {.dtype = dtype, .rank = rank, .data = room};
    memcpy(array.shape, shape, sizeof *shape * (size_t)rank);
    assert_ok(at_array_size("test", shape, rank, at_array_element(dtype), &array.bytes));
    assert_true(array.bytes <= ROOM);
    at_random random = at_random_seed(seed, 0);
    for (size_t i = 0; i < array.bytes / at_array_element(dtype); i++) {
        float value = (float)at_random_normal(&random);
        uint16_t narrow = dtype == ATTUNE_FP16 ? at_fp16_from_float(value) : at_bf16_from_float(value);
        if (dtype == ATTUNE_FP32) {
            memcpy((char *)room + 4 * i, &value, 4);
        } else {
            memcpy((char *)room + 2 * i, &narrow, 2);
        }
    }
    return array;
}

/* Writes such an array as a .npy file. */
static const char *npy(const char *name, int32_t dtype, int32_t rank, const int64_t *shape, uint64_t seed)
{
    static unsigned char room[ROOM];
    const at_array array = normal(dtype, rank, shape, seed, room);
    const char *path = in_home(name);
    assert_ok(at_npy_write(path, &array));
    return path;
}

#define NPY(name, dtype, seed, ...)                                                                                    \
    npy(name, dtype, (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__},    \
        seed)

static const char *npy_of(const char *name, int32_t dtype, int64_t count, const void *data)
{
    const at_array array = {dtype, 1, {count}, data, (size_t)count * at_array_element(dtype)};
    const char *path = in_home(name);
    assert_ok(at_npy_write(path, &array));
    return path;
}

static at_array read_back(const char *path, void **file)
{
    const at_npy_options options = {.v2_is_bf16 = true};
    at_array array;
    assert_ok(at_npy_read(path, &options, file, &array));
    return array;
}

static float float_at(const at_array *array, size_t index)
{
    float value;
    memcpy(&value, (const char *)array->data + 4 * index, sizeof value);
    return value;
}

/* The command ends well and says all of these words. */
static void assert_good(outcome result, const char *words)
{
    if (result.code != AT_EXIT_OK || strstr(result.out, words) == NULL || result.err[0] != '\0') {
        fail_msg("exit code %d, \"%s\" wanted in:\n%s%s", result.code, words, result.out, result.err);
    }
    outcome_free(&result);
}

/* The command is refused with this exit code and these words, and prints no result. */
static void assert_bad(outcome result, int code, const char *words)
{
    if (result.code != code || strstr(result.err, words) == NULL || result.out[0] != '\0') {
        fail_msg("exit code %d, expected %d and \"%s\" in:\n%s%s", result.code, code, words, result.out, result.err);
    }
    outcome_free(&result);
}

/* ---- What it computes ------------------------------------------------------------------------------------------- */

static void tensors_become_outputs(void **state)
{
    (void)state;
    static const int32_t dtypes[] = {ATTUNE_FP32, ATTUNE_FP16, ATTUNE_BF16};
    static const char *const problems[] = {"b2,h4,hkv2,sq5,skv7,d24,dv16,fp32", "b2,h4,hkv2,sq5,skv7,d24,dv16,fp16",
                                           "b2,h4,hkv2,sq5,skv7,d24,dv16,bf16"};
    const char *out = in_home("o.npy"), *lse = in_home("lse.npy");
    for (int i = 0; i < 3; i++) {
        path_count = 2;
        const char *q = NPY("q.npy", dtypes[i], 1, 2, 4, 5, 24), *k = NPY("k.npy", dtypes[i], 2, 2, 2, 7, 24);
        const char *v = NPY("v.npy", dtypes[i], 3, 2, 2, 7, 16);
        assert_good(COMMAND("run", "--q", q, "--k", k, "--v", v, "--out", out, "--lse", lse, "--bf16", "--check"),
                    problems[i]);
        void *file;
        at_array array = read_back(out, &file);
        assert_int_equal(array.dtype, dtypes[i]);
        assert_int_equal(array.rank, 4);
        assert_memory_equal(array.shape, ((int64_t[]){2, 4, 5, 16}), 4 * sizeof(int64_t));
        free(file);
        array = read_back(lse, &file);
        assert_int_equal(array.dtype, ATTUNE_FP32);
        assert_int_equal(array.rank, 3);
        assert_memory_equal(array.shape, ((int64_t[]){2, 4, 5}), 3 * sizeof(int64_t));
        assert_true(isfinite(float_at(&array, 39)));
        free(file);
    }
    assert_int_equal(folder_count(&home), 5); /* no temporary is left */
}

static void fewer_dimensions_are_one_batch_or_head(void **state)
{
    (void)state;
    const char *q = NPY("q3.npy", ATTUNE_FP32, 1, 2, 5, 8), *k = NPY("k3.npy", ATTUNE_FP32, 2, 2, 7, 8);
    const char *q2 = NPY("q2.npy", ATTUNE_FP32, 1, 5, 8), *k2 = NPY("k2.npy", ATTUNE_FP32, 2, 7, 8);
    const char *out = in_home("o.npy");
    assert_good(COMMAND("run", "--q", q, "--k", k, "--v", k, "--out", out, "--check"), "[2, 5, 8]");
    assert_good(COMMAND("run", "--q", q2, "--k", k2, "--v", k2, "--out", out, "--check"), "b1,h1,sq5,skv7,d8,fp32");
    assert_good(COMMAND("run", "--q", q, "--k", q, "--v", q, "--layout", "bshd"), "b1,h5,s2,d8,fp32,layout=bshd");
}

enum { HEADS = 3, ROWS = 6, WIDTH = 8 };

/* Where element i of [heads, rows, width] lies in [rows, heads, width]. */
static size_t across(size_t i)
{
    size_t head = i / (ROWS * WIDTH), row = i / WIDTH % ROWS;
    return (row * HEADS + head) * WIDTH + i % WIDTH;
}

/* Both layouts hold the same numbers, so both give the same results, elsewhere. */
static void layouts_agree(void **state)
{
    (void)state;
    static unsigned char room[ROOM];
    static float turned[ROOM / 4];
    static const char *const names[] = {"q.npy", "k.npy", "v.npy"}, *const names2[] = {"q2.npy", "k2.npy", "v2.npy"};
    const char *straight[3], *crossed[3], *out = in_home("o.npy"), *out2 = in_home("o2.npy");
    for (int t = 0; t < 3; t++) {
        at_array array = normal(ATTUNE_FP32, 4, (const int64_t[]){1, HEADS, ROWS, WIDTH}, (uint64_t)t, room);
        straight[t] = in_home(names[t]);
        assert_ok(at_npy_write(straight[t], &array));
        for (size_t i = 0; i < HEADS * ROWS * WIDTH; i++) {
            turned[across(i)] = float_at(&array, i);
        }
        crossed[t] = in_home(names2[t]);
        array = (at_array){ATTUNE_FP32, 4, {1, ROWS, HEADS, WIDTH}, turned, array.bytes};
        assert_ok(at_npy_write(crossed[t], &array));
    }
    assert_good(COMMAND("run", "--q", straight[0], "--k", straight[1], "--v", straight[2], "--out", out, "--causal"),
                "b1,h3,s6,d8,fp32,causal");
    assert_good(COMMAND("run", "--q", crossed[0], "--k", crossed[1], "--v", crossed[2], "--out", out2, "--causal",
                        "--layout", "bshd", "--check"),
                "layout=bshd");
    void *a_file, *b_file;
    at_array a = read_back(out, &a_file), b = read_back(out2, &b_file);
    for (size_t i = 0; i < HEADS * ROWS * WIDTH; i++) {
        assert_true(fabsf(float_at(&a, i) - float_at(&b, across(i))) < 1e-6f);
    }
    free(a_file);
    free(b_file);
}

/* The first row of a top-left causal mask sees one key, and so is the first value. */
static void causal_from_the_top_left(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP32, 1, 4, 8), *k = NPY("k.npy", ATTUNE_FP32, 2, 9, 8);
    const char *v = NPY("v.npy", ATTUNE_FP32, 3, 9, 8), *out = in_home("o.npy");
    assert_good(COMMAND("run", "--q", q, "--k", k, "--v", v, "--out", out, "--causal", "--offset", "tl"), "offset=tl");
    assert_good(
        COMMAND("run", "--q", q, "--k", k, "--v", v, "--out", out, "--causal", "--offset", "tl", "--tf32", "--check"),
        "offset=tl,tf32");
    void *o_file, *v_file;
    at_array o = read_back(out, &o_file), values = read_back(v, &v_file);
    assert_memory_equal(o.data, values.data, 8 * sizeof(float));
    assert_true(memcmp((const char *)o.data + 32, (const char *)values.data + 32, 32) != 0);
    free(o_file);
    free(v_file);
}

static void every_feature_is_right(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP16, 1, 2, 4, 33, 32), *k = NPY("k.npy", ATTUNE_FP16, 2, 2, 2, 70, 32);
    const char *v = NPY("v.npy", ATTUNE_FP16, 3, 2, 2, 70, 32);
    const char *bias = NPY("bias.npy", ATTUNE_FP16, 4, 4, 33, 70), *slopes = NPY("slopes.npy", ATTUNE_FP32, 5, 4);
    const char *sink = NPY("sink.npy", ATTUNE_FP32, 6, 4);
    const char *used = npy_of("used.npy", ATTUNE_INT32, 2, (const int32_t[]){70, 13});
    static unsigned char seen[2 * 70];
    for (size_t i = 0; i < sizeof seen; i++) {
        seen[i] = i % 3 != 0;
    }
    const at_array mask = {ATTUNE_BOOL, 4, {2, 1, 1, 70}, seen, sizeof seen};
    const char *mask_path = in_home("mask.npy");
    assert_ok(at_npy_write(mask_path, &mask));
#define RUN(...) COMMAND("run", "--q", q, "--k", k, "--v", v, "--check", __VA_ARGS__)
    assert_good(RUN("--causal", "--scale", "0.25", "--softcap", "30"), "causal,softcap=30,scale=0.25");
    assert_good(RUN("--window", "16:-1", "--offset", "-3"), "offset=-3,window=16:-1");
    assert_good(RUN("--bias", bias), "bias=1xh");
    assert_good(RUN("--mask", mask_path), "mask");
    assert_good(RUN("--alibi", slopes, "--sink", sink), "alibi,sink");
    assert_good(RUN("--seqused", used, "--causal"), "causal,seqused");
    assert_good(RUN("--strict", "--threads", "1", "--isa", "baseline"), "baseline,threads=1");
#undef RUN
}

static void packed_sequences(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP32, 1, 12, 4, 16), *k = NPY("k.npy", ATTUNE_FP32, 2, 20, 2, 16);
    const char *cu_q = npy_of("cu_q.npy", ATTUNE_INT32, 4, (const int32_t[]){0, 5, 5, 12});
    const char *cu_kv = npy_of("cu_kv.npy", ATTUNE_INT32, 4, (const int32_t[]){0, 9, 11, 20});
    const char *used = npy_of("used.npy", ATTUNE_INT32, 3, (const int32_t[]){9, 1, 4});
    const char *out = in_home("o.npy"), *lse = in_home("lse.npy");
    assert_good(COMMAND("run", "--q", q, "--k", k, "--v", k, "--cu-q", cu_q, "--cu-kv", cu_kv, "--causal", "--check",
                        "--out", out, "--lse", lse),
                "b3,h4,hkv2,sq7,skv9,d16,fp32,causal");
    void *file;
    at_array array = read_back(lse, &file);
    assert_int_equal(array.rank, 2);
    assert_memory_equal(array.shape, ((int64_t[]){4, 12}), 2 * sizeof(int64_t));
    free(file);
    assert_good(
        COMMAND("run", "--q", q, "--k", k, "--v", k, "--cu-q", cu_q, "--cu-kv", cu_kv, "--seqused", used, "--check"),
        "seqused");
}

/* ---- Safetensors ------------------------------------------------------------------------------------------------ */

static unsigned char rooms[3][ROOM];

/* x.safetensors with q, K, V and one array more, in fp32 [2, 3, 4, 8]. */
static const char *write_roles(const char *more)
{
    const int64_t shape[] = {2, 3, 4, 8};
    const at_named_array tensors[] = {
        {"q", NULL, normal(ATTUNE_FP32, 4, shape, 1, rooms[0])},
        {"K", NULL, normal(ATTUNE_FP32, 4, shape, 2, rooms[1])},
        {"V", NULL, normal(ATTUNE_FP32, 4, shape, 3, rooms[2])},
        {more, NULL, {ATTUNE_INT32, 1, {2}, (const int32_t[]){4, 2}, 8}},
    };
    const char *path = in_home("x.safetensors");
    assert_ok(at_safetensors_write(path, tensors, 4, NULL, 0));
    return path;
}

static void roles_are_found_by_name(void **state)
{
    (void)state;
    const char *in = write_roles("used_kv"), *out = in_home("y.safetensors");
    assert_good(COMMAND("run", "--in", in, "--out", out, "--check"), "b2,h3,s4,d8,fp32,seqused");
    at_safetensors *tensors;
    assert_ok(at_safetensors_read(out, &tensors));
    assert_int_equal(at_safetensors_count(tensors), 2);
    assert_int_equal(at_safetensors_find(tensors, "O")->array.rank, 4);
    assert_int_equal(at_safetensors_find(tensors, "LSE")->array.rank, 3);
    assert_string_equal(at_safetensors_metadata(tensors, "problem"), "b2,h3,s4,d8,fp32,seqused");
    assert_non_null(at_safetensors_metadata(tensors, "kernel"));
    at_safetensors_destroy(tensors);
    assert_bad(COMMAND("run", "--in", out), AT_EXIT_USAGE, "Q is missing: give --q FILE, or --in FILE with a tensor Q");
}

static void options_go_before_the_file(void **state)
{
    (void)state;
    const char *in = write_roles("other");
    const char *v = NPY("v.npy", ATTUNE_FP32, 9, 2, 3, 4, 16);
    char named[PATH_MAX + 8];
    (void)snprintf(named, sizeof named, "%s:K", in);
    assert_good(COMMAND("run", "--in", in, "--v", v), "b2,h3,s4,d8,dv16,fp32");
    assert_good(COMMAND("run", "--in", in, "--v", named), "b2,h3,s4,d8,fp32");
    (void)snprintf(named, sizeof named, "%s:other", in);
    assert_good(COMMAND("run", "--in", in, "--seqused", named, "--check"), "seqused");
}

static void results_are_compared(void **state)
{
    (void)state;
    const char *in = write_roles("other"), *out = in_home("y.safetensors");
    char named[PATH_MAX + 8];
    assert_good(COMMAND("run", "--in", in, "--out", out), "b2");
    assert_good(COMMAND("run", "--in", in, "--compare", out),
                "tensor \"O\"\n  this O             max |difference| 0.00e+00   relative L2 0.00e+00\n");
    (void)snprintf(named, sizeof named, "%s:V", in);
    outcome apart = COMMAND("run", "--in", in, "--compare", named, "--format", "tsv");
    assert_int_equal(apart.code, AT_EXIT_OK);
    assert_memory_equal(apart.out, "problem\ttarget\tkernel\torigin\ttime_us\tgflops\tmax_error", 51);
    outcome_free(&apart);
    (void)snprintf(named, sizeof named, "%s:LSE", out);
    assert_bad(COMMAND("run", "--in", in, "--compare", named), AT_EXIT_USAGE,
               "its shape is [2, 3, 4], O has [2, 3, 4, 8]");
    (void)snprintf(named, sizeof named, "%s:no", out);
    assert_bad(COMMAND("run", "--in", in, "--compare", named), AT_EXIT_USAGE, "has no tensor \"no\"");
}

static void the_real_layer_agrees(void **state)
{
    (void)state;
    const char *layer = ATTUNE_SOURCE_DIR "/examples/data/minilm_layer.safetensors";
    outcome result = COMMAND("run", "--in", layer, "--compare", layer, "--check", "--format", "json");
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_non_null(strstr(result.out, "\"verdict\": \"right\""));
    outcome_free(&result);
}

/* ---- What cannot be --------------------------------------------------------------------------------------------- */

static void files_that_disagree(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP32, 1, 2, 4, 5, 8);
    static const struct {
        int32_t dtype;
        int64_t k[5], v[5]; /* rank first */
        const char *words;
    } cases[] = {
        {ATTUNE_FP32, {4, 1, 4, 5, 8}, {4, 1, 4, 5, 8}, "k.npy: its batch is 1, Q (/tmp/"},
        {ATTUNE_FP32, {4, 2, 4, 5, 16}, {4, 2, 4, 5, 8}, "k.npy: its head dim is 16, Q"},
        {ATTUNE_FP32, {4, 2, 3, 5, 8}, {4, 2, 3, 5, 8}, "q.npy: has 4 heads, K"},
        {ATTUNE_FP32, {4, 2, 4, 5, 8}, {4, 2, 2, 5, 8}, "v.npy: its number of heads is 2, K"},
        {ATTUNE_FP32, {4, 2, 4, 5, 8}, {4, 2, 4, 6, 8}, "v.npy: its sequence length is 6, K"},
        {ATTUNE_FP32, {3, 4, 5, 8}, {3, 4, 5, 8}, "k.npy: its number of dimensions is 3, Q"},
        {ATTUNE_FP32, {1, 8}, {1, 8}, "k.npy: its shape is [8], expected [batch, heads, seq, dim]"},
        {ATTUNE_FP32, {4, 2, 4, 5, 8}, {4, 2, 4, 5, 300}, "v.npy: its head dim is 300, allowed are 1 ... 256"},
        {ATTUNE_FP16, {4, 2, 4, 5, 8}, {4, 2, 4, 5, 8}, "k.npy: its dtype is fp16, expected fp32, as Q has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        path_count = 1;
        const char *k = npy("k.npy", cases[i].dtype, (int32_t)cases[i].k[0], cases[i].k + 1, 2);
        const char *v = npy("v.npy", cases[i].dtype, (int32_t)cases[i].v[0], cases[i].v + 1, 3);
        assert_bad(COMMAND("run", "--q", q, "--k", k, "--v", v), AT_EXIT_USAGE, cases[i].words);
    }
}

static void features_that_disagree(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP32, 1, 2, 4, 5, 8), *f = NPY("f.npy", ATTUNE_FP32, 4, 3);
    const char *f2 = NPY("f2.npy", ATTUNE_FP32, 4, 3, 5, 5), *i2 = npy_of("i2.npy", ATTUNE_INT32, 2, (int32_t[]){5, 6});
    const char *h = NPY("h.npy", ATTUNE_FP16, 4, 5, 5);
#define RUN(...) COMMAND("run", "--q", q, "--k", q, "--v", q, __VA_ARGS__)
    assert_bad(RUN("--alibi", f), AT_EXIT_USAGE, "f.npy: its shape is [3], expected [heads], one slope a head");
    assert_bad(RUN("--sink", i2), AT_EXIT_USAGE, "i2.npy: its dtype is int32, expected fp32");
    assert_bad(RUN("--seqused", i2), AT_EXIT_USAGE, "i2.npy: number 1 is 6, allowed are 0 ... 5");
    assert_bad(RUN("--bias", f2), AT_EXIT_USAGE,
               "f2.npy: its shape is [3, 5, 5], expected [1 or batch, 1 or heads, seqlen_q, seqlen_kv] = [2, 4, 5, 5]");
    assert_bad(RUN("--bias", h), AT_EXIT_USAGE, "h.npy: its dtype is fp16, expected fp32, as Q has");
    assert_bad(RUN("--mask", q), AT_EXIT_USAGE, "q.npy: its dtype is fp32, expected bool");
    assert_bad(RUN("--cu-q", i2), AT_EXIT_USAGE, "CU_Q is given but CU_KV is not");
    assert_bad(RUN("--softcap", "0"), AT_EXIT_USAGE, "--softcap is 0, expected a number above 0");
    assert_bad(RUN("--scale", "nan"), AT_EXIT_USAGE, "--scale is \"nan\", expected a decimal number");
    assert_bad(RUN("--scale", "0"), AT_EXIT_USAGE, "--scale is 0");
    assert_bad(RUN("--window", "8"), AT_EXIT_USAGE, "--window is 8, expected LEFT:RIGHT");
    assert_bad(RUN("--window", "-2:0"), AT_EXIT_USAGE, "left side of --window is -2, allowed are -1");
    assert_bad(RUN("--offset", "middle"), AT_EXIT_USAGE, "neither tl nor br");
    assert_bad(RUN("--layout", "bsdh"), AT_EXIT_USAGE, "bsdh");
    assert_bad(RUN("extra.npy"), AT_EXIT_USAGE, "\"extra.npy\" is no option");
    assert_bad(RUN("--kernel", "no_such"), AT_EXIT_USAGE, "no_such");
#undef RUN
}

static void packed_sequences_that_disagree(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP32, 1, 12, 4, 16);
    const char *good = npy_of("good.npy", ATTUNE_INT32, 3, (int32_t[]){0, 5, 12});
    static const struct {
        int64_t count;
        int32_t cu[4];
        const char *words;
    } cases[] = {
        {3, {0, 13, 12}, "bad.npy: decreases from 13 to 12 at index 2"},
        {3, {1, 5, 12}, "bad.npy: begins with 1, expected 0"},
        {3, {0, 5, 11}, "bad.npy: ends with 11, expected the 12 rows of"},
        {3, {0, 5, 2147483647}, "bad.npy: ends with 2147483647"},
        {4, {0, 5, 6, 12}, "bad.npy: its shape is [4], expected as many numbers as CU_Q"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        path_count = 2;
        const char *bad = npy_of("bad.npy", ATTUNE_INT32, cases[i].count, cases[i].cu);
        assert_bad(COMMAND("run", "--q", q, "--k", q, "--v", q, "--cu-q", good, "--cu-kv", bad), AT_EXIT_USAGE,
                   cases[i].words);
    }
    const char *one = npy_of("one.npy", ATTUNE_INT32, 1, (int32_t[]){0});
    assert_bad(COMMAND("run", "--q", q, "--k", q, "--v", q, "--cu-q", one, "--cu-kv", one), AT_EXIT_USAGE,
               "one.npy: its shape is [1], expected [batch + 1]");
    assert_bad(COMMAND("run", "--q", q, "--k", q, "--v", q, "--cu-q", good, "--cu-kv", good, "--layout", "bhsd"),
               AT_EXIT_USAGE, "--layout is bhsd, but packed sequences");
    const char *used = npy_of("used.npy", ATTUNE_INT32, 2, (int32_t[]){6, 1});
    assert_bad(COMMAND("run", "--q", q, "--k", q, "--v", q, "--cu-q", good, "--cu-kv", good, "--seqused", used),
               AT_EXIT_USAGE, "used.npy: number 0 is 6, allowed are 0 ... 5");
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP32, 1, 5, 8), *junk = in_home("junk.npy"), *text = in_home("q.txt");
    assert_ok(at_file_write(junk, "junk", 4));
    assert_bad(COMMAND("run"), AT_EXIT_USAGE, "Q is missing");
    assert_bad(COMMAND("run", "--q", q, "--k", q), AT_EXIT_USAGE, "V is missing: give --v FILE");
    assert_bad(COMMAND("run", "--q", in_home("no.npy"), "--k", q, "--v", q), AT_EXIT_USAGE, "no.npy: cannot be opened");
    assert_bad(COMMAND("run", "--q", junk, "--k", q, "--v", q), AT_EXIT_USAGE, "junk.npy: is no .npy file");
    assert_bad(COMMAND("run", "--q", text, "--k", q, "--v", q), AT_EXIT_USAGE, "ends in neither .npy nor .safetensors");
    assert_bad(COMMAND("run", "--in", q), AT_EXIT_USAGE, "--in takes a .safetensors file");
    assert_bad(COMMAND("run", "--in", ATTUNE_SOURCE_DIR "/tests/fuzz/corpus/safetensors/overlap.safetensors"),
               AT_EXIT_USAGE, "begins at 4, inside \"a\"");
    char wide[PATH_MAX];
    (void)snprintf(wide, sizeof wide, "%s/tests/fuzz/corpus/safetensors/roles.safetensors:x", ATTUNE_SOURCE_DIR);
    assert_bad(COMMAND("run", "--q", wide, "--k", q, "--v", q), AT_EXIT_USAGE, "its type is F64, attune reads F32");
    const at_array one = {ATTUNE_FP32, 2, {1, 1}, "1234", 4};
    const at_named_array twins[] = {
        {"q", NULL, one}, {"k", NULL, one}, {"K", NULL, one}, {"v", NULL, one}, {"V2", NULL, one}};
    const char *both = in_home("both.safetensors");
    assert_ok(at_safetensors_write(both, twins, 5, NULL, 0));
    assert_good(COMMAND("run", "--in", both), "b1,h1,s1,d1,fp32"); /* "K" is exact; V2 is nobody's */
    const at_named_array more[] = {{"Q", NULL, one}, {"K", NULL, one}, {"Sink", NULL, one}, {"sinK", NULL, one}};
    assert_ok(at_safetensors_write(both, more, 4, NULL, 0));
    assert_bad(COMMAND("run", "--in", both, "--v", q), AT_EXIT_USAGE, "called SINK but for upper and lower case");
}

/* Whatever name leads to them. */
static void inputs_are_not_replaced(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP32, 1, 5, 8), *link = in_home("link.npy");
    const at_array one = {ATTUNE_FP32, 2, {1, 1}, "1234", 4};
    const at_named_array tensors[] = {{"Q", NULL, one}, {"K", NULL, one}, {"V", NULL, one}};
    const char *in = in_home("in.safetensors");
    char named[PATH_MAX];
    assert_int_equal(symlink(q, link), 0);
    assert_ok(at_safetensors_write(in, tensors, 3, NULL, 0));
    (void)snprintf(named, sizeof named, "%s:Q", in);
    assert_bad(COMMAND("run", "--q", q, "--k", q, "--v", q, "--out", link), AT_EXIT_USAGE, "which --q reads");
    assert_bad(COMMAND("run", "--in", in, "--lse", in), AT_EXIT_USAGE, "--lse is");
    assert_bad(COMMAND("run", "--q", named, "--k", q, "--v", q, "--out", in), AT_EXIT_USAGE, "it would be replaced");
    assert_good(COMMAND("run", "--in", in, "--compare", named), "Against the given O");
}

static void outputs_that_cannot_be_written(void **state)
{
    (void)state;
    const char *q = NPY("q.npy", ATTUNE_FP32, 1, 5, 8), *full = in_home("full.npy"), *out = in_home("o.npy");
    const char *full_st = in_home("full.safetensors");
    assert_int_equal(symlink("/dev/full", full), 0);
    assert_int_equal(symlink("/dev/full", full_st), 0);
#define RUN(...) COMMAND("run", "--q", q, "--k", q, "--v", q, __VA_ARGS__)
    assert_bad(RUN("--out", full), AT_EXIT_FAILED, "cannot be written: No space left on device");
    assert_bad(RUN("--out", full_st), AT_EXIT_FAILED, "cannot be written: No space left on device");
    assert_bad(RUN("--lse", full), AT_EXIT_FAILED, "cannot be written: No space left on device");
    assert_bad(RUN("--out", in_home("no/o.npy")), AT_EXIT_USAGE, "its directory does not exist");
    assert_bad(RUN("--out", in_home("o.txt")), AT_EXIT_USAGE, "--out is");
    assert_bad(RUN("--out", out, "--lse", out), AT_EXIT_USAGE, "one would replace the other");
    assert_ok(at_file_write(out, "old", 3));
    at_file_interrupt();
    assert_bad(RUN("--out", out), AT_EXIT_INTERRUPTED, "interrupted");
    at_file_resume();
#undef RUN
    void *content;
    size_t bytes;
    assert_ok(at_file_read(out, 10, &content, &bytes));
    assert_int_equal(bytes, 3);
    free(content);
    assert_int_equal(folder_count(&home), 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tensors_become_outputs),
        TEST(fewer_dimensions_are_one_batch_or_head),
        TEST(layouts_agree),
        TEST(causal_from_the_top_left),
        TEST(every_feature_is_right),
        TEST(packed_sequences),
        TEST(roles_are_found_by_name),
        TEST(options_go_before_the_file),
        TEST(results_are_compared),
        TEST(the_real_layer_agrees),
        TEST(files_that_disagree),
        TEST(features_that_disagree),
        TEST(packed_sequences_that_disagree),
        TEST(files_that_cannot_be_read),
        TEST(inputs_are_not_replaced),
        TEST(outputs_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
