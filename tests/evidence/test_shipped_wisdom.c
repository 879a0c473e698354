/* The wisdom that is shipped: every row is backed by evidence in this repository, and is what the planner takes. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cm.h"
#include "core/plan.h"
#include "core/problem.h"
#include "evidence/evidence.h"
#include "library/catalogue.h"
#include "library/context.h"
#include "library/wisdom.h"

#define SOURCE ATTUNE_SOURCE_DIR "/"

/* All evidence of the repository. */
typedef struct shelf {
    at_evidence file[64];
    size_t count;
} shelf;

static void open_shelf(shelf *all)
{
    char **files;
    assert_ok(at_evidence_find(SOURCE "evidence", &files, &all->count));
    assert_true(all->count <= sizeof all->file / sizeof all->file[0]);
    for (size_t i = 0; i < all->count; ++i) {
        assert_ok(at_evidence_read(files[i], &all->file[i]));
        free(files[i]);
    }
    free(files);
}

static void close_shelf(shelf *all)
{
    for (size_t i = 0; i < all->count; ++i) {
        at_evidence_close(&all->file[i]);
    }
}

static const at_verdict *find_verdict(const shelf *all, const char *digest)
{
    for (size_t i = 0; i < all->count; ++i) {
        for (size_t k = 0; k < all->file[i].count; ++k) {
            if (strcmp(all->file[i].entry[k].digest, digest) == 0) {
                return all->file[i].entry[k].verdict;
            }
        }
    }
    return NULL;
}

/* Its kernel was found right on a problem of its class, by a whole gate. Whether a peer was slower is no matter. */
static void look_at_verdict(const at_wisdom_row *row, const at_verdict *verdict)
{
    enum { CASES = 100 };
    attune_problem problem;
    char class_text[AT_CLASS_TEXT_MAX], target[AT_TARGET_TEXT_MAX];
    assert_int_equal(verdict->right, AT_PASS);
    assert_false(verdict->options.quick);
    assert_true(verdict->options.cases >= CASES);
    assert_string_equal(verdict->kernel, row->kernel_text);
    assert_ok(attune_problem_parse(verdict->problem, &problem));
    at_problem_class(&problem, class_text);
    at_target_print(&verdict->target, target);
    assert_string_equal(class_text, row->class_text);
    assert_string_equal(target, row->target_text);
}

/* With nothing but what is built in, on the row's target: an index that no row of the file shadows. */
static void look_at_plan(const at_wisdom_row *row, const at_verdict *verdict)
{
    attune_options options;
    attune_context *context;
    attune_problem problem;
    attune_plan *plan;
    attune_options_init(&options);
    assert_ok(attune_problem_parse(verdict->problem, &problem));
    assert_ok(at_context_elsewhere(&options, &verdict->target, &context));
    assert_ok(attune_plan_create(context, &problem, NULL, &plan));
    assert_int_equal(plan->origin, AT_ORIGIN_PROVEN);
    assert_true(at_catalogue_same(plan->kernel_text, row->kernel_text)); /* which may lack younger parameters */
    attune_plan_destroy(plan);
    attune_context_destroy(context);
}

static size_t look_at_file(const char *path, const shelf *all)
{
    at_wisdom *wisdom;
    assert_ok(at_wisdom_create(&wisdom));
    assert_ok(at_wisdom_file_read(path, wisdom));
    size_t count = at_wisdom_count(wisdom);
    for (size_t i = 0; i < count; ++i) {
        const at_wisdom_row *row = at_wisdom_at(wisdom, i);
        assert_int_equal(row->kind, AT_PROVEN);
        const at_verdict *verdict = find_verdict(all, row->verdict);
        if (verdict == NULL) {
            fail_msg("%s: the verdict of %s for %s is not in evidence", path, row->kernel_text, row->class_text);
        }
        look_at_verdict(row, verdict);
        look_at_plan(row, verdict);
    }
    at_wisdom_destroy(wisdom);
    return count;
}

static void every_row_has_its_evidence_and_is_taken(void **state)
{
    (void)state;
    static shelf all;
    size_t rows = 0;
    open_shelf(&all);
    DIR *folder = opendir(SOURCE "wisdom");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[512];
        if (strstr(entry->d_name, ".wisdom") != NULL) {
            (void)snprintf(path, sizeof path, SOURCE "wisdom/%s", entry->d_name);
            rows += look_at_file(path, &all);
        }
    }
    (void)closedir(folder);
    close_shelf(&all);
    assert_true(rows > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_its_evidence_and_is_taken),
    };
    return cmocka_run_group_tests_name("gate.shipped_wisdom", tests, NULL, NULL);
}
