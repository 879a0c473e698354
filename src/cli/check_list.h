/* What `attune check` runs: problems, each with the configs that it is asked about. */
#ifndef CLI_CHECK_LIST_H
#define CLI_CHECK_LIST_H

#include "core/config.h"
#include "core/problem.h"

typedef struct at_check_entry {
    at_test_problem test;
    char params[AT_KERNEL_TEXT_MAX]; /* "PARAM=VALUE,..." of a config; "" for what the kernel would choose */
} at_check_entry;

typedef struct at_check_list {
    int count;
    at_check_entry *entry;
} at_check_list;

/* The problems that are given; free with at_check_list_free, also after an error. */
attune_status at_check_list_given(const char *const *text, int count, at_check_list *list);
/* The built-in set: every dtype, feature, layout and shape of head at least once. Of a kernel, NULL for any: those
 * that it supports, and where these are few, plain ones beside them. *left_out: how many it does not support. */
attune_status at_check_list_built_in(const attune_kernel *kernel, const attune_target *target, at_check_list *list,
                                     int *left_out);
/* Each problem with every config of the kernel that has these parameters and fits. */
attune_status at_check_list_configs(const attune_kernel *kernel, const char *params, const attune_target *target,
                                    at_check_list *list);
void at_check_list_free(at_check_list *list);

#endif
