#include "evolve/proposer_try.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "judge/executor.h"

enum { ANSWER_MAX = 8 << 10 /* less than a pipe holds: writing never waits */ };

/* One call at a time: answers have no address. */
static const char script[] = "#!/bin/sh\n"
                             "# Compiles candidate/, checks a few public cases and times roughly. Calls are counted.\n"
                             "at=$(cd \"$(dirname \"$0\")/../.try\" && pwd) || exit 2\n"
                             "mkdir \"$at/busy\" 2>/dev/null || { echo 'another attune-try runs' >&2; exit 2; }\n"
                             "trap 'rmdir \"$at/busy\"' EXIT\n"
                             "exec 3<\"$at/answer\" 4>\"$at/ask\" || exit 2\n"
                             "echo >&4\n"
                             "read -r code lines <&3 || exit 2\n"
                             "while [ \"$lines\" -gt 0 ]; do\n"
                             "  IFS= read -r line <&3 || exit 2\n"
                             "  printf '%s\\n' \"$line\"\n"
                             "  lines=$((lines - 1))\n"
                             "done\n"
                             "exit \"$code\"\n";

static attune_status open_pipe(const char *folder, const char *name, int *file)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/.try/%s", folder, name);
    AT_FAIL_IF(mkfifo(path, 0600) != 0, ATTUNE_IO_ERROR, "%s: %s", path, strerror(errno));
    *file = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC); /* both: neither end ever sees the other's close */
    AT_FAIL_IF(*file < 0, ATTUNE_IO_ERROR, "%s: %s", path, strerror(errno));
    return ATTUNE_OK;
}

static attune_status fill(at_tries *tries)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/bin", tries->folder);
    AT_FORWARD(at_directory_make(path));
    (void)snprintf(path, sizeof path, "%s/.try", tries->folder);
    AT_FORWARD(at_directory_make(path));
    (void)snprintf(path, sizeof path, "%s/bin/attune-try", tries->folder);
    AT_FORWARD(at_file_write(path, script, strlen(script)));
    AT_FAIL_IF(chmod(path, 0700) != 0, ATTUNE_IO_ERROR, "%s: %s", path, strerror(errno));
    AT_FORWARD(open_pipe(tries->folder, "ask", &tries->ask));
    return open_pipe(tries->folder, "answer", &tries->answer);
}

attune_status at_tries_open(const at_command_proposer *of, const char *folder, at_tries *tries)
{
    *tries = (at_tries){.of = of, .folder = folder, .ask = -1, .answer = -1, .last_s = -1e9};
    attune_status status = of->look != NULL ? fill(tries) : ATTUNE_OK;
    if (status != ATTUNE_OK) {
        at_tries_close(tries);
    }
    return status;
}

void at_tries_close(at_tries *tries)
{
    int *const files[] = {&tries->ask, &tries->answer};
    for (int i = 0; i < 2; ++i) {
        if (*files[i] >= 0) {
            (void)close(*files[i]);
        }
        *files[i] = -1;
    }
}

/* "CODE LINES" and the lines. What does not fit into the pipe is nobody's: who asks reads one answer at a time. */
static void reply(const at_tries *tries, int code, const char *words)
{
    char text[ANSWER_MAX];
    int lines = 0;
    while (read(tries->answer, text, sizeof text) > 0) { /* what the last one did not read */
    }
    size_t length = strnlen(words, sizeof text / 2);
    for (size_t i = 0; i < length; ++i) {
        lines += words[i] == '\n' || i + 1 == length;
    }
    bool ended = length > 0 && words[length - 1] == '\n';
    int bytes =
        snprintf(text, sizeof text, "%d %d\n%.*s%s", code, lines, (int)length, words, length == 0 || ended ? "" : "\n");
    ssize_t written = write(tries->answer, text, (size_t)bytes);
    (void)written;
}

static attune_status look(const at_tries *tries, at_text *words)
{
    char path[4096];
    at_sources candidate;
    (void)snprintf(path, sizeof path, "%s/candidate", tries->folder);
    AT_FORWARD(at_sources_read(path, &candidate));
    attune_status status = at_sources_scan(&candidate, tries->of->allow);
    status = status == ATTUNE_OK ? tries->of->look(tries->of->look_self, &candidate, words) : status;
    at_sources_free(&candidate);
    return status == ATTUNE_OK ? at_text_status(words, "an answer") : status;
}

attune_status at_tries_serve(at_tries *tries)
{
    enum { FINE = 0, REFUSED = 1, NOT_NOW = 2 };
    char one;
    if (tries->ask < 0 || read(tries->ask, &one, 1) != 1) {
        return ATTUNE_OK;
    }
    char words[160];
    at_text text;
    double wait_s = tries->last_s + tries->of->try_pause_s - at_timed_seconds();
    if (++tries->count > tries->of->tries_max) {
        (void)snprintf(words, sizeof words, "all %d tries of this proposal are used", tries->of->tries_max);
        reply(tries, NOT_NOW, words);
        return ATTUNE_OK;
    }
    if (wait_s > 0) {
        (void)snprintf(words, sizeof words, "too soon: wait %.1f s; this call is counted", wait_s);
        reply(tries, NOT_NOW, words);
        return ATTUNE_OK;
    }
    at_text_init(&text);
    attune_status status = look(tries, &text);
    reply(tries, status == ATTUNE_OK ? FINE : REFUSED, status == ATTUNE_OK ? text.data : attune_last_detail());
    at_text_free(&text);
    tries->last_s = at_timed_seconds();
    return status == ATTUNE_INTERRUPTED ? status : ATTUNE_OK;
}
