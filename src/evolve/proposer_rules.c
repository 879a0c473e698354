#include "evolve/proposer_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "evolve/combine.h"
#include "evolve/mutate.h"

bool at_proposer_is_rules(const char *name)
{
    return strcmp(name, "mutate") == 0;
}

/* Rules change kernels and their headers: what launches them and says what they can do stays. */
static bool is_kernel_file(const at_source_file *file)
{
    static const char *const ends[] = {".kernel.c", ".cu", ".cuh"};
    size_t length = strlen(file->name);
    bool is = strncmp(file->name, "device/", strlen("device/")) == 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; ++i) {
        is = is || (length > strlen(ends[i]) && strcmp(file->name + length - strlen(ends[i]), ends[i]) == 0);
    }
    return is;
}

/* Which file is changed of which sources, for who is asked whether what became of it is new. */
typedef struct changing {
    const at_proposal_request *request;
    const at_sources *sources;
    const char *name;
} changing;

static bool is_new(const void *self, const char *changed)
{
    const changing *of = self;
    at_sources sources = {.count = 0};
    bool is = true;
    if (at_sources_copy(of->sources, &sources) == ATTUNE_OK &&
        at_sources_put(&sources, of->name, changed, strlen(changed)) == ATTUNE_OK) {
        is = of->request->is_new(of->request->is_new_self, &sources);
    }
    at_sources_free(&sources);
    return is;
}

/* Ideas are joined, and rules with their places are tags. */
static void describe(const at_mutation *made, at_answer_facts *facts)
{
    at_text idea, tags;
    char before[2][AT_IDEA_MAX];
    (void)snprintf(before[0], sizeof before[0], "%s", facts->idea);
    (void)snprintf(before[1], sizeof before[1], "%s", facts->tags);
    at_text_init_fixed(&idea, facts->idea, sizeof facts->idea);
    at_text_init_fixed(&tags, facts->tags, sizeof facts->tags);
    at_text_add(&idea, "%s%s%s", before[0], before[0][0] != '\0' ? "; " : "", made->idea);
    at_text_add(&tags, "%s%s%s %s", before[1], before[1][0] != '\0' ? " " : "", made->rule, made->place);
}

/* A file of what is proposed so far, changed once. */
static attune_status change(const at_proposal_request *request, const char *name, uint32_t turn, uint64_t draw,
                            at_proposal_reply *reply, bool *done)
{
    char *changed;
    at_mutation made;
    const changing of = {request, &reply->sources, name};
    const at_mutate_memory memory = {.trials = request->trials != NULL ? *request->trials : (at_trials){NULL, 0},
                                     .is_new = request->is_new != NULL ? is_new : NULL,
                                     .self = &of};
    attune_status status = at_mutate_knowing(at_sources_find(&reply->sources, name)->data,
                                             request->trials != NULL ? &memory : NULL, turn, draw, &changed, &made);
    if (status == ATTUNE_NOT_FOUND) {
        return ATTUNE_OK;
    }
    AT_FORWARD(status);
    *done = true;
    describe(&made, &reply->facts);
    status = at_sources_put(&reply->sources, name, changed, strlen(changed));
    free(changed);
    return status;
}

/* One of the kernel's files by chance; where no rule has anything to change in it the next one. */
static attune_status change_some(const at_proposal_request *request, uint32_t turn, at_random *random,
                                 at_proposal_reply *reply, bool *done)
{
    int files[AT_SOURCES_MAX], count = 0;
    for (int i = 0; i < request->parent->count; ++i) {
        files[count] = i;
        count += is_kernel_file(&request->parent->file[i]);
    }
    int first = count > 0 ? (int)at_random_below(random, (uint64_t)count) : 0;
    for (int i = 0; i < count && !*done; ++i) {
        const char *name = request->parent->file[files[(first + i) % count]].name;
        AT_FORWARD(change(request, name, turn, at_random_next(random), reply, done));
    }
    return ATTUNE_OK;
}

/* Another way is two changes: where few of them pay, twice as many are tried. */
static attune_status mutate(const at_rules_proposer *on, const at_proposal_request *request, at_proposal_reply *reply)
{
    bool done = false, more = false;
    char digest[AT_DIGEST_TEXT_MAX];
    at_sources_digest(request->parent, digest);
    at_random random = at_random_seed(on->seed ^ at_hash64(digest, strlen(digest), 0), (uint64_t)request->number);
    const uint32_t turn = (uint32_t)on->seed + (uint32_t)request->number;
    AT_FORWARD(change_some(request, turn, &random, reply, &done));
    AT_FORWARD(done && request->anew ? change_some(request, (uint32_t)at_random_next(&random), &random, reply, &more)
                                     : ATTUNE_OK);
    reply->proposed = done ? AT_PROPOSED : AT_PROPOSED_NOTHING;
    return ATTUNE_OK;
}

/* ---- Repairs ----------------------------------------------------------------------------------------------------- */

/* Only precision can be had back. */
static attune_status refine(const at_proposal_request *request, at_proposal_reply *reply)
{
    for (int i = 0; i < request->parent->count; ++i) {
        const at_source_file *file = &request->parent->file[i];
        char *changed;
        if (!is_kernel_file(file)) {
            continue;
        }
        attune_status status = at_mutate_refine(file->data, &changed, reply->facts.idea, sizeof reply->facts.idea);
        if (status == ATTUNE_NOT_FOUND) {
            continue;
        }
        AT_FORWARD(status);
        status = at_sources_put(&reply->sources, file->name, changed, strlen(changed));
        free(changed);
        reply->proposed = AT_PROPOSED;
        return status;
    }
    return ATTUNE_OK;
}

/* ---- Crosses ---------------------------------------------------------------------------------------------------- */

/* What both parents changed since they were one, in files where that goes together. */
static attune_status combine(const at_proposal_request *request, at_proposal_reply *reply)
{
    for (int i = 0; request->other != NULL && i < request->parent->count; ++i) {
        const at_source_file *one = &request->parent->file[i];
        const at_source_file *base = at_sources_find(request->base, one->name);
        const at_source_file *other = at_sources_find(request->other, one->name);
        char *combined;
        if (!is_kernel_file(one) || base == NULL || other == NULL) {
            continue;
        }
        attune_status status = at_combine(base->data, one->data, other->data, &combined);
        if (status == ATTUNE_NOT_FOUND) {
            continue;
        }
        AT_FORWARD(status);
        status = at_sources_put(&reply->sources, one->name, combined, strlen(combined));
        free(combined);
        AT_FORWARD(status);
        reply->proposed = AT_PROPOSED;
        (void)snprintf(reply->facts.idea, sizeof reply->facts.idea, "what two sources changed, together");
    }
    return ATTUNE_OK;
}

static attune_status ask(void *self, const at_proposal_request *request, at_proposal_reply *reply)
{
    *reply = (at_proposal_reply){.proposed = AT_PROPOSED_NOTHING};
    at_answer_facts_init(&reply->facts);
    reply->facts.tokens_in = reply->facts.tokens_out = 0; /* which is known */
    reply->facts.usd = 0;
    AT_FORWARD(at_sources_copy(request->parent, &reply->sources));
    (void)snprintf(reply->facts.model, sizeof reply->facts.model, "rules");
    attune_status status = request->repair ? refine(request, reply) : combine(request, reply);
    if (status == ATTUNE_OK && reply->proposed != AT_PROPOSED && !request->repair) {
        status = mutate(self, request, reply);
    }
    if (status != ATTUNE_OK || reply->proposed != AT_PROPOSED) {
        at_sources_free(&reply->sources);
    }
    return status;
}

at_proposer at_proposer_of_rules(at_rules_proposer *rules)
{
    return (at_proposer){.self = rules, .ask = ask};
}
