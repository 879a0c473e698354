/* Pre-flight: what the machine is, and whether it is fit to be measured. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "gate/verdict_parts.h"

static void tell(const at_gate *gate, const char *what, const char *found)
{
    if (gate->options->watch.machine != NULL) {
        gate->options->watch.machine(gate->options->watch.self, what, found);
    }
}

static void add_version(at_gate *gate, const char *name, const char *text)
{
    if (gate->version_count < AT_VERDICT_VERSIONS) {
        at_version *version = &gate->version[gate->version_count++];
        (void)snprintf(version->name, sizeof version->name, "%s", name);
        (void)snprintf(version->text, sizeof version->text, "%s", text);
    }
}

static void add_cuda_version(at_gate *gate, const char *name, int32_t version)
{
    char text[24];
    if (version > 0) {
        (void)snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
        add_version(gate, name, text);
    }
}

static void record_versions(at_gate *gate)
{
    const char *worker;
    add_version(gate, "attune", attune_version_string());
    if (at_json_string(at_remote_greeting(gate->judge), "greeting", "attune", &worker) == ATTUNE_OK &&
        strcmp(worker, attune_version_string()) != 0) {
        add_version(gate, "worker", worker);
    }
    if (gate->target.kind == ATTUNE_TARGET_CUDA) {
        add_cuda_version(gate, "driver", gate->target.driver);
        add_cuda_version(gate, "nvrtc", gate->target.compiler);
    }
}

static void tell_compiler(const at_gate *gate)
{
    char text[120];
    const attune_target *target = &gate->target;
    if (target->kind == ATTUNE_TARGET_CPU) {
        (void)snprintf(text, sizeof text, "%d threads", target->threads);
        tell(gate, "threads", text);
    } else if (target->compiler == 0) {
        tell(gate, "compiler", "none: only what was compiled before can be judged");
    } else {
        (void)snprintf(text, sizeof text, "NVRTC %d.%d, driver for CUDA %d.%d", target->compiler / 1000,
                       target->compiler % 1000 / 10, target->driver / 1000, target->driver % 1000 / 10);
        tell(gate, "compiler", text);
    }
}

static attune_status read_rates(const json_t *ok, at_cuda_rates *rates)
{
    AT_FORWARD(at_json_double(ok, "answer", "sm_hz", &rates->sm_hz));
    AT_FORWARD(at_json_double(ok, "answer", "memory_hz", &rates->memory_hz));
    return at_json_int(ok, "answer", "bus_bits", 0, INT32_MAX, &rates->bus_bits);
}

static attune_status ask_rates(at_gate *gate)
{
    enum { PATIENCE_S = 10 };
    json_t *ok;
    AT_FORWARD(at_channel_ask(at_remote_channel(gate->judge), "rates", NULL, PATIENCE_S, &ok));
    attune_status status = read_rates(ok, &gate->rates);
    json_decref(ok);
    return status;
}

attune_status at_gate_preflight(at_gate *gate)
{
    char text[AT_TARGET_TEXT_MAX];
    at_device *device;
    attune_status status = at_gate_judge(gate, NULL, &device);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "pre-flight");
    }
    gate->target = device->target;
    at_target_print(&gate->target, text);
    tell(gate, "device", text);
    tell_compiler(gate);
    record_versions(gate);
    return ask_rates(gate);
}
