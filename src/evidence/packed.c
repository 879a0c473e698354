#include "evidence/packed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

/* The text of an arm is "COUNT UNIT MIDDLE LOW CALLS", and its samples are in the verdict's "bits", one arm's behind
 * the other's. CALLS 0: a sample is MIDDLE + x units of UNIT ns. Else x is in ticks of the device's clock over CALLS
 * calls, from the tick nearest to MIDDLE, and the sample is rounded as samples are. Each x is folded (0, -1, 1, -2, ...
 * are 0, 1, 2, 3, ...); of the number above LOW bits as many ones and a zero, then the LOW bits; ESCAPE ones and no
 * zero stand before one of WIDE bits. All bits are in base64, the highest first. */
enum { TICK_NS = 32, ESCAPE = 24, WIDE = 44, LOW_MAX = 40, FEW = 8, COUNT_MAX = 200000, CALLS_MAX = 1 << 20 };
enum { UNIT_MAX = 1000000, DIGITS = 100000, NUMBERS = 5 };
static const int64_t middle_max = INT64_C(1) << 40;         /* units */
static const int64_t ticks_ns_max = INT64_C(1000000000000); /* beyond, samples are not in ticks */

typedef struct form {
    int64_t unit, middle, calls, low, count;
} form;

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static uint64_t fold(int64_t x)
{
    return x < 0 ? 2 * (uint64_t)(-(x + 1)) + 1 : 2 * (uint64_t)x;
}

static int64_t unfold(uint64_t folded)
{
    const int64_t half = (int64_t)(folded >> 1);
    return folded & 1 ? -half - 1 : half;
}

static bool has_ticks(const form *of)
{
    return of->calls > 0 && of->middle > 0 && of->middle * of->unit <= ticks_ns_max;
}

static int64_t nearest(int64_t a, int64_t b)
{
    return (2 * a + b) / (2 * b);
}

static int64_t middle_tick(const form *of)
{
    return nearest(of->middle * of->unit * of->calls, TICK_NS);
}

/* ns of a call, with five digits or whole, whichever is less. */
static int64_t ns_of(int64_t tick, int64_t calls)
{
    int64_t last = 1;
    while (tick * TICK_NS / calls >= DIGITS * last) {
        last *= 10;
    }
    return nearest(tick * TICK_NS, calls * last) * last;
}

/* The sample, from the middle, in units; false where there is none. */
static bool sample_of(const form *of, int64_t x, int64_t *units)
{
    *units = x;
    if (of->calls == 0) {
        return llabs(x) <= 2 * middle_max;
    }
    const int64_t tick = middle_tick(of) + x;
    const bool sound = tick > 0 && tick < INT64_MAX / (4 * TICK_NS);
    const int64_t ns = sound ? ns_of(tick, of->calls) : 0;
    *units = ns / of->unit - of->middle;
    return sound && ns % of->unit == 0;
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

typedef struct writer {
    at_text *to;
    uint64_t held; /* fewer than six bits */
    int bits;
    size_t letters;
} writer;

static void put(writer *on, uint64_t value, int bits)
{
    for (int i = bits - 1; i >= 0; --i) {
        on->held = on->held << 1 | (value >> i & 1);
        if (++on->bits == 6) {
            at_text_add_bytes(on->to, &letters[on->held], 1);
            on->held = 0;
            on->bits = 0;
            ++on->letters;
        }
    }
}

static void put_number(writer *on, uint64_t folded, int low)
{
    const uint64_t high = folded >> low;
    const int ones = high < ESCAPE ? (int)high : ESCAPE;
    put(on, (UINT64_C(1) << ones) - 1, ones);
    if (ones == ESCAPE) {
        put(on, folded, WIDE);
    } else {
        put(on, 0, 1);
        put(on, folded, low);
    }
}

/* Whole bytes, as base64 has them. */
static void put_end(writer *on)
{
    while (on->bits > 0 || on->letters % 4 == 1) {
        put(on, 0, 1);
    }
    while (on->letters % 4 != 0) {
        at_text_add(on->to, "=");
        ++on->letters;
    }
}

typedef struct reader {
    const char *at;
    uint64_t held;
    int bits;
} reader;

/* The next bit; 2 at the end. */
static unsigned take_bit(reader *on)
{
    if (on->bits == 0) {
        const char *letter = *on->at != '\0' ? strchr(letters, *on->at) : NULL;
        if (letter == NULL) {
            return 2;
        }
        on->held = (uint64_t)(letter - letters);
        on->bits = 6;
        ++on->at;
    }
    return on->held >> --on->bits & 1;
}

static bool take(reader *on, int bits, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < bits; ++i) {
        const unsigned bit = take_bit(on);
        if (bit > 1) {
            return false;
        }
        *value = *value << 1 | bit;
    }
    return true;
}

static bool take_number(reader *on, int low, int64_t *x)
{
    uint64_t high = 0, rest;
    unsigned bit = 1;
    while (high < ESCAPE && (bit = take_bit(on)) == 1) {
        ++high;
    }
    const bool wide = high == ESCAPE;
    const bool there = bit <= 1 && take(on, wide ? WIDE : low, &rest);
    *x = !there ? 0 : unfold(wide ? rest : high << low | rest);
    return there;
}

/* ---- From texts -------------------------------------------------------------------------------------------------- */

static bool read_form(const char *text, form *of)
{
    int64_t *const to[NUMBERS] = {&of->count, &of->unit, &of->middle, &of->low, &of->calls};
    for (int i = 0; i < NUMBERS; ++i) {
        char *end;
        *to[i] = strtoll(text, &end, 10);
        if (end == text || *end != (i + 1 < NUMBERS ? ' ' : '\0')) {
            return false;
        }
        text = end + 1;
    }
    return of->unit >= 1 && of->unit <= UNIT_MAX && of->middle >= -middle_max && of->middle <= middle_max &&
           of->calls >= 0 && of->calls <= CALLS_MAX && (of->calls == 0 || has_ticks(of)) && of->low >= 0 &&
           of->low <= LOW_MAX && of->count >= 0 && of->count <= COUNT_MAX;
}

/* The list of a text and what is next of the bits; NULL where they hold none. */
static json_t *open_text(const char *text, reader *from)
{
    form of = {0};
    if (!read_form(text, &of)) {
        return NULL;
    }
    json_t *list = json_pack("[I,I]", (json_int_t)of.unit, (json_int_t)of.middle);
    bool well = list != NULL;
    for (int64_t i = 0; well && i < of.count; ++i) {
        int64_t x, units;
        well = take_number(from, (int)of.low, &x) && sample_of(&of, x, &units) &&
               json_array_append_new(list, json_integer(units)) == 0;
    }
    if (!well) {
        json_decref(list);
    }
    return well ? list : NULL;
}

/* ---- To texts ---------------------------------------------------------------------------------------------------- */

/* A list, as numbers. */
typedef struct numbers {
    form of;
    int64_t *units; /* from the middle */
    int64_t *x;     /* what is to be written */
} numbers;

static bool read_list(const json_t *list, numbers *on)
{
    const size_t size = json_array_size(list);
    bool well = size >= 2 + FEW && size - 2 <= COUNT_MAX;
    for (size_t i = 0; well && i < size; ++i) {
        const json_t *value = json_array_get(list, i);
        well = json_is_integer(value) && llabs(json_integer_value(value)) <= middle_max;
        int64_t *to = i == 0 ? &on->of.unit : i == 1 ? &on->of.middle : &on->units[i - 2];
        *to = well ? json_integer_value(value) : 0;
    }
    on->of.count = (int64_t)size - 2;
    return well && on->of.unit >= 1 && on->of.unit <= UNIT_MAX;
}

/* In ticks, where each sample is one. */
static bool find_ticks(numbers *on)
{
    bool well = has_ticks(&on->of);
    for (int64_t i = 0; well && i < on->of.count; ++i) {
        const int64_t ns = (on->of.middle + on->units[i]) * on->of.unit;
        int64_t back = 0;
        well = ns > 0 && ns <= ticks_ns_max;
        on->x[i] = well ? nearest(ns * on->of.calls, TICK_NS) - middle_tick(&on->of) : 0;
        well = well && sample_of(&on->of, on->x[i], &back) && back == on->units[i];
    }
    return well;
}

/* Bits that all take with so many low ones. */
static uint64_t bits_of(const numbers *on, int low)
{
    uint64_t bits = 0;
    for (int64_t i = 0; i < on->of.count; ++i) {
        const uint64_t high = fold(on->x[i]) >> low;
        bits += high < ESCAPE ? high + 1 + (uint64_t)low : ESCAPE + WIDE;
    }
    return bits;
}

static uint64_t choose_low(numbers *on)
{
    uint64_t least = UINT64_MAX;
    for (int low = 0; low <= LOW_MAX; ++low) {
        const uint64_t bits = bits_of(on, low);
        on->of.low = bits < least ? low : on->of.low;
        least = bits < least ? bits : least;
    }
    return least;
}

/* In units or in ticks, whichever is shorter. */
static void choose(numbers *on, int64_t calls)
{
    on->of.calls = calls;
    const uint64_t ticks = find_ticks(on) ? choose_low(on) : UINT64_MAX;
    const form in_ticks = on->of;
    on->of.calls = 0;
    memcpy(on->x, on->units, (size_t)on->of.count * sizeof *on->x);
    if (choose_low(on) >= ticks) {
        on->of = in_ticks;
        (void)find_ticks(on);
    }
}

static json_t *write_text(const numbers *on, writer *to)
{
    for (int64_t i = 0; i < on->of.count; ++i) {
        put_number(to, fold(on->x[i]), (int)on->of.low);
    }
    return json_sprintf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, on->of.count, on->of.unit,
                        on->of.middle, on->of.low, on->of.calls);
}

/* The text of a list, whose samples go to the bits; NULL for lists that are left as they are. */
static json_t *close_list(const json_t *list, int64_t calls, writer *to)
{
    const size_t size = json_array_size(list) + 1;
    numbers on = {.units = malloc(size * sizeof *on.units), .x = malloc(size * sizeof *on.x)};
    json_t *text = NULL;
    if (on.units != NULL && on.x != NULL && read_list(list, &on)) {
        choose(&on, calls >= 0 && calls <= CALLS_MAX ? calls : 0);
        text = write_text(&on, to);
    }
    free(on.units);
    free(on.x);
    return text;
}

/* ---- Verdicts ---------------------------------------------------------------------------------------------------- */

static attune_status open_stretches(const json_t *session, reader *from, const char *path)
{
    size_t at, arm;
    json_t *stretch, *list;
    json_array_foreach(json_object_get(session, "blocks"), at, stretch)
    {
        json_t *arms = json_object_get(stretch, "ns");
        json_array_foreach(arms, arm, list)
        {
            const char *text = json_string_value(list);
            json_t *opened = text != NULL ? open_text(text, from) : NULL;
            AT_FAIL_IF(text != NULL && opened == NULL, ATTUNE_CORRUPT,
                       "%s.session.blocks[%zu]: field \"ns\": arm %zu has no samples in \"bits\"", path, at, arm);
            if (opened != NULL) {
                (void)json_array_set_new(arms, arm, opened);
            }
        }
    }
    return ATTUNE_OK;
}

attune_status at_packed_open(json_t *verdict, const char *path)
{
    const char *bits = json_string_value(json_object_get(verdict, "bits"));
    if (bits == NULL) {
        return ATTUNE_OK;
    }
    reader from = {.at = bits};
    json_t *session = json_deep_copy(json_object_get(verdict, "session"));
    attune_status status = open_stretches(session, &from, path);
    if (status == ATTUNE_OK && session != NULL) {
        (void)json_object_set(verdict, "session", session);
        (void)json_object_del(verdict, "bits");
    }
    json_decref(session);
    return status;
}

static void close_stretch(json_t *stretch, const json_t *calls, writer *to)
{
    size_t arm;
    json_t *list, *arms = json_object_get(stretch, "ns");
    const char *mode = json_string_value(json_object_get(stretch, "mode"));
    const json_t *of_mode = mode != NULL ? json_object_get(calls, mode) : NULL;
    json_array_foreach(arms, arm, list)
    {
        json_t *text = close_list(list, json_integer_value(json_array_get(of_mode, arm)), to);
        if (text != NULL) {
            (void)json_array_set_new(arms, arm, text);
        }
    }
}

json_t *at_packed_close(const json_t *verdict, at_text *bits)
{
    size_t at;
    json_t *stretch;
    json_t *whole = json_deep_copy(verdict);
    const json_t *session = json_object_get(whole, "session"), *calls = json_object_get(session, "calls");
    writer to = {.to = bits};
    if (json_object_get(whole, "bits") != NULL) { /* they could not be opened, and stay */
        return whole;
    }
    json_array_foreach(json_object_get(session, "blocks"), at, stretch)
    {
        close_stretch(stretch, calls, &to);
    }
    put_end(&to);
    return whole;
}
