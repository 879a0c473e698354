#include "library/wisdom.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/target.h"

enum { FIRST_ROOM = 16, FIELD_MAX = 512, VERDICT_DIGITS = 64 };

/* Rows of one class form a chain, and rows of one (class, target, kind) another, so that neither adding nor finding
 * looks at every row. Links are indexes into `node`, or -1. */
typedef struct wisdom_node {
    at_wisdom_row row; /* first, so that a row that was given out leads back to its node */
    uint64_t age;      /* grows with every insertion */
    int64_t next_class, next_exact;
} wisdom_node;

struct at_wisdom {
    wisdom_node *node;
    int64_t count, room;
    int64_t *head_class, *head_exact; /* `room` buckets each */
    uint64_t age;
};

attune_status at_wisdom_create(at_wisdom **wisdom)
{
    *wisdom = calloc(1, sizeof **wisdom);
    AT_FAIL_IF(*wisdom == NULL, ATTUNE_OUT_OF_MEMORY, "wisdom: no memory for %zu bytes", sizeof **wisdom);
    return ATTUNE_OK;
}

static void row_free(at_wisdom_row *row)
{
    free(row->class_text);
    free(row->target_text);
    free(row->kernel_text);
    free(row->verdict);
    memset(row, 0, sizeof *row);
}

void at_wisdom_destroy(at_wisdom *wisdom)
{
    if (wisdom == NULL) {
        return;
    }
    for (int64_t i = 0; i < wisdom->count; ++i) {
        row_free(&wisdom->node[i].row);
    }
    free(wisdom->node);
    free(wisdom->head_class);
    free(wisdom->head_exact);
    free(wisdom);
}

/* FNV-1a, continued from `hash`. The terminating zero counts, so that ("a", "bc") differs from ("ab", "c"). */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    } while (*text++ != '\0');
    return hash;
}

static uint64_t hash_class(const at_wisdom_row *row)
{
    return hash_text(0xcbf29ce484222325u, row->class_text);
}

static uint64_t hash_exact(const at_wisdom_row *row)
{
    return hash_text(hash_class(row) + (uint64_t)row->kind, row->target_text);
}

/* `room` is a power of two. The middle bits: the low ones of FNV-1a are its weakest. */
static int64_t bucket_of(const at_wisdom *wisdom, uint64_t hash)
{
    return (int64_t)((hash ^ hash >> 32) & (uint64_t)(wisdom->room - 1));
}

static void link_node(at_wisdom *wisdom, int64_t index)
{
    wisdom_node *node = &wisdom->node[index];
    int64_t *by_class = &wisdom->head_class[bucket_of(wisdom, hash_class(&node->row))];
    int64_t *by_exact = &wisdom->head_exact[bucket_of(wisdom, hash_exact(&node->row))];
    node->next_class = *by_class;
    node->next_exact = *by_exact;
    *by_class = index;
    *by_exact = index;
}

static attune_status grow(at_wisdom *wisdom)
{
    int64_t room = wisdom->room == 0 ? FIRST_ROOM : 2 * wisdom->room;
    wisdom_node *node = malloc((size_t)room * sizeof *node);
    int64_t *by_class = malloc((size_t)room * sizeof *by_class);
    int64_t *by_exact = malloc((size_t)room * sizeof *by_exact);
    if (node == NULL || by_class == NULL || by_exact == NULL) {
        free(node);
        free(by_class);
        free(by_exact);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "wisdom: no memory for %lld rows", (long long)room);
    }
    if (wisdom->count > 0) {
        memcpy(node, wisdom->node, (size_t)wisdom->count * sizeof *node);
    }
    free(wisdom->node);
    free(wisdom->head_class);
    free(wisdom->head_exact);
    wisdom->node = node;
    wisdom->head_class = by_class;
    wisdom->head_exact = by_exact;
    wisdom->room = room;
    memset(by_class, 0xff, (size_t)room * sizeof *by_class);
    memset(by_exact, 0xff, (size_t)room * sizeof *by_exact);
    for (int64_t i = 0; i < wisdom->count; ++i) {
        link_node(wisdom, i);
    }
    return ATTUNE_OK;
}

/* Fields are in a line between blanks, so they are printable and have none. */
static attune_status check_field(const char *name, const char *text)
{
    AT_FAIL_IF(text == NULL || *text == '\0', ATTUNE_INVALID_ARGUMENT, "wisdom row: %s is missing", name);
    size_t length = strnlen(text, FIELD_MAX);
    AT_FAIL_IF(length >= FIELD_MAX, ATTUNE_INVALID_ARGUMENT, "wisdom row: %s is longer than %d characters", name,
               FIELD_MAX - 1);
    for (size_t i = 0; i < length; ++i) {
        AT_FAIL_IF(text[i] <= ' ' || text[i] > '~', ATTUNE_INVALID_ARGUMENT,
                   "wisdom row: %s has a character of code %d at place %zu; only visible ASCII is allowed", name,
                   (unsigned char)text[i], i);
    }
    return ATTUNE_OK;
}

static attune_status check_verdict(const at_wisdom_row *row)
{
    if (row->kind == AT_MEASURED) {
        AT_FAIL_IF(row->verdict != NULL, ATTUNE_INVALID_ARGUMENT, "wisdom row: a measured row has no verdict");
        return ATTUNE_OK;
    }
    AT_FAIL_IF(row->kind != AT_PROVEN, ATTUNE_INVALID_ARGUMENT, "wisdom row: kind %d is neither 0 nor 1",
               (int)row->kind);
    AT_FORWARD(check_field("verdict", row->verdict));
    AT_FAIL_IF(strlen(row->verdict) != VERDICT_DIGITS || strspn(row->verdict, "0123456789abcdef") != VERDICT_DIGITS,
               ATTUNE_INVALID_ARGUMENT, "wisdom row: verdict \"%s\" is not a digest of %d lower-case hex digits",
               row->verdict, VERDICT_DIGITS);
    return ATTUNE_OK;
}

static attune_status row_copy(const at_wisdom_row *from, at_wisdom_row *to)
{
    to->kind = from->kind;
    to->class_text = strdup(from->class_text);
    to->target_text = strdup(from->target_text);
    to->kernel_text = strdup(from->kernel_text);
    to->verdict = from->verdict == NULL ? NULL : strdup(from->verdict);
    if (to->class_text == NULL || to->target_text == NULL || to->kernel_text == NULL ||
        (from->verdict != NULL && to->verdict == NULL)) {
        row_free(to);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "wisdom: no memory for a row");
    }
    return ATTUNE_OK;
}

/* The node of the same class, target and kind, or NULL. */
static wisdom_node *find_same(const at_wisdom *wisdom, const at_wisdom_row *row)
{
    if (wisdom->room == 0) {
        return NULL;
    }
    int64_t at = wisdom->head_exact[bucket_of(wisdom, hash_exact(row))];
    for (; at >= 0; at = wisdom->node[at].next_exact) {
        const at_wisdom_row *have = &wisdom->node[at].row;
        if (have->kind == row->kind && strcmp(have->class_text, row->class_text) == 0 &&
            strcmp(have->target_text, row->target_text) == 0) {
            return &wisdom->node[at];
        }
    }
    return NULL;
}

attune_status at_wisdom_add(at_wisdom *wisdom, const at_wisdom_row *row)
{
    at_wisdom_row copy;
    AT_FORWARD(check_field("class", row->class_text));
    AT_FORWARD(check_field("target", row->target_text));
    AT_FORWARD(check_field("kernel", row->kernel_text));
    AT_FORWARD(check_verdict(row));
    AT_FORWARD(row_copy(row, &copy));
    wisdom_node *same = find_same(wisdom, &copy);
    if (same != NULL) {
        row_free(&same->row);
        same->row = copy;
        same->age = wisdom->age++;
        return ATTUNE_OK;
    }
    if (wisdom->count == wisdom->room && grow(wisdom) != ATTUNE_OK) {
        row_free(&copy);
        return ATTUNE_OUT_OF_MEMORY;
    }
    wisdom->node[wisdom->count] = (wisdom_node){.row = copy, .age = wisdom->age++};
    link_node(wisdom, wisdom->count++);
    return ATTUNE_OK;
}

size_t at_wisdom_count(const at_wisdom *wisdom)
{
    return (size_t)wisdom->count;
}

const at_wisdom_row *at_wisdom_at(const at_wisdom *wisdom, size_t index)
{
    return index < (size_t)wisdom->count ? &wisdom->node[index].row : NULL;
}

int at_wisdom_rank(const at_wisdom_row *row, const char *target_text)
{
    int proven = row->kind == AT_PROVEN;
    if (strcmp(row->target_text, target_text) == 0) {
        return 3 + proven;
    }
    return at_target_alike(row->target_text, target_text) ? 1 + proven : 0;
}

/* Whether a row of this rank and age comes before the other; no other (NULL) comes last. */
static bool is_before(const wisdom_node *node, int rank, const wisdom_node *other, int other_rank)
{
    return other == NULL || rank > other_rank || (rank == other_rank && node->age > other->age);
}

const at_wisdom_row *at_wisdom_find(const at_wisdom *wisdom, const char *class_text, const char *target_text,
                                    const at_wisdom_row *after)
{
    if (wisdom->room == 0) {
        return NULL;
    }
    const wisdom_node *bound = (const wisdom_node *)after;
    const wisdom_node *best = NULL;
    int bound_rank = after == NULL ? 0 : at_wisdom_rank(after, target_text);
    int best_rank = 0;
    int64_t at = wisdom->head_class[bucket_of(wisdom, hash_text(0xcbf29ce484222325u, class_text))];
    for (; at >= 0; at = wisdom->node[at].next_class) {
        const wisdom_node *node = &wisdom->node[at];
        int rank = strcmp(node->row.class_text, class_text) == 0 ? at_wisdom_rank(&node->row, target_text) : 0;
        bool passed = bound != NULL && (node == bound || is_before(node, rank, bound, bound_rank));
        if (rank > 0 && !passed && is_before(node, rank, best, best_rank)) {
            best = node;
            best_rank = rank;
        }
    }
    return best == NULL ? NULL : &best->row;
}

const at_wisdom_row *at_wisdom_of_relative(const at_wisdom *wisdom, const char *class_text, const char *target_text)
{
    const wisdom_node *best = NULL;
    int best_distance = -1;
    int64_t at =
        wisdom->room == 0 ? -1 : wisdom->head_class[bucket_of(wisdom, hash_text(0xcbf29ce484222325u, class_text))];
    for (; at >= 0; at = wisdom->node[at].next_class) {
        const wisdom_node *node = &wisdom->node[at];
        const int distance = at_target_distance(target_text, node->row.target_text);
        if (distance < 0 || node->row.kind != AT_PROVEN || strcmp(node->row.class_text, class_text) != 0) {
            continue;
        }
        if (best == NULL || distance < best_distance || (distance == best_distance && node->age > best->age)) {
            best = node;
            best_distance = distance;
        }
    }
    return best == NULL ? NULL : &best->row;
}

static int older_first(const void *a, const void *b)
{
    const wisdom_node *const *left = a;
    const wisdom_node *const *right = b;
    return ((*left)->age > (*right)->age) - ((*left)->age < (*right)->age);
}

attune_status at_wisdom_order(const at_wisdom *wisdom, const at_wisdom_row ***rows)
{
    size_t count = (size_t)wisdom->count;
    const wisdom_node **order = calloc(count + 1, sizeof *order);
    const at_wisdom_row **list = calloc(count + 1, sizeof *list);
    if (order == NULL || list == NULL) {
        free(order);
        free(list);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "wisdom: no memory to sort %zu rows", count);
    }
    for (size_t i = 0; i < count; ++i) {
        order[i] = &wisdom->node[i];
    }
    qsort(order, count, sizeof *order, older_first);
    for (size_t i = 0; i < count; ++i) {
        list[i] = &order[i]->row;
    }
    free(order);
    *rows = list;
    return ATTUNE_OK;
}

attune_status at_wisdom_merge(at_wisdom *wisdom, const at_wisdom *from)
{
    const at_wisdom_row **rows;
    attune_status status = at_wisdom_order(from, &rows);
    if (status != ATTUNE_OK) {
        return status;
    }
    for (size_t i = 0; rows[i] != NULL && status == ATTUNE_OK; ++i) {
        status = at_wisdom_add(wisdom, rows[i]);
    }
    free(rows);
    return status;
}
