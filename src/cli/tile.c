/* attune bench --tile: products of one tile, 32x32x64 and 32x64x64 in fp16, by cuBLAS, by fragments in one block and in
 * scalar arithmetic in one block. Each is timed in two ways: launched one by one by the host, and replayed from a graph
 * of GRAPH_CALLS products, which leaves the host out. */
#include "cli/tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/half.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/progress.h"
#include "core/call.h"
#include "core/term.h"
#include "cuda/device.h"
#include "cuda/graph.h"
#include "library/context.h"
#include "measure/interleave.h"
#include "measure/statistics.h"
#include "reference/inputs.h"

extern const attune_kernel at_kernel_tile_product;

enum { GRAPH_CALLS = 100, WAYS = 2, PRODUCTS = 3, ARMS = WAYS * PRODUCTS };

static const struct {
    const char *name, *problem;
} tiles[] = {{"32x32x64", "b1,h1,sq32,skv32,d64,fp16"}, {"32x64x64", "b1,h1,sq32,skv64,d64,fp16"}};

enum { TILES = sizeof tiles / sizeof tiles[0] };

static const char *const ways[WAYS] = {"graph", "launch"};
static const char *const products[PRODUCTS] = {"cublas", "wmma", "scalar"};

static const at_column columns[] = {
    {"tile", AT_COLUMN_TEXT, NULL, 0},     {"arm", AT_COLUMN_TEXT, NULL, 0},
    {"by", AT_COLUMN_TEXT, NULL, 0},       {"median_us", AT_COLUMN_NUMBER, NULL, 4},
    {"lo_us", AT_COLUMN_NUMBER, NULL, 4},  {"hi_us", AT_COLUMN_NUMBER, NULL, 4},
    {"gflops", AT_COLUMN_NUMBER, NULL, 4},
};

/* One tile's buffers. */
typedef struct stand {
    at_device *device;
    void *stream;
    at_cublas *cublas; /* NULL where there is none */
    void *scratch;     /* cuBLAS's */
    at_inputs inputs;  /* on the host */
    void *q, *k, *out; /* on the device */
    attune_problem problem;
    attune_args args;
} stand;

/* One product, ready to be enqueued or not. */
typedef struct product {
    stand *at;
    at_loaded *loaded; /* NULL: cuBLAS */
    at_cuda_graph *graph;
    bool ready;
} product;

typedef struct tile_bench {
    const at_cli *cli;
    attune_context *context;
    at_progress progress;
    at_table *table;
    uint64_t seed;
    double seconds;
    int tile; /* the one at work */
    bool wrong;
} tile_bench;

/* ---- One product ----------------------------------------------------------------------------------------------------
 */

static attune_status enqueue_cublas(const stand *at)
{
    attune_operand out = {.role = -1,
                          .dtype = ATTUNE_FP32,
                          .offset_bytes = attune_term_const(0),
                          .row_stride = attune_term_size(ATTUNE_SIZE_SEQLEN_KV),
                          .head_stride = attune_term_const(0),
                          .batch_stride = attune_term_const(0)};
    attune_step_gemm gemm = {.a = {.role = ATTUNE_Q, .dtype = ATTUNE_FP16},
                             .b = {.role = ATTUNE_K, .dtype = ATTUNE_FP16},
                             .c = out,
                             .m = attune_term_size(ATTUNE_SIZE_SEQLEN_Q),
                             .n = attune_term_size(ATTUNE_SIZE_SEQLEN_KV),
                             .k = attune_term_const(at->problem.head_dim_qk),
                             .transpose_b = 1};
    const at_cuda_device *device = at_cuda_of(at->device);
    at_sizes sizes;
    bool pushed = false;
    at_sizes_fill(&sizes, &at->args, &at->device->target);
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = at_gemm_run(at->cublas, &gemm, &at->args, &sizes, at->stream, at->scratch,
                                       (size_t)at_gemm_scratch(&at->device->target));
    at_cuda_leave(device, pushed);
    return status;
}

static attune_status enqueue(void *self)
{
    const product *one = self;
    if (one->loaded == NULL) {
        return enqueue_cublas(one->at);
    }
    attune_args args = one->at->args;
    return one->at->device->ops->launch(one->loaded, &args, one->at->stream);
}

static attune_status replay(void *self)
{
    const product *one = self;
    return at_cuda_graph_launch(one->graph, one->at->stream);
}

static attune_status wait(void *self)
{
    const product *one = self;
    return one->at->device->ops->synchronise(one->at->device, one->at->stream);
}

bool at_tile_right(const uint16_t *q, const uint16_t *k, const float *result, int m, int n, int d)
{
    for (int i = 0; i < m * n; ++i) {
        double sum = 0;
        double size = 0;
        for (int j = 0; j < d; ++j) {
            double term = (double)at_fp16_to_float(q[i / n * d + j]) * (double)at_fp16_to_float(k[i % n * d + j]);
            sum += term;
            size += fabs(term);
        }
        /* Rounding once for each of 64 sums, and tensor cores cut off where others round: 2^-18 leaves room for both.
         */
        if (!(fabs((double)result[i] - sum) <= ldexp(size, -18))) {
            return false;
        }
    }
    return true;
}

/* Runs once over poisoned memory and looks at the result. */
static attune_status judge(product *one)
{
    const stand *at = one->at;
    const at_device_ops *ops = at->device->ops;
    int m = (int)at->problem.seqlen_q;
    int n = (int)at->problem.seqlen_kv;
    size_t bytes = sizeof(float) * (size_t)m * (size_t)n;
    float *result = malloc(bytes);
    AT_FAIL_IF(result == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes of results", bytes);
    memset(result, 0xff, bytes);
    attune_status status = ops->upload(at->device, at->out, result, bytes);
    status = status != ATTUNE_OK ? status : enqueue(one);
    status = status != ATTUNE_OK ? status : wait(one);
    status = status != ATTUNE_OK ? status : ops->download(at->device, result, at->out, bytes);
    if (status == ATTUNE_OK &&
        !at_tile_right(at->inputs.call.tensor[ATTUNE_Q].data, at->inputs.call.tensor[ATTUNE_K].data, result, m, n,
                       at->problem.head_dim_qk)) {
        status = at_fail(ATTUNE_WRONG_RESULT, "the product is wrong");
    }
    free(result);
    return status;
}

static attune_status capture(product *one)
{
    const stand *at = one->at;
    AT_FORWARD(at_cuda_capture_begin(at->device, at->stream));
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < GRAPH_CALLS && status == ATTUNE_OK; ++i) {
        status = enqueue(one);
    }
    attune_status ended = at_cuda_capture_end(at->device, at->stream, &one->graph);
    return status != ATTUNE_OK ? status : ended;
}

/* `index` is that of `products`. */
static attune_status make_ready(product *one, stand *at, int index)
{
    const attune_kernel *kernel = &at_kernel_tile_product;
    attune_config config;
    attune_reason reason;
    at_recipe recipe;
    *one = (product){.at = at};
    if (index > 0) {
        AT_FAIL_IF(!kernel->supports(&at->problem, &at->device->target, &reason), ATTUNE_UNSUPPORTED, "%s",
                   reason.text);
        (void)kernel->heuristic(&at->problem, &at->device->target, index - 1, &config);
        at_recipe_ask(kernel, &at->problem, &at->device->target, &config, &recipe);
        AT_FORWARD(at->device->ops->load(at->device, &recipe, &one->loaded));
    } else {
        AT_FAIL_IF(at->cublas == NULL, ATTUNE_UNSUPPORTED, "there is no cuBLAS");
    }
    AT_FORWARD(judge(one));
    AT_FORWARD(capture(one));
    one->ready = true;
    return ATTUNE_OK;
}

static void product_free(product *one)
{
    at_cuda_graph_destroy(one->graph);
    if (one->loaded != NULL) {
        one->at->device->ops->unload(one->loaded);
    }
}

/* ---- One tile -------------------------------------------------------------------------------------------------------
 */

/* Where there is no cuBLAS its arm is refused, and the others go on. */
static attune_status open_cublas(stand *at)
{
    const at_cuda_device *device = at_cuda_of(at->device);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    if (at_cublas_open(&at->cublas) == ATTUNE_OK && at_cublas_prepare(at->cublas) != ATTUNE_OK) {
        at_cublas_close(at->cublas);
        at->cublas = NULL;
    }
    at_cuda_leave(device, pushed);
    return at->device->ops->allocate(at->device, (size_t)at_gemm_scratch(&at->device->target), &at->scratch);
}

static attune_status send(stand *at, int role, void **to)
{
    const at_device_ops *ops = at->device->ops;
    size_t bytes = at->inputs.buffer[role].bytes;
    AT_FORWARD(ops->allocate(at->device, bytes, to));
    return ops->upload(at->device, *to, at->inputs.call.tensor[role].data, bytes);
}

static attune_status stand_fill(stand *at)
{
    const at_draw draw = {.seed = 1, .family = AT_FAMILY_NORMAL, .poison = 0xff};
    size_t bytes = sizeof(float) * (size_t)(at->problem.seqlen_q * at->problem.seqlen_kv);
    AT_FORWARD(at_inputs_draw(&at->problem, &draw, &at->inputs));
    AT_FORWARD(send(at, ATTUNE_Q, &at->q));
    AT_FORWARD(send(at, ATTUNE_K, &at->k));
    AT_FORWARD(at->device->ops->allocate(at->device, bytes, &at->out));
    AT_FORWARD(open_cublas(at));
    AT_FORWARD(at_cuda_stream_create(at->device, &at->stream));
    at_call_args(&at->problem, &at->inputs.call, &at->args);
    at->args.tensor[ATTUNE_Q].data = at->q;
    at->args.tensor[ATTUNE_K].data = at->k;
    at->args.workspace = at->out;
    at->args.workspace_bytes = bytes;
    return ATTUNE_OK;
}

static void stand_free(stand *at)
{
    void *buffer[] = {at->q, at->k, at->out, at->scratch};
    const at_cuda_device *device = at_cuda_of(at->device);
    bool pushed = false;
    for (size_t i = 0; i < sizeof buffer / sizeof buffer[0]; ++i) {
        at->device->ops->release(at->device, buffer[i]);
    }
    if (at->cublas != NULL && at_cuda_enter(device, &pushed) == ATTUNE_OK) {
        at_cublas_close(at->cublas);
        at_cuda_leave(device, pushed);
    }
    at_cuda_stream_destroy(at->device, at->stream);
    at_inputs_free(&at->inputs);
}

static bool stop(void *self)
{
    (void)self;
    return at_file_interrupted();
}

static void show_progress(void *self, double done)
{
    tile_bench *all = self;
    at_progress_update(&all->progress, (all->tile + done) / TILES);
}

static attune_status add_row(tile_bench *all, const stand *at, int which, int way, const at_samples *of)
{
    at_interval us = {NAN, NAN, NAN};
    double calls = way == 0 ? GRAPH_CALLS : 1;
    double flops = 2.0 * (double)at->problem.seqlen_q * (double)at->problem.seqlen_kv * at->problem.head_dim_qk;
    if (of != NULL) {
        AT_FORWARD(at_bootstrap_median(of->us, of->count, 0.95, AT_RESAMPLES, all->seed, &us));
    }
    at_table_text(all->table, tiles[all->tile].name);
    at_table_text(all->table, products[which]);
    at_table_text(all->table, ways[way]);
    at_table_number(all->table, us.middle / calls);
    at_table_number(all->table, us.low / calls);
    at_table_number(all->table, us.high / calls);
    at_table_number(all->table, flops * calls / us.middle * 1e-3);
    return ATTUNE_OK;
}

static attune_status time_products(tile_bench *all, stand *at, product *one)
{
    at_interleave how;
    at_arm arms[ARMS];
    at_samples samples[ARMS] = {{0}};
    int count = 0;
    at_interleave_init(&how);
    how.seed = all->seed;
    how.budget_s = all->seconds;
    how.stop = stop;
    how.progress = show_progress;
    how.progress_self = all;
    for (int i = 0; i < ARMS; ++i) {
        if (one[i / WAYS].ready) {
            arms[count++] = (at_arm){products[i / WAYS], &one[i / WAYS], i % WAYS == 0 ? replay : enqueue, wait};
        }
    }
    attune_status status = count > 0 ? at_interleave_run(&how, arms, count, samples) : ATTUNE_OK;
    int timed = 0;
    for (int i = 0; i < ARMS && status == ATTUNE_OK; ++i) {
        status = add_row(all, at, i / WAYS, i % WAYS, one[i / WAYS].ready ? &samples[timed++] : NULL);
    }
    for (int i = 0; i < ARMS; ++i) {
        at_samples_free(&samples[i]);
    }
    return status;
}

/* What one product cannot do is said, and the others go on. */
static attune_status bench_products(tile_bench *all, stand *at)
{
    product one[PRODUCTS] = {{0}};
    for (int i = 0; i < PRODUCTS; ++i) {
        attune_status status = make_ready(&one[i], at, i);
        if (status != ATTUNE_OK) {
            at_progress_end(&all->progress);
            at_cli_say(all->cli, "%s: %s: %s", tiles[all->tile].name, products[i], attune_last_detail());
            all->wrong = all->wrong || status == ATTUNE_WRONG_RESULT;
        }
    }
    attune_status status = time_products(all, at, one);
    for (int i = 0; i < PRODUCTS; ++i) {
        product_free(&one[i]);
    }
    return status;
}

static attune_status bench_tile(tile_bench *all)
{
    stand at = {.device = at_context_device(all->context)};
    at_progress_label(&all->progress, tiles[all->tile].name);
    AT_FORWARD(attune_problem_parse(tiles[all->tile].problem, &at.problem));
    attune_status status = stand_fill(&at);
    if (status == ATTUNE_OK) {
        status = bench_products(all, &at);
    }
    stand_free(&at);
    return status;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------
 */

static attune_status run_all(tile_bench *all)
{
    const char *seed = at_cli_text(all->cli, "--seed");
    all->seed = 1;
    if (seed != NULL) {
        AT_FORWARD(at_parse_uint64("--seed", seed, &all->seed));
    }
    AT_FORWARD(at_cli_number(all->cli, "--seconds", 0, 86400, 2, &all->seconds));
    AT_FORWARD(at_table_create(columns, (int)(sizeof columns / sizeof columns[0]), &all->table));
    AT_FORWARD(at_cli_context(all->cli, &all->context));
    AT_FAIL_IF(at_context_device(all->context)->target.kind != ATTUNE_TARGET_CUDA, ATTUNE_NO_DEVICE,
               "--tile needs a CUDA device: it times one block's product beside cuBLAS's");
    for (; all->tile < TILES; ++all->tile) {
        AT_FORWARD(bench_tile(all));
    }
    return ATTUNE_OK;
}

int at_bench_tile(const at_cli *cli)
{
    tile_bench all = {.cli = cli};
    if (cli->operand_count > 0 || at_cli_given(cli, "--arms") || at_cli_given(cli, "--cold")) {
        return at_cli_usage(cli, "--tile goes with no PROBLEM, --arms or --cold: its products and arms are fixed");
    }
    at_progress_start(&all.progress, cli->err, "");
    attune_status status = run_all(&all);
    at_progress_end(&all.progress);
    int code = status != ATTUNE_OK ? at_cli_fail(cli, status) : all.wrong ? AT_EXIT_WRONG : AT_EXIT_OK;
    if (all.table != NULL && (status == ATTUNE_OK || all.tile > 0)) {
        status = at_table_print(all.table, at_cli_format(cli), cli->out);
        code = status == ATTUNE_OK ? code : at_cli_fail(cli, status);
    }
    at_table_destroy(all.table);
    attune_context_destroy(all.context);
    return code;
}
