/* Pre-flight: what the machine is, and whether it is fit to be measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "judge/verdict_parts.h"

static void note(const at_gate *gate, const char *what, const char *found)
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
    if (at_json_string(at_remote_greeting(gate->candidate_worker), "greeting", "attune", &worker) == ATTUNE_OK &&
        strcmp(worker, attune_version_string()) != 0) {
        add_version(gate, "worker", worker);
    }
    if (gate->target.kind == ATTUNE_TARGET_CUDA) {
        add_cuda_version(gate, "driver", gate->target.driver);
        add_cuda_version(gate, "nvrtc", gate->target.compiler);
    }
}

static void note_compiler(const at_gate *gate)
{
    char text[120];
    const attune_target *target = &gate->target;
    if (target->kind == ATTUNE_TARGET_CPU) {
        (void)snprintf(text, sizeof text, "%d threads", target->threads);
        note(gate, "threads", text);
    } else if (target->compiler == 0) {
        note(gate, "compiler", "none: only what was compiled before can be judged");
    } else {
        (void)snprintf(text, sizeof text, "NVRTC %d.%d, driver for CUDA %d.%d", target->compiler / 1000,
                       target->compiler % 1000 / 10, target->driver / 1000, target->driver % 1000 / 10);
        note(gate, "compiler", text);
    }
}

/* ---- What the machine is doing ---------------------------------------------------------------------------------- */

static const double gib = 1024.0 * 1024 * 1024;

/* What a CUDA device says of itself. */
typedef struct state {
    int64_t left_bytes, total_bytes, sm_mhz, sm_top_mhz, power_w, processes;
} state;

static attune_status read_state(const json_t *ok, at_cuda_rates *rates, state *now)
{
    const struct {
        const char *key;
        int64_t *value;
    } numbers[] = {{"left_bytes", &now->left_bytes}, {"total_bytes", &now->total_bytes}, {"sm_mhz", &now->sm_mhz},
                   {"sm_top_mhz", &now->sm_top_mhz}, {"power_w", &now->power_w},         {"processes", &now->processes},
                   {"bus_bits", &rates->bus_bits}};
    AT_FORWARD(at_json_double(ok, "answer", "sm_hz", &rates->sm_hz));
    AT_FORWARD(at_json_double(ok, "answer", "memory_hz", &rates->memory_hz));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
        AT_FORWARD(at_json_int(ok, "answer", numbers[i].key, -1, INT64_MAX, numbers[i].value));
    }
    return ATTUNE_OK;
}

static void note_device(const at_gate *gate, const state *now)
{
    char text[200];
    (void)snprintf(text, sizeof text, "%.1f of %.1f GiB free", (double)now->left_bytes / gib,
                   (double)now->total_bytes / gib);
    note(gate, "memory", text);
    if (now->sm_top_mhz == 0) {
        note(gate, "clocks", "not known (no NVML): blocks on which the device throttled cannot be dropped");
        return;
    }
    (void)snprintf(text, sizeof text, "%lld MHz now, %lld at most; %lld W", (long long)now->sm_mhz,
                   (long long)now->sm_top_mhz, (long long)now->power_w);
    note(gate, "clocks", text);
    if (now->processes > 1) {
        (void)snprintf(text, sizeof text, "%lld besides this one: blocks that they disturb are dropped",
                       (long long)now->processes - 1);
        note(gate, "others", text);
    }
}

static attune_status look_at_device(at_gate *gate)
{
    enum { PATIENCE_S = 10 };
    state now = {0};
    json_t *ok;
    AT_FORWARD(at_channel_ask(at_remote_channel(gate->candidate_worker), "machine", NULL, PATIENCE_S, &ok));
    attune_status status = read_state(ok, &gate->rates, &now);
    json_decref(ok);
    if (status == ATTUNE_OK) {
        note_device(gate, &now);
    }
    return status;
}

static void look_at_host(const at_gate *gate)
{
    char text[120];
    double load = 0;
    double page = (double)sysconf(_SC_PAGESIZE);
    (void)snprintf(text, sizeof text, "%.1f of %.1f GiB free", (double)sysconf(_SC_AVPHYS_PAGES) * page / gib,
                   (double)sysconf(_SC_PHYS_PAGES) * page / gib);
    note(gate, "memory", text);
    if (getloadavg(&load, 1) == 1 && load > 0.5) {
        (void)snprintf(text, sizeof text,
                       "%.1f threads had work over the last minute: in such company nothing passes as faster", load);
        note(gate, "others", text);
    }
}

attune_status at_gate_preflight(at_gate *gate)
{
    char text[AT_TARGET_TEXT_MAX];
    at_device *device;
    attune_status status = at_gate_candidate_worker(gate, NULL, &device);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "pre-flight");
    }
    gate->target = device->target;
    at_target_print(&gate->target, text);
    note(gate, "device", text);
    note_compiler(gate);
    record_versions(gate);
    if (gate->target.kind == ATTUNE_TARGET_CUDA) {
        return look_at_device(gate);
    }
    look_at_host(gate);
    return ATTUNE_OK;
}
