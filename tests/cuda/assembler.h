/* ptxas as what makes cubins of PTX, where a machine has it. */
#ifndef TESTS_CUDA_ASSEMBLER_H
#define TESTS_CUDA_ASSEMBLER_H

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/status.h"
#include "cuda/artifact.h"

extern char **environ;

typedef struct assembler {
    char at[64]; /* a folder */
    char arch[16];
    int late; /* how often the PTX had late copies */
} assembler;

static inline bool has_assembler(void)
{
    pid_t child;
    int how = 0;
    char *arguments[] = {"ptxas", "--version", NULL};
    posix_spawn_file_actions_t quiet;
    assert_int_equal(posix_spawn_file_actions_init(&quiet), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0), 0);
    const int failed = posix_spawnp(&child, arguments[0], &quiet, NULL, arguments, environ);
    assert_int_equal(posix_spawn_file_actions_destroy(&quiet), 0);
    return failed == 0 && waitpid(child, &how, 0) == child && how == 0;
}

static inline attune_status assemble(void *context, const char *ptx, size_t bytes, at_artifact *artifact)
{
    assembler *on = context;
    char from[96], to[96];
    void *code = NULL;
    size_t code_bytes = 0;
    pid_t child;
    int how = 0;
    (void)snprintf(from, sizeof from, "%s/late.ptx", on->at);
    (void)snprintf(to, sizeof to, "%s/late.cubin", on->at);
    on->late += strstr(ptx, "attune_copies") != NULL;
    AT_FORWARD(at_file_write(from, ptx, bytes));
    char *arguments[] = {"ptxas", on->arch, from, "-o", to, NULL};
    assert_int_equal(posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    AT_FAIL_IF(how != 0, ATTUNE_COMPILE_ERROR, "ptxas refuses it");
    AT_FORWARD(at_file_read(to, 1 << 26, &code, &code_bytes));
    attune_status status = at_artifact_reserve(artifact, code_bytes, 0);
    if (status == ATTUNE_OK) {
        memcpy(artifact->cubin, code, code_bytes);
    }
    free(code);
    return status;
}

static inline void open_assembler(assembler *on)
{
    *on = (assembler){.at = "/tmp/attune-copies-XXXXXX"};
    assert_non_null(mkdtemp(on->at));
}

static inline void close_assembler(const assembler *on)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/late.ptx", on->at);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/late.cubin", on->at);
    (void)unlink(path);
    assert_int_equal(rmdir(on->at), 0);
}

#endif
