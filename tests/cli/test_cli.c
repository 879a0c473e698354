#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/status.h"
#include "cli/command.h"
#include "cli/progress.h"

static int shell(const char *line)
{
    assert_int_equal(setenv("ATTUNE", ATTUNE_BINARY_DIR "/bin/attune", 1), 0);
    int status = system(line); /* NOLINT: a fixed line of this file */
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void ends(outcome result, int code, const char *said)
{
    assert_int_equal(result.code, code);
    if (strstr(result.err, said) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", said, result.err);
    }
    outcome_free(&result);
}

static void help_mentions_every_verb_and_its_options(void **state)
{
    (void)state;
    outcome all = COMMAND("--help");
    assert_int_equal(all.code, AT_EXIT_OK);
    for (const at_verb *const *verb = at_verbs; *verb != NULL; ++verb) {
        assert_non_null(strstr(all.out, (*verb)->name));
        assert_non_null(strstr(all.out, (*verb)->summary));
        outcome one = COMMAND((*verb)->name, "--help");
        outcome same = COMMAND("help", (*verb)->name);
        assert_int_equal(one.code, AT_EXIT_OK);
        assert_string_equal(one.out, same.out);
        assert_non_null(strstr(one.out, (*verb)->help));
        assert_non_null(strstr(one.out, (*verb)->examples));
        const at_option *option;
        for (int i = 0; (option = at_verb_option(*verb, i)) != NULL; ++i) {
            assert_non_null(strstr(one.out, option->name));
            assert_non_null(strstr(one.out, option->summary));
        }
        outcome_free(&one);
        outcome_free(&same);
    }
    outcome_free(&all);
}

static void help_fits_a_terminal(void **state)
{
    (void)state;
    for (const at_verb *const *verb = at_verbs; *verb != NULL; ++verb) {
        outcome one = COMMAND("help", (*verb)->name);
        for (const char *line = one.out; *line != '\0'; line += strcspn(line, "\n") + 1) {
            if (strcspn(line, "\n") > 120) {
                fail_msg("%s: %zu columns: %.60s...", (*verb)->name, strcspn(line, "\n"), line);
            }
        }
        outcome_free(&one);
    }
}

static void version_is_the_librarys(void **state)
{
    (void)state;
    outcome result = COMMAND("--version");
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_non_null(strstr(result.out, attune_version_string()));
    outcome_free(&result);
}

static void unknown_words_suggest_the_nearest(void **state)
{
    (void)state;
    ends(COMMAND("hlep"), AT_EXIT_USAGE, "attune: unknown verb hlep: did you mean help?");
    ends(COMMAND("version", "all"), AT_EXIT_USAGE, "all: there is nothing to be named");
    ends(COMMAND("versoin"), AT_EXIT_USAGE, "did you mean version?");
    ends(COMMAND("xyzzy"), AT_EXIT_USAGE, "attune: unknown verb xyzzy\n");
    ends(COMMAND("help", "--fromat", "tsv"), AT_EXIT_USAGE,
         "attune: help: unknown option --fromat: did you mean --format?");
    ends(COMMAND("help", "--fromat=tsv"), AT_EXIT_USAGE, "did you mean --format?");
    ends(COMMAND("help", "-x"), AT_EXIT_USAGE, "unknown option -x");
    ends(COMMAND("--frob"), AT_EXIT_USAGE, "a verb comes first");
}

static void option_values_are_checked(void **state)
{
    (void)state;
    ends(COMMAND("help", "--format"), AT_EXIT_USAGE, "--format needs a value");
    ends(COMMAND("help", "--format", "--help"), AT_EXIT_USAGE, "--format needs a value");
    ends(COMMAND("help", "--format", "csv"), AT_EXIT_USAGE, "--format csv: one of text tsv json is needed");
    ends(COMMAND("help", "--format", "te"), AT_EXIT_USAGE, "one of text tsv json");
    ends(COMMAND("help", "--format="), AT_EXIT_USAGE, "one of text tsv json");
    ends(COMMAND("help", "--format", "tsv", "--format", "tsv"), AT_EXIT_USAGE, "--format is given twice");
    ends(COMMAND("help", "--help=yes"), AT_EXIT_USAGE, "--help takes no value");
    ends(COMMAND("help", "--", "--format"), AT_EXIT_USAGE, "unknown verb --format");
}

/* The text with what troff needs taken out again. */
static void strip_troff(char *text)
{
    static const char *const marks[] = {"\\-", "\\e", "\\&", "\\fI", "\\fR"};
    static const char *const plain[] = {"-", "\\", "", "", ""};
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        size_t mark = 0;
        while (mark < sizeof marks / sizeof marks[0] && strncmp(from, marks[mark], strlen(marks[mark])) != 0) {
            ++mark;
        }
        if (mark == sizeof marks / sizeof marks[0]) {
            *to++ = *from++;
        } else {
            to = stpcpy(to, plain[mark]);
            from += strlen(marks[mark]);
        }
    }
    *to = '\0';
}

static void holds_line(const char *text, const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (strstr(text, line) == NULL) {
        fail_msg("the manual lacks \"%s\"", line);
    }
}

/* Everything that --help says is in the manual page, and in the verb's own part of it. */
static void the_manual_says_what_help_says(void **state)
{
    (void)state;
    outcome page = COMMAND("help", "--man");
    assert_int_equal(page.code, AT_EXIT_OK);
    strip_troff(page.out);
    const char *part = page.out;
    for (const at_verb *const *verb = at_verbs; *verb != NULL; ++verb) {
        char heading[64];
        (void)snprintf(heading, sizeof heading, "\n.SS attune %s ", (*verb)->name);
        part = strstr(part, heading);
        assert_non_null(part);
        holds_line(part, "%s", (*verb)->summary);
        holds_line(part, ".EX\n%s.EE\n", (*verb)->examples);
        const at_option *option;
        for (int i = 0; (option = at_verb_option(*verb, i)) != NULL; ++i) {
            holds_line(part, ".TP\n.B %s%s%s\n%s\n", option->name, option->argument != NULL ? " " : "",
                       option->argument != NULL ? option->argument : "", option->summary);
        }
        for (const char *line = (*verb)->help; *line != '\0'; line += strcspn(line, "\n") + 1) {
            holds_line(part, "%.*s\n", (int)strcspn(line, "\n"), line);
        }
    }
    for (const at_help_section *section = at_help_sections; section->name != NULL; ++section) {
        holds_line(part, ".SH %s\n%s\n.PP\n.EX\n%s.EE\n", section->name, section->title, section->lines);
    }
    outcome_free(&page);
}

static void troff_reads_the_manual(void **state)
{
    (void)state;
    if (shell("command -v groff > /dev/null") != 0) {
        skip();
    }
    assert_int_equal(shell("test -z \"$(\"$ATTUNE\" help --man | groff -man -Tascii -ww -z 2>&1)\""), 0);
}

static void without_a_verb_the_help_is_an_error(void **state)
{
    (void)state;
    const char *const none[] = {NULL};
    outcome result = command(none);
    assert_int_equal(result.code, AT_EXIT_USAGE);
    assert_string_equal(result.out, "");
    assert_non_null(strstr(result.err, "Usage: attune VERB"));
    outcome_free(&result);
}

static void options_are_listed_for_programs(void **state)
{
    (void)state;
    outcome tsv = COMMAND("help", "--format", "tsv");
    assert_int_equal(tsv.code, AT_EXIT_OK);
    assert_ptr_equal(strstr(tsv.out, "verb\toption\targument\tvalues\tsummary\n"), tsv.out);
    assert_non_null(strstr(tsv.out, "help\t--format\tFORMAT\ttext tsv json\t"));
    outcome_free(&tsv);
    outcome json = COMMAND("help", "--format=json");
    json_t *array = json_loads(json.out, 0, NULL);
    assert_true(json_array_size(array) >= 3);
    json_decref(array);
    outcome_free(&json);
}

/* Options of a verb made for these tests. */
static const at_option number_options[] = {
    {"--cases", "N", NULL, "how many"}, {"--seconds", "S", NULL, "how long"}, {NULL, NULL, NULL, NULL}};
static const at_verb number_verb = {.name = "numbers", .options = number_options};

static attune_status read_integer(const char *text, int64_t *value)
{
    at_cli cli = {.verb = &number_verb, .value = {text}};
    return at_cli_integer(&cli, "--cases", 1, 100, 7, value);
}

static attune_status read_number(const char *text, double *value)
{
    at_cli cli = {.verb = &number_verb, .value = {NULL, text}};
    return at_cli_number(&cli, "--seconds", 0.5, 10, 2, value);
}

static void integers_have_ranges(void **state)
{
    (void)state;
    int64_t value = 0;
    assert_int_equal(read_integer(NULL, &value), ATTUNE_OK);
    assert_int_equal(value, 7);
    assert_int_equal(read_integer("100", &value), ATTUNE_OK);
    assert_int_equal(value, 100);
    const char *bad[] = {"0", "101", "", "x", "5x", "1.5", "99999999999999999999", "-3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_int_equal(read_integer(bad[i], &value), ATTUNE_INVALID_ARGUMENT);
        assert_int_equal(value, 100);
        assert_non_null(strstr(attune_last_detail(), "--cases is "));
    }
}

static void numbers_have_ranges(void **state)
{
    (void)state;
    double value = 0;
    assert_int_equal(read_number(NULL, &value), ATTUNE_OK);
    assert_true(value == 2);
    assert_int_equal(read_number("0.5", &value), ATTUNE_OK);
    assert_true(value == 0.5);
    const char *bad[] = {"0.4", "11", "", "x", "1s", "nan", "inf"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_int_equal(read_number(bad[i], &value), ATTUNE_INVALID_ARGUMENT);
        assert_true(value == 0.5);
    }
}

static void statuses_become_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(at_cli_exit(ATTUNE_OK), 0);
    assert_int_equal(at_cli_exit(ATTUNE_WRONG_RESULT), 1);
    assert_int_equal(at_cli_exit(ATTUNE_INVALID_PROBLEM), 64);
    assert_int_equal(at_cli_exit(ATTUNE_UNSUPPORTED), 64);
    assert_int_equal(at_cli_exit(ATTUNE_CORRUPT), 64);
    assert_int_equal(at_cli_exit(ATTUNE_IO_ERROR), 3);
    assert_int_equal(at_cli_exit(ATTUNE_NO_DEVICE), 3);
    assert_int_equal(at_cli_exit(ATTUNE_OUT_OF_MEMORY), 3);
    assert_int_equal(at_cli_exit(ATTUNE_INTERRUPTED), 130);
}

/* Exit code of a shell line; the command itself is $ATTUNE there. */
static void an_output_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$ATTUNE\" --help > /dev/null"), 0);
    assert_int_equal(shell("\"$ATTUNE\" --help > /dev/full 2> /dev/null"), 3);
    assert_int_equal(shell("\"$ATTUNE\" --help 2>&1 > /dev/full | grep -q 'attune: help: writing the output failed: No "
                           "space left'"),
                     0);
    assert_int_equal(shell("\"$ATTUNE\" --help >&- 2> /dev/null"), 3);
    assert_int_equal(shell("bash -c '{ sleep 0.1; \"$ATTUNE\" --help 2> /dev/null; test $? = 3 && exit 42; } | "
                           "true; exit ${PIPESTATUS[0]}'"),
                     42);
}

/* ---- Progress, by a clock that the test turns -----------------------------------------------------------------------
 */

static int64_t hand_now(void *self)
{
    return *(int64_t *)self;
}

static void progress_is_silent_at_first_and_wiped_at_last(void **state)
{
    (void)state;
    int64_t now = 0;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    at_progress progress;
    at_progress_start_on(&progress, out, "working", (at_clock){&now, hand_now});
    now = 999000000;
    at_progress_update(&progress, 0.4);
    (void)fflush(out);
    assert_int_equal(bytes, 0);
    now = 2000000000;
    at_progress_update(&progress, 0.5);
    (void)fflush(out);
    assert_non_null(strstr(text, "working [###############...............]  50%, 2 s left"));
    size_t drawn = bytes;
    now += 99000000;
    at_progress_update(&progress, 0.51);
    (void)fflush(out);
    assert_int_equal(bytes, drawn);
    now += 1000000;
    at_progress_update(&progress, 7);
    (void)fflush(out);
    assert_non_null(strstr(text, "100%"));
    at_progress_end(&progress);
    (void)fclose(out);
    assert_string_equal(text + bytes - 4, "\r\033[K");
    free(text);
}

static void progress_says_nothing_where_there_is_no_terminal(void **state)
{
    (void)state;
    FILE *out = tmpfile();
    at_progress progress;
    at_progress_start(&progress, out, "working");
    progress.start_ns = 0; /* long ago */
    at_progress_update(&progress, 0.5);
    at_progress_end(&progress);
    assert_int_equal(ftell(out), 0);
    (void)fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_mentions_every_verb_and_its_options),
        cmocka_unit_test(help_fits_a_terminal),
        cmocka_unit_test(version_is_the_librarys),
        cmocka_unit_test(unknown_words_suggest_the_nearest),
        cmocka_unit_test(option_values_are_checked),
        cmocka_unit_test(the_manual_says_what_help_says),
        cmocka_unit_test(troff_reads_the_manual),
        cmocka_unit_test(without_a_verb_the_help_is_an_error),
        cmocka_unit_test(options_are_listed_for_programs),
        cmocka_unit_test(integers_have_ranges),
        cmocka_unit_test(numbers_have_ranges),
        cmocka_unit_test(statuses_become_exit_codes),
        cmocka_unit_test(an_output_that_cannot_be_written_is_an_error),
        cmocka_unit_test(progress_is_silent_at_first_and_wiped_at_last),
        cmocka_unit_test(progress_says_nothing_where_there_is_no_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
