#include "library/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { FIRST_SLOTS = 32 };

/* Entries lie in one array in order of insertion; slots hold indexes into it, found by linear probing. */
struct at_lookup {
    size_t key_bytes, count, slots; /* slots: a power of two, at least twice count */
    unsigned char *keys;
    void **values;
    uint64_t *hashes;
    int64_t *slot; /* -1: free */
};

static uint64_t hash_of(const at_lookup *table, const void *key)
{
    const unsigned char *at = key;
    uint64_t hash = table->key_bytes;
    for (size_t i = 0; i < table->key_bytes; i += sizeof hash) {
        uint64_t word;
        memcpy(&word, at + i, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static attune_status resize(at_lookup *table, size_t slots)
{
    size_t room = slots / 2;
    unsigned char *keys = realloc(table->keys, room * table->key_bytes);
    table->keys = keys == NULL ? table->keys : keys;
    void **values = realloc(table->values, room * sizeof *values);
    table->values = values == NULL ? table->values : values;
    uint64_t *hashes = realloc(table->hashes, room * sizeof *hashes);
    table->hashes = hashes == NULL ? table->hashes : hashes;
    int64_t *slot = malloc(slots * sizeof *slot);
    if (keys == NULL || values == NULL || hashes == NULL || slot == NULL) {
        free(slot);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a table of %zu entries", room);
    }
    memset(slot, 0xff, slots * sizeof *slot);
    for (size_t i = 0; i < table->count; ++i) {
        size_t at = table->hashes[i] & (slots - 1);
        while (slot[at] >= 0) {
            at = (at + 1) & (slots - 1);
        }
        slot[at] = (int64_t)i;
    }
    free(table->slot);
    table->slot = slot;
    table->slots = slots;
    return ATTUNE_OK;
}

attune_status at_lookup_create(size_t key_bytes, at_lookup **table)
{
    at_lookup *made = calloc(1, sizeof *made);
    *table = NULL;
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a table");
    made->key_bytes = key_bytes;
    attune_status status = resize(made, FIRST_SLOTS);
    if (status != ATTUNE_OK) {
        at_lookup_destroy(made);
        return status;
    }
    *table = made;
    return ATTUNE_OK;
}

void at_lookup_destroy(at_lookup *table)
{
    if (table != NULL) {
        free(table->keys);
        free(table->values);
        free(table->hashes);
        free(table->slot);
        free(table);
    }
}

/* The slot of the key, or the free one where it would go. */
static size_t probe(const at_lookup *table, const void *key, uint64_t hash)
{
    size_t at = hash & (table->slots - 1);
    for (; table->slot[at] >= 0; at = (at + 1) & (table->slots - 1)) {
        size_t index = (size_t)table->slot[at];
        if (table->hashes[index] == hash &&
            memcmp(table->keys + index * table->key_bytes, key, table->key_bytes) == 0) {
            break;
        }
    }
    return at;
}

void *at_lookup_find(const at_lookup *table, const void *key)
{
    int64_t index = table->slot[probe(table, key, hash_of(table, key))];
    return index < 0 ? NULL : table->values[index];
}

attune_status at_lookup_set(at_lookup *table, const void *key, void *value)
{
    uint64_t hash = hash_of(table, key);
    int64_t have = table->slot[probe(table, key, hash)];
    if (have >= 0) {
        table->values[have] = value;
        return ATTUNE_OK;
    }
    if (2 * (table->count + 1) > table->slots) {
        AT_FORWARD(resize(table, 2 * table->slots));
    }
    memcpy(table->keys + table->count * table->key_bytes, key, table->key_bytes);
    table->values[table->count] = value;
    table->hashes[table->count] = hash;
    table->slot[probe(table, key, hash)] = (int64_t)table->count++;
    return ATTUNE_OK;
}

size_t at_lookup_count(const at_lookup *table)
{
    return table->count;
}

void *at_lookup_at(const at_lookup *table, size_t index)
{
    return index < table->count ? table->values[index] : NULL;
}

void at_lookup_clear(at_lookup *table)
{
    table->count = 0;
    memset(table->slot, 0xff, table->slots * sizeof *table->slot);
}
