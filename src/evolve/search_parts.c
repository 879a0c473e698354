#include "evolve/search_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/file.h"
#include "base/status.h"

double at_search_seconds(const at_search *on)
{
    return on->before_s + on->machine->seconds(on->machine->self) - on->began_s;
}

attune_status at_search_stopped(const at_search *on)
{
    const at_search_watch *watch = &on->options->watch;
    bool stop = at_file_interrupted() || (watch->stop != NULL && watch->stop(watch->self));
    AT_FAIL_IF(stop, ATTUNE_INTERRUPTED, "interrupted");
    return ATTUNE_OK;
}

void at_search_note(const at_search *on, const char *format, ...)
{
    char text[AT_EVENT_WHY_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (on->options->watch.note != NULL) {
        on->options->watch.note(on->options->watch.self, text);
    }
}

void at_search_text(const at_search *on, int candidate, char text[AT_KERNEL_TEXT_MAX])
{
    on->machine->name(on->machine->self, candidate, text);
}

bool at_search_is_written(const at_search *on, const at_event *event)
{
    return at_recall_find(on->recall, event) != NULL;
}

attune_status at_search_write(const at_search *on, at_event *event)
{
    event->at_s = at_search_seconds(on);
    return on->ledger == NULL || at_search_is_written(on, event) ? ATTUNE_OK : at_ledger_append(on->ledger, event);
}

attune_status at_search_checked(at_search *on, at_self_check check, bool holds, bool voids, const char *format, ...)
{
    at_event event = {.kind = AT_EVENT_CHECK, .as.check = {.check = check, .holds = holds}};
    va_list list;
    va_start(list, format);
    (void)vsnprintf(event.as.check.why, sizeof event.as.check.why, format, list);
    va_end(list);
    if (!holds && voids && !on->is_void) {
        on->is_void = true;
        (void)snprintf(on->result->why, sizeof on->result->why, "self-check \"%s\": %.400s", at_names_of_checks[check],
                       event.as.check.why);
    }
    if (on->options->watch.checked != NULL) {
        on->options->watch.checked(on->options->watch.self, &event.as.check);
    }
    return at_search_write(on, &event);
}

attune_status at_search_decide(const at_search *on, at_decision decision, int candidate, int against,
                               const at_interval *ratio, const char *why)
{
    at_event event = {.kind = AT_EVENT_DECISION, .as.decision = {.decision = decision}};
    at_search_text(on, candidate, event.as.decision.config);
    at_search_text(on, against, event.as.decision.against);
    event.as.decision.ratio = (at_interval){exp(-ratio->middle), exp(-ratio->high), exp(-ratio->low)};
    (void)snprintf(event.as.decision.why, sizeof event.as.decision.why, "%s", why);
    return at_search_write(on, &event);
}

/* The kernel's own order first, then the space's. */
int64_t at_search_key(void *self, int candidate)
{
    const at_search *on = self;
    return candidate >= on->space->count ? -1 : (int64_t)on->space->rank[candidate] * on->space->count + candidate;
}
