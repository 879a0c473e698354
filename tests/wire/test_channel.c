/* Channels: what a worker may do, and how it ends. The workers are this program itself, run with the name of a manner.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "wire/channel.h"

enum { PATIENT_S = 60 };

/* ---- Workers ---------------------------------------------------------------------------------------------------- */

/* Reads a request; false at the end. */
static bool next(at_request *request)
{
    static char line[AT_LINE_MAX];
    return fgets(line, sizeof line, stdin) != NULL && at_request_parse(line, strlen(line) - 1, request) == ATTUNE_OK;
}

static void say(const char *text)
{
    (void)fputs(text, stdout);
    (void)fflush(stdout);
}

static void answer(int64_t id, json_t *ok)
{
    char *line;
    size_t bytes;
    if (at_answer_print(id, ATTUNE_OK, ok, &line, &bytes) == ATTUNE_OK) {
        say(line);
        free(line);
    }
}

static void echo(void)
{
    at_request request;
    while (next(&request) && strcmp(request.op, "quit") != 0) {
        answer(request.id, json_incref(request.root));
        at_request_free(&request);
    }
}

static void refuse(void)
{
    at_request request;
    if (next(&request)) {
        say("{\"id\":1,\"error\":{\"status\":\"not found\",\"detail\":\"no such thing: 7 of 5\"}}\n");
    }
    echo();
}

static void hang(void)
{
    at_request request;
    if (next(&request)) {
        (void)fputs("about to wait\nfor ever\n", stderr);
        answer(request.id, json_object());
        at_request_free(&request);
    }
    while (true) {
        (void)pause();
    }
}

static void crash(void)
{
    at_request request;
    (void)fputs("stepping on it\n", stderr);
    (void)next(&request);
    (void)raise(SIGKILL);
}

static void leave(void)
{
    at_request request;
    (void)next(&request);
    exit(7);
}

static void talk_rubbish(void)
{
    at_request request;
    if (next(&request)) {
        say("kernel says hello!\n");
    }
    (void)pause();
}

static void answer_another(void)
{
    at_request request;
    if (next(&request)) {
        say("{\"id\":99,\"ok\":{}}\n");
    }
    (void)pause();
}

static void answer_twice(void)
{
    at_request request;
    if (next(&request)) {
        say("{\"id\":1,\"ok\":{}}\n{\"id\":2,\"ok\":{}}\n");
    }
    (void)pause();
}

static void flood(void)
{
    while (true) {
        say("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    }
}

static void shout(void)
{
    for (int i = 0; i < 20000; ++i) {
        (void)fprintf(stderr, "line %d of too much to keep\n", i);
    }
    echo();
}

static void deaf(void)
{
    while (true) {
        (void)pause();
    }
}

static void use_arena(void)
{
    at_request request;
    while (next(&request) && strcmp(request.op, "quit") != 0) {
        char *arena = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, AT_ARENA_FD, 0);
        arena[1] = (char)(arena[0] + 1);
        (void)munmap(arena, 8192);
        answer(request.id, json_object());
        at_request_free(&request);
    }
}

static const struct {
    const char *name;
    void (*be)(void);
} manners[] = {
    {"echo", echo},
    {"refuse", refuse},
    {"hang", hang},
    {"crash", crash},
    {"leave", leave},
    {"rubbish", talk_rubbish},
    {"another", answer_another},
    {"twice", answer_twice},
    {"flood", flood},
    {"shout", shout},
    {"deaf", deaf},
    {"arena", use_arena},
};

/* ---- The tests' side -------------------------------------------------------------------------------------------- */

static at_channel *opened(const char *manner, size_t arena)
{
    const char *const command[] = {"/proc/self/exe", manner, NULL};
    const at_channel_options options = {command, arena};
    at_channel *channel;
    assert_int_equal(at_channel_open(&options, &channel), ATTUNE_OK);
    return channel;
}

/* Asks once and expects the worker's end, for this reason; the channel then stays dead. */
static void expect_death(const char *manner, double seconds, const char *reason)
{
    at_channel *channel = opened(manner, 0);
    json_t *ok = (json_t *)channel;
    assert_int_equal(at_channel_ask(channel, "anything", NULL, seconds, &ok), ATTUNE_DEVICE_ERROR);
    assert_null(ok);
    assert_non_null(strstr(attune_last_detail(), reason));
    assert_string_equal(at_channel_death(channel), attune_last_detail());
    assert_int_equal(at_channel_ask(channel, "anything", json_object(), seconds, NULL), ATTUNE_DEVICE_ERROR);
    assert_non_null(strstr(attune_last_detail(), reason));
    at_channel_close(channel);
}

static void test_answers(void **state)
{
    (void)state;
    at_channel *channel = opened("echo", 0);
    for (int i = 1; i <= 3; ++i) {
        json_t *ok;
        int64_t n;
        assert_int_equal(at_channel_ask(channel, "twice", json_pack("{s:i}", "n", 10 * i), PATIENT_S, &ok), ATTUNE_OK);
        assert_int_equal(at_json_int(ok, "ok", "n", 0, 100, &n), ATTUNE_OK);
        assert_int_equal(n, 10 * i);
        assert_int_equal(at_json_int(ok, "ok", "id", 0, 100, &n), ATTUNE_OK);
        assert_int_equal(n, i);
        json_decref(ok);
    }
    assert_null(at_channel_death(channel));
    at_channel_close(channel);
}

static void test_errors_travel(void **state)
{
    (void)state;
    at_channel *channel = opened("refuse", 0);
    assert_int_equal(at_channel_ask(channel, "find", NULL, PATIENT_S, NULL), ATTUNE_NOT_FOUND);
    assert_string_equal(attune_last_detail(), "no such thing: 7 of 5");
    assert_null(at_channel_death(channel));
    assert_int_equal(at_channel_ask(channel, "again", NULL, PATIENT_S, NULL), ATTUNE_OK);
    at_channel_close(channel);
}

static void test_hang(void **state)
{
    (void)state;
    at_channel *channel = opened("hang", 0);
    assert_int_equal(at_channel_ask(channel, "begin", NULL, PATIENT_S, NULL), ATTUNE_OK);
    assert_int_equal(at_channel_ask(channel, "go on", NULL, 0.2, NULL), ATTUNE_DEVICE_ERROR);
    assert_non_null(strstr(attune_last_detail(), "gave no answer within 0.2 s to \"go on\" and was ended"));
    assert_non_null(strstr(attune_last_detail(), "its last line was: for ever"));
    assert_string_equal(at_channel_last_words(channel), "about to wait\nfor ever\n");
    at_channel_close(channel);
}

static void test_ends(void **state)
{
    (void)state;
    expect_death("crash", PATIENT_S, "was ended by signal 9");
    expect_death("leave", PATIENT_S, "ended by itself with exit code 7");
    expect_death("deaf", 0.3, "gave no answer within 0.3 s");
}

static void test_rubbish(void **state)
{
    (void)state;
    expect_death("rubbish", PATIENT_S, "broke the protocol");
    expect_death("another", PATIENT_S, "it is to request 99, 1 was asked");
    expect_death("twice", PATIENT_S, "more than one line");
    expect_death("flood", PATIENT_S, "more than 1048576 bytes in one line");
}

static void test_much_on_standard_error(void **state)
{
    (void)state;
    at_channel *channel = opened("shout", 0);
    assert_int_equal(at_channel_ask(channel, "anything", NULL, PATIENT_S, NULL), ATTUNE_OK);
    const char *words = at_channel_last_words(channel);
    assert_int_equal(strlen(words), AT_LAST_WORDS_MAX);
    assert_non_null(strstr(words, "line 19999 of too much to keep\n"));
    at_channel_close(channel);
}

static void test_long_requests(void **state)
{
    (void)state;
    enum { LONG = AT_LINE_MAX - 100 };
    at_channel *channel = opened("echo", 0);
    char *text = calloc(LONG + 101, 1);
    memset(text, 'a', LONG);
    assert_int_equal(at_channel_ask(channel, "keep", json_pack("{s:s}", "text", text), PATIENT_S, NULL), ATTUNE_OK);
    memset(text, 'a', LONG + 100);
    assert_int_equal(at_channel_ask(channel, "keep", json_pack("{s:s}", "text", text), PATIENT_S, NULL),
                     ATTUNE_INTERNAL);
    assert_null(at_channel_death(channel)); /* it was not sent */
    free(text);
    at_channel_close(channel);
}

static void test_request_that_is_never_read(void **state)
{
    (void)state;
    enum { LONG = 900000 };
    at_channel *channel = opened("deaf", 0);
    char *text = calloc(LONG + 1, 1);
    memset(text, 'a', LONG);
    assert_int_equal(at_channel_ask(channel, "keep", json_pack("{s:s}", "text", text), 0.3, NULL), ATTUNE_DEVICE_ERROR);
    assert_non_null(strstr(attune_last_detail(), "gave no answer within 0.3 s"));
    free(text);
    at_channel_close(channel);
}

static void test_arena(void **state)
{
    (void)state;
    size_t bytes;
    at_channel *channel = opened("arena", 8192);
    unsigned char *arena = at_channel_arena(channel, &bytes);
    assert_int_equal(bytes, 8192);
    arena[0] = 41;
    assert_int_equal(at_channel_ask(channel, "add", NULL, PATIENT_S, NULL), ATTUNE_OK);
    assert_int_equal(arena[1], 42);
    at_channel_close(channel);
}

static void test_interrupt(void **state)
{
    (void)state;
    at_channel *channel = opened("deaf", 0);
    at_file_interrupt();
    assert_int_equal(at_channel_ask(channel, "wait", NULL, PATIENT_S, NULL), ATTUNE_INTERRUPTED);
    at_file_resume();
    assert_non_null(at_channel_death(channel));
    at_channel_close(channel);
}

static void test_no_such_program(void **state)
{
    (void)state;
    const char *const command[] = {"/no/such/program", NULL};
    const at_channel_options options = {command, 0};
    at_channel *channel = NULL;
    assert_int_equal(at_channel_open(&options, &channel), ATTUNE_IO_ERROR);
    assert_non_null(strstr(attune_last_detail(), "/no/such/program"));
    assert_null(channel);
    at_channel_close(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_errors_travel),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_rubbish),
        cmocka_unit_test(test_much_on_standard_error),
        cmocka_unit_test(test_long_requests),
        cmocka_unit_test(test_request_that_is_never_read),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_no_such_program),
    };
    for (size_t i = 0; argc > 1 && i < sizeof manners / sizeof manners[0]; ++i) {
        if (strcmp(argv[1], manners[i].name) == 0) {
            manners[i].be();
            return 0;
        }
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
