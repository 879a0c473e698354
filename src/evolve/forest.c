#include "evolve/forest.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"

/* A node sends rows with x[column] <= threshold to the next node, the others to `right`; a leaf has column -1. */
typedef struct node {
    int column;
    int right;
    double threshold;
    double mean, spread; /* of a leaf: of its rows' y, the spread as a variance */
} node;

struct at_forest {
    int trees;
    int *root; /* [trees] */
    node *nodes;
    int count;
};

/* What growing works on: one tree's rows, drawn by chance, in an order that nodes partition. */
typedef struct bed {
    const double *x, *y;
    int columns, leaf;
    int *row;
    at_random random;
    at_forest *forest;
} bed;

/* ---- Splits ------------------------------------------------------------------------------------------------------ */

typedef struct split {
    int column; /* -1: none */
    double threshold;
    double error; /* the sum of both sides' squared distances from their means */
} split;

typedef struct moments {
    double count, sum, squares;
} moments;

static void add(moments *of, double y)
{
    of->count += 1;
    of->sum += y;
    of->squares += y * y;
}

static double error_of(const moments *of)
{
    return of->count > 0 ? fmax(0, of->squares - of->sum * of->sum / of->count) : 0;
}

/* A threshold by chance between the smallest and the largest value; false where they are equal. */
static bool draw_threshold(bed *in, const int *rows, int count, int column, double *threshold)
{
    double low = HUGE_VAL;
    double high = -HUGE_VAL;
    for (int i = 0; i < count; ++i) {
        double value = in->x[(size_t)rows[i] * (size_t)in->columns + (size_t)column];
        low = fmin(low, value);
        high = fmax(high, value);
    }
    *threshold = low + (high - low) * at_random_uniform(&in->random);
    return low < high && *threshold < high;
}

static void judge_split(const bed *in, const int *rows, int count, split *one)
{
    moments left = {0};
    moments right = {0};
    for (int i = 0; i < count; ++i) {
        double value = in->x[(size_t)rows[i] * (size_t)in->columns + (size_t)one->column];
        add(value <= one->threshold ? &left : &right, in->y[rows[i]]);
    }
    bool small = left.count < in->leaf || right.count < in->leaf;
    one->error = small ? HUGE_VAL : error_of(&left) + error_of(&right);
}

/* The best of one threshold for each column. */
static split find_split(bed *in, const int *rows, int count)
{
    split best = {.column = -1, .error = HUGE_VAL};
    for (int column = 0; column < in->columns; ++column) {
        split one = {.column = column};
        if (draw_threshold(in, rows, count, column, &one.threshold)) {
            judge_split(in, rows, count, &one);
            best = one.error < best.error ? one : best;
        }
    }
    return best;
}

/* ---- Trees ------------------------------------------------------------------------------------------------------- */

static int partition(const bed *in, int *rows, int count, const split *by)
{
    int left = 0;
    for (int i = 0; i < count; ++i) {
        int row = rows[i];
        if (in->x[(size_t)row * (size_t)in->columns + (size_t)by->column] <= by->threshold) {
            rows[i] = rows[left];
            rows[left++] = row;
        }
    }
    return left;
}

static int new_node(bed *in, const int *rows, int count)
{
    moments all = {0};
    for (int i = 0; i < count; ++i) {
        add(&all, in->y[rows[i]]);
    }
    int at = in->forest->count++;
    in->forest->nodes[at] = (node){.column = -1, .mean = all.sum / all.count, .spread = error_of(&all) / all.count};
    return at;
}

/* A range of a tree's rows that becomes a node, and the node whose right side it is; -1: of none. */
typedef struct branch {
    int begin, count, parent;
} branch;

/* Left sides are grown at once, right ones wait: so a left child is its parent's next node. */
static void grow_tree(bed *in, int rows, branch *waiting)
{
    int waits = 0;
    waiting[waits++] = (branch){0, rows, -1};
    while (waits > 0) {
        branch here = waiting[--waits];
        int *of = in->row + here.begin;
        int at = new_node(in, of, here.count);
        if (here.parent >= 0) {
            in->forest->nodes[here.parent].right = at;
        }
        split by = {.column = -1};
        if (here.count >= 2 * in->leaf && in->forest->nodes[at].spread > 0) {
            by = find_split(in, of, here.count);
        }
        if (by.column >= 0) {
            int left = partition(in, of, here.count, &by);
            in->forest->nodes[at].column = by.column;
            in->forest->nodes[at].threshold = by.threshold;
            waiting[waits++] = (branch){here.begin + left, here.count - left, at};
            waiting[waits++] = (branch){here.begin, left, -1};
        }
    }
}

static void grow_all(bed *in, int rows, branch *waiting)
{
    at_forest *forest = in->forest;
    for (int tree = 0; tree < forest->trees; ++tree) {
        for (int i = 0; i < rows; ++i) {
            in->row[i] = (int)at_random_below(&in->random, (uint64_t)rows);
        }
        forest->root[tree] = forest->count;
        grow_tree(in, rows, waiting);
    }
}

attune_status at_forest_grow(const double *x, const double *y, int rows, int columns, const at_forest_options *options,
                             at_forest **forest)
{
    *forest = NULL;
    AT_FAIL_IF(rows < 1 || columns < 1 || columns > AT_FOREST_COLUMNS_MAX || options->trees < 1 || options->leaf < 1,
               ATTUNE_INVALID_ARGUMENT,
               "forest: %d rows, %d columns, %d trees, %d rows a leaf: at least 1, columns up to %d", rows, columns,
               options->trees, options->leaf, AT_FOREST_COLUMNS_MAX);
    /* A binary tree over n leaves has 2 n - 1 nodes. */
    size_t nodes = (size_t)options->trees * 2 * (size_t)rows;
    at_forest *made = calloc(1, sizeof *made);
    int *row = malloc((size_t)rows * sizeof *row);
    branch *waiting = malloc(((size_t)rows + 2) * sizeof *waiting);
    if (made != NULL) {
        made->trees = options->trees;
        made->root = malloc((size_t)options->trees * sizeof *made->root);
        made->nodes = malloc(nodes * sizeof *made->nodes);
    }
    bool well = made != NULL && row != NULL && waiting != NULL && made->root != NULL && made->nodes != NULL;
    if (well) {
        bed in = {x, y, columns, options->leaf, row, at_random_seed(options->seed, 0), made};
        grow_all(&in, rows, waiting);
        *forest = made;
    } else {
        at_forest_destroy(made);
    }
    free(row);
    free(waiting);
    return well ? ATTUNE_OK : at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a forest of %d trees", options->trees);
}

void at_forest_destroy(at_forest *forest)
{
    if (forest != NULL) {
        free(forest->root);
        free(forest->nodes);
        free(forest);
    }
}

/* ---- Answers ----------------------------------------------------------------------------------------------------- */

static const node *descend(const at_forest *forest, int tree, const double *x)
{
    const node *at = &forest->nodes[forest->root[tree]];
    while (at->column >= 0) {
        at = x[at->column] <= at->threshold ? at + 1 : &forest->nodes[at->right];
    }
    return at;
}

double at_forest_ask(const at_forest *forest, const double *x, double *deviation)
{
    moments of = {0};
    double spread = 0;
    for (int tree = 0; tree < forest->trees; ++tree) {
        const node *leaf = descend(forest, tree, x);
        add(&of, leaf->mean);
        spread += leaf->spread;
    }
    if (deviation != NULL) {
        *deviation = sqrt((error_of(&of) + spread) / of.count);
    }
    return of.sum / of.count;
}
