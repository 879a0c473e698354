#include "evidence/evidence_tables.h"

#include "judge/verdict.h"

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static const char *const outcomes[] = {"not run", "pass", "fail", "inconclusive", NULL};
const char *const at_names_of_parts[] = {"candidate", "peer", "twin", NULL};
const char *const at_names_of_modes[] = {"warm", "cold", "rested", NULL};
static const char *const stages[] = {"build", "launch", "sanity", "correctness", "speed", NULL};
static const char *const controls[] = {"twin", "swap", "clocks", "wrong_kernel", NULL};
static const char *const targets[] = {"cpu", "cuda", NULL};
static const char *const tiers[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx", NULL};
static const char *const statuses[] = {
    "ok",
    "invalid_argument",
    "invalid_problem",
    "unsupported",
    "not_found",
    "out_of_memory",
    "workspace_too_small",
    "io_error",
    "corrupt",
    "no_device",
    "device_error",
    "compile_error",
    "interrupted",
    "wrong_result",
    "internal",
    NULL,
};

_Static_assert(sizeof outcomes / sizeof outcomes[0] == AT_INCONCLUSIVE + 2, "outcomes");
_Static_assert(sizeof at_names_of_parts / sizeof at_names_of_parts[0] == AT_PART_TWIN + 2, "parts");
_Static_assert(sizeof at_names_of_modes / sizeof at_names_of_modes[0] == AT_MODE_COUNT + 1, "modes");
_Static_assert(sizeof stages / sizeof stages[0] == AT_STAGE_COUNT + 1, "stages");
_Static_assert(sizeof controls / sizeof controls[0] == AT_CONTROL_COUNT + 1, "controls");
_Static_assert(sizeof tiers / sizeof tiers[0] == ATTUNE_ISA_COUNT + 1, "tiers");
_Static_assert(sizeof statuses / sizeof statuses[0] == ATTUNE_STATUS_COUNT + 1, "statuses");

/* ---- Who, where, how --------------------------------------------------------------------------------------------- */

static const at_field options[] = {
    AT_FIELD(AT_FIELD_REAL, at_verdict_options, must, "must"),
    AT_FIELD_COUNT(at_verdict_options, cases, "cases"),
    AT_FIELD(AT_FIELD_SEED, at_verdict_options, seed, "seed"),
    AT_FIELD(AT_FIELD_BOOL, at_verdict_options, quick, "quick"),
    {.key = NULL},
};

static const at_field target[] = {
    AT_FIELD_NAMED(attune_target, kind, "kind", targets),
    AT_FIELD(AT_FIELD_TEXT, attune_target, model, "model"),
    AT_FIELD_NAMED(attune_target, isa, "isa", tiers),
    AT_FIELD_COUNT(attune_target, threads, "threads"),
    AT_FIELD_COUNT(attune_target, l1d_bytes, "l1d_bytes"),
    AT_FIELD_COUNT(attune_target, l2_bytes, "l2_bytes"),
    AT_FIELD_COUNT(attune_target, l3_bytes, "l3_bytes"),
    AT_FIELD_COUNT(attune_target, device, "device"),
    AT_FIELD_COUNT(attune_target, arch, "arch"),
    AT_FIELD_COUNT(attune_target, arch_features, "arch_features"),
    AT_FIELD_COUNT(attune_target, sm_count, "sm_count"),
    AT_FIELD_COUNT(attune_target, smem_block_bytes, "smem_block_bytes"),
    AT_FIELD_COUNT(attune_target, smem_optin_bytes, "smem_optin_bytes"),
    AT_FIELD_COUNT(attune_target, smem_sm_bytes, "smem_sm_bytes"),
    AT_FIELD_COUNT(attune_target, regs_sm, "regs_sm"),
    AT_FIELD_COUNT(attune_target, threads_sm, "threads_sm"),
    AT_FIELD_COUNT(attune_target, memory_l2_bytes, "memory_l2_bytes"),
    AT_FIELD_COUNT(attune_target, driver, "driver"),
    AT_FIELD_COUNT(attune_target, compiler, "compiler"),
    {.key = NULL},
};

static const at_field build[] = {
    AT_FIELD(AT_FIELD_TEXT, at_build_facts, source, "source_sha256"),
    AT_FIELD(AT_FIELD_TEXT, at_build_facts, cubin, "cubin_sha256"),
    AT_FIELD(AT_FIELD_NOTE, at_build_facts, code, "code_sha256"),
    AT_FIELD(AT_FIELD_NOTE, at_build_facts, carried, "carried"),
    AT_FIELD(AT_FIELD_TEXT, at_build_facts, compiler, "compiler"),
    AT_FIELD_COUNT(at_build_facts, threads, "threads"),
    AT_FIELD_COUNT(at_build_facts, registers, "registers"),
    AT_FIELD_COUNT(at_build_facts, smem_bytes, "smem_bytes"),
    AT_FIELD_COUNT(at_build_facts, local_bytes, "local_bytes"),
    AT_FIELD_RANGE(at_build_facts, spill_bytes, "spill_bytes", -1, INT32_MAX),
    AT_FIELD_COUNT(at_build_facts, warnings, "warnings"),
    AT_FIELD_COUNT(at_build_facts, blocks_sm, "blocks_sm"),
    AT_FIELD_COUNT(at_build_facts, workspace_bytes, "workspace_bytes"),
    {.key = NULL},
};

static const at_field version[] = {
    AT_FIELD(AT_FIELD_TEXT, at_version, name, "name"),
    AT_FIELD(AT_FIELD_TEXT, at_version, text, "text"),
    {.key = NULL},
};

/* ---- What was seen ----------------------------------------------------------------------------------------------- */

static const at_field run[] = {
    AT_FIELD(AT_FIELD_BOOL, at_stage_run, ran, "ran"),         AT_FIELD_NAMED(at_stage_run, status, "status", statuses),
    AT_FIELD(AT_FIELD_TEXT, at_stage_run, detail, "detail"),   AT_FIELD(AT_FIELD_TEXT, at_stage_run, look, "look"),
    AT_FIELD(AT_FIELD_REAL, at_stage_run, seconds, "seconds"), {.key = NULL},
};

static const at_field arm[] = {
    AT_FIELD(AT_FIELD_TEXT, at_arm_facts, name, "name"),
    AT_FIELD(AT_FIELD_TEXT, at_arm_facts, account, "account"),
    AT_FIELD_COUNT(at_arm_facts, traits, "traits"),
    {.key = NULL},
};

static const at_field margins[] = {
    AT_FIELD(AT_FIELD_REAL, at_margins, error, "error"),
    AT_FIELD(AT_FIELD_REAL, at_margins, l2, "l2"),
    AT_FIELD(AT_FIELD_REAL, at_margins, cosine, "cosine"),
    AT_FIELD(AT_FIELD_REAL, at_margins, lse, "lse"),
    AT_FIELD(AT_FIELD_REAL, at_margins, max_error, "max_error"),
    AT_FIELD_COUNT(at_margins, allclose_missed, "allclose_missed"),
    {.key = NULL},
};

static const at_field bias[] = {
    AT_FIELD(AT_FIELD_REAL, at_bias, error, "error"),
    AT_FIELD(AT_FIELD_REAL, at_bias, error_naive, "error_naive"),
    AT_FIELD(AT_FIELD_REAL, at_bias, reference_square, "reference_square"),
    AT_FIELD(AT_FIELD_REAL, at_bias, cross, "cross"),
    AT_FIELD(AT_FIELD_REAL, at_bias, cross_naive, "cross_naive"),
    AT_FIELD(AT_FIELD_REAL, at_bias, reference_absolute, "reference_absolute"),
    AT_FIELD(AT_FIELD_REAL, at_bias, error_square, "error_square"),
    AT_FIELD(AT_FIELD_REAL, at_bias, cross_square, "cross_square"),
    AT_FIELD_COUNT(at_bias, count, "count"),
    {.key = NULL},
};

static const at_field failure[] = {
    AT_FIELD_COUNT(at_failure, index, "case"),
    AT_FIELD_NAMED(at_failure, status, "status", statuses),
    AT_FIELD(AT_FIELD_TEXT, at_failure, problem, "problem"),
    AT_FIELD(AT_FIELD_TEXT, at_failure, how, "how"),
    AT_FIELD(AT_FIELD_TEXT, at_failure, what, "what"),
    AT_FIELD(AT_FIELD_TEXT, at_failure, command, "command"),
    {.key = NULL},
};

static const at_field refusal[] = {
    AT_FIELD_COUNT(at_refusal, index, "case"),
    AT_FIELD(AT_FIELD_TEXT, at_refusal, problem, "problem"),
    AT_FIELD(AT_FIELD_TEXT, at_refusal, why, "why"),
    {.key = NULL},
};

static const at_field suite[] = {
    AT_FIELD_COUNT(at_suite_result, executed, "executed"),
    AT_FIELD_COUNT(at_suite_result, exact, "exact"),
    AT_FIELD_COUNT(at_suite_result, failed, "failed"),
    AT_FIELD_COUNT(at_suite_result, refused, "refused"),
    AT_FIELD(AT_FIELD_BOOL, at_suite_result, interrupted, "interrupted"),
    AT_FIELD(AT_FIELD_TEXT, at_suite_result, kernel, "kernel"),
    AT_FIELD_TABLE(at_suite_result, margins, "margins", margins),
    AT_FIELD_TABLE(at_suite_result, bias, "bias", bias),
    AT_FIELD_TABLE(at_suite_result, bias_normal, "bias_normal", bias),
    AT_FIELD_ITEMS(AT_FIELD_LIST, at_suite_result, failure, failures, "failures", failure),
    AT_FIELD_ITEMS(AT_FIELD_LIST, at_suite_result, refusal, refusals, "refusals", refusal),
    {.key = NULL},
};

static const at_field counter[] = {
    AT_FIELD(AT_FIELD_TEXT, at_counter, name, "name"),
    AT_FIELD(AT_FIELD_REAL, at_counter, value, "value"),
    {.key = NULL},
};

const at_field at_fields_of_counters[] = {
    AT_FIELD(AT_FIELD_TEXT, at_counters, why_not, "why_not"),
    AT_FIELD(AT_FIELD_TEXT, at_counters, diagnosis, "diagnosis"),
    AT_FIELD_ITEMS(AT_FIELD_MAP, at_counters, counter, count, "values", counter),
    AT_FIELD_ITEMS(AT_FIELD_MAP, at_counters, stall, stalls, "stalls", counter),
    {.key = NULL},
};

static const at_field sanitizer[] = {
    AT_FIELD(AT_FIELD_TEXT, at_sanitizer_finding, tool, "tool"),
    AT_FIELD(AT_FIELD_BOOL, at_sanitizer_finding, ran, "ran"),
    AT_FIELD_COUNT(at_sanitizer_finding, reports, "reports"),
    AT_FIELD(AT_FIELD_TEXT, at_sanitizer_finding, first, "first"),
    AT_FIELD(AT_FIELD_TEXT, at_sanitizer_finding, account, "account"),
    {.key = NULL},
};

const at_field at_fields_of_sanitizer[] = {
    AT_FIELD_ITEMS(AT_FIELD_LIST, at_verdict, sanitizer, sanitizer_count, "sanitizer", sanitizer),
    {.key = NULL},
};

/* ---- The session ------------------------------------------------------------------------------------------------- */

static const at_field policy[] = {
    AT_FIELD_RANGE(at_session_policy, processes, "processes", 0, AT_SESSION_PROCESSES_MAX),
    AT_FIELD_COUNT(at_session_policy, pairs, "pairs"),
    AT_FIELD(AT_FIELD_REAL, at_session_policy, warmup_s, "warmup_s"),
    AT_FIELD(AT_FIELD_REAL, at_session_policy, warmup_max_s, "warmup_max_s"),
    AT_FIELD(AT_FIELD_REAL, at_session_policy, drift, "drift"),
    AT_FIELD(AT_FIELD_REAL, at_session_policy, sustained_s, "sustained_s"),
    AT_FIELD_RANGE(at_session_policy, modes, "modes", 0, (1 << AT_MODE_COUNT) - 1),
    AT_FIELD(AT_FIELD_REAL, at_session_policy, must, "must"),
    AT_FIELD(AT_FIELD_REAL, at_session_policy, hopeless, "hopeless"),
    AT_FIELD_COUNT(at_session_policy, hopeless_pairs, "hopeless_pairs"),
    AT_FIELD(AT_FIELD_REAL, at_session_policy, dropped_most, "dropped_most"),
    AT_FIELD(AT_FIELD_REALS, at_session_policy, floor_us, "floor_us"),
    AT_FIELD(AT_FIELD_SEED, at_session_policy, seed, "seed"),
    AT_FIELD(AT_FIELD_BOOL, at_session_policy, quick, "quick"),
    AT_FIELD(AT_FIELD_FLAG, at_session_policy, twin_by_reach, "twin_by_reach"),
    AT_FIELD(AT_FIELD_FLAG, at_session_policy, cold_decides, "cold_decides"),
    {.key = NULL},
};

const at_field at_fields_of_arms[] = {
    AT_FIELD_TABLE(at_verdict, session.policy, "policy", policy),
    AT_FIELD_ITEMS(AT_FIELD_LIST, at_verdict, arm, session.arm_count, "arms", arm),
    {.key = NULL},
};

const at_field at_fields_of_session[] = {
    AT_FIELD_RANGE(at_session, processes, "processes", 0, AT_SESSION_PROCESSES_MAX),
    AT_FIELD(AT_FIELD_BOOL, at_session, stopped, "stopped"),
    {.key = NULL},
};

const at_field at_fields_of_warmup[] = {
    AT_FIELD(AT_FIELD_REAL, at_warmup, seconds, "seconds"),
    AT_FIELD(AT_FIELD_BOOL, at_warmup, settled, "settled"),
    {.key = NULL},
};

const at_field at_fields_of_clocks[] = {
    AT_FIELD_RANGE(at_two_clocks, process, "process", 0, AT_SESSION_PROCESSES_MAX - 1),
    AT_FIELD_RANGE(at_two_clocks, arm, "arm", 0, AT_SESSION_ARMS_MAX - 1),
    AT_FIELD(AT_FIELD_REAL, at_two_clocks, us, "us"),
    AT_FIELD(AT_FIELD_REAL, at_two_clocks, slope_us, "slope_us"),
    {.key = NULL},
};

const at_field at_fields_of_stretch[] = {
    AT_FIELD_RANGE(at_block, process, "process", 0, AT_SESSION_PROCESSES_MAX - 1),
    AT_FIELD_NAMED(at_block, mode, "mode", at_names_of_modes),
    {.key = NULL},
};

const at_field at_fields_of_block[] = {
    AT_FIELD_RANGE(at_block, sm_mhz, "sm_mhz", 0, INT32_MAX),
    AT_FIELD_RANGE(at_block, power_w, "power_w", 0, INT32_MAX),
    AT_FIELD_RANGE(at_block, throttle, "throttle", 0, 0xff),
    {.key = NULL},
};

/* ---- What follows ------------------------------------------------------------------------------------------------ */

static const at_field finding[] = {
    AT_FIELD_NAMED(at_stage_finding, outcome, "outcome", outcomes),
    AT_FIELD(AT_FIELD_TEXT, at_stage_finding, sentence, "sentence"),
    AT_FIELD(AT_FIELD_TEXT, at_stage_finding, look, "look"),
    {.key = NULL},
};

static const at_field control[] = {
    AT_FIELD_NAMED(at_control, outcome, "outcome", outcomes),
    AT_FIELD(AT_FIELD_TEXT, at_control, sentence, "sentence"),
    {.key = NULL},
};

static const at_field interval[] = {
    AT_FIELD(AT_FIELD_REAL, at_interval, middle, "middle"),
    AT_FIELD(AT_FIELD_REAL, at_interval, low, "low"),
    AT_FIELD(AT_FIELD_REAL, at_interval, high, "high"),
    {.key = NULL},
};

static const at_field ratio[] = {
    AT_FIELD_TABLE(at_ratio, r, "r", interval),
    AT_FIELD_RANGE(at_ratio, processes, "processes", 0, AT_SESSION_PROCESSES_MAX),
    AT_FIELD_COUNT(at_ratio, blocks, "blocks"),
    AT_FIELD_COUNT(at_ratio, dropped, "dropped"),
    AT_FIELD(AT_FIELD_REAL, at_ratio, candidate_us, "candidate_us"),
    AT_FIELD(AT_FIELD_REAL, at_ratio, peer_us, "peer_us"),
    AT_FIELD(AT_FIELD_REAL, at_ratio, median_r, "median_r"),
    AT_FIELD_TABLE(at_ratio, difference_us, "difference_us", interval),
    AT_FIELD(AT_FIELD_REAL, at_ratio, p_above, "p_above"),
    {.key = NULL},
};

const at_field at_fields_of_speed[] = {
    AT_FIELD_NAMED(at_speed, outcome, "outcome", outcomes),
    AT_FIELD(AT_FIELD_TEXT, at_speed, why, "why"),
    AT_FIELD_TABLE(at_speed, twin, "twin", interval),
    {.key = NULL},
};

const at_field at_fields_of_modes[] = {
    AT_FIELD_BY_SOME(at_speed, ratio, known, "modes", ratio, at_names_of_modes),
    {.key = NULL},
};

/* ---- The verdict ------------------------------------------------------------------------------------------------- */

const at_field at_fields_of_verdict[] = {
    AT_FIELD(AT_FIELD_TEXT, at_verdict, kernel, "kernel"),
    AT_FIELD(AT_FIELD_TEXT, at_verdict, problem, "problem"),
    AT_FIELD(AT_FIELD_TEXT, at_verdict, when, "when"),
    AT_FIELD_NAMED(at_verdict, right, "right", outcomes),
    AT_FIELD_NAMED(at_verdict, fast, "faster", outcomes),
    AT_FIELD_COUNT(at_verdict, traits, "traits"),
    AT_FIELD(AT_FIELD_BOOL, at_verdict, stranger, "stranger"),
    AT_FIELD_TABLE(at_verdict, options, "options", options),
    AT_FIELD_TABLE(at_verdict, target, "target", target),
    AT_FIELD_TABLE(at_verdict, build, "build", build),
    AT_FIELD_ITEMS(AT_FIELD_MAP, at_verdict, version, version_count, "versions", version),
    AT_FIELD_BY_NAME(at_verdict, finding, "findings", finding, stages),
    {.key = NULL},
};

const at_field at_fields_of_checks[] = {
    AT_FIELD_BY_NAME(at_verdict, control, "controls", control, controls),
    AT_FIELD_BY_NAME(at_verdict, stage, "stages", run, stages),
    AT_FIELD_TABLE(at_verdict, wrong_kernel, "wrong_kernel", run),
    AT_FIELD_TABLE(at_verdict, suite, "suite", suite),
    AT_FIELD_ITEMS(AT_FIELD_LIST, at_verdict, absent, absent_count, "absent", arm),
    {.key = NULL},
};
