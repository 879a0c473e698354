/* A command as a proposer: its folder, its process, and what it answered. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "evolve/proposer.h"
#include "evolve/proposer_try.h"
#include "judge/executor.h"
#include "wire/process.h"

const char *const at_names_of_proposed[] = {"proposed", "nothing", "same", "failed", NULL};

void at_proposal_reply_free(at_proposal_reply *reply)
{
    at_sources_free(&reply->sources);
}

__attribute__((format(printf, 2, 3))) static attune_status fails(at_proposal_reply *reply, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(reply->why, sizeof reply->why, format, list);
    va_end(list);
    reply->proposed = AT_PROPOSED_FAILED;
    return ATTUNE_OK;
}

/* ---- The folder -------------------------------------------------------------------------------------------------- */

static attune_status put(const char *folder, const char *name, const char *text)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    AT_FORWARD(at_directory_make(path));
    *slash = '/';
    return at_file_write(path, text, strlen(text));
}

static attune_status fill_folder(const char *folder, const at_proposal_request *request)
{
    static const char *const folders[] = {"parents", "docs", "log", "tmp"};
    char path[4096];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; ++i) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        AT_FORWARD(at_directory_make(path));
    }
    AT_FORWARD(put(folder, "task.md", request->task));
    AT_FORWARD(put(folder, "request.json", request->request));
    for (const at_proposer_extra *one = request->extra; one != NULL && one->name != NULL; ++one) {
        AT_FORWARD(put(folder, one->name, one->text));
    }
    (void)snprintf(path, sizeof path, "%s/candidate", folder);
    return at_sources_write(request->parent, path);
}

/* ---- The environment --------------------------------------------------------------------------------------------- */

enum { VARIABLES_MAX = 64 };

/* "NAME=VALUE,..." of nothing but what is needed, and what the user names. */
typedef struct environment {
    char *variable[VARIABLES_MAX + 1];
    int count;
    bool full;
} environment;

static void set(environment *to, const char *name, size_t length, const char *value)
{
    to->full = to->full || to->count == VARIABLES_MAX ||
               asprintf(&to->variable[to->count], "%.*s=%s", (int)length, name, value) < 0;
    to->count += !to->full;
    to->variable[to->count] = NULL;
}

static void set_as_here(environment *to, const char *name, size_t length)
{
    char *copy = strndup(name, length);
    const char *value = copy != NULL ? getenv(copy) : NULL;
    if (value != NULL) {
        set(to, name, length, value);
    }
    free(copy);
}

/* No GPU, no home: a command that needs its own says so by --proposer-env HOME. The first of a name counts. */
static attune_status make_environment(const at_command_proposer *of, const char *folder, environment *made)
{
    static const char *const kept[] = {"PATH", "LANG", "LC_ALL", "TERM", "ATTUNE_BUBBLEWRAP"};
    char temporary[4096];
    *made = (environment){.count = 0};
    for (const char *at = of->env; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, ", ");
        if (length > 0) {
            set_as_here(made, at, length);
        }
        at += length + (at[length] != '\0');
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; ++i) {
        set_as_here(made, kept[i], strlen(kept[i]));
    }
    (void)snprintf(temporary, sizeof temporary, "%s/tmp", folder);
    set(made, "TMPDIR", strlen("TMPDIR"), temporary);
    set(made, "HOME", strlen("HOME"), folder);
    set(made, "CUDA_VISIBLE_DEVICES", strlen("CUDA_VISIBLE_DEVICES"), "");
    AT_FAIL_IF(made->full, ATTUNE_INVALID_ARGUMENT, "a proposer's environment has more than %d variables",
               VARIABLES_MAX);
    return ATTUNE_OK;
}

static void free_environment(environment *made)
{
    for (int i = 0; i < made->count; ++i) {
        free(made->variable[i]);
    }
}

/* ---- The process ------------------------------------------------------------------------------------------------- */

/* What it writes: all of standard output up to a limit, the end of standard error. */
typedef struct stream {
    int file;
    at_text text;
    bool flooded;
} stream;

typedef struct run {
    const at_command_proposer *of;
    const at_proposal_request *request;
    const char *folder;
    at_tries tries;
    pid_t process;
    stream out, error;
    bool late, ended;
    int end; /* wait status */
} run;

static int spawn(const run *on, int in, int out, int error, char *const *variables, pid_t *process)
{
    const char *word[16] = {NULL};
    int count = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    for (; count < 8 && on->of->run_command[count] != NULL; ++count) {
        word[count] = on->of->run_command[count];
    }
    const char *const last[] = {"propose", "--", on->folder, at_names_of_jails[on->of->jail], on->of->command};
    memcpy((void *)&word[count], last, sizeof last);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int failed = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    failed = failed != 0 ? failed : posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    failed = failed != 0 ? failed : posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO);
    failed = failed != 0 ? failed : at_process_close_from(&actions, STDERR_FILENO + 1);
    failed = failed != 0
                 ? failed
                 : posix_spawnp(process, word[0], &actions, &attributes, (char *const *)(uintptr_t)word, variables);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return failed;
}

static attune_status start_with(run *on, const int out[2], const int error[2], int in)
{
    environment variables;
    attune_status status = make_environment(on->of, on->folder, &variables);
    int failed = status == ATTUNE_OK ? spawn(on, in, out[1], error[1], variables.variable, &on->process) : 0;
    free_environment(&variables);
    AT_FORWARD(status);
    AT_FAIL_IF(failed != 0, ATTUNE_IO_ERROR, "the proposer does not start: %s", strerror(failed));
    return ATTUNE_OK;
}

static attune_status start(run *on)
{
    char path[4096];
    int out[2] = {-1, -1}, error[2] = {-1, -1};
    (void)snprintf(path, sizeof path, "%s/task.md", on->folder);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    bool well = in >= 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(error, O_CLOEXEC) == 0;
    attune_status status = well ? start_with(on, out, error, in)
                                : at_fail(ATTUNE_IO_ERROR, "no pipes for a proposer: %s", strerror(errno));
    const int done[] = {in, out[1], error[1]};
    for (int i = 0; i < 3; ++i) {
        if (done[i] >= 0) {
            (void)close(done[i]);
        }
    }
    on->out.file = out[0];
    on->error.file = error[0];
    return status;
}

static void hear(stream *from, size_t most)
{
    char text[16384];
    ssize_t bytes = read(from->file, text, sizeof text);
    if (bytes == 0) {
        (void)close(from->file);
        from->file = -1;
    }
    size_t room = most - from->text.length;
    size_t got = bytes > 0 ? (size_t)bytes : 0;
    from->flooded = from->flooded || got > room;
    at_text_add_bytes(&from->text, text, got < room ? got : room);
}

/* Asks the process that runs it to end all that it started, and where it does not answer ends that too. */
static void stop(run *on)
{
    enum { LOOKS = 300, LOOK_US = 10000 };
    (void)kill(on->process, SIGTERM);
    for (int i = 0; i < LOOKS && !on->ended; ++i) {
        on->ended = waitpid(on->process, &on->end, WNOHANG) == on->process;
        if (!on->ended) {
            (void)usleep(LOOK_US);
        }
    }
    if (!on->ended) {
        (void)kill(-on->process, SIGKILL);
        on->ended = waitpid(on->process, &on->end, 0) == on->process;
    }
}

/* What is still in the pipes once it has ended. */
static void hear_rest(run *on)
{
    stream *const streams[] = {&on->out, &on->error};
    for (int i = 0; i < 2; ++i) {
        struct pollfd at = {streams[i]->file, POLLIN, 0};
        while (streams[i]->file >= 0 && !streams[i]->flooded && poll(&at, 1, 0) > 0 && at.revents != 0) {
            hear(streams[i], AT_PROPOSER_OUTPUT_MAX);
            at.fd = streams[i]->file;
        }
    }
}

static attune_status listen(run *on)
{
    enum { TICK_MS = 20 };
    const double end_s = at_timed_seconds() + on->request->seconds;
    while (!on->ended && !on->late && !on->out.flooded) {
        struct pollfd at[3] = {{on->out.file, POLLIN, 0}, {on->error.file, POLLIN, 0}, {on->tries.ask, POLLIN, 0}};
        AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
        on->ended = waitpid(on->process, &on->end, WNOHANG) == on->process;
        on->late = at_timed_seconds() > end_s;
        if (on->ended || poll(at, 3, TICK_MS) <= 0) {
            continue;
        }
        if ((at[0].revents & (POLLIN | POLLHUP)) != 0) {
            hear(&on->out, AT_PROPOSER_OUTPUT_MAX);
        }
        if ((at[1].revents & (POLLIN | POLLHUP)) != 0) {
            hear(&on->error, AT_PROPOSER_OUTPUT_MAX);
        }
        if ((at[2].revents & POLLIN) != 0) {
            AT_FORWARD(at_tries_serve(&on->tries));
        }
    }
    return ATTUNE_OK;
}

static attune_status run_process(run *on)
{
    AT_FORWARD(at_tries_open(on->of, on->folder, &on->tries));
    attune_status status = start(on);
    if (status == ATTUNE_OK) {
        status = listen(on);
        if (!on->ended) {
            stop(on);
        }
        hear_rest(on);
    }
    at_tries_close(&on->tries);
    return status;
}

/* ---- The answer -------------------------------------------------------------------------------------------------- */

/* What it says of itself is a regular file, or its last line. */
static void take_facts(const run *on, at_proposal_reply *reply)
{
    enum { FACTS_MAX = 64 << 10 };
    char path[4096], text[FACTS_MAX];
    at_answer_facts_init(&reply->facts);
    (void)snprintf(path, sizeof path, "%s/answer.json", on->folder);
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t bytes = file >= 0 ? read(file, text, sizeof text) : -1;
    if (file >= 0) {
        (void)close(file);
    }
    if (bytes <= 0 || !at_answer_facts_read(text, (size_t)bytes, &reply->facts)) {
        (void)at_answer_facts_last(on->out.text.data, on->out.text.length, &reply->facts);
    }
}

/* Edits in the folder, and what standard output adds to them. */
static attune_status take_sources(const run *on, at_proposal_reply *reply)
{
    char path[4096], before[AT_DIGEST_TEXT_MAX], after[AT_DIGEST_TEXT_MAX];
    at_answer_form form = AT_ANSWER_NONE;
    (void)snprintf(path, sizeof path, "%s/candidate", on->folder);
    AT_FORWARD(at_sources_read(path, &reply->sources));
    at_sources_digest(on->request->parent, before);
    at_sources_digest(&reply->sources, after);
    bool edited = strcmp(before, after) != 0;
    if (!edited) {
        AT_FORWARD(at_answer_apply(on->out.text.data, on->out.text.length, &reply->sources, &form));
        at_sources_digest(&reply->sources, after);
    }
    AT_FAIL_IF(!edited && form == AT_ANSWER_NONE, ATTUNE_INVALID_ARGUMENT,
               "it changed no file of candidate/, and wrote neither files in fences nor a diff");
    reply->proposed = strcmp(before, after) == 0 ? AT_PROPOSED_SAME : AT_PROPOSED;
    return ATTUNE_OK;
}

static attune_status take_answer(const run *on, at_proposal_reply *reply)
{
    enum { NOTHING = 3 };
    char how[160];
    const char *said = on->error.text.data;
    size_t length = on->error.text.length;
    said += length > 200 ? length - 200 : 0;
    if (on->late) {
        return fails(reply, "it took longer than %g s and was ended", on->request->seconds);
    }
    if (on->out.flooded) {
        return fails(reply, "it wrote more than %d bytes and was ended", AT_PROPOSER_OUTPUT_MAX);
    }
    if (WIFEXITED(on->end) && WEXITSTATUS(on->end) == NOTHING) {
        reply->proposed = AT_PROPOSED_NOTHING;
        return ATTUNE_OK;
    }
    if (!WIFEXITED(on->end) || WEXITSTATUS(on->end) != 0) {
        return fails(reply, "it %s: %s", at_process_end(on->end, how), said);
    }
    attune_status status = take_sources(on, reply);
    if (status == ATTUNE_OUT_OF_MEMORY || status == ATTUNE_INTERRUPTED) {
        return status;
    }
    return status == ATTUNE_OK ? ATTUNE_OK : fails(reply, "%.400s", attune_last_detail());
}

static void close_run(run *on)
{
    if (on->out.file >= 0) {
        (void)close(on->out.file);
    }
    if (on->error.file >= 0) {
        (void)close(on->error.file);
    }
    at_text_free(&on->out.text);
    at_text_free(&on->error.text);
}

static attune_status run_in(run *on, at_proposal_reply *reply)
{
    const double began_s = at_timed_seconds();
    AT_FORWARD(fill_folder(on->folder, on->request));
    AT_FORWARD(run_process(on));
    reply->seconds = at_timed_seconds() - began_s;
    reply->tries = on->tries.count;
    reply->bytes_in = (int64_t)strlen(on->request->task);
    reply->bytes_out = (int64_t)on->out.text.length;
    take_facts(on, reply);
    AT_FORWARD(take_answer(on, reply));
    for (int i = 0; i < reply->sources.count && on->out.text.length == 0; ++i) { /* an agent's words are its edits */
        const at_source_file *was = at_sources_find(on->request->parent, reply->sources.file[i].name);
        bool same = was != NULL && was->bytes == reply->sources.file[i].bytes &&
                    memcmp(was->data, reply->sources.file[i].data, was->bytes) == 0;
        reply->bytes_out += same ? 0 : (int64_t)reply->sources.file[i].bytes;
    }
    return ATTUNE_OK;
}

static attune_status ask(void *self, const at_proposal_request *request, at_proposal_reply *reply)
{
    at_scratch place;
    run on = {.of = self, .request = request, .out.file = -1, .error.file = -1, .tries = {.ask = -1, .answer = -1}};
    *reply = (at_proposal_reply){.proposed = AT_PROPOSED_FAILED};
    at_answer_facts_init(&reply->facts);
    AT_FORWARD(at_scratch_make(&place));
    on.folder = place.path;
    at_text_init(&on.out.text);
    at_text_init(&on.error.text);
    attune_status status = run_in(&on, reply);
    close_run(&on);
    at_scratch_remove(&place);
    if (status != ATTUNE_OK || reply->proposed != AT_PROPOSED) {
        at_sources_free(&reply->sources);
    }
    return status;
}

at_proposer at_proposer_of_command(at_command_proposer *command)
{
    return (at_proposer){.self = command, .ask = ask};
}

attune_status at_command_proposer_check(const at_command_proposer *command)
{
    AT_FAIL_IF(command->command[0] == '\0', ATTUNE_INVALID_ARGUMENT, "--proposer: a command is needed");
    return command->jail == AT_JAIL_NONE ? ATTUNE_OK : at_jail_here();
}
