/* honest_maps: keys and values come through tensor maps, which the target makes for each call. */
#define NAME honest_maps
#define SUMMARY "keys and values by tensor maps"
#define ELEMENT(p) (p->dtype == ATTUNE_FP32 ? 4 : 2)
#define SMEM(p) (32 * (p->head_dim_qk + p->head_dim_v) * (4 + ELEMENT(p)) + 128)
#define REFUSES(p, t)                                                                                                  \
    (t->arch < 90 || t->arch_features == 0               ? "arch: sm_90a or later is needed"                           \
     : p->align > 0 && p->align < 16                     ? "align: 16 bytes are needed"                                \
     : p->head_dim_qk % 8 != 0 || p->head_dim_v % 8 != 0 ? "head_dim: a multiple of 8 is needed"                       \
                                                         : NULL)
#define STEPS(p, list)                                                                                                 \
    list->step[0] = kernel_step("attend", row_tiles(), THREADS, SMEM(p));                                              \
    list->step[0].as.kernel.map[0] = (attune_map){.role = ATTUNE_K, .box = {p->head_dim_qk, 32, 1, 1}};                \
    list->step[0].as.kernel.map[1] = (attune_map){.role = ATTUNE_V, .box = {p->head_dim_v, 32, 1, 1}};                 \
    list->step[0].as.kernel.map_count = 2;                                                                             \
    list->count = 1;
#include "../descriptor.h"
