#include "cli/judging.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cli/python.h"
#include "worker/arms.h"

static const char default_problem[] = "b1,h8,s512,d64,fp16";

bool at_judging_is_problem(const char *text)
{
    attune_problem problem;
    return attune_problem_parse(text, &problem) == ATTUNE_OK ||
           (strchr(text, ',') != NULL && strchr(text, ':') == NULL && strchr(text, '/') == NULL);
}

attune_status at_judging_add_problem(at_judging *on, const char *text)
{
    AT_FAIL_IF(on->problem_count == AT_MANY, ATTUNE_INVALID_ARGUMENT, "more than %d problems", AT_MANY);
    attune_status status = at_test_problem_parse(text, &on->problem[on->problem_count++]);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "problem \"%s\"", text);
}

attune_status at_judging_default_problem(at_judging *on)
{
    return on->problem_count > 0 ? ATTUNE_OK : at_judging_add_problem(on, default_problem);
}

/* Splits "cudnn,tiled:BLOCK_M=64,BLOCK_N=32,torch:flash": a piece with a "=" goes on with the arm before it. */
attune_status at_judging_read_peers(const at_cli *cli, const char *fallback, at_judging *on)
{
    const char *given = at_cli_text(cli, "--against");
    const char *list = given == NULL ? fallback : given;
    if (list == NULL) {
        return ATTUNE_OK;
    }
    on->gate.peer = on->peer;
    on->peers = strdup(list);
    AT_FAIL_IF(on->peers == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the peers");
    for (char *at = on->peers; at != NULL;) {
        char *end = at + at_arm_name_length(at);
        AT_FAIL_IF(end == at, ATTUNE_INVALID_ARGUMENT, "--against %s: a name is missing", list);
        AT_FAIL_IF(on->gate.peer_count == AT_MANY, ATTUNE_INVALID_ARGUMENT, "--against: more than %d peers", AT_MANY);
        on->peer[on->gate.peer_count++] = at;
        at = *end == '\0' ? NULL : end + 1;
        *end = '\0';
    }
    return ATTUNE_OK;
}

static void choose_workers(const at_cli *cli, at_judging *on)
{
    const char *program = at_cli_text(cli, "--worker");
    on->worker[0] = program != NULL ? program : "/proc/self/exe";
    on->worker[1] = program != NULL ? NULL : "worker";
    at_cli_python_worker(on->python);
    on->gate.worker = on->worker;
    on->gate.own_arms = program != NULL;
    on->gate.python = on->python;
}

attune_status at_judging_read_options(const at_cli *cli, at_judging *on)
{
    enum { CASES = 100, CASES_QUICK = 20 };
    at_gate_options *gate = &on->gate;
    int64_t seed, threads;
    gate->quick = at_cli_given(cli, "--quick");
    gate->again = at_cli_given(cli, "--again");
    AT_FORWARD(at_cli_number(cli, "--must", 0.01, 100, 0.95, &gate->must));
    AT_FORWARD(at_cli_number(cli, "--limit", 1, 1e6, 0, &gate->limit_s));
    AT_FORWARD(at_cli_integer(cli, "--cases", 1, 1000000, gate->quick ? CASES_QUICK : CASES, &gate->cases));
    AT_FORWARD(at_cli_integer(cli, "--seed", 0, INT64_MAX, 1, &seed));
    AT_FORWARD(at_cli_integer(cli, "--threads", 1, 1024, 0, &threads));
    gate->seed = (uint64_t)seed;
    gate->threads = (int)threads;
    gate->evidence = at_cli_text(cli, "--evidence");
    gate->target = at_cli_text(cli, "--target");
    gate->isa = at_cli_text(cli, "--isa");
    choose_workers(cli, on);
    return ATTUNE_OK;
}

int at_judging_run(const at_cli *cli, size_t bytes, int (*work)(at_judging *on))
{
    at_judging *on = calloc(1, bytes);
    if (on == NULL) {
        at_cli_say(cli, "out of memory");
        return AT_EXIT_FAILED;
    }
    on->cli = cli;
    int code = work(on);
    free(on->peers);
    free(on);
    return code;
}

int at_judging_end(const at_cli *cli, attune_status status, attune_status printed, bool begun, int exit_code)
{
    const attune_status worst = status == ATTUNE_OK ? printed : status;
    bool named = worst == ATTUNE_NOT_FOUND || worst == ATTUNE_INVALID_ARGUMENT || worst == ATTUNE_INVALID_PROBLEM ||
                 worst == ATTUNE_CORRUPT;
    if (worst == ATTUNE_OK) {
        return exit_code;
    }
    int code = at_cli_fail(cli, worst);
    return code == AT_EXIT_INTERRUPTED ? code : named && !begun ? AT_EXIT_USAGE : AT_EXIT_FAILED;
}
