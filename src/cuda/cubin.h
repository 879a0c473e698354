/* Reading a cubin without running it: its ELF and the compiler's log say what the code needs and what it must not have.
 */
#ifndef CUDA_CUBIN_H
#define CUDA_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "core/recipe.h"

enum { AT_CUBIN_ENTRIES_MAX = 16, AT_CUBIN_NAME_MAX = 128 };

typedef struct at_cubin_entry {
    char name[AT_CUBIN_NAME_MAX];
    int32_t registers;
    int32_t smem_static; /* bytes of a block, what the system reserves left out */
    int32_t local_bytes; /* of a thread: its stack frame */
    int32_t stack_bytes; /* with the frames of all that it calls; INT32_MAX where recursion has no bound */
    int32_t spill_bytes; /* stores and loads of a thread; 0 without a stack frame; -1 where the log does not say */
    int32_t param_count;
    int32_t param_bytes; /* of the first parameter */
    int32_t max_threads; /* __launch_bounds__; 0 where there is none */
} at_cubin_entry;

typedef struct at_cubin {
    int32_t arch; /* 90 */
    int32_t entry_count;
    int32_t warnings;                /* C75xx in the log: serialised wgmma and the like */
    int32_t called_bytes;            /* the largest stack frame of what entries call, by the log */
    bool linked;                     /* an executable, not relocatable code */
    bool names_reserve;              /* a section names the shared memory that the system reserves; it is taken off */
    char globals[AT_CUBIN_NAME_MAX]; /* a mutable device global, or its section; "" where there is none */
    int32_t global_count;            /* of device globals, used or not */
    int32_t unused_globals;          /* as the log has it; -1 where it does not say */
    bool lists_special;              /* the log says which special registers are read */
    char special[AT_CUBIN_NAME_MAX]; /* "%smid": one that only ATTUNE_TRAIT_CLOCKS may read; "" for none */
    char undefined_name[AT_CUBIN_NAME_MAX]; /* a symbol that nothing defines; "" where there is none */
    char warning[256];                      /* the first warning */
    at_cubin_entry entry[AT_CUBIN_ENTRIES_MAX];
} at_cubin;

/* Reads a cubin. `log` is the compiler's, NULL where there is none. ATTUNE_CORRUPT for what is not a sound cubin: every
 * offset, size and index is checked, so any bytes may be given. */
attune_status at_cubin_inspect(const void *data, size_t bytes, const char *log, at_cubin *cubin);
/* The digest of what of a cubin is loaded and run: code, constant banks, attributes and relocations of its entries, by
 * what these refer to. Comments, line numbers, names that are not entries', and enumerators or constants that are
 * folded do not change it. `log` as above: without it, device globals count as used. Errors as above. */
attune_status at_cubin_code(const void *data, size_t bytes, const char *log, char digest[AT_DIGEST_TEXT_MAX]);
/* NULL where there is none of that name. */
const at_cubin_entry *at_cubin_find(const at_cubin *cubin, const char *name);

/* Whether the code may run by the recipe on the target: linked, for its architecture, no mutable globals, nothing
 * undefined, the entries that the steps name, one attune_args each, threads, registers and shared memory as predicted
 * and within the device. */
attune_status at_cubin_check(const at_cubin *cubin, const at_recipe *recipe, const attune_target *target);
/* The same but for its shared memory, which may be more than the descriptor predicts; `smem` says how much a block has.
 */
attune_status at_cubin_check_fit(const at_cubin *cubin, const at_recipe *recipe, const attune_target *target,
                                 int64_t *smem);

/* For code that the driver has linked, of sm_90 and later: it still counts the system's reserve as an entry's own
 * static shared memory, and has lost the section that says so. */
void at_cubin_take_reserve(at_cubin *cubin);

#endif
