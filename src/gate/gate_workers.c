/* The gate's workers: opened when needed, closed when broken. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "gate/gate_parts.h"
#include "worker/arms.h"

double at_gate_seconds(const at_gate *gate)
{
    return (double)(gate->clock.now_ns(gate->clock.self) - gate->began_ns) * 1e-9;
}

bool at_gate_stopped(const at_gate *gate)
{
    const at_gate_watch *watch = &gate->options->watch;
    return at_file_interrupted() || (watch->stop != NULL && watch->stop(watch->self));
}

void at_gate_note(const at_gate *gate, const char *format, ...)
{
    char text[AT_SENTENCE_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (gate->options->watch.note != NULL) {
        gate->options->watch.note(gate->options->watch.self, text);
    }
}

void at_gate_progress(const at_gate *gate, const char *doing, double done)
{
    if (gate->options->watch.progress != NULL) {
        gate->options->watch.progress(gate->options->watch.self, doing, done);
    }
}

bool at_gate_wants_python(const at_gate *gate)
{
    for (int i = 0; i < gate->options->peer_count; ++i) {
        if (at_arms_python(gate->options->peer[i]) || strcmp(gate->options->peer[i], "best") == 0) {
            return true;
        }
    }
    return false;
}

void at_gate_remote_options(const at_gate *gate, at_gate_worker which, at_remote_options *options)
{
    const at_gate_options *given = gate->options;
    bool fetch = which != AT_WORKER_CANDIDATES && at_gate_wants_python(gate);
    const char *const *python = which == AT_WORKER_TIMER && given->python != NULL ? gate->timer : given->python;
    *options = (at_remote_options){.command = fetch ? python : given->worker,
                                   .target = gate->target_text,
                                   .isa = given->isa,
                                   .threads = given->threads,
                                   .patience_s = given->patience_s};
}

/* ---- Started ahead: interpreters load what they need before anyone asks them --------------------------------------
 */

attune_status at_gate_start_ahead(at_gate *gate, at_gate_worker which)
{
    at_remote_options options;
    at_gate_remote_options(gate, which, &options);
    bool wanted = at_gate_wants_python(gate) && options.command != NULL && gate->ahead[which] == NULL;
    return wanted ? at_remote_start(&options, &gate->ahead[which]) : ATTUNE_OK;
}

attune_status at_gate_open_worker(at_gate *gate, at_gate_worker which, const at_remote_options *options,
                                  at_device **worker)
{
    at_device **ahead = &gate->ahead[which];
    if (*ahead == NULL) {
        return at_remote_open(options, worker);
    }
    *worker = *ahead;
    *ahead = NULL;
    attune_status status = at_remote_begin(*worker, options);
    if (status != ATTUNE_OK) {
        (*worker)->ops->close(*worker);
        *worker = NULL;
    }
    return status;
}

/* ---- Opened and closed ------------------------------------------------------------------------------------------- */

static void close_one(at_device **kept, bool only_broken)
{
    if (*kept != NULL && (!only_broken || at_remote_is_broken(*kept))) {
        (*kept)->ops->close(*kept);
        *kept = NULL;
    }
}

static attune_status get(at_gate *gate, at_gate_worker which, at_device **kept, at_device **device)
{
    at_remote_options options;
    at_gate_remote_options(gate, which, &options);
    options.confined = which == AT_WORKER_CANDIDATES && gate->confined != NULL;
    AT_FAIL_IF(options.command == NULL, ATTUNE_NOT_FOUND,
               "there is no Python that could run PyTorch's arms (ATTUNE_PYTHON can name one)");
    attune_status status = *kept != NULL ? ATTUNE_OK : at_gate_open_worker(gate, which, &options, kept);
    *device = *kept;
    return status;
}

attune_status at_gate_candidate_worker(at_gate *gate, const at_gate_candidate *candidate, at_device **device)
{
    const at_gate_candidate *confined = candidate != NULL && at_gate_is_confined(candidate) ? candidate : NULL;
    if (gate->confined != confined) {
        close_one(&gate->candidate_worker, false);
        gate->confined = confined;
    }
    return get(gate, AT_WORKER_CANDIDATES, &gate->candidate_worker, device);
}

attune_status at_gate_peer_worker(at_gate *gate, at_device **device)
{
    return get(gate, AT_WORKER_PEERS, &gate->peer_worker, device);
}

void at_gate_close_broken(at_gate *gate)
{
    close_one(&gate->candidate_worker, true);
    close_one(&gate->peer_worker, true);
}

void at_gate_close_ahead(at_gate *gate)
{
    for (int which = 0; which < AT_WORKER_COUNT; ++which) {
        close_one(&gate->ahead[which], false);
    }
}

void at_gate_close_workers(at_gate *gate)
{
    close_one(&gate->candidate_worker, false);
    close_one(&gate->peer_worker, false);
}
