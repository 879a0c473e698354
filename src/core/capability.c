/* What kernels can, as their tables say it: one comparison for all of them, and its reasons. */
#include <stdio.h>

#include "base/text.h"
#include "core/config.h"
#include "core/descriptor.h"
#include "core/problem.h"
#include "core/target.h"

/* A problem on a target, as a table is asked about it. */
typedef struct question {
    const attune_kernel *kernel;
    const attune_problem *problem;
    const attune_target *target;
    uint32_t features;
} question;

static bool has_bit(uint32_t bits, int index)
{
    return index >= 0 && index < 32 && (bits >> index & 1u) != 0;
}

static bool covers_op(const attune_capability *can, const question *of, attune_reason *reason)
{
    return has_bit(can->ops, of->problem->op) ||
           attune_refuse(reason, "op %d (%s): kernel %s does not compute it", of->problem->op,
                         at_op_name(of->problem->op), of->kernel->name);
}

/* "fp32, fp16 or bf16": the names of the bits, of which there are `count`. */
static void list_names(uint32_t bits, const char *(*name)(int bit), int count, char text[64])
{
    at_text out;
    at_text_init_fixed(&out, text, 64);
    for (int i = 0; i < count; ++i) {
        if (has_bit(bits, i)) {
            bits &= ~ATTUNE_BIT(i);
            at_text_add(&out, "%s%s", out.length == 0 ? "" : bits == 0 ? " or " : ", ", name(i));
        }
    }
    at_text_add(&out, "%s", out.length == 0 ? "another" : "");
}

static bool covers_dtype(const attune_capability *can, const question *of, attune_reason *reason)
{
    char needed[64];
    list_names(can->dtypes, at_dtype_name, ATTUNE_DTYPE_COUNT, needed);
    return has_bit(can->dtypes, of->problem->dtype) ||
           attune_refuse(reason, "dtype %s: %s is needed", at_dtype_name(of->problem->dtype), needed);
}

static bool covers_role_dtypes(const attune_capability *can, const question *of, attune_reason *reason)
{
    static const int roles[] = {ATTUNE_K, ATTUNE_V, ATTUNE_O, ATTUNE_BIAS};
    const uint32_t own[] = {can->dtypes_k, can->dtypes_v, can->dtypes_o, can->dtypes_bias};
    const int dtype = of->problem->dtype;
    for (int i = 0; i < 4; ++i) {
        const int its = at_problem_dtype(of->problem, roles[i]);
        if (its != dtype && !has_bit(own[i], its)) {
            return attune_refuse(reason, "%s in %s: kernel %s has no code for it beside %s", at_role_name(roles[i]),
                                 at_dtype_name(its), of->kernel->name, at_dtype_name(dtype));
        }
    }
    return true;
}

/* A feature in words, with its value where it has one. */
static void name_feature(const attune_problem *p, int bit, char text[96])
{
    static const char *const names[] = {"causal",  "window", "softcap", "bias", "mask",   "alibi", "sink",
                                        "seqused", "varlen", "strict",  "page", "vtable", "draft", "slots"};
    if (bit == __builtin_ctz(ATTUNE_FEATURE_WINDOW)) {
        (void)snprintf(text, 96, "window %lld:%lld", (long long)p->window_left, (long long)p->window_right);
    } else if (bit == __builtin_ctz(ATTUNE_FEATURE_SOFTCAP)) {
        (void)snprintf(text, 96, "softcap %g", (double)p->softcap);
    } else if (bit == __builtin_ctz(ATTUNE_FEATURE_PAGED)) {
        (void)snprintf(text, 96, "page %d", p->page_size);
    } else if (bit == __builtin_ctz(ATTUNE_FEATURE_BIAS)) {
        (void)snprintf(text, 96, "bias %s", at_bias_name(p->bias));
    } else if (bit < (int)(sizeof names / sizeof names[0])) {
        (void)snprintf(text, 96, "%s", names[bit]);
    } else {
        (void)snprintf(text, 96, "feature %d", bit);
    }
}

static bool covers_features(const attune_capability *can, const question *of, attune_reason *reason)
{
    const uint32_t beyond = of->features & ~can->features;
    char name[96];
    if (beyond == 0) {
        return true;
    }
    if (beyond == ATTUNE_FEATURE_STRICT) {
        return attune_refuse(reason, "strict: a non-finite key or value may reach rows that do not see it");
    }
    name_feature(of->problem, __builtin_ctz(beyond), name);
    return attune_refuse(reason, "%s: kernel %s does not compute it", name, of->kernel->name);
}

static const char *offset_name(int offset)
{
    static const char *const names[] = {"br", "tl", "a number"};
    return offset >= 0 && offset <= ATTUNE_OFFSET_NUMBER ? names[offset] : "?";
}

/* Where queries lie matters to whatever looks at positions. */
static bool covers_offset(const attune_capability *can, const question *of, attune_reason *reason)
{
    const attune_problem *p = of->problem;
    const uint32_t positions = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_ALIBI;
    char needed[64], number[32];
    if ((of->features & positions) == 0 || has_bit(can->offsets, p->offset_kind)) {
        return true;
    }
    list_names(can->offsets, offset_name, ATTUNE_OFFSET_NUMBER + 1, needed);
    (void)snprintf(number, sizeof number, "%lld", (long long)p->offset);
    return attune_refuse(reason, "offset %s: %s is needed",
                         p->offset_kind == ATTUNE_OFFSET_NUMBER ? number : offset_name(p->offset_kind), needed);
}

static bool covers_bias(const attune_capability *can, const question *of, attune_reason *reason)
{
    char needed[64];
    if (of->problem->bias == ATTUNE_BIAS_NONE || has_bit(can->biases, of->problem->bias)) {
        return true;
    }
    list_names(can->biases, at_bias_name, ATTUNE_BIAS_BXH + 1, needed);
    return attune_refuse(reason, "bias %s: %s is needed", at_bias_name(of->problem->bias), needed);
}

static bool covers_dim(const char *name, const attune_dims *dims, int32_t dim, attune_reason *reason)
{
    if (dim >= dims->least && dim <= dims->most && dim % dims->step == 0) {
        return true;
    }
    return dims->least == dims->most ? attune_refuse(reason, "%s %d: %d is needed", name, dim, dims->least)
                                     : attune_refuse(reason, "%s %d: a multiple of %d from %d to %d is needed", name,
                                                     dim, dims->step, dims->least, dims->most);
}

static bool covers_shape(const attune_capability *can, const question *of, attune_reason *reason)
{
    const attune_problem *p = of->problem;
    if (!covers_dim("head_dim_qk", &can->head_dim_qk, p->head_dim_qk, reason) ||
        !covers_dim("head_dim_v", &can->head_dim_v, p->head_dim_v, reason)) {
        return false;
    }
    if (can->dims_equal && p->head_dim_v != p->head_dim_qk) {
        return attune_refuse(reason, "head_dim_v %d: as head_dim_qk, %d, is needed", p->head_dim_v, p->head_dim_qk);
    }
    if (!has_bit(can->layouts, p->layout)) {
        return attune_refuse(reason, "layout %s: kernel %s does not take it", at_layout_name(p->layout),
                             of->kernel->name);
    }
    return at_problem_align(p) >= can->align ||
           attune_refuse(reason, "align %d: %d bytes are needed", at_problem_align(p), can->align);
}

static bool covers_target(const attune_capability *can, const question *of, attune_reason *reason)
{
    const attune_target *target = of->target;
    if (of->kernel->target == ATTUNE_TARGET_CPU) {
        return (target->isa >= can->arch_least && target->isa <= can->arch_most) ||
               attune_refuse(reason, "isa %s: %s%s is needed", at_isa_name((attune_isa)target->isa),
                             at_isa_name((attune_isa)can->arch_least),
                             can->arch_most == can->arch_least ? "" : " or higher");
    }
    if (target->arch >= can->arch_least && target->arch <= can->arch_most &&
        (!can->arch_features || target->arch_features)) {
        return true;
    }
    char upto[32] = " or later";
    if (can->arch_most != ATTUNE_ANY) {
        (void)snprintf(upto, sizeof upto, " to sm_%d%s", can->arch_most, can->arch_features ? "a" : "");
    }
    return attune_refuse(reason, "arch sm_%d%s: sm_%d%s%s is needed", target->arch, target->arch_features ? "a" : "",
                         can->arch_least, can->arch_features ? "a" : "", can->arch_most == can->arch_least ? "" : upto);
}

static bool (*const comparisons[])(const attune_capability *can, const question *of, attune_reason *reason) = {
    covers_op,       covers_target, covers_dtype, covers_role_dtypes,
    covers_features, covers_offset, covers_bias,  covers_shape,
};
enum { COMPARISONS = sizeof comparisons / sizeof comparisons[0] };

/* How many comparisons a row passes: of rows that pass as many, the first says why. */
static int passes(const attune_capability *can, const question *of, attune_reason *reason)
{
    int passed = 0;
    while (passed < COMPARISONS && comparisons[passed](can, of, reason)) {
        ++passed;
    }
    return passed;
}

bool at_capabilities_cover(const attune_kernel *kernel, const attune_problem *problem, uint32_t features,
                           const attune_target *target, attune_reason *reason)
{
    const question of = {kernel, problem, target, features};
    int farthest = -1;
    for (int i = 0; i < kernel->can_count; ++i) {
        attune_reason why = {""};
        const int passed = passes(&kernel->can[i], &of, &why);
        if (passed == COMPARISONS) {
            return true;
        }
        if (passed > farthest && reason != NULL) {
            *reason = why;
        }
        farthest = passed > farthest ? passed : farthest;
    }
    return farthest >= 0 ? false : attune_refuse(reason, "kernel %s states nothing that it can", kernel->name);
}

bool at_kernel_supports(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                        attune_reason *reason)
{
    const at_described *elsewhere = at_kernel_described(kernel);
    return at_capabilities_cover(kernel, problem, at_problem_demands(problem), target, reason) &&
           (elsewhere != NULL ? elsewhere->ops->supports(elsewhere->self, problem, target, reason)
                              : kernel->supports == NULL || kernel->supports(problem, target, reason));
}
