/* attune gate: is a kernel right, and really faster? */

#include "gate/gate.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/gate_print.h"
#include "cli/judging.h"

static const at_option options[] = {
    {"--against", "ARM,...", NULL,
     "peers: best, cudnn, torch:flash, openblas, a kernel, py:FILE:FUNCTION; default best"},
    {"--must", "SHARE", NULL, "pass where the candidate takes less than this share of a peer's time; default 0.95"},
    {"--cases", "N", NULL, "cases of the suite; default 100, with --quick 20"},
    {"--seed", "N", NULL, "of cases, inputs and orders; default 1"},
    {"--quick", NULL, NULL, "a first impression in seconds: marked so, and never enough for wisdom"},
    {"--evidence", "DIR", NULL, "keep verdicts there, and pass over what has a fresh one already"},
    {"--again", NULL, NULL, "judge anew what has fresh evidence"},
    {"--limit", "SECONDS", NULL, "begin nothing that would end later, and say what is left"},
    {"--wisdom", "FILE", NULL, "add proven rows for those who are right and fastest of their problem"},
    {"--sanitize", NULL, NULL, "small cases below compute-sanitizer; with --evidence ours have them anyway"},
    {"--counters", NULL, NULL, "ask the hardware's counters (ncu) what keeps a candidate busy"},
    {"--target", "TARGET", NULL, "cpu, cuda or cuda:N; default: the candidates'"},
    {"--isa", "TIER", "baseline avx2 avx512 avx512_bf16 amx", "highest CPU tier to use"},
    {"--threads", "N", NULL, "CPU threads; default: all this process may use"},
    {"--worker", "PROGRAM", NULL, "a program that brings arms of its own (attune_worker_serve)"},
    {NULL, NULL, NULL, NULL},
};

/* One run of the verb. */
typedef struct job {
    at_judging of;
    const char *candidate[AT_MANY];
    at_gate_printer printer;
} job;

/* ---- The command line ------------------------------------------------------------------------------------------- */

/* Problems are lists of terms; a candidate is a name, a name with parameters behind a colon, or a directory. */
static attune_status read_operands(job *on)
{
    const at_cli *cli = on->of.cli;
    for (int i = 0; i < cli->operand_count; ++i) {
        if (at_judging_is_problem(cli->operand[i])) {
            AT_FORWARD(at_judging_add_problem(&on->of, cli->operand[i]));
        } else {
            AT_FAIL_IF(on->of.gate.candidate_count == AT_MANY, ATTUNE_INVALID_ARGUMENT, "more than %d candidates",
                       AT_MANY);
            on->candidate[on->of.gate.candidate_count++] = cli->operand[i];
        }
    }
    AT_FORWARD(at_judging_default_problem(&on->of));
    on->of.gate.candidate = on->candidate;
    on->of.gate.problem = on->of.problem;
    on->of.gate.problem_count = on->of.problem_count;
    return ATTUNE_OK;
}

static attune_status read_job(job *on)
{
    const at_cli *cli = on->of.cli;
    AT_FORWARD(read_operands(on));
    AT_FORWARD(at_judging_read_peers(cli, "best", &on->of));
    AT_FORWARD(at_judging_read_options(cli, &on->of));
    on->of.gate.counters = at_cli_given(cli, "--counters");
    on->of.gate.sanitize = at_cli_given(cli, "--sanitize");
    on->of.gate.wisdom = at_cli_text(cli, "--wisdom");
    return ATTUNE_OK;
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

static int run_job(at_judging *of)
{
    job *on = (job *)of;
    at_gate_result result = {0};
    attune_status status = read_job(on);
    if (status != ATTUNE_OK) {
        return at_cli_usage(on->of.cli, "%s", attune_last_detail());
    }
    at_gate_printer_start(&on->printer, on->of.cli, &on->of.gate.watch);
    status = at_gate_run(&on->of.gate, &result);
    attune_status printed = at_gate_printer_end(&on->printer, &result);
    return at_judging_end(on->of.cli, status, printed, result.begun, result.exit_code);
}

static int run(const at_cli *cli)
{
    if (cli->operand_count == 0) {
        return at_cli_usage(cli, "a candidate is needed: a kernel's name, NAME:PARAM=VALUE,..., or a directory");
    }
    return at_judging_run(cli, sizeof(job), run_job);
}

const at_verb at_verb_gate = {
    .name = "gate",
    .arguments = "CANDIDATE... [PROBLEM...]",
    .summary = "judge a kernel: right, and really faster?",
    .help = "Takes each candidate through build, launch, sanity, correctness and speed, on each problem (without one:\n"
            "b1,h8,s512,d64,fp16), and gives two findings, right and faster. A candidate is a kernel's name,\n"
            "NAME:PARAM=VALUE,... or a directory with a stranger's source and descriptor. Nothing of it runs in this\n"
            "process: what crashes or hangs is ended and reported.\n"
            "\n"
            "Faster is judged against each peer by itself: r = the peer's time / the candidate's. It passes where the "
            "95 %\n"
            "interval of r over at least 8 fresh processes lies above 1 / SHARE, warm, and the cold median r is at "
            "least 1.\n"
            "`best` means all of PyTorch's back ends that run.\n"
            "\n"
            "Exit codes: 0 right and faster, 1 one of them failed, 2 inconclusive, 3 could not run,\n"
            "4 unfinished (--limit; the same command goes on), 64 the command line, 130 interrupted.\n",
    .examples =
        "  attune gate wmma --against cudnn,torch:flash\n"
        "  attune gate cpu_tiled b1,h4,s256,d64,fp32 --against openblas --quick\n"
        "  attune gate tiled wmma b1,h8,s512,d64,fp16 b4,h16,s2048,d128,bf16,causal --evidence evidence --limit 500\n",
    .options = options,
    .common = AT_COMMON_FORMAT,
    .run = run,
};
