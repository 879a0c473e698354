#include "measure/warmup.h"

#include <math.h>

#include "measure/statistics.h"

void at_warmup_add(at_warmup *warmup, double round_ns)
{
    warmup->last[warmup->rounds % (2 * AT_WARMUP_GROUP)] = round_ns;
    ++warmup->rounds;
}

/* The median of the `count` rounds before the newest `skip` ones. */
static double group_median(const at_warmup *warmup, int64_t skip, int64_t count)
{
    double group[AT_WARMUP_GROUP];
    for (int64_t i = 0; i < count; ++i) {
        group[i] = warmup->last[(warmup->rounds - skip - 1 - i) % (2 * AT_WARMUP_GROUP)];
    }
    at_sort(group, (size_t)count);
    return at_quantile(group, (size_t)count, 0.5);
}

bool at_warmup_settled(const at_warmup *warmup, double share)
{
    if (warmup->rounds < 2 * AT_WARMUP_GROUP) {
        return false;
    }
    double newer = group_median(warmup, 0, AT_WARMUP_GROUP);
    double older = group_median(warmup, AT_WARMUP_GROUP, AT_WARMUP_GROUP);
    return fabs(newer - older) <= share * newer;
}

double at_warmup_recent(const at_warmup *warmup)
{
    int64_t count = warmup->rounds < AT_WARMUP_GROUP ? warmup->rounds : AT_WARMUP_GROUP;
    return count > 0 ? group_median(warmup, 0, count) : 0;
}
