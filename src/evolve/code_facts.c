#include "evolve/code_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/status.h"
#include "wire/process.h"

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

static void count_instructions(const char *path, at_event_made *made)
{
    enum { PATIENCE_S = 20 };
    char *objdump, *said = malloc(AT_SAID_MAX);
    int end = 0;
    at_instructions counts;
    if (said == NULL || at_process_find("OBJDUMP", "objdump", &objdump) != ATTUNE_OK) {
        free(said);
        return;
    }
    const char *const command[] = {"sh", "-c", counter, "sh", objdump, path, NULL};
    if (at_process_run(command, PATIENCE_S, said, &end) == ATTUNE_OK && WIFEXITED(end) && WEXITSTATUS(end) == 0) {
        at_instructions_parse(said, &counts);
        at_instructions_print(&counts, made);
    }
    free(objdump);
    free(said);
}

static void look_at_object(const at_embedded *object, at_event_made *made)
{
    at_scratch place;
    char path[4096];
    if (at_scratch_make(&place) != ATTUNE_OK) {
        return;
    }
    (void)snprintf(path, sizeof path, "%s/kernel.so", place.path);
    if (at_file_write(path, object->data, object->size) == ATTUNE_OK) {
        count_instructions(path, made);
    }
    at_scratch_remove(&place);
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

void at_code_facts_print(const at_recipe *recipe, const at_build_facts *built, at_event_made *made)
{
    if (recipe->kernel->target == ATTUNE_TARGET_CUDA) {
        print_built(built, made);
    } else if (recipe->sources != NULL && recipe->sources[0].name != NULL) {
        look_at_object(&recipe->sources[0], made);
    }
}

/* ---- The machine ---------------------------------------------------------------------------------------------------
 */

attune_status at_code_facts_roof(const attune_target *target, const attune_problem *problem, at_pool *pool,
                                 at_text *text)
{
    at_gauge *gauge;
    if (target->kind != ATTUNE_TARGET_CPU) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_gauge_flops(target->isa, problem->dtype, pool, &gauge));
    const double peak = at_gauge_best(gauge), flops = attune_problem_flops(problem);
    at_gauge_close(gauge);
    at_text_add(text,
                "This machine does %.0f GFLOP/s at best (measured, all threads); the problem's %.3f GFLOP take %.1f us "
                "at that rate: the roof",
                1e-9 * peak, 1e-9 * flops, 1e6 * flops / peak);
    return at_text_status(text, "a roof");
}
