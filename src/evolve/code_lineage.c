#include "evolve/code_lineage.h"

#include <stdlib.h>
#include <string.h>

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
    *added = (at_program){.id = lineage->count, .parent = parent, .arm = arm, .kind = kind, .verdict = AT_CODE_NONE};
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

static bool is_other_elite(const at_lineage *lineage, at_code_arm arm, int id)
{
    const at_program *one = &lineage->program[id];
    return id != lineage->champion[arm] && at_lineage_elite(lineage, arm, one->binds) == id;
}

/* Slower, by a way that nobody else went. */
static bool is_loser_with_an_idea(const at_lineage *lineage, at_code_arm arm, int id)
{
    const at_program *one = &lineage->program[id];
    bool is = is_of(one, arm) && one->verdict == AT_CODE_SLOWER && one->idea[0] != '\0';
    for (int i = 0; i < lineage->count && is; ++i) {
        is = i == id || strcmp(lineage->program[i].idea, one->idea) != 0;
    }
    return is;
}

/* Someone to cross the champion with: of another branch, and faster than what both came from. */
static bool is_mate(const at_lineage *lineage, at_code_arm arm, int id)
{
    const at_program *one = &lineage->program[id];
    const int champion = lineage->champion[arm];
    if (!is_of(one, arm) || !at_program_runs(one)) {
        return false;
    }
    const int base = at_lineage_base(lineage, id, champion);
    return base != id && base != champion && one->log_time < lineage->program[base].log_time;
}

static at_next next_of_engine(const at_lineage *lineage, at_random *random)
{
    const at_code_arm arm = AT_ARM_ENGINE;
    const int champion = lineage->champion[arm];
    const uint64_t chance = at_random_below(random, 100);
    if (lineage->since[arm] >= STAGNATION) {
        int mate = lineage->since[arm] % 2 == 0 ? draw(lineage, arm, is_mate, random) : -1;
        return (at_next){mate >= 0 ? AT_CODE_CROSS : AT_CODE_NEW, champion, mate};
    }
    int other = chance < 60   ? -1
                : chance < 85 ? draw(lineage, arm, is_other_elite, random)
                              : draw(lineage, arm, is_loser_with_an_idea, random);
    return (at_next){AT_CODE_IMPROVE, other >= 0 ? other : champion, -1};
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
