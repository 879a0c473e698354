#include "measure/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

const char *at_mode_name(at_mode mode)
{
    static const char *const names[AT_MODE_COUNT] = {"warm", "cold", "rested"};
    return names[mode];
}

bool at_block_counts(const at_block *block)
{
    return (block->throttle & ~(unsigned)(AT_THROTTLE_POWER | AT_THROTTLE_COMPANY)) == 0;
}

/* ---- Policy ------------------------------------------------------------------------------------------------------ */

void at_session_policy_init(at_session_policy *policy, uint64_t seed)
{
    *policy = (at_session_policy){.processes = 8,
                                  .warmup_s = 1,
                                  .warmup_max_s = 5,
                                  .drift = 0.005,
                                  .sustained_s = 2,
                                  .modes = 1U << AT_MODE_WARM | 1U << AT_MODE_COLD,
                                  .must = 0.95,
                                  .hopeless = 1.5,
                                  .hopeless_pairs = 20,
                                  .dropped_most = 0.1,
                                  .seed = seed,
                                  .twin_by_reach = true};
}

void at_session_policy_quick(at_session_policy *policy, uint64_t seed)
{
    at_session_policy_init(policy, seed);
    policy->processes = 3;
    policy->pairs = 40;
    policy->warmup_s = 0.2;
    policy->warmup_max_s = 0.5;
    policy->sustained_s = 0;
    policy->quick = true;
}

int at_session_pairs(const at_session_policy *policy, at_mode mode, double peer_us)
{
    static const int most[AT_MODE_COUNT] = {[AT_MODE_WARM] = INT32_MAX, [AT_MODE_COLD] = 50, [AT_MODE_RESTED] = 40};
    const bool by_interval = mode == AT_MODE_WARM || (mode == AT_MODE_COLD && policy->cold_decides);
    static const struct {
        double us;
        int pairs;
    } sizes[] = {{20, 400}, {200, 200}, {2000, 100}, {10000, 40}};
    int pairs = 20;
    for (size_t i = sizeof sizes / sizeof sizes[0]; i-- > 0;) {
        pairs = peer_us <= sizes[i].us ? sizes[i].pairs : pairs;
    }
    pairs = policy->pairs > 0 ? policy->pairs : by_interval ? pairs : pairs / 4;
    return pairs > most[mode] && !by_interval ? most[mode] : pairs;
}

static attune_status check_policy(const at_session_policy *policy)
{
    AT_FAIL_IF(policy->processes < 2 || policy->processes > AT_SESSION_PROCESSES_MAX, ATTUNE_INVALID_ARGUMENT,
               "processes %d: 2 to %d are needed", policy->processes, AT_SESSION_PROCESSES_MAX);
    AT_FAIL_IF(policy->pairs < 0 || policy->pairs > 100000, ATTUNE_INVALID_ARGUMENT,
               "pairs %d: 0 (by the peer's time) to 100000 are allowed", policy->pairs);
    AT_FAIL_IF(!(policy->must > 0) || !(policy->must <= 100), ATTUNE_INVALID_ARGUMENT,
               "must %g: more than 0 and at most 100 is needed", policy->must);
    AT_FAIL_IF(!(policy->warmup_s >= 0) || !(policy->warmup_max_s >= policy->warmup_s), ATTUNE_INVALID_ARGUMENT,
               "warm-up of %g to %g s: 0 or more, and no less than the least, is needed", policy->warmup_s,
               policy->warmup_max_s);
    AT_FAIL_IF((policy->modes & 1U << AT_MODE_WARM) == 0 || policy->modes >> AT_MODE_COUNT != 0,
               ATTUNE_INVALID_ARGUMENT, "modes 0x%x: warm is always needed, and there are %d", policy->modes,
               AT_MODE_COUNT);
    return ATTUNE_OK;
}

/* ---- Arms -------------------------------------------------------------------------------------------------------- */

static attune_status check_arms(const at_session_part *arms, int count)
{
    int parts[AT_PART_TWIN + 1] = {0};
    AT_FAIL_IF(count < 2 || count > AT_SESSION_ARMS_MAX, ATTUNE_INVALID_ARGUMENT, "%d arms: 2 to %d can be timed",
               count, AT_SESSION_ARMS_MAX);
    for (int i = 0; i < count; ++i) {
        bool twin = arms[i].part == AT_PART_TWIN;
        bool valid = arms[i].twin_of >= 0 && arms[i].twin_of < count && arms[i].twin_of != i;
        AT_FAIL_IF(twin && !valid, ATTUNE_INVALID_ARGUMENT, "arm %d, %s: it cannot be the twin of arm %d", i,
                   arms[i].name, arms[i].twin_of);
        ++parts[arms[i].part];
    }
    AT_FAIL_IF(parts[AT_PART_CANDIDATE] == 0 || parts[AT_PART_PEER] == 0, ATTUNE_INVALID_ARGUMENT,
               "%d candidates and %d peers: at least one of each is needed", parts[AT_PART_CANDIDATE],
               parts[AT_PART_PEER]);
    return ATTUNE_OK;
}

/* ---- The session as a store -------------------------------------------------------------------------------------- */

attune_status at_session_open(const at_session_policy *policy, const at_session_part *arms, int arm_count,
                              at_session *session)
{
    memset(session, 0, sizeof *session);
    AT_FORWARD(check_policy(policy));
    AT_FORWARD(check_arms(arms, arm_count));
    session->policy = *policy;
    session->arm_count = arm_count;
    memcpy(session->arm, arms, (size_t)arm_count * sizeof *arms);
    return ATTUNE_OK;
}

void at_session_close(at_session *session)
{
    free(session->block);
    free(session->clocks);
    memset(session, 0, sizeof *session);
}

/* Makes room for one more of `bytes` each. */
static attune_status grow(void **items, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) {
        return ATTUNE_OK;
    }
    size_t wanted = *room > 0 ? 2 * *room : 64;
    void *grown = realloc(*items, wanted * bytes);
    AT_FAIL_IF(grown == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu measurements", wanted);
    *items = grown;
    *room = wanted;
    return ATTUNE_OK;
}

attune_status at_session_add(at_session *session, const at_block *block)
{
    void *items = session->block;
    AT_FORWARD(grow(&items, session->block_count, &session->block_room, sizeof *block));
    session->block = items;
    session->block[session->block_count++] = *block;
    return ATTUNE_OK;
}

attune_status at_session_add_clocks(at_session *session, const at_two_clocks *clocks)
{
    void *items = session->clocks;
    AT_FORWARD(grow(&items, session->clocks_count, &session->clocks_room, sizeof *clocks));
    session->clocks = items;
    session->clocks[session->clocks_count++] = *clocks;
    return ATTUNE_OK;
}
