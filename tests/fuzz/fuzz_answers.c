/* Any bytes as what a stranger's descriptor answered: refused with words, or a recipe that keeps the contract and says
 * the same again when it is written and read once more. */
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "cuda/cuda.h"
#include "stranger/wire_kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void read_back(const at_recipe *recipe, const attune_target *target)
{
    at_recipe_data *again = NULL;
    json_t *message = at_wire_from_recipe(recipe);
    require(message != NULL);
    require(at_recipe_check(recipe, target) == ATTUNE_OK);
    require(at_wire_recipe(message, target, &again) == ATTUNE_OK);
    require(again->recipe.steps.count == recipe->steps.count &&
            memcmp(&again->recipe.config, &recipe->config, sizeof recipe->config) == 0);
    at_recipe_data_free(again);
    json_decref(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    attune_target targets[2] = {{.size = sizeof(attune_target), .kind = ATTUNE_TARGET_CPU, .threads = 2}};
    json_t *message = NULL;
    if (at_json_parse("answer", (const char *)data, bytes, &message) != ATTUNE_OK ||
        at_cuda_typical(90, &targets[1]) != ATTUNE_OK) {
        return 0;
    }
    for (int i = 0; i < 2; ++i) {
        at_recipe_data *recipe = NULL;
        if (at_wire_recipe(message, &targets[i], &recipe) == ATTUNE_OK) {
            read_back(&recipe->recipe, &targets[i]);
        } else {
            require(recipe == NULL && attune_last_detail()[0] != '\0');
        }
        at_recipe_data_free(recipe);
    }
    json_decref(message);
    return 0;
}
