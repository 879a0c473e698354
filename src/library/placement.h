/* Host inputs on a device: on the CPU they run where they lie, elsewhere each buffer, guards included, has a twin. */
#ifndef LIBRARY_PLACEMENT_H
#define LIBRARY_PLACEMENT_H

#include "core/device.h"
#include "reference/inputs.h"

typedef struct at_placement {
    at_device *device;
    at_inputs *inputs;
    attune_call call; /* pointers for the device */
    unsigned char *twin[ATTUNE_ROLE_COUNT];
    unsigned char *workspace; /* followed by a guard band */
    size_t workspace_bytes;
    uint64_t digest; /* of the inputs as drawn */
} at_placement;

/* Whether the device has copies of its own, so that nothing it does reaches the host's inputs. */
bool at_placement_apart(const at_placement *place);
/* Sends the inputs, which must outlive the placement. Free with at_placement_free, also after an error. */
attune_status at_placement_create(at_device *device, at_inputs *inputs, at_placement *place);
void at_placement_free(at_placement *place);
/* Poisons O, LSE and the workspace with the pattern. */
attune_status at_placement_poison(at_placement *place, uint8_t pattern);
/* At least so much workspace in place->call. */
attune_status at_placement_reserve(at_placement *place, size_t bytes);
/* Puts another draw of the same problem, without gaps, at the addresses where the inputs are; outputs and workspace
 * stay as they are. ATTUNE_INTERNAL, and nothing is changed, where a tensor of the other lies differently. */
attune_status at_placement_replace(at_placement *place, const at_inputs *other);
/* Puts the pattern in place of so many bytes of an input, on the device alone where it is apart, else for good: what is
 * judged afterwards by the inputs as drawn is judged wrongly. */
attune_status at_placement_poison_input(at_placement *place, attune_role role, size_t at, size_t bytes,
                                        uint8_t pattern);
/* Brings O and LSE back to the host. */
attune_status at_placement_fetch(at_placement *place);
/* ATTUNE_WRONG_RESULT if a guard band was touched, outputs between rows were written, or an input was changed. */
attune_status at_placement_untouched(at_placement *place);

#endif
