#include "evolve/micro.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"

#define HEAD "attune-micro 1"

enum { FILE_MAX = 1 << 20, LINE_MAX_BYTES = 8192, LAUNCHES = 3 };

/* ---- The file ---------------------------------------------------------------------------------------------------- */

static void print_key(const at_micro_key *key, char text[1024])
{
    (void)snprintf(text, 1024, "%s %s %s %s ", key->kernel, key->class_text, key->target, key->source);
}

static void read_configs(const char *at, const char *end, at_micro_best *best)
{
    while (at < end && best->count < AT_MICRO_BEST) {
        size_t length = strcspn(at, " \n");
        if (length > 0 && length < AT_KERNEL_TEXT_MAX) {
            memcpy(best->config[best->count], at, length);
            best->config[best->count++][length] = '\0';
        }
        at += length + 1;
    }
}

void at_micro_find(const char *text, const at_micro_key *key, at_micro_best *best)
{
    char start[1024];
    print_key(key, start);
    *best = (at_micro_best){0};
    for (const char *line = text; *line != '\0';) {
        const char *end = line + strcspn(line, "\n");
        if (strncmp(line, start, strlen(start)) == 0) {
            read_configs(line + strlen(start), end, best);
            return;
        }
        line = *end == '\0' ? end : end + 1;
    }
}

/* The file's text, "" where there is none; for the caller to free. */
static attune_status read_text(const char *path, char **text)
{
    void *data = NULL;
    size_t bytes = 0;
    attune_status status = at_file_read(path, FILE_MAX, &data, &bytes);
    if (status == ATTUNE_NOT_FOUND) {
        *text = calloc(1, 1);
        return *text != NULL ? ATTUNE_OK : at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a text");
    }
    AT_FORWARD(status);
    *text = data;
    if (strncmp(*text, HEAD "\n", strlen(HEAD) + 1) != 0) {
        free(data);
        return at_fail(ATTUNE_CORRUPT, "%s: its first line is not \"" HEAD "\"", path);
    }
    return ATTUNE_OK;
}

attune_status at_micro_read(const char *path, const at_micro_key *key, at_micro_best *best)
{
    char *text;
    AT_FORWARD(read_text(path, &text));
    at_micro_find(text, key, best);
    free(text);
    return ATTUNE_OK;
}

/* What is written last comes first; the oldest go where the file would become larger than is read. */
static void add_others(const char *from, const char *start, at_text *to)
{
    const char *line = from + strcspn(from, "\n");
    line += *line != '\0';
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        bool wanted = length > 0 && length < LINE_MAX_BYTES && strncmp(line, start, strlen(start)) != 0;
        if (wanted && to->length + length + 1 > FILE_MAX) {
            return;
        }
        if (wanted) {
            at_text_add_bytes(to, line, length);
            at_text_add(to, "\n");
        }
        line += length + (line[length] != '\0');
    }
}

static attune_status make_directory_of(const char *path)
{
    char *copy = strdup(path);
    AT_FAIL_IF(copy == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a path");
    char *slash = strrchr(copy, '/');
    attune_status status = ATTUNE_OK;
    if (slash != NULL && slash != copy) {
        *slash = '\0';
        status = at_directory_make(copy);
    }
    free(copy);
    return status;
}

attune_status at_micro_check(const char *path)
{
    char *text;
    AT_FORWARD(read_text(path, &text));
    free(text);
    AT_FORWARD(make_directory_of(path));
    return at_writer_check(path);
}

attune_status at_micro_write(const char *path, const at_micro_key *key, const at_micro_best *best)
{
    char start[1024];
    char *before;
    char *all = NULL;
    size_t bytes = 0;
    at_text text;
    AT_FORWARD(make_directory_of(path));
    AT_FORWARD(read_text(path, &before));
    print_key(key, start);
    at_text_init(&text);
    at_text_add(&text, HEAD "\n%s", start);
    for (int i = 0; i < best->count; ++i) {
        at_text_add(&text, "%s%s", i > 0 ? " " : "", best->config[i]);
    }
    at_text_add(&text, "\n");
    add_others(before, start, &text);
    free(before);
    AT_FORWARD(at_text_take(&text, "the micro-benchmark's file", &all, &bytes));
    attune_status status = at_file_write(path, all, bytes);
    free(all);
    return status;
}

/* ---- The slice --------------------------------------------------------------------------------------------------- */

/* Half of the largest of what may be halved; false where nothing may. */
static bool halve(attune_problem *problem)
{
    enum { LENGTH_LEAST = 128, KEYS_LEAST = 512 };
    int64_t group = problem->heads_kv > 0 ? problem->heads_q / problem->heads_kv : 1;
    if (problem->batch > 1) {
        problem->batch /= 2;
    } else if (problem->heads_kv > 1) {
        problem->heads_kv /= 2;
        problem->heads_q = problem->heads_kv * group;
    } else if (problem->seqlen_q > LENGTH_LEAST) {
        problem->seqlen_q /= 2;
    } else if (problem->seqlen_kv > KEYS_LEAST) {
        problem->seqlen_kv /= 2;
    } else {
        return false;
    }
    return true;
}

/* On a device a slice that does not fill it would prefer other tiles than the whole: it stays large. */
attune_problem at_micro_slice(const attune_problem *problem, attune_target_kind kind)
{
    static const double most_flops[] = {[ATTUNE_TARGET_CPU] = 4e7, [ATTUNE_TARGET_CUDA] = 5e10};
    attune_problem slice = *problem;
    while (attune_problem_flops(&slice) > most_flops[kind]) {
        attune_problem smaller = slice;
        if (!halve(&smaller) || attune_problem_check(&smaller) != ATTUNE_OK) {
            break;
        }
        slice = smaller;
    }
    return slice;
}

/* ---- Launching --------------------------------------------------------------------------------------------------- */

typedef struct place {
    int candidate;
    double us;
} place;

static int faster_first(const void *a, const void *b)
{
    double left = ((const place *)a)->us, right = ((const place *)b)->us;
    return (left > right) - (left < right);
}

/* The least of a few launches: what an interrupt makes longer is of no interest here, and a tie is none either. */
static attune_status launch(const at_machine *machine, int candidate, double *us)
{
    *us = HUGE_VAL;
    for (int i = 0; i < LAUNCHES; ++i) {
        at_first_run seen;
        AT_FORWARD(machine->racer.try(machine->racer.self, candidate, &seen));
        if (seen.refused != AT_RAN) {
            *us = HUGE_VAL;
            return ATTUNE_OK;
        }
        *us = seen.us < *us ? seen.us : *us;
    }
    return ATTUNE_OK;
}

/* The kernel's own order, then steps of about the golden section through the rest, which never cluster. */
static int choose(const at_space *space, int most, int *list)
{
    int count = 0;
    double at = 0;
    bool *in = calloc((size_t)space->count, sizeof *in);
    for (int i = 0; in != NULL && i < space->order_count && count < most; ++i) {
        list[count++] = space->order[i];
        in[space->order[i]] = true;
    }
    for (int i = 0; in != NULL && i < 4 * space->count && count < most; ++i) {
        at = fmod(at + 0.6180339887498949, 1);
        int candidate = most >= space->count ? i % space->count : (int)(at * space->count);
        if (!in[candidate]) {
            list[count++] = candidate;
            in[candidate] = true;
        }
    }
    free(in);
    return count;
}

static attune_status launch_all(const at_machine *machine, const int *list, int count, place *places)
{
    for (int i = 0; machine->prefetch != NULL && i < count; ++i) {
        AT_FORWARD(machine->prefetch(machine->self, list[i]));
    }
    for (int i = 0; i < count; ++i) {
        at_variant variant = {.refused = AT_RAN};
        places[i] = (place){list[i], HUGE_VAL};
        AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
        AT_FORWARD(machine->prefetch != NULL ? machine->build(machine->self, list[i], &variant) : ATTUNE_OK);
        AT_FORWARD(variant.refused == AT_RAN ? launch(machine, list[i], &places[i].us) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

attune_status at_micro_run(const at_space *space, const at_machine *machine, int most, at_micro_best *best)
{
    int *list = calloc((size_t)space->count + 1, sizeof *list);
    place *places = calloc((size_t)space->count + 1, sizeof *places);
    attune_status status = list == NULL || places == NULL
                               ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for %d candidates", space->count)
                               : ATTUNE_OK;
    int count = status == ATTUNE_OK ? choose(space, most < space->count ? most : space->count, list) : 0;
    status = status == ATTUNE_OK ? launch_all(machine, list, count, places) : status;
    *best = (at_micro_best){0};
    if (status == ATTUNE_OK) {
        qsort(places, (size_t)count, sizeof *places, faster_first);
        for (int i = 0; i < count && i < AT_MICRO_BEST && places[i].us < HUGE_VAL; ++i) {
            at_space_print(space, places[i].candidate, best->config[best->count++]);
        }
    }
    free(places);
    free(list);
    return status;
}
