/* How much memory attention takes beyond its tensors: the declared workspace and 128 KB a thread, whatever the lengths.
 * The linker puts the functions below in place of the allocator's, for this library's calls and the test's own. */
#include "base/cm.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "library/context.h"
#include "reference/draw_text.h"
#include "reference/inputs.h"

enum { THREADS = 3, A_THREAD = 128 * 1024, LENGTHS = 4 };

/* ---- Counting --------------------------------------------------------------------------------------------------- */

static atomic_long held, most, calls;

static void *count(void *memory)
{
    long now = atomic_fetch_add(&held, (long)malloc_usable_size(memory)) + (long)malloc_usable_size(memory);
    atomic_fetch_add(&calls, 1);
    for (long before = most; before < now && !atomic_compare_exchange_weak(&most, &before, now);) {
    }
    return memory;
}

static void discount(void *memory)
{
    atomic_fetch_sub(&held, (long)malloc_usable_size(memory));
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void __real_free(void *memory);
char *__real_strdup(const char *text);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, long offset);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t number, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, long offset);

void *__wrap_malloc(size_t bytes)
{
    return count(__real_malloc(bytes));
}

void *__wrap_calloc(size_t number, size_t bytes)
{
    return count(__real_calloc(number, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    discount(memory);
    return count(__real_realloc(memory, bytes));
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return count(__real_aligned_alloc(align, bytes));
}

void __wrap_free(void *memory)
{
    discount(memory);
    __real_free(memory);
}

char *__wrap_strdup(const char *text)
{
    return count(__real_strdup(text));
}

/* Never given back as far as this test is concerned: nothing here should map memory at all. */
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, long offset)
{
    atomic_fetch_add(&held, (long)bytes);
    atomic_fetch_add(&calls, 1);
    return __real_mmap(at, bytes, protection, flags, file, offset);
}

/* ---- Measuring -------------------------------------------------------------------------------------------------- */

typedef struct needs {
    long plan, execute; /* bytes at most, while it is done */
    long allocations;   /* of execute */
    size_t workspace;
} needs;

static long begin(void)
{
    most = held;
    return held;
}

static needs measure(attune_context *context, const char *text)
{
    needs found = {0};
    attune_plan *plan;
    at_inputs inputs;
    at_draw draw = {.seed = 3};
    draw_text(text, &draw, &inputs);
    long before = begin();
    assert_ok(attune_plan_create(context, &inputs.problem, NULL, &plan));
    found.plan = most - before;
    assert_ok(attune_plan_workspace(plan, &inputs.call, &found.workspace));
    void *workspace = found.workspace == 0 ? NULL : aligned_alloc(256, (found.workspace + 255) / 256 * 256);
    inputs.call.workspace = workspace;
    inputs.call.workspace_bytes = found.workspace;
    before = begin();
    found.allocations = calls;
    assert_ok(attune_plan_execute(plan, &inputs.call));
    found.allocations = calls - found.allocations;
    found.execute = most - before;
    free(workspace);
    at_inputs_free(&inputs);
    attune_plan_destroy(plan);
    return found;
}

static attune_context *open_context(void)
{
    attune_options options;
    attune_context *context;
    attune_options_init(&options);
    options.target = "cpu";
    options.threads = THREADS;
    assert_ok(attune_context_create(&options, &context));
    return context;
}

/* ---- The bounds ------------------------------------------------------------------------------------------------- */

static const int lengths[LENGTHS] = {64, 256, 1024, 2048};
static const char *const forms[] = {
    "b1,h2,s%d,d64,fp32",
    "b1,h1,s%d,d256,fp16,causal,sink",
    "b1,h2,hkv1,s%d,d80,dv48,bf16,bias=1x1,mask,alibi,softcap=20,window=9:7",
    "b2,h1,s%d,d32,fp32,varlen=4",
};

static void executing_allocates_nothing(void **state)
{
    (void)state;
    attune_context *context = open_context();
    for (size_t form = 0; form < sizeof forms / sizeof forms[0]; ++form) {
        for (int i = 0; i < LENGTHS; ++i) {
            char text[128];
            (void)snprintf(text, sizeof text, forms[form], lengths[i]);
            needs found = measure(context, text);
            if (found.execute != 0 || found.allocations != 0 || found.workspace > (size_t)THREADS * A_THREAD) {
                fail_msg("%s: %ld bytes by %ld allocations, a workspace of %zu", text, found.execute, found.allocations,
                         found.workspace);
            }
        }
    }
    attune_context_destroy(context);
}

/* What a plan keeps is in its context: 20 KB for each config that it has for shorter calls, and no more of them for
 * long sequences than for all. */
static void planning_takes_configs_alone(void **state)
{
    enum { CONFIGS = 32, A_CONFIG = 20 * 1024 };
    (void)state;
    for (size_t form = 0; form < sizeof forms / sizeof forms[0]; ++form) {
        for (int i = 0; i < LENGTHS; ++i) {
            char text[128];
            attune_context *context = open_context();
            (void)snprintf(text, sizeof text, forms[form], lengths[i]);
            needs found = measure(context, text);
            attune_context_destroy(context);
            assert_true(found.plan > 0);
            if (found.plan > (CONFIGS + 1) * A_CONFIG) {
                fail_msg("%s: a plan takes %ld bytes", text, found.plan);
            }
        }
    }
}

/* Planned for the second time, so that the context's own tables do not grow. */
static void a_plan_holds_what_it_says(void **state)
{
    (void)state;
    attune_context *context = open_context();
    attune_problem problem;
    attune_plan *first, *plan;
    assert_ok(attune_problem_parse("b1,h2,s256,d64,fp32", &problem));
    assert_ok(attune_plan_create(context, &problem, NULL, &first));
    const long before = held;
    assert_ok(attune_plan_create(context, &problem, NULL, &plan));
    const long taken = held - before, said = (long)attune_plan_memory(plan);
    assert_true(said > 0 && taken >= said && taken < said + 64); /* the allocator rounds */
    attune_plan_destroy(plan);
    assert_int_equal(held, before);
    attune_plan_destroy(first);
    attune_context_destroy(context);
    assert_int_equal(attune_plan_memory(NULL), 0);
    assert_int_equal(attune_plan_traits(NULL), 0);
}

static void a_context_has_128_kb_a_thread(void **state)
{
    (void)state;
    long before = held;
    attune_context *context = open_context();
    long taken = held - before;
    attune_context_destroy(context);
    assert_int_equal(held, before);
    /* Scratch, and the context's own tables: shipped wisdom, what was chosen, what was loaded. */
    assert_true(taken >= (long)THREADS * A_THREAD);
    if (taken > (long)(THREADS + 1) * A_THREAD) {
        fail_msg("a context of %d threads takes %ld bytes", THREADS, taken);
    }
}

/* The instrument itself. */
static void counts_what_is_allocated(void **state)
{
    (void)state;
    long before = begin(), number = calls;
    void *volatile memory = malloc(1000);
    memory = realloc(memory, 5000);
    assert_true(held - before >= 5000 && held - before < 6000);
    free(memory);
    assert_int_equal(held, before);
    assert_true(most - before >= 5000);
    assert_int_equal(calls - number, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_is_allocated),      cmocka_unit_test(executing_allocates_nothing),
        cmocka_unit_test(planning_takes_configs_alone),  cmocka_unit_test(a_plan_holds_what_it_says),
        cmocka_unit_test(a_context_has_128_kb_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
