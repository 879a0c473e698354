/* cuDNN as a peer: NVIDIA's own fused attention, through its C graph API, on a CUDA device. A plan is made for each
 * shape and set of strides that comes up, when its workspace is asked for and at the latest when it first runs; runs
 * are enqueued under a lock, one at a time, and can be captured. */
#ifndef PEERS_CUDNN_H
#define PEERS_CUDNN_H

#include "core/device.h"
#include "measure/arm.h"

/* Whether cuDNN is asked for this problem at all; if not, the reason. Its engines may refuse more: contending shows it.
 */
bool at_cudnn_supports(const attune_problem *problem, const attune_target *target, attune_reason *reason);

/* Opens the peer on a CUDA device and plans the problem as it is: with the first choice of cuDNN's heuristics, or,
 * with `fastest`, the fastest of all its choices as measured here and now. Named "cudnn" or "cudnn:fastest"; the
 * account has cuDNN's version and the engine. ATTUNE_UNSUPPORTED names the field, or has cuDNN's words;
 * ATTUNE_NOT_FOUND where there is no cuDNN. */
attune_status at_cudnn_arm(at_device *device, const attune_problem *problem, bool fastest, attune_arm *arm);

#endif
