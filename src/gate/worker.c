#include "gate/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/status.h"
#include "gate/worker_ops.h"

/* In the order in which they are searched. */
static const at_worker_op *const tables[] = {at_worker_device_ops, at_worker_arm_ops};

enum { TABLES = sizeof tables / sizeof tables[0] };

/* ---- What ops share --------------------------------------------------------------------------------------------- */

attune_status at_worker_arm_of(const at_worker *worker, const json_t *request, const char *key, at_worker_arm **arm)
{
    int64_t index;
    AT_FORWARD(at_json_int(request, "request", key, 0, INT64_MAX, &index));
    AT_FAIL_IF((uint64_t)index >= worker->arm_count || worker->arm[index] == NULL, ATTUNE_INVALID_ARGUMENT,
               "there is no arm %lld", (long long)index);
    *arm = worker->arm[index];
    return ATTUNE_OK;
}

attune_status at_worker_arena(const at_worker *worker, const json_t *request, size_t bytes, unsigned char **data)
{
    size_t at;
    AT_FORWARD(at_wire_bytes(request, "at", SIZE_MAX, &at));
    AT_FAIL_IF(at > worker->arena_bytes || bytes > worker->arena_bytes - at, ATTUNE_INVALID_ARGUMENT,
               "bytes %zu ... +%zu of an arena of %zu", at, bytes, worker->arena_bytes);
    *data = worker->arena + at;
    return ATTUNE_OK;
}

attune_status at_worker_put(json_t *answer, const char *key, json_t *value)
{
    AT_FAIL_IF(json_object_set_new(answer, key, value) != 0, ATTUNE_OUT_OF_MEMORY, "no memory for \"%s\"", key);
    return ATTUNE_OK;
}

/* ---- Serving ---------------------------------------------------------------------------------------------------- */

static const at_worker_op *find(const char *name)
{
    for (size_t i = 0; i < TABLES; ++i) {
        for (const at_worker_op *op = tables[i]; op->name != NULL; ++op) {
            if (strcmp(op->name, name) == 0) {
                return op;
            }
        }
    }
    return NULL;
}

static attune_status dispatch(at_worker *worker, const at_request *request, json_t *answer)
{
    const at_worker_op *op = find(request->op);
    AT_FAIL_IF(op == NULL, ATTUNE_INVALID_ARGUMENT, "there is no op \"%.40s\"", request->op);
    AT_FAIL_IF(op->needs_device && worker->device == NULL, ATTUNE_INVALID_ARGUMENT, "\"%s\" before \"open\"", op->name);
    return op->run(worker, request->root, answer);
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
static attune_status serve_line(at_worker *worker, const char *line, size_t bytes, int out)
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
        status = dispatch(worker, &request, ok);
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

static attune_status serve(at_worker *worker, int in, int out)
{
    reader from = {.in = in, .data = malloc(AT_LINE_MAX)};
    const char *line = "";
    size_t bytes;
    AT_FAIL_IF(from.data == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a line");
    attune_status status = ATTUNE_OK;
    while (status == ATTUNE_OK && !worker->quits) {
        status = next_line(&from, &line, &bytes);
        if (status != ATTUNE_OK || line == NULL) {
            break;
        }
        status = serve_line(worker, line, bytes, out);
    }
    free(from.data);
    return status;
}

attune_status at_worker_serve(int in, int out, const struct attune_arm_hooks *hooks)
{
    at_worker worker = {.hooks = hooks};
    attune_status status = serve(&worker, in, out);
    at_worker_close_arms(&worker);
    attune_context_destroy(worker.context);
    if (worker.arena != NULL) {
        (void)munmap(worker.arena, worker.arena_bytes);
    }
    return status;
}

attune_status at_worker_serve_standard(const struct attune_arm_hooks *hooks)
{
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    AT_FAIL_IF(in < 0 || out < 0 || nothing < 0, ATTUNE_IO_ERROR, "the worker's line: %s", strerror(errno));
    AT_FAIL_IF(dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0, ATTUNE_IO_ERROR,
               "the worker's line: %s", strerror(errno));
    (void)close(nothing);
    /* A worker whose parent died has nobody to answer; one inside a kernel that hangs would not see its line close. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    attune_status status = at_worker_serve(in, out, hooks);
    (void)close(in);
    (void)close(out);
    return status;
}
