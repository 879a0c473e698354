/* attune report: tables of recorded evidence. */
#include "cli/archive.h"
#include "report/verdicts.h"

static int run(const at_cli *cli)
{
    at_archive archive;
    unsigned which =
        (at_cli_given(cli, "--all") ? AT_REPORT_ALL : 0U) | (at_cli_given(cli, "--earnest") ? AT_REPORT_EARNEST : 0U);
    attune_status status = at_cli_archive(cli, &archive);
    if (status == ATTUNE_OK) {
        status = at_report_verdicts(&archive, which, at_cli_format(cli), cli->out);
    }
    for (size_t i = 0; i < archive.count; ++i) {
        if (archive.record[i].standing == AT_BROKEN) {
            at_cli_say(cli, "broken: %s", archive.record[i].why);
        }
    }
    at_archive_close(&archive);
    return status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
}

static const at_option options[] = {
    {"--all", NULL, NULL, "also verdicts that a newer one of the same kernel, problem and device superseded"},
    {"--earnest", NULL, NULL, "no verdicts that asked for less than 100 cases and r of 1 / 0.95, or were quick"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_report = {
    .name = "report",
    .arguments = "[DIR]",
    .summary = "tables of recorded evidence",
    .help = "Prints the evidence below DIR (evidence), or in one file: for each device and problem the kernels beside\n"
            "their peers, then what was found wrong, and what the session's controls showed. Ratios are the peer's\n"
            "time / the kernel's: above 1 the kernel is faster; `from` and `to` are the 95 % interval.\n"
            "\n"
            "As tsv or json, one row a peer and mode with the columns device, problem, kernel, config, peer, mode,\n"
            "ratio, lo, hi, candidate_us, peer_us, tflops, right, faster, state. `state` is what attune verify says.\n",
    .examples = "  attune report\n"
                "  attune report --format tsv evidence/NVIDIA_H200 > h200.tsv\n"
                "  attune report --all evidence/NVIDIA_H200/tiled.json\n",
    .options = options,
    .common = AT_COMMON_FORMAT,
    .run = run,
};
