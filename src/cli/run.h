/* What the files of the verb `run` share: tensors from files, the problem they state, and how good the result is. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/cli.h"
#include "cli/safetensors.h"
#include "library/context.h"

/* One tensor and where it was found. */
typedef struct at_run_tensor {
    bool given;
    char source[200]; /* for errors: "q.npy", "x.safetensors: tensor \"Q\"" */
    at_array array;
    void *file;              /* owned; what the view is in, or NULL */
    at_safetensors *tensors; /* likewise */
} at_run_tensor;

/* Reads "FILE.npy", "FILE.safetensors" (the tensor called `name`, in either case) or "FILE.safetensors:NAME".
 * `v2_is_bf16` as in at_npy_options. */
attune_status at_run_load(const char *spec, const char *name, bool v2_is_bf16, at_run_tensor *tensor);
/* Whether such a spec reads the file that lies at `path`. */
bool at_run_reads(const char *spec, const char *path);
void at_run_unload(at_run_tensor *tensor);

/* Whether the path ends in the extension, such as ".npy", in either case. */
bool at_run_has_extension(const char *path, const char *extension);

/* A run: its inputs, the problem, and host buffers for its outputs. Zeroed at first; freed by at_run_free. */
typedef struct at_run_job {
    at_run_tensor input[ATTUNE_ROLE_COUNT]; /* O and LSE are never given */
    at_safetensors *in;                     /* of --in, owned */
    attune_problem problem;
    attune_call call; /* actual sizes and strides; data are host memory */
    at_array o, lse;  /* as they are to be written; data owned */
} at_run_job;

/* Reads every file that the command line names. */
attune_status at_run_gather(const at_cli *cli, at_run_job *job);
/* Derives problem and call from what was gathered and the options, and makes O and LSE. Errors name the file, the
 * field, its value and what was expected. */
attune_status at_run_state(const at_cli *cli, at_run_job *job);
void at_run_free(at_run_job *job);

/* Differences of two results. */
typedef struct at_run_error {
    double max, l2; /* max |a - b|; |a - b| / |b| */
} at_run_error;

/* How the result compares with fp64 and with a given O. */
typedef struct at_run_report {
    int64_t rows, all_rows;     /* rows that were compared with fp64, of how many */
    at_run_error output;        /* attune - fp64 */
    at_run_error given;         /* given - fp64 */
    at_run_error apart;         /* attune - given, over all rows */
    bool compared, judged;      /* which of the above and below are there */
    attune_status verdict;      /* ATTUNE_OK or ATTUNE_WRONG_RESULT */
    char reason[400];           /* why wrong */
    double max_limit, l2_limit; /* what the rules allow */
} at_run_report;

/* Computes the reference (all rows, or seeded ones where the problem is large) and fills the report. `given` may be
 * NULL; `judge` asks for the rules of numbers too. ATTUNE_WRONG_RESULT is not returned but is report->verdict. */
attune_status at_run_compare(const at_cli *cli, at_pool *pool, const at_run_job *job, const at_run_tensor *given,
                             bool judge, bool taints, bool acc16, at_run_report *report);

#endif
