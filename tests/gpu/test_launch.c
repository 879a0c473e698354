/* The CUDA target on a real device: that what the host hands over arrives, and that mistakes are reported. */
#include <math.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/half.h"
#include "base/status.h"
#include "core/plan.h"
#include "cuda/device.h"
#include "cuda/fixture.h"
#include "cuda/graph.h"
#include "cuda/image.h"
#include "cuda/image_without_cubins.h"
#include "library/catalogue.h"
#include "measure/clock.h"

enum { BATCH = 2, HEADS = 4, HEADS_KV = 2, ROWS = 64, DIM = 64, ELEMENTS = BATCH * HEADS * ROWS * DIM };

static at_device *device;

static int open_device(void **state)
{
    (void)state;
    if (at_cuda_open(0, "", NULL, &device) != ATTUNE_OK) {
        print_error("%s\n", attune_last_detail());
        return -1;
    }
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    if (device != NULL) {
        device->ops->close(device);
    }
    return 0;
}

static int forget(void **state)
{
    (void)state;
    fixture = (fixture_says){.threads = 128, .cluster = 1, .entry = "entry"};
    return 0;
}

/* ---- A kernel, its buffers and a call ---- */

typedef struct subject {
    attune_problem problem;
    at_loaded *loaded;
    attune_plan *plan;
    attune_call call;
    void *buffer[ATTUNE_O + 1];
    void *workspace;
    uint16_t host[ATTUNE_O + 1][ELEMENTS];
} subject;

/* Small integers, so that sums are exact. */
static void draw(subject *with)
{
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        for (int i = 0; i < ELEMENTS; ++i) {
            with->host[role][i] = at_fp16_from_float((float)((i * 7 + role * 3 + i / 64) % 9 - 4));
        }
        assert_ok(device->ops->allocate(device, sizeof with->host[role], &with->buffer[role]));
        assert_ok(device->ops->upload(device, with->buffer[role], with->host[role], sizeof with->host[role]));
        with->call.tensor[role].data = with->buffer[role];
    }
}

/* A call of what was loaded for the problem, which belongs to the subject from now on. */
static subject *bound(const char *problem, at_loaded *loaded)
{
    size_t bytes = 0;
    subject *with = calloc(1, sizeof *with);
    assert_non_null(with);
    with->loaded = loaded;
    assert_ok(attune_problem_parse(problem, &with->problem));
    assert_ok(at_plan_bind(&with->problem, with->loaded, AT_ORIGIN_NAMED, &with->plan));
    assert_ok(attune_call_init(&with->call, &with->problem));
    draw(with);
    assert_ok(attune_plan_workspace(with->plan, &with->call, &bytes));
    assert_ok(device->ops->allocate(device, bytes, &with->workspace));
    with->call.workspace = with->workspace;
    with->call.workspace_bytes = bytes;
    return with;
}

static subject *made(const char *text, const char *source)
{
    attune_problem problem;
    at_loaded *loaded = NULL;
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(fixture_load(device, &problem, source, &loaded));
    return bound(text, loaded);
}

static void done(subject *with)
{
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        device->ops->release(device, with->buffer[role]);
    }
    device->ops->release(device, with->workspace);
    attune_plan_destroy(with->plan);
    device->ops->unload(with->loaded);
    free(with);
}

static void read_back(const void *from, void *to, size_t bytes)
{
    assert_ok(device->ops->synchronise(device, NULL));
    assert_ok(device->ops->download(device, to, from, bytes));
}

/* ---- What arrives ---- */

static const char tells[] = FIXTURE_ENTRY(
    "float *out = static_cast<float *>(args.tensor[ATTUNE_O].data);\n"
    "if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {\n"
    "    out[0] = args.scale; out[1] = args.batch * 1000 + args.heads_q; out[2] = args.param[0] * 10 + TEST_PARAM;\n"
    "    out[3] = gridDim.x; out[4] = blockDim.x; out[5] = static_cast<unsigned *>(args.workspace)[64] == "
    "0xa5a5a5a5u;\n"
    "    out[6] = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_HEAD]; out[7] = args.size >= sizeof(attune_args);\n}");

static void the_argument_arrives(void **state)
{
    float got[8];
    (void)state;
    fixture.fill = 1;
    subject *with = made("b2,h4,hkv2,s64,d64,fp16,scale=0.75", tells);
    assert_ok(attune_plan_execute(with->plan, &with->call));
    read_back(with->buffer[ATTUNE_O], got, sizeof got);
    assert_true(got[0] == 0.75F);
    assert_true(got[1] == 2004);
    assert_true(got[2] == 77);
    assert_true(got[3] == 8);
    assert_true(got[4] == 128);
    assert_true(got[5] == 1);
    assert_true(got[6] == ROWS * DIM);
    assert_true(got[7] == 1);
    done(with);
}

static const char clustered[] = FIXTURE_ENTRY(
    "unsigned rank, size; asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(rank)); "
    "asm(\"mov.u32 %0, %%cluster_nctarank;\" : \"=r\"(size));\n"
    "if (threadIdx.x == 0) static_cast<float *>(args.tensor[ATTUNE_O].data)[blockIdx.x] = rank + 100 * size;");

static void clusters_are_formed(void **state)
{
    float got[8];
    (void)state;
    if (device->target.arch < 90) {
        skip();
    }
    fixture.cluster = 4;
    fixture.programmatic = 1;
    subject *with = made("b2,h4,hkv2,s64,d64,fp16", clustered);
    assert_ok(attune_plan_execute(with->plan, &with->call));
    read_back(with->buffer[ATTUNE_O], got, sizeof got);
    for (int i = 0; i < 8; ++i) {
        assert_true(got[i] == (float)(400 + i % 4));
    }
    done(with);
}

static void most_shared_memory(void **state)
{
    static const char source[] =
        FIXTURE_ENTRY("extern __shared__ float big[]; big[threadIdx.x * (ATTUNE_SMEM_BYTES / 512)] = args.scale;\n"
                      "__syncthreads(); static_cast<float *>(args.tensor[ATTUNE_O].data)"
                      "[threadIdx.x] = big[(127 - threadIdx.x) * (ATTUNE_SMEM_BYTES / 512)];");
    float got = 0.0F;
    (void)state;
    fixture.dynamic_bytes = fixture.smem_bytes = device->target.smem_optin_bytes;
    subject *with = made("b2,h4,hkv2,s64,d64,fp16,scale=0.25", source);
    assert_ok(attune_plan_execute(with->plan, &with->call));
    read_back(with->buffer[ATTUNE_O], &got, sizeof got);
    assert_true(got == 0.25F);
    done(with);
}

/* ---- Tensor maps ----------------------------------------------------------------------------------------------------
 */

enum { BOX_ROWS = 16, FIRST_ROW = 56 };

static const char copies_a_tile[] =
    "#include \"attune/args.h\"\n"
    "extern \"C\" __global__ void __launch_bounds__(128) entry(const __grid_constant__ attune_args args)\n{\n"
    "__shared__ alignas(128) unsigned short tile[16 * 64]; __shared__ alignas(8) unsigned long long full;\n"
    "unsigned to = __cvta_generic_to_shared(tile), bar = __cvta_generic_to_shared(&full);\n"
    "int head = blockIdx.x % 4, batch = blockIdx.x / 4;\n"
    "if (threadIdx.x == 0) { asm volatile(\"mbarrier.init.shared.b64 [%0], 1;\" ::\"r\"(bar));\n"
    "    asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\"); }\n"
    "__syncthreads();\n"
    "if (threadIdx.x == 0) {\n"
    "    asm volatile(\"mbarrier.arrive.expect_tx.shared.b64 _, [%0], 2048;\" ::\"r\"(bar) : \"memory\");\n"
    "    asm volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
    "%3, "
    "%4, %5}], [%6];\" ::\"r\"(to), \"l\"(&args.map[0]), \"r\"(0), \"r\"(56), \"r\"(head), \"r\"(batch), \"r\"(bar)"
    " : \"memory\");\n}\n"
    "unsigned done = 0; while (done == 0) asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], "
    "0; "
    "selp.u32 %0, 1, 0, p; }\" : \"=r\"(done) : \"r\"(bar) : \"memory\");\n"
    "for (int i = threadIdx.x; i < 16 * 64; i += 128)\n"
    "    static_cast<unsigned short *>(args.workspace)[blockIdx.x * 1024 + i] = tile[i];\n}\n";

static void add_map(attune_steps *steps)
{
    attune_step_kernel *step = &steps->step[steps->count - 1].as.kernel;
    step->map_count = 1;
    step->map[0] = (attune_map){.role = ATTUNE_Q, .box = {DIM, BOX_ROWS, 1, 1}, .l2_bytes = 128};
}

/* Executes, and compares each block's tile with the rows that Q's strides name in the memory that `role` was drawn in.
 */
static void check_rows(subject *with, attune_role role)
{
    static uint16_t got[BATCH * HEADS][BOX_ROWS][DIM];
    const int64_t *stride = with->call.tensor[ATTUNE_Q].stride;
    with->call.tensor[ATTUNE_Q].data = with->buffer[role];
    assert_ok(attune_plan_execute(with->plan, &with->call));
    read_back(with->workspace, got, sizeof got);
    for (int block = 0; block < BATCH * HEADS; ++block) {
        int64_t first = block / HEADS * stride[ATTUNE_STRIDE_BATCH] + block % HEADS * stride[ATTUNE_STRIDE_HEAD];
        for (int row = 0; row < BOX_ROWS; ++row) {
            for (int i = 0; i < DIM; ++i) {
                int64_t from = first + (FIRST_ROW + row) * stride[ATTUNE_STRIDE_SEQ] + i;
                int expected = FIRST_ROW + row < ROWS ? with->host[role][from] : 0; /* zeros beyond the tensor */
                assert_int_equal(got[block][row][i], expected);
            }
        }
    }
}

/* Another pointer, to which the map is moved, other strides, a stride that repeats a head, and back: the map is always
 * this call's. */
static void tensor_maps_follow_the_call(void **state)
{
    static const int64_t strides[][2] = {{HEADS * ROWS * DIM, ROWS * DIM}, /* of batch and head */
                                         {ROWS * DIM, BATCH * ROWS * DIM},
                                         {HEADS * ROWS * DIM, 0},
                                         {0, ROWS * DIM}};
    (void)state;
    if (device->target.arch < 90) {
        skip();
    }
    fixture.adjust = add_map;
    fixture.workspace = BATCH * HEADS * BOX_ROWS * DIM * 2;
    fixture.smem_bytes = 2048 + 8;
    subject *with = made("b2,h4,s64,d64,fp16", copies_a_tile);
    for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < sizeof strides / sizeof strides[0]; ++i) {
            with->call.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_BATCH] = strides[i][0];
            with->call.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_HEAD] = strides[i][1];
            check_rows(with, ATTUNE_Q);
            check_rows(with, ATTUNE_K);
        }
    }
    done(with);
}

/* ---- Gemm steps -----------------------------------------------------------------------------------------------------
 */

enum { SCORES = BATCH * HEADS * ROWS * ROWS };

/* S = Q K' in fp32, P = 1 everywhere in fp16, O = P V: the sums of V's columns. */
static void add_gemms(attune_steps *steps)
{
    attune_operand q = {.role = ATTUNE_Q}, k = {.role = ATTUNE_K}, v = {.role = ATTUNE_V}, o = {.role = ATTUNE_O};
    attune_operand s = {.role = -1,
                        .dtype = ATTUNE_FP32,
                        .offset_bytes = attune_term_const(0),
                        .row_stride = attune_term_size(ATTUNE_SIZE_SEQLEN_KV),
                        .head_stride = attune_term_const(ROWS * ROWS),
                        .batch_stride = attune_term_const(HEADS * ROWS * ROWS)};
    attune_operand p = s;
    p.dtype = ATTUNE_FP16;
    p.offset_bytes = attune_term_const(SCORES * (int)sizeof(float));
    attune_term rows = attune_term_size(ATTUNE_SIZE_SEQLEN_Q), keys = attune_term_size(ATTUNE_SIZE_SEQLEN_KV);
    steps->step[steps->count++] = (attune_step){
        .kind = ATTUNE_STEP_GEMM,
        .as.gemm = {q, k, s, .m = rows, .n = keys, .k = attune_term_const(DIM), .transpose_b = 1, .scaled = 1}};
    steps->step[steps->count++] = (attune_step){
        .kind = ATTUNE_STEP_FILL, .as.fill = {p.offset_bytes, attune_term_const(SCORES * 2), .pattern = 0x3c003c00U}};
    steps->step[steps->count++] = (attune_step){
        .kind = ATTUNE_STEP_GEMM, .as.gemm = {p, v, o, .m = rows, .n = attune_term_const(DIM), .k = keys}};
}

static float at_role(const subject *with, attune_role role, int batch, int head, int row, int i)
{
    const int64_t *stride = with->call.tensor[role].stride;
    return at_fp16_to_float(with->host[role][batch * stride[0] + head * stride[1] + row * stride[2] + i]);
}

static void check_gemms(subject *with)
{
    static float s[SCORES];
    read_back((char *)with->workspace + at_gemm_scratch(&device->target), s, sizeof s);
    read_back(with->buffer[ATTUNE_O], with->host[ATTUNE_O], sizeof with->host[ATTUNE_O]);
    for (int b = 0; b < BATCH; ++b) {
        for (int h = 0; h < HEADS; ++h) {
            int kv = h / (HEADS / (int)with->call.heads_kv);
            for (int i = 0; i < ROWS; ++i) {
                float sum = 0.0F;
                for (int j = 0; j < ROWS; ++j) {
                    float dot = 0.0F;
                    for (int c = 0; c < DIM; ++c) {
                        dot += at_role(with, ATTUNE_Q, b, h, i, c) * at_role(with, ATTUNE_K, b, kv, j, c);
                    }
                    assert_true(fabsf(s[((b * HEADS + h) * ROWS + i) * ROWS + j] - 0.5F * dot) < 1e-3F);
                    sum += at_role(with, ATTUNE_V, b, kv, j, i);
                }
                assert_true(fabsf(at_role(with, ATTUNE_O, b, h, i, i) - sum) < 0.25F);
            }
        }
    }
}

static void gemms_multiply(void **state)
{
    static const char *const problems[] = {"b2,h4,s64,d64,fp16,scale=0.5", "b2,h4,hkv2,s64,d64,fp16,scale=0.5",
                                           "b2,h4,hkv1,s64,d64,fp16,scale=0.5",
                                           "b2,h4,hkv2,s64,d64,fp16,scale=0.5,layout=bshd"};
    static const char source[] = FIXTURE_ENTRY("");
    void *stream = NULL;
    at_cuda_graph *graph = NULL;
    (void)state;
    fixture.adjust = add_gemms;
    fixture.workspace = SCORES * 6;
    assert_ok(at_cuda_stream_create(device, &stream));
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        subject *with = made(problems[i], source);
        assert_ok(attune_plan_execute(with->plan, &with->call));
        check_gemms(with);
        /* Captured on a stream that cuBLAS has not seen. */
        with->call.stream = stream;
        assert_ok(at_cuda_capture_begin(device, stream));
        assert_ok(attune_plan_execute(with->plan, &with->call));
        assert_ok(at_cuda_capture_end(device, stream, &graph));
        assert_ok(at_cuda_graph_launch(graph, stream));
        assert_ok(device->ops->synchronise(device, stream));
        check_gemms(with);
        at_cuda_graph_destroy(graph);
        done(with);
    }
    at_cuda_stream_destroy(device, stream);
}

/* Executes often on a stream of its own, a capture among the calls. NULL if all went well. */
static void *multiply_often(void *context)
{
    subject *with = context;
    at_cuda_graph *graph = NULL;
    void *stream = NULL;
    if (at_cuda_stream_create(device, &stream) != ATTUNE_OK) {
        return context;
    }
    with->call.stream = stream;
    attune_status status = at_cuda_capture_begin(device, stream);
    status = status == ATTUNE_OK ? attune_plan_execute(with->plan, &with->call) : status;
    status = status == ATTUNE_OK ? at_cuda_capture_end(device, stream, &graph) : status;
    for (int i = 0; i < 50 && status == ATTUNE_OK; ++i) {
        status = i % 2 == 0 ? attune_plan_execute(with->plan, &with->call) : at_cuda_graph_launch(graph, stream);
    }
    status = status == ATTUNE_OK ? device->ops->synchronise(device, stream) : status;
    at_cuda_graph_destroy(graph);
    at_cuda_stream_destroy(device, stream);
    return status == ATTUNE_OK ? NULL : context;
}

/* More streams than there are handles of cuBLAS, each in a thread of its own. */
static void streams_multiply_side_by_side(void **state)
{
    enum { STREAMS = AT_CUBLAS_SPARES + 4 };
    pthread_t thread[STREAMS];
    subject *with[STREAMS];
    (void)state;
    fixture.adjust = add_gemms;
    fixture.workspace = SCORES * 6;
    for (int i = 0; i < STREAMS; ++i) {
        with[i] = made("b2,h4,hkv2,s64,d64,fp16,scale=0.5", FIXTURE_ENTRY(""));
    }
    for (int i = 0; i < STREAMS; ++i) {
        assert_int_equal(pthread_create(&thread[i], NULL, multiply_often, with[i]), 0);
    }
    for (int i = 0; i < STREAMS; ++i) {
        void *bad = NULL;
        assert_int_equal(pthread_join(thread[i], &bad), 0);
        assert_null(bad);
    }
    for (int i = 0; i < STREAMS; ++i) {
        check_gemms(with[i]);
        done(with[i]);
    }
}

/* ---- Images ---- */

/* O of `cutlass` at this problem, whose code comes from these images: NULL for the library's own. */
static void output_of_image(const char *text, const at_embedded *images, uint16_t output[ELEMENTS])
{
    const attune_kernel *kernel = at_catalogue_find("cutlass");
    attune_problem problem;
    attune_config config;
    at_recipe recipe;
    at_loaded *loaded = NULL;
    assert_ok(attune_problem_parse(text, &problem));
    assert_true(kernel->heuristic(&problem, &device->target, 0, &config));
    at_recipe_ask(kernel, &problem, &device->target, &config, &recipe);
    recipe.sources = images;
    assert_ok(device->ops->load(device, &recipe, &loaded));
    subject *with = bound(text, loaded);
    assert_ok(attune_plan_execute(with->plan, &with->call));
    read_back(with->buffer[ATTUNE_O], output, sizeof with->host[ATTUNE_O]);
    assert_memory_not_equal(output, with->host[ATTUNE_O], sizeof with->host[ATTUNE_O]);
    done(with);
}

/* What an image's cubins do on a device that has them, its PTX does on one that came later: here the cubins are hidden,
 * and the driver makes the code. */
static void an_images_ptx_is_assembled(void **state)
{
    static const char problem[] = "b2,h4,s64,d64,fp16";
    static uint16_t ahead[ELEMENTS], here[ELEMENTS];
    float largest = 0.0F;
    if (at_catalogue_find("cutlass") == NULL || *state != NULL) {
        print_message("this build has no images\n");
        skip();
    }
    at_embedded image, later[2] = {{0}};
    assert_ok(at_image_read("cutlass.fatbin", &image));
    unsigned char *copy = image_without_cubins(&image);
    later[0] = (at_embedded){image.name, copy, image.size};
    output_of_image(problem, NULL, ahead);
    output_of_image(problem, later, here);
    for (int i = 0; i < ELEMENTS; ++i) {
        largest = fmaxf(largest, fabsf(at_fp16_to_float(ahead[i]) - at_fp16_to_float(here[i])));
    }
    print_message("PTX and cubin differ by %g at most\n", (double)largest);
    assert_true(largest < 2e-3F);
    free(copy);
    free((void *)image.data);
}

/* ---- Graphs and threads ---------------------------------------------------------------------------------------------
 */

static const char counts[] =
    FIXTURE_ENTRY("if (threadIdx.x == 0) atomicAdd(static_cast<float *>(args.tensor[ATTUNE_O].data), 1.0f);");

static void graphs_replay(void **state)
{
    float got = 0.0F;
    void *stream = NULL, *begin = NULL, *end = NULL;
    double us = -1.0;
    at_cuda_graph *graph = NULL;
    (void)state;
    subject *with = made("b2,h4,hkv2,s64,d64,fp16", counts);
    assert_ok(device->ops->upload(device, with->buffer[ATTUNE_O], &got, sizeof got));
    assert_ok(at_cuda_stream_create(device, &stream));
    with->call.stream = stream;
    assert_ok(at_cuda_capture_begin(device, stream));
    for (int i = 0; i < 5; ++i) {
        assert_ok(attune_plan_execute(with->plan, &with->call));
    }
    assert_ok(at_cuda_capture_end(device, stream, &graph));
    assert_int_equal(at_cuda_graph_nodes(graph), 5);
    assert_ok(at_cuda_event_create(device, &begin));
    assert_ok(at_cuda_event_create(device, &end));
    assert_ok(at_cuda_event_record(device, begin, stream));
    for (int i = 0; i < 3; ++i) {
        assert_ok(at_cuda_graph_launch(graph, stream));
    }
    assert_ok(at_cuda_event_record(device, end, stream));
    assert_ok(at_cuda_event_elapsed(device, begin, end, &us));
    assert_true(us > 0.0);
    read_back(with->buffer[ATTUNE_O], &got, sizeof got);
    assert_true(got == 3 * 5 * 8);
    at_cuda_event_destroy(device, begin);
    at_cuda_event_destroy(device, end);
    at_cuda_graph_destroy(graph);
    at_cuda_stream_destroy(device, stream);
    done(with);
}

static void *execute_often(void *context)
{
    const subject *with = context;
    attune_call call = with->call;
    if (at_cuda_stream_create(device, &call.stream) != ATTUNE_OK) {
        return context;
    }
    for (int i = 0; i < 200; ++i) {
        if (attune_plan_execute(with->plan, &call) != ATTUNE_OK) {
            return context;
        }
    }
    attune_status status = device->ops->synchronise(device, call.stream);
    at_cuda_stream_destroy(device, call.stream);
    return status == ATTUNE_OK ? NULL : context;
}

static void threads_share_a_plan(void **state)
{
    pthread_t thread[8];
    float got = 0.0F;
    (void)state;
    subject *with = made("b2,h4,hkv2,s64,d64,fp16", counts);
    assert_ok(device->ops->upload(device, with->buffer[ATTUNE_O], &got, sizeof got));
    for (int i = 0; i < 8; ++i) {
        assert_int_equal(pthread_create(&thread[i], NULL, execute_often, with), 0);
    }
    for (int i = 0; i < 8; ++i) {
        void *bad = NULL;
        assert_int_equal(pthread_join(thread[i], &bad), 0);
        assert_null(bad);
    }
    read_back(with->buffer[ATTUNE_O], &got, sizeof got);
    assert_true(got == 8 * 200 * 8);
    done(with);
}

/* ---- Mistakes -------------------------------------------------------------------------------------------------------
 */

static void host_memory_is_seen(void **state)
{
    static _Alignas(256) char host[65536];
    (void)state;
    subject *with = made("b2,h4,hkv2,s64,d64,fp16", counts);
    with->call.tensor[ATTUNE_V].data = host;
    assert_fails(attune_plan_execute(with->plan, &with->call), ATTUNE_INVALID_ARGUMENT, "V: ");
    with->call.tensor[ATTUNE_V].data = with->buffer[ATTUNE_V];
    assert_ok(attune_plan_execute(with->plan, &with->call));
    done(with);
}

static void too_much_memory_is_seen(void **state)
{
    void *data = NULL;
    (void)state;
    assert_fails(device->ops->allocate(device, (size_t)1 << 46, &data), ATTUNE_OUT_OF_MEMORY, "are free");
}

static void streams_of_another_device_are_seen(void **state)
{
    int count = 0;
    at_device *other = NULL;
    void *stream = NULL;
    (void)state;
    assert_ok(at_cuda_count(&count));
    if (count < 2) {
        skip();
    }
    subject *with = made("b2,h4,hkv2,s64,d64,fp16", counts);
    assert_ok(at_cuda_open(1, "", NULL, &other));
    assert_ok(at_cuda_stream_create(other, &stream));
    with->call.stream = stream;
    assert_fails(attune_plan_execute(with->plan, &with->call), ATTUNE_INVALID_ARGUMENT, "another device or context");
    with->call.stream = NULL;
    assert_ok(other->ops->allocate(other, 65536, &with->call.tensor[ATTUNE_K].data));
    assert_fails(attune_plan_execute(with->plan, &with->call), ATTUNE_INVALID_ARGUMENT, "memory of device 1");
    other->ops->release(other, with->call.tensor[ATTUNE_K].data);
    at_cuda_stream_destroy(other, stream);
    other->ops->close(other);
    done(with);
}

/* In a process of its own: it ends with a context in which nothing works. */
static int break_the_context(void)
{
    static const char source[] = FIXTURE_ENTRY("*reinterpret_cast<volatile int *>(16) = 1;");
    if (open_device(NULL) != 0) {
        return 1;
    }
    subject *with = made("b2,h4,hkv2,s64,d64,fp16", source);
    if (attune_plan_execute(with->plan, &with->call) != ATTUNE_OK) {
        return 2;
    }
    if (device->ops->synchronise(device, NULL) != ATTUNE_DEVICE_ERROR) {
        return 3;
    }
    if (attune_plan_execute(with->plan, &with->call) != ATTUNE_DEVICE_ERROR) {
        return 4;
    }
    print_message("%s\n", attune_last_detail());
    if (strstr(attune_last_detail(), "before this call") == NULL) {
        return 5;
    }
    done(with); /* no crash on the way out either */
    device->ops->close(device);
    return 0;
}

static void a_broken_context_is_seen(void **state)
{
    pid_t child = -1;
    int status = -1;
    char *arguments[] = {(char *)"test_gpu_launch", (char *)"break", NULL};
    (void)state;
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- What a call costs the host: shown, not judged ------------------------------------------------------------------
 */

enum { ROUNDS = 40, CALLS = 500 };

/* The least mean over rounds: the queue is emptied between them, so that no launch waits for a place in it. */
static double least_ns(attune_status (*call)(void *), void *context)
{
    at_clock clock = at_clock_monotonic();
    double least = 1e18;
    for (int round = 0; round < ROUNDS; ++round) {
        assert_ok(device->ops->synchronise(device, NULL));
        int64_t begin = clock.now_ns(clock.self);
        for (int i = 0; i < CALLS; ++i) {
            assert_int_equal(call(context), ATTUNE_OK);
        }
        double mean = (double)(clock.now_ns(clock.self) - begin) / CALLS;
        least = mean < least ? mean : least;
    }
    return least;
}

typedef struct bare {
    const at_driver *driver;
    at_cu_function function;
    at_cu_launch_config config;
    attune_args args;
} bare;

static attune_status launch_bare(void *context)
{
    bare *with = context;
    void *params[] = {&with->args};
    return with->driver->cuLaunchKernelEx(&with->config, with->function, params, NULL) == AT_CU_SUCCESS
               ? ATTUNE_OK
               : ATTUNE_DEVICE_ERROR;
}

static attune_status execute_plan(void *context)
{
    const subject *with = context;
    return attune_plan_execute(with->plan, &with->call);
}

static void what_a_call_costs(void **state)
{
    static const char source[] = FIXTURE_ENTRY("");
    at_artifact artifact;
    at_cu_module module = NULL;
    bool pushed = false;
    (void)state;
    subject *with = made("b2,h4,hkv2,s64,d64,fp16", source);
    at_cuda_device *cuda = at_cuda_of(device);
    at_recipe recipe;
    fixture_recipe(&with->problem, &device->target, source, &recipe);
    assert_ok(at_provide(&cuda->provider, &recipe, &device->target, &artifact, NULL));
    bare launch = {.driver = cuda->driver, .config = {.grid = {8, 1, 1}, .block = {128, 1, 1}}};
    assert_ok(at_cuda_enter(cuda, &pushed));
    assert_int_equal(cuda->driver->cuModuleLoadData(&module, artifact.cubin), AT_CU_SUCCESS);
    assert_int_equal(cuda->driver->cuModuleGetFunction(&launch.function, module, "entry"), AT_CU_SUCCESS);
    double least = least_ns(launch_bare, &launch);
    double current = least_ns(execute_plan, with);
    (void)cuda->driver->cuModuleUnload(module);
    at_cuda_leave(cuda, pushed);
    double foreign = least_ns(execute_plan, with);
    print_message("bare launch %.0f ns; plan execute %.0f ns (+%.0f), in a thread without a context %.0f ns (+%.0f)\n",
                  least, current, current - least, foreign, foreign - least);
    at_artifact_free(&artifact);
    done(with);
}

#define TEST(name) cmocka_unit_test_setup(name, forget)

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "break") == 0) {
        return break_the_context();
    }
    const struct CMUnitTest tests[] = {
        TEST(the_argument_arrives),        TEST(clusters_are_formed),     TEST(most_shared_memory),
        TEST(tensor_maps_follow_the_call), TEST(gemms_multiply),          TEST(streams_multiply_side_by_side),
        TEST(an_images_ptx_is_assembled),  TEST(graphs_replay),           TEST(threads_share_a_plan),
        TEST(host_memory_is_seen),         TEST(too_much_memory_is_seen), TEST(streams_of_another_device_are_seen),
        TEST(a_broken_context_is_seen),    TEST(what_a_call_costs),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
