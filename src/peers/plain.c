#include "peers/plain.h"

bool at_plain(const attune_problem *problem, const char *why, attune_reason *reason)
{
    const struct {
        bool asked;
        const char *what;
    } features[] = {
        {problem->op != ATTUNE_FORWARD, "an operation other than fwd"},
        {problem->page_size > 0, "page"},
        {problem->draft_mask != 0, "draft"},
        {problem->varlen != 0, "varlen"},
        {problem->seqused_kv != 0, "seqused"},
        {problem->softcap > 0, "softcap"},
        {problem->bias != ATTUNE_BIAS_NONE, "bias"},
        {problem->mask != 0, "mask"},
        {problem->alibi != 0, "alibi"},
        {problem->sink != 0, "sink"},
        {problem->strict != 0, "strict"},
    };
    for (size_t i = 0; i < sizeof features / sizeof features[0]; ++i) {
        if (features[i].asked) {
            return attune_refuse(reason, "%s: %s", features[i].what, why);
        }
    }
    return true;
}
