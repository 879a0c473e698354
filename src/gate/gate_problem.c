/* One problem: its candidates from build to correctness, and the peers that they will be timed beside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "gate/gate_parts.h"

static void stamp(char when[24])
{
    struct tm now;
    time_t seconds = time(NULL);
    if (gmtime_r(&seconds, &now) == NULL || strftime(when, 24, "%Y-%m-%dT%H:%M:%SZ", &now) == 0) {
        when[0] = '\0';
    }
}

static attune_status make_verdict(const at_gate *gate, const at_gate_candidate *candidate, const at_test_problem *test,
                                  at_verdict **verdict)
{
    const at_gate_options *options = gate->options;
    AT_FORWARD(at_verdict_create(verdict));
    at_verdict *made = *verdict;
    (void)snprintf(made->kernel, sizeof made->kernel, "%s", candidate->text);
    made->stranger = candidate->stranger != NULL || candidate->kernel == NULL;
    AT_FORWARD(at_test_problem_print(test, made->problem, sizeof made->problem));
    stamp(made->when);
    made->options = (at_verdict_options){options->must, options->cases, options->seed, options->quick};
    made->target = gate->target;
    made->version_count = gate->version_count;
    memcpy(made->version, gate->version, sizeof made->version);
    return ATTUNE_OK;
}

static attune_status judge_candidates(at_gate *gate, at_gate_table *table)
{
    const at_gate_options *options = gate->options;
    const int problem = (int)(table->test - options->problem);
    for (int i = 0; i < options->candidate_count; ++i) {
        at_gate_entry *entry = &table->entry[table->count];
        if (options->paired && i != problem) {
            continue;
        }
        *entry = (at_gate_entry){.candidate = &gate->candidate[i], .test = table->test};
        ++table->count;
        AT_FORWARD(make_verdict(gate, entry->candidate, entry->test, &entry->verdict));
        if (options->watch.candidate != NULL) {
            options->watch.candidate(options->watch.self, entry->verdict);
        }
        AT_FORWARD(at_gate_right(gate, entry));
        if (entry->known != NULL) {
            at_gate_note(gate, "there is fresh evidence already (--again judges anew)");
        } else if (options->counters && entry->verdict->right == AT_PASS) {
            AT_FORWARD(at_gate_counters(gate, entry));
        }
    }
    return ATTUNE_OK;
}

/* Whether anyone's time is wanted. */
static bool needs_peers(const at_gate_table *table)
{
    for (int i = 0; i < table->count; ++i) {
        const at_gate_entry *entry = &table->entry[i];
        if (entry->known == NULL && entry->verdict != NULL && entry->verdict->right == AT_PASS) {
            return true;
        }
    }
    return false;
}

attune_status at_gate_judge_problem(at_gate *gate, const at_test_problem *test, at_gate_table *table)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    const at_gate_options *options = gate->options;
    *table = (at_gate_table){.test = test};
    table->entry = calloc((size_t)options->candidate_count, sizeof *table->entry);
    AT_FAIL_IF(table->entry == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d verdicts", options->candidate_count);
    AT_FORWARD(at_test_problem_print(test, text, sizeof text));
    if (options->watch.problem != NULL) {
        options->watch.problem(options->watch.self, text);
    }
    AT_FORWARD(judge_candidates(gate, table));
    return needs_peers(table) ? at_gate_peers(gate, table) : ATTUNE_OK;
}
