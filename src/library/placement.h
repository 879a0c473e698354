/* A call's buffers on a device. Of drawn inputs: on the CPU they run where they lie, elsewhere each buffer, guards
 * included, has a twin. Of tensors that come from elsewhere: whichever are to be the device's own. */
#ifndef LIBRARY_PLACEMENT_H
#define LIBRARY_PLACEMENT_H

#include "base/random.h"
#include "core/device.h"
#include "reference/inputs.h"

typedef struct at_placement {
    at_device *device;
    at_inputs *inputs; /* NULL: the call's tensors come from elsewhere */
    attune_call call;  /* pointers for the device */
    unsigned char *twin[ATTUNE_ROLE_COUNT];
    unsigned char *workspace; /* followed by a guard band */
    size_t workspace_bytes;
    size_t spare_bytes; /* of the guard band, which the last run had too */
    uint64_t digest;    /* of the inputs as drawn */
} at_placement;

/* Whether the device has copies of its own, so that nothing it does reaches the host's inputs. */
bool at_placement_apart(const at_placement *place);
/* Sends the inputs, which must outlive the placement. Free with at_placement_free, also after an error. */
attune_status at_placement_create(at_device *device, at_inputs *inputs, at_placement *place);
void at_placement_free(at_placement *place);
/* A call whose tensors come from elsewhere, where they lie. Free it likewise. */
void at_placement_open(at_device *device, const attune_call *call, at_placement *place);
/* Moves one of its tensors, of so many bytes, to a buffer of the device's own with this data; NULL: contents are
 * arbitrary. */
attune_status at_placement_own(at_placement *place, attune_role role, const void *data, size_t bytes);
/* Brings back to the host what was moved; does nothing for what was not. */
attune_status at_placement_bring(at_placement *place, attune_role role, void *data, size_t bytes);
/* Bytes that a piece takes in a slab where pieces lie at irregular distances, so that no piece's address follows from
 * another's. */
enum { AT_SPACED_MAX = 256 * 63 }; /* more than the piece itself, at most */
size_t at_placement_spaced(at_random *random, size_t bytes);
/* Poisons O, LSE and the workspace. */
attune_status at_placement_poison(at_placement *place, at_poison poison);
/* Sends what the host's O and LSE hold. */
attune_status at_placement_send_outputs(at_placement *place);
/* At least so much workspace in place->call. */
attune_status at_placement_reserve(at_placement *place, size_t bytes);
/* As much as the plan takes for a call of these buffers. */
attune_status at_placement_fit(at_placement *place, const attune_plan *plan, const attune_call *call);
/* Fits the workspace, runs the plan on the call (place->call, or another of the same buffers, whose own workspace is
 * not looked at) to its end and brings O and LSE of the drawn inputs back to the host. Of drawn inputs the call says to
 * have as much workspace as the plan asked for, or more, by the poison's seed; what lies behind is guarded. */
attune_status at_placement_run(at_placement *place, const attune_plan *plan, const attune_call *call);
/* Puts another draw of the same problem, without gaps, at the addresses where the inputs are; outputs and workspace
 * stay as they are. ATTUNE_INTERNAL, and nothing is changed, where a tensor of the other lies differently. */
attune_status at_placement_replace(at_placement *place, const at_inputs *other);
/* Puts poison in place of so many bytes of an input, on the device alone where it is apart, else for good: what is
 * judged afterwards by the inputs as drawn is judged wrongly. */
attune_status at_placement_poison_input(at_placement *place, attune_role role, size_t at, size_t bytes,
                                        at_poison poison);
/* Multiplies every element of an input, on the host as well: for a call that is to be wrong. */
attune_status at_placement_scale(at_placement *place, attune_role role, double by);
/* Sends an input that the host has changed, which is what it should hold from now on. */
attune_status at_placement_send_input(at_placement *place, attune_role role);
/* Brings O and LSE back to the host. */
attune_status at_placement_fetch(at_placement *place);
/* ATTUNE_WRONG_RESULT if a guard band was touched, outputs between rows were written, or an input was changed. */
attune_status at_placement_untouched(at_placement *place);

#endif
