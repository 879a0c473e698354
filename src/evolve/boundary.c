#include "evolve/boundary.h"

#include <stdlib.h>

#include "base/status.h"
#include "evolve/forest.h"

enum { UNKNOWN = -1, RAN = 0, REFUSED = 1 };

struct at_boundary {
    const at_space *space;
    uint64_t seed;
    signed char *known; /* [space->count] */
    int count, refused; /* known ones */
    bool grown;         /* the forest holds all that is known */
    at_forest *forest;
    double *x, *y; /* rows for growing: [space->count][param_count] */
};

attune_status at_boundary_create(const at_space *space, uint64_t seed, at_boundary **boundary)
{
    size_t count = (size_t)space->count;
    size_t columns = (size_t)(space->param_count > 0 ? space->param_count : 1);
    at_boundary *made = calloc(1, sizeof *made);
    *boundary = made;
    if (made != NULL) {
        made->space = space;
        made->seed = seed;
        made->known = malloc(count);
        made->x = calloc(count * columns, sizeof *made->x);
        made->y = malloc(count * sizeof *made->y);
    }
    if (made == NULL || made->known == NULL || made->x == NULL || made->y == NULL) {
        at_boundary_destroy(made);
        *boundary = NULL;
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for the boundaries of %d configs", space->count);
    }
    for (size_t i = 0; i < count; ++i) {
        made->known[i] = UNKNOWN;
    }
    return ATTUNE_OK;
}

void at_boundary_destroy(at_boundary *boundary)
{
    if (boundary != NULL) {
        at_forest_destroy(boundary->forest);
        free(boundary->known);
        free(boundary->x);
        free(boundary->y);
        free(boundary);
    }
}

void at_boundary_learn(at_boundary *boundary, int candidate, bool refused)
{
    signed char before = boundary->known[candidate];
    boundary->count += before == UNKNOWN;
    boundary->refused += (int)refused - (before == REFUSED);
    boundary->known[candidate] = refused ? REFUSED : RAN;
    boundary->grown = false;
}

static void features(const at_space *space, int candidate, double *x)
{
    for (int p = 0; p < space->param_count; ++p) {
        x[p] = at_space_feature(space, candidate, p);
    }
}

/* Leaves the old forest where there is no memory for a new one: it only knows less. */
static void grow(at_boundary *boundary)
{
    const at_space *space = boundary->space;
    int rows = 0;
    for (int candidate = 0; candidate < space->count; ++candidate) {
        if (boundary->known[candidate] != UNKNOWN) {
            features(space, candidate, boundary->x + (size_t)rows * (size_t)space->param_count);
            boundary->y[rows++] = boundary->known[candidate];
        }
    }
    at_forest_options options = {.trees = 24, .leaf = 1, .seed = boundary->seed};
    at_forest *forest;
    if (at_forest_grow(boundary->x, boundary->y, rows, space->param_count, &options, &forest) == ATTUNE_OK) {
        at_forest_destroy(boundary->forest);
        boundary->forest = forest;
    }
    boundary->grown = true;
}

double at_boundary_chance(at_boundary *boundary, int candidate)
{
    if (boundary->known[candidate] != UNKNOWN) {
        return boundary->known[candidate];
    }
    if (boundary->refused == 0) {
        return 0;
    }
    double share = (double)boundary->refused / boundary->count;
    if (!boundary->grown && boundary->space->param_count > 0) {
        grow(boundary);
    }
    if (boundary->forest == NULL) {
        return share;
    }
    double x[ATTUNE_PARAMS_MAX];
    features(boundary->space, candidate, x);
    /* As if four had been seen beside the forest's rows, refused as often as all were. */
    double weight = 4.0 / (4.0 + boundary->count);
    return weight * share + (1 - weight) * at_forest_ask(boundary->forest, x, NULL);
}
