/* What is known of a source's code once it is compiled: for people, for tasks, and to tell code from code. */
#ifndef EVOLVE_CODE_FACTS_H
#define EVOLVE_CODE_FACTS_H

#include "core/recipe.h"
#include "cpu/cpu.h"
#include "evolve/event_code.h"
#include "judge/verdict.h"

/* Appends what tells this code from other code: of a CPU kernel the object, of a CUDA one the digest of its cubin. */
void at_code_facts_identify(const at_recipe *recipe, const at_build_facts *built, at_text *text);
/* Fills in `facts` and `binds`. CUDA: registers, spills and shared memory, as its worker said. CPU: the instructions of
 * the object, where objdump is. */
void at_code_facts_print(const at_recipe *recipe, const at_build_facts *built, at_event_made *made);

/* What the target can do at best, in a sentence, by a measurement of some tenths of a second; "" where nobody knows. */
attune_status at_code_facts_roof(const attune_target *target, const attune_problem *problem, at_pool *pool,
                                 at_text *text);

/* Counts of a CPU kernel's instructions. */
typedef struct at_instructions {
    int64_t all, fma, wide, narrow, scalar, calls, stack; /* wide: of the widest registers used; stack: with %rsp */
    int32_t vector_bytes;                                 /* of the widest registers used */
} at_instructions;

/* Reads "fma N wide N ..." as the listing's counter says it; what is missing is 0. */
void at_instructions_parse(const char *text, at_instructions *counts);
/* The sentence, and in a word or two what limits the code. */
void at_instructions_print(const at_instructions *counts, at_event_made *made);

#endif
