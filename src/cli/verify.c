/* attune verify: does evidence still hold? */
#include <stdlib.h>

#include "cli/archive.h"
#include "report/verdicts.h"

/* How many of each state; stale ones that a newer verdict took the place of are history. */
typedef struct tally {
    int64_t of[AT_BROKEN + 1], history;
} tally;

static tally count(const at_archive *archive)
{
    tally all = {{0}, 0};
    for (size_t i = 0; i < archive->count; ++i) {
        const at_record *record = &archive->record[i];
        if (record->state == AT_STALE && !record->newest) {
            ++all.history;
        } else {
            ++all.of[record->state];
        }
    }
    return all;
}

static int conclude(const at_cli *cli, const at_archive *archive)
{
    const tally all = count(archive);
    if (archive->count == 0) {
        at_cli_say(cli, "there is no evidence to verify");
        return AT_EXIT_FAILED;
    }
    bool stale_matters = !at_cli_given(cli, "--allow-stale");
    at_cli_say(cli, "%lld fresh, %lld stale, %lld unchecked, %lld broken, %lld superseded", (long long)all.of[AT_FRESH],
               (long long)all.of[AT_STALE], (long long)all.of[AT_UNCHECKED], (long long)all.of[AT_BROKEN],
               (long long)all.history);
    return all.of[AT_BROKEN] > 0 || (stale_matters && all.of[AT_STALE] > 0) ? AT_EXIT_WRONG : AT_EXIT_OK;
}

static int run(const at_cli *cli)
{
    at_archive archive;
    attune_status status = at_cli_archive(cli, false, &archive);
    if (status == ATTUNE_OK) {
        status = at_report_freshness(&archive, at_cli_format(cli), cli->out);
    }
    int code = status == ATTUNE_OK ? conclude(cli, &archive) : at_cli_fail(cli, status);
    at_archive_close(&archive);
    return code;
}

static const at_option options[] = {
    {"--allow-stale", NULL, NULL, "stale verdicts are reported and do not change the exit code"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_verify = {
    .name = "verify",
    .arguments = "[DIR]",
    .summary = "judge recorded evidence again",
    .help = "Reads all evidence below DIR (evidence), or in one file, and says of each verdict whether it is\n"
            "  fresh       the same findings follow from its samples, and today's source, compiled by the compiler\n"
            "              that is recorded, gives code that runs the same; comments and names do not matter\n"
            "  stale       today's source gives other code, or there is no such kernel any more\n"
            "  unchecked   that compiler is not here, or the source was a stranger's\n"
            "  broken      a field or a digest is wrong, or other findings follow from the samples\n"
            "Compiled kernels come from $ATTUNE_CACHE where they are there; empty, everything is compiled anew.\n"
            "\n"
            "The exit code is 1 where a verdict is broken, or where the newest of a kernel, problem and device is\n"
            "stale. Older ones that have become stale are history. It is 3 where there is nothing to verify.\n",
    .examples = "  attune verify\n"
                "  attune verify --allow-stale evidence/NVIDIA_H200\n"
                "  attune verify --format tsv evidence/NVIDIA_H200/tiled.json.gz\n",
    .options = options,
    .common = AT_COMMON_FORMAT,
    .run = run,
};
