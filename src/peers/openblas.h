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
/* Moves the binding to another call of the same problem, taking no memory. *done is false, and nothing has changed,
 * where that call's sizes are others. */
attune_status at_openblas_rebind(const attune_problem *problem, const attune_call *call, at_openblas_call *bound,
                                 bool *done);
/* One call, complete on return. */
void at_openblas_run(at_openblas_call *bound);

/* Opens the peer for a problem on a CPU: runs on the pool with the vector code of `isa`. Memory is taken when sizes
 * change, which is outside of what is timed. */
attune_status at_openblas_arm(at_pool *pool, const attune_target *target, const attune_problem *problem,
                              attune_arm *arm);

#endif
