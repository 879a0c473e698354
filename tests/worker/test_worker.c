/* A worker asked for what it cannot do: every request has an answer, and the worker goes on. It is this program itself.
 */
#include "base/cm.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/channel.h"
#include "worker/worker.h"

enum { PATIENCE_S = 60, ARENA = 1 << 16 };

static at_channel *channel;

static attune_status ask(const char *op, json_t *fields)
{
    return at_channel_ask(channel, op, fields, PATIENCE_S, NULL);
}

static int start(void **state)
{
    (void)state;
    const char *const command[] = {"/proc/self/exe", "worker", NULL};
    const at_channel_options options = {command, ARENA};
    (void)setenv("ASAN_OPTIONS", "allocator_may_return_null=1", 0); /* too much memory is refused, not a crash */
    return at_channel_open(&options, &channel) == ATTUNE_OK ? 0 : -1;
}

static int start_open(void **state)
{
    return start(state) == 0 && ask("hello", json_pack("{s:i,s:i}", "protocol", AT_PROTOCOL, "arena", ARENA)) == 0 &&
                   ask("open", json_pack("{s:s,s:i}", "target", "cpu", "threads", 1)) == 0
               ? 0
               : -1;
}

static int stop(void **state)
{
    (void)state;
    bool alive = at_channel_death(channel) == NULL;
    at_channel_close(channel);
    return alive ? 0 : -1;
}

static void another_protocol(void **state)
{
    (void)state;
    assert_fails(ask("hello", json_pack("{s:i,s:i}", "protocol", AT_PROTOCOL + 1, "arena", 0)), ATTUNE_UNSUPPORTED,
                 "protocol 2 is asked for, this worker speaks 1");
    assert_fails(ask("hello", json_object()), ATTUNE_CORRUPT, "protocol");
    assert_ok(ask("hello", json_pack("{s:i,s:i}", "protocol", AT_PROTOCOL, "arena", ARENA)));
}

static void another_arena(void **state)
{
    (void)state;
    assert_fails(ask("hello", json_pack("{s:i,s:i}", "protocol", AT_PROTOCOL, "arena", 2 * ARENA)),
                 ATTUNE_INVALID_ARGUMENT, "no arena of 131072 bytes");
    assert_ok(ask("hello", json_pack("{s:i,s:i}", "protocol", AT_PROTOCOL, "arena", ARENA)));
    assert_fails(ask("hello", json_pack("{s:i,s:i}", "protocol", AT_PROTOCOL, "arena", ARENA)), ATTUNE_INVALID_ARGUMENT,
                 "mapped already");
}

static void before_open(void **state)
{
    (void)state;
    static const char *const ops[] = {"alloc", "free",  "send",  "fetch",   "fill",           "sync",  "load", "run",
                                      "drop",  "stage", "block", "machine", "poison_scratch", "delay", "fence"};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; ++i) {
        assert_fails(ask(ops[i], json_object()), ATTUNE_INVALID_ARGUMENT, "before \"open\"");
    }
    assert_fails(ask("dance", NULL), ATTUNE_INVALID_ARGUMENT, "there is no op \"dance\"");
}

static void bad_targets(void **state)
{
    (void)state;
    assert_fails(ask("open", json_object()), ATTUNE_CORRUPT, "threads");
    assert_int_equal(ask("open", json_pack("{s:s,s:i}", "target", "abacus", "threads", 1)), ATTUNE_INVALID_ARGUMENT);
    assert_ok(ask("open", json_pack("{s:s,s:i}", "target", "cpu", "threads", 1)));
    assert_fails(ask("open", json_pack("{s:s,s:i}", "target", "cpu", "threads", 1)), ATTUNE_INVALID_ARGUMENT,
                 "open already");
}

static void bad_memory(void **state)
{
    (void)state;
    assert_fails(ask("alloc", json_object()), ATTUNE_CORRUPT, "bytes");
    assert_fails(ask("alloc", json_pack("{s:i}", "bytes", -1)), ATTUNE_CORRUPT, "bytes");
    assert_int_equal(ask("alloc", json_pack("{s:I}", "bytes", INT64_MAX)), ATTUNE_OUT_OF_MEMORY);
    assert_fails(ask("send", json_pack("{s:i,s:i,s:i}", "to", 4096, "at", 1, "bytes", ARENA)), ATTUNE_INVALID_ARGUMENT,
                 "of an arena of 65536");
    assert_fails(ask("send", json_pack("{s:i,s:i,s:i}", "to", 4096, "at", 0, "bytes", ARENA + 1)), ATTUNE_CORRUPT,
                 "bytes");
    assert_fails(ask("fill", json_pack("{s:i,s:i,s:i}", "to", 4096, "bytes", 1, "pattern", 256)), ATTUNE_CORRUPT,
                 "pattern");
    assert_fails(ask("poison_scratch", json_pack("{s:I}", "pattern", (json_int_t)INT32_MAX + 1)), ATTUNE_CORRUPT,
                 "pattern");
}

static void memory_works(void **state)
{
    (void)state;
    json_t *ok;
    size_t bytes;
    unsigned char *arena = at_channel_arena(channel, &bytes);
    assert_ok(at_channel_ask(channel, "alloc", json_pack("{s:i}", "bytes", ARENA), PATIENCE_S, &ok));
    json_int_t data = json_integer_value(json_object_get(ok, "data"));
    json_decref(ok);
    assert_ok(ask("fill", json_pack("{s:I,s:i,s:i}", "to", data, "bytes", ARENA, "pattern", 0x5a)));
    assert_ok(ask("poison_scratch", json_pack("{s:i}", "pattern", 0xff))); /* which is not what was allocated */
    memset(arena, 1, ARENA);
    assert_ok(ask("send", json_pack("{s:I,s:i,s:i}", "to", data + 16, "at", 0, "bytes", 16)));
    assert_ok(ask("fetch", json_pack("{s:I,s:i,s:i}", "from", data, "at", 64, "bytes", 64)));
    assert_int_equal(arena[64], 0x5a);
    assert_int_equal(arena[64 + 15], 0x5a);
    assert_int_equal(arena[64 + 16], 1);
    assert_int_equal(arena[64 + 31], 1);
    assert_int_equal(arena[64 + 32], 0x5a);
    assert_ok(ask("free", json_pack("{s:I}", "data", data)));
}

static void bad_arms(void **state)
{
    (void)state;
    const char *problem = "b1,h1,s16,d64,fp32";
    assert_fails(ask("load", json_pack("{s:s}", "arm", "cpu_tiled")), ATTUNE_CORRUPT, "problem");
    assert_fails(ask("load", json_pack("{s:s,s:s}", "arm", "cpu_tiled", "problem", "b1,h1,zzz")),
                 ATTUNE_INVALID_PROBLEM, "zzz");
    assert_int_equal(ask("load", json_pack("{s:s,s:s}", "arm", "torch:flash", "problem", problem)), ATTUNE_NOT_FOUND);
    assert_int_equal(ask("load", json_pack("{s:s,s:s,s:[]}", "arm", "x", "problem", problem, "recipe")),
                     ATTUNE_CORRUPT);
    assert_fails(ask("run", json_pack("{s:i}", "arm", 0)), ATTUNE_INVALID_ARGUMENT, "there is no arm 0");
    assert_ok(ask("load", json_pack("{s:s,s:s}", "arm", "cpu_tiled", "problem", problem)));
    assert_fails(ask("run", json_pack("{s:i}", "arm", 0)), ATTUNE_CORRUPT, "call");
    assert_fails(ask("run", json_pack("{s:i,s:{}}", "arm", 0, "call")), ATTUNE_CORRUPT, "sizes");
    assert_fails(
        ask("run", json_pack("{s:i,s:{s:[i,i,i,i,i,i,i,i],s:i,s:i,s:i,s:{}}}", "arm", 0, "call", "sizes", 1, 1, 1, 16,
                             16, 16, 16, 0, "workspace", 0, "workspace_bytes", 0, "stream", 0, "tensors")),
        ATTUNE_INVALID_ARGUMENT, "Q");
    assert_ok(ask("drop", json_pack("{s:i}", "arm", 0)));
    assert_fails(ask("drop", json_pack("{s:i}", "arm", 0)), ATTUNE_INVALID_ARGUMENT, "there is no arm 0");
}

/* It ends, and says so by its exit code, rather than try for ever. */
static void answers_that_cannot_be_written(void **state)
{
    (void)state;
    static const char request[] = "{\"id\":1,\"op\":\"machine\"}\n";
    static char self[] = "/proc/self/exe", verb[] = "worker";
    char *const arguments[] = {self, verb, NULL};
    posix_spawn_file_actions_t streams;
    int line[2], status = 0;
    pid_t child = 0;
    assert_int_equal(pipe(line), 0);
    assert_int_equal(write(line[1], request, sizeof request - 1), sizeof request - 1);
    assert_int_equal(close(line[1]), 0);
    assert_int_equal(posix_spawn_file_actions_init(&streams), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&streams, line[0], STDIN_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&streams, STDOUT_FILENO, "/dev/full", O_WRONLY, 0), 0);
    assert_int_equal(posix_spawn(&child, self, &streams, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    (void)posix_spawn_file_actions_destroy(&streams);
    (void)close(line[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_protocol, start, stop),
        cmocka_unit_test_setup_teardown(another_arena, start, stop),
        cmocka_unit_test_setup_teardown(before_open, start, stop),
        cmocka_unit_test_setup_teardown(bad_targets, start, stop),
        cmocka_unit_test_setup_teardown(bad_memory, start_open, stop),
        cmocka_unit_test_setup_teardown(memory_works, start_open, stop),
        cmocka_unit_test_setup_teardown(bad_arms, start_open, stop),
        cmocka_unit_test(answers_that_cannot_be_written),
    };
    if (argc > 1) {
        return strcmp(argv[1], "worker") == 0 && attune_worker_serve(NULL) == ATTUNE_OK ? 0 : 3;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
