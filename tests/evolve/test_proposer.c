/* Commands as proposers, good ones and bad ones. What runs them is this program itself. */
#include "base/cm.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/status.h"
#include "cli/cli.h"
#include "evolve/proposer.h"

static const char *const runner[] = {"/proc/self/exe", "sandbox", NULL};
static const char kernel[] = "one\ntwo\nthree\n";
static folder temporary; /* $TMPDIR: what is left of proposals is seen there */

static attune_status look(void *self, const at_sources *candidate, at_text *answer)
{
    ++*(int *)self;
    AT_FAIL_IF(strstr(at_sources_find(candidate, "mine.kernel.c")->data, "bad") != NULL, ATTUNE_COMPILE_ERROR,
               "it does not compile");
    at_text_add(answer, "right on 3 cases\nabout 12 us\n");
    return ATTUNE_OK;
}

static void ask_with(at_command_proposer *of, double seconds, at_proposal_reply *reply)
{
    static const at_proposer_extra extra[] = {{"docs/kernels.md", "how\n"}, {NULL, NULL}};
    at_sources parent = {.count = 0};
    assert_ok(at_sources_put(&parent, "mine.kernel.c", kernel, strlen(kernel)));
    const at_proposal_request request = {.number = 1,
                                         .task = "the task\n",
                                         .request = "{\"attune_proposer\":1}\n",
                                         .parent = &parent,
                                         .extra = extra,
                                         .seconds = seconds};
    const at_proposer proposer = at_proposer_of_command(of);
    assert_ok(proposer.ask(proposer.self, &request, reply));
    at_sources_free(&parent);
    assert_int_equal(folder_count(&temporary), 0);
}

static void ask(const char *command, at_proposal_reply *reply)
{
    at_command_proposer of = {.command = command, .run_command = runner};
    ask_with(&of, 30, reply);
}

/* What a command leads to; words of the failure, or of the kernel that it proposes. */
static void expect(const char *command, at_proposed wanted, const char *words)
{
    at_proposal_reply reply;
    ask(command, &reply);
    const at_source_file *file = at_sources_find(&reply.sources, "mine.kernel.c");
    const char *said = wanted == AT_PROPOSED && file != NULL ? file->data : reply.why;
    if (reply.proposed != wanted || strstr(said, words) == NULL) {
        fail_msg("%s: %s, \"%s\" lacks \"%s\"", command, at_names_of_proposed[reply.proposed], said, words);
    }
    at_proposal_reply_free(&reply);
}

static void three_ways_to_answer(void **state)
{
    (void)state;
    expect("echo more >> candidate/mine.kernel.c", AT_PROPOSED, "three\nmore\n");
    expect("printf '```c mine.kernel.c\\nnew\\n```\\n'", AT_PROPOSED, "new\n");
    expect("cp -r candidate b; sed -i s/two/2/ b/mine.kernel.c; diff -u candidate/mine.kernel.c b/mine.kernel.c; true",
           AT_PROPOSED, "one\n2\nthree\n");
    expect("exit 3", AT_PROPOSED_NOTHING, "");
    expect("printf '```c mine.kernel.c\\n'; cat candidate/mine.kernel.c; echo '```'", AT_PROPOSED_SAME, "");
    expect("test -d log && test -f docs/kernels.md && grep -q task task.md && grep -q 'the task' && "
           "grep -q attune_proposer request.json && echo seen >> candidate/mine.kernel.c",
           AT_PROPOSED, "seen");
}

/* The example of docs/proposers.md: a command that reads the task and answers in a fence. */
static void five_lines_are_a_proposer(void **state)
{
    (void)state;
    static const char text[] = "float f(void)\n{\n    for (int c = 0; c < 4; ++c) {\n    }\n}\n";
    at_sources parent = {.count = 0};
    at_proposal_reply reply;
    at_command_proposer of = {.command = ATTUNE_SOURCE_DIR "/examples/proposers/five_lines.sh", .run_command = runner};
    assert_ok(at_sources_put(&parent, "mine.kernel.c", text, strlen(text)));
    const at_proposal_request request = {
        .number = 1, .task = "# Task 1 of 1: improve\n", .request = "{}\n", .parent = &parent, .seconds = 30};
    const at_proposer proposer = at_proposer_of_command(&of);
    assert_ok(proposer.ask(proposer.self, &request, &reply));
    assert_int_equal(reply.proposed, AT_PROPOSED);
    assert_non_null(
        strstr(at_sources_find(&reply.sources, "mine.kernel.c")->data, "{\n#pragma GCC unroll 4\n    for (int c = 0;"));
    assert_string_equal(reply.facts.idea, "loops over columns unrolled");
    assert_true(reply.facts.usd == 0);
    at_proposal_reply_free(&reply);
    at_sources_free(&parent);
}

static void what_is_no_answer_is_a_failure(void **state)
{
    (void)state;
    expect("echo I would rather not", AT_PROPOSED_FAILED, "neither files in fences nor a diff");
    expect("echo oops >&2; exit 1", AT_PROPOSED_FAILED, "exit code 1: oops");
    expect("kill -9 $$", AT_PROPOSED_FAILED, "exit code 137");
    expect("no-such-program-here", AT_PROPOSED_FAILED, "exit code 127");
    expect("head -c 300000 /dev/urandom", AT_PROPOSED_FAILED, "");
    expect("head -c 300000 /dev/zero", AT_PROPOSED_FAILED, "neither");
    expect("printf -- '--- a/mine.kernel.c\\n+++ b/mine.kernel.c\\n@@ -1,3 +1,3 @@\\n one\\n-two\\n'",
           AT_PROPOSED_FAILED, "cut off");
    expect("printf '```c ../../x.c\\nx\\n```\\n'", AT_PROPOSED_FAILED, "relative names");
    expect("rm -r candidate; ln -s /etc candidate", AT_PROPOSED_FAILED, "candidate");
    expect("ln -sf /etc/passwd candidate/mine.kernel.c", AT_PROPOSED_FAILED, "symbolic link");
    expect("rm candidate/mine.kernel.c; mkfifo candidate/mine.kernel.c", AT_PROPOSED_FAILED, "no regular file");
    expect("rm -r candidate", AT_PROPOSED_FAILED, "candidate");
    expect("mkfifo answer.json; echo x >> candidate/mine.kernel.c", AT_PROPOSED, "x");
    expect("ln -s /etc/passwd answer.json; echo x >> candidate/mine.kernel.c", AT_PROPOSED, "x");
    expect("chmod 0 candidate/mine.kernel.c; echo '{\"idea\":'; exit 9", AT_PROPOSED_FAILED, "exit code 9");
}

static void floods_and_hangs_are_ended(void **state)
{
    (void)state;
    at_proposal_reply reply;
    at_command_proposer of = {.command = "sleep 1000", .run_command = runner};
    ask("yes", &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED_FAILED);
    assert_non_null(strstr(reply.why, "wrote more than"));
    ask_with(&of, 0.2, &reply);
    assert_non_null(strstr(reply.why, "longer than 0.2 s"));
    of.command = "trap '' TERM INT HUP; while :; do sleep 1; done";
    ask_with(&of, 0.2, &reply);
    assert_non_null(strstr(reply.why, "longer than 0.2 s"));
    of.command = "yes >&2";
    ask_with(&of, 0.2, &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED_FAILED);
}

/* A long sleep that is this process's: other copies of this program run on the same machine, also under sanitizers. */
static const char *own_sleep(int which)
{
    enum { COPIES = 2 };
    static char text[COPIES][64];
    (void)snprintf(text[which], sizeof text[which], "sleep 4321.%ld%d", (long)getpid(), which);
    return text[which];
}

/* Whether some process has these words on its command line. */
static bool runs(const char *words)
{
    bool found = false;
    DIR *all = opendir("/proc");
    for (const struct dirent *one; (one = readdir(all)) != NULL;) {
        char path[300], line[512] = "";
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", one->d_name);
        FILE *file = fopen(path, "r");
        size_t bytes = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
        for (size_t i = 0; i < bytes; ++i) {
            line[i] = line[i] == '\0' ? ' ' : line[i];
        }
        if (file != NULL) {
            (void)fclose(file);
        }
        found = found || (strncmp(line, words, strlen(words)) == 0);
    }
    (void)closedir(all);
    return found;
}

/* Who leaves its session, and who its parent, is ended all the same. */
static void no_process_is_left(void **state)
{
    (void)state;
    char command[512];
    const char *some = own_sleep(0), *others = own_sleep(1);
    at_proposal_reply reply;
    at_command_proposer of = {.command = command, .run_command = runner};
    (void)snprintf(command, sizeof command, "setsid %s & (setsid sh -c '%s; true' &) ; %s & exit 3", some, some, some);
    expect(command, AT_PROPOSED_NOTHING, "");
    assert_false(runs(some));
    (void)snprintf(command, sizeof command, "setsid %s & sleep 1000", others);
    ask_with(&of, 0.5, &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED_FAILED);
    assert_false(runs(others));
}

/* The same where attune itself is killed while a proposer runs: this program, started once more, is who is killed. */
static void no_process_is_left_of_who_is_killed(void **state)
{
    enum { LOOKS = 60000, LOOK_US = 10000 };
    (void)state;
    char command[256];
    pid_t asking;
    folder its; /* what it leaves there is removed by a later process */
    const char *some = own_sleep(0);
    assert_int_equal(folder_make(&its), 0);
    assert_int_equal(setenv("TMPDIR", its.path, 1), 0);
    (void)snprintf(command, sizeof command, "setsid %s & sleep 1000", some);
    char *const words[] = {"/proc/self/exe", "asks", command, NULL};
    assert_int_equal(posix_spawn(&asking, words[0], NULL, NULL, words, environ), 0);
    assert_int_equal(setenv("TMPDIR", temporary.path, 1), 0);
    for (int i = 0; i < LOOKS && !runs(some); ++i) {
        (void)usleep(LOOK_US);
    }
    assert_true(runs(some));
    assert_int_equal(kill(asking, SIGKILL), 0);
    assert_int_equal(waitpid(asking, NULL, 0), asking);
    for (int i = 0; i < LOOKS && runs(some); ++i) {
        (void)usleep(LOOK_US);
    }
    assert_false(runs(some));
    folder_remove(&its);
}

static void the_environment_is_clean(void **state)
{
    (void)state;
    at_proposal_reply reply;
    assert_int_equal(setenv("SECRET_KEY", "12", 1), 0);
    assert_int_equal(setenv("OTHER_KEY", "34", 1), 0);
    at_command_proposer of = {.command = "env > candidate/env.h; pwd >> candidate/env.h",
                              .env = "OTHER_KEY,NOT_THERE",
                              .run_command = runner};
    ask_with(&of, 30, &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED);
    const char *text = at_sources_find(&reply.sources, "env.h")->data;
    assert_null(strstr(text, "SECRET_KEY"));
    assert_null(strstr(text, "NOT_THERE"));
    assert_non_null(strstr(text, "OTHER_KEY=34"));
    assert_non_null(strstr(text, "CUDA_VISIBLE_DEVICES=\n"));
    at_proposal_reply_free(&reply);
}

static void what_it_says_of_itself_is_kept(void **state)
{
    (void)state;
    at_proposal_reply reply;
    ask("echo x >> candidate/mine.kernel.c; echo '{\"idea\":\"an x\",\"tokens_out\":7,\"usd\":0.5}' > answer.json",
        &reply);
    assert_string_equal(reply.facts.idea, "an x");
    assert_int_equal(reply.facts.tokens_out, 7);
    assert_int_equal(reply.facts.tokens_in, -1);
    assert_int_equal(reply.bytes_in, 9);
    at_proposal_reply_free(&reply);
    ask("echo x >> candidate/mine.kernel.c; echo '{\"idea\":\"a line\"}'", &reply);
    assert_string_equal(reply.facts.idea, "a line");
    assert_true(reply.facts.usd < 0);
    at_proposal_reply_free(&reply);
}

static void tries_are_counted(void **state)
{
    (void)state;
    int looks = 0;
    at_proposal_reply reply;
    at_command_proposer of = {.command =
                                  "bin/attune-try > candidate/a.h; cd candidate; ../bin/attune-try > b.h; echo bad "
                                  ">> mine.kernel.c; ../bin/attune-try > c.h; echo $? >> c.h; ../bin/attune-try "
                                  "> d.h; echo $? >> d.h; true",
                              .run_command = runner,
                              .look = look,
                              .look_self = &looks,
                              .tries_max = 3};
    ask_with(&of, 30, &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED);
    assert_int_equal(looks, 3);
    assert_int_equal(reply.tries, 4);
    assert_string_equal(at_sources_find(&reply.sources, "a.h")->data, "right on 3 cases\nabout 12 us\n");
    assert_non_null(strstr(at_sources_find(&reply.sources, "c.h")->data, "it does not compile\n1\n"));
    assert_non_null(strstr(at_sources_find(&reply.sources, "d.h")->data, "all 3 tries of this proposal are used\n2\n"));
    at_proposal_reply_free(&reply);
    of.tries_max = 1000;
    of.try_pause_s = 1000;
    ask_with(&of, 30, &reply);
    assert_non_null(strstr(at_sources_find(&reply.sources, "b.h")->data, "too soon"));
    at_proposal_reply_free(&reply);
    /* Who floods the pipe, or takes it away, is none the wiser. */
    of = (at_command_proposer){.command = "for i in 1 2 3 4 5 6 7 8 9; do echo > .try/ask; done; rm .try/ask; ln -s "
                                          "/dev/null .try/ask; sleep 0.3; exit 3",
                               .run_command = runner,
                               .look = look,
                               .look_self = &looks,
                               .tries_max = 2};
    ask_with(&of, 30, &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED_NOTHING);
    assert_int_equal(reply.tries, 9);
}

/* In a jail: the folder and nothing else can be written to. */
static void expect_a_jail(void)
{
    at_proposal_reply reply;
    char command[800], outside[PATH_MAX];
    at_command_proposer of = {.command = command, .run_command = runner, .jail = AT_JAIL_CLOSED};
    (void)snprintf(outside, sizeof outside, "%s/../attune-jail-test-%ld", temporary.path, (long)getpid());
    (void)snprintf(
        command, sizeof command,
        "echo x > %.300s; (cat %.200s/tests/evolve/test_proposer.c || cat ../../etc/../tmp/attune-none)"
        " > candidate/stolen.h; cat /etc/shadow > candidate/shadow.h; ls /etc > candidate/list.h; cat /etc/passwd > "
        "candidate/known.h; echo y >> candidate/mine.kernel.c; true",
        outside, ATTUNE_SOURCE_DIR);
    ask_with(&of, 30, &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED);
    assert_int_not_equal(access(outside, F_OK), 0);
    assert_int_equal(at_sources_find(&reply.sources, "stolen.h")->bytes, 0);
    assert_int_equal(at_sources_find(&reply.sources, "shadow.h")->bytes, 0);
    assert_null(strstr(at_sources_find(&reply.sources, "list.h")->data, "shadow"));
    assert_int_not_equal(at_sources_find(&reply.sources, "known.h")->bytes, 0);
    at_proposal_reply_free(&reply);
}

static void jails_hold(void **state)
{
    (void)state;
    if (at_jail_here() != ATTUNE_OK) {
        skip();
    }
    expect_a_jail();
}

/* Where bubblewrap makes the jail above, Landlock is still there for those who have none. */
static void landlock_holds(void **state)
{
    (void)state;
    const char *const set = getenv("ATTUNE_BUBBLEWRAP");
    char *const before = set != NULL ? strdup(set) : NULL;
    assert_int_equal(setenv("ATTUNE_BUBBLEWRAP", "/nowhere/bwrap", 1), 0);
    const bool here = at_jail_here() == ATTUNE_OK;
    if (here) {
        expect_a_jail();
    }
    assert_int_equal(before != NULL ? setenv("ATTUNE_BUBBLEWRAP", before, 1) : unsetenv("ATTUNE_BUBBLEWRAP"), 0);
    free(before);
    if (!here) {
        skip();
    }
}

/* Where there is bubblewrap it makes the jail. This stand-in keeps its words, and makes none. */
static void bubblewrap_is_asked_where_it_is(void **state)
{
    (void)state;
    folder in;
    char path[4096];
    static const char stands_in[] = "#!/bin/sh\necho \"$@\" > candidate/words.h\nwhile [ \"$1\" != sh ]; do shift; "
                                    "done\nexec \"$@\"\n";
    assert_int_equal(folder_make(&in), 0);
    (void)folder_path(&in, "bwrap", path);
    assert_ok(at_file_write(path, stands_in, sizeof stands_in - 1));
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("ATTUNE_BUBBLEWRAP", path, 1), 0);
    for (at_jail jail = AT_JAIL_NONE; jail <= AT_JAIL_CLOSED; ++jail) {
        at_proposal_reply reply;
        at_command_proposer of = {.command = "echo y >> candidate/mine.kernel.c", .run_command = runner, .jail = jail};
        ask_with(&of, 30, &reply);
        assert_int_equal(reply.proposed, AT_PROPOSED);
        const at_source_file *words = at_sources_find(&reply.sources, "words.h");
        assert_true((words != NULL) == (jail != AT_JAIL_NONE));
        if (words != NULL) {
            assert_non_null(strstr(words->data, "--unshare-all"));
            assert_non_null(strstr(words->data, "--tmpfs /tmp --bind "));
            assert_true((strstr(words->data, "--share-net") != NULL) == (jail == AT_JAIL_NETWORK));
        }
        at_proposal_reply_free(&reply);
    }
    (void)unsetenv("ATTUNE_BUBBLEWRAP");
    folder_remove(&in);
}

static void garbage_leaves_nothing(void **state)
{
    (void)state;
    enum { PROPOSALS = 500 };
    char leaves[160];
    const char *const kinds[] = {"head -c 3000 /dev/urandom", "exit 1", "mkdir -p a/b/c; chmod 0 a/b; false", leaves,
                                 "printf '```c x.c\\n'"};
    (void)snprintf(leaves, sizeof leaves, "head -c 2000 /dev/urandom > candidate/mine.kernel.c; %s & exit 7",
                   own_sleep(0));
    for (int i = 0; i < PROPOSALS; ++i) {
        at_proposal_reply reply;
        ask(kinds[i % 5], &reply);
        assert_int_equal(reply.proposed, AT_PROPOSED_FAILED);
    }
    assert_false(runs(own_sleep(0)));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "sandbox") == 0) {
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    if (argc > 2 && strcmp(argv[1], "asks") == 0) {
        at_proposal_reply reply;
        at_command_proposer of = {.command = argv[2], .run_command = runner};
        ask_with(&of, 1e6, &reply);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_lines_are_a_proposer),
        cmocka_unit_test(three_ways_to_answer),
        cmocka_unit_test(what_is_no_answer_is_a_failure),
        cmocka_unit_test(floods_and_hangs_are_ended),
        cmocka_unit_test(no_process_is_left),
        cmocka_unit_test(no_process_is_left_of_who_is_killed),
        cmocka_unit_test(the_environment_is_clean),
        cmocka_unit_test(what_it_says_of_itself_is_kept),
        cmocka_unit_test(tries_are_counted),
        cmocka_unit_test(jails_hold),
        cmocka_unit_test(landlock_holds),
        cmocka_unit_test(bubblewrap_is_asked_where_it_is),
        cmocka_unit_test(garbage_leaves_nothing),
    };
    assert_int_equal(folder_make(&temporary), 0);
    (void)setenv("TMPDIR", temporary.path, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(&temporary);
    return failed;
}
