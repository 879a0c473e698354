/* Inputs that find bugs: host buffers for every role of a problem, drawn from (problem, family, seed) alone. */
#ifndef REFERENCE_INPUTS_H
#define REFERENCE_INPUTS_H

#include <stdbool.h>

#include "attune/attune.h"
#include "base/poison.h"
#include "base/threads.h"

/* Ways to fill Q, K, V and the optional roles. The first four are what a big problem is given at its exact size. */
typedef enum at_family {
    AT_FAMILY_NORMAL = 0, /* standard normal */
    AT_FAMILY_LARGE,      /* logits far above 88 before the maximum is subtracted */
    AT_FAMILY_NEEDLE,     /* one key matches its query, among noise */
    AT_FAMILY_TAIL,      /* one key outweighs each of the others by 10 to 13 nats, and O is what the others sum up to */
    AT_FAMILY_EQUAL,     /* all rows of K equal, so that P is uniform; in every other head three at a time */
    AT_FAMILY_MIXED,     /* a batch that mixes the kinds across heads */
    AT_FAMILY_NEGATIVE,  /* very negative logits, worst on a partial tile */
    AT_FAMILY_HIDDEN,    /* NaN and inf in keys and values that no row of their head sees */
    AT_FAMILY_VISIBLE,   /* a few NaN and inf that some rows see */
    AT_FAMILY_SUBNORMAL, /* values in the subnormal range of the dtype */
    AT_FAMILY_SPARSE, /* sums that fp16 carries as well as fp32, for kernels that declare such sums and for no others */
    AT_FAMILY_COUNT
} at_family;

const char *at_family_name(at_family family);
/* Whether the family has anything to say about the problem (HIDDEN: hidden slots or gaps exist). */
bool at_family_applies(at_family family, const attune_problem *problem);
/* The kinds of VISIBLE (NaN in V, K and Q; inf in V and K where it cannot blur what is right) take turns over the heads
 * of a draw. So many draws, at most five, hold each of them where any sequence has two keys, below a causal mask among
 * keys that some rows see and others do not; other seeds have other draws. */
int at_visible_draws(const attune_problem *problem);
uint64_t at_visible_seed(const attune_problem *problem, uint64_t seed, int draw);

/* How buffers are laid out. */
typedef struct at_draw {
    uint64_t seed; /* of the values; the upper half alone says which dimensions a MASK is broadcast in, so that draws
                      whose seeds differ in the lower half have the same sizes and strides */
    uint64_t length_seed; /* of the lengths of packed sequences: at_test_problem's */
    at_family family;
    bool gaps;        /* strides with drawn gaps between rows and heads, in any order of Q ... O's dimensions, and
                         addresses as unaligned as was promised */
    int32_t repeats;  /* bit 0: all sequences read the same keys and values, bit 1: all heads do, by strides of 0; where
                         a call can have that: not packed, nor in pages, nor with lengths of its own */
    bool far;         /* element offsets beyond 2^31 (sparse memory; only small problems) */
    at_poison poison; /* of the outputs before the run; guards and the inputs' gaps have one of the seed's */
    at_pool *pool;    /* draws with its threads; NULL: with the caller's alone. The values are the same */
} at_draw;

/* One set of host buffers and the call that points at them. Outputs (O, LSE) are poisoned; each buffer is between
 * guard bands. Owned by whoever drew it. */
typedef struct at_buffer {
    unsigned char *base; /* guard + data + guard, 256-byte aligned; NULL where the role is absent */
    size_t total;        /* bytes at base */
    size_t at;           /* of the data from base */
    size_t bytes;        /* of the data, from its first to its last element */
    bool sparse;         /* far: mostly untouched pages, which must not be read or copied as a whole */
} at_buffer;

typedef struct at_inputs {
    attune_problem problem; /* of exactly these sizes */
    at_draw draw;
    attune_call call;
    at_buffer buffer[ATTUNE_ROLE_COUNT];
} at_inputs;

/* A role's tensor as rows of contiguous elements: extents of batch, head and sequence (1 where the dimension does not
 * exist, is packed or is broadcast) and elements in a row. */
typedef struct at_extent {
    int64_t count[3];
    int64_t row;
} at_extent;

/* Draws all tensors of the problem (draw.c). ATTUNE_OUT_OF_MEMORY leaves nothing behind. */
attune_status at_inputs_draw(const attune_problem *problem, const at_draw *draw, at_inputs *inputs);
/* Fills O and LSE, gaps included and nothing else, with the poison. */
void at_inputs_poison(at_inputs *inputs, at_poison poison);
/* The place in a role's poison of a byte at so many from its first element. */
uint64_t at_inputs_poison_place(attune_role role, size_t at);
/* What guards of the role's buffer hold, by places from the buffer's base; of an input that is NaN or anything. */
at_poison at_inputs_guard(const at_inputs *inputs, attune_role role);
/* Calls `see` with every row of a role's tensor, and its bytes. */
void at_inputs_each_row(const at_inputs *inputs, attune_role role, void (*see)(void *, unsigned char *, size_t),
                        void *context);
/* A digest of all input buffers (gaps included), to see that a kernel changed none. */
uint64_t at_inputs_digest(const at_inputs *inputs);
/* Sizes, strides and buffers of inputs whose problem and draw are set, contents arbitrary; for at_inputs_draw. */
attune_status at_inputs_place(at_inputs *inputs);
/* ATTUNE_OK while every guard band is intact; else ATTUNE_WRONG_RESULT naming role and place. */
attune_status at_inputs_guards(const at_inputs *inputs);
void at_inputs_free(at_inputs *inputs);

at_extent at_inputs_extent(const at_inputs *inputs, attune_role role);
/* Byte offset of a row from the role's first element. */
size_t at_inputs_row(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row);
/* First rows of the packed sequences of a varlen problem, [batch + 1] each, from the seed alone: among several there
 * are a full and an empty one. */
void at_inputs_lengths(const attune_problem *problem, uint64_t length_seed, int32_t *cu_q, int32_t *cu_kv);

#endif
