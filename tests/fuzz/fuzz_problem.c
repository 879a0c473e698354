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
    free(text);
    if (status == ATTUNE_OK) {
        check_problem(&problem);
    } else {
        check_refusal(status);
    }
    return 0;
}
