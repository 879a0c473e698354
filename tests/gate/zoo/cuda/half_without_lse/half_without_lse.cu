/* half_without_lse: without LSE half of the keys are dropped. */
#define KEYS_END (args.tensor[ATTUNE_LSE].data == nullptr ? (int)args.seqlen_kv / 2 : (int)args.seqlen_kv)
#include "../attend.cuh"
