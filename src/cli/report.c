/* attune report: tables of recorded evidence, and what a search's ledger holds. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cli/archive.h"
#include "report/code.h"
#include "report/evidence.h"
#include "report/search.h"
#include "report/verdicts.h"

static bool wants_page(const at_cli *cli)
{
    const char *format = at_cli_text(cli, "--format");
    return format != NULL && strcmp(format, "html") == 0;
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static bool names_ledger(const at_cli *cli)
{
    return cli->operand_count == 1 && (ends_with(cli->operand[0], ".jsonl") || ends_with(cli->operand[0], ".jsonl.gz"));
}

static void write_page(const at_cli *cli, char *page, size_t bytes)
{
    (void)fwrite(page, 1, bytes, cli->out);
    free(page);
}

static attune_status write_search(const at_cli *cli, const at_ledger_log *log)
{
    char *page;
    size_t bytes;
    if (at_report_is_code(log)) {
        AT_FORWARD(at_report_code_page(log, &page, &bytes)); /* there is no other form */
        write_page(cli, page, bytes);
        return ATTUNE_OK;
    }
    if (!wants_page(cli)) {
        return at_report_search(log, at_cli_format(cli), cli->out);
    }
    AT_FORWARD(at_report_search_page(log, &page, &bytes));
    write_page(cli, page, bytes);
    return ATTUNE_OK;
}

static attune_status write_evidence(const at_cli *cli, const at_archive *archive)
{
    unsigned which =
        (at_cli_given(cli, "--all") ? AT_REPORT_ALL : 0U) | (at_cli_given(cli, "--earnest") ? AT_REPORT_EARNEST : 0U);
    char *page;
    size_t bytes;
    if (!wants_page(cli)) {
        return at_report_verdicts(archive, which, at_cli_format(cli), cli->out);
    }
    AT_FORWARD(at_report_evidence_page(archive, which, &page, &bytes));
    write_page(cli, page, bytes);
    return ATTUNE_OK;
}

static int report_search(const at_cli *cli)
{
    at_ledger_log *log;
    attune_status status = at_ledger_read(cli->operand[0], &log);
    if (status == ATTUNE_OK) {
        status = write_search(cli, log);
    }
    at_ledger_free(log);
    return status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
}

/* Names what is left out of a report; false where that is all there was. */
static bool say_broken(const at_cli *cli, const at_archive *archive)
{
    size_t broken = 0;
    for (size_t i = 0; i < archive->count; ++i) {
        if (archive->record[i].state == AT_BROKEN) {
            at_cli_say(cli, "broken: %s", archive->record[i].why);
            ++broken;
        }
    }
    return broken == 0 || broken < archive->count;
}

static int run(const at_cli *cli)
{
    if (names_ledger(cli)) {
        return report_search(cli);
    }
    at_archive archive;
    attune_status status = at_cli_archive(cli, true, &archive);
    if (status == ATTUNE_OK) {
        status = write_evidence(cli, &archive);
    }
    bool some = status == ATTUNE_OK && say_broken(cli, &archive);
    at_archive_close(&archive);
    return status != ATTUNE_OK ? at_cli_fail(cli, status) : some ? AT_EXIT_OK : AT_EXIT_USAGE;
}

static const at_option options[] = {
    {"--format", "FORMAT", "text tsv json html", "text (for people, the default), tsv, json, or html, one page"},
    {"--all", NULL, NULL, "also verdicts that a newer one of the same kernel, problem and device superseded"},
    {"--earnest", NULL, NULL, "no verdicts that asked for less than 100 cases and r of 1 / 0.95, or were quick"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_report = {
    .name = "report",
    .arguments = "[DIR|LEDGER]",
    .summary = "tables of recorded evidence, and what a search saw",
    .help = "Prints the evidence below DIR (evidence), or in one file: for each device and problem the kernels beside\n"
            "their peers, then what was found wrong, and what the session's controls showed. Ratios are the peer's\n"
            "time / the kernel's: above 1 the kernel is faster; `from` and `to` are the 95 % interval.\n"
            "\n"
            "As tsv or json, one row a peer and mode with the columns device, problem, kernel, config, peer, mode,\n"
            "ratio, lo, hi, candidate_us, peer_us, tflops, right, faster, state. `state` is what attune verify says.\n"
            "As html a page in one file: speed against length, a roofline, distributions, and the tables.\n"
            "\n"
            "Of a search's ledger, FILE.jsonl or FILE.jsonl.gz, the candidates that were looked at, the fastest\n"
            "first; as html a page in one file: best so far (of every strategy, where the whole space is known),\n"
            "which parameters matter, the fastest, and what was refused and why.\n",
    .examples = "  attune report\n"
                "  attune report --format tsv evidence/NVIDIA_H200 > h200.tsv\n"
                "  attune report --all evidence/NVIDIA_H200/tiled.json.gz\n"
                "  attune report evidence/NVIDIA_H200 --format html > h200.html\n"
                "  attune report search.jsonl --format html > search.html\n",
    .options = options,
    .common = 0,
    .run = run,
};
