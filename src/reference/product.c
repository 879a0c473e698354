#include "reference/product.h"

#include <stdbool.h>
#include <stddef.h>

enum { ROWS = 4, VECTORS = 2 };

#define TIER_TARGET
#define WIDTH 16
#define NUMBER float
#define TIER(name) name##_float_16
#include "reference/product.inc"
#undef NUMBER
#undef TIER
#define NUMBER double
#define TIER(name) name##_double_16
#include "reference/product.inc"
#undef NUMBER
#undef TIER
#undef WIDTH
#undef TIER_TARGET

#if defined(__x86_64__)
#define TIER_TARGET __attribute__((target("avx2")))
#define WIDTH 32
#define NUMBER float
#define TIER(name) name##_float_32
#include "reference/product.inc"
#undef NUMBER
#undef TIER
#define NUMBER double
#define TIER(name) name##_double_32
#include "reference/product.inc"
#undef NUMBER
#undef TIER
#undef WIDTH
#undef TIER_TARGET

#define TIER_TARGET __attribute__((target("avx512f")))
#define WIDTH 64
#define NUMBER float
#define TIER(name) name##_float_64
#include "reference/product.inc"
#undef NUMBER
#undef TIER
#define NUMBER double
#define TIER(name) name##_double_64
#include "reference/product.inc"
#endif

const at_product_ops *at_product_tier(int tier)
{
    static const at_product_ops plain = {product_float_16, product_double_16};
#if defined(__x86_64__)
    static const at_product_ops avx2 = {product_float_32, product_double_32};
    static const at_product_ops avx512 = {product_float_64, product_double_64};
    if (tier == 1) {
        return __builtin_cpu_supports("avx2") ? &avx2 : NULL;
    }
    if (tier == 2) {
        return __builtin_cpu_supports("avx512f") ? &avx512 : NULL;
    }
#endif
    return tier == 0 ? &plain : NULL;
}

const at_product_ops *at_product_best(void)
{
    int tier = AT_PRODUCT_TIERS - 1;
    while (at_product_tier(tier) == NULL) {
        --tier;
    }
    return at_product_tier(tier);
}
