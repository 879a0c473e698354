/* attune/gate.h: programs that bring arms of their own to `attune gate`: what the gate measures besides attune's
 * kernels and the peers that it knows. Such a program links libattune-gate, offers its arms by name and serves as a
 * worker.
 */
#ifndef ATTUNE_GATE_H
#define ATTUNE_GATE_H

#include "attune/attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Something that computes one problem on the buffers of a call, whatever it is: a function, a graph, another library.
 * Members are called by one thread at a time, on CUDA with the device's context current. Members that fail return what
 * attune_report returned. NULL members are not there; which must be is said with them. */
typedef struct attune_arm {
    size_t size; /* sizeof(attune_arm) */
    void *self;  /* handed to every member */
    /* What a report says of it: versions, how it was built, a digest; NULL where its name says all. Copied. */
    const char *account;
    uint32_t traits;   /* ATTUNE_TRAIT_ bits; 0: deterministic and exact about what it may read */
    uint32_t reserved; /* 0 */
    /* Bytes of workspace for this call, whose data pointers may be NULL. NULL: none. */
    attune_status (*workspace)(void *self, const attune_call *call, size_t *bytes);
    /* One call into call->tensor[ATTUNE_O] and, where its data is not NULL, ATTUNE_LSE. CPU: complete on return. CUDA:
     * enqueued on call->stream and nothing else; it is run once before it is captured into a graph. Where an arm
     * computes into outputs of its own, it has run_own (CPU) or capture and release (CUDA): those are then what is
     * timed, and run, which copies, serves checks. */
    attune_status (*run)(void *self, const attune_call *call);
    /* CPU: the same; *output says where O lies (pointer, strides, dtype) until this arm's next call. */
    attune_status (*run_own)(void *self, const attune_call *call, attune_tensor *output);
    /* CUDA: *graph is a CUgraph of `count` calls, one after the other, call i reading the inputs of calls[i]; output[i]
     * says where its O will lie. Whoever asked instantiates it and hands it to `release`, after which those outputs may
     * be gone. Several may be held at once. */
    attune_status (*capture)(void *self, const attune_call *calls, int32_t count, void **graph, attune_tensor *output);
    void (*release)(void *self, void *graph);
    void (*close)(void *self); /* after everything else */
    const char *name;          /* what the arm was opened as; set before it is, and left alone */
} attune_arm;

/* How a program offers arms to the gate. */
typedef struct attune_arm_hooks {
    size_t size; /* sizeof(attune_arm_hooks) */
    void *self;  /* handed to open */
    /* Makes the arm of this name ready for a problem, on CUDA device `device` or, with -1, on the CPU, where it is
     * meant to use `threads` threads. `arm` comes with its size and name set and is otherwise all zeros.
     * ATTUNE_NOT_FOUND: the name is none of this program's. ATTUNE_UNSUPPORTED: it is, but cannot run this problem
     * here, for the reason that was reported. */
    attune_status (*open)(void *self, const char *name, const attune_problem *problem, int32_t device, int32_t threads,
                          attune_arm *arm);
} attune_arm_hooks;

/* For members and hooks that fail: makes `detail` what attune_last_detail says in this thread, and returns `status`. */
ATTUNE_API attune_status attune_report(attune_status status, const char *detail);
/* Makes this process a worker of the gate: serves standard input and output until the gate is done, and then returns
 * ATTUNE_OK. A program whose main does nothing else is what `attune gate --worker PROGRAM` takes. Whatever is written
 * to the standard output meanwhile goes to the standard error. `hooks` may be NULL. */
ATTUNE_API attune_status attune_worker_serve(const attune_arm_hooks *hooks);

#ifdef __cplusplus
}
#endif

#endif
