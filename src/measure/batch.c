#include "measure/batch.h"

enum { GRAINS = 2000, SHORTEST_NS = 100000, CALLS_MAX = 1000000 };

int64_t at_batch_length(int64_t grain_ns)
{
    int64_t length = grain_ns > INT64_MAX / GRAINS ? INT64_MAX : grain_ns * GRAINS;
    return length > SHORTEST_NS ? length : SHORTEST_NS;
}

int64_t at_batch_calls(int64_t call_ns, int64_t length_ns)
{
    if (call_ns < 1) {
        return CALLS_MAX;
    }
    int64_t calls = length_ns / call_ns + (length_ns % call_ns != 0);
    return calls < 1 ? 1 : calls > CALLS_MAX ? CALLS_MAX : calls;
}
