#include "evolve/importance.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "evolve/forest.h"

enum { TREES = 60, SHUFFLES = 5 };

/* The candidates that ran. */
typedef struct sample {
    int rows, columns;
    double *x, *y; /* [rows][columns], [rows] */
    double *moved; /* [columns], a row with one value from another */
    double variance;
} sample;

static void fill(const at_recorded *recorded, sample *of)
{
    const at_space *space = recorded->space;
    const double log_two = 0.6931471805599453;
    double most = recorded->record[recorded->best].middle + log_two;
    double sum = 0, squares = 0;
    for (int candidate = 0; candidate < space->count; ++candidate) {
        const at_record *record = &recorded->record[candidate];
        if (record->pairs == 0 || record->refused != AT_RAN) {
            continue;
        }
        for (int p = 0; p < space->param_count; ++p) {
            of->x[of->rows * of->columns + p] = at_space_feature(space, candidate, p);
        }
        double y = fmin(record->middle, most) - recorded->record[recorded->best].middle;
        of->y[of->rows++] = y;
        sum += y;
        squares += y * y;
    }
    of->variance = fmax(0, squares / of->rows - sum / of->rows * (sum / of->rows));
}

/* The mean square of what the forest is wrong by where one column's values come from rows drawn by chance; column -1:
 * from their own. */
static double error_of(const sample *of, const at_forest *forest, int column, at_random *random)
{
    double error = 0;
    for (int row = 0; row < of->rows; ++row) {
        int other = column < 0 ? row : (int)at_random_below(random, (uint64_t)of->rows);
        for (int c = 0; c < of->columns; ++c) {
            of->moved[c] = of->x[(c == column ? other : row) * of->columns + c];
        }
        double wrong = at_forest_ask(forest, of->moved, NULL) - of->y[row];
        error += wrong * wrong / of->rows;
    }
    return error;
}

static attune_status measure(const sample *of, uint64_t seed, double importance[ATTUNE_PARAMS_MAX])
{
    at_forest_options options = {.trees = TREES, .leaf = 2, .seed = seed};
    at_random random = at_random_seed(seed, 3);
    at_forest *forest;
    AT_FORWARD(at_forest_grow(of->x, of->y, of->rows, of->columns, &options, &forest));
    double own = error_of(of, forest, -1, &random);
    for (int column = 0; column < of->columns; ++column) {
        double more = 0;
        for (int i = 0; i < SHUFFLES; ++i) {
            more += (error_of(of, forest, column, &random) - own) / SHUFFLES;
        }
        /* Drawing y's partner anew doubles the variance that it explains. */
        importance[column] = of->variance > 0 ? fmax(0, more / (2 * of->variance)) : 0;
    }
    at_forest_destroy(forest);
    return ATTUNE_OK;
}

attune_status at_importance(const at_recorded *recorded, uint64_t seed, double importance[ATTUNE_PARAMS_MAX])
{
    AT_FAIL_IF(recorded->ran < AT_IMPORTANCE_LEAST, ATTUNE_UNSUPPORTED,
               "%d candidates ran: what matters is reported from %d on", recorded->ran, AT_IMPORTANCE_LEAST);
    int columns = recorded->space->param_count;
    AT_FAIL_IF(columns == 0, ATTUNE_UNSUPPORTED, "kernel %s has no parameters", recorded->space->kernel);
    size_t rows = (size_t)recorded->ran;
    sample of = {.columns = columns,
                 .x = malloc(rows * (size_t)columns * sizeof(double)),
                 .y = malloc(rows * sizeof(double)),
                 .moved = malloc((size_t)columns * sizeof(double))};
    attune_status status = at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for %d candidates", recorded->ran);
    if (of.x != NULL && of.y != NULL && of.moved != NULL) {
        fill(recorded, &of);
        status = measure(&of, seed, importance);
    }
    free(of.x);
    free(of.y);
    free(of.moved);
    return status;
}
