/* Does a descriptor keep the contract of kernel.h? Asked of every kernel before it enters a catalogue, ours or not. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/config.h"
#include "core/problem.h"
#include "core/recipe.h"
#include "core/term.h"

#define REFUSE_IF(condition, ...) AT_FAIL_IF(condition, ATTUNE_INVALID_ARGUMENT, __VA_ARGS__)

static const char lower_case[] = "abcdefghijklmnopqrstuvwxyz";
static const char upper_case[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* ---- Data ------------------------------------------------------------------------------------------------------- */

/* A letter of the given case, then letters, digits and underscores. */
static bool is_name(const char *name, const char *letters, size_t most)
{
    if (name == NULL || *name == '\0' || strchr(letters, *name) == NULL || strlen(name) > most) {
        return false;
    }
    for (; *name != '\0'; ++name) {
        if (strchr(letters, *name) == NULL && strchr("0123456789_", *name) == NULL) {
            return false;
        }
    }
    return true;
}

static attune_status check_identity(const attune_kernel *kernel)
{
    const uint32_t known = ATTUNE_TRAIT_GENERAL | ATTUNE_TRAIT_NONDETERMINISTIC | ATTUNE_TRAIT_BATCH_VARIANT |
                           ATTUNE_TRAIT_TAINTS | ATTUNE_TRAIT_ACC16 | ATTUNE_TRAIT_NAMED_ONLY | ATTUNE_TRAIT_CLOCKS;
    REFUSE_IF(kernel->abi != ATTUNE_ABI, "abi is %u: %u is needed%s", kernel->abi, ATTUNE_ABI,
              kernel->abi == 2 ? AT_ABI_2_CHANGES : "");
    REFUSE_IF(kernel->size != sizeof *kernel, "size is %zu: %zu is needed", kernel->size, sizeof *kernel);
    REFUSE_IF(!is_name(kernel->name, lower_case, 63),
              "name '%.64s': lower-case letters, digits and underscores are needed, at most 63, a letter first",
              kernel->name != NULL ? kernel->name : "NULL");
    REFUSE_IF(kernel->summary == NULL || *kernel->summary == '\0' || strchr(kernel->summary, '\n') != NULL,
              "summary: one line for people is needed");
    REFUSE_IF((int)kernel->target != ATTUNE_TARGET_CPU && (int)kernel->target != ATTUNE_TARGET_CUDA,
              "target is %d: %d (cpu) or %d (cuda) is needed", (int)kernel->target, ATTUNE_TARGET_CPU,
              ATTUNE_TARGET_CUDA);
    REFUSE_IF((kernel->traits & ~known) != 0, "traits are 0x%x: only 0x%x are known", kernel->traits, known);
    REFUSE_IF((kernel->traits & ATTUNE_TRAIT_GENERAL) != 0 && (kernel->traits & ATTUNE_TRAIT_NAMED_ONLY) != 0,
              "traits: a general kernel is the fallback and cannot be for naming only");
    return ATTUNE_OK;
}

static attune_status check_dims(const char *name, const attune_dims *dims)
{
    REFUSE_IF(dims->least < 1 || dims->most < dims->least || dims->step < 1,
              "%s: multiples of %d from %d to %d: a step of 1 or more and an ascending range are needed", name,
              dims->step, dims->least, dims->most);
    return ATTUNE_OK;
}

static attune_status check_capability(const attune_capability *can)
{
    const uint32_t steps = ATTUNE_BIT(ATTUNE_STEP_GEMM + 1) - 1;
    const uint32_t positions = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_ALIBI;
    const uint32_t ops = ATTUNE_BIT(ATTUNE_FORWARD) | ATTUNE_BIT(ATTUNE_APPEND) | ATTUNE_BIT(ATTUNE_MERGE);
    const uint32_t features = ATTUNE_FEATURES_FORWARD | ATTUNE_FEATURES_CACHE;
    REFUSE_IF(can->ops == 0 || (can->ops & ~ops) != 0,
              "ops are 0x%x: some of 0x%x are needed, for example ATTUNE_BIT(ATTUNE_FORWARD)", can->ops, ops);
    REFUSE_IF(can->dtypes == 0, "dtypes are none");
    REFUSE_IF((can->features & ~features) != 0, "features are 0x%x: only 0x%x are known", can->features, features);
    REFUSE_IF((can->features & positions) != 0 && can->offsets == 0,
              "offsets are none, but features have CAUSAL, WINDOW or ALIBI: ATTUNE_OFFSETS_FORWARD is all of them");
    REFUSE_IF((can->features & ATTUNE_FEATURE_BIAS) != 0 && can->biases == 0,
              "biases are none, but features have BIAS: ATTUNE_BIASES_FORWARD is all of them");
    REFUSE_IF(((can->offsets & ~ATTUNE_OFFSETS_FORWARD) | (can->biases & ~ATTUNE_BIASES_FORWARD)) != 0,
              "offsets are 0x%x, biases 0x%x: only 0x%x and 0x%x are known", can->offsets, can->biases,
              ATTUNE_OFFSETS_FORWARD, ATTUNE_BIASES_FORWARD);
    REFUSE_IF(can->layouts == 0, "layouts are none");
    REFUSE_IF(can->align < 1 || can->align > AT_ALIGN_MAX, "align is %d: 1 ... %d is allowed", can->align,
              AT_ALIGN_MAX);
    REFUSE_IF(can->arch_least < 0 || can->arch_most < can->arch_least,
              "arch_least %d to arch_most %d: they must ascend", can->arch_least, can->arch_most);
    REFUSE_IF(can->steps == 0 || (can->steps & ~steps) != 0, "steps are 0x%x: some of 0x%x are needed", can->steps,
              steps);
    AT_FORWARD(check_dims("head_dim_qk", &can->head_dim_qk));
    return check_dims("head_dim_v", &can->head_dim_v);
}

static attune_status check_capabilities(const attune_kernel *kernel)
{
    REFUSE_IF(kernel->can == NULL || kernel->can_count < 1 || kernel->can_count > ATTUNE_CAN_MAX,
              "can: 1 ... %d rows that state what it computes are needed, %d are given%s", ATTUNE_CAN_MAX,
              kernel->can == NULL ? 0 : kernel->can_count, kernel->can == NULL ? AT_ABI_2_CHANGES : "");
    for (int i = 0; i < kernel->can_count; ++i) {
        attune_status status = check_capability(&kernel->can[i]);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "can[%d]", i);
        }
    }
    return ATTUNE_OK;
}

static attune_status check_functions(const attune_kernel *kernel)
{
    REFUSE_IF(kernel->valid == NULL, "valid is NULL");
    REFUSE_IF(kernel->resources == NULL, "resources is NULL");
    REFUSE_IF(kernel->heuristic == NULL, "heuristic is NULL");
    REFUSE_IF(kernel->steps == NULL, "steps is NULL");
    return ATTUNE_OK;
}

static attune_status check_code(const attune_kernel *kernel)
{
    int tiers = 0;
    int sources = (kernel->source != NULL) + (kernel->image != NULL);
    for (int isa = 0; isa < ATTUNE_ISA_COUNT; ++isa) {
        tiers += kernel->attend[isa] != NULL;
    }
    if (kernel->target == ATTUNE_TARGET_CPU) {
        REFUSE_IF(tiers == 0, "attend: code for at least one tier is needed");
        REFUSE_IF((kernel->traits & ATTUNE_TRAIT_GENERAL) != 0 && kernel->attend[ATTUNE_ISA_BASELINE] == NULL,
                  "attend: a general kernel needs code for the baseline tier");
        REFUSE_IF(sources > 0, "source and image are of CUDA kernels: NULL is needed");
        return ATTUNE_OK;
    }
    REFUSE_IF(tiers > 0, "attend is of CPU kernels: NULL is needed for every tier");
    REFUSE_IF(sources != 1, "source and image: one of them is needed, %d are given", sources);
    REFUSE_IF(kernel->source != NULL ? *kernel->source == '\0' : *kernel->image == '\0',
              "source or image: a name is needed, not an empty text");
    return ATTUNE_OK;
}

static attune_status check_param(const attune_kernel *kernel, int index)
{
    const attune_param *param = &kernel->params[index];
    REFUSE_IF(!is_name(param->name, upper_case, 31),
              "parameter %d is named '%.40s': upper-case letters, digits and underscores are needed, at most 31", index,
              param->name != NULL ? param->name : "NULL");
    for (int i = 0; i < index; ++i) {
        REFUSE_IF(strcmp(kernel->params[i].name, param->name) == 0, "parameters %d and %d are both named %s", i, index,
                  param->name);
    }
    REFUSE_IF(param->values == NULL || param->count < 1, "parameter %s: it has %d values, at least 1 is needed",
              param->name, param->values == NULL ? 0 : param->count);
    for (int i = 1; i < param->count; ++i) {
        REFUSE_IF(param->values[i] <= param->values[i - 1], "parameter %s: its values must ascend, %d comes after %d",
                  param->name, param->values[i], param->values[i - 1]);
    }
    return ATTUNE_OK;
}

static attune_status check_params(const attune_kernel *kernel)
{
    size_t longest = strlen(kernel->name) + 1;
    REFUSE_IF(kernel->param_count < 0 || kernel->param_count > ATTUNE_PARAMS_MAX,
              "param_count is %d: 0 ... %d is allowed", kernel->param_count, ATTUNE_PARAMS_MAX);
    REFUSE_IF(kernel->param_count > 0 && kernel->params == NULL, "params is NULL, but param_count is %d",
              kernel->param_count);
    for (int i = 0; i < kernel->param_count; ++i) {
        AT_FORWARD(check_param(kernel, i));
        longest += strlen(kernel->params[i].name) + sizeof ",=-2147483648" - 1;
    }
    REFUSE_IF(longest > AT_KERNEL_TEXT_MAX, "its text form may take %zu characters: at most %d are allowed", longest,
              AT_KERNEL_TEXT_MAX);
    return ATTUNE_OK;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------ */

static attune_status check_term(const char *what, const attune_term *term)
{
    attune_status status = at_term_check(term);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", what);
}

static attune_status check_map(const attune_map *map)
{
    REFUSE_IF(!at_role_has_map(map->role), "map: role %d (%s) has no tensor map", map->role, at_role_name(map->role));
    REFUSE_IF(memchr(map->name, '\0', sizeof map->name) == NULL ||
                  (map->name[0] != '\0' && !is_name(map->name, upper_case, sizeof map->name - 1)),
              "map of %s: its name '%.*s': upper-case letters, digits and underscores are needed, at most %d",
              at_role_name(map->role), ATTUNE_MAP_NAME_MAX, map->name, ATTUNE_MAP_NAME_MAX - 1);
    REFUSE_IF(map->swizzle < 0 || map->swizzle > ATTUNE_SWIZZLE_128B, "map of %s: swizzle %d is unknown",
              at_role_name(map->role), map->swizzle);
    REFUSE_IF(map->box[0] < 1, "map of %s: box[0] is %d: at least 1 is needed", at_role_name(map->role), map->box[0]);
    for (int i = 0; i < 4; ++i) {
        /* NOTE: the box of a tensor map has at most 256 elements a dimension. */
        REFUSE_IF(map->box[i] < 0 || map->box[i] > 256, "map of %s: box[%d] is %d: 0 ... 256 is allowed",
                  at_role_name(map->role), i, map->box[i]);
    }
    REFUSE_IF(map->l2_bytes != 0 && map->l2_bytes != 64 && map->l2_bytes != 128 && map->l2_bytes != 256,
              "map of %s: l2_bytes is %d: 0, 64, 128 or 256 is needed", at_role_name(map->role), map->l2_bytes);
    return ATTUNE_OK;
}

/* A source has one macro for each name: every step that has a map of it has it at the same place. */
static attune_status check_map_names(const attune_steps *steps)
{
    const char *known[ATTUNE_MAPS_MAX * ATTUNE_STEPS_MAX];
    int place[ATTUNE_MAPS_MAX * ATTUNE_STEPS_MAX];
    int count = 0;
    for (int i = 0; i < steps->count; ++i) {
        const attune_step_kernel *step = &steps->step[i].as.kernel;
        for (int k = 0; steps->step[i].kind == ATTUNE_STEP_KERNEL && k < step->map_count; ++k) {
            const char *name = at_map_name(&step->map[k]);
            int other = 0;
            while (other < count && strcmp(known[other], name) != 0) {
                ++other;
            }
            REFUSE_IF(other < count && place[other] != k, "step %d: map %s is number %d here and %d elsewhere", i, name,
                      k, place[other]);
            known[count] = name;
            place[count++] = k;
        }
    }
    return ATTUNE_OK;
}

static attune_status check_launch(const attune_step_kernel *step)
{
    int64_t threads = 1;
    int64_t blocks = 1;
    REFUSE_IF(step->entry == NULL || *step->entry == '\0', "entry: the name of a symbol is needed");
    for (int i = 0; i < 3; ++i) {
        REFUSE_IF(step->block[i] < 1 || step->block[i] > 1024, "block[%d] is %d: 1 ... 1024 is allowed", i,
                  step->block[i]);
        REFUSE_IF(step->cluster[i] < 1 || step->cluster[i] > 16, "cluster[%d] is %d: 1 ... 16 is allowed", i,
                  step->cluster[i]);
        threads *= step->block[i];
        blocks *= step->cluster[i];
    }
    REFUSE_IF(threads > 1024, "block has %lld threads: at most 1024 are allowed", (long long)threads);
    REFUSE_IF(blocks > 16, "cluster has %lld blocks: at most 16 are allowed", (long long)blocks);
    REFUSE_IF(step->programmatic != 0 && step->programmatic != 1, "programmatic is %d: 0 or 1 is needed",
              step->programmatic);
    REFUSE_IF(step->map_count < 0 || step->map_count > ATTUNE_MAPS_MAX, "map_count is %d: 0 ... %d is allowed",
              step->map_count, ATTUNE_MAPS_MAX);
    for (int i = 0; i < step->map_count; ++i) {
        AT_FORWARD(check_map(&step->map[i]));
    }
    return check_term("smem", &step->smem);
}

static attune_status check_kernel_step(const attune_kernel *kernel, const attune_step_kernel *step)
{
    static const char *const names[3] = {"grid[0]", "grid[1]", "grid[2]"};
    for (int i = 0; i < 3; ++i) {
        AT_FORWARD(check_term(names[i], &step->grid[i]));
    }
    return kernel->target == ATTUNE_TARGET_CPU ? ATTUNE_OK : check_launch(step);
}

static attune_status check_fill_step(const attune_step_fill *step)
{
    AT_FORWARD(check_term("offset_bytes", &step->offset_bytes));
    return check_term("bytes", &step->bytes);
}

static attune_status check_operand(const char *name, const attune_operand *operand)
{
    REFUSE_IF(operand->role < -1 || operand->role > ATTUNE_O, "operand %s: role %d: Q, K, V, O or -1 is needed", name,
              operand->role);
    REFUSE_IF(operand->dtype < 0 || operand->dtype > ATTUNE_BF16, "operand %s: dtype %s: fp32, fp16 or bf16 is needed",
              name, at_dtype_name(operand->dtype));
    if (operand->role >= 0) {
        return ATTUNE_OK;
    }
    AT_FORWARD(check_term("offset_bytes", &operand->offset_bytes));
    AT_FORWARD(check_term("row_stride", &operand->row_stride));
    AT_FORWARD(check_term("head_stride", &operand->head_stride));
    return check_term("batch_stride", &operand->batch_stride);
}

static attune_status check_gemm_step(const attune_step_gemm *step)
{
    AT_FORWARD(check_operand("a", &step->a));
    AT_FORWARD(check_operand("b", &step->b));
    AT_FORWARD(check_operand("c", &step->c));
    REFUSE_IF(step->c.role >= 0 && step->c.role != ATTUNE_O, "operand c is %s: O or the workspace is needed",
              at_role_name(step->c.role));
    AT_FORWARD(check_term("m", &step->m));
    AT_FORWARD(check_term("n", &step->n));
    return check_term("k", &step->k);
}

static attune_status check_step(const attune_kernel *kernel, const attune_step *step)
{
    bool cpu = kernel->target == ATTUNE_TARGET_CPU;
    switch (step->kind) {
    case ATTUNE_STEP_KERNEL:
        return check_kernel_step(kernel, &step->as.kernel);
    case ATTUNE_STEP_FILL:
        return check_fill_step(&step->as.fill);
    case ATTUNE_STEP_GEMM:
        REFUSE_IF(cpu, "gemm steps are of CUDA kernels");
        return check_gemm_step(&step->as.gemm);
    default:
        return at_fail(ATTUNE_INVALID_ARGUMENT, "kind %d is unknown", step->kind);
    }
}

attune_status at_steps_check(const attune_kernel *kernel, const attune_steps *steps)
{
    REFUSE_IF(steps->count < 1 || steps->count > ATTUNE_STEPS_MAX, "kernel %s: it has %d steps: 1 ... %d is allowed",
              kernel->name, steps->count, ATTUNE_STEPS_MAX);
    for (int i = 0; i < steps->count; ++i) {
        attune_status status = check_step(kernel, &steps->step[i]);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "kernel %s: step %d", kernel->name, i);
        }
    }
    attune_status status = check_map_names(steps);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "kernel %s", kernel->name);
}

/* Steps of the kinds that the kernel's table states. */
static attune_status check_stated(const attune_kernel *kernel, const attune_steps *steps)
{
    uint32_t stated = 0;
    for (int i = 0; i < kernel->can_count; ++i) {
        stated |= kernel->can[i].steps;
    }
    AT_FORWARD(at_steps_check(kernel, steps));
    for (int i = 0; i < steps->count; ++i) {
        REFUSE_IF((stated >> steps->step[i].kind & 1u) == 0,
                  "kernel %s: step %d: its capabilities state no steps of kind %d", kernel->name, i,
                  steps->step[i].kind);
    }
    return ATTUNE_OK;
}

/* ---- Answers to a range of questions ---------------------------------------------------------------------------- */

/* Every dtype, mask kind and feature at least once, small and large, even and odd. */
static const char *const questions[] = {
    "b1,h8,s512,d64,fp16",
    "b1,h1,s0,d1,fp32",
    "b2,h32,hkv8,s4096,d128,bf16,causal",
    "b1,h32,hkv8,sq1,skv8192,d128,bf16",
    "b3,h6,hkv2,sq77,skv130,d72,dv40,fp32,offset=tl,window=16:3,softcap=30,scale=0.2,bias=1xh",
    "b2,h4,sq130,skv77,d256,fp16,causal,offset=-7,mask,alibi,sink,seqused,strict,align=2",
    "b4,h4,hkv1,s333,d96,bf16,causal,window=100:-1,bias=bxh,alibi,varlen=1",
    "b2,h4,s128,d64,fp32,layout=bshd",
    "b2,h4,s300,d128,fp32,causal,tf32",
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

static const attune_target places[] = {
    {.size = sizeof(attune_target),
     .kind = ATTUNE_TARGET_CPU,
     .model = "any",
     .isa = ATTUNE_ISA_BASELINE,
     .threads = 2},
    {.size = sizeof(attune_target), .kind = ATTUNE_TARGET_CPU, .model = "any", .isa = ATTUNE_ISA_AVX2, .threads = 8},
    {.size = sizeof(attune_target), .kind = ATTUNE_TARGET_CPU, .model = "any", .isa = ATTUNE_ISA_AVX512, .threads = 64},
    {.size = sizeof(attune_target), .kind = ATTUNE_TARGET_CPU, .model = "any", .isa = ATTUNE_ISA_AMX, .threads = 16},
    {.size = sizeof(attune_target),
     .kind = ATTUNE_TARGET_CUDA,
     .model = "any",
     .arch = 80,
     .sm_count = 108,
     .smem_block_bytes = 49152,
     .smem_optin_bytes = 166912,
     .smem_sm_bytes = 167936,
     .regs_sm = 65536,
     .threads_sm = 2048,
     .memory_l2_bytes = 41943040,
     .driver = 12080,
     .compiler = 12080},
    {.size = sizeof(attune_target),
     .kind = ATTUNE_TARGET_CUDA,
     .model = "any",
     .arch = 89,
     .sm_count = 128,
     .smem_block_bytes = 49152,
     .smem_optin_bytes = 101376,
     .smem_sm_bytes = 102400,
     .regs_sm = 65536,
     .threads_sm = 1536,
     .memory_l2_bytes = 75497472,
     .driver = 12080,
     .compiler = 12080},
    {.size = sizeof(attune_target),
     .kind = ATTUNE_TARGET_CUDA,
     .model = "any",
     .arch = 90,
     .arch_features = 1,
     .sm_count = 132,
     .smem_block_bytes = 49152,
     .smem_optin_bytes = 232448,
     .smem_sm_bytes = 233472,
     .regs_sm = 65536,
     .threads_sm = 2048,
     .memory_l2_bytes = 52428800,
     .driver = 13000,
     .compiler = 13000},
};
enum { PLACES = sizeof places / sizeof *places };

/* Workspace may only grow with the sizes: plans promise its value at their maxima as a bound. */
static attune_status check_workspace(const attune_term *workspace)
{
    static const int64_t ladder[] = {1, 2, 3, 64, 127, 1000};
    int64_t before = 0;
    AT_FORWARD(check_term("workspace", workspace));
    for (size_t step = 0; step < sizeof ladder / sizeof *ladder; ++step) {
        int64_t bytes = 0;
        int64_t size = ladder[step];
        at_sizes sizes = {{size, size, size, size, size, size * size, size * size, 132}};
        attune_status status = at_term_evaluate(workspace, &sizes, &bytes);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "workspace with every size %lld", (long long)size);
        }
        REFUSE_IF(bytes < before, "workspace is %lld bytes with every size %lld, and %lld before: it must not decrease",
                  (long long)bytes, (long long)size, (long long)before);
        before = bytes;
    }
    return ATTUNE_OK;
}

static attune_status check_places(const attune_kernel *kernel, const attune_config *config)
{
    for (int i = kernel->param_count; i < ATTUNE_PARAMS_MAX; ++i) {
        REFUSE_IF(config->value[i] != 0, "config: place %d is %d: places without a parameter must be 0", i,
                  config->value[i]);
    }
    return ATTUNE_OK;
}

static attune_status check_config(const attune_kernel *kernel, const attune_problem *problem,
                                  const attune_target *target, const attune_config *config, bool must_fit)
{
    attune_reason reason = {""};
    attune_resources resources;
    bool fits = at_kernel_fits(kernel, problem, target, config, &reason);
    REFUSE_IF(!fits && reason.text[0] == '\0', "a config is refused without a reason");
    REFUSE_IF(!fits && must_fit, "its first config does not fit: %s", reason.text);
    if (!fits) {
        return ATTUNE_OK;
    }
    AT_FORWARD(check_places(kernel, config));
    memset(&resources, 0, sizeof resources);
    kernel->resources(problem, target, config, &resources);
    AT_FORWARD(check_workspace(&resources.workspace));
    attune_steps *steps = calloc(1, sizeof *steps);
    AT_FAIL_IF(steps == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for steps");
    kernel->steps(problem, target, config, steps);
    attune_status status = check_stated(kernel, steps);
    free(steps);
    return status;
}

static attune_status check_heuristic(const attune_kernel *kernel, const attune_problem *problem,
                                     const attune_target *target)
{
    enum { ENOUGH = 64 };
    attune_config config;
    for (int index = 0; index < ENOUGH; ++index) {
        memset(&config, 0, sizeof config);
        if (!kernel->heuristic(problem, target, index, &config)) {
            REFUSE_IF(index == 0, "heuristic: it has no config of index 0");
            return ATTUNE_OK;
        }
        /* A later config may ask for more than this target has; the first is what a caller gets without asking. */
        AT_FORWARD(check_config(kernel, problem, target, &config, index == 0));
    }
    return ATTUNE_OK;
}

static attune_status check_answers(const attune_kernel *kernel, const attune_problem *problem,
                                   const attune_target *target, bool *supported)
{
    attune_reason reason = {""};
    *supported = at_kernel_supports(kernel, problem, target, &reason);
    if (*supported) {
        return check_heuristic(kernel, problem, target);
    }
    REFUSE_IF(reason.text[0] == '\0', "supports: it refuses without a reason");
    REFUSE_IF(memchr(reason.text, '\0', sizeof reason.text) == NULL, "supports: its reason does not end");
    REFUSE_IF((kernel->traits & ATTUNE_TRAIT_GENERAL) != 0, "a general kernel must support everything, but: %s",
              reason.text);
    return ATTUNE_OK;
}

/* Asks about one problem on every target of the kernel's kind. */
static attune_status check_problem(const attune_kernel *kernel, const char *text, bool *supported_somewhere)
{
    attune_problem problem;
    AT_FORWARD(attune_problem_parse(text, &problem));
    for (int place = 0; place < PLACES; ++place) {
        bool supported = false;
        if (places[place].kind != kernel->target) {
            continue;
        }
        attune_status status = check_answers(kernel, &problem, &places[place], &supported);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "problem %s", text);
        }
        *supported_somewhere |= supported;
    }
    return ATTUNE_OK;
}

static attune_status check_shipped(const attune_kernel *kernel)
{
    for (const attune_shipped *row = kernel->shipped; row != NULL && row->problem != NULL; ++row) {
        attune_config config = {{0}};
        bool supported = false;
        REFUSE_IF(row->config == NULL, "shipped problem %s: config is NULL", row->problem);
        AT_FORWARD(at_config_parse(kernel, row->config, &config));
        AT_FORWARD(check_problem(kernel, row->problem, &supported));
        REFUSE_IF(!supported, "shipped problem %s: no target supports it", row->problem);
    }
    return ATTUNE_OK;
}

static attune_status check_all(const attune_kernel *kernel)
{
    bool supported = false;
    AT_FORWARD(check_identity(kernel));
    AT_FORWARD(check_functions(kernel));
    AT_FORWARD(check_code(kernel));
    AT_FORWARD(check_params(kernel));
    AT_FORWARD(check_capabilities(kernel));
    for (int i = 0; i < QUESTIONS; ++i) {
        AT_FORWARD(check_problem(kernel, questions[i], &supported));
    }
    return check_shipped(kernel);
}

attune_status at_kernel_check_data(const attune_kernel *kernel)
{
    AT_FORWARD(check_identity(kernel));
    AT_FAIL_IF(kernel->target == ATTUNE_TARGET_CUDA && (kernel->source == NULL || *kernel->source == '\0'),
               ATTUNE_INVALID_ARGUMENT, "kernel %s: source: the name of a file is needed", kernel->name);
    AT_FORWARD(check_params(kernel));
    return check_capabilities(kernel);
}

static attune_status check_needs(const at_recipe *recipe, const attune_target *target)
{
    attune_reason reason = {""};
    REFUSE_IF(recipe->kernel->target != target->kind, "it is for another kind of target");
    AT_FORWARD(check_places(recipe->kernel, &recipe->config));
    AT_FAIL_IF(!at_resources_fit(recipe->kernel, target, &recipe->config, &recipe->resources, &reason),
               ATTUNE_UNSUPPORTED, "%s", reason.text);
    return check_workspace(&recipe->resources.workspace);
}

attune_status at_recipe_check(const at_recipe *recipe, const attune_target *target)
{
    attune_status status = check_needs(recipe, target);
    return status != ATTUNE_OK ? at_fail_in(status, "kernel %s", recipe->kernel->name)
                               : check_stated(recipe->kernel, &recipe->steps);
}

attune_status at_kernel_check(const attune_kernel *kernel)
{
    REFUSE_IF(kernel == NULL, "kernel is NULL");
    attune_status status = check_all(kernel);
    return status == ATTUNE_OK ? ATTUNE_OK
                               : at_fail_in(status, "kernel %.64s", kernel->name != NULL ? kernel->name : "NULL");
}
