/* What ops read in requests: an arm by its number, a range of the arena. */
#include "base/status.h"
#include "worker/worker.h"

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
