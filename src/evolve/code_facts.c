#include "evolve/code_facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/problem.h"
#include "cuda/cache.h"
#include "cuda/rates.h"
#include "wire/process.h"
#include "worker/remote.h"

void at_code_facts_identify(const at_recipe *recipe, const at_build_facts *built, at_text *text)
{
    char digest[AT_DIGEST_TEXT_MAX] = "";
    bool cpu = recipe->kernel->target == ATTUNE_TARGET_CPU;
    if (cpu && recipe->sources != NULL && recipe->sources[0].name != NULL) {
        at_digest_of(recipe->sources[0].data, recipe->sources[0].size, digest);
    }
    at_text_add(text, "\n%s\n%d %lld", cpu ? digest : built->code, recipe->resources.smem_bytes,
                (long long)recipe->resources.scratch_bytes);
}

/* ---- A CPU kernel's instructions -----------------------------------------------------------------------------------
 */

/* One pass over objdump's listing. */
static const char counter[] =
    "\"$1\" -d --no-show-raw-insn \"$2\" | awk '/^ *[0-9a-f]+:/ { all++; i = $2; w = 0;"
    " if ($0 ~ /%zmm/) { w = 64; z++ } else if ($0 ~ /%ymm/) { w = 32; y++ } else if ($0 ~ /%xmm/) { w = 16;"
    " if (i ~ /(ss|sd)$/) s++; else x++ }"
    " if (i ~ /^vfn?m(add|sub)/ || i ~ /^vdp/) fma++; if (i ~ /^call/) c++; if ($0 ~ /%rsp/ && w > 0) r++; }"
    " END { print \"all\", all+0, \"zmm\", z+0, \"ymm\", y+0, \"xmm\", x+0, \"scalar\", s+0, \"fma\", fma+0,"
    " \"calls\", c+0, \"stack\", r+0 }'";

static int64_t number_behind(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at != NULL ? strtoll(at + strlen(word), NULL, 10) : 0;
}

void at_instructions_parse(const char *text, at_instructions *counts)
{
    const int64_t zmm = number_behind(text, "zmm "), ymm = number_behind(text, "ymm "),
                  xmm = number_behind(text, "xmm ");
    *counts = (at_instructions){.all = number_behind(text, "all "),
                                .fma = number_behind(text, "fma "),
                                .scalar = number_behind(text, "scalar "),
                                .calls = number_behind(text, "calls "),
                                .stack = number_behind(text, "stack ")};
    counts->vector_bytes = zmm > 0 ? 64 : ymm > 0 ? 32 : xmm > 0 ? 16 : 0;
    counts->wide = zmm > 0 ? zmm : ymm > 0 ? ymm : xmm;
    counts->narrow = zmm + ymm + xmm - counts->wide;
}

/* Spills first, for they cost every loop that they are in; then what is not vectors; calls, mostly of libm's. */
static const char *bound_of(const at_instructions *counts)
{
    const int64_t vectors = counts->wide + counts->narrow;
    return counts->all == 0                 ? ""
           : counts->scalar > vectors       ? "scalar code"
           : counts->calls > 0              ? "calls"
           : 8 * counts->stack > vectors    ? "spills"
           : 4 * counts->fma < counts->wide ? "moves"
                                            : "arithmetic";
}

void at_instructions_print(const at_instructions *counts, at_event_made *made)
{
    (void)snprintf(made->binds, sizeof made->binds, "%s", bound_of(counts));
    (void)snprintf(made->facts, sizeof made->facts,
                   "%lld instructions in the object: %lld on vectors of %d bytes, %lld on narrower ones, %lld scalar "
                   "floating point, %lld multiply-adds, %lld of vectors with the stack (spills), %lld calls",
                   (long long)counts->all, (long long)counts->wide, counts->vector_bytes, (long long)counts->narrow,
                   (long long)counts->scalar, (long long)counts->fma, (long long)counts->stack,
                   (long long)counts->calls);
}

/* What a script says that is given a program and a file; "" where that cannot be. For the caller to free. */
static char *ask_listing(const char *script, const char *variable, const char *program, const void *data, size_t bytes)
{
    enum { PATIENCE_S = 20 };
    at_scratch place;
    char path[4096], *tool = NULL, *said = calloc(1, AT_SAID_MAX);
    int end = 1;
    if (said == NULL || at_process_find(variable, program, &tool) != ATTUNE_OK ||
        at_scratch_make(&place) != ATTUNE_OK) {
        free(tool);
        return said;
    }
    (void)snprintf(path, sizeof path, "%s/code", place.path);
    const char *const command[] = {"sh", "-c", script, "sh", tool, path, NULL};
    const bool well = at_file_write(path, data, bytes) == ATTUNE_OK &&
                      at_process_run(command, PATIENCE_S, said, &end) == ATTUNE_OK && WIFEXITED(end) &&
                      WEXITSTATUS(end) == 0;
    said[well ? AT_SAID_MAX - 1 : 0] = '\0';
    at_scratch_remove(&place);
    free(tool);
    return said;
}

static void look_at_object(const at_embedded *object, at_event_made *made)
{
    at_instructions counts;
    char *said = ask_listing(counter, "OBJDUMP", "objdump", object->data, object->size);
    if (said != NULL && said[0] != '\0') {
        at_instructions_parse(said, &counts);
        at_instructions_print(&counts, made);
    }
    free(said);
}

/* ---- CUDA ----------------------------------------------------------------------------------------------------------
 */

static void print_built(const at_build_facts *built, at_event_made *made)
{
    enum { FEW_BLOCKS = 1 };
    (void)snprintf(made->facts, sizeof made->facts,
                   "%d threads, %d registers a thread, %d bytes spilled, %d bytes of shared memory, %d blocks a "
                   "multiprocessor, %d warnings",
                   built->threads, built->registers, built->spill_bytes, built->smem_bytes, built->blocks_sm,
                   built->warnings);
    (void)snprintf(made->binds, sizeof made->binds, "%s",
                   built->spill_bytes > 0                          ? "spills"
                   : built->blocks_sm > FEW_BLOCKS                 ? "issue"
                   : built->registers * built->threads >= 48 << 10 ? "registers"
                                                                   : "shared memory");
}

/* One pass over nvdisasm's listing: an instruction's name stands behind its address, and perhaps a predicate. */
static const char mixer[] =
    "\"$1\" -c \"$2\" | awk '/^ *\\/\\*[0-9a-f]+\\*\\// { i = 2; while ($i ~ /^(@|[{])/) i++; o = $i; sub(/\\..*/, "
    "\"\", o);"
    " if (o == \"\") next; all++; if (o ~ /MMA$/) mma++; else if (o ~ /^(FFMA|FADD|FMUL|FMNMX|HFMA2|HADD2|HMUL2)/) "
    "fp++;"
    " else if (o == \"MUFU\") mufu++; else if (o ~ /^(LDS|STS|LDSM|STSM|ATOMS)$/) sh++; else if (o ~ /^(LDL|STL)$/) "
    "lo++;"
    " else if (o ~ /^(LDG|STG|LD|ST|LDGSTS|RED|REDG|ATOMG|UTMALDG|UTMASTG)$/) gl++; else if (o == \"SHFL\") sf++;"
    " else if (o ~ /^(BAR|SYNCS|WARPSYNC|DEPBAR|LDGDEPBAR|WARPGROUP)$/) sy++; else if (o == \"NOP\") all--; }"
    " END { print \"all\", all+0, \"mma\", mma+0, \"fp\", fp+0, \"mufu\", mufu+0, \"shared\", sh+0, \"global\", gl+0,"
    " \"local\", lo+0, \"shuffle\", sf+0, \"sync\", sy+0 }'";

void at_code_facts_mix(const char *counts, at_text *text)
{
    static const char *const kinds[][2] = {{"mma ", "of tensor cores"},       {"fp ", "floating point"},
                                           {"mufu ", "of special functions"}, {"shared ", "with shared memory"},
                                           {"global ", "with global memory"}, {"local ", "with local memory"},
                                           {"shuffle ", "shuffles"},          {"sync ", "that wait for others"}};
    const int64_t all = number_behind(counts, "all ");
    if (all == 0) {
        return;
    }
    at_text_add(text, "; %lld instructions in the code", (long long)all);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        at_text_add(text, "%s %lld %s", i == 0 ? ":" : ",", (long long)number_behind(counts, kinds[i][0]), kinds[i][1]);
    }
}

/* The cubin is where the worker that compiled it keeps such: what is not there is not said. */
static void look_at_cubin(const at_build_facts *built, int compiler, at_event_made *made)
{
    at_artifact artifact;
    at_text text;
    char *place = at_cache_place(NULL), words[AT_CODE_FACTS_MAX];
    if (place != NULL && at_cache_find(place, built->source, compiler, &artifact)) {
        char *said = ask_listing(mixer, "NVDISASM", "nvdisasm", artifact.cubin, artifact.cubin_bytes);
        at_text_init_fixed(&text, words, sizeof words);
        at_text_add(&text, "%s", made->facts);
        at_code_facts_mix(said != NULL ? said : "", &text);
        memcpy(made->facts, words, sizeof made->facts);
        free(said);
        at_artifact_free(&artifact);
    }
    free(place);
}

void at_code_facts_print(const at_recipe *recipe, const at_build_facts *built, int compiler, at_event_made *made)
{
    if (recipe->kernel->target == ATTUNE_TARGET_CUDA) {
        print_built(built, made);
        look_at_cubin(built, compiler, made);
    } else if (recipe->sources != NULL && recipe->sources[0].name != NULL) {
        look_at_object(&recipe->sources[0], made);
    }
}

void at_code_facts_counters(const at_counters *counters, at_text *text)
{
    if (counters->count == 0) {
        at_text_add(text, "none: %s", counters->why_not);
        return;
    }
    at_text_add(text, "%s", counters->diagnosis);
    for (int i = 0; i < counters->count; ++i) {
        at_text_add(text, "%s %s %.4g", i == 0 ? ";" : ",", counters->counter[i].name, counters->counter[i].value);
    }
    for (int i = 0; i < counters->stalls && i < 3; ++i) {
        at_text_add(text, "%s %s %.3g %%", i == 0 ? "; waits for" : ",", counters->stall[i].name,
                    counters->stall[i].value);
    }
}

/* ---- The machine ---------------------------------------------------------------------------------------------------
 */

/* Of Q, K, V and O, each once; 0 where some of it need not be read. */
static double plain_bytes(const attune_problem *problem)
{
    const bool plain = problem->op == ATTUNE_FORWARD && problem->page_size == 0 && !problem->varlen &&
                       !problem->seqused_kv && !problem->mask && problem->window_left < 0 && problem->window_right < 0;
    const int64_t rows =
        problem->batch * (problem->heads_q * problem->seqlen_q + problem->heads_kv * problem->seqlen_kv);
    return plain
               ? (double)(rows * (problem->head_dim_qk + problem->head_dim_v)) * (double)at_dtype_bytes(problem->dtype)
               : 0;
}

static attune_status find_cuda_roof(at_device *device, const attune_problem *problem, at_text *text, double *us)
{
    enum { PATIENCE_S = 10 };
    at_cuda_rates rates;
    json_t *ok;
    AT_FORWARD(at_channel_ask(at_remote_channel(device), "machine", NULL, PATIENCE_S, &ok));
    attune_status status = at_json_double(ok, "answer", "sm_hz", &rates.sm_hz);
    status = status == ATTUNE_OK ? at_json_double(ok, "answer", "memory_hz", &rates.memory_hz) : status;
    status = status == ATTUNE_OK ? at_json_int(ok, "answer", "bus_bits", 0, INT32_MAX, &rates.bus_bits) : status;
    json_decref(ok);
    AT_FORWARD(status);
    const double peak = at_cuda_peak_flops(&device->target, rates.sm_hz, problem->dtype);
    const double bandwidth = at_cuda_peak_bytes(&rates), flops = attune_problem_flops(problem);
    if (peak <= 0 || bandwidth <= 0) {
        return ATTUNE_OK;
    }
    const double by_flops = 1e6 * flops / peak, by_bytes = 1e6 * plain_bytes(problem) / bandwidth;
    *us = fmax(by_flops, by_bytes);
    at_text_add(text,
                "This device does %.0f TFLOP/s at best (published, by tensor cores) and moves %.0f GB/s; the problem's "
                "%.3f GFLOP take %.2f us at that rate, what it must read and write %.2f us: the roof is %.2f us",
                1e-12 * peak, 1e-9 * bandwidth, 1e-9 * flops, by_flops, by_bytes, *us);
    return at_text_status(text, "a roof");
}

attune_status at_code_facts_roof(at_device *device, const attune_problem *problem, at_pool *pool, at_text *text,
                                 double *us)
{
    at_gauge *gauge;
    *us = 0;
    if (device->target.kind != ATTUNE_TARGET_CPU) {
        return find_cuda_roof(device, problem, text, us);
    }
    AT_FORWARD(at_gauge_flops(device->target.isa, problem->dtype, pool, &gauge));
    const double peak = at_gauge_best(gauge), flops = attune_problem_flops(problem);
    at_gauge_close(gauge);
    *us = peak > 0 ? 1e6 * flops / peak : 0;
    at_text_add(text,
                "This machine does %.0f GFLOP/s at best (measured, all threads); the problem's %.3f GFLOP take %.1f us "
                "at that rate: the roof",
                1e-9 * peak, 1e-9 * flops, *us);
    return at_text_status(text, "a roof");
}
