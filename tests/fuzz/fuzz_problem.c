/* Any bytes as a problem's text: refused in printable words, or a valid problem that prints and reads back the same. */
#include <stdlib.h>
#include <string.h>

#include "core/call.h"
#include "core/problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void insist(int holds)
{
    if (!holds) {
        abort();
    }
}

static void check_refusal(attune_status status)
{
    insist(status == ATTUNE_INVALID_PROBLEM && attune_last_detail()[0] != '\0');
    for (const char *at = attune_last_detail(); *at != '\0'; ++at) {
        insist(*at >= 0x20 && *at < 0x7f);
    }
}

static void check_problem(const attune_problem *problem)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    char class_text[AT_CLASS_TEXT_MAX];
    attune_problem again;
    attune_call call;
    insist(attune_problem_check(problem) == ATTUNE_OK);
    insist(attune_problem_print(problem, text, sizeof text) == ATTUNE_OK);
    insist(attune_problem_parse(text, &again) == ATTUNE_OK);
    insist(at_problem_equal(problem, &again));
    insist(attune_problem_hash(problem) == attune_problem_hash(&again));
    insist(attune_problem_flops(problem) >= 0.0);
    insist(attune_call_init(&call, problem) == ATTUNE_OK);
    at_problem_class(problem, class_text);
    insist(strlen(class_text) < AT_CLASS_TEXT_MAX - 1);
}

/* The same text with its length seed. */
static void check_test_problem(const char *text, const attune_problem *problem)
{
    char printed[ATTUNE_PROBLEM_TEXT_MAX];
    at_test_problem test, again;
    insist(at_test_problem_parse(text, &test) == ATTUNE_OK);
    insist(at_problem_equal(&test.problem, problem));
    insist(at_test_problem_print(&test, printed, sizeof printed) == ATTUNE_OK);
    insist(at_test_problem_parse(printed, &again) == ATTUNE_OK);
    insist(at_test_problem_equal(&test, &again));
    insist(at_test_problem_hash(&test) == at_test_problem_hash(&again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    attune_problem problem;
    char *text = malloc(bytes + 1);
    insist(text != NULL);
    if (bytes > 0) {
        memcpy(text, data, bytes);
    }
    text[bytes] = '\0';
    attune_status status = attune_problem_parse(text, &problem);
    if (status == ATTUNE_OK) {
        check_problem(&problem);
        check_test_problem(text, &problem);
    } else {
        check_refusal(status);
    }
    free(text);
    return 0;
}
