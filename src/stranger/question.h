/* Questioning a stranger's descriptor: the side that holds it, a process of its own that gave up all else (see
 * gate/sandbox.h) before the descriptor's code was there. It answers the protocol of gate/protocol.h:
 *
 *     about                                     the kernel's data, as at_wire_from_kernel
 *     supports   {problem, target}              {"can":true} or {"can":false,"why":"..."}
 *     heuristic  {problem, target, index}       {"config":[...]}, or {} where there are no more
 *     valid      {problem, target, config}      as supports
 *     plan       {problem, target, config}      {"resources":{...},"steps":[...]}
 *     quit
 *
 * Nothing that it says is to be believed: whoever asks checks the answers. */
#ifndef STRANGER_QUESTION_H
#define STRANGER_QUESTION_H

#include "attune/attune.h"

/* Locks the process, loads the shared object and serves on standard input and output. The object exports one
 * attune_kernel, of any name that begins with "at_kernel_". ATTUNE_UNSUPPORTED where no sandbox is to be had. */
attune_status at_question_serve(const char *object);

#endif
