/* Runs of searches for code that are gone through again: what was asked, and answers as a proposer. */
#ifndef EVOLVE_CODE_ABOUT_H
#define EVOLVE_CODE_ABOUT_H

#include "evolve/code.h"

/* What a run was asked, as its folder keeps it. */
typedef struct at_code_asked {
    char problems[4096], machine[1024], device[8192], allow[256];
    char first[AT_DIGEST_TEXT_MAX]; /* of its sources, which are among the answers */
    bool cuda, controls, keep_comments, prove, no_repairs;
    int32_t level, tune_runs, proposals;
    double seconds, usd, tokens, all_s, each_s, roof_us;
    uint64_t seed;
} at_code_asked;

attune_status at_code_about_write(const char *folder, const at_code_options *options);
attune_status at_code_about_read(const char *folder, at_code_asked *asked);
/* Puts it into options, whose texts are then those of `asked`. */
void at_code_about_use(const at_code_asked *asked, at_code_options *options);

/* Goes through a run again, without machine or proposer: every decision must be the recorded one. `to` is a folder for
 * the same ledger once more; NULL: none is written. ATTUNE_CORRUPT says where it differs, ATTUNE_NOT_FOUND that the run
 * had no end. */
attune_status at_code_replay(const char *folder, const char *to, const at_code_watch *watch, at_code_result *result);

/* A proposer that answers as another run's did: `--proposer replay:FOLDER`. */
typedef struct at_recorded_proposer {
    const char *folder;
    at_ledger_log *log;
} at_recorded_proposer;

attune_status at_recorded_proposer_open(const char *folder, at_recorded_proposer *proposer);
void at_recorded_proposer_close(at_recorded_proposer *proposer);
at_proposer at_proposer_of_record(at_recorded_proposer *proposer);

#endif
