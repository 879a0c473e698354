/* wmma: descriptor. The source says how it works. */
#include "wmma.h"

static const wmma_kind kind = {"fwd_wmma", false};

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b1,h8,s512,d64,fp16", "WARPS=4,BLOCK_N=64,FRAGMENT_M=8,TENSOR_CORES=1,SPLITS=1,STAGES=1"},
    {"b1,h8,s512,d64,fp16", "WARPS=2,BLOCK_N=32,FRAGMENT_M=32,TENSOR_CORES=1,SPLITS=2,STAGES=2"},
    {"b1,h8,s512,d64,fp16", "WARPS=4,BLOCK_N=64,FRAGMENT_M=16,TENSOR_CORES=0,SPLITS=1,STAGES=1"},
    {"b1,h8,s512,d64,fp16", "WARPS=1,BLOCK_N=32,FRAGMENT_M=16,TENSOR_CORES=1,SPLITS=2,STAGES=3,LAZY=8"},
    {"b8,h16,s2048,d128,fp16", ""},
    {"b8,h16,s2048,d128,bf16,causal", ""},
    {"b2,h8,hkv2,s300,d80,dv48,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused", ""},
    {"b2,h8,hkv2,s300,d80,dv48,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused", "LAZY=8"},
    {NULL, NULL},
};

static const attune_capability can[] = {
    AT_CAN_TILES(ATTUNE_DTYPES_HALF, ATTUNE_FEATURES_FORWARD & ~(uint32_t)ATTUNE_FEATURE_STRICT, ATTUNE_BIASES_FORWARD,
                 DIM_STEP, DIM_MAX),
};

extern const attune_kernel at_kernel_wmma;
const attune_kernel at_kernel_wmma = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wmma",
    .summary = "both products on tensor cores through wmma fragments of three shapes, sums in fp32",
    .traits = ATTUNE_TRAIT_TAINTS,
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "wmma.cu",
};
