/* Ledgers: what is written is read, what was changed is refused, and what a process that dies leaves is gone on with.
 */
#include "evolve/example_ledger.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <zlib.h>

#include "base/file.h"
#include "base/folder.h"
#include "evolve/ledger_line.h"

static folder here;
static at_space *space;

static int setup(void **state)
{
    (void)state;
    space = landscape_open();
    return folder_make(&here);
}

static int teardown(void **state)
{
    (void)state;
    at_space_close(space);
    folder_remove(&here);
    return 0;
}

/* ---- Helpers ----------------------------------------------------------------------------------------------------- */

static at_ledger *create(const char *path)
{
    at_event start = example_event(AT_EVENT_START, NULL);
    at_ledger *ledger;
    assert_ok(at_ledger_create(path, &start, &ledger));
    return ledger;
}

static void append(at_ledger *ledger, at_event_kind kind)
{
    at_event event = example_event(kind, space);
    assert_ok(at_ledger_append(ledger, &event));
}

/* A ledger with every kind of event. */
static const char *write_example(void)
{
    const char *path = folder_file(&here, "example.jsonl");
    at_ledger *ledger = create(path);
    for (int kind = AT_EVENT_SPACE; kind < AT_EVENT_KINDS; ++kind) {
        append(ledger, (at_event_kind)kind);
    }
    at_ledger_close(ledger);
    return path;
}

/* The bytes of a file, which the caller frees. */
static char *read_bytes(const char *path, size_t *bytes)
{
    void *data;
    assert_ok(at_file_read(path, 1 << 24, &data, bytes));
    return data;
}

/* Lines, made by hand, from bodies without their last brace. */
static char *chain(const char *const *bodies, size_t count, size_t *bytes)
{
    char digest[AT_DIGEST_TEXT_MAX] = "";
    char *data;
    at_text text;
    at_text_init(&text);
    for (size_t i = 0; i < count; ++i) {
        at_ledger_digest(digest, bodies[i], strlen(bodies[i]), digest);
        at_text_add(&text, "%s" AT_LEDGER_DIGEST "%s\"}\n", bodies[i], digest);
    }
    assert_ok(at_text_take(&text, "chain", &data, bytes));
    return data;
}

/* ---- Writing and reading ----------------------------------------------------------------------------------------- */

static void assert_same_event(const at_event *read, const at_event *written)
{
    json_t *a = at_event_write(read);
    json_t *b = at_event_write(written);
    assert_non_null(a);
    assert_true(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    at_ledger_log *log;
    assert_ok(at_ledger_read(write_example(), &log));
    assert_int_equal(log->count, AT_EVENT_KINDS);
    assert_true(log->ended);
    assert_int_equal(log->torn_bytes, 0);
    assert_int_equal(log->next_seq, AT_EVENT_KINDS);
    assert_ptr_equal(log->space, log->event[AT_EVENT_SPACE].as.space);
    for (int kind = 0; kind < AT_EVENT_KINDS; ++kind) {
        at_event written = example_event((at_event_kind)kind, space);
        assert_int_equal(log->event[kind].kind, kind);
        assert_int_equal(log->event[kind].seq, kind);
        assert_same_event(&log->event[kind], &written);
    }
    assert_true(log->event[0].as.start.seed == UINT64_MAX);
    assert_int_equal(log->event[AT_EVENT_MEASUREMENT].as.measurement.pairs, 3);
    assert_true(log->event[AT_EVENT_MEASUREMENT].as.measurement.champion_us[2] == 9.875);
    assert_int_equal(log->event[AT_EVENT_BUILD].as.build.figures.registers, 168);
    at_ledger_free(log);
}

static void what_a_search_leaves_alone_is_kept(void **state)
{
    (void)state;
    const char *path = folder_file(&here, "one.jsonl");
    at_event start = example_event(AT_EVENT_START, NULL);
    at_ledger *ledger;
    at_ledger_log *log;
    (void)snprintf(start.as.start.one, sizeof start.as.start.one, "%s", EXAMPLE_CONFIG);
    (void)snprintf(start.as.start.fixed, sizeof start.as.start.fixed, "STAGES=1");
    assert_ok(at_ledger_create(path, &start, &ledger));
    at_ledger_close(ledger);
    assert_ok(at_ledger_read(path, &log));
    assert_string_equal(log->event[0].as.start.one, EXAMPLE_CONFIG);
    assert_string_equal(log->event[0].as.start.fixed, "STAGES=1");
    at_ledger_free(log);
}

static void compressed_ones_are_read_alike(void **state)
{
    (void)state;
    size_t bytes;
    at_ledger_log *log;
    char *text = read_bytes(write_example(), &bytes);
    const char *path = folder_file(&here, "example.jsonl.gz");
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(file), Z_OK);
    assert_ok(at_ledger_read(path, &log));
    assert_int_equal(log->count, AT_EVENT_KINDS);
    at_ledger_free(log);
    free(text);
    text = read_bytes(path, &bytes);
    assert_ok(at_file_write(path, text, bytes / 2));
    assert_fails(at_ledger_read(path, &log), ATTUNE_CORRUPT, "cannot be decompressed");
    free(text);
}

/* A ledger as the first version wrote it stays readable. */
static void the_first_versions_ledger_is_read(void **state)
{
    (void)state;
    at_ledger_log *log;
    assert_ok(at_ledger_read(ATTUNE_SOURCE_DIR "/tests/evolve/data/version_1.jsonl", &log));
    assert_int_equal(log->count, 12); /* before there were searches for code */
    assert_string_equal(log->event[AT_EVENT_CANDIDATE].as.candidate.config, EXAMPLE_CONFIG);
    assert_int_equal(log->space->count, space->count);
    at_ledger_free(log);
}

static void nothing_is_overwritten(void **state)
{
    (void)state;
    const char *path = write_example();
    at_event start = example_event(AT_EVENT_START, NULL);
    at_ledger *ledger;
    assert_fails(at_ledger_create(path, &start, &ledger), ATTUNE_INVALID_ARGUMENT, "never overwritten");
    assert_null(ledger);
    assert_fails(at_ledger_create("/nowhere/at/all.jsonl", &start, &ledger), ATTUNE_NOT_FOUND, "cannot be opened");
}

static void two_writers_are_one_too_many(void **state)
{
    (void)state;
    const char *path = folder_file(&here, "shared.jsonl");
    at_ledger *first = create(path), *second;
    at_ledger_log *log;
    assert_fails(at_ledger_resume(path, &second, &log), ATTUNE_INVALID_ARGUMENT, "another process");
    append(first, AT_EVENT_SPACE);
    at_ledger_close(first);
    assert_ok(at_ledger_resume(path, &second, &log));
    at_ledger_close(second);
    at_ledger_free(log);
}

static void a_ledger_has_one_start(void **state)
{
    (void)state;
    at_ledger *ledger;
    at_event event = example_event(AT_EVENT_RESUME, NULL);
    assert_fails(at_ledger_create(folder_file(&here, "a.jsonl"), &event, &ledger), ATTUNE_INVALID_ARGUMENT,
                 "begins with its start");
    ledger = create(folder_file(&here, "b.jsonl"));
    event = example_event(AT_EVENT_START, NULL);
    assert_fails(at_ledger_append(ledger, &event), ATTUNE_INVALID_ARGUMENT, "begins with its start");
    at_ledger_close(ledger);
}

static void a_disk_that_is_full_ends_the_ledger(void **state)
{
    (void)state;
    at_event start = example_event(AT_EVENT_START, NULL);
    at_ledger *ledger;
    assert_fails(at_ledger_create("/dev/full", &start, &ledger), ATTUNE_IO_ERROR, "No space left");
}

/* ---- What was changed -------------------------------------------------------------------------------------------- */

static void every_changed_byte_is_noticed(void **state)
{
    (void)state;
    at_ledger *ledger = create(folder_file(&here, "short.jsonl"));
    append(ledger, AT_EVENT_CANDIDATE);
    append(ledger, AT_EVENT_CHECK);
    at_ledger_close(ledger);
    size_t bytes;
    char *text = read_bytes(folder_file(&here, "short.jsonl"), &bytes);
    for (size_t i = 0; i < bytes; ++i) {
        at_ledger_log *log;
        text[i] ^= 1;
        attune_status status = at_ledger_parse("test", text, bytes, &log);
        /* A last line whose newline is gone is torn, and passed over. */
        bool torn = status == ATTUNE_OK && log->count == 2 && log->torn_bytes > 0;
        if (status != ATTUNE_CORRUPT && !torn) {
            fail_msg("byte %zu changed, and nobody noticed", i);
        }
        at_ledger_free(log);
        text[i] ^= 1;
    }
    free(text);
}

/* Lines of the example in another order; -1 ends the list. */
static char *rearrange(const char *text, const int *order, size_t *bytes)
{
    char *made;
    at_text out;
    at_text_init(&out);
    for (; *order >= 0; ++order) {
        const char *line = text;
        for (int skip = *order; skip > 0; --skip) {
            line = strchr(line, '\n') + 1;
        }
        at_text_add_bytes(&out, line, (size_t)(strchr(line, '\n') - line) + 1);
    }
    assert_ok(at_text_take(&out, "rearranged", &made, bytes));
    return made;
}

static void lines_that_are_missing_moved_or_repeated_are_named(void **state)
{
    (void)state;
    static const struct {
        int order[8];
        const char *words;
    } cases[] = {
        {{0, 2, 3, -1}, "line 2"},    /* dropped */
        {{0, 2, 1, 3, -1}, "line 2"}, /* swapped */
        {{0, 1, 1, 2, -1}, "line 3"}, /* repeated */
        {{0, 1, 2, 4, 5, -1}, "line 4"}, {{1, 2, 3, -1}, "line 1"},
    };
    size_t bytes;
    char *text = read_bytes(write_example(), &bytes);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        size_t length;
        at_ledger_log *log;
        char *other = rearrange(text, cases[i].order, &length);
        assert_fails(at_ledger_parse("test", other, length, &log), ATTUNE_CORRUPT, cases[i].words);
        assert_null(log);
        free(other);
    }
    free(text);
}

#define START                                                                                                          \
    "{\"seq\":0,\"kind\":\"start\",\"at_s\":0.0,\"format\":\"attune-ledger\",\"version\":1,\"attune\":\"\","           \
    "\"kernel\":\"\",\"problem\":\"\",\"target\":\"\",\"source\":\"\",\"strategy\":\"\",\"seed\":\"1\","               \
    "\"budget\":\"\",\"policy\":\"\",\"from later\":{\"versions\":[1,2]}"

/* Chains that hold together, of lines that do not say what they should. */
static void whole_lines_without_sense_are_refused_with_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *body[2], *words;
        attune_status status;
    } cases[] = {
        {{"{\"seq\":1"}, "line 1: field \"seq\" is 1", ATTUNE_CORRUPT},
        {{"{\"seq\":0"}, "field \"kind\" is nothing", ATTUNE_CORRUPT},
        {{"{\"seq\":0,\"kind\":\"resume\",\"at_s\":0"}, "begins with its start", ATTUNE_CORRUPT},
        {{"{\"seq\":0,\"kind\":\"novel\",\"at_s\":0"}, "begins with its start", ATTUNE_CORRUPT},
        {{"[0"}, "its JSON", ATTUNE_CORRUPT},
        {{"{\"seq\":0,\"kind\":\"start\",\"at_s\":0.0,\"format\":\"attune-ledger\",\"version\":2,\"attune\":\"\","
          "\"kernel\":\"\",\"problem\":\"\",\"target\":\"\",\"source\":\"\",\"strategy\":\"\",\"seed\":\"1\","
          "\"budget\":\"\",\"policy\":\"\""},
         "its version is 2, this attune reads up to 1",
         ATTUNE_UNSUPPORTED},
        {{START, START}, "line 2: field \"seq\" is 0", ATTUNE_CORRUPT},
        {{START, "{\"seq\":1,\"kind\":\"start\",\"at_s\":0"}, "line 2: field \"attune\"", ATTUNE_CORRUPT},
        {{START, "{\"seq\":1,\"kind\":\"resume\",\"at_s\":\"late\""}, "line 2: field \"at_s\"", ATTUNE_CORRUPT},
        {{START, "{\"seq\":1,\"kind\":\"candidate\",\"at_s\":0,\"config\":\"k\""}, "field \"from\"", ATTUNE_CORRUPT},
        {{START, "{\"seq\":1,\"kind\":\"refusal\",\"at_s\":0,\"config\":\"k\",\"stage\":\"ran\",\"why\":\"\""},
         "\"ran\" in a refusal",
         ATTUNE_CORRUPT},
        {{START, "{\"seq\":1,\"kind\":\"measurement\",\"at_s\":0,\"config\":\"k\",\"champion\":\"k\",\"code\":\"\","
                 "\"round\":0,\"censored\":false,\"us\":[1],\"champion_us\":[1,2]"},
         "has 2 times beside 1",
         ATTUNE_CORRUPT},
        {{START, "{\"seq\":1,\"kind\":\"measurement\",\"at_s\":0,\"config\":\"k\",\"champion\":\"k\",\"code\":\"\","
                 "\"round\":0,\"censored\":false,\"us\":[0],\"champion_us\":[1]"},
         "a time that is none",
         ATTUNE_CORRUPT},
        {{START, "{\"seq\":1,\"kind\":\"space\",\"at_s\":0,\"space\":{\"kernel\":7}"},
         "line 2: space: field",
         ATTUNE_CORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        size_t bytes;
        at_ledger_log *log;
        char *text = chain(cases[i].body, cases[i].body[1] == NULL ? 1 : 2, &bytes);
        assert_fails(at_ledger_parse("test", text, bytes, &log), cases[i].status, cases[i].words);
        assert_null(log);
        free(text);
    }
}

static void what_later_versions_add_is_passed_over(void **state)
{
    (void)state;
    static const char *const bodies[] = {START, "{\"seq\":1,\"kind\":\"novel\",\"at_s\":1,\"plot\":[]",
                                         "{\"seq\":2,\"kind\":\"resume\",\"at_s\":2,\"mood\":\"good\""};
    size_t bytes;
    at_ledger_log *log;
    char *text = chain(bodies, 3, &bytes);
    assert_ok(at_ledger_parse("test", text, bytes, &log));
    assert_int_equal(log->count, 2);
    assert_int_equal(log->passed, 1);
    assert_int_equal(log->next_seq, 3);
    at_ledger_free(log);
    free(text);
}

static void what_is_no_ledger_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "hello\n", "{}\n", "no newline", "{\"seq\":0}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        at_ledger_log *log;
        assert_fails(at_ledger_parse("test", texts[i], strlen(texts[i]), &log), ATTUNE_CORRUPT, "test");
        assert_null(log);
    }
}

/* ---- What a process that died leaves ----------------------------------------------------------------------------- */

static void a_tail_torn_anywhere_is_cut_off(void **state)
{
    (void)state;
    const char *path = folder_file(&here, "torn.jsonl");
    at_ledger *ledger = create(path);
    append(ledger, AT_EVENT_CANDIDATE);
    size_t whole, all;
    free(read_bytes(path, &whole));
    append(ledger, AT_EVENT_RESUME);
    at_ledger_close(ledger);
    char *text = read_bytes(path, &all);
    for (size_t bytes = whole; bytes <= all; ++bytes) {
        at_ledger_log *log;
        assert_ok(at_file_write(path, text, bytes));
        assert_ok(at_ledger_resume(path, &ledger, &log));
        assert_int_equal(log->count, bytes == all ? 3 : 2);
        assert_int_equal(log->torn_bytes, bytes == all ? 0 : bytes - whole);
        at_ledger_free(log);
        append(ledger, AT_EVENT_CHECK);
        at_ledger_close(ledger);
        assert_ok(at_ledger_read(path, &log));
        assert_int_equal(log->count, bytes == all ? 4 : 3);
        assert_int_equal(log->torn_bytes, 0);
        at_ledger_free(log);
    }
    free(text);
}

/* Nothing of the search was kept: it is begun as if there were no file, and whoever reads it sees that. */
static void a_ledger_torn_in_its_first_line_is_begun_anew(void **state)
{
    (void)state;
    const char *path = folder_file(&here, "first.jsonl");
    at_event start = example_event(AT_EVENT_START, NULL);
    at_ledger_close(create(path));
    size_t bytes;
    char *text = read_bytes(path, &bytes);
    for (size_t left = 0; left < bytes; ++left) {
        at_ledger *ledger;
        at_ledger_log *log;
        bool begun = true;
        assert_ok(at_file_write(path, text, left));
        assert_ok(at_ledger_begun(path, &begun));
        assert_false(begun);
        assert_fails(at_ledger_read(path, &log), ATTUNE_CORRUPT, left > 0 ? "with --resume it is begun anew" : "");
        assert_ok(at_ledger_create(path, &start, &ledger));
        append(ledger, AT_EVENT_RESUME);
        at_ledger_close(ledger);
        assert_ok(at_ledger_begun(path, &begun));
        assert_true(begun);
        assert_ok(at_ledger_read(path, &log));
        assert_int_equal(log->count, 2);
        at_ledger_free(log);
    }
    free(text);
}

/* Zeros where the line should be, whole or from some byte on. */
static void a_first_line_of_zeros_is_torn(void **state)
{
    (void)state;
    const char *path = folder_file(&here, "zeros_first.jsonl");
    at_event start = example_event(AT_EVENT_START, NULL);
    for (size_t kept = 0; kept <= 40; kept += 10) {
        char text[64] = "{\"seq\":0,\"kind\":\"start\",\"at_s\":0.0,\"format\":\"att";
        at_ledger *ledger;
        memset(text + kept, 0, sizeof text - kept);
        text[sizeof text - 1] = '\n';
        assert_ok(at_file_write(path, text, sizeof text));
        assert_ok(at_ledger_create(path, &start, &ledger));
        at_ledger_close(ledger);
    }
}

/* What somebody else wrote is no torn line, and is left as it is. */
static void what_is_somebody_elses_is_kept(void **state)
{
    (void)state;
    static const char *const texts[] = {"no newline", "{\"seq\":0,\"kind\":\"stop", "{\"seq\":1,", "a line\n"};
    const char *path = folder_file(&here, "foreign");
    at_event start = example_event(AT_EVENT_START, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        at_ledger *ledger;
        at_ledger_log *log;
        size_t bytes;
        assert_ok(at_file_write(path, texts[i], strlen(texts[i])));
        assert_fails(at_ledger_create(path, &start, &ledger), ATTUNE_INVALID_ARGUMENT, "never overwritten");
        assert_fails(at_ledger_resume(path, &ledger, &log), ATTUNE_CORRUPT, path);
        char *text = read_bytes(path, &bytes);
        assert_int_equal(bytes, strlen(texts[i]));
        assert_memory_equal(text, texts[i], bytes);
        free(text);
    }
}

/* File systems may have grown the file before they wrote what is in it. */
static void a_tail_of_zeros_is_torn(void **state)
{
    (void)state;
    const char *path = folder_file(&here, "zeros.jsonl");
    at_ledger_close(create(path));
    size_t bytes;
    char *text = read_bytes(path, &bytes);
    char *grown = calloc(1, bytes + 100);
    at_ledger_log *log;
    assert_non_null(grown);
    memcpy(grown, text, bytes);
    assert_ok(at_ledger_parse("test", grown, bytes + 99, &log));
    assert_int_equal(log->torn_bytes, 99);
    at_ledger_free(log);
    grown[bytes + 99] = '\n';
    assert_ok(at_ledger_parse("test", grown, bytes + 100, &log));
    assert_int_equal(log->torn_bytes, 100);
    at_ledger_free(log);
    free(grown);
    free(text);
}

static void what_has_ended_is_not_gone_on_with(void **state)
{
    (void)state;
    at_ledger *ledger;
    at_ledger_log *log;
    assert_fails(at_ledger_resume(write_example(), &ledger, &log), ATTUNE_INVALID_ARGUMENT, "has ended");
    assert_null(ledger);
    assert_null(log);
    assert_fails(at_ledger_resume(folder_file(&here, "none"), &ledger, &log), ATTUNE_NOT_FOUND, "cannot be opened");
}

/* This program again, as `write PATH`, with its standard output in a pipe. */
static pid_t start_writer(const char *path, int *ready)
{
    int ends[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    char *const arguments[] = {"test_evolve_ledger", "write", (char *)path, NULL};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, ends[1], 1), 0);
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    *ready = ends[0];
    return child;
}

/* What it does: events without end, a byte to whoever listens after each that was appended. */
static int write_on(const char *path)
{
    at_ledger *ledger;
    at_ledger_log *log;
    at_event event = example_event(AT_EVENT_MEASUREMENT, NULL);
    if (at_ledger_resume(path, &ledger, &log) != ATTUNE_OK) {
        return 1;
    }
    at_ledger_free(log);
    while (at_ledger_append(ledger, &event) == ATTUNE_OK && write(1, ".", 1) == 1) {
    }
    at_ledger_close(ledger);
    return 1;
}

/* Waits until a writer seen_events of so many events; returns how many more it seen_events of until it was dead. */
static int kill_after(pid_t child, int ready, int events)
{
    char byte;
    int more = 0;
    for (int i = 0; i < events; ++i) {
        assert_int_equal(read(ready, &byte, 1), 1);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    while (read(ready, &byte, 1) == 1) {
        ++more;
    }
    (void)close(ready);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return more;
}

static void killed_at_fifty_points_it_loses_what_was_in_flight_at_most(void **state)
{
    (void)state;
    const char *path = folder_file(&here, "killed.jsonl");
    at_ledger_close(create(path));
    at_random random = at_random_seed(1, 0);
    size_t before = 1;
    for (int point = 0; point < 50; ++point) {
        int ready;
        pid_t child = start_writer(path, &ready);
        int events = (int)at_random_below(&random, 12);
        events += kill_after(child, ready, events);
        at_ledger_log *log;
        assert_ok(at_ledger_read(path, &log));
        size_t added = log->count - before;
        /* One may have been appended, but not seen_events of any more. */
        assert_true(added == (size_t)events || added == (size_t)events + 1);
        before = log->count;
        at_ledger_free(log);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        return write_on(argv[2]);
    }
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(what_is_written_is_read),
        CASE(what_a_search_leaves_alone_is_kept),
        CASE(compressed_ones_are_read_alike),
        CASE(the_first_versions_ledger_is_read),
        CASE(nothing_is_overwritten),
        CASE(two_writers_are_one_too_many),
        CASE(a_ledger_has_one_start),
        CASE(a_disk_that_is_full_ends_the_ledger),
        CASE(every_changed_byte_is_noticed),
        CASE(lines_that_are_missing_moved_or_repeated_are_named),
        CASE(whole_lines_without_sense_are_refused_with_their_field),
        CASE(what_later_versions_add_is_passed_over),
        CASE(what_is_no_ledger_is_none),
        CASE(a_tail_torn_anywhere_is_cut_off),
        CASE(a_ledger_torn_in_its_first_line_is_begun_anew),
        CASE(a_first_line_of_zeros_is_torn),
        CASE(what_is_somebody_elses_is_kept),
        CASE(a_tail_of_zeros_is_torn),
        CASE(what_has_ended_is_not_gone_on_with),
        CASE(killed_at_fifty_points_it_loses_what_was_in_flight_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
