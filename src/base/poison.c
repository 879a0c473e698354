#include "base/poison.h"

#include <string.h>

#include "base/random.h"

enum { WORD = 8, PIECE_WORDS = 512 };

at_poison at_poison_draw(uint64_t seed)
{
    at_random random = at_random_seed(seed, 0x706f69);
    return (at_poison){at_random_next(&random), (int32_t)at_random_below(&random, AT_POISON_KINDS)};
}

at_poison at_poison_other(at_poison poison, int kinds)
{
    at_random random = at_random_seed(poison.seed, (uint64_t)kinds + 1);
    return (at_poison){at_random_next(&random), (poison.kind + kinds) % AT_POISON_KINDS};
}

/* Two keys of a seed, so that words tell nothing about each other. */
typedef struct keys {
    uint64_t first, second;
} keys;

static uint64_t mixed(const keys *by, uint64_t index)
{
    uint64_t word = (index ^ by->first) * UINT64_C(0xbf58476d1ce4e5b9);
    word = ((word ^ word >> 32) + by->second) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 29;
}

/* Each 16 bits become the upper half of such an element of any of the three types. */
static uint64_t shaped(int32_t kind, uint64_t word)
{
    switch (kind) {
    case AT_POISON_NAN:
        return (word & UINT64_C(0x803f803f803f803f)) | UINT64_C(0x7fc07fc07fc07fc0);
    case AT_POISON_NUMBERS:
        return (word & UINT64_C(0x81ff81ff81ff81ff)) | UINT64_C(0x3e003e003e003e00);
    case AT_POISON_ZERO:
        return 0;
    default:
        return word;
    }
}

/* Words index, index + 1, ... */
static void make_words(at_poison poison, uint64_t index, uint64_t *word, size_t count)
{
    at_random random = at_random_seed(poison.seed, 0x6b6579);
    const keys by = {at_random_next(&random), at_random_next(&random)};
    for (size_t i = 0; i < count; ++i) {
        word[i] = shaped(poison.kind, mixed(&by, index + i));
    }
}

/* The words that hold the first of so many bytes; returns how many of those bytes they hold, and where the first is. */
static size_t make_piece(at_poison poison, uint64_t place, size_t bytes, uint64_t word[PIECE_WORDS], size_t *first)
{
    *first = (size_t)(place % WORD);
    size_t holds = (size_t)PIECE_WORDS * WORD - *first;
    size_t taken = bytes < holds ? bytes : holds;
    make_words(poison, place / WORD, word, (*first + taken + WORD - 1) / WORD);
    return taken;
}

void at_poison_write(at_poison poison, uint64_t place, void *data, size_t bytes)
{
    uint64_t word[PIECE_WORDS];
    for (size_t done = 0; done < bytes;) {
        size_t first;
        size_t taken = make_piece(poison, place + done, bytes - done, word, &first);
        memcpy((unsigned char *)data + done, (const unsigned char *)word + first, taken);
        done += taken;
    }
}

size_t at_poison_intact(at_poison poison, uint64_t place, const void *data, size_t bytes)
{
    uint64_t word[PIECE_WORDS];
    size_t done = 0;
    while (done < bytes) {
        size_t first;
        size_t taken = make_piece(poison, place + done, bytes - done, word, &first);
        const unsigned char *is = (const unsigned char *)data + done, *was = (const unsigned char *)word + first;
        if (memcmp(is, was, taken) == 0) {
            done += taken;
            continue;
        }
        while (*is == *was) {
            ++is;
            ++was;
            ++done;
        }
        return done;
    }
    return done;
}
