/* What the machine says of one source, and what follows from that. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "evolve/code_parts.h"

/* Errors so many times the parent's, or the first source's, are an alarm, though within the rules: precision was given
 * away, at once or in steps. */
static const double alarm = 1.5;

at_code_side at_code_side_of(const at_code *on, int id)
{
    const at_program *program = &on->lineage.program[id];
    return (at_code_side){id, &program->sources, program->config};
}

attune_status at_code_judge(at_code *on, int id, at_code_verdict verdict, const at_event_judged *found,
                            const char *format, ...)
{
    at_program *program = &on->lineage.program[id];
    at_event event = {.kind = AT_EVENT_JUDGED, .as.judged = {.chance = 1}};
    va_list list;
    event.as.judged = found != NULL ? *found : event.as.judged;
    event.as.judged.id = id;
    event.as.judged.verdict = (int32_t)verdict;
    va_start(list, format);
    (void)vsnprintf(event.as.judged.why, sizeof event.as.judged.why, format, list);
    va_end(list);
    program->verdict = verdict;
    memcpy(program->why, event.as.judged.why, sizeof program->why);
    at_lineage_judged(&on->lineage, id);
    ++on->result->verdicts[verdict];
    return at_code_decide(on, &event);
}

/* ---- Questions ----------------------------------------------------------------------------------------------------
 */

static attune_status make(at_code *on, int id, at_event_made *made)
{
    bool recalled;
    at_event event = {.kind = AT_EVENT_MADE};
    AT_FORWARD(at_code_recall(on, &event, id, &recalled));
    if (!recalled) {
        const at_code_side side = at_code_side_of(on, id);
        event.as.made = (at_event_made){.id = id};
        AT_FORWARD(on->options->machine.make(on->options->machine.self, &side, &event.as.made));
        event.at_s = at_code_now(on);
    }
    AT_FORWARD(at_code_write(on, &event, recalled));
    *made = event.as.made;
    return ATTUNE_OK;
}

attune_status at_code_tune(at_code *on, int id, int runs)
{
    bool recalled;
    at_event event = {.kind = AT_EVENT_TUNED};
    AT_FORWARD(at_code_recall(on, &event, id, &recalled));
    if (!recalled) {
        at_code_side side = at_code_side_of(on, id);
        side.config = id > 0 ? at_lineage_before(&on->lineage, id)->config : "";
        event.as.tuned = (at_event_tuned){.id = id};
        AT_FORWARD(on->options->machine.tune(on->options->machine.self, &side, runs, &event.as.tuned));
        event.at_s = at_code_now(on);
    }
    AT_FORWARD(at_code_write(on, &event, recalled));
    at_program *program = &on->lineage.program[id];
    program->us = event.as.tuned.well ? event.as.tuned.us : 0;
    memcpy(program->config, event.as.tuned.config, sizeof program->config);
    memcpy(program->counters, event.as.tuned.counters, sizeof program->counters);
    memcpy(program->why, event.as.tuned.why, sizeof program->why);
    on->turn[program->arm].measured += event.as.tuned.measured;
    return ATTUNE_OK;
}

static attune_status duel(at_code *on, int id, int against, int round, at_event_duel *fought)
{
    bool recalled;
    at_event event = {.kind = AT_EVENT_DUEL};
    AT_FORWARD(at_code_recall(on, &event, id, &recalled));
    if (!recalled) {
        const at_code_side side = at_code_side_of(on, id), champion = at_code_side_of(on, against);
        event.as.duel = (at_event_duel){.id = id, .against = against};
        AT_FORWARD(on->options->machine.duel(on->options->machine.self, &side, &champion, round, &event.as.duel));
        event.at_s = at_code_now(on);
    }
    AT_FORWARD(at_code_write(on, &event, recalled));
    *fought = event.as.duel;
    return ATTUNE_OK;
}

/* ---- Duels --------------------------------------------------------------------------------------------------------
 */

typedef struct fight {
    at_race_result result;
    bool fair;
    at_interval ratio; /* logarithm of its time over the champion's */
} fight;

void at_code_race_policy(at_race_policy *policy, uint64_t seed)
{
    enum { BLOCKS_MORE = 36 };
    at_race_policy_init(policy, seed);
    policy->blocks_more = BLOCKS_MORE;
    policy->shorter = true;
}

static attune_status weigh(const at_event_duel *fought, fight *found)
{
    at_race_policy policy;
    at_interval placebo;
    static const at_interval same = {0, 0, 0};
    at_code_race_policy(&policy, 0);
    AT_FORWARD(at_race_ratio(&policy, fought->us, fought->champion_us, fought->blocks, &found->ratio));
    AT_FORWARD(at_race_ratio(&policy, fought->placebo_us, fought->champion_us, fought->blocks, &placebo));
    found->fair = at_race_ties(&policy, &placebo, &same);
    found->result = at_race_result_of(&policy, &found->ratio, fought->blocks);
    return ATTUNE_OK;
}

static at_interval as_gain(const at_interval *ratio)
{
    return (at_interval){exp(-ratio->middle), exp(-ratio->high), exp(-ratio->low)};
}

/* Standard errors that a duel's interval reaches to either side, about. */
static const double reach = 3;

static attune_status judge_fight(at_code *on, int id, int against, const fight *one, bool twice)
{
    at_program *program = &on->lineage.program[id];
    at_event_judged judged = {.against = against, .ratio = as_gain(&one->ratio), .chance = 1};
    program->log_time = on->lineage.program[against].log_time + one->ratio.middle;
    program->spread = (one->ratio.high - one->ratio.low) / 2 / reach;
    program->against = against;
    if (!one->fair) {
        return at_code_judge(on, id, AT_CODE_VOID, &judged, "beside it a copy of the champion did not tie with it");
    }
    const char *how = one->result == AT_RACE_WON && !twice ? "; once" : "";
    at_code_verdict verdict = one->result == AT_RACE_WON && twice ? AT_CODE_ACCEPTED
                              : one->result == AT_RACE_LOST       ? AT_CODE_SLOWER
                                                                  : AT_CODE_TIED;
    return at_code_judge(on, id, verdict, &judged, "%.3f times as fast (%.3f to %.3f) as proposal %d%s",
                         judged.ratio.middle, judged.ratio.low, judged.ratio.high, against, how);
}

/* Who wins, wins twice: what is kept is what the second, which chose nobody, said. */
static attune_status race(at_code *on, int id)
{
    const int against = on->lineage.champion[on->lineage.program[id].arm];
    enum { ROUNDS = 2, LEAST_BLOCKS = 3 };
    fight one = {.result = AT_RACE_WON};
    at_event_duel fought;
    for (int round = 0; round < ROUNDS; ++round) {
        AT_FORWARD(duel(on, id, against, round, &fought));
        if (!fought.well) {
            return at_code_judge(on, id, AT_CODE_REFUSED, NULL, "%s", fought.why);
        }
        if (fought.blocks < LEAST_BLOCKS) {
            return at_code_judge(on, id, AT_CODE_SLOWER, NULL, "%s", fought.why);
        }
        AT_FORWARD(weigh(&fought, &one));
        if (one.result != AT_RACE_WON || !one.fair || round + 1 == ROUNDS) {
            return judge_fight(on, id, against, &one, round + 1 == ROUNDS);
        }
    }
    return ATTUNE_OK;
}

/* ---- A source -----------------------------------------------------------------------------------------------------
 */

static void take_made(at_program *program, const at_event_made *made)
{
    memcpy(program->code, made->code, sizeof program->code);
    memcpy(program->facts, made->facts, sizeof program->facts);
    memcpy(program->binds, made->binds, sizeof program->binds);
    program->error = made->error;
    memcpy(program->row_error, made->row_error, sizeof program->row_error);
}

/* How many times another's its errors are: the whole result's, the median row's, or of rows the 99 % quantile. */
static double error_growth(const at_program *one, const at_program *before, const char **which)
{
    const struct {
        const char *name;
        double is, was;
    } errors[] = {{"error", one->error, before->error},
                  {"median row's error", one->row_error[0], before->row_error[0]},
                  {"error of the worst rows (99 %)", one->row_error[1], before->row_error[1]}};
    double most = 0;
    *which = "";
    for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i) {
        const double growth = errors[i].was > 0 ? errors[i].is / errors[i].was : 0;
        *which = growth > most ? errors[i].name : *which;
        most = growth > most ? growth : most;
    }
    return most;
}

/* Steps that each give a little away add up: the first source counts as the parent does. */
static attune_status judge_errors(at_code *on, int id, bool *alarmed)
{
    const at_program *program = &on->lineage.program[id], *parent = at_lineage_before(&on->lineage, id);
    const char *which, *whose = "its parent's";
    double growth = error_growth(program, parent, &which);
    if (growth <= alarm) {
        whose = "the first source's";
        growth = error_growth(program, &on->lineage.program[0], &which);
    }
    *alarmed = growth > alarm;
    return *alarmed ? at_code_judge(on, id, AT_CODE_ALARM, NULL, "its %s is %.2f times %s: precision was given away",
                                    which, growth, whose)
                    : ATTUNE_OK;
}

static attune_status judge_first(at_code *on, const at_event_made *made)
{
    AT_FAIL_IF(made->refused != AT_RAN, ATTUNE_INVALID_ARGUMENT, "the first source is refused: %.400s", made->why);
    AT_FORWARD(at_code_tune(on, 0, on->options->tune_runs));
    const at_program *first = &on->lineage.program[0];
    AT_FAIL_IF(first->us <= 0, ATTUNE_UNSUPPORTED, "the first source cannot be timed: %.400s", first->why);
    return at_code_judge(on, 0, AT_CODE_ACCEPTED, NULL, "it is what there was");
}

attune_status at_code_assay(at_code *on, int id)
{
    at_event_made made;
    AT_FORWARD(make(on, id, &made));
    at_program *program = &on->lineage.program[id];
    take_made(program, &made);
    if (id == 0) {
        return judge_first(on, &made);
    }
    if (made.refused != AT_RAN) {
        return at_code_judge(on, id, AT_CODE_REFUSED, NULL, "%s: %.440s", at_names_of_refused[made.refused], made.why);
    }
    int same = at_lineage_same_code(&on->lineage, id);
    if (same >= 0) {
        return at_code_judge(on, id, AT_CODE_DUPLICATE, NULL, "it compiles to the code of proposal %d", same);
    }
    bool alarmed;
    AT_FORWARD(judge_errors(on, id, &alarmed));
    if (alarmed) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_code_tune(on, id, on->options->tune_runs));
    program = &on->lineage.program[id];
    if (program->us <= 0) {
        return at_code_judge(on, id, AT_CODE_REFUSED, NULL, "its parameters cannot be searched: %.400s", program->why);
    }
    return race(on, id);
}
