#include "judge/built.h"

#include <stdio.h>

#include "base/status.h"
#include "measure/clock.h"
#include "worker/remote.h"

static attune_status read_digests(const json_t *ok, at_build_facts *build)
{
    const struct {
        const char *key;
        char *to;
        size_t bytes;
    } texts[] = {{"source", build->source, sizeof build->source},
                 {"cubin", build->cubin, sizeof build->cubin},
                 {"code", build->code, sizeof build->code},
                 {"compiler", build->compiler, sizeof build->compiler}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        const char *text;
        AT_FORWARD(at_json_string(ok, "answer", texts[i].key, &text));
        (void)snprintf(texts[i].to, texts[i].bytes, "%s", text);
    }
    return ATTUNE_OK;
}

static attune_status read_facts(const json_t *ok, at_build_facts *build)
{
    const struct {
        const char *key;
        int32_t *value;
    } numbers[] = {{"threads", &build->threads},         {"registers", &build->registers},
                   {"smem_bytes", &build->smem_bytes},   {"local_bytes", &build->local_bytes},
                   {"spill_bytes", &build->spill_bytes}, {"warnings", &build->warnings},
                   {"blocks_sm", &build->blocks_sm}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
        int64_t value;
        AT_FORWARD(at_json_int(ok, "answer", numbers[i].key, -1, INT32_MAX, &value));
        *numbers[i].value = (int32_t)value;
    }
    return read_digests(ok, build);
}

static attune_status read_function(const json_t *ok, char function[AT_FUNCTION_TEXT_MAX])
{
    const char *text;
    if (function == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_json_string(ok, "answer", "function", &text));
    (void)snprintf(function, AT_FUNCTION_TEXT_MAX, "%s", text);
    return ATTUNE_OK;
}

attune_status at_built_ask(at_device *device, const attune_plan *plan, at_build_facts *build,
                           char function[AT_FUNCTION_TEXT_MAX])
{
    enum { PATIENCE_S = 120 };
    json_t *ok;
    AT_FORWARD(at_channel_ask(at_remote_channel(device), "build",
                              json_pack("{s:I}", "arm", (json_int_t)at_remote_arm(plan)), PATIENCE_S, &ok));
    attune_status status = read_facts(ok, build);
    status = status == ATTUNE_OK ? read_function(ok, function) : status;
    json_decref(ok);
    return status;
}

attune_status at_built_compile(at_channel *channel, const char *kernel, const attune_problem *problem,
                               const attune_target *target, double seconds, at_build_facts *build, double *took)
{
    at_clock clock = at_clock_monotonic();
    int64_t began = clock.now_ns(clock.self);
    *took = 0;
    json_t *ok;
    json_t *fields = json_pack("{s:s,s:o,s:o}", "kernel", kernel, "problem", at_wire_from_problem(problem), "target",
                               at_wire_from_target(target));
    AT_FAIL_IF(fields == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to ask for \"compile\"");
    attune_status status = at_channel_ask(channel, "compile", fields, seconds, &ok);
    *took = 1e-9 * (double)(clock.now_ns(clock.self) - began);
    AT_FORWARD(status);
    status = read_facts(ok, build);
    json_decref(ok);
    return status;
}
