#include "measure/blocks.h"

#include "base/status.h"

static double now_s(const at_blocks *on)
{
    return (double)on->clock.now_ns(on->clock.self) * 1e-9;
}

static attune_status take_block(at_blocks *on)
{
    int order[2 * AT_ARMS_MAX];
    at_order_block(&on->order, order);
    return on->take(on->self, order, 2 * on->order.arms, on->us);
}

bool at_blocks_settled(const at_blocks *on)
{
    for (int arm = 0; arm < on->order.arms; ++arm) {
        if (!at_warmup_settled(&on->warmup[arm], on->settled)) {
            return false;
        }
    }
    return true;
}

attune_status at_blocks_warm_up(at_blocks *on, double *spent_s)
{
    double start = now_s(on), spent = 0;
    bool enough = false;
    for (int blocks = 1; !enough; ++blocks) {
        AT_FORWARD(take_block(on));
        for (int arm = 0; arm < on->order.arms; ++arm) {
            at_warmup_add(&on->warmup[arm], 1e3 * (on->us[arm][0] + on->us[arm][1]) / 2);
        }
        spent = now_s(on) - start;
        enough = on->warm(on->self, blocks, spent);
    }
    if (spent_s != NULL) {
        *spent_s = spent;
    }
    return ATTUNE_OK;
}

attune_status at_blocks_sample(at_blocks *on)
{
    double start = now_s(on);
    for (int blocks = 0; on->more(on->self, blocks, now_s(on) - start); ++blocks) {
        AT_FORWARD(take_block(on));
        AT_FORWARD(on->keep(on->self, on->us));
    }
    return ATTUNE_OK;
}
