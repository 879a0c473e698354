/* The zoo for CPUs, and descriptors that lie: each goes through the gate's own stages, and must be rejected at the
 * right one for the right reason; an honest kernel must not be. Its workers and sandboxes are this program itself. */
#include "gate/zoo_folders.h"

#include "base/text.h"
#include "cli/cli.h"
#include "core/problem.h"
#include "evidence/evidence.h"
#include "gate/gate.h"

static zoo_animal kernels[ZOO_MOST], descriptors[ZOO_MOST];

/* What the gate said: the stage that failed, and why. */
typedef struct word {
    bool right;
    char stage[32];
    char why[AT_SENTENCE_MAX], look[AT_SENTENCE_MAX];
} word;

static void hear(void *self, const at_verdict *verdict)
{
    word *said = self;
    said->right = verdict->right == AT_PASS;
    for (int stage = 0; stage < AT_STAGE_SPEED && said->stage[0] == '\0'; ++stage) {
        if (verdict->finding[stage].outcome != AT_PASS) {
            (void)snprintf(said->stage, sizeof said->stage, "%s", at_stage_name((at_stage)stage));
            (void)snprintf(said->why, sizeof said->why, "%s", verdict->finding[stage].sentence);
            (void)snprintf(said->look, sizeof said->look, "%s", verdict->finding[stage].look);
        }
    }
}

/* $ATTUNE_ZOO_SEED: nobody is found, or let pass, by one seed's luck. */
static uint64_t seed_of(void)
{
    const char *text = getenv("ATTUNE_ZOO_SEED");
    uint64_t seed = 1;
    if (text != NULL) {
        assert_ok(at_parse_uint64("ATTUNE_ZOO_SEED", text, &seed));
    }
    return seed;
}

static void judge(const zoo_animal *animal, word *said)
{
    static const char *const worker[] = {"/proc/self/exe", "worker", NULL};
    const char *const candidate[] = {animal->folder};
    at_test_problem problem;
    at_gate_result result;
    *said = (word){.stage = ""};
    assert_ok(at_test_problem_parse(animal->problem, &problem));
    /* A busy machine must not make others look as if they hung. */
    const bool hangs = strstr(animal->expect, "no answer within") != NULL;
    const at_gate_options options = {.candidate = candidate,
                                     .candidate_count = 1,
                                     .problem = &problem,
                                     .problem_count = 1,
                                     .must = 0.95,
                                     .cases = 24,
                                     .seed = seed_of(),
                                     .target = "cpu",
                                     .threads = hangs ? 1 : 2,
                                     .patience_s = hangs ? 20 : 3600,
                                     .worker = worker,
                                     .watch = {.self = said, .verdict = hear}};
    assert_ok(at_gate_run(&options, &result));
}

static void animal_is_judged(void **state)
{
    const zoo_animal *animal = *state;
    word said;
    if (zoo_is_beyond_sanitizers(animal)) {
        skip();
    }
    judge(animal, &said);
    assert_null(strstr(said.look, "compute-sanitizer")); /* which looks at GPUs only */
    if (zoo_is_honest(animal)) {
        if (!said.right) {
            fail_msg("%s is honest, and was called wrong in stage %s: %s", animal->name, said.stage, said.why);
        }
    } else if (said.right || !zoo_expects(animal, said.stage, said.why)) {
        fail_msg("%s: expected\n%sbut stage '%s' says: %s", animal->name, animal->expect, said.stage, said.why);
    }
}

/* ---- Wrong when timed -------------------------------------------------------------------------------------------- */

typedef struct late_word {
    at_outcome right, fast, correctness;
    char speed[AT_SENTENCE_MAX];
    char *text; /* the verdict as evidence has it */
} late_word;

static void hear_late(void *self, const at_verdict *verdict)
{
    late_word *said = self;
    char digest[AT_DIGEST_TEXT_MAX];
    said->right = verdict->right;
    said->fast = verdict->fast;
    said->correctness = verdict->finding[AT_STAGE_CORRECTNESS].outcome;
    (void)snprintf(said->speed, sizeof said->speed, "%s", verdict->finding[AT_STAGE_SPEED].sentence);
    assert_ok(at_verdict_print(verdict, &said->text, digest));
}

static int gate_late(const char *candidate, const char *peer, late_word *said)
{
    static const char *const worker[] = {"/proc/self/exe", "worker", NULL};
    at_test_problem problem;
    at_gate_result result;
    *said = (late_word){.right = AT_NOT_RUN};
    assert_ok(at_test_problem_parse("b1,h8,s64,d64,fp16", &problem));
    const at_gate_options options = {.candidate = &candidate,
                                     .candidate_count = 1,
                                     .problem = &problem,
                                     .problem_count = 1,
                                     .peer = &peer,
                                     .peer_count = 1,
                                     .must = 0.95,
                                     .cases = 3,
                                     .seed = 1,
                                     .target = "cpu",
                                     .threads = 2,
                                     .patience_s = 3600,
                                     .worker = worker,
                                     .watch = {.self = said, .verdict = hear_late}};
    assert_ok(at_gate_run(&options, &result));
    return result.exit_code;
}

/* Three cases hold no keys that come again, and what is timed does: the check in front of the clock finds it. */
static void who_is_wrong_when_timed_is_not_right(void **state)
{
    static const char folder[] = ATTUNE_BINARY_DIR "/zoo/cpu/drops_twins";
    static const char head[] = "{\"format\":\"attune evidence\",\"version\":2,\"verdicts\":[";
    late_word said;
    at_text file;
    at_evidence evidence;
    (void)state;
    assert_int_equal(gate_late(folder, "cpu_tiled", &said), 1);
    assert_int_equal(said.correctness, AT_PASS);
    assert_int_equal(said.right, AT_FAIL);
    assert_int_equal(said.fast, AT_FAIL);
    assert_non_null(strstr(said.speed, "before it was timed, drops_twins: rule 1"));
    /* The same follows from what evidence keeps. */
    at_text_init(&file);
    at_text_add(&file, "%s%s]}", head, said.text);
    assert_ok(at_evidence_parse("late", file.data, file.length, &evidence));
    assert_ok(evidence.entry[0].status);
    evidence.entry[0].verdict->right = AT_NOT_RUN;
    assert_ok(at_verdict_judge(evidence.entry[0].verdict));
    assert_int_equal(evidence.entry[0].verdict->right, AT_FAIL);
    at_evidence_close(&evidence);
    at_text_free(&file);
    free(said.text);
}

/* At least so many of each kind, so that none gets lost unseen. */
static void zoo_is_whole(void **state)
{
    int bad = 0;
    int honest = 0;
    (void)state;
    for (const zoo_animal *animal = kernels; animal->name[0] != '\0'; ++animal) {
        honest += zoo_is_honest(animal);
        bad += !zoo_is_honest(animal);
    }
    assert_true(bad >= 20);
    assert_true(honest >= 2);
}

/* Sanitizers look for what any of them shows. */
#ifdef ATTUNE_SANITIZED
enum { STEP = 4 };
#else
enum { STEP = 1 };
#endif

static int add_tests(zoo_animal *animals, int count, struct CMUnitTest *tests)
{
    int added = 0;
    for (int i = 0; i < count; i += STEP) {
        tests[added++] = (struct CMUnitTest){animals[i].name, animal_is_judged, NULL, NULL, &animals[i]};
    }
    return added;
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[2 * ZOO_MOST + 2] = {cmocka_unit_test(zoo_is_whole),
                                                 cmocka_unit_test(who_is_wrong_when_timed_is_not_right)};
    if (argc > 1) {
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    zoo_calm_sanitizers();
    int count = 2;
    count += add_tests(kernels, zoo_read_all("cpu", "b1,h2,s64,d64,fp16", kernels), tests + count);
    count += add_tests(descriptors, zoo_read_all("descriptor", "b1,h2,s64,d64,fp16", descriptors), tests + count);
    return _cmocka_run_group_tests("zoo", tests, (size_t)count, NULL, NULL);
}
