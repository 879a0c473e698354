/* A cuDNN that computes nothing and remembers everything: how attune asks it can be seen without a device. Built as a
 * library of its own, which ATTUNE_CUDNN names; tests reach its record with dlsym("fake"). */
#ifndef TESTS_PEERS_FAKE_CUDNN_H
#define TESTS_PEERS_FAKE_CUDNN_H

#include "peers/cudnn_types.h"

enum { FAKE_CHOICES = 4 };

typedef struct fake_cudnn {
    /* What it is asked to be. */
    size_t version;                  /* 91900 */
    int refuses;                     /* the kind of descriptor that is not finished; -1: none */
    unsigned int start, execute;     /* what cudnnCreate and cudnnBackendExecute say */
    int choices[2];                  /* engines offered by heuristics of mode A, and by the fallback */
    int64_t engine[2][FAKE_CHOICES]; /* their numbers */
    uint64_t broken;                 /* a bit for each engine that does not compile */
    int64_t workspace;               /* bytes an engine takes */
    void (*running)(int64_t engine); /* called by every run; may be NULL */
    /* What it was asked to do. */
    int descriptors, handles; /* made less destroyed */
    int questions, plans;     /* to heuristics; compiled */
    char form[160];           /* the operations of the last graph: "matmul mul max sub ..." */
    int64_t ran;              /* the engine of the last run */
    int runs;
    void *stream;
    int64_t count;
    int64_t id[12];
    void *data[12];
    float scale, hidden; /* scalars are read when a run is enqueued */
    int32_t seqlen_q, seqlen_kv;
    void *given_workspace;
} fake_cudnn;

#endif
