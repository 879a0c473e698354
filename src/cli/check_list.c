#include "cli/check_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"

/* Small enough to be checked in a few minutes. */
static const char *const built_in[] = {
    "b1,h8,s512,d64,fp16",
    "b1,h8,s512,d64,fp32",
    "b1,h4,s300,d128,bf16",
    "b2,h4,s257,d64,fp16,causal",
    "b2,h8,hkv2,s256,d64,bf16,causal",
    "b4,h8,hkv1,sq1,skv1024,d128,bf16",
    "b2,h8,hkv2,sq4,skv513,d64,fp16,causal,seqused",
    "b1,h4,sq300,skv130,d64,fp32,causal",
    "b1,h4,s200,d64,fp16,causal,offset=tl",
    "b1,h4,sq64,skv200,d64,bf16,causal,offset=17",
    "b1,h4,s384,d64,fp16,causal,window=100:-1",
    "b1,h4,s200,d40,fp32,window=30:30",
    "b1,h4,s256,d128,bf16,causal,softcap=15",
    "b2,h4,s128,d64,fp16,bias=1xh",
    "b2,h2,s130,d64,fp32,bias=bxh,causal",
    "b2,h4,s150,d64,bf16,mask",
    "b1,h8,s200,d64,fp16,causal,alibi",
    "b1,h8,s200,d64,bf16,causal,window=64:0,sink",
    "b5,h4,s200,d64,fp16,causal,varlen=1",
    "b4,h4,hkv2,sq40,skv300,d64,bf16,varlen=2,seqused,sink",
    "b2,h3,s77,d72,dv24,fp32,scale=0.25",
    "b1,h2,s129,d256,fp16,layout=bshd",
    "b1,h2,s65,d1,dv3,fp32",
    "b2,h4,s140,d64,fp32,causal,tf32",
    "b3,h6,hkv2,sq33,skv90,d64,fp16,causal,window=40:5,softcap=8,bias=bx1,mask,alibi,sink,seqused,strict",
    "b3,h8,hkv2,sq1,skv500,d128,bf16,seqused,page=16",
    "b2,h4,hkv2,sq40,skv200,d40,fp16,causal,window=60:0,seqused,varlen=3,page=5,vtable,sink",
    "b3,h8,hkv2,sq8,skv90,d64,fp16,seqused,varlen=5,page=64,draft",
    "b2,h4,sq70,skv130,d64,fp32,k=bf16,v=fp16,causal,page=1",
    "append:b3,h4,sq2,skv100,d64,dv40,bf16,page=16,slots",
    "append:b5,h2,sq7,skv90,d16,fp32,k=fp16,seqused,varlen=2,page=5,vtable",
    "merge:b2,h4,sq13,d64,fp32,o=bf16,states=4,sink",
};
enum { BUILT_IN = sizeof built_in / sizeof *built_in };

/* What a narrow kernel is asked beside those of the built-in set that it supports: shapes, dtypes, head dims, masks. */
static const char *const shape[] = {"b1,h8,s512", "b2,h8,hkv2,s257", "b1,h4,sq300,skv130", "b4,h8,hkv1,sq1,skv1024"};
static const char *const dtype[] = {"fp16", "bf16", "fp32"};
static const char *const dim[] = {"d64", "d128", "d32", "d256", "d16"};
static const char *const mask[] = {"", ",causal"};
enum { SHAPES = 4, DTYPES = 3, DIMS = 5, MASKS = 2, PLAIN = SHAPES * DTYPES * DIMS * MASKS, ENOUGH = 12 };

static attune_status add(at_check_list *list, const at_test_problem *test)
{
    at_check_entry *more = realloc(list->entry, ((size_t)list->count + 1) * sizeof *more);
    AT_FAIL_IF(more == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d problems", list->count + 1);
    list->entry = more;
    list->entry[list->count++] = (at_check_entry){.test = *test};
    return ATTUNE_OK;
}

attune_status at_check_list_given(const char *const *text, int count, at_check_list *list)
{
    *list = (at_check_list){0};
    for (int i = 0; i < count; ++i) {
        at_test_problem test;
        attune_status status = at_test_problem_parse(text[i], &test);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "problem \"%s\"", text[i]);
        }
        AT_FORWARD(add(list, &test));
    }
    return ATTUNE_OK;
}

static bool is_listed(const at_check_list *list, const at_test_problem *test)
{
    for (int i = 0; i < list->count; ++i) {
        if (at_test_problem_equal(&list->entry[i].test, test)) {
            return true;
        }
    }
    return false;
}

static bool has_op(const attune_kernel *kernel, int32_t op)
{
    uint32_t ops = 0;
    for (int32_t i = 0; i < kernel->can_count; ++i) {
        ops |= kernel->can[i].ops;
    }
    return (ops & ATTUNE_BIT(op)) != 0;
}

/* *left_out counts what is not supported of an operation that the kernel has. */
static attune_status add_supported(const attune_kernel *kernel, const attune_target *target, const char *text,
                                   at_check_list *list, int *left_out)
{
    at_test_problem test;
    AT_FORWARD(at_test_problem_parse(text, &test));
    if (is_listed(list, &test)) {
        return ATTUNE_OK;
    }
    bool supported = kernel == NULL || at_kernel_supports(kernel, &test.problem, target, NULL);
    *left_out += !supported && has_op(kernel, test.problem.op);
    return supported ? add(list, &test) : ATTUNE_OK;
}

/* Shapes change fastest, so that the first few are of all of them. */
static attune_status add_plain(const attune_kernel *kernel, const attune_target *target, at_check_list *list)
{
    for (int i = 0; i < PLAIN && list->count < ENOUGH; ++i) {
        char text[ATTUNE_PROBLEM_TEXT_MAX];
        (void)snprintf(text, sizeof text, "%s,%s,%s%s", shape[i % SHAPES], dim[i / SHAPES / MASKS / DTYPES],
                       dtype[i / SHAPES / MASKS % DTYPES], mask[i / SHAPES % MASKS]);
        int refused = 0;
        AT_FORWARD(add_supported(kernel, target, text, list, &refused));
    }
    return ATTUNE_OK;
}

attune_status at_check_list_built_in(const attune_kernel *kernel, const attune_target *target, at_check_list *list,
                                     int *left_out)
{
    *list = (at_check_list){0};
    *left_out = 0;
    for (int i = 0; i < BUILT_IN; ++i) {
        AT_FORWARD(add_supported(kernel, target, built_in[i], list, left_out));
    }
    AT_FORWARD(add_plain(kernel, target, list));
    AT_FAIL_IF(list->count == 0, ATTUNE_UNSUPPORTED,
               "kernel %s supports none of the built-in problems: give one that it does", kernel->name);
    return ATTUNE_OK;
}

/* ---- Configs ---------------------------------------------------------------------------------------------------- */

enum { CONFIGS_MAX = 1024 };

/* The config's parameters without the kernel's name. */
static void print_params(const attune_kernel *kernel, const attune_config *config, char params[AT_KERNEL_TEXT_MAX])
{
    char text[AT_KERNEL_TEXT_MAX];
    at_config_print(kernel, config, text);
    const char *colon = strchr(text, ':');
    (void)snprintf(params, AT_KERNEL_TEXT_MAX, "%s", colon == NULL ? "" : colon + 1);
}

static attune_status add_configs(const attune_kernel *kernel, const char *params, const attune_target *target,
                                 const at_test_problem *test, at_check_list *list)
{
    for (int64_t i = 0; i < at_config_count(kernel); ++i) {
        attune_config config = {{0}}, with;
        at_config_at(kernel, i, &config);
        with = config;
        AT_FORWARD(at_config_parse(kernel, params, &with));
        if (memcmp(&with, &config, sizeof with) != 0 ||
            !at_kernel_fits(kernel, &test->problem, target, &config, NULL)) {
            continue;
        }
        AT_FAIL_IF(list->count == CONFIGS_MAX, ATTUNE_INVALID_ARGUMENT,
                   "--all-configs: more than %d pairs of problem and config: hold parameters by KERNEL:PARAM=VALUE,...",
                   CONFIGS_MAX);
        AT_FORWARD(add(list, test));
        print_params(kernel, &config, list->entry[list->count - 1].params);
    }
    return ATTUNE_OK;
}

attune_status at_check_list_configs(const attune_kernel *kernel, const char *params, const attune_target *target,
                                    at_check_list *list)
{
    at_check_list with = {0};
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < list->count && status == ATTUNE_OK; ++i) {
        status = add_configs(kernel, params, target, &list->entry[i].test, &with);
    }
    if (status == ATTUNE_OK && with.count == 0) {
        status = at_fail(ATTUNE_UNSUPPORTED, "kernel %s: no config of %" PRId64 " fits any of the %d problems",
                         kernel->name, at_config_count(kernel), list->count);
    }
    at_check_list_free(list);
    *list = with;
    return status;
}

void at_check_list_free(at_check_list *list)
{
    free(list->entry);
    *list = (at_check_list){0};
}
