/* Running the command inside a test: what it printed, what it said, and how it ended. */
#ifndef TESTS_CLI_COMMAND_H
#define TESTS_CLI_COMMAND_H

#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

typedef struct outcome {
    int code;
    char *out, *err; /* malloced */
} outcome;

/* `arguments` begin after the command's name and end with NULL. */
static inline outcome command(const char *const *arguments)
{
    outcome result = {0};
    const char *argv[64] = {"attune"};
    int argc = 1;
    size_t out_bytes, err_bytes;
    while (arguments[argc - 1] != NULL && argc < 63) {
        argv[argc] = arguments[argc - 1];
        ++argc;
    }
    FILE *out = open_memstream(&result.out, &out_bytes);
    FILE *err = open_memstream(&result.err, &err_bytes);
    result.code = at_cli_main(argc, argv, out, err);
    (void)fclose(out);
    (void)fclose(err);
    return result;
}

#define COMMAND(...) command((const char *const[]){__VA_ARGS__, NULL})

static inline void outcome_free(outcome *result)
{
    free(result->out);
    free(result->err);
}

/* The command ended with this code and said these words on standard error; for tests that include base/cm.h. */
#define outcome_expect(call, wanted, said)                                                                             \
    do {                                                                                                               \
        outcome got_ = (call);                                                                                         \
        if (got_.code != (wanted) || strstr(got_.err, (said)) == NULL) {                                               \
            fail_msg("exit code %d, expected %d; \"%s\" lacks \"%s\"", got_.code, (int)(wanted), got_.err, (said));    \
        }                                                                                                              \
        outcome_free(&got_);                                                                                           \
    } while (0)

#endif
