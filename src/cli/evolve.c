/* attune evolve: finds a faster config, has it proven, and teaches the planner. */
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "base/text.h"
#include "cli/evolve_code.h"
#include "cli/evolve_print.h"
#include "cli/evolve_replay.h"
#include "cli/judging.h"

enum { REFRESH_RUNS = 8, BUDGET_S = 60 };

static const at_option options[] = {
    {"--budget", "BUDGET", NULL,
     "a search's: 10m, 90s, 1h or 200runs; default 60s, of --refresh 8runs; with --proposer each arm's"},
    {"--strategy", "NAME", "surrogate generations random", "how candidates are chosen; default surrogate"},
    {"--fitness", "WHAT", "time composite", "what the strategy goes by; the race goes by time. Default time"},
    {"--exhaustive", NULL, NULL, "every candidate instead of a strategy's, all as carefully: ground truth"},
    {"--refresh", NULL, NULL, "no search: a short race among what is known already, for the wisdom of many problems"},
    {"--seed", "N", NULL, "of the strategy, of inputs and orders; default 1"},
    {"--ledger", "FILE", NULL, "keep every step there; of several problems a directory, one file each"},
    {"--resume", NULL, NULL, "go on with ledgers that are there"},
    {"--one", "CONFIG", NULL, "KERNEL:PARAM=VALUE,...: look at this config alone, against what would run without it"},
    {"--each", NULL, NULL, "print a line for every candidate"},
    {"--no-gate", NULL, NULL, "find, and prove nothing"},
    {"--against", "ARM,...", NULL,
     "peers in the gate: best, cudnn, torch:flash, openblas, a kernel; default: who came second"},
    {"--must", "SHARE", NULL, "pass where the winner takes less than this share of a peer's time; default 0.95"},
    {"--cases", "N", NULL, "cases of the gate's suite; default 100, with --quick 20"},
    {"--quick", NULL, NULL, "a quick gate: a first impression, never enough for wisdom"},
    {"--again", NULL, NULL, "have judged anew what has fresh evidence"},
    {"--evidence", "DIR", NULL, "keep verdicts there"},
    {"--wisdom", "FILE", NULL, "begin with what this file knows, and add proven rows to it"},
    {"--repeat", "N", NULL, "of replay: searches by each strategy, with seeds from --seed on; default 20"},
    {"--blind", NULL, NULL, "of replay: without the kernel's own order of configs"},
    {"--seeds", "FILE", NULL,
     "the file of the tile micro-benchmark; default: in the user's cache; none: there is none"},
    {"--limit", "SECONDS", NULL, "begin nothing that would end later, and say what is left"},
    {"--target", "TARGET", NULL, "cpu, cuda or cuda:N; default: the kernel's"},
    {"--isa", "TIER", "baseline avx2 avx512 avx512_bf16 amx", "highest CPU tier to use"},
    {"--threads", "N", NULL, "CPU threads; default: all this process may use"},
    {"--proposer", "CMD", NULL,
     "search code: a command that reads a task and answers with changed sources; or mutate, replay:DIR"},
    {"--proposals", "N", NULL, "of --proposer, for each arm; default 10"},
    {"--proposer-budget", "LIST", NULL, "of each arm: 2h,5usd,2Mtok; what nobody counts is reckoned from bytes"},
    {"--proposer-time", "SECONDS", NULL, "for one proposal; default 600"},
    {"--proposer-env", "NAME,...", NULL, "variables of the environment that the proposer has"},
    {"--proposer-jail", "KIND", "network closed", "it writes to its folder alone; with the network, or without"},
    {"--level", "LEVEL", "free insight full", "how much the task says; default insight"},
    {"--tune", "N", NULL, "measurements of parameters for each source; default 12"},
    {"--counters", NULL, NULL, "ask ncu about each source that is raced, and say it in tasks; seconds each, CUDA only"},
    {"--no-controls", NULL, NULL, "leave out what the engine is held against"},
    {"--keep-comments", NULL, NULL, "leave comments in the sources of parents/"},
    {"--allow", "WORDS", NULL, "words in sources that are let through, blanks between"},
    {"--output", "DIR", NULL, "where the winner's sources are written; of replay: the ledger once more"},
    {"--worker", "PROGRAM", NULL, "a program that brings arms of its own (attune_worker_serve)"},
    {NULL, NULL, NULL, NULL},
};

/* One run of the verb. */
typedef struct job {
    at_judging of;
    char kernel[AT_KERNEL_TEXT_MAX];
    at_evolve_options evolve;
    at_evolve_printer printer;
} job;

/* ---- The command line -------------------------------------------------------------------------------------------- */

static attune_status read_operands(job *on)
{
    const at_cli *cli = on->of.cli;
    const char *one = at_cli_text(cli, "--one");
    const char *params;
    int first = 0;
    on->evolve.one = one;
    if (one == NULL) {
        AT_FORWARD(at_kernel_text_split(cli->operand[first++], on->kernel, sizeof on->kernel, &params));
        on->evolve.kernel = cli->operand[0];
    } else {
        AT_FORWARD(at_kernel_text_split(one, on->kernel, sizeof on->kernel, &params));
        on->evolve.kernel = on->kernel;
    }
    for (int i = first; i < cli->operand_count; ++i) {
        AT_FORWARD(at_judging_add_problem(&on->of, cli->operand[i]));
    }
    AT_FORWARD(at_judging_default_problem(&on->of));
    on->evolve.problem = on->of.problem;
    on->evolve.problem_count = on->of.problem_count;
    return ATTUNE_OK;
}

/* "10m", "90s", "1h", "200runs". */
static attune_status read_budget_text(const char *text, at_evolve_options *evolve)
{
    static const struct {
        const char *unit;
        double seconds; /* 0: runs */
    } units[] = {{"runs", 0}, {"s", 1}, {"m", 60}, {"h", 3600}};
    char number[32];
    size_t length = strspn(text, "0123456789.");
    for (size_t i = 0; i < sizeof units / sizeof units[0] && length > 0 && length < sizeof number; ++i) {
        double value;
        if (strcmp(text + length, units[i].unit) != 0) {
            continue;
        }
        memcpy(number, text, length);
        number[length] = '\0';
        AT_FORWARD(at_parse_double("--budget", number, &value));
        AT_FAIL_IF(value <= 0 || value > 1e6, ATTUNE_INVALID_ARGUMENT, "--budget %s: above 0, at most 1e6", text);
        bool whole = units[i].seconds > 0 || value == (double)(int)value;
        AT_FAIL_IF(!whole, ATTUNE_INVALID_ARGUMENT, "--budget %s: a whole number of runs is needed", text);
        evolve->budget_s = value * units[i].seconds;
        evolve->budget_runs = units[i].seconds > 0 ? 0 : (int)value;
        return ATTUNE_OK;
    }
    return at_fail(ATTUNE_INVALID_ARGUMENT, "--budget %s: a number and a unit are needed: 10m, 90s, 1h or 200runs",
                   text);
}

static attune_status read_budget(job *on)
{
    const char *text = at_cli_text(on->of.cli, "--budget");
    at_evolve_options *evolve = &on->evolve;
    evolve->budget = text;
    if (text != NULL) {
        return read_budget_text(text, evolve);
    }
    evolve->budget_s = evolve->exhaustive || evolve->refresh ? 0 : BUDGET_S;
    evolve->budget_runs = evolve->refresh ? REFRESH_RUNS : 0;
    evolve->budget = evolve->exhaustive ? "all" : evolve->refresh ? "8runs" : "60s";
    return ATTUNE_OK;
}

/* One config is no search: nothing chooses, and nothing is budgeted. Neither does anything choose for a refresh. */
static attune_status check_modes(const at_cli *cli)
{
    static const char *const of_searches[] = {"--strategy", "--fitness", "--exhaustive",
                                              "--refresh",  "--budget",  "--seeds"};
    enum { CHOOSING = 3 };
    for (size_t i = 0; i < sizeof of_searches / sizeof of_searches[0]; ++i) {
        bool given = at_cli_given(cli, of_searches[i]);
        AT_FAIL_IF(given && at_cli_given(cli, "--one"), ATTUNE_INVALID_ARGUMENT,
                   "--one looks at one config, and searches nothing: %s says nothing to it", of_searches[i]);
        AT_FAIL_IF(given && i < CHOOSING && at_cli_given(cli, "--refresh"), ATTUNE_INVALID_ARGUMENT,
                   "--refresh races what is known already, and searches nothing: %s says nothing to it",
                   of_searches[i]);
    }
    return ATTUNE_OK;
}

static attune_status read_job(job *on)
{
    const at_cli *cli = on->of.cli;
    at_evolve_options *evolve = &on->evolve;
    AT_FORWARD(check_modes(cli));
    evolve->strategy = at_cli_text(cli, "--strategy");
    evolve->fitness = at_cli_evolve_fitness(cli);
    AT_FORWARD(read_operands(on));
    AT_FORWARD(at_judging_read_peers(cli, NULL, &on->of));
    AT_FORWARD(at_judging_read_options(cli, &on->of));
    evolve->gate = on->of.gate;
    evolve->resume = at_cli_given(cli, "--resume");
    evolve->exhaustive = at_cli_given(cli, "--exhaustive");
    evolve->refresh = at_cli_given(cli, "--refresh");
    evolve->prove = !at_cli_given(cli, "--no-gate") && evolve->one == NULL;
    AT_FORWARD(read_budget(on));
    evolve->ledger = at_cli_text(cli, "--ledger");
    evolve->wisdom = at_cli_text(cli, "--wisdom");
    evolve->seeds = at_cli_text(cli, "--seeds");
    return ATTUNE_OK;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static int run_job(at_judging *of)
{
    job *on = (job *)of;
    at_evolve_result result = {0};
    attune_status status = read_job(on);
    if (status != ATTUNE_OK) {
        return at_cli_usage(on->of.cli, "%s", attune_last_detail());
    }
    at_evolve_printer_start(&on->printer, on->of.cli, on->kernel, at_cli_given(on->of.cli, "--each"),
                            &on->evolve.watch);
    status = at_evolve_run(&on->evolve, &result);
    attune_status printed = at_evolve_printer_end(&on->printer, &result);
    return at_judging_end(on->of.cli, status, printed, result.begun, result.exit_code);
}

/* What belongs to one kind of search says nothing to the other. */
static attune_status check_kinds(const at_cli *cli)
{
    static const char *const of_parameters[] = {"--one",     "--exhaustive", "--refresh", "--seeds",
                                                "--fitness", "--wisdom",     "--each"};
    static const char *const of_code[] = {"--proposals",     "--proposer-budget", "--proposer-time", "--proposer-env",
                                          "--proposer-jail", "--level",           "--tune",          "--no-controls",
                                          "--keep-comments", "--allow",           "--counters"};
    const bool code = at_cli_given(cli, "--proposer");
    for (size_t i = 0; code && i < sizeof of_parameters / sizeof of_parameters[0]; ++i) {
        AT_FAIL_IF(at_cli_given(cli, of_parameters[i]), ATTUNE_INVALID_ARGUMENT,
                   "--proposer searches code: %s says nothing to it", of_parameters[i]);
    }
    for (size_t i = 0; !code && i < sizeof of_code / sizeof of_code[0]; ++i) {
        AT_FAIL_IF(at_cli_given(cli, of_code[i]), ATTUNE_INVALID_ARGUMENT,
                   "%s belongs to a search for code: --proposer names who proposes it", of_code[i]);
    }
    const char *colon = code && cli->operand_count > 0 ? strrchr(cli->operand[0], ':') : NULL;
    AT_FAIL_IF(colon != NULL && strchr(colon, '=') != NULL, ATTUNE_INVALID_ARGUMENT,
               "%s: parameters are searched for each source anew; without them is needed", cli->operand[0]);
    return ATTUNE_OK;
}

static attune_status read_code(at_judging *of)
{
    for (int i = 1; i < of->cli->operand_count; ++i) {
        AT_FORWARD(at_judging_add_problem(of, of->cli->operand[i]));
    }
    AT_FORWARD(at_judging_default_problem(of));
    AT_FORWARD(at_judging_read_peers(of->cli, NULL, of));
    return at_judging_read_options(of->cli, of);
}

/* A search for code. */
static int run_code(at_judging *of)
{
    int exit_code = AT_EXIT_FAILED;
    attune_status status = read_code(of);
    if (status != ATTUNE_OK) {
        return at_cli_usage(of->cli, "%s", attune_last_detail());
    }
    status = at_cli_evolve_code(of, &exit_code);
    return status == ATTUNE_OK ? exit_code : at_cli_fail(of->cli, status);
}

/* Whether `replay` is asked of a run of a search for code: a folder. */
static bool is_code_run(const at_cli *cli)
{
    struct stat about;
    return cli->operand_count == 2 && stat(cli->operand[1], &about) == 0 && S_ISDIR(about.st_mode);
}

static int run(const at_cli *cli)
{
    if (cli->operand_count == 0 && !at_cli_given(cli, "--one")) {
        return at_cli_usage(cli, "a kernel is needed: attune info lists them");
    }
    if (cli->operand_count > 0 && strcmp(cli->operand[0], "replay") == 0) {
        return is_code_run(cli) ? at_cli_evolve_code_replay(cli, cli->operand[1]) : at_cli_evolve_replay(cli);
    }
    if (at_cli_given(cli, "--repeat") || at_cli_given(cli, "--blind")) {
        return at_cli_usage(cli, "%s belongs to `attune evolve replay`",
                            at_cli_given(cli, "--repeat") ? "--repeat" : "--blind");
    }
    if (check_kinds(cli) != ATTUNE_OK) {
        return at_cli_usage(cli, "%s", attune_last_detail());
    }
    if (at_cli_given(cli, "--proposer") && cli->operand_count > 0) {
        return at_judging_run(cli, sizeof(at_judging), run_code);
    }
    return at_judging_run(cli, sizeof(job), run_job);
}

const at_verb at_verb_evolve = {
    .name = "evolve",
    .arguments = "KERNEL[:PARAM=VALUE,...] [PROBLEM...]",
    .summary = "find a faster config of a kernel, and prove it",
    .help =
        "Searches a kernel's parameters, but for those that are given, on each problem (without one:\n"
        "b1,h8,s512,d64,fp16). Candidates are compiled ahead,\n"
        "raced against the live champion, and the best once more in fresh processes; what wins is put through the "
        "gate,\n"
        "and becomes a row of wisdom with --wisdom. Ties within 2 % are ties: luck is no gain, and \"no gain\" is an "
        "answer.\n"
        "Every search looks at itself: a copy of the champion must tie, a wrong kernel must be rejected, what is "
        "timed\n"
        "must be what was compiled. One that does not pass is void, and says nothing else.\n"
        "\n"
        "attune evolve replay LEDGER... runs strategies (or the one named) on what exhaustive searches recorded, and\n"
        "shows how near to the optimum they come: no device, no clock.\n"
        "\n"
        "With --proposer CMD it searches code: CMD reads a task and answers with changed sources, in a private "
        "folder;\n"
        "what it answers is compiled, checked, tuned and raced, and the winner put through the gate. It runs with "
        "your\n"
        "rights (--proposer-jail takes most of them away). docs/proposers.md is the guide. `replay FOLDER` goes "
        "through\n"
        "a recorded run again, without timing anything.\n"
        "\n"
        "Exit codes: 0 searched, and what was found is right, 1 it is wrong, or all is done and slower than a named "
        "peer,\n"
        "3 could not run, 4 void, not proven or unfinished, 64 the command line, 130 interrupted (--resume goes "
        "on).\n",
    .examples = "  attune evolve cpu_tiled b1,h8,s512,d64,fp32 --budget 30s --wisdom my.wisdom\n"
                "  attune evolve wmma --budget 200runs --ledger wmma.jsonl\n"
                "  attune evolve cpu_tiled b1,h2,s128,d64,fp32 --exhaustive --ledger all.jsonl\n"
                "  attune evolve replay all.jsonl --strategy random\n"
                "  attune evolve --one cpu_tiled:BLOCK_M=64,BLOCK_N=48 b1,h8,s512,d64,fp32\n"
                "  attune evolve ./mine b1,h8,s512,d64,fp32 --proposer './my-cli' --ledger run --output better\n"
                "  attune evolve replay run\n"
                "  attune evolve wgmma --refresh --against cudnn,torch:flash --evidence evidence --limit 500 "
                "PROBLEM...\n",
    .options = options,
    .common = AT_COMMON_FORMAT,
    .run = run,
};
