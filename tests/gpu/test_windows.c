/* Windows over long sequences, on the device: without a left bound, and with one beyond all keys, where bounds and the
 * numbers of keys far to the right leave an int together. Every kernel's result against the reference. */
#include "base/cm.h"
#include "on_device.h"
#include "one_case.h"

/* On standard normals. */
enum { NORMAL_CASE = 0 };

static void wgmma_sees_what_it_should(void **state)
{
    static const char *const problems[] = {
        "b1,h2,s2048,d64,fp16,window=-1:20",         "b1,h1,s2048,d128,bf16,causal,window=-1:40",
        "b1,h1,s2100,d128,fp16,window=2147483647:5", "b1,h1,s2048,d64,bf16,window=3000:-1",
        "b1,h1,s2048,d256,bf16,window=-1:20",
    };
    const at_device *device = at_context_device(*state);
    for (size_t i = 0; device->target.arch == 90 && i < sizeof problems / sizeof *problems; ++i) {
        check_case(state, "wgmma", problems[i], NORMAL_CASE);
    }
}

static void so_do_others(void **state)
{
    static const char *const kernels[] = {"tiled", "pipelined", "wmma", "wmma_ws", "mma"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i) {
        check_case(state, kernels[i], "b1,h1,s2048,d64,fp16,window=-1:20", NORMAL_CASE);
        check_case(state, kernels[i], "b1,h1,s2048,d64,fp16,causal,window=2147483647:0", NORMAL_CASE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wgmma_sees_what_it_should),
        cmocka_unit_test(so_do_others),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
