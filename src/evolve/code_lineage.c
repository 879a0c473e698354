#include "evolve/code_lineage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { REPAIRS_MAX = 2, STAGNATION = 8 };

void at_lineage_init(at_lineage *lineage)
{
    *lineage = (at_lineage){.count = 0};
    for (int arm = 0; arm < AT_ARM_COUNT; ++arm) {
        lineage->last[arm] = -1;
    }
}

void at_lineage_free(at_lineage *lineage)
{
    for (int i = 0; i < lineage->count; ++i) {
        at_sources_free(&lineage->program[i].sources);
    }
    free(lineage->program);
    at_lineage_init(lineage);
    lineage->program = NULL;
}

at_program *at_lineage_add(at_lineage *lineage, at_code_arm arm, at_code_kind kind, int parent)
{
    if (lineage->count == lineage->room) {
        int room = lineage->room > 0 ? 2 * lineage->room : 16;
        at_program *more = realloc(lineage->program, (size_t)room * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        lineage->program = more;
        lineage->room = room;
    }
    at_program *added = &lineage->program[lineage->count];
    *added = (at_program){.id = lineage->count,
                          .parent = parent,
                          .other = -1,
                          .arm = arm,
                          .kind = kind,
                          .verdict = AT_CODE_NONE,
                          .against = -1};
    added->repairs = kind == AT_CODE_REPAIR ? lineage->program[parent].repairs + 1 : 0;
    ++lineage->count;
    return added;
}

/* The first source is of all arms. */
static bool is_of(const at_program *program, at_code_arm arm)
{
    return program->id == 0 || program->arm == arm;
}

int at_lineage_same_sources(const at_lineage *lineage, int id)
{
    const at_program *one = &lineage->program[id];
    for (int i = 0; i < id; ++i) {
        if (is_of(&lineage->program[i], one->arm) && strcmp(lineage->program[i].digest, one->digest) == 0) {
            return i;
        }
    }
    return -1;
}

int at_lineage_same_code(const at_lineage *lineage, int id)
{
    const at_program *one = &lineage->program[id];
    for (int i = 0; i < id && one->code[0] != '\0'; ++i) {
        if (is_of(&lineage->program[i], one->arm) && strcmp(lineage->program[i].code, one->code) == 0) {
            return i;
        }
    }
    return -1;
}

bool at_program_runs(const at_program *program)
{
    return program->verdict == AT_CODE_ACCEPTED || program->verdict == AT_CODE_TIED ||
           program->verdict == AT_CODE_SLOWER;
}

void at_lineage_judged(at_lineage *lineage, int id)
{
    const at_program *one = &lineage->program[id];
    bool gained = one->verdict == AT_CODE_ACCEPTED;
    lineage->champion[one->arm] = gained ? id : lineage->champion[one->arm];
    lineage->since[one->arm] = gained ? 0 : lineage->since[one->arm] + 1;
    lineage->last[one->arm] = id;
}

int at_lineage_elite(const at_lineage *lineage, at_code_arm arm, const char *binds)
{
    int best = -1;
    for (int i = 0; i < lineage->count; ++i) {
        const at_program *one = &lineage->program[i];
        bool may =
            is_of(one, arm) && at_program_runs(one) && one->verdict != AT_CODE_SLOWER && strcmp(one->binds, binds) == 0;
        best = may && (best < 0 || one->log_time < lineage->program[best].log_time) ? i : best;
    }
    return best;
}

int at_lineage_base(const at_lineage *lineage, int one, int other)
{
    while (one != other) { /* parents come before their children */
        int *later = one > other ? &one : &other;
        *later = lineage->program[*later].parent;
    }
    return one;
}

/* ---- What next --------------------------------------------------------------------------------------------------- */

/* One by chance of those that `may` names; -1: none. */
static int draw(const at_lineage *lineage, at_code_arm arm, bool (*may)(const at_lineage *, at_code_arm, int),
                at_random *random)
{
    int count = 0, chosen = -1;
    for (int i = 0; i < lineage->count; ++i) {
        if (may(lineage, arm, i)) {
            chosen = at_random_below(random, (uint64_t)++count) == 0 ? i : chosen;
        }
    }
    return chosen;
}

/* Whether a step from there may lead past the champion: no parent is so much slower that its children are at most
 * looked at. */
static bool is_near(const at_lineage *lineage, at_code_arm arm, const at_program *one)
{
    static const double far = 1.5;
    return one->log_time < lineage->program[lineage->champion[arm]].log_time + log(far);
}

static bool is_other_elite(const at_lineage *lineage, at_code_arm arm, int id)
{
    const at_program *one = &lineage->program[id];
    return strcmp(one->binds, lineage->program[lineage->champion[arm]].binds) != 0 && is_near(lineage, arm, one) &&
           at_lineage_elite(lineage, arm, one->binds) == id;
}

/* Slower, by a way that nobody else went. */
static bool is_loser_with_an_idea(const at_lineage *lineage, at_code_arm arm, int id)
{
    const at_program *one = &lineage->program[id];
    bool is = is_of(one, arm) && one->verdict == AT_CODE_SLOWER && one->against >= 0 && one->idea[0] != '\0' &&
              is_near(lineage, arm, one);
    for (int i = 0; i < lineage->count && is; ++i) {
        is = i == id || strcmp(lineage->program[i].idea, one->idea) != 0;
    }
    return is;
}

/* Whether these two were crossed before. */
static bool were_crossed(const at_lineage *lineage, int one, int other)
{
    for (int i = 0; i < lineage->count; ++i) {
        const at_program *child = &lineage->program[i];
        if (child->kind == AT_CODE_CROSS &&
            ((child->parent == one && child->other == other) || (child->parent == other && child->other == one))) {
            return true;
        }
    }
    return false;
}

/* Someone to cross the champion with: of another branch, and faster than what both came from. */
static bool is_mate(const at_lineage *lineage, at_code_arm arm, int id)
{
    const at_program *one = &lineage->program[id];
    const int champion = lineage->champion[arm];
    if (!is_of(one, arm) || !at_program_runs(one) || were_crossed(lineage, champion, id)) {
        return false;
    }
    const int base = at_lineage_base(lineage, id, champion);
    return base != id && base != champion && one->log_time < lineage->program[base].log_time;
}

/* One that tied with the champion, and may be better: drawn from what is known of each (Thompson's sampling), where
 * most changes are known to change little. Not `but`, nor of its line; -1: none is likely to be better. */
static int draw_peer(const at_lineage *lineage, at_code_arm arm, int but, at_random *random)
{
    static const double usual = 0.02;
    const int champion = lineage->champion[arm];
    int best = -1;
    double least = 0;
    for (int i = 1; i < lineage->count; ++i) {
        const at_program *one = &lineage->program[i];
        if (one->arm != arm || one->verdict != AT_CODE_TIED || one->against != champion) {
            continue;
        }
        const double variance = usual * usual, noise = one->spread * one->spread;
        const double known = variance / (variance + noise);
        const double guess = known * (one->log_time - lineage->program[champion].log_time) +
                             sqrt(known * noise) * at_random_normal(random);
        const int base = but >= 0 ? at_lineage_base(lineage, i, but) : -1;
        const bool may = but < 0 || (base != i && base != but && !were_crossed(lineage, i, but));
        best = may && guess < least ? i : best;
        least = best == i ? guess : least;
    }
    return best;
}

/* Two lineages together: the champion and another branch, or two that tied with the champion, each in its own way;
 * other -1: there are none that were not crossed. */
static at_next next_cross(const at_lineage *lineage, at_code_arm arm, at_random *random)
{
    const int champion = lineage->champion[arm];
    const int mate = draw(lineage, arm, is_mate, random);
    const int peer = mate >= 0 ? -1 : draw_peer(lineage, arm, -1, random);
    const int other = peer >= 0 ? draw_peer(lineage, arm, peer, random) : mate;
    return (at_next){AT_CODE_CROSS, peer >= 0 ? peer : champion, other};
}

static at_next next_of_engine(const at_lineage *lineage, at_random *random)
{
    enum { CHAMPION = 50, PEER = 75, ELITE = 90 };
    const at_code_arm arm = AT_ARM_ENGINE;
    const int champion = lineage->champion[arm];
    const bool stagnates = lineage->since[arm] >= STAGNATION;
    if (stagnates && lineage->since[arm] % 2 == 0) {
        const at_next next = next_cross(lineage, arm, random);
        if (next.other >= 0) {
            return next;
        }
    }
    const uint64_t chance = at_random_below(random, 100);
    int other = chance < CHAMPION || (stagnates && chance >= PEER) ? -1
                : chance < PEER                                    ? draw_peer(lineage, arm, -1, random)
                : chance < ELITE                                   ? draw(lineage, arm, is_other_elite, random)
                                                                   : draw(lineage, arm, is_loser_with_an_idea, random);
    return (at_next){stagnates ? AT_CODE_NEW : AT_CODE_IMPROVE, other >= 0 ? other : champion, -1};
}

at_next at_lineage_next(const at_lineage *lineage, at_code_arm arm, bool repairs, at_random *random)
{
    const at_program *last = lineage->last[arm] >= 0 ? &lineage->program[lineage->last[arm]] : NULL;
    if (arm == AT_ARM_SAMPLES) {
        return (at_next){AT_CODE_IMPROVE, 0, -1};
    }
    const bool broken = last != NULL && (last->verdict == AT_CODE_REFUSED || last->verdict == AT_CODE_DENIED);
    const bool alarmed = last != NULL && last->verdict == AT_CODE_ALARM;
    if (((repairs && broken) || alarmed) && last->repairs < REPAIRS_MAX) {
        return (at_next){AT_CODE_REPAIR, last->id, -1};
    }
    if (arm == AT_ARM_REFINEMENT) {
        int parent = lineage->champion[arm];
        for (int i = lineage->count - 1; i > 0; --i) {
            const at_program *one = &lineage->program[i];
            if (one->arm == arm && at_program_runs(one)) {
                parent = i;
                break;
            }
        }
        return (at_next){AT_CODE_IMPROVE, parent, -1};
    }
    return next_of_engine(lineage, random);
}

/* ---- What became of changes -------------------------------------------------------------------------------------- */

const at_program *at_lineage_before(const at_lineage *lineage, int id)
{
    int parent = lineage->program[id].parent;
    while (parent > 0 && !at_program_runs(&lineage->program[parent])) {
        parent = lineage->program[parent].parent;
    }
    return &lineage->program[parent];
}

/* The next word of tags; "" where there is none. */
static void take_word(const char **tags, char *word, size_t bytes)
{
    *tags += strspn(*tags, " ");
    const size_t length = strcspn(*tags, " ");
    (void)snprintf(word, bytes, "%.*s", (int)(length < bytes ? length : bytes - 1), *tags);
    *tags += length;
}

/* Who was far slower was not timed to the end. */
static void weigh_outcome(const at_lineage *lineage, const at_program *one, at_trial *trial)
{
    const at_program *parent = at_lineage_before(lineage, one->id);
    const double best = lineage->program[lineage->champion[one->arm]].log_time;
    const double before = exp(parent->log_time - best), after = exp(one->log_time - best);
    const double other = parent->id == one->against ? 0 : parent->spread * before;
    trial->timed = at_program_runs(one);
    if (one->against >= 0) {
        trial->saved = before - after;
        trial->spread = hypot(one->spread * after, other);
    } else if (trial->timed) {
        trial->saved = -before;
    }
}

/* A change that gave precision away is judged when that was had back. */
static bool is_judged(const at_program *one)
{
    return one->tags[0] != '\0' && one->verdict != AT_CODE_ALARM && one->verdict != AT_CODE_VOID &&
           one->verdict != AT_CODE_NONE;
}

attune_status at_lineage_trials(const at_lineage *lineage, at_code_arm arm, at_trial **trials, int *count)
{
    enum { CHANGES_MAX = 4 };
    at_trial *list = calloc((size_t)lineage->count * CHANGES_MAX + 1, sizeof *list);
    AT_FAIL_IF(list == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for what was tried");
    int all = 0;
    for (int i = 1; i < lineage->count; ++i) {
        const at_program *one = &lineage->program[i];
        const char *tags = one->tags;
        const int first = all;
        while (one->arm == arm && is_judged(one) && all - first < CHANGES_MAX && *tags != '\0') {
            at_trial *trial = &list[all++];
            take_word(&tags, trial->rule, sizeof trial->rule);
            take_word(&tags, trial->place, sizeof trial->place);
            weigh_outcome(lineage, one, trial);
        }
        for (int k = first; k < all; ++k) {
            list[k].share = 1.0 / (all - first);
        }
    }
    *trials = list;
    *count = all;
    return ATTUNE_OK;
}
