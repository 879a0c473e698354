/* A scene of a search for code, on a machine made of words: what a source takes, and what is wrong with it, is written
 * in it. */
#ifndef TESTS_EVOLVE_FAKE_CODE_H
#define TESTS_EVOLVE_FAKE_CODE_H

#include "base/cm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/status.h"
#include "evolve/code.h"

enum { FOREVER = 1 << 30 };

typedef struct scene {
    const char *const *script; /* what the proposer answers, one after the other; NULL ends */
    int asked, machined;
    double answered, restarted;         /* questions; until when it was interrupted */
    int stop_at;                        /* this question to the machine or the proposer is interrupted */
    bool untouchable;                   /* neither may be asked */
    char kinds[64][16], begins[64][32]; /* begins: the configs that searches of parameters began with */
    int parents[64], numbers[64];
    const char *planted; /* words that the folders of proposals may hold, */
    int seen;            /* and in how many files of parents and rivals they did */
    at_scratch in;
    char folder[512], other[512];
    at_code_options options;
    at_code_result result;
    at_sources first, winner;
} scene;

/* The number behind a word of a source; else the fallback. */
static double number_of(const at_sources *sources, const char *word, double fallback)
{
    const char *at = strstr(at_sources_find(sources, "k.kernel.c")->data, word);
    return at != NULL ? strtod(at + strlen(word), NULL) : fallback;
}

static attune_status passes(scene *on)
{
    assert_false(on->untouchable);
    AT_FAIL_IF(++on->machined == on->stop_at, ATTUNE_INTERRUPTED, "interrupted");
    on->answered += 1;
    return ATTUNE_OK;
}

static attune_status fake_make(void *self, const at_code_side *side, at_event_made *made)
{
    AT_FORWARD(passes(self));
    const char *text = at_sources_find(side->sources, "k.kernel.c")->data;
    bool wrong = strstr(text, "wrong") != NULL;
    at_digest_of(text, strcspn(text, "#"), made->code); /* what is behind # changes no code */
    made->refused = strstr(text, "broken") != NULL ? AT_REFUSED_COMPILE : wrong ? AT_REFUSED_WRONG : AT_RAN;
    (void)snprintf(made->why, sizeof made->why, "%s", made->refused == AT_RAN ? "" : "line 3 is at fault");
    (void)snprintf(made->binds, sizeof made->binds, "%s", strstr(text, "memory") != NULL ? "memory" : "issue");
    (void)snprintf(made->facts, sizeof made->facts, "12 registers");
    made->error = number_of(side->sources, "error ", 1e-4);
    made->row_error[0] = made->row_error[1] = number_of(side->sources, "rows ", 1e-4);
    made->us = number_of(side->sources, "time ", 100);
    return ATTUNE_OK;
}

static attune_status fake_tune(void *self, const at_code_side *side, int runs, at_event_tuned *tuned)
{
    scene *on = self;
    AT_FORWARD(passes(on));
    (void)snprintf(on->begins[side->id % 64], sizeof on->begins[0], "%s", side->config);
    tuned->well = true;
    tuned->measured = runs;
    tuned->us = number_of(side->sources, "time ", 100);
    (void)snprintf(tuned->config, sizeof tuned->config, "ROWS=%d", runs);
    return ATTUNE_OK;
}

static attune_status fake_duel(void *self, const at_code_side *side, const at_code_side *champion, int round,
                               at_event_duel *duel)
{
    enum { BLOCKS = 12 };
    AT_FORWARD(passes(self));
    at_random noise = at_random_seed((uint64_t)side->id, (uint64_t)round);
    duel->well = strstr(at_sources_find(side->sources, "k.kernel.c")->data, "crashes") == NULL;
    duel->blocks = number_of(side->sources, "time ", 100) < 400 ? BLOCKS : 1;
    (void)snprintf(duel->why, sizeof duel->why, "far");
    for (int b = 0; b < BLOCKS; ++b) {
        for (int k = 0; k < 2; ++k) {
            double drift = 1 + 0.2 * at_random_uniform(&noise);
            duel->us[b][k] = drift * number_of(side->sources, "time ", 100) * exp(0.002 * at_random_normal(&noise));
            duel->champion_us[b][k] = drift * number_of(champion->sources, "time ", 100);
            duel->placebo_us[b][k] = duel->champion_us[b][k] * exp(0.002 * at_random_normal(&noise));
        }
    }
    return ATTUNE_OK;
}

static attune_status fake_final(void *self, const at_code_side *side, int count, at_event_last *last)
{
    enum { PROCESSES = 5 };
    AT_FORWARD(passes(self));
    at_random noise = at_random_seed(9, 9);
    for (int i = 0; i < count; ++i) {
        last[i].well = true;
        last[i].processes = PROCESSES;
        memcpy(last[i].config, side[i].config, sizeof last[i].config);
        for (int k = 0; k < PROCESSES; ++k) {
            last[i].us[k] = number_of(side[i].sources, "lucky ", number_of(side[i].sources, "time ", 100)) *
                            exp(0.003 * at_random_normal(&noise));
        }
    }
    return ATTUNE_OK;
}

static attune_status fake_prove(void *self, const at_code_side *winner, const at_code_side *first, at_event_gate *gate)
{
    AT_FORWARD(passes(self));
    assert_int_equal(first->id, 0);
    gate->right = strstr(at_sources_find(winner->sources, "k.kernel.c")->data, "cheat") != NULL ? AT_FAIL : AT_PASS;
    gate->fast = AT_PASS;
    (void)snprintf(gate->config, sizeof gate->config, "%s", winner->config);
    (void)snprintf(gate->why, sizeof gate->why, "judged");
    return ATTUNE_OK;
}

static double fake_seconds(void *self)
{
    const scene *on = self;
    return on->answered - on->restarted; /* each question takes a second */
}

static void look_for_planted(scene *on, const at_proposer_extra *extra)
{
    for (; on->planted != NULL && extra->name != NULL; ++extra) {
        const bool sources = strncmp(extra->name, "parents/", 8) == 0 || strncmp(extra->name, "rivals/", 7) == 0;
        on->seen += sources && strstr(extra->text, on->planted) != NULL;
    }
}

/* Each line of the script is the whole new source, "nothing", "fails" or "same". */
static attune_status fake_ask(void *self, const at_proposal_request *request, at_proposal_reply *reply)
{
    scene *on = self;
    AT_FORWARD(passes(on));
    *reply = (at_proposal_reply){.proposed = AT_PROPOSED, .tries = 1, .seconds = 2, .bytes_in = 40, .bytes_out = 8};
    at_answer_facts_init(&reply->facts);
    json_t *asked;
    const char *kind;
    int64_t parent, id;
    assert_ok(at_json_parse("request", request->request, strlen(request->request), &asked));
    assert_ok(at_json_string(asked, "request", "kind", &kind));
    assert_ok(at_json_int(asked, "request", "parent_id", 0, 1000, &parent));
    assert_ok(at_json_int(asked, "request", "id", 1, 1000, &id));
    (void)snprintf(on->kinds[id % 64], sizeof on->kinds[0], "%s", kind);
    on->parents[id % 64] = (int)parent;
    on->numbers[id % 64] = request->number;
    look_for_planted(on, request->extra);
    json_decref(asked);
    int length = 0;
    while (on->script[length] != NULL) {
        ++length;
    }
    const char *answer = id <= length ? on->script[id - 1] : "nothing";
    ++on->asked;
    (void)snprintf(reply->facts.idea, sizeof reply->facts.idea, "idea %lld", (long long)id);
    if (strcmp(answer, "nothing") == 0 || strcmp(answer, "fails") == 0) {
        reply->proposed = answer[0] == 'n' ? AT_PROPOSED_NOTHING : AT_PROPOSED_FAILED;
        (void)snprintf(reply->why, sizeof reply->why, "%s", answer[0] == 'n' ? "" : "it ended with 9");
        return ATTUNE_OK;
    }
    reply->facts.usd = 0.25;
    AT_FORWARD(at_sources_copy(request->parent, &reply->sources));
    return at_sources_put(&reply->sources, "k.kernel.c", answer, strlen(answer));
}

static void set(scene *on, const char *const *script)
{
    *on = (scene){.script = script, .stop_at = FOREVER};
    assert_ok(at_scratch_make(&on->in));
    (void)snprintf(on->folder, sizeof on->folder, "%s/run", on->in.path);
    (void)snprintf(on->other, sizeof on->other, "%s/again", on->in.path);
    assert_ok(at_sources_put(&on->first, "k.kernel.c", "time 100\n", 9));
    assert_ok(at_sources_put(&on->first, "k.c", "descriptor\n", 11));
    on->options =
        (at_code_options){.first = &on->first,
                          .about = {.problems = "b1,h1,s64,d64,fp32", .target = "cpu", .machine = "", .device = ""},
                          .level = AT_TASK_FULL,
                          .budget = {.proposals = 8, .each_s = 10},
                          .tune_runs = 4,
                          .prove = true,
                          .seed = 3,
                          .folder = on->folder,
                          .proposer = {on, fake_ask},
                          .machine = {on, fake_make, fake_tune, fake_duel, fake_final, fake_prove, fake_seconds}};
    (void)snprintf(on->options.start.kernel, sizeof on->options.start.kernel, "k");
    (void)snprintf(on->options.start.strategy, sizeof on->options.start.strategy, "code");
}

static void clear(scene *on)
{
    at_sources_free(&on->first);
    at_sources_free(&on->winner);
    at_scratch_remove(&on->in);
}

static void run(scene *on)
{
    at_sources_free(&on->winner);
    assert_ok(at_code_run(&on->options, &on->result, &on->winner));
}

static char *ledger_of(const char *in)
{
    char path[600];
    void *data;
    size_t bytes;
    at_code_ledger_path(in, path, sizeof path);
    assert_ok(at_file_read(path, 1 << 24, &data, &bytes));
    return data;
}

#endif
