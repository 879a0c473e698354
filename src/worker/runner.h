/* A thread that runs what it is handed: calls of a stranger's code, whose threads are locked more tightly than the one
 * that serves requests. */
#ifndef WORKER_RUNNER_H
#define WORKER_RUNNER_H

#include "attune/attune.h"

typedef struct at_runner at_runner;

attune_status at_runner_create(at_runner **runner);
void at_runner_destroy(at_runner *runner);
/* Runs work(context) there, to its end, and returns what it returns, the detail too; here where `runner` is NULL. One
 * thread asks at a time. */
attune_status at_runner_do(at_runner *runner, attune_status (*work)(void *context), void *context);

#endif
