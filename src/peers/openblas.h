/* OpenBLAS as a peer: what a caller gets today from a BLAS library on a CPU. Q K^T by sgemm, a vectorised softmax, P V
 * by sgemm, on attune's threads with a single-threaded BLAS in each. It is meant to be a good peer: rows are taken in
 * blocks whose scores stay in the cache, and blocks of keys that a causal mask or a window hides are never computed.
 *
 * The library is looked up at run time: $ATTUNE_OPENBLAS, else libopenblas.so.0. */
#ifndef PEERS_OPENBLAS_H
#define PEERS_OPENBLAS_H

#include "attune/kernel.h"
#include "base/threads.h"
#include "measure/arm.h"

typedef struct at_openblas at_openblas;

/* Loads the library and sets it to one thread. ATTUNE_NOT_FOUND, with the reason, where it is not available. */
attune_status at_openblas_open(at_openblas **blas);
void at_openblas_close(at_openblas *blas);
/* Its version and build, for reports; belongs to it. */
const char *at_openblas_version(const at_openblas *blas);

/* Whether the peer computes this problem; if not, the reason. */
bool at_openblas_supports(const attune_problem *problem, attune_reason *reason);

/* The peer bound to a call. All memory it needs is taken here. */
typedef struct at_openblas_call at_openblas_call;

/* Binds a call whose buffers are in host memory, to run on the pool with the vector code of `isa`. `blas`, `pool` and
 * the buffers must outlive it; `call` is copied. */
attune_status at_openblas_bind(const at_openblas *blas, at_pool *pool, attune_isa isa, const attune_problem *problem,
                               const attune_call *call, at_openblas_call **bound);
void at_openblas_unbind(at_openblas_call *bound);
/* Named "openblas"; runs `bound`, which must outlive it. */
at_arm at_openblas_arm(at_openblas_call *bound);

#endif
