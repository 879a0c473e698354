/* Facts: what a verb found out, as (subject, name, property, value). For people they become a table a subject, a row
 * for each name and a column for each property; for programs they stay four columns. */
#ifndef CLI_INFO_FACTS_H
#define CLI_INFO_FACTS_H

#include "report/table.h"

typedef struct at_facts at_facts;

attune_status at_facts_create(at_facts **facts);
void at_facts_destroy(at_facts *facts);
/* Adds a fact; all texts are copied, the value is formatted. A subject that has one nameless ("") thing becomes a list
 * of properties. Failing to get memory is remembered and returned by at_facts_print. */
void at_facts_add(at_facts *facts, const char *subject, const char *name, const char *property, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
attune_status at_facts_print(const at_facts *facts, at_format format, FILE *out);

#endif
