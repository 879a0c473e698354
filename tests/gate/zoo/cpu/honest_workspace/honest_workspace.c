/* honest_workspace: keeps its results in the workspace too, and never looks there. */
#define NAME honest_workspace
#define SUMMARY "keeps its results in the workspace too, and never looks there"
#define WORKSPACE                                                                                                      \
    attune_term_mul(attune_term_mul(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_size(ATTUNE_SIZE_HEADS_Q)),    \
                    attune_term_mul(attune_term_size(ATTUNE_SIZE_BATCH), attune_term_const(1024)))
#include "../descriptor.h"
