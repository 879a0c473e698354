/* How well this machine measures: the gate's protocol of timing on arms that one chooses, repeated.
 *
 *     instrument TARGET must|quick=MUST REPEATS PROBLEM CANDIDATE PEER...
 *
 * Peers are whatever a worker opens by name; with torch:NAME among them, workers are PyTorch's (PYTHONPATH must lead to
 * attune's package). A twin of the candidate is added (A/A). Prints TSV, a line for each repeat, peer and mode: what
 * was found, the medians, the controls and the seconds that it took; then each arm's two clocks. Results are not judged
 * right here: the gate does that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/problem.h"
#include "judge/executor.h"
#include "measure/speed.h"
#include "worker/worker.h"

enum { CANDIDATE = 0 };

typedef struct instrument {
    const char *target;
    double must;
    bool quick, foreign; /* an arm of PyTorch's is among them */
    int arm_count;
    const char *name[AT_SESSION_ARMS_MAX];
    at_session_part arm[AT_SESSION_ARMS_MAX];
    at_inputs inputs;
    at_timed timed;
    at_device *device;
    int repeat;
} instrument;

static attune_status fresh_worker(void *self, int process, at_device **device)
{
    static const char *const own[] = {"/proc/self/exe", "worker", NULL};
    static const char *const python[] = {"python3", "-m", "attune.worker", NULL};
    instrument *on = self;
    const at_remote_options options = {.command = on->foreign ? python : own, .target = on->target};
    (void)process;
    if (on->device != NULL) {
        on->device->ops->close(on->device);
        on->device = NULL;
    }
    AT_FORWARD(at_remote_open(&options, &on->device));
    *device = on->device;
    return ATTUNE_OK;
}

/* ---- Printing --------------------------------------------------------------------------------------------------- */

static attune_status print_peer(const instrument *on, const at_session *session, int peer, double seconds)
{
    at_speed speed;
    AT_FORWARD(at_speed_judge(session, CANDIDATE, peer, &speed));
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        const at_ratio *ratio = &speed.ratio[mode];
        if (speed.known[mode]) {
            printf("%d\t%s\t%s\t%s\t%.5f\t%.5f\t%.5f\t%.5f\t%.4f\t%.4f\t%d\t%lld\t%lld\t%.5f\t%.5f\t%.5f\t%.2f\t%s\n",
                   on->repeat, on->name[peer], at_mode_name((at_mode)mode), at_outcome_name(speed.outcome),
                   ratio->r.middle, ratio->r.low, ratio->r.high, ratio->median_r, ratio->candidate_us, ratio->peer_us,
                   ratio->processes, (long long)ratio->blocks, (long long)ratio->dropped, speed.twin.middle,
                   speed.twin.low, speed.twin.high, seconds, speed.why);
        }
    }
    return ATTUNE_OK;
}

static void print_clocks(const instrument *on, const at_session *session)
{
    for (int arm = 0; arm < session->arm_count; ++arm) {
        at_check check;
        at_check_clocks(session, arm, &check);
        printf("# %d\t%s\t%d and %d calls\t%s\n", on->repeat, on->name[arm], session->calls[AT_MODE_WARM][arm],
               session->calls[AT_MODE_COLD][arm], check.what);
    }
    for (int process = 0; process < session->processes; ++process) {
        printf("# %d\tprocess %d\twarm-up %.2f s, %s\n", on->repeat, process, session->warmup_s[process],
               session->settled[process] ? "settled" : "not settled");
    }
    const at_block *last = &session->block[session->block_count - 1];
    printf("# %d\tlast block: %d MHz, %d W, throttle 0x%x\n", on->repeat, last->sm_mhz, last->power_w, last->throttle);
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

static attune_status run_session(instrument *on, at_session *session)
{
    at_clock clock = at_clock_monotonic();
    at_executor executor = at_timed_executor(&on->timed);
    int64_t begin = clock.now_ns(clock.self);
    AT_FORWARD(at_session_run(session, &executor));
    double seconds = 1e-9 * (double)(clock.now_ns(clock.self) - begin);
    for (int arm = 0; arm < on->arm_count; ++arm) {
        if (on->arm[arm].part == AT_PART_PEER) {
            AT_FORWARD(print_peer(on, session, arm, seconds));
        }
    }
    print_clocks(on, session);
    (void)fflush(stdout);
    return ATTUNE_OK;
}

static attune_status measure(instrument *on)
{
    at_session_policy policy;
    at_session session;
    uint64_t seed = 1 + (uint64_t)on->repeat;
    (on->quick ? at_session_policy_quick : at_session_policy_init)(&policy, seed);
    policy.must = on->must;
    AT_FORWARD(at_session_open(&policy, on->arm, on->arm_count, &session));
    attune_status status = run_session(on, &session);
    at_timed_close(&on->timed);
    at_session_close(&session);
    return status;
}

static attune_status prepare(instrument *on, char **argv, int argc)
{
    at_draw draw = {.seed = 1, .family = AT_FAMILY_NORMAL};
    at_test_problem test;
    on->arm_count = argc - 4;
    AT_FAIL_IF(on->arm_count < 3 || on->arm_count > AT_SESSION_ARMS_MAX, ATTUNE_INVALID_ARGUMENT,
               "a candidate and 1 to %d peers are needed", AT_SESSION_ARMS_MAX - 2);
    on->target = argv[1];
    on->quick = strncmp(argv[2], "quick=", 6) == 0;
    AT_FORWARD(at_parse_double("must", argv[2] + (on->quick ? 6 : 0), &on->must));
    AT_FORWARD(at_test_problem_parse(argv[4], &test));
    on->timed.problem = test.problem;
    draw.length_seed = test.length_seed;
    for (int i = 0; i < on->arm_count; ++i) {
        bool twin = i == on->arm_count - 1;
        on->name[i] = twin ? argv[5] : argv[5 + i];
        on->foreign = on->foreign || strncmp(on->name[i], "torch:", 6) == 0;
        on->arm[i] = (at_session_part){on->name[i],
                                       twin     ? AT_PART_TWIN
                                       : i == 0 ? AT_PART_CANDIDATE
                                                : AT_PART_PEER,
                                       CANDIDATE};
    }
    on->timed.inputs = &on->inputs;
    on->timed.arm = on->name;
    on->timed.arm_count = on->arm_count;
    on->timed.worker = fresh_worker;
    on->timed.self = on;
    return at_inputs_draw(&on->timed.problem, &draw, &on->inputs);
}

static attune_status run(instrument *on, char **argv, int argc)
{
    int64_t repeats;
    AT_FORWARD(prepare(on, argv, argc));
    AT_FORWARD(at_parse_int64("repeats", argv[3], 1, 1000, &repeats));
    printf("repeat\tpeer\tmode\toutcome\tr\tlo\thi\tmedian_r\tcandidate_us\tpeer_us\tprocesses\tblocks\tdropped\t"
           "twin\ttwin_lo\ttwin_hi\tseconds\twhy\n");
    for (on->repeat = 0; on->repeat < (int)repeats; ++on->repeat) {
        AT_FORWARD(measure(on));
    }
    return ATTUNE_OK;
}

int main(int argc, char **argv)
{
    instrument on = {.repeat = 0};
    if (argc == 2 && strcmp(argv[1], "worker") == 0) {
        return attune_worker_serve(NULL) == ATTUNE_OK ? 0 : 3;
    }
    if (argc < 7) {
        (void)fprintf(stderr, "usage: instrument TARGET must|quick=MUST REPEATS PROBLEM CANDIDATE PEER...\n");
        return 2;
    }
    attune_status status = run(&on, argv, argc);
    if (status != ATTUNE_OK) {
        (void)fprintf(stderr, "instrument: %s: %s\n", attune_status_string(status), attune_last_detail());
    }
    if (on.device != NULL) {
        on.device->ops->close(on.device);
    }
    at_inputs_free(&on.inputs);
    return status == ATTUNE_OK ? 0 : 1;
}
