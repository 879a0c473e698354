/* Calls to be checked, whose buffers are made up. */
#ifndef TESTS_CORE_CALLS_H
#define TESTS_CORE_CALLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "core/call.h"
#include "core/problem.h"

static const char everything[] = "b3,h4,hkv2,sq6,skv10,d8,dv16,fp16,causal,bias=bxh,mask,alibi,sink,seqused";
static const char packed[] = "b3,h4,hkv2,sq6,skv10,d8,dv16,fp16,bias=1xh,mask,sink,alibi,seqused,varlen=1";

/* Checks never read buffers, so tests hand out made-up addresses, a gigabyte apart. */
static inline void *place(int index)
{
    return (void *)(((uintptr_t)index + 1) << 30);
}

static inline attune_problem parse(const char *text)
{
    attune_problem problem;
    if (attune_problem_parse(text, &problem) != ATTUNE_OK) {
        fail_msg("%s: %s", text, attune_last_detail());
    }
    return problem;
}

/* A call with all that the problem needs, and LSE. */
static inline attune_call whole(const attune_problem *problem)
{
    attune_call call;
    assert_int_equal(attune_call_init(&call, problem), ATTUNE_OK);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if ((at_call_roles(problem) >> role & 1u) != 0) {
            call.tensor[role].data = place(role);
        }
    }
    return call;
}

static inline void accepted(const attune_problem *problem, const attune_call *call)
{
    if (at_call_check(problem, call) != ATTUNE_OK) {
        fail_msg("%s", attune_last_detail());
    }
}

#endif
