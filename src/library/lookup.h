/* A hash table from keys of one size, compared as bytes, to pointers. */
#ifndef LIBRARY_LOOKUP_H
#define LIBRARY_LOOKUP_H

#include <stddef.h>

#include "attune/attune.h"

typedef struct at_lookup at_lookup;

/* `key_bytes` is a multiple of 8. */
attune_status at_lookup_create(size_t key_bytes, at_lookup **table);
/* Values are the caller's business. */
void at_lookup_destroy(at_lookup *table);
/* The value of the key, or NULL. */
void *at_lookup_find(const at_lookup *table, const void *key);
/* Adds or replaces; `value` is not NULL. */
attune_status at_lookup_set(at_lookup *table, const void *key, void *value);
size_t at_lookup_count(const at_lookup *table);
/* The index-th value, in no particular order. */
void *at_lookup_at(const at_lookup *table, size_t index);
/* Forgets every key. */
void at_lookup_clear(at_lookup *table);

#endif
