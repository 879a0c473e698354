/* attune ratchet: kernels do not get worse unseen. */
#include "evidence/ratchet.h"
#include "base/status.h"
#include "cli/archive.h"
#include "evidence/prune.h"

static void print_slip(const at_slip *slip, FILE *out)
{
    const at_verdict *now = slip->newest->entry->verdict, *then = slip->best->entry->verdict;
    (void)fprintf(out, "%s on %s, %s\n", now->kernel, now->problem, now->target.model);
    if (slip->peer[0] == '\0') {
        (void)fprintf(out, "  %s: right: %s\n  %s, %s: right: pass\n", now->when, at_outcome_name(now->right),
                      then->when, then->kernel);
        return;
    }
    (void)fprintf(out, "  %s: %.4f (%.4f ... %.4f) times as fast as %s, %s\n", now->when, slip->now.middle,
                  slip->now.low, slip->now.high, slip->peer, at_mode_name(slip->mode));
    (void)fprintf(out, "  %s, %s: %.4f (%.4f ... %.4f)\n", then->when, then->kernel, slip->then.middle, slip->then.low,
                  slip->then.high);
    (void)fprintf(out, "  worse by %.1f %%: ", 100 * (slip->then.middle / slip->now.middle - 1));
    if (slip->unchanged < 2) {
        (void)fprintf(out,
                      "the intervals do not touch; nothing was timed in both that would show how sessions differ\n");
        return;
    }
    (void)fprintf(out, "the intervals are further apart than sessions differ, %.1f %% by %d unchanged arms\n",
                  100 * (slip->reach - 1), slip->unchanged);
}

static void print_excuse(const at_slip *slip, FILE *out)
{
    const at_verdict *now = slip->newest->entry->verdict;
    (void)fprintf(out,
                  "excused: %s on %s, %s, against %s, %s: worse by %.1f %%; sessions differ by %.1f %% by %d unchanged "
                  "arms\n",
                  now->kernel, now->problem, now->target.model, slip->peer, at_mode_name(slip->mode),
                  100 * (slip->then.middle / slip->now.middle - 1), 100 * (slip->reach - 1), slip->unchanged);
}

static attune_status prune(const at_cli *cli, const at_archive *archive)
{
    size_t removed;
    AT_FORWARD(at_archive_prune(archive, &removed));
    at_cli_say(cli, "%zu of %zu verdicts removed: neither the newest nor the best of their kind", removed,
               archive->count);
    return ATTUNE_OK;
}

static attune_status look(const at_cli *cli, at_ratchet *ratchet)
{
    at_archive archive;
    attune_status status = at_cli_archive(cli, true, &archive);
    if (status == ATTUNE_OK) {
        status = at_ratchet_run(&archive, ratchet);
    }
    for (size_t i = 0; i < ratchet->count && status == ATTUNE_OK; ++i) {
        print_slip(&ratchet->slip[i], cli->out);
    }
    for (size_t i = 0; i < ratchet->excused && status == ATTUNE_OK; ++i) {
        print_excuse(&ratchet->excuse[i], cli->out);
    }
    if (status == ATTUNE_OK && at_cli_given(cli, "--prune")) {
        status = prune(cli, &archive);
    }
    at_archive_close(&archive);
    return status;
}

static int run(const at_cli *cli)
{
    at_ratchet ratchet = {0};
    attune_status status = look(cli, &ratchet);
    size_t slips = ratchet.count;
    if (status == ATTUNE_OK) {
        at_cli_say(cli,
                   "%lld newest verdicts have earlier ones; %zu comparisons show them worse, %zu more by no more "
                   "than sessions differ",
                   (long long)ratchet.compared, slips, ratchet.excused);
    }
    at_ratchet_free(&ratchet);
    return status != ATTUNE_OK ? at_cli_fail(cli, status) : slips > 0 ? AT_EXIT_WRONG : AT_EXIT_OK;
}

static const at_option options[] = {
    {"--prune", NULL, NULL, "remove verdicts that no later comparison needs: neither newest nor best"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_ratchet = {
    .name = "ratchet",
    .arguments = "[DIR]",
    .summary = "fail where newer evidence is worse than older",
    .help = "Holds the newest verdict of each kernel, problem and device below DIR (evidence) against the best one\n"
            "before it: the exit code is 1 where its ratio to a peer, warm or cold, is worse by more than the\n"
            "intervals allow, and than unchanged arms differ between the two sessions (5 % at most; what that\n"
            "excuses is listed), or where it is no longer right. A peer counts as the same where it gives the same\n"
            "account of itself: a newer cuDNN is another peer. Broken verdicts do not count, nor those\n"
            "that were quick or asked for less than 100 cases and r of 1 / 0.95.\n",
    .examples = "  attune ratchet\n"
                "  attune ratchet --prune evidence/NVIDIA_H200\n",
    .options = options,
    .common = 0,
    .run = run,
};
