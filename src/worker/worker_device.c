/* A worker's device: hello, open, memory, quit. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/status.h"
#include "cuda/nvml.h"
#include "cuda/rates.h"
#include "measure/clock.h"
#include "wire/channel.h"
#include "worker/worker_ops.h"

/* The arena that the parent says it has given. */
static attune_status map_arena(at_worker *worker, size_t bytes)
{
    struct stat is;
    AT_FAIL_IF(worker->arena != NULL, ATTUNE_INVALID_ARGUMENT, "the arena is mapped already");
    AT_FAIL_IF(fstat(AT_ARENA_FD, &is) != 0 || is.st_size < 0 || (uint64_t)is.st_size != bytes, ATTUNE_INVALID_ARGUMENT,
               "descriptor %d is no arena of %zu bytes", AT_ARENA_FD, bytes);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, AT_ARENA_FD, 0);
    AT_FAIL_IF(memory == MAP_FAILED, ATTUNE_OUT_OF_MEMORY, "an arena of %zu bytes: %s", bytes, strerror(errno));
    worker->arena = memory;
    worker->arena_bytes = bytes;
    return ATTUNE_OK;
}

static attune_status hello(at_worker *worker, const json_t *request, json_t *answer)
{
    int64_t protocol;
    size_t arena;
    AT_FORWARD(at_json_int(request, "request", "protocol", 0, INT32_MAX, &protocol));
    AT_FAIL_IF(protocol != AT_PROTOCOL, ATTUNE_UNSUPPORTED, "protocol %lld is asked for, this worker speaks %d",
               (long long)protocol, AT_PROTOCOL);
    AT_FORWARD(at_wire_bytes(request, "arena", SIZE_MAX, &arena));
    AT_FORWARD(arena == 0 ? ATTUNE_OK : map_arena(worker, arena));
    AT_FORWARD(at_answer_put(answer, "protocol", json_integer(AT_PROTOCOL)));
    return at_answer_put(answer, "attune", json_string(attune_version_string()));
}

static attune_status quit(at_worker *worker, const json_t *request, json_t *answer)
{
    (void)request;
    (void)answer;
    worker->server.quits = true;
    return ATTUNE_OK;
}

/* A text that may be left out. */
static attune_status read_optional(const json_t *request, const char *key, const char **text)
{
    *text = NULL;
    return json_object_get(request, key) == NULL ? ATTUNE_OK : at_json_string(request, "request", key, text);
}

static attune_status open_device(at_worker *worker, const json_t *request, json_t *answer)
{
    attune_options options;
    int64_t threads;
    AT_FAIL_IF(worker->device != NULL, ATTUNE_INVALID_ARGUMENT, "a device is open already");
    attune_options_init(&options);
    AT_FORWARD(at_json_int(request, "request", "threads", 0, 1024, &threads));
    AT_FORWARD(read_optional(request, "target", &options.target));
    AT_FORWARD(read_optional(request, "isa", &options.isa));
    options.threads = (int32_t)threads;
    worker->filling.random = at_random_seed((uint64_t)at_clock_monotonic().now_ns(NULL), 0x66696c6c);
    if (json_is_true(json_object_get(request, "confined"))) {
        AT_FORWARD(at_candidate_begin(&worker->candidate_code));
    }
    AT_FORWARD(attune_context_create(&options, &worker->context));
    worker->device = at_context_device(worker->context);
    worker->candidate_code.pool = at_context_pool(worker->context);
    AT_FORWARD(at_answer_put(answer, "target", json_string(attune_context_target(worker->context))));
    return at_answer_put(answer, "facts", at_wire_from_target(&worker->device->target));
}

/* What the device could do at most, and what it is doing. Of a CPU nothing is said: the parent can see for itself. */
static attune_status put_state(at_worker *worker, json_t *answer)
{
    at_nvml *nvml = NULL;
    at_nvml_reading now = {0};
    size_t left = 0;
    size_t total = 0;
    int processes = -1;
    AT_FORWARD(at_cuda_memory(worker->device, &left, &total));
    if (at_nvml_open(worker->device, &nvml) == ATTUNE_OK) {
        at_nvml_read(nvml, &now);
        processes = at_nvml_processes(nvml);
        at_nvml_close(nvml);
    }
    AT_FORWARD(at_answer_put(answer, "left_bytes", json_integer((json_int_t)left)));
    AT_FORWARD(at_answer_put(answer, "total_bytes", json_integer((json_int_t)total)));
    AT_FORWARD(at_answer_put(answer, "sm_mhz", json_integer(now.sm_mhz)));
    AT_FORWARD(at_answer_put(answer, "sm_top_mhz", json_integer(now.sm_top_mhz)));
    AT_FORWARD(at_answer_put(answer, "power_w", json_integer(now.power_w)));
    return at_answer_put(answer, "processes", json_integer(processes));
}

static attune_status machine(at_worker *worker, const json_t *request, json_t *answer)
{
    at_cuda_rates read;
    (void)request;
    if (worker->device->target.kind == ATTUNE_TARGET_CPU) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_cuda_rates_read(worker->device, &read));
    AT_FORWARD(at_answer_put(answer, "sm_hz", json_real(read.sm_hz)));
    AT_FORWARD(at_answer_put(answer, "memory_hz", json_real(read.memory_hz)));
    AT_FORWARD(at_answer_put(answer, "bus_bits", json_integer(read.bus_bits)));
    return put_state(worker, answer);
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static attune_status allocate(at_worker *worker, const json_t *request, json_t *answer)
{
    size_t bytes;
    void *data;
    AT_FORWARD(at_wire_bytes(request, "bytes", SIZE_MAX, &bytes));
    AT_FORWARD(worker->device->ops->allocate(worker->device, bytes, &data));
    attune_status status = at_answer_put(answer, "data", at_wire_from_address(data));
    if (status != ATTUNE_OK) {
        worker->device->ops->release(worker->device, data);
    }
    return status;
}

static attune_status release(at_worker *worker, const json_t *request, json_t *answer)
{
    void *data;
    (void)answer;
    AT_FORWARD(at_wire_address(request, "data", &data));
    worker->device->ops->release(worker->device, data);
    return ATTUNE_OK;
}

static attune_status send(at_worker *worker, const json_t *request, json_t *answer)
{
    void *to;
    size_t bytes;
    unsigned char *from;
    (void)answer;
    AT_FORWARD(at_wire_address(request, "to", &to));
    AT_FORWARD(at_wire_bytes(request, "bytes", worker->arena_bytes, &bytes));
    AT_FORWARD(at_worker_arena(worker, request, bytes, &from));
    return worker->device->ops->upload(worker->device, to, from, bytes);
}

static attune_status fetch(at_worker *worker, const json_t *request, json_t *answer)
{
    void *from;
    size_t bytes;
    unsigned char *to;
    (void)answer;
    AT_FORWARD(at_wire_address(request, "from", &from));
    AT_FORWARD(at_wire_bytes(request, "bytes", worker->arena_bytes, &bytes));
    AT_FORWARD(at_worker_arena(worker, request, bytes, &to));
    return worker->device->ops->download(worker->device, to, from, bytes);
}

static attune_status fill(at_worker *worker, const json_t *request, json_t *answer)
{
    enum { CHUNK = 1 << 20 };
    void *to;
    size_t bytes;
    int64_t pattern;
    (void)answer;
    AT_FORWARD(at_wire_address(request, "to", &to));
    AT_FORWARD(at_wire_bytes(request, "bytes", SIZE_MAX, &bytes));
    AT_FORWARD(at_json_int(request, "request", "pattern", 0, 255, &pattern));
    unsigned char *chunk = malloc(bytes < CHUNK ? bytes + 1 : CHUNK);
    AT_FAIL_IF(chunk == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to fill %zu bytes", bytes);
    memset(chunk, (int)pattern, bytes < CHUNK ? bytes + 1 : CHUNK);
    attune_status status = ATTUNE_OK;
    for (size_t at = 0; at < bytes && status == ATTUNE_OK; at += CHUNK) {
        size_t step = bytes - at < CHUNK ? bytes - at : CHUNK;
        status = worker->device->ops->upload(worker->device, (unsigned char *)to + at, chunk, step);
    }
    free(chunk);
    return status;
}

static attune_status synchronise(at_worker *worker, const json_t *request, json_t *answer)
{
    void *stream;
    (void)answer;
    AT_FORWARD(at_wire_address(request, "stream", &stream));
    return worker->device->ops->synchronise(worker->device, stream);
}

const at_worker_op at_worker_device_ops[] = {
    {"hello", false, hello},     {"quit", false, quit},      {"open", false, open_device}, {"alloc", true, allocate},
    {"free", true, release},     {"send", true, send},       {"fetch", true, fetch},       {"fill", true, fill},
    {"sync", true, synchronise}, {"machine", true, machine}, {NULL, false, NULL},
};
