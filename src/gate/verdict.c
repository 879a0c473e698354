#include "gate/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- Names ------------------------------------------------------------------------------------------------------- */

const char *at_stage_name(at_stage stage)
{
    static const char *const names[AT_STAGE_COUNT] = {"build", "launch", "sanity", "correctness", "speed"};
    return names[stage];
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

attune_status at_verdict_create(at_verdict **verdict)
{
    *verdict = calloc(1, sizeof **verdict);
    AT_FAIL_IF(*verdict == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a verdict of %zu bytes", sizeof **verdict);
    return ATTUNE_OK;
}

static void free_blocks(at_process_record *process)
{
    for (int arm = 0; arm < AT_VERDICT_ARMS; ++arm) {
        free(process->us[arm]);
        process->us[arm] = NULL;
    }
    free(process->sm_mhz);
    free(process->dropped);
    process->sm_mhz = NULL;
    process->dropped = NULL;
    process->blocks = 0;
}

static void free_processes(at_mode_record *mode)
{
    for (int32_t i = 0; i < mode->process_count; ++i) {
        free_blocks(&mode->process[i]);
    }
    free(mode->process);
    mode->process = NULL;
    mode->process_count = 0;
}

void at_verdict_destroy(at_verdict *verdict)
{
    for (int mode = 0; verdict != NULL && mode < AT_VERDICT_MODES; ++mode) {
        free_processes(&verdict->mode[mode]);
    }
    free(verdict);
}

attune_status at_verdict_processes(at_mode_record *mode, int32_t count)
{
    free_processes(mode);
    mode->process = calloc((size_t)count + 1, sizeof *mode->process);
    AT_FAIL_IF(mode->process == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the records of %d processes", count);
    mode->process_count = count;
    return ATTUNE_OK;
}

attune_status at_verdict_blocks(at_process_record *process, int64_t blocks, uint32_t arms)
{
    size_t count = (size_t)blocks;
    free_blocks(process);
    bool complete = (process->sm_mhz = calloc(count + 1, sizeof *process->sm_mhz)) != NULL &&
                    (process->dropped = calloc(count + 1, sizeof *process->dropped)) != NULL;
    for (int arm = 0; arm < AT_VERDICT_ARMS && complete; ++arm) {
        if (arms >> arm & 1U) {
            process->us[arm] = calloc(2 * count + 1, sizeof *process->us[arm]);
            complete = process->us[arm] != NULL;
        }
    }
    if (!complete) {
        free_blocks(process);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for the samples of %lld blocks", (long long)blocks);
    }
    process->blocks = blocks;
    return ATTUNE_OK;
}
