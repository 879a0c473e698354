#include "cli/info_facts.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

typedef struct fact {
    char *subject, *name, *property, *value;
} fact;

struct at_facts {
    fact *fact;
    size_t count, room;
    attune_status status;
};

/* ---- Gathering ------------------------------------------------------------------------------------------------------
 */

attune_status at_facts_create(at_facts **facts)
{
    *facts = calloc(1, sizeof **facts);
    AT_FAIL_IF(*facts == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a list of facts");
    return ATTUNE_OK;
}

static void forget(const fact *one)
{
    free(one->subject);
    free(one->name);
    free(one->property);
    free(one->value);
}

void at_facts_destroy(at_facts *facts)
{
    if (facts == NULL) {
        return;
    }
    for (size_t i = 0; i < facts->count; ++i) {
        forget(&facts->fact[i]);
    }
    free(facts->fact);
    free(facts);
}

static bool grow(at_facts *facts)
{
    if (facts->count < facts->room) {
        return true;
    }
    size_t room = facts->room == 0 ? 64 : 2 * facts->room;
    fact *grown = realloc(facts->fact, room * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    facts->fact = grown;
    facts->room = room;
    return true;
}

void at_facts_add(at_facts *facts, const char *subject, const char *name, const char *property, const char *format, ...)
{
    char value[1024];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(value, sizeof value, format, list);
    va_end(list);
    fact one = {strdup(subject), strdup(name), strdup(property), strdup(value)};
    bool whole = one.subject != NULL && one.name != NULL && one.property != NULL && one.value != NULL;
    if (!whole || !grow(facts)) {
        facts->status = ATTUNE_OUT_OF_MEMORY;
        forget(&one);
        return;
    }
    facts->fact[facts->count++] = one;
}

/* ---- For programs ---------------------------------------------------------------------------------------------------
 */

static attune_status print_rows(const at_facts *facts, at_format format, FILE *out)
{
    static const at_column columns[] = {
        {"subject", AT_COLUMN_TEXT, NULL, 0},
        {"name", AT_COLUMN_TEXT, NULL, 0},
        {"property", AT_COLUMN_TEXT, NULL, 0},
        {"value", AT_COLUMN_TEXT, NULL, 0},
    };
    at_table *table;
    AT_FORWARD(at_table_create(columns, 4, &table));
    for (size_t i = 0; i < facts->count; ++i) {
        at_table_text(table, facts->fact[i].subject);
        at_table_text(table, facts->fact[i].name);
        at_table_text(table, facts->fact[i].property);
        at_table_text(table, facts->fact[i].value);
    }
    attune_status status = at_table_print(table, format, out);
    at_table_destroy(table);
    return status;
}

/* ---- For people -----------------------------------------------------------------------------------------------------
 */

enum { PROPERTIES_MAX = 32 };

/* The names or properties of a subject, each once, in the order in which they came. */
typedef struct distinct {
    const char **word;
    size_t count;
} distinct;

static void add_distinct(distinct *words, const char *word)
{
    for (size_t i = 0; i < words->count; ++i) {
        if (strcmp(words->word[i], word) == 0) {
            return;
        }
    }
    words->word[words->count++] = word;
}

static const char *find(const at_facts *facts, const char *subject, const char *name, const char *property)
{
    for (size_t i = 0; i < facts->count; ++i) {
        const fact *one = &facts->fact[i];
        if (strcmp(one->subject, subject) == 0 && strcmp(one->name, name) == 0 &&
            strcmp(one->property, property) == 0) {
            return one->value;
        }
    }
    return NULL;
}

static attune_status print_list(const at_facts *facts, const char *subject, const distinct *properties, FILE *out)
{
    const at_column columns[] = {{subject, AT_COLUMN_TEXT, NULL, 0}, {"", AT_COLUMN_TEXT, NULL, 0}};
    at_table *table;
    AT_FORWARD(at_table_create(columns, 2, &table));
    for (size_t i = 0; i < properties->count; ++i) {
        at_table_text(table, properties->word[i]);
        at_table_text(table, find(facts, subject, "", properties->word[i]));
    }
    attune_status status = at_table_print(table, AT_FORMAT_TEXT, out);
    at_table_destroy(table);
    return status;
}

static attune_status print_grid(const at_facts *facts, const char *subject, const distinct *names,
                                const distinct *properties, FILE *out)
{
    at_column columns[PROPERTIES_MAX + 1] = {{subject, AT_COLUMN_TEXT, NULL, 0}};
    size_t shown = properties->count < PROPERTIES_MAX ? properties->count : PROPERTIES_MAX;
    for (size_t i = 0; i < shown; ++i) {
        columns[i + 1] = (at_column){properties->word[i], AT_COLUMN_TEXT, NULL, 0};
    }
    at_table *table;
    AT_FORWARD(at_table_create(columns, (int)shown + 1, &table));
    for (size_t n = 0; n < names->count; ++n) {
        at_table_text(table, names->word[n]);
        for (size_t p = 0; p < shown; ++p) {
            at_table_text(table, find(facts, subject, names->word[n], properties->word[p]));
        }
    }
    attune_status status = at_table_print(table, AT_FORMAT_TEXT, out);
    at_table_destroy(table);
    return status;
}

static attune_status print_subject(const at_facts *facts, const char *subject, const char **words, FILE *out)
{
    distinct names = {words, 0}, properties = {words + facts->count, 0};
    for (size_t i = 0; i < facts->count; ++i) {
        if (strcmp(facts->fact[i].subject, subject) == 0) {
            add_distinct(&names, facts->fact[i].name);
            add_distinct(&properties, facts->fact[i].property);
        }
    }
    if (names.count == 1 && names.word[0][0] == '\0') {
        return print_list(facts, subject, &properties, out);
    }
    return print_grid(facts, subject, &names, &properties, out);
}

static attune_status print_subjects(const at_facts *facts, FILE *out)
{
    const char **words = calloc(3 * facts->count + 1, sizeof *words);
    AT_FAIL_IF(words == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to lay out %zu facts", facts->count);
    distinct subjects = {words + 2 * facts->count, 0};
    attune_status status = ATTUNE_OK;
    for (size_t i = 0; i < facts->count; ++i) {
        add_distinct(&subjects, facts->fact[i].subject);
    }
    for (size_t i = 0; i < subjects.count && status == ATTUNE_OK; ++i) {
        (void)fputs(i > 0 ? "\n" : "", out);
        status = print_subject(facts, subjects.word[i], words, out);
    }
    free(words);
    return status;
}

attune_status at_facts_print(const at_facts *facts, at_format format, FILE *out)
{
    AT_FAIL_IF(facts->status != ATTUNE_OK, facts->status, "no memory for a list of facts");
    return format == AT_FORMAT_TEXT ? print_subjects(facts, out) : print_rows(facts, format, out);
}
