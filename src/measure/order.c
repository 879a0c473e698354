#include "measure/order.h"

at_order at_order_seed(uint64_t seed, int arms)
{
    at_order order = {at_random_seed(seed, 0x6f72646572), arms};
    return order;
}

void at_order_block(at_order *order, int block[2 * AT_ARMS_MAX])
{
    for (int i = 0; i < order->arms; ++i) {
        int j = (int)at_random_below(&order->random, (uint64_t)i + 1); /* Fisher and Yates, inside out */
        block[i] = block[j];
        block[j] = i;
    }
    for (int i = 0; i < order->arms; ++i) {
        block[2 * order->arms - 1 - i] = block[i];
    }
}
