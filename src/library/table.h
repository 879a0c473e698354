/* A hash table from keys of one size, compared as bytes, to pointers. */
#ifndef LIBRARY_TABLE_H
#define LIBRARY_TABLE_H

#include <stddef.h>

#include "attune/attune.h"

typedef struct at_table at_table;

/* `key_bytes` is a multiple of 8. */
attune_status at_table_create(size_t key_bytes, at_table **table);
/* Values are the caller's business. */
void at_table_destroy(at_table *table);
/* The value of the key, or NULL. */
void *at_table_find(const at_table *table, const void *key);
/* Adds or replaces; `value` is not NULL. */
attune_status at_table_set(at_table *table, const void *key, void *value);
size_t at_table_count(const at_table *table);
/* The index-th value, in no particular order. */
void *at_table_at(const at_table *table, size_t index);
/* Forgets every key. */
void at_table_clear(at_table *table);

#endif
