#include "measure/warmup.h"

#include <math.h>

#include "measure/statistics.h"

void at_warmup_add(at_warmup *warmup, double round_ns)
{
    warmup->last[warmup->rounds % (2 * AT_WARMUP_GROUP)] = round_ns;
    ++warmup->rounds;
}

static double median_of(double *values, int64_t count)
{
    at_sort(values, (size_t)count);
    return at_quantile(values, (size_t)count, 0.5);
}

/* The `count` rounds before the newest `skip` ones. */
static void group_of(const at_warmup *warmup, int64_t skip, int64_t count, double group[AT_WARMUP_GROUP])
{
    for (int64_t i = 0; i < count; ++i) {
        group[i] = warmup->last[(warmup->rounds - skip - 1 - i) % (2 * AT_WARMUP_GROUP)];
    }
}

/* The median of a full group, and by how much its rounds differ from it: the median of that. */
static double group_median(const at_warmup *warmup, int64_t skip, double *scatter)
{
    double group[AT_WARMUP_GROUP];
    group_of(warmup, skip, AT_WARMUP_GROUP, group);
    double median = median_of(group, AT_WARMUP_GROUP);
    for (int i = 0; i < AT_WARMUP_GROUP; ++i) {
        group[i] = fabs(group[i] - median);
    }
    *scatter = median_of(group, AT_WARMUP_GROUP);
    return median;
}

bool at_warmup_settled(const at_warmup *warmup, double share)
{
    if (warmup->rounds < 2 * AT_WARMUP_GROUP) {
        return false;
    }
    static const double unrest = 0.05; /* who scatters by more is not let pass for it */
    double scatter[2];
    double newer = group_median(warmup, 0, &scatter[0]);
    double older = group_median(warmup, AT_WARMUP_GROUP, &scatter[1]);
    /* NOTE: a drift of d a round parts the medians by 5 d, and scatters a group by d. */
    double chance = fmin(fmax(scatter[0], scatter[1]), unrest * newer);
    return fabs(newer - older) <= fmax(share * newer, chance);
}

double at_warmup_recent(const at_warmup *warmup)
{
    int64_t count = warmup->rounds < AT_WARMUP_GROUP ? warmup->rounds : AT_WARMUP_GROUP;
    double group[AT_WARMUP_GROUP];
    group_of(warmup, 0, count, group);
    return count > 0 ? median_of(group, count) : 0;
}
