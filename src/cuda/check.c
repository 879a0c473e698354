/* Whether inspected code may run: what a cubin says against what the descriptor predicted and the device gives. */
#include <string.h>

#include "base/status.h"
#include "core/term.h"
#include "cuda/cubin.h"

static attune_status check_code(const at_cubin *cubin, const attune_kernel *kernel, const attune_target *target)
{
    const char *name = kernel->name;
    AT_FAIL_IF(!cubin->linked, ATTUNE_COMPILE_ERROR, "%s: relocatable code, linked code is needed", name);
    AT_FAIL_IF(cubin->arch / 10 != target->arch / 10 || cubin->arch % 10 > target->arch % 10, ATTUNE_COMPILE_ERROR,
               "%s: code for sm_%d, the device is sm_%d", name, (int)cubin->arch, (int)target->arch);
    AT_FAIL_IF(cubin->globals[0] != '\0', ATTUNE_COMPILE_ERROR,
               "%s: the device global '%s' would outlive a launch; only __constant__ tables that are read by name may",
               name, cubin->globals);
    AT_FAIL_IF(cubin->special[0] != '\0' && (kernel->traits & ATTUNE_TRAIT_CLOCKS) == 0, ATTUNE_COMPILE_ERROR,
               "%s: it reads %s, by which it could tell one call from another; what only needs its place in the grid "
               "has %%ctaid and %%tid, and what needs more declares ATTUNE_TRAIT_CLOCKS and is never found right",
               name, cubin->special);
    AT_FAIL_IF(cubin->undefined_name[0] != '\0', ATTUNE_COMPILE_ERROR, "%s: nothing defines '%s'", name,
               cubin->undefined_name);
    return ATTUNE_OK;
}

static attune_status check_threads(const at_cubin_entry *entry, const char *name, const attune_target *target,
                                   int64_t threads)
{
    AT_FAIL_IF(entry->max_threads > 0 && threads > entry->max_threads, ATTUNE_UNSUPPORTED,
               "%s: %s is compiled for at most %d threads a block, the step has %lld", name, entry->name,
               (int)entry->max_threads, (long long)threads);
    /* Registers are given to whole warps, in units of 8 a thread. */
    int64_t registers = ((int64_t)entry->registers + 7) / 8 * 8 * ((threads + 31) / 32 * 32);
    AT_FAIL_IF(registers > target->regs_sm, ATTUNE_UNSUPPORTED,
               "%s: %s needs %d registers x %lld threads = %lld, the device gives a block %d", name, entry->name,
               (int)entry->registers, (long long)threads, (long long)registers, (int)target->regs_sm);
    return ATTUNE_OK;
}

static attune_status check_entry(const at_cubin *cubin, const at_recipe *recipe, const attune_target *target,
                                 const attune_step_kernel *step, const at_sizes *largest, int64_t *smem)
{
    const char *name = recipe->kernel->name;
    const size_t bytes = at_args_bytes(at_args_maps(&recipe->steps), at_args_roles(recipe->kernel, &recipe->problem));
    int64_t dynamic = 0;
    const at_cubin_entry *entry = at_cubin_find(cubin, step->entry);
    AT_FAIL_IF(entry == NULL, ATTUNE_COMPILE_ERROR, "%s: the code has no entry '%s'", name, step->entry);
    AT_FAIL_IF(entry->param_count != 1 || entry->param_bytes != (int32_t)bytes, ATTUNE_COMPILE_ERROR,
               "%s: %s takes %d parameters, the last of %d bytes; one attune_args of %zu is needed", name, entry->name,
               (int)entry->param_count, (int)entry->param_bytes, bytes);
    AT_FORWARD(check_threads(entry, name, target, (int64_t)step->block[0] * step->block[1] * step->block[2]));
    AT_FORWARD(at_term_evaluate(&step->smem, largest, &dynamic));
    AT_FAIL_IF(entry->smem_static + dynamic > target->smem_optin_bytes, ATTUNE_UNSUPPORTED,
               "%s: %s needs %lld B of shared memory a block, the device gives %d", name, entry->name,
               (long long)(entry->smem_static + dynamic), (int)target->smem_optin_bytes);
    *smem = entry->smem_static + dynamic > *smem ? entry->smem_static + dynamic : *smem;
    return ATTUNE_OK;
}

static at_sizes largest_sizes(const attune_problem *problem, const attune_target *target)
{
    at_sizes sizes = {{0}};
    sizes.value[ATTUNE_SIZE_BATCH] = problem->batch;
    sizes.value[ATTUNE_SIZE_HEADS_Q] = problem->heads_q;
    sizes.value[ATTUNE_SIZE_HEADS_KV] = problem->heads_kv;
    sizes.value[ATTUNE_SIZE_SEQLEN_Q] = problem->seqlen_q;
    sizes.value[ATTUNE_SIZE_SEQLEN_KV] = problem->seqlen_kv;
    sizes.value[ATTUNE_SIZE_TOTAL_Q] = problem->batch * problem->seqlen_q;
    sizes.value[ATTUNE_SIZE_TOTAL_KV] = problem->batch * problem->seqlen_kv;
    sizes.value[ATTUNE_SIZE_SM_COUNT] = target->sm_count;
    return sizes;
}

attune_status at_cubin_check_fit(const at_cubin *cubin, const at_recipe *recipe, const attune_target *target,
                                 int64_t *smem)
{
    at_sizes largest = largest_sizes(&recipe->problem, target);
    *smem = 0;
    AT_FORWARD(check_code(cubin, recipe->kernel, target));
    for (int i = 0; i < recipe->steps.count; ++i) {
        const attune_step *step = &recipe->steps.step[i];
        if (step->kind == ATTUNE_STEP_KERNEL) {
            AT_FORWARD(check_entry(cubin, recipe, target, &step->as.kernel, &largest, smem));
        }
    }
    return ATTUNE_OK;
}

attune_status at_cubin_check(const at_cubin *cubin, const at_recipe *recipe, const attune_target *target)
{
    int64_t smem;
    AT_FORWARD(at_cubin_check_fit(cubin, recipe, target, &smem));
    AT_FAIL_IF(smem != recipe->resources.smem_bytes, ATTUNE_COMPILE_ERROR,
               "%s: the descriptor predicts %d B of shared memory a block, the code has %lld", recipe->kernel->name,
               (int)recipe->resources.smem_bytes, (long long)smem);
    return ATTUNE_OK;
}
