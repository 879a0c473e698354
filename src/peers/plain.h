/* What peers for plain attention have in common: Q, K, V, a mask by position, and nothing else. */
#ifndef PEERS_PLAIN_H
#define PEERS_PLAIN_H

#include "attune/kernel.h"

/* Whether the problem asks for no feature beyond causal and window; if it does, the reason is "FEATURE: `why`". */
bool at_plain(const attune_problem *problem, const char *why, attune_reason *reason);

#endif
