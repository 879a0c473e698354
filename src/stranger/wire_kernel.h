/* Kernels and recipes as messages: how a stranger's descriptor answers, and how what it answered reaches the worker
 * that compiles and runs the kernel. Whatever is read is checked as at_kernel_check checks descriptors that are linked
 * in, so that what comes out can be trusted to be well formed, and nothing more. */
#ifndef STRANGER_WIRE_KERNEL_H
#define STRANGER_WIRE_KERNEL_H

#include "core/recipe.h"
#include "wire/protocol.h"

/* A kernel that is data: it has no functions, and for a CPU no code until someone puts it into kernel.attend. */
typedef struct at_kernel_data {
    attune_kernel kernel;
    attune_param param[ATTUNE_PARAMS_MAX];
    attune_capability can[ATTUNE_CAN_MAX];
    int32_t *values;         /* of all parameters, one after the other */
    attune_shipped *shipped; /* ends with a NULL problem */
    json_t *message;         /* the texts are in it */
} at_kernel_data;

/* Name, summary, target, traits, parameters, capabilities, source, shipped problems. NULL only for want of memory, or
 * where a text of the kernel is not UTF-8. */
json_t *at_wire_from_kernel(const attune_kernel *kernel);
/* Keeps the message. ATTUNE_CORRUPT for what is no kernel. Release with at_kernel_data_free. */
attune_status at_wire_kernel(json_t *message, at_kernel_data **data);
void at_kernel_data_free(at_kernel_data *data);

/* A config travels as an array of the kernel's parameters' values. */
json_t *at_wire_from_config(const attune_kernel *kernel, const attune_config *config);
attune_status at_wire_config(const json_t *array, const attune_kernel *kernel, attune_config *config);

/* {"resources":{...},"steps":[...]}: what a kernel needs and does. Texts of the steps read are in the message. */
json_t *at_wire_from_plan(const attune_resources *resources, const attune_steps *steps);
attune_status at_wire_plan(const json_t *message, attune_resources *resources, attune_steps *steps);

/* A recipe whole, with those of its sources that are not the library's own: text for CUDA, an object for a CPU. */
json_t *at_wire_from_recipe(const at_recipe *recipe);

typedef struct at_recipe_data {
    at_recipe recipe;
    at_kernel_data *kernel;
    at_embedded *sources;  /* CUDA: what travelled, then the library's own; CPU: the object */
    unsigned char *object; /* bytes of the latter */
    json_t *message;
} at_recipe_data;

/* Checked by at_recipe_check for the target. Keeps the message. Release with at_recipe_data_free. */
attune_status at_wire_recipe(json_t *message, const attune_target *target, at_recipe_data **data);
void at_recipe_data_free(at_recipe_data *data);

#endif
