/* A contender: an arm that runs on whatever call it is given. What an arm is to one call (measure/arm.h), a contender
 * is to a problem: a plan, a peer, or what a caller brings. It is made for one problem on one device, and takes every
 * call that the problem allows. */
#ifndef MEASURE_CONTENDER_H
#define MEASURE_CONTENDER_H

#include <stdbool.h>

#include "attune/attune.h"

typedef struct at_contender {
    const char *name;    /* as given: "cudnn", "openblas", "torch:flash", "tiled:BLOCK_M=64", "py:FILE:FUNCTION" */
    const char *account; /* what evidence records of it: versions, engine, digest; "" where its name says all. This and
                            the name belong to the contender */
    uint32_t traits;     /* ATTUNE_TRAIT_ bits */
    void *self;
    /* Bytes of workspace that this call takes, 256-byte aligned. NULL: none. */
    attune_status (*workspace)(void *self, const attune_call *call, size_t *bytes);
    /* One call into the call's own O (and LSE). CPU: complete on return. CUDA: enqueued on call->stream, and
     * capturable. Checks use it where it is there. What is timed is run_own or capture where the arm has those: an arm
     * that owns its outputs copies them here, and no copy is ever timed. */
    attune_status (*run)(void *self, const attune_call *call);
    /* CUDA: a CUgraph of `count` calls, call i reading calls[i]'s inputs on calls[i]'s stream's device; output[i] says
     * where call i's O will lie (pointer and strides: both are the arm's choice). Whoever asked instantiates the graph
     * and gives it back to `release`, after which those outputs are gone; several may be held at once. */
    attune_status (*capture)(void *self, const attune_call *calls, int count, void **graph, attune_tensor *output);
    void (*release)(void *self, void *graph);
    /* CPU: as run, but O lies where `output` says until the next call of this contender. */
    attune_status (*run_own)(void *self, const attune_call *call, attune_tensor *output);
    void (*close)(void *self);
} at_contender;

/* Closes and clears; one that is all zeros is fine. */
static inline void at_contender_close(at_contender *contender)
{
    if (contender->close != NULL) {
        contender->close(contender->self);
    }
    *contender = (at_contender){0};
}

#endif
