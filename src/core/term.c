#include "core/term.h"

#include "base/status.h"

void at_sizes_fill(at_sizes *sizes, const attune_args *args, const attune_target *target)
{
    sizes->value[ATTUNE_SIZE_BATCH] = args->batch;
    sizes->value[ATTUNE_SIZE_HEADS_Q] = args->heads_q;
    sizes->value[ATTUNE_SIZE_HEADS_KV] = args->heads_kv;
    sizes->value[ATTUNE_SIZE_SEQLEN_Q] = args->seqlen_q;
    sizes->value[ATTUNE_SIZE_SEQLEN_KV] = args->seqlen_kv;
    sizes->value[ATTUNE_SIZE_TOTAL_Q] = args->total_q;
    sizes->value[ATTUNE_SIZE_TOTAL_KV] = args->total_kv;
    sizes->value[ATTUNE_SIZE_SM_COUNT] = target->kind == ATTUNE_TARGET_CPU ? target->threads : target->sm_count;
}

static bool is_push(uint8_t op)
{
    return op == ATTUNE_TERM_CONST || op == ATTUNE_TERM_SIZE;
}

static attune_status check_node(const attune_term *term, int at, int depth)
{
    uint8_t op = term->op[at];
    AT_FAIL_IF(op > ATTUNE_TERM_MAX, ATTUNE_INVALID_ARGUMENT, "term: node %d has the unknown op %d", at, op);
    AT_FAIL_IF(!is_push(op) && depth < 2, ATTUNE_INVALID_ARGUMENT,
               "term: node %d combines two values, but %d came before it (a term of more than %d nodes becomes so)", at,
               depth, ATTUNE_TERM_NODES);
    AT_FAIL_IF(op == ATTUNE_TERM_SIZE && (term->value[at] < 0 || term->value[at] >= ATTUNE_SIZE_COUNT),
               ATTUNE_INVALID_ARGUMENT, "term: node %d names size %lld, but sizes are 0 ... %d", at,
               (long long)term->value[at], ATTUNE_SIZE_COUNT - 1);
    return ATTUNE_OK;
}

attune_status at_term_check(const attune_term *term)
{
    int length = attune_term_length(term);
    int depth = 0;
    AT_FAIL_IF(length == 0, ATTUNE_INVALID_ARGUMENT, "it is not set: attune_term_const(0) is the term that is 0");
    for (int at = 0; at < length; ++at) {
        AT_FORWARD(check_node(term, at, depth));
        depth += is_push(term->op[at]) ? 1 : -1;
    }
    AT_FAIL_IF(depth != 1, ATTUNE_INVALID_ARGUMENT, "term: it leaves %d values, one is needed", depth);
    return ATTUNE_OK;
}

/* a op b; false on overflow or division by less than one. */
static bool combine(uint8_t op, int64_t a, int64_t b, int64_t *result)
{
    switch (op) {
    case ATTUNE_TERM_ADD:
        return !__builtin_add_overflow(a, b, result);
    case ATTUNE_TERM_SUB:
        return !__builtin_sub_overflow(a, b, result);
    case ATTUNE_TERM_MUL:
        return !__builtin_mul_overflow(a, b, result);
    case ATTUNE_TERM_CEIL_DIV:
        if (b < 1) {
            return false;
        }
        *result = a / b + (a % b > 0); /* the quotient is cut towards zero, so a negative one is up already */
        return true;
    case ATTUNE_TERM_MIN:
        *result = a < b ? a : b;
        return true;
    default:
        *result = a > b ? a : b;
        return true;
    }
}

uint64_t at_term_sizes(const attune_term *term)
{
    uint64_t sizes = 0;
    for (int at = 0; at < attune_term_length(term); ++at) {
        sizes |= term->op[at] == ATTUNE_TERM_SIZE ? UINT64_C(1) << term->value[at] : 0;
    }
    return sizes;
}

attune_status at_term_value(const attune_term *term, const at_sizes *sizes, int64_t *value)
{
    int64_t stack[ATTUNE_TERM_NODES];
    int depth = 0;
    for (int at = 0; at < ATTUNE_TERM_NODES && term->op[at] != ATTUNE_TERM_END; ++at) {
        if (is_push(term->op[at])) {
            stack[depth++] = term->op[at] == ATTUNE_TERM_CONST ? term->value[at] : sizes->value[term->value[at]];
            continue;
        }
        AT_FAIL_IF(depth < 2, ATTUNE_INTERNAL, "term: node %d has no two values", at);
        int64_t a = stack[depth - 2];
        int64_t b = stack[depth - 1];
        AT_FAIL_IF(!combine(term->op[at], a, b, &stack[depth - 2]), ATTUNE_INVALID_ARGUMENT,
                   "term: node %d overflows or divides by less than one (%lld, %lld)", at, (long long)a, (long long)b);
        --depth;
    }
    *value = stack[0];
    return ATTUNE_OK;
}

attune_status at_term_evaluate(const attune_term *term, const at_sizes *sizes, int64_t *value)
{
    AT_FORWARD(at_term_check(term));
    return at_term_value(term, sizes, value);
}
