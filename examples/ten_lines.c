/* Attention in ten lines. All keys are alike here, so each row of O is the mean of the rows of V that it sees. */
#include <attune/attune.h>
#include <stdalign.h>
#include <stdio.h>

alignas(16) static float q[8 * 512 * 64], k[8 * 512 * 64], v[8 * 512 * 64], o[8 * 512 * 64];

int main(void)
{
    attune_options options;
    attune_problem problem;
    attune_context *context = NULL;
    attune_plan *plan = NULL;
    attune_call call;
    for (int i = 0; i < 8 * 512 * 64; ++i) {
        v[i] = (float)(i / 64 % 512);
    }
    attune_options_init(&options);
    options.target = "cpu";
    int failed = attune_problem_parse("b1,h8,s512,d64,fp32,causal", &problem) ||
                 attune_context_create(&options, &context) || attune_plan_create(context, &problem, NULL, &plan) ||
                 attune_call_init(&call, &problem);
    call.tensor[ATTUNE_Q].data = q;
    call.tensor[ATTUNE_K].data = k;
    call.tensor[ATTUNE_V].data = v;
    call.tensor[ATTUNE_O].data = o;
    failed = failed || attune_plan_execute(plan, &call);
    printf("%s: last row of O = %g\n", failed ? attune_last_detail() : attune_plan_kernel(plan),
           (double)o[512 * 64 - 1]);
    attune_plan_destroy(plan);
    attune_context_destroy(context);
    return failed;
}
