#include <stdlib.h>

#include "base/status.h"
#include "peers/openblas.h"

typedef struct peer {
    at_openblas *blas;
    at_pool *pool;
    attune_isa isa;
    attune_problem problem;
    at_openblas_call *bound; /* to the last call */
} peer;

static attune_status bind(peer *self, const attune_call *call)
{
    bool done = false;
    if (self->bound != NULL) {
        AT_FORWARD(at_openblas_rebind(&self->problem, call, self->bound, &done));
    }
    if (done) {
        return ATTUNE_OK;
    }
    at_openblas_unbind(self->bound);
    return at_openblas_bind(self->blas, self->pool, self->isa, &self->problem, call, &self->bound);
}

static attune_status run(void *of, const attune_call *call)
{
    peer *self = of;
    AT_FORWARD(bind(self, call));
    at_openblas_run(self->bound);
    return ATTUNE_OK;
}

static void close_peer(void *of)
{
    peer *self = of;
    at_openblas_unbind(self->bound);
    at_openblas_close(self->blas);
    free(self);
}

attune_status at_openblas_arm(at_pool *pool, const attune_target *target, const attune_problem *problem,
                              attune_arm *arm)
{
    attune_reason reason;
    *arm = (attune_arm){0};
    AT_FAIL_IF(target->kind != ATTUNE_TARGET_CPU, ATTUNE_UNSUPPORTED, "openblas runs on the CPU only (--target cpu)");
    AT_FAIL_IF(!at_openblas_supports(problem, &reason), ATTUNE_UNSUPPORTED, "openblas: %s", reason.text);
    peer *self = calloc(1, sizeof *self);
    AT_FAIL_IF(self == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the OpenBLAS peer");
    *self = (peer){.pool = pool, .isa = target->isa, .problem = *problem};
    attune_status status = at_openblas_open(&self->blas);
    if (status != ATTUNE_OK) {
        close_peer(self);
        return status;
    }
    *arm = (attune_arm){
        .name = "openblas", .account = at_openblas_version(self->blas), .self = self, .run = run, .close = close_peer};
    return ATTUNE_OK;
}
