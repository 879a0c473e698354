#include "wire/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/status.h"

attune_status at_answer_put(json_t *answer, const char *key, json_t *value)
{
    AT_FAIL_IF(json_object_set_new(answer, key, value) != 0, ATTUNE_OUT_OF_MEMORY, "no memory for \"%s\"", key);
    return ATTUNE_OK;
}

static attune_status write_all(int out, const char *line, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(out, line, bytes);
        AT_FAIL_IF(written < 0 && errno != EINTR, ATTUNE_IO_ERROR, "the worker's answer: %s", strerror(errno));
        line += written > 0 ? written : 0;
        bytes -= written > 0 ? (size_t)written : 0;
    }
    return ATTUNE_OK;
}

static attune_status answer(int out, int64_t id, attune_status status, json_t *ok)
{
    char *line;
    size_t bytes;
    attune_status printed = at_answer_print(id, status, ok, &line, &bytes);
    if (printed != ATTUNE_OK) { /* too long, say: then at least why */
        AT_FORWARD(at_answer_print(id, printed, NULL, &line, &bytes));
    }
    printed = write_all(out, line, bytes);
    free(line);
    return printed;
}

/* Answers one line. What is no request is answered as number 0, which no parent asks. */
static attune_status serve_line(const at_server *server, const char *line, size_t bytes, int out)
{
    at_request request;
    json_t *ok = json_object();
    attune_status status = ok == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for an answer") : ATTUNE_OK;
    if (status == ATTUNE_OK) {
        status = at_request_parse(line, bytes, &request);
    } else {
        request = (at_request){0};
    }
    if (status == ATTUNE_OK) {
        status = server->handle(server->self, &request, ok);
    }
    int64_t id = request.id;
    at_request_free(&request);
    return answer(out, id, status, ok);
}

/* Reads up to the next newline, keeping what follows it. *bytes is 0 at the end. */
typedef struct reader {
    int in;
    char *data; /* AT_LINE_MAX */
    size_t bytes, used;
} reader;

static attune_status next_line(reader *from, const char **line, size_t *bytes)
{
    memmove(from->data, from->data + from->used, from->bytes - from->used);
    from->bytes -= from->used;
    from->used = 0;
    *bytes = 0;
    while (true) {
        const char *newline = memchr(from->data, '\n', from->bytes);
        if (newline != NULL) {
            *line = from->data;
            *bytes = (size_t)(newline - from->data);
            from->used = *bytes + 1;
            return ATTUNE_OK;
        }
        AT_FAIL_IF(from->bytes == AT_LINE_MAX, ATTUNE_CORRUPT, "a request of more than %d bytes", AT_LINE_MAX);
        ssize_t more = read(from->in, from->data + from->bytes, AT_LINE_MAX - from->bytes);
        AT_FAIL_IF(more < 0 && errno != EINTR, ATTUNE_IO_ERROR, "the worker's requests: %s", strerror(errno));
        if (more == 0) {
            *line = NULL;
            return ATTUNE_OK;
        }
        from->bytes += more > 0 ? (size_t)more : 0;
    }
}

attune_status at_serve(at_server *server, int in, int out)
{
    reader from = {.in = in, .data = malloc(AT_LINE_MAX)};
    const char *line = "";
    size_t bytes;
    AT_FAIL_IF(from.data == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a line");
    attune_status status = ATTUNE_OK;
    while (status == ATTUNE_OK && !server->quits) {
        status = next_line(&from, &line, &bytes);
        if (status != ATTUNE_OK || line == NULL) {
            break;
        }
        status = serve_line(server, line, bytes, out);
    }
    free(from.data);
    return status;
}

attune_status at_serve_take_line(int *in, int *out)
{
    *in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    *out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    AT_FAIL_IF(*in < 0 || *out < 0 || nothing < 0, ATTUNE_IO_ERROR, "the worker's line: %s", strerror(errno));
    AT_FAIL_IF(dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0, ATTUNE_IO_ERROR,
               "the worker's line: %s", strerror(errno));
    (void)close(nothing);
    /* A worker whose parent died has nobody to answer; one inside a kernel that hangs would not see its line close. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return ATTUNE_OK;
}
