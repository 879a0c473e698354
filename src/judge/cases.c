#include "judge/cases.h"

#include <string.h>

#include "base/random.h"

static const char *const stratum_names[AT_STRATUM_COUNT] = {
    "exact", "edges", "uneven", "heads", "layout", "far", "mask", "feature", "lengths", "smaller", "long",
};

const char *at_stratum_name(at_stratum stratum)
{
    return (unsigned)stratum < AT_STRATUM_COUNT ? stratum_names[stratum] : "?";
}

/* Lengths around the tiles that kernels use, and primes that fit none. */
static const int64_t edges[] = {1,  2,  3,  7,   15,  16,  17,  31,  32,  33,  61,  63,  64,
                                65, 97, 99, 127, 128, 129, 131, 191, 193, 255, 256, 257, 321};
enum { EDGES = sizeof edges / sizeof *edges };

enum { TURN = 11 }; /* inexact cases until a stratum comes again */

static int64_t draw_edge(at_random *random)
{
    return edges[at_random_below(random, EDGES)];
}

static int64_t draw_between(at_random *random, int64_t low, int64_t high)
{
    return low + (int64_t)at_random_below(random, (uint64_t)(high - low + 1));
}

/* Elements of K and V. */
static double keys_of(const attune_problem *problem)
{
    return (double)problem->batch * (double)problem->heads_kv * (double)problem->seqlen_kv *
           (problem->head_dim_qk + problem->head_dim_v);
}

bool at_case_big(const attune_problem *problem)
{
    return attune_problem_flops(problem) > AT_BIG_FLOPS ||
           (problem->op == ATTUNE_FORWARD && keys_of(problem) > AT_BIG_KEYS);
}

static bool is_small(const attune_problem *problem)
{
    return attune_problem_flops(problem) < AT_SMALL_FLOPS &&
           (problem->op != ATTUNE_FORWARD || keys_of(problem) < AT_SMALL_KEYS);
}

/* How many of the cases before `index` are exact. */
static int64_t exact_before(bool big, int64_t index)
{
    if (big) {
        return (index + 24) / 25;
    }
    return index / 5 * 2 + (index % 5 > 0) + (index % 5 > 2);
}

static bool is_exact(bool big, int64_t index)
{
    return exact_before(big, index + 1) > exact_before(big, index);
}

/* A length from 1 to `most`: every other one at the edge of a tile, where the problem has it. */
static int64_t draw_shorter(at_random *random, int64_t most)
{
    int64_t edge = draw_edge(random);
    int64_t any = most > 1 ? draw_between(random, 1, most - 1) : most;
    return edge < most && at_random_below(random, 2) == 0 ? edge : any;
}

/* ---- Strata ----------------------------------------------------------------------------------------------------- */

/* Heads and features of the problem itself, and any lengths and batch below its own that make a small case. */
static void make_smaller(attune_problem *problem, at_random *random)
{
    bool same = problem->seqlen_q == problem->seqlen_kv && at_random_below(random, 4) != 0;
    problem->batch = draw_between(random, 1, problem->batch);
    problem->seqlen_kv = draw_shorter(random, problem->seqlen_kv);
    problem->seqlen_q = same ? problem->seqlen_kv : draw_shorter(random, problem->seqlen_q);
    while (!is_small(problem) && (problem->batch > 1 || problem->seqlen_kv > 1)) {
        int64_t *most = problem->batch > 1                       ? &problem->batch
                        : problem->seqlen_q > problem->seqlen_kv ? &problem->seqlen_q
                                                                 : &problem->seqlen_kv;
        *most /= 2;
    }
}

/* Fewer heads and sequences, in the same groups. */
static void shrink_heads(attune_problem *problem, at_random *random)
{
    int64_t group = problem->heads_q / problem->heads_kv;
    int64_t most = problem->heads_kv < 3 ? problem->heads_kv : 3;
    problem->heads_kv = draw_between(random, 1, most);
    problem->heads_q = problem->heads_kv * group;
    problem->batch = draw_between(random, 1, problem->batch < 3 ? problem->batch : 3);
}

static void draw_lengths(attune_problem *problem, at_random *random)
{
    bool same = problem->seqlen_q == problem->seqlen_kv && at_random_below(random, 2) == 0;
    bool one_query = problem->seqlen_q == 1 && at_random_below(random, 2) == 0;
    problem->seqlen_kv = draw_edge(random);
    problem->seqlen_q = one_query ? 1 : same ? problem->seqlen_kv : draw_edge(random);
}

static void vary_heads(attune_problem *problem, at_random *random)
{
    static const int64_t groups[] = {1, 2, 3, 4, 7, 8};
    problem->heads_kv = draw_between(random, 1, 3);
    problem->heads_q = problem->heads_kv * groups[at_random_below(random, 6)];
    problem->batch = draw_between(random, 1, 4);
}

static void vary_mask(attune_problem *problem, at_random *random)
{
    uint64_t kind = at_random_below(random, 8);
    if (kind >= 2 && kind < 6) {
        problem->window_left = draw_between(random, -1, 70);
        problem->window_right = draw_between(random, -1, 70);
    }
    problem->window_right = kind < 4 ? 0 : problem->window_right; /* causal */
    problem->mask = kind >= 6 ? 1 : problem->mask;
    uint64_t offset = at_random_below(random, 3);
    problem->offset_kind = offset == 0   ? ATTUNE_OFFSET_BOTTOM_RIGHT
                           : offset == 1 ? ATTUNE_OFFSET_TOP_LEFT
                                         : ATTUNE_OFFSET_NUMBER;
    problem->offset = offset == 2 ? draw_between(random, -40, 40) : 0;
}

static void vary_feature(attune_problem *problem, at_random *random)
{
    switch (at_random_below(random, 5)) {
    case 0:
        problem->softcap = (float)draw_between(random, 1, 60) * 0.5F;
        break;
    case 1:
        problem->bias = (attune_bias)draw_between(random, ATTUNE_BIAS_1X1, ATTUNE_BIAS_BXH);
        break;
    case 2:
        problem->alibi = 1;
        break;
    case 3:
        problem->sink = 1;
        break;
    default:
        problem->scale = (float)draw_between(random, 1, 32) * 0x1p-6F;
    }
}

static void vary_lengths(at_gate_case *one, at_random *random)
{
    attune_problem *problem = &one->problem;
    uint64_t kind = at_random_below(random, 8);
    problem->batch = draw_between(random, 2, 5);
    if (kind == 0) {
        problem->seqlen_kv = 0;
    } else if (kind < 4) {
        problem->seqused_kv = 1;
    } else {
        problem->varlen = 1;
        problem->layout = ATTUNE_BSHD;
        one->draw.length_seed = at_random_below(random, 1000);
        problem->seqused_kv = kind == 4 ? 1 : problem->seqused_kv;
    }
}

/* Thousands of keys in one sequence, but so few heads and rows that the case is small at any head dim. Every other time
 * an even number of each, for kernels whose shared memory holds no more. */
static void make_long(attune_problem *problem, at_random *random)
{
    problem->heads_q /= problem->heads_kv;
    problem->heads_q = problem->heads_q < 4 ? problem->heads_q : 4;
    problem->heads_kv = problem->batch = 1;
    bool even = at_random_below(random, 2) == 0;
    problem->seqlen_q = problem->seqlen_q == 1 ? 1 : even ? 64 : draw_between(random, 33, 97);
    problem->seqlen_kv = even ? 2048 : draw_between(random, 2049, 4160);
}

static void vary(at_gate_case *one, int64_t ordinal, bool big, at_random *random)
{
    attune_problem *problem = &one->problem;
    switch (one->stratum) {
    case AT_STRATUM_UNEVEN:
        problem->seqlen_kv = draw_between(random, 1, 70);
        problem->seqlen_q = problem->seqlen_kv + draw_edge(random);
        break;
    case AT_STRATUM_HEADS:
        vary_heads(problem, random);
        break;
    case AT_STRATUM_LAYOUT:
        problem->layout = problem->layout == ATTUNE_BHSD || problem->varlen ? ATTUNE_BSHD : ATTUNE_BHSD;
        break;
    case AT_STRATUM_FAR:
        one->draw.far = true;
        problem->seqlen_q = draw_between(random, 1, 40);
        problem->seqlen_kv = draw_between(random, 1, 140);
        break;
    case AT_STRATUM_MASK:
        vary_mask(problem, random);
        break;
    case AT_STRATUM_FEATURE:
        vary_feature(problem, random);
        break;
    case AT_STRATUM_LENGTHS:
        vary_lengths(one, random);
        break;
    case AT_STRATUM_LONG:
        make_long(problem, random);
        problem->window_right = !big && ordinal / TURN % 2 == 1 ? 0 : problem->window_right;
        break;
    default:
        break;
    }
}

/* Other operations vary in sizes, layout and lengths alone. */
static void keep_operation(const attune_problem *problem, attune_problem *varied, at_random *random)
{
    const attune_problem drawn = *varied;
    if (problem->op == ATTUNE_FORWARD) {
        return;
    }
    *varied = *problem;
    varied->batch = drawn.batch;
    varied->heads_q = varied->heads_kv = drawn.heads_kv;
    varied->seqlen_q = drawn.seqlen_q;
    varied->layout = problem->varlen ? problem->layout : drawn.layout;
    varied->seqlen_kv = problem->op == ATTUNE_MERGE ? 0 : drawn.seqlen_kv;
    varied->states = problem->states > 0 ? (int32_t)draw_between(random, 1, problem->states) : 0;
}

/* A draft has few rows, and says itself what they see; packed queries of a paged cache need lengths. */
static void keep_cache(const attune_problem *problem, attune_problem *varied, at_random *random)
{
    varied->seqused_kv |= varied->page_size > 0 && varied->varlen;
    if (varied->draft_mask) {
        varied->seqlen_q = varied->seqlen_q > AT_DRAFT_MAX ? draw_between(random, 1, AT_DRAFT_MAX) : varied->seqlen_q;
        varied->window_left = varied->window_right = -1;
        varied->offset_kind = problem->offset_kind;
    }
    /* Decoding: every group size with every small number of rows, in time. */
    if (varied->page_size > 0 && problem->seqlen_q <= 16 && at_random_below(random, 2) == 0) {
        varied->seqlen_q = draw_between(random, 1, 16);
        varied->heads_q = varied->heads_kv * draw_between(random, 1, 16);
    }
}

/* Big problems keep their features: their cases differ in lengths, heads and strides. */
static at_stratum stratum_of(bool big, int64_t ordinal)
{
    static const at_stratum all[TURN] = {AT_STRATUM_EDGES,   AT_STRATUM_SMALLER, AT_STRATUM_MASK,   AT_STRATUM_UNEVEN,
                                         AT_STRATUM_FEATURE, AT_STRATUM_LENGTHS, AT_STRATUM_LAYOUT, AT_STRATUM_HEADS,
                                         AT_STRATUM_LONG,    AT_STRATUM_MASK,    AT_STRATUM_FAR};
    static const at_stratum same[TURN] = {AT_STRATUM_EDGES,   AT_STRATUM_SMALLER, AT_STRATUM_UNEVEN, AT_STRATUM_HEADS,
                                          AT_STRATUM_EDGES,   AT_STRATUM_FAR,     AT_STRATUM_LONG,   AT_STRATUM_EDGES,
                                          AT_STRATUM_SMALLER, AT_STRATUM_HEADS,   AT_STRATUM_FAR};
    return big ? same[ordinal % TURN] : all[ordinal % TURN];
}

/* Halves what is largest until the case is small; the lengths drawn are already short. */
static void make_small(attune_problem *problem)
{
    while (!is_small(problem)) {
        int64_t *length = problem->seqlen_kv > problem->seqlen_q ? &problem->seqlen_kv : &problem->seqlen_q;
        int64_t group = problem->heads_q / problem->heads_kv;
        if (problem->batch > 1) {
            problem->batch /= 2;
        } else if (problem->heads_kv > 1) {
            problem->heads_kv /= 2;
            problem->heads_q = problem->heads_kv * group;
        } else if (*length > 1) {
            *length /= 2;
        } else {
            problem->heads_q = problem->heads_kv;
            return;
        }
    }
}

/* The ordinal-th of the families that apply. */
static at_family family_of(const attune_problem *problem, int64_t ordinal)
{
    at_family applies[AT_FAMILY_SPARSE];
    int64_t count = 0;
    for (int family = 0; family < AT_FAMILY_SPARSE; ++family) {
        if (at_family_applies((at_family)family, problem)) {
            applies[count++] = (at_family)family;
        }
    }
    return applies[ordinal % count];
}

/* Every third of the inexact cases has a plan made for larger sizes, which must serve it all the same. */
static bool has_larger_plan(const at_gate_case *one)
{
    return one->stratum != AT_STRATUM_SMALLER && one->index % 3 == 1;
}

static attune_problem plan_for(const at_gate_case *one, const attune_problem *problem)
{
    attune_problem planned = one->stratum == AT_STRATUM_SMALLER ? *problem : one->problem;
    if (has_larger_plan(one)) {
        planned.batch += 1;
        planned.seqlen_q += planned.seqlen_q + 5;
        planned.seqlen_kv += planned.seqlen_kv + 3;
    }
    if (planned.op == ATTUNE_MERGE) {
        planned.seqlen_kv = 0;
        planned.states += planned.states + 3 <= AT_STATES_MAX ? 3 : 0;
    }
    planned.seqlen_q = planned.draft_mask && planned.seqlen_q > AT_DRAFT_MAX ? AT_DRAFT_MAX : planned.seqlen_q;
    return planned;
}

/* Which dimensions of K and V a stride of 0 repeats: of none that some rows see and others do not. */
static int32_t draw_repeats(const at_draw *draw, at_random *random)
{
    const bool strange = draw->family == AT_FAMILY_HIDDEN || draw->family == AT_FAMILY_VISIBLE;
    return !strange && !draw->far && at_random_below(random, 4) == 0 ? (int32_t)draw_between(random, 1, 3) : 0;
}

void at_case_make(const at_test_problem *test, uint64_t seed, int64_t index, at_gate_case *one)
{
    const attune_problem *problem = &test->problem;
    bool big = at_case_big(problem);
    int64_t exact = exact_before(big, index);
    at_random random = at_random_seed(seed ^ at_test_problem_hash(test), (uint64_t)index);
    *one = (at_gate_case){.index = index, .problem = *problem, .draw = {.length_seed = test->length_seed}};
    one->draw.seed = at_random_next(&random);
    one->draw.poison = at_poison_draw(one->draw.seed);
    if (is_exact(big, index)) {
        one->draw.family = family_of(problem, exact);
        one->draw.gaps = exact % 4 == 3;
        one->draw.repeats = draw_repeats(&one->draw, &random);
        one->planned = *problem;
        return;
    }
    int64_t ordinal = index - exact;
    one->stratum = stratum_of(big, ordinal);
    if (one->stratum == AT_STRATUM_SMALLER) {
        make_smaller(&one->problem, &random);
    } else {
        shrink_heads(&one->problem, &random);
        draw_lengths(&one->problem, &random);
        vary(one, ordinal, big, &random);
        keep_cache(problem, &one->problem, &random);
        keep_operation(problem, &one->problem, &random);
        make_small(&one->problem);
    }
    /* Who computes as many sequences as the plan has is right as long as there is one: all lie where the first does. */
    if (has_larger_plan(one) && one->problem.batch == 1 && problem->op == ATTUNE_FORWARD &&
        2 * attune_problem_flops(&one->problem) < AT_SMALL_FLOPS) {
        one->problem.batch = 2;
    }
    if (attune_problem_check(&one->problem) != ATTUNE_OK) { /* whatever vary made of it, a case is a valid problem */
        one->problem = *problem;
        one->draw.far = false;
        one->draw.length_seed = test->length_seed;
    }
    /* Another stride through the families than the strata's, so that in time each meets each. */
    one->draw.family = family_of(&one->problem, (ordinal + ordinal / TURN) % 97);
    if (one->stratum == AT_STRATUM_LONG && ordinal / TURN % 3 != 2) {
        one->draw.family = AT_FAMILY_TAIL; /* which takes thousands of keys to show all that it can */
    }
    one->draw.gaps = !one->draw.far && at_random_below(&random, 2) == 0;
    one->draw.repeats = draw_repeats(&one->draw, &random);
    one->planned = plan_for(one, problem);
}

void at_case_make_acc16(at_gate_case *one)
{
    enum { EACH = 4 };
    if (one->index % EACH == 1) {
        one->draw.family = AT_FAMILY_SPARSE;
    }
}
