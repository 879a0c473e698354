/* Configs and their text form "NAME:PARAM=VALUE,...". */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

#include "core/recipe.h"

#define AT_KERNEL_TEXT_MAX 512
/* For the author of a descriptor of ABI 2. */
#define AT_ABI_2_CHANGES                                                                                               \
    ": since ABI 2 a descriptor states what it computes in `can`, causal masks are window_right 0, and code names "    \
    "its "                                                                                                             \
    "tensor maps; docs/kernels.md, \"From ABI 2 to 3\", says how to change it"

/* Splits "NAME" or "NAME:PARAM=VALUE,..." at the colon: copies the name; *params points at what follows it, "" if
 * nothing. ATTUNE_INVALID_ARGUMENT for an empty or too long name. */
attune_status at_kernel_text_split(const char *text, char *name, size_t name_bytes, const char **params);
/* Reads "PARAM=VALUE,..." over `config`, which holds the values of parameters that are not named. Unknown or repeated
 * parameters and values that are not allowed are refused with a list of what is. */
attune_status at_config_parse(const attune_kernel *kernel, const char *params, attune_config *config);
/* Writes "PARAM=VALUE,..." again as this would be read, only what is named, in the descriptor's order: equal lists have
 * equal texts. Refuses what at_config_parse does. */
attune_status at_config_settle(const attune_kernel *kernel, const char *params, char text[AT_KERNEL_TEXT_MAX]);
/* Writes "NAME:PARAM=VALUE,..." with every parameter in the descriptor's order ("NAME" for a kernel without any). */
void at_config_print(const attune_kernel *kernel, const attune_config *config, char text[AT_KERNEL_TEXT_MAX]);
/* How many configs of allowed values there are, and the index-th of them (mixed radix, last parameter fastest). */
int64_t at_config_count(const attune_kernel *kernel);
void at_config_at(const attune_kernel *kernel, int64_t index, attune_config *config);

/* ATTUNE_OK if the descriptor keeps the contract: names, counts and functions present, and, asked about a range of
 * problems and targets, well-formed reasons, configs, resources, terms and steps. */
attune_status at_kernel_check(const attune_kernel *kernel);
/* The same for its data alone: name, traits, parameters. */
attune_status at_kernel_check_data(const attune_kernel *kernel);
/* Whether a recipe, wherever it comes from, keeps the contract and fits the target: allowed values, resources that the
 * target has, well-formed terms, a workspace that does not shrink, steps. */
attune_status at_recipe_check(const at_recipe *recipe, const attune_target *target);
/* The same for the steps alone: counts, entries, dimensions, roles and terms. Loaders call it on what they will run. */
attune_status at_steps_check(const attune_kernel *kernel, const attune_steps *steps);
/* Whether the kernel's table covers the problem with these ATTUNE_FEATURE_ bits on the target; if not, what is beyond
 * it. */
bool at_capabilities_cover(const attune_kernel *kernel, const attune_problem *problem, uint32_t features,
                           const attune_target *target, attune_reason *reason);
/* Whether it computes the problem on the target with some config: its table, then its own function. */
bool at_kernel_supports(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                        attune_reason *reason);
/* The kernel's ATTUNE_TRAIT_ bits with this problem: without TAINTS where it is strict. */
uint32_t at_kernel_traits(const attune_kernel *kernel, const attune_problem *problem);
/* Whether (problem, target, config) can run: supports, allowed values, valid, and resources against the target's. */
bool at_kernel_fits(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                    const attune_config *config, attune_reason *reason);
/* Of the configs that fit and have the parameter's value of this index, one that differs from `likeliest` in the fewest
 * others. False where there is none: then *config is `likeliest` with the value. */
bool at_config_nearest(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                       const attune_config *likeliest, int param, int index, attune_config *config);

/* The half of that which no descriptor is asked for: the values are allowed, and the target has the resources. */
bool at_resources_fit(const attune_kernel *kernel, const attune_target *target, const attune_config *config,
                      const attune_resources *resources, attune_reason *reason);

#endif
