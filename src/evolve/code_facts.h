/* What is known of a source's code once it is compiled: for people, for tasks, and to tell code from code. */
#ifndef EVOLVE_CODE_FACTS_H
#define EVOLVE_CODE_FACTS_H

#include "core/device.h"
#include "core/recipe.h"
#include "cpu/cpu.h"
#include "evolve/event_code.h"
#include "judge/verdict.h"

/* Appends what tells this code from other code: of a CPU kernel the object, of a CUDA one the digest of its cubin. */
void at_code_facts_identify(const at_recipe *recipe, const at_build_facts *built, at_text *text);
/* Fills in `facts` and `binds`. CUDA: registers, spills and shared memory, as its worker said, and where nvdisasm is
 * the instructions of the cubin that it kept; `compiler` is the target's. CPU: the instructions of the object, where
 * objdump is. */
void at_code_facts_print(const at_recipe *recipe, const at_build_facts *built, int compiler, at_event_made *made);

/* What a worker's device can do at best, in a sentence, and the microseconds that the problem takes at that rate: of a
 * CPU by a measurement of some tenths of a second, of a GPU by its clocks and published rates. "" and 0 where nobody
 * knows. */
attune_status at_code_facts_roof(at_device *device, const attune_problem *problem, at_pool *pool, at_text *text,
                                 double *us);

/* What a listing of a cubin's code, as nvdisasm prints it, is made of, in a sentence; nothing where it has none. */
void at_code_facts_mix(const char *counts, at_text *text);

/* The hardware's counters in a sentence or two, or why there are none. */
void at_code_facts_counters(const at_counters *counters, at_text *text);

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
