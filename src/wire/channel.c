#include "wire/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "measure/clock.h"
#include "wire/process.h"

struct at_channel {
    pid_t pid; /* 0: reaped */
    int line;  /* our end of the socket pair that is the worker's standard input and output */
    int words; /* the worker's standard error */
    unsigned char *arena;
    size_t arena_bytes;
    int64_t last_id;
    char *in; /* AT_LINE_MAX bytes: what was read of an answer */
    size_t in_bytes;
    char said[AT_LAST_WORDS_MAX + 1]; /* always terminated */
    size_t said_bytes;
    char death[512]; /* "": alive */
};

/* ---- Starting --------------------------------------------------------------------------------------------------- */

typedef struct ends {
    int line[2], words[2], arena;
} ends;

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* Whoever inherits a low descriptor by accident would keep it; a worker's are set by number. */
static attune_status raise_fd(int *fd)
{
    int higher = fcntl(*fd, F_DUPFD_CLOEXEC, 10);
    AT_FAIL_IF(higher < 0, ATTUNE_IO_ERROR, "no descriptor for a worker: %s", strerror(errno));
    (void)close(*fd);
    *fd = higher;
    return ATTUNE_OK;
}

static attune_status make_ends(size_t arena_bytes, ends *made)
{
    AT_FAIL_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, made->line) != 0, ATTUNE_IO_ERROR,
               "no line for a worker: %s", strerror(errno));
    AT_FAIL_IF(pipe2(made->words, O_CLOEXEC) != 0, ATTUNE_IO_ERROR, "no pipe for a worker: %s", strerror(errno));
    AT_FORWARD(raise_fd(&made->line[1]));
    AT_FORWARD(raise_fd(&made->words[1]));
    if (arena_bytes > 0) {
        made->arena = memfd_create("attune-arena", MFD_CLOEXEC);
        AT_FAIL_IF(made->arena < 0 || ftruncate(made->arena, (off_t)arena_bytes) != 0, ATTUNE_OUT_OF_MEMORY,
                   "no %zu bytes to share with a worker: %s", arena_bytes, strerror(errno));
        AT_FORWARD(raise_fd(&made->arena));
    }
    return ATTUNE_OK;
}

static attune_status map_arena(at_channel *channel, int fd, size_t bytes)
{
    void *memory = MAP_FAILED;
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    AT_FAIL_IF(memory == MAP_FAILED, ATTUNE_OUT_OF_MEMORY, "no %zu bytes to share with a worker: %s", bytes,
               strerror(errno));
    channel->arena = memory;
    channel->arena_bytes = bytes;
    return ATTUNE_OK;
}

/* The worker is in a process group of its own, so that an interrupt typed at a terminal reaches its parent alone, and
 * begins with the signals as a shell would leave them. */
static int spawn(const char *const *command, const ends *made, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults, none;
    (void)sigemptyset(&none);
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE);
    (void)sigaddset(&defaults, SIGINT);
    (void)sigaddset(&defaults, SIGTERM);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setsigdefault(&attributes, &defaults);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    int error = posix_spawn_file_actions_adddup2(&actions, made->line[1], STDIN_FILENO);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, made->line[1], STDOUT_FILENO);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, made->words[1], STDERR_FILENO);
    if (error == 0 && made->arena >= 0) {
        error = posix_spawn_file_actions_adddup2(&actions, made->arena, AT_ARENA_FD);
    }
    /* What else is open here, by whomever, is no business of a stranger's. */
    error = error != 0 ? error : at_process_close_from(&actions, made->arena >= 0 ? AT_ARENA_FD + 1 : AT_ARENA_FD);
    if (error == 0) {
        error = posix_spawnp(pid, command[0], &actions, &attributes, (char *const *)(uintptr_t)command, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

static attune_status start(at_channel *channel, const at_channel_options *options, ends *made)
{
    AT_FORWARD(make_ends(options->arena_bytes, made));
    AT_FORWARD(map_arena(channel, made->arena, options->arena_bytes));
    channel->in = malloc(AT_LINE_MAX);
    AT_FAIL_IF(channel->in == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a line of the gate's protocol");
    int error = spawn(options->command, made, &channel->pid);
    AT_FAIL_IF(error != 0, ATTUNE_IO_ERROR, "the worker %s does not start: %s", options->command[0], strerror(error));
    channel->line = made->line[0];
    channel->words = made->words[0];
    made->line[0] = made->words[0] = -1;
    (void)fcntl(channel->words, F_SETFL, O_NONBLOCK);
    return ATTUNE_OK;
}

attune_status at_channel_open(const at_channel_options *options, at_channel **channel)
{
    ends made = {{-1, -1}, {-1, -1}, -1};
    *channel = NULL;
    at_channel *opened = calloc(1, sizeof *opened);
    AT_FAIL_IF(opened == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a worker");
    opened->line = opened->words = -1;
    attune_status status = start(opened, options, &made);
    close_fd(&made.line[0]);
    close_fd(&made.line[1]);
    close_fd(&made.words[0]);
    close_fd(&made.words[1]);
    close_fd(&made.arena);
    if (status != ATTUNE_OK) {
        at_channel_close(opened);
        return status;
    }
    *channel = opened;
    return ATTUNE_OK;
}

/* ---- What the worker said on standard error --------------------------------------------------------------------- */

static void remember(at_channel *channel, const char *text, size_t bytes)
{
    size_t most = AT_LAST_WORDS_MAX;
    if (bytes > most) {
        text += bytes - most;
        bytes = most;
    }
    size_t kept = channel->said_bytes + bytes > most ? most - bytes : channel->said_bytes;
    memmove(channel->said, channel->said + (channel->said_bytes - kept), kept);
    memcpy(channel->said + kept, text, bytes);
    channel->said_bytes = kept + bytes;
    channel->said[channel->said_bytes] = '\0';
}

/* Takes what is there. */
static void listen_to_words(at_channel *channel)
{
    char text[4096];
    ssize_t bytes = 1;
    while (channel->words >= 0 && bytes > 0) {
        bytes = read(channel->words, text, sizeof text);
        if (bytes > 0) {
            remember(channel, text, (size_t)bytes);
        } else if (bytes == 0) {
            close_fd(&channel->words);
        }
    }
}

/* The last line that the worker wrote, for a sentence about its end. */
static const char *last_line(at_channel *channel, char line[200])
{
    size_t end = channel->said_bytes;
    while (end > 0 && channel->said[end - 1] == '\n') {
        --end;
    }
    size_t begin = end;
    while (begin > 0 && channel->said[begin - 1] != '\n') {
        --begin;
    }
    if (begin == end) {
        return "it said nothing on standard error";
    }
    (void)snprintf(line, 200, "its last line was: %.*s", (int)(end - begin), channel->said + begin);
    return line;
}

/* ---- Ending ----------------------------------------------------------------------------------------------------- */

static int reap(at_channel *channel)
{
    int how = 0;
    while (channel->pid > 0 && waitpid(channel->pid, &how, 0) < 0 && errno == EINTR) {
    }
    channel->pid = 0;
    return how;
}

static void hang_up(at_channel *channel)
{
    if (channel->pid > 0) {
        (void)kill(channel->pid, SIGKILL);
        (void)reap(channel);
    }
    listen_to_words(channel);
    close_fd(&channel->line);
    close_fd(&channel->words);
}

/* Ends the worker and says why. */
__attribute__((format(printf, 2, 3))) static attune_status die(at_channel *channel, const char *format, ...)
{
    char line[200];
    char why[240];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(why, sizeof why, format, list);
    va_end(list);
    hang_up(channel);
    (void)snprintf(channel->death, sizeof channel->death, "the worker %s; %s", why, last_line(channel, line));
    return at_fail(ATTUNE_DEVICE_ERROR, "%s", channel->death);
}

/* The line was closed from the other side: the process ends by itself, or is ended. */
static attune_status die_ended(at_channel *channel)
{
    int how = 0;
    pid_t ended = 0;
    for (int i = 0; i < 50 && (ended = waitpid(channel->pid, &how, WNOHANG)) == 0; ++i) {
        (void)poll(NULL, 0, 10);
    }
    if (ended != channel->pid) {
        return die(channel, "closed its line without ending");
    }
    channel->pid = 0;
    char end[160];
    return die(channel, "%s", at_process_end(how, end));
}

/* Says "quit" and lets driver and interpreter take their leave; no failure of that is of interest any more. */
static void take_leave(at_channel *channel)
{
    enum { LEAVE_MS = 3000, STEP_MS = 5 };
    static const char quit[] = "{\"id\":0,\"op\":\"quit\"}\n";
    (void)send(channel->line, quit, sizeof quit - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(channel->line, SHUT_WR);
    for (int waited = 0; waited < LEAVE_MS && channel->pid > 0; waited += STEP_MS) {
        if (waitpid(channel->pid, NULL, WNOHANG) == channel->pid) {
            channel->pid = 0;
        } else {
            (void)poll(NULL, 0, STEP_MS);
        }
    }
}

void at_channel_close(at_channel *channel)
{
    if (channel == NULL) {
        return;
    }
    if (channel->pid > 0 && channel->line >= 0 && channel->last_id > 0) { /* one that was never asked holds nothing */
        take_leave(channel);
    }
    hang_up(channel);
    if (channel->arena != NULL) {
        (void)munmap(channel->arena, channel->arena_bytes);
    }
    free(channel->in);
    free(channel);
}

/* ---- Asking ----------------------------------------------------------------------------------------------------- */

/* One question: what it asks, and until when the answer must be there. */
typedef struct question {
    const char *op;
    double seconds;
    int64_t end_ns;
} question;

static int64_t now_ns(void)
{
    at_clock clock = at_clock_monotonic();
    return clock.now_ns(clock.self);
}

/* Waits a moment for the line to be ready, listening to what the worker says meanwhile; dies at the deadline. */
static attune_status wait_a_moment(at_channel *channel, const question *on, short events, bool *ready)
{
    enum { SLICE_MS = 100 };
    struct pollfd at[2] = {{channel->line, events, 0}, {channel->words, POLLIN, 0}};
    int64_t left_ms = (on->end_ns - now_ns()) / 1000000;
    (void)poll(at, 2, left_ms < 0 ? 0 : left_ms < SLICE_MS ? (int)left_ms + 1 : SLICE_MS);
    listen_to_words(channel);
    *ready = at[0].revents != 0;
    if (*ready) {
        return ATTUNE_OK;
    }
    if (at_file_interrupted()) {
        (void)die(channel, "was ended: interrupted");
        return at_fail(ATTUNE_INTERRUPTED, "interrupted");
    }
    return left_ms > 0 ? ATTUNE_OK
                       : die(channel, "gave no answer within %g s to \"%s\" and was ended", on->seconds, on->op);
}

static attune_status send_line(at_channel *channel, const question *on, const char *line, size_t bytes)
{
    bool ready = false;
    while (bytes > 0) {
        ssize_t sent = send(channel->line, line, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            line += sent;
            bytes -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EINTR) {
            AT_FORWARD(wait_a_moment(channel, on, POLLOUT, &ready));
        } else {
            return die_ended(channel);
        }
    }
    return ATTUNE_OK;
}

/* Reads some; *whole: whether an answer's newline is there. */
static attune_status take(at_channel *channel, bool *whole)
{
    if (channel->in_bytes == AT_LINE_MAX) {
        return die(channel, "answered with more than %d bytes in one line", AT_LINE_MAX);
    }
    char *to = channel->in + channel->in_bytes;
    ssize_t bytes = recv(channel->line, to, AT_LINE_MAX - channel->in_bytes, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) {
        return ATTUNE_OK;
    }
    if (bytes <= 0) {
        return die_ended(channel);
    }
    *whole = memchr(to, '\n', (size_t)bytes) != NULL;
    channel->in_bytes += (size_t)bytes;
    return ATTUNE_OK;
}

/* Waits until an answer is whole. */
static attune_status await(at_channel *channel, const question *on)
{
    bool whole = false;
    channel->in_bytes = 0;
    while (!whole) {
        bool ready;
        AT_FORWARD(wait_a_moment(channel, on, POLLIN, &ready));
        if (ready) {
            AT_FORWARD(take(channel, &whole));
        }
    }
    return ATTUNE_OK;
}

static attune_status read_answer(at_channel *channel, json_t **ok)
{
    const char *newline = memchr(channel->in, '\n', channel->in_bytes);
    size_t bytes = (size_t)(newline - channel->in);
    if (bytes + 1 != channel->in_bytes) {
        return die(channel, "answered with more than one line");
    }
    attune_status status = at_answer_parse(channel->in, bytes, channel->last_id, ok);
    if (status == ATTUNE_CORRUPT && strncmp(attune_last_detail(), "answer:", 7) == 0) {
        char what[160];
        (void)snprintf(what, sizeof what, "%s", attune_last_detail());
        return die(channel, "broke the protocol and was ended: %s", what);
    }
    return status;
}

static attune_status ask(at_channel *channel, const char *op, json_t *fields, double seconds, json_t **ok)
{
    char *line;
    size_t bytes;
    AT_FORWARD(at_request_print(++channel->last_id, op, fields, &line, &bytes));
    const question on = {op, seconds, now_ns() + (int64_t)(seconds * 1e9)};
    attune_status status = send_line(channel, &on, line, bytes);
    free(line);
    AT_FORWARD(status);
    AT_FORWARD(await(channel, &on));
    return read_answer(channel, ok);
}

attune_status at_channel_ask(at_channel *channel, const char *op, json_t *fields, double seconds, json_t **ok)
{
    json_t *answer = NULL;
    if (ok != NULL) {
        *ok = NULL;
    }
    if (channel->death[0] != '\0') {
        json_decref(fields);
        return at_fail(ATTUNE_DEVICE_ERROR, "%s", channel->death);
    }
    AT_FORWARD(ask(channel, op, fields, seconds, &answer));
    if (ok != NULL) {
        *ok = answer;
    } else {
        json_decref(answer);
    }
    return ATTUNE_OK;
}

int at_channel_process(const at_channel *channel)
{
    return (int)channel->pid;
}

const char *at_channel_death(const at_channel *channel)
{
    return channel->death[0] == '\0' ? NULL : channel->death;
}

unsigned char *at_channel_arena(const at_channel *channel, size_t *bytes)
{
    *bytes = channel->arena_bytes;
    return channel->arena;
}

const char *at_channel_last_words(const at_channel *channel)
{
    return channel->said;
}
