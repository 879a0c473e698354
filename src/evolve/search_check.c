/* How a search looks at itself. Each of these is a mistake that somebody made: docs/evolve.md lists them. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "evolve/search_parts.h"

/* ---- A wrong kernel must be rejected ----------------------------------------------------------------------------- */

attune_status at_search_check_mutant(at_search *on)
{
    at_first_run seen;
    char name[AT_KERNEL_TEXT_MAX];
    at_search_text(on, on->champion, name);
    AT_FORWARD(on->machine->mutant(on->machine->self, on->champion, &seen));
    if (seen.refused == AT_REFUSED_WRONG) {
        return at_search_checked(on, AT_CHECK_MUTANT, true, true, "with queries 2 %% off, %s is rejected: %.200s",
                                 on->space->kernel, seen.why);
    }
    return at_search_checked(on, AT_CHECK_MUTANT, false, true,
                             "%s with queries 2 %% off was %s: wrong kernels would not be seen here", name,
                             seen.refused == AT_RAN ? "taken for right" : seen.why);
}

/* ---- One module under many names --------------------------------------------------------------------------------- */

attune_status at_search_check_execution(at_search *on, const int *candidate, int count)
{
    char function[AT_HEAT_MAX + 1][AT_FUNCTION_TEXT_MAX];
    char a[AT_KERNEL_TEXT_MAX], b[AT_KERNEL_TEXT_MAX];
    for (int i = 0; i < count; ++i) {
        AT_FORWARD(on->machine->function(on->machine->self, candidate[i], function[i]));
        for (int k = 0; k < i; ++k) {
            const at_known_candidate *one = &on->known[candidate[i]], *other = &on->known[candidate[k]];
            if (strcmp(function[i], function[k]) != 0 || strcmp(one->code, other->code) == 0) {
                continue;
            }
            at_search_text(on, candidate[k], a);
            at_search_text(on, candidate[i], b);
            return at_search_checked(
                on, AT_CHECK_EXECUTION, false, true,
                "one function, %s, was launched for %.150s and for %.150s, whose code differs: one "
                "module is measured under many names",
                function[i], a, b);
        }
    }
    on->launched += count - 1;
    return ATTUNE_OK;
}

attune_status at_search_record_execution(at_search *on)
{
    return on->launched == 0 ? ATTUNE_OK
                             : at_search_checked(on, AT_CHECK_EXECUTION, true, true,
                                                 "%d candidates were launched beside the champion, and no function was "
                                                 "launched for two codes",
                                                 on->launched);
}

/* ---- One time for all -------------------------------------------------------------------------------------------- */

/* Variants of different code that were timed: how many, and how far apart. */
typedef struct spread {
    int count, apart;
    double least, most;
} spread;

static spread spread_of(const at_search *on)
{
    spread seen = {0, 0, HUGE_VAL, -HUGE_VAL};
    for (int i = 0; i < on->space->count; ++i) {
        const at_known_candidate *one = &on->known[i];
        if (one->has_outcome && one->refused == AT_RAN && one->same_as < 0) {
            ++seen.count;
            seen.apart += one->censored || fabs(one->log_us - on->champion_log_us) > one->ratio_half;
            seen.least = fmin(seen.least, one->log_us);
            seen.most = fmax(seen.most, one->log_us);
        }
    }
    return seen;
}

/* Of many that tie with one another, a few lie outside of their intervals by chance. */
attune_status at_search_check_alarm(at_search *on)
{
    enum { ENOUGH = 8, CHANCE = 10 };
    spread seen = spread_of(on);
    if (seen.count < ENOUGH) {
        return ATTUNE_OK;
    }
    double width = expm1(seen.most - seen.least);
    bool flat = seen.apart * CHANCE <= seen.count && width < 2 * on->options->policy.band;
    if (flat) {
        return at_search_checked(on, AT_CHECK_ALARM, false, false,
                                 "%d variants of different code answered with one time, within %.1f %%: no parameter "
                                 "matters on this problem, or it is not they that are measured",
                                 seen.count, 100 * width);
    }
    return at_search_checked(on, AT_CHECK_ALARM, true, false, "%d variants lie up to %.0f %% apart", seen.count,
                             100 * width);
}

/* ---- Dead parameters --------------------------------------------------------------------------------------------- */

/* The one parameter in which two candidates differ; -1 where that is none or several. */
static int differs_in(const at_space *space, int a, int b)
{
    int found = -1;
    for (int p = 0; p < space->param_count; ++p) {
        bool same = space->position[(size_t)a * (size_t)space->param_count + (size_t)p] ==
                    space->position[(size_t)b * (size_t)space->param_count + (size_t)p];
        if (!same && found >= 0) {
            return -1;
        }
        found = same ? found : p;
    }
    return found;
}

/* Makes, and does not time, the neighbours of the champion in each parameter. */
static attune_status build_neighbours(at_search *on)
{
    enum { NEIGHBOURS_MAX = 64 };
    int list[NEIGHBOURS_MAX];
    int count = 0;
    for (int i = 0; i < on->space->count && count < NEIGHBOURS_MAX; ++i) {
        if (!on->known[i].built && !on->known[i].seen && differs_in(on->space, on->champion, i) >= 0) {
            list[count++] = i;
            AT_FORWARD(on->machine->prefetch(on->machine->self, i));
        }
    }
    for (int i = 0; i < count; ++i) {
        at_variant variant;
        at_known_candidate *one = &on->known[list[i]];
        AT_FORWARD(at_search_stopped(on));
        AT_FORWARD(on->machine->build(on->machine->self, list[i], &variant));
        one->built = variant.refused == AT_RAN;
        memcpy(one->code, variant.code, sizeof one->code);
    }
    return ATTUNE_OK;
}

/* Pairs of candidates that differ in one parameter alone: how many were compared, and how many of them differed. */
typedef struct contrast {
    int compared[ATTUNE_PARAMS_MAX], changed[ATTUNE_PARAMS_MAX];
} contrast;

static void compare_codes(const at_search *on, contrast *seen)
{
    for (int a = 0; a < on->space->count; ++a) {
        for (int b = 0; b < a && on->known[a].built; ++b) {
            int param = on->known[b].built ? differs_in(on->space, a, b) : -1;
            if (param >= 0) {
                ++seen->compared[param];
                seen->changed[param] += strcmp(on->known[a].code, on->known[b].code) != 0;
            }
        }
    }
}

/* Whether its time is known so well that a difference as wide as the band would show beside another. */
static bool is_sharp(const at_search *on, int candidate)
{
    const at_known_candidate *one = &on->known[candidate];
    return one->has_outcome && one->refused == AT_RAN && !one->censored &&
           2 * one->half < log1p(on->options->policy.band);
}

static void compare_times(const at_search *on, contrast *seen)
{
    const double band = log1p(on->options->policy.band);
    for (int a = 0; a < on->space->count; ++a) {
        for (int b = 0; b < a && is_sharp(on, a); ++b) {
            int param = is_sharp(on, b) ? differs_in(on->space, a, b) : -1;
            if (param >= 0) {
                ++seen->compared[param];
                seen->changed[param] += fabs(on->known[a].log_us - on->known[b].log_us) > band;
            }
        }
    }
}

/* Names the dead among parameters of which `enough` pairs were compared; by chance one in `chance` differs. */
static attune_status say_dead(at_search *on, const contrast *seen, int enough, int chance, const char *what)
{
    char names[240] = "";
    at_text dead;
    int live = 0;
    at_text_init_fixed(&dead, names, sizeof names);
    for (int p = 0; p < on->space->param_count; ++p) {
        bool known = seen->compared[p] >= enough;
        bool lives = seen->changed[p] > seen->compared[p] / chance;
        live += known && lives;
        if (known && !lives) {
            at_text_add(&dead, "%s%s (%d pairs)", dead.length > 0 ? ", " : "", on->space->param[p].name,
                        seen->compared[p]);
        }
    }
    if (dead.length > 0) {
        return at_search_checked(on, AT_CHECK_DEAD, false, false, "dead, for no value changes the %s: %s", what, names);
    }
    return live == 0
               ? ATTUNE_OK
               : at_search_checked(on, AT_CHECK_DEAD, true, false, "each of %d parameters changes the %s", live, what);
}

/* Where candidates are compiled their code shows it, and nothing has to run for it. Where the config is an argument of
 * code that all share, times have to, as far as they were measured: of pairs that tie a few differ by chance. */
attune_status at_search_check_dead(at_search *on)
{
    enum { ENOUGH = 8, CHANCE = 10 };
    contrast seen = {{0}, {0}};
    if (on->machine->prefetch == NULL) {
        compare_times(on, &seen);
        return say_dead(on, &seen, ENOUGH, CHANCE, "time");
    }
    AT_FORWARD(on->options->exhaustive ? ATTUNE_OK : build_neighbours(on)); /* else all are built */
    compare_codes(on, &seen);
    return say_dead(on, &seen, 1, INT_MAX, "code");
}
