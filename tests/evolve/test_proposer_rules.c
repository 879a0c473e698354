/* Proposers that need no model: the same request has the same answer, and it is another kernel. */
#include "base/cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "evolve/proposer_rules.h"

/* A real kernel's source with its descriptor, which no rule may touch. */
static void read_kernel(at_sources *sources)
{
    static const char *const names[] = {"my_kernel.c", "my_kernel.kernel.c"};
    *sources = (at_sources){.count = 0};
    for (int i = 0; i < 2; ++i) {
        char path[512];
        void *data;
        size_t bytes;
        (void)snprintf(path, sizeof path, "%s/examples/new/cpu/%s", ATTUNE_SOURCE_DIR, names[i]);
        assert_ok(at_file_read(path, 1 << 20, &data, &bytes));
        assert_ok(at_sources_put(sources, names[i], data, bytes));
        free(data);
    }
}

static void ask(const at_sources *parent, int number, uint64_t seed, at_proposal_reply *reply)
{
    at_rules_proposer rules = {.seed = seed};
    const at_proposal_request request = {.number = number, .task = "", .request = "", .parent = parent};
    const at_proposer proposer = at_proposer_of_rules(&rules);
    assert_ok(proposer.ask(proposer.self, &request, reply));
}

static void rules_change_the_kernel_and_nothing_else(void **state)
{
    enum { PROPOSALS = 20 };
    (void)state;
    at_sources parent;
    int different = 0;
    char first[AT_DIGEST_TEXT_MAX] = "";
    read_kernel(&parent);
    for (int i = 1; i <= PROPOSALS; ++i) {
        at_proposal_reply one, again;
        char digest[AT_DIGEST_TEXT_MAX], same[AT_DIGEST_TEXT_MAX];
        ask(&parent, i, 7, &one);
        ask(&parent, i, 7, &again);
        assert_int_equal(one.proposed, AT_PROPOSED);
        assert_true(one.facts.idea[0] != '\0');
        assert_true(one.facts.usd == 0); /* which is known */
        at_sources_digest(&one.sources, digest);
        at_sources_digest(&again.sources, same);
        assert_string_equal(digest, same);
        assert_string_equal(at_sources_find(&one.sources, "my_kernel.c")->data,
                            at_sources_find(&parent, "my_kernel.c")->data);
        different += strcmp(first, digest) != 0;
        memcpy(first, digest, sizeof first);
        at_proposal_reply_free(&one);
        at_proposal_reply_free(&again);
    }
    assert_in_range(different, 2, PROPOSALS);
    at_sources_free(&parent);
}

static bool none_is_new(const void *self, const at_sources *sources)
{
    ++*(int *)(uintptr_t)self;
    assert_int_equal(sources->count, 2);
    return false;
}

/* Another way of doing it is two changes; who knows what there was asks of each. */
static void another_way_is_two_changes(void **state)
{
    (void)state;
    at_sources parent;
    int asked = 0;
    const at_trials trials = {NULL, 0};
    read_kernel(&parent);
    for (int anew = 0; anew < 2; ++anew) {
        at_rules_proposer rules = {.seed = 7};
        const at_proposal_request request = {.number = 1,
                                             .anew = anew > 0,
                                             .task = "",
                                             .request = "",
                                             .parent = &parent,
                                             .trials = &trials,
                                             .is_new = none_is_new,
                                             .is_new_self = &asked};
        const at_proposer proposer = at_proposer_of_rules(&rules);
        at_proposal_reply reply;
        assert_ok(proposer.ask(proposer.self, &request, &reply));
        assert_int_equal(reply.proposed, AT_PROPOSED); /* at last what there was */
        assert_true(asked > 1);
        int words = 1;
        for (const char *at = reply.facts.tags; *at != '\0'; ++at) {
            words += *at == ' ';
        }
        assert_int_equal(words, anew > 0 ? 4 : 2); /* rule and function of each */
        assert_int_equal(strstr(reply.facts.idea, "; ") != NULL, anew);
        at_proposal_reply_free(&reply);
    }
    at_sources_free(&parent);
}

static void without_a_kernel_there_is_nothing_to_propose(void **state)
{
    (void)state;
    at_sources parent = {.count = 0};
    at_proposal_reply reply;
    ask(&parent, 1, 7, &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED_NOTHING);
    assert_ok(at_sources_put(&parent, "mine.c", "int x;\n", 7));
    ask(&parent, 1, 7, &reply);
    assert_int_equal(reply.proposed, AT_PROPOSED_NOTHING);
    at_sources_free(&parent);
}

static at_sources one_file(const char *text)
{
    at_sources sources = {.count = 0};
    assert_ok(at_sources_put(&sources, "a.kernel.c", text, strlen(text)));
    return sources;
}

/* What both have of a source that they share is theirs; what is only in one of them is joined. */
static void crosses_are_joined(void **state)
{
    (void)state;
    at_sources base = one_file("int a;\nint b; /* shared */\nint c;\n"),
               parent = one_file("int A;\nint b; /* shared */\nint c;\n"),
               other = one_file("int a;\nint b; /* shared */\nint C;\n");
    at_rules_proposer rules = {.seed = 1};
    const at_proposal_request request = {
        .number = 1, .task = "", .request = "", .parent = &parent, .other = &other, .base = &base};
    at_proposal_reply reply;
    const at_proposer proposer = at_proposer_of_rules(&rules);
    assert_ok(proposer.ask(proposer.self, &request, &reply));
    assert_int_equal(reply.proposed, AT_PROPOSED);
    assert_string_equal(at_sources_find(&reply.sources, "a.kernel.c")->data, "int A;\nint b; /* shared */\nint C;\n");
    at_proposal_reply_free(&reply);
    at_sources_free(&base);
    at_sources_free(&parent);
    at_sources_free(&other);
}

/* Of repairs rules know one: more precision. */
static void precision_is_had_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"float f(float x) { return exp_by_4(x); }\n",
                                        "float f(float x) { return x; }\n"};
    for (int i = 0; i < 2; ++i) {
        at_sources parent = one_file(texts[i]);
        at_rules_proposer rules = {.seed = 1};
        const at_proposal_request request = {.number = 1, .repair = true, .task = "", .request = "", .parent = &parent};
        at_proposal_reply reply;
        const at_proposer proposer = at_proposer_of_rules(&rules);
        assert_ok(proposer.ask(proposer.self, &request, &reply));
        assert_int_equal(reply.proposed, i == 0 ? AT_PROPOSED : AT_PROPOSED_NOTHING);
        if (i == 0) {
            assert_non_null(strstr(at_sources_find(&reply.sources, "a.kernel.c")->data, "return exp_by_5(x);"));
        }
        at_proposal_reply_free(&reply);
        at_sources_free(&parent);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_change_the_kernel_and_nothing_else),
        cmocka_unit_test(another_way_is_two_changes),
        cmocka_unit_test(without_a_kernel_there_is_nothing_to_propose),
        cmocka_unit_test(crosses_are_joined),
        cmocka_unit_test(precision_is_had_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
