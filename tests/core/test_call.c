#include "calls.h"

#include "core/recipe.h"

static void refused(const attune_problem *problem, const attune_call *call, const char *first, const char *second)
{
    assert_int_equal(at_call_check(problem, call), ATTUNE_INVALID_ARGUMENT);
    if (strstr(attune_last_detail(), first) == NULL || strstr(attune_last_detail(), second) == NULL) {
        fail_msg("the message lacks '%s' or '%s': %s", first, second, attune_last_detail());
    }
}

#define REFUSED(problem, member, bad, first, second)                                                                   \
    do {                                                                                                               \
        attune_call call_ = whole(problem);                                                                            \
        call_.member = bad;                                                                                            \
        refused(problem, &call_, first, second);                                                                       \
    } while (0)

#define ACCEPTED(problem, member, good)                                                                                \
    do {                                                                                                               \
        attune_call call_ = whole(problem);                                                                            \
        call_.member = good;                                                                                           \
        accepted(problem, &call_);                                                                                     \
    } while (0)

/* ---- Filling in ------------------------------------------------------------------------------------------------- */

static void strides_are(const attune_call *call, int role, int64_t batch, int64_t head, int64_t sequence)
{
    const int64_t *stride = call->tensor[role].stride;
    if (stride[0] != batch || stride[1] != head || stride[2] != sequence) {
        fail_msg("%s: %lld %lld %lld, not %lld %lld %lld", at_role_name(role), (long long)stride[0],
                 (long long)stride[1], (long long)stride[2], (long long)batch, (long long)head, (long long)sequence);
    }
}

static void init_fills_contiguous_strides(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    attune_call call = whole(&problem);
    assert_int_equal(call.size, sizeof call);
    assert_true(call.batch == 3 && call.heads_q == 4 && call.heads_kv == 2 && call.seqlen_q == 6);
    assert_true(call.seqlen_kv == 10 && call.total_q == 18 && call.total_kv == 30);
    strides_are(&call, ATTUNE_Q, 4 * 6 * 8, 6 * 8, 8);
    strides_are(&call, ATTUNE_K, 2 * 10 * 8, 10 * 8, 8);
    strides_are(&call, ATTUNE_V, 2 * 10 * 16, 10 * 16, 16);
    strides_are(&call, ATTUNE_O, 4 * 6 * 16, 6 * 16, 16);
    strides_are(&call, ATTUNE_LSE, 4 * 6, 6, 1);
    strides_are(&call, ATTUNE_BIAS, 4 * 6 * 10, 6 * 10, 10);
    strides_are(&call, ATTUNE_MASK, 4 * 6 * 10, 6 * 10, 10);
    strides_are(&call, ATTUNE_SINK, 4, 1, 1);
    strides_are(&call, ATTUNE_USED_KV, 1, 1, 1);
    assert_int_equal(call.tensor[ATTUNE_BIAS].dtype, ATTUNE_FP16);
    assert_int_equal(call.tensor[ATTUNE_LSE].dtype, ATTUNE_FP32);
    assert_int_equal(call.tensor[ATTUNE_MASK].dtype, ATTUNE_BOOL);
    assert_int_equal(call.tensor[ATTUNE_CU_Q].dtype, ATTUNE_INT32);
    accepted(&problem, &call);
}

static void init_knows_layouts(void **state)
{
    (void)state;
    attune_problem problem = parse("b3,h4,hkv2,sq6,skv10,d8,dv16,fp16,layout=bshd,bias=1xh");
    attune_call call = whole(&problem);
    strides_are(&call, ATTUNE_Q, 6 * 4 * 8, 8, 4 * 8);
    strides_are(&call, ATTUNE_V, 10 * 2 * 16, 16, 2 * 16);
    strides_are(&call, ATTUNE_LSE, 4 * 6, 6, 1);
    strides_are(&call, ATTUNE_BIAS, 0, 60, 10);
    accepted(&problem, &call);
    problem = parse(packed);
    call = whole(&problem);
    strides_are(&call, ATTUNE_Q, 0, 8, 4 * 8);
    strides_are(&call, ATTUNE_O, 0, 16, 4 * 16);
    strides_are(&call, ATTUNE_LSE, 0, 18, 1);
    accepted(&problem, &call);
    problem = parse("b2,h2,s3,d3,fp16,align=16,bias=bx1");
    call = whole(&problem);
    strides_are(&call, ATTUNE_Q, 2 * 3 * 8, 3 * 8, 8); /* rows of 6 bytes, padded to 16 */
    strides_are(&call, ATTUNE_BIAS, 9, 0, 3);
    accepted(&problem, &call);
}

static void init_refuses(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    attune_call call;
    memset(&call, 0x5a, sizeof call);
    assert_int_equal(attune_call_init(NULL, &problem), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_call_init(&call, NULL), ATTUNE_INVALID_ARGUMENT);
    problem.batch = 0;
    assert_int_equal(attune_call_init(&call, &problem), ATTUNE_INVALID_PROBLEM);
    assert_int_equal(call.batch, 0x5a5a5a5a5a5a5a5a);
}

/* What init gives is accepted, for problems of any kind, empty ones too. */
static void what_init_gives_is_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "b1,h1,s0,d1,fp32",
        "b1,h1,s1,d1,bf16",
        "b7,h6,hkv3,sq0,skv9,d33,dv7,fp16,bias=bx1,mask,sink",
        "b7,h6,hkv3,sq9,skv0,d33,dv7,fp16,bias=bx1,mask,alibi,layout=bshd",
        "b7,h6,hkv1,s9,d40,fp32,align=64,varlen=1,bias=bxh",
        "b1,h1,s0,d40,fp32,varlen=1",
        "b2,h2,s5,d3,fp16,align=256,layout=bshd",
        "b65536,h64,s65536,d128,bf16",
        everything,
        packed,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        attune_problem problem = parse(texts[i]);
        attune_call call = whole(&problem);
        for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
            if (call.tensor[role].data != NULL) {
                call.tensor[role].data = (void *)(((uintptr_t)role + 1) << 58);
            }
        }
        accepted(&problem, &call);
    }
}

/* A mask of these sizes would have 2^92 elements; the problem has none. */
static void what_a_problem_lacks_has_no_strides(void **state)
{
    (void)state;
    attune_problem problem = parse("b2147483647,h1,sq1073741823,skv2147483647,d1,dv1,fp16");
    attune_call call = whole(&problem);
    assert_int_equal(call.total_q, INT64_C(2147483647) * 1073741823);
    strides_are(&call, ATTUNE_K, 2147483647, 2147483647, 1);
    strides_are(&call, ATTUNE_MASK, 0, 0, 0);
    strides_are(&call, ATTUNE_BIAS, 0, 0, 0);
    assert_int_equal(call.tensor[ATTUNE_MASK].dtype, ATTUNE_BOOL);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------ */

static void sizes(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    REFUSED(&problem, batch, 0, "batch is 0", "1 ... 3");
    REFUSED(&problem, batch, -1, "batch is -1", "1 ... 3");
    REFUSED(&problem, batch, 4, "batch is 4", "1 ... 3");
    REFUSED(&problem, heads_q, 5, "heads_q is 5", "1 ... 4");
    REFUSED(&problem, heads_q, 3, "heads_q is 3", "heads_kv 2");
    REFUSED(&problem, heads_kv, 3, "heads_kv is 3", "1 ... 2");
    REFUSED(&problem, heads_kv, 0, "heads_kv is 0", "1 ... 2");
    REFUSED(&problem, seqlen_q, 7, "seqlen_q is 7", "0 ... 6");
    REFUSED(&problem, seqlen_q, -1, "seqlen_q is -1", "0 ... 6");
    REFUSED(&problem, seqlen_kv, INT64_MAX, "seqlen_kv is 9223372036854775807", "0 ... 10");
    ACCEPTED(&problem, batch, 1);
    ACCEPTED(&problem, heads_q, 2);
    ACCEPTED(&problem, heads_kv, 1);
    ACCEPTED(&problem, seqlen_q, 0);
    ACCEPTED(&problem, seqlen_kv, 0);
    ACCEPTED(&problem, total_q, -99); /* means nothing without varlen */
    ACCEPTED(&problem, offset, INT64_MAX);
    problem = parse(packed);
    REFUSED(&problem, total_q, 19, "total_q is 19", "0 ... 18");
    REFUSED(&problem, total_kv, -1, "total_kv is -1", "0 ... 30");
    ACCEPTED(&problem, total_q, 0);
    problem = parse("b1,h1,s8,d8,fp16,offset=3");
    REFUSED(&problem, offset, 2147483648, "offset is 2147483648", "2147483647");
    ACCEPTED(&problem, offset, -2147483647);
}

/* ---- One tensor ------------------------------------------------------------------------------------------------- */

static void presence(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        attune_call call = whole(&problem);
        if (at_problem_needs(&problem, (attune_role)role)) {
            call.tensor[role].data = NULL;
            refused(&problem, &call, at_role_name(role), "NULL");
        }
    }
    ACCEPTED(&problem, tensor[ATTUNE_LSE].data, NULL);
    REFUSED(&problem, tensor[ATTUNE_CU_Q].data, place(50), "CU_Q is given", "has none");
    attune_problem plain = parse("b1,h1,s8,d8,fp16");
    for (int role = ATTUNE_BIAS; role < ATTUNE_ROLE_COUNT; ++role) {
        REFUSED(&plain, tensor[role].data, place(50), at_role_name(role), "is given");
    }
    REFUSED(&plain, page_count, 1, "page_count", "0 is needed");
    REFUSED(&plain, states, 2, "states", "0 is needed");
}

static void empty_tensors_need_no_memory(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    attune_call call = whole(&problem);
    call.seqlen_q = 0;
    call.tensor[ATTUNE_Q].data = call.tensor[ATTUNE_O].data = call.tensor[ATTUNE_MASK].data = NULL;
    call.tensor[ATTUNE_BIAS].data = NULL;
    accepted(&problem, &call);
    call.tensor[ATTUNE_K].data = NULL;
    refused(&problem, &call, "K", "NULL");
    call = whole(&problem);
    call.seqlen_kv = 0;
    call.tensor[ATTUNE_K].data = call.tensor[ATTUNE_V].data = NULL;
    accepted(&problem, &call);
}

static void dtypes(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        attune_call call = whole(&problem);
        if (call.tensor[role].data != NULL) {
            call.tensor[role].dtype = ATTUNE_BF16;
            refused(&problem, &call, at_role_name(role), "bf16");
            call.tensor[role].dtype = -5;
            refused(&problem, &call, at_role_name(role), "dtype is ?");
        }
    }
    REFUSED(&problem, tensor[ATTUNE_V].dtype, ATTUNE_FP32, "V: its dtype is fp32 (0)", "fp16");
}

static void promises(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    attune_call call = whole(&problem);
    call.tensor[ATTUNE_K].settled = call.tensor[ATTUNE_V].settled = call.tensor[ATTUNE_SINK].settled = 1;
    accepted(&problem, &call);
    REFUSED(&problem, tensor[ATTUNE_V].settled, 2, "V: settled is 2", "0 or 1");
    REFUSED(&problem, tensor[ATTUNE_K].settled, -1, "K: settled is -1", "0 or 1");
    REFUSED(&problem, tensor[ATTUNE_O].settled, 1, "O: settled is 1", "the call writes it");
}

static void pointer_alignment(void **state)
{
    (void)state;
    attune_problem problem = parse(everything); /* align 16 */
    static const struct {
        int role, good, bad;
    } steps[] = {{ATTUNE_Q, 16, 8},   {ATTUNE_K, 16, 2},     {ATTUNE_V, 32, 4},
                 {ATTUNE_O, 16, 8},   {ATTUNE_LSE, 4, 2},    {ATTUNE_BIAS, 2, 1},
                 {ATTUNE_SINK, 4, 2}, {ATTUNE_SLOPES, 4, 1}, {ATTUNE_USED_KV, 4, 2}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
        int role = steps[i].role;
        ACCEPTED(&problem, tensor[role].data, (char *)place(role) + steps[i].good);
        REFUSED(&problem, tensor[role].data, (char *)place(role) + steps[i].bad, at_role_name(role), "multiple of");
    }
    ACCEPTED(&problem, tensor[ATTUNE_MASK].data, (char *)place(6) + 1);
    problem = parse("b2,h2,s4,d8,fp16,align=2");
    ACCEPTED(&problem, tensor[ATTUNE_Q].data, (char *)place(0) + 2);
    REFUSED(&problem, tensor[ATTUNE_Q].data, (char *)place(0) + 1, "Q", "1 bytes past a multiple of 2");
    problem = parse("b2,h2,s4,d128,fp16,align=256");
    REFUSED(&problem, tensor[ATTUNE_O].data, (char *)place(3) + 128, "O", "128 bytes past a multiple of 256");
}

static void strides(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    for (int i = 0; i < 3; ++i) {
        for (int role = 0; role <= ATTUNE_MASK; ++role) {
            REFUSED(&problem, tensor[role].stride[i], -16, at_role_name(role), "-16");
            REFUSED(&problem, tensor[role].stride[i], INT64_MIN / 2, at_role_name(role), "stride");
        }
    }
    REFUSED(&problem, tensor[ATTUNE_Q].stride[2], 0, "Q: the sequence stride is 0", "at least 8");
    REFUSED(&problem, tensor[ATTUNE_K].stride[2], 4, "K: the sequence stride is 4", "at least 8");
    REFUSED(&problem, tensor[ATTUNE_K].stride[1], 4, "K: the head stride is 4", "or 0 to repeat");
    REFUSED(&problem, tensor[ATTUNE_V].stride[2], 20, "V: the sequence stride is 20", "multiple of 8");
    REFUSED(&problem, tensor[ATTUNE_O].stride[0], 0, "O: the batch stride is 0", "at least 16");
    REFUSED(&problem, tensor[ATTUNE_O].stride[1], 0, "O: the head stride is 0", "at least 16");
    REFUSED(&problem, tensor[ATTUNE_LSE].stride[1], 0, "LSE: the head stride is 0", "at least 1");
    REFUSED(&problem, tensor[ATTUNE_SINK].stride[1], 0, "SINK: the head stride is 0", "at least 1");
    REFUSED(&problem, tensor[ATTUNE_USED_KV].stride[0], 2, "USED_KV: the batch stride is 2", "contiguous");
    ACCEPTED(&problem, tensor[ATTUNE_USED_KV].stride[0], 0);
    ACCEPTED(&problem, tensor[ATTUNE_Q].stride[0], 0);
    ACCEPTED(&problem, tensor[ATTUNE_K].stride[1], 0);
    ACCEPTED(&problem, tensor[ATTUNE_V].stride[0], 0);
    ACCEPTED(&problem, tensor[ATTUNE_V].stride[1], 0);
    ACCEPTED(&problem, tensor[ATTUNE_SLOPES].stride[1], 7);
    for (int i = 0; i < 3; ++i) {
        ACCEPTED(&problem, tensor[ATTUNE_BIAS].stride[i], 0);
        ACCEPTED(&problem, tensor[ATTUNE_MASK].stride[i], 0);
        ACCEPTED(&problem, tensor[ATTUNE_MASK].stride[i], 1); /* a table of relative positions */
    }
}

static void strides_of_single_indices_are_not_checked(void **state)
{
    (void)state;
    attune_problem problem = parse("b1,h1,s1,d8,fp16,bias=bxh,mask,sink,seqused");
    attune_call call = whole(&problem);
    attune_args args;
    for (int role = 0; role < ATTUNE_CU_Q; ++role) {
        call.tensor[role].stride[0] = -7;
        call.tensor[role].stride[1] = INT64_MIN;
        call.tensor[role].stride[2] = INT64_MAX;
    }
    accepted(&problem, &call);
    at_call_args(&problem, &call, &args);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        assert_true(args.tensor[role].stride[0] == 0);
        assert_true(args.tensor[role].stride[1] == 0 && args.tensor[role].stride[2] == 0);
    }
    /* A bias that the problem says has no batch: PyTorch gives such dimensions any stride. */
    problem = parse("b3,h2,s4,d8,fp16,bias=1x1");
    call = whole(&problem);
    call.tensor[ATTUNE_BIAS].stride[0] = 12345;
    accepted(&problem, &call);
    at_call_args(&problem, &call, &args);
    assert_true(args.tensor[ATTUNE_BIAS].stride[0] == 0 && args.tensor[ATTUNE_BIAS].stride[2] == 4);
}

static void extents_do_not_overflow(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    REFUSED(&problem, tensor[ATTUNE_Q].stride[0], INT64_MAX / 8 * 8, "Q: its sizes and strides", "end of memory");
    REFUSED(&problem, tensor[ATTUNE_Q].stride[0], INT64_C(1) << 62, "Q: its sizes and strides", "end of memory");
    REFUSED(&problem, tensor[ATTUNE_O].stride[1], INT64_C(1) << 61, "O: its sizes and strides", "end of memory");
    REFUSED(&problem, tensor[ATTUNE_K].data, (void *)(UINTPTR_MAX - 15), "K: its sizes and strides", "end of memory");
    REFUSED(&problem, tensor[ATTUNE_MASK].stride[0], INT64_MAX, "MASK: its sizes and strides", "end of memory");
}

/* ---- Overlap ---------------------------------------------------------------------------------------------------- */

static char *at_end(const attune_call *call, int role, int64_t bytes)
{
    return (char *)call->tensor[role].data + bytes;
}

static void outputs_overlap_nothing(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        attune_call call = whole(&problem);
        if (role == ATTUNE_O || call.tensor[role].data == NULL) {
            continue;
        }
        call.tensor[ATTUNE_O].data = call.tensor[role].data;
        /* With LSE, which is written too, the other way round. */
        refused(&problem, &call, "O overlaps", at_role_name(role));
        call = whole(&problem);
        if (role != ATTUNE_LSE) {
            call.tensor[ATTUNE_LSE].data = call.tensor[role].data;
            refused(&problem, &call, "LSE overlaps", at_role_name(role));
        }
    }
    attune_call call = whole(&problem);
    call.tensor[ATTUNE_K].data = call.tensor[ATTUNE_V].data = call.tensor[ATTUNE_Q].data; /* inputs may */
    accepted(&problem, &call);
}

/* Ranges that touch are apart; one byte more is not. */
static void ranges_are_exact(void **state)
{
    (void)state;
    attune_problem problem = parse("b3,h4,hkv2,sq6,skv10,d8,dv16,fp16,align=2");
    attune_call call = whole(&problem);
    int64_t q_bytes = 3 * 4 * 6 * 8 * 2;
    int64_t o_bytes = 3 * 4 * 6 * 16 * 2;
    call.tensor[ATTUNE_O].data = at_end(&call, ATTUNE_Q, q_bytes);
    accepted(&problem, &call);
    call.tensor[ATTUNE_O].data = at_end(&call, ATTUNE_Q, q_bytes - 2);
    refused(&problem, &call, "O overlaps Q", "bytes");
    call.tensor[ATTUNE_O].data = at_end(&call, ATTUNE_Q, -o_bytes);
    accepted(&problem, &call);
    call.tensor[ATTUNE_O].data = at_end(&call, ATTUNE_Q, 2 - o_bytes);
    refused(&problem, &call, "O overlaps Q", "bytes");
}

static void outputs_do_not_overlap_themselves(void **state)
{
    (void)state;
    attune_problem problem = parse("b3,h4,s6,d8,fp16");
    REFUSED(&problem, tensor[ATTUNE_O].stride[1], 8, "O: its elements overlap one another", "stride");
    REFUSED(&problem, tensor[ATTUNE_O].stride[0], 48, "O: its elements overlap one another", "stride");
    REFUSED(&problem, tensor[ATTUNE_O].stride[0], 4 * 48 - 8, "O: its elements overlap one another", "batch");
    REFUSED(&problem, tensor[ATTUNE_LSE].stride[0], 6 * 4 - 1, "LSE: its elements overlap one another", "batch");
    REFUSED(&problem, tensor[ATTUNE_LSE].stride[1], 5, "LSE: its elements overlap one another", "head");
    ACCEPTED(&problem, tensor[ATTUNE_O].stride[0], 4 * 48 + 8);
    attune_call call = whole(&problem);
    int64_t any_order[3] = {8, 24, 96}; /* [head, ..., batch] with batch innermost */
    memcpy(call.tensor[ATTUNE_O].stride, any_order, sizeof any_order);
    accepted(&problem, &call);
}

/* Parts of one buffer, as models keep them. */
static void interleaved_parts_are_told_apart(void **state)
{
    (void)state;
    attune_problem problem = parse("b2,h4,s6,d8,fp16");
    attune_call call = whole(&problem);
    /* [batch, seqlen, 4, heads, head_dim]: Q, K, V and O side by side. */
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        int64_t stride[3] = {6 * 4 * 32, 8, 4 * 32};
        memcpy(call.tensor[role].stride, stride, sizeof stride);
        call.tensor[role].data = (char *)place(0) + 2 * 32 * role;
    }
    accepted(&problem, &call);
    call.tensor[ATTUNE_O].data = (char *)place(0) + 2 * 32 * 3 - 16; /* one head into V */
    refused(&problem, &call, "O overlaps V", "bytes");
    /* [batch, 4, heads, seqlen, head_dim]. */
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        int64_t stride[3] = {4 * 4 * 48, 48, 8};
        memcpy(call.tensor[role].stride, stride, sizeof stride);
        call.tensor[role].data = (char *)place(0) + 2 * 4 * 48 * role;
    }
    accepted(&problem, &call);
    /* [batch, heads, seqlen, 4, head_dim]. */
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        int64_t stride[3] = {4 * 6 * 32, 6 * 32, 32};
        memcpy(call.tensor[role].stride, stride, sizeof stride);
        call.tensor[role].data = (char *)place(0) + 2 * 8 * role;
    }
    accepted(&problem, &call);
    call.tensor[ATTUNE_O].data = call.tensor[ATTUNE_V].data;
    refused(&problem, &call, "O overlaps V", "bytes");
}

/* A byte of a view is marked; false if it was marked before by the other view. */
static bool mark(const attune_tensor *tensor, const int64_t extent[3], int64_t row, unsigned char *memory, int who)
{
    for (int64_t b = 0; b < extent[0]; ++b) {
        for (int64_t h = 0; h < extent[1]; ++h) {
            for (int64_t s = 0; s < extent[2]; ++s) {
                const int64_t *stride = tensor->stride;
                unsigned char *at = memory + ((uintptr_t)tensor->data - (uintptr_t)place(0)) / 4 + b * stride[0] +
                                    h * stride[1] + s * stride[2];
                for (int64_t i = 0; i < row; ++i) {
                    if (at[i] == 3 - who || (at[i] == who && who == 2)) {
                        return false;
                    }
                    at[i] = (unsigned char)who;
                }
            }
        }
    }
    return true;
}

/* Against counting bytes, over random small views of O (written: who 2) and Q (who 1): what is accepted never overlaps,
 * and what is refused while apart is rare enough to be the nested interleavings that the check does not chase. */
static void overlap_agrees_with_counting(void **state)
{
    (void)state;
    attune_problem problem = parse("b3,h3,s3,d2,fp32,align=4");
    int apart = 0;
    int proven = 0;
    for (uint64_t seed = 0; seed < 30000; ++seed) {
        static unsigned char memory[4096];
        at_random random = at_random_seed(seed, 9);
        attune_call call = whole(&problem);
        const int roles[2] = {ATTUNE_Q, ATTUNE_O};
        call.batch = 1 + (int64_t)at_random_below(&random, 3);
        call.heads_q = call.heads_kv = 1 + (int64_t)at_random_below(&random, 3);
        call.seqlen_q = 1 + (int64_t)at_random_below(&random, 3);
        const int64_t extent[3] = {call.batch, call.heads_q, call.seqlen_q};
        for (int i = 0; i < 2; ++i) {
            attune_tensor *tensor = &call.tensor[roles[i]];
            for (int dimension = 0; dimension < 3; ++dimension) {
                /* Often multiples of one another, as real ones are. */
                tensor->stride[dimension] = (int64_t)(2 + 2 * at_random_below(&random, 4)) *
                                            (at_random_below(&random, 2) ? 6 : 1) *
                                            (at_random_below(&random, 3) ? 1 : 4);
            }
            tensor->data = (char *)place(0) + 4 * at_random_below(&random, 60);
        }
        memset(memory, 0, sizeof memory);
        bool ok = mark(&call.tensor[ATTUNE_Q], extent, 2, memory, 1);
        ok = ok && mark(&call.tensor[ATTUNE_O], extent, 2, memory, 2);
        attune_status status = at_call_check(&problem, &call);
        if (status == ATTUNE_OK && !ok) {
            fail_msg("seed %llu: an overlap was accepted", (unsigned long long)seed);
        }
        apart += ok;
        proven += status == ATTUNE_OK;
    }
    assert_true(apart > 2000);
    assert_true(proven > apart * 3 / 4);
}

static void workspaces(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    attune_call call = whole(&problem);
    call.workspace = (char *)place(40) + 1;
    accepted(&problem, &call); /* no bytes of it are used */
    call.workspace_bytes = 512;
    refused(&problem, &call, "workspace is 1 bytes past", "256");
    call.workspace = (char *)place(40) + 128;
    refused(&problem, &call, "workspace is 128 bytes past", "256");
    call.workspace = NULL;
    refused(&problem, &call, "workspace is NULL", "512");
    call.workspace = place(40);
    accepted(&problem, &call);
    call.workspace_bytes = SIZE_MAX;
    refused(&problem, &call, "workspace_bytes is 18446744073709551615", "end of memory");
    call.workspace_bytes = 512;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (call.tensor[role].data != NULL) {
            call.workspace = (char *)call.tensor[role].data - 256;
            refused(&problem, &call, "workspace", at_role_name(role));
        }
    }
}

/* ---- Args ------------------------------------------------------------------------------------------------------- */

/* Compiled kernels have them in their code: what was there in ABI 2 is where it was, and what follows is where every
 * later version has it. */
static void args_keep_their_places(void **state)
{
    static const struct {
        size_t is, was;
    } places[] = {
#define AT(member, place) {offsetof(attune_args, member), place}
        AT(size, 0),
        AT(abi, 4),
        AT(features, 8),
        AT(dtype, 12),
        AT(batch, 16),
        AT(heads_q, 24),
        AT(heads_kv, 32),
        AT(seqlen_q, 40),
        AT(seqlen_kv, 48),
        AT(total_q, 56),
        AT(total_kv, 64),
        AT(head_dim_qk, 72),
        AT(head_dim_v, 76),
        AT(scale, 80),
        AT(softcap, 84),
        AT(window_left, 88),
        AT(window_right, 96),
        AT(offset, 104),
        AT(offset_kind, 112),
        AT(step, 116),
        AT(workspace, 120),
        AT(workspace_bytes, 128),
        AT(param, 136),
        AT(page_size, 200),
        AT(page_table_width, 204),
        AT(states, 208),
        AT(reserved32, 212),
        AT(page_count, 216),
        AT(total_new, 224),
        AT(state_stride_o, 232),
        AT(state_stride_lse, 240),
        AT(reserved64, 248),
        AT(map, 256),
        AT(tensor, 768),
#undef AT
    };
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
        assert_int_equal(places[i].is, places[i].was);
    }
    assert_int_equal(sizeof(attune_tensor), 40);
    assert_int_equal(sizeof(attune_tensor_map), 128);
    assert_int_equal(at_args_bytes(4, 12), 1280);
    assert_int_equal(at_args_bytes(ATTUNE_ARGS_MAPS, ATTUNE_ARGS_ROLES), sizeof(attune_args));
    assert_true(at_args_bytes(ATTUNE_MAPS_MAX, ATTUNE_ROLE_COUNT) <= 4096); /* what a launch takes */
}

static void args_repeat_the_call(void **state)
{
    (void)state;
    attune_problem problem = parse("b3,h4,hkv2,sq6,skv10,d8,dv16,bf16,causal,offset=5,window=3:-1,softcap=2,bias=bxh");
    attune_call call = whole(&problem);
    attune_args args;
    call.batch = 2;
    call.seqlen_q = 5;
    call.offset = -6;
    call.workspace = place(40);
    call.workspace_bytes = 256;
    accepted(&problem, &call);
    memset(&args, 0xff, sizeof args);
    at_call_args(&problem, &call, &args);
    assert_true(args.size == sizeof args && args.abi == ATTUNE_ABI);
    assert_true(args.features ==
                (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_BIAS));
    assert_true(args.dtype == ATTUNE_BF16 && args.batch == 2 && args.heads_q == 4 && args.heads_kv == 2);
    assert_true(args.seqlen_q == 5 && args.seqlen_kv == 10 && args.total_q == 10 && args.total_kv == 20);
    assert_true(args.head_dim_qk == 8 && args.head_dim_v == 16);
    assert_true(args.scale == at_problem_scale(&problem) && args.softcap == 2.0f);
    assert_true(args.window_left == 3 && args.window_right == 0);
    assert_true(args.offset == -6 && args.offset_kind == ATTUNE_OFFSET_NUMBER);
    assert_true(args.workspace == place(40) && args.workspace_bytes == 256);
    assert_memory_equal(&args.tensor[ATTUNE_Q], &call.tensor[ATTUNE_Q], sizeof args.tensor[0]);
    assert_memory_equal(&args.tensor[ATTUNE_BIAS], &call.tensor[ATTUNE_BIAS], sizeof args.tensor[0]);
    assert_null(args.tensor[ATTUNE_MASK].data);
    assert_int_equal(args.param[3], 0);
    problem = parse(packed);
    call = whole(&problem);
    call.total_q = 11;
    call.offset = 77;
    at_call_args(&problem, &call, &args);
    assert_true(args.total_q == 11 && args.total_kv == 30 && args.offset == 0);
    assert_true(args.tensor[ATTUNE_Q].stride[0] == 0 && args.tensor[ATTUNE_CU_Q].stride[0] == 1);
    assert_ptr_equal(args.tensor[ATTUNE_CU_KV].data, place(ATTUNE_CU_KV));
}

/* Garbage of any kind is answered, not stumbled over. */
static void any_call_is_survived(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    for (uint64_t seed = 0; seed < 100000; ++seed) {
        at_random random = at_random_seed(seed, 4);
        attune_call call = whole(&problem);
        for (int edits = 0; edits < 3; ++edits) {
            uint64_t word = at_random_next(&random) >> at_random_below(&random, 64);
            size_t at = at_random_below(&random, sizeof call / sizeof word) * sizeof word;
            memcpy((char *)&call + at, &word, sizeof word);
        }
        attune_status status = at_call_check(&problem, &call);
        assert_true(status == ATTUNE_OK || status == ATTUNE_INVALID_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_fills_contiguous_strides),
        cmocka_unit_test(init_knows_layouts),
        cmocka_unit_test(init_refuses),
        cmocka_unit_test(what_init_gives_is_accepted),
        cmocka_unit_test(what_a_problem_lacks_has_no_strides),
        cmocka_unit_test(sizes),
        cmocka_unit_test(presence),
        cmocka_unit_test(empty_tensors_need_no_memory),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(promises),
        cmocka_unit_test(pointer_alignment),
        cmocka_unit_test(strides),
        cmocka_unit_test(strides_of_single_indices_are_not_checked),
        cmocka_unit_test(extents_do_not_overflow),
        cmocka_unit_test(outputs_overlap_nothing),
        cmocka_unit_test(ranges_are_exact),
        cmocka_unit_test(outputs_do_not_overlap_themselves),
        cmocka_unit_test(interleaved_parts_are_told_apart),
        cmocka_unit_test(overlap_agrees_with_counting),
        cmocka_unit_test(workspaces),
        cmocka_unit_test(args_repeat_the_call),
        cmocka_unit_test(args_keep_their_places),
        cmocka_unit_test(any_call_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
