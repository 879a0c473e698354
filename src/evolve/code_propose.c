/* One proposal of a search for code. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evolve/code_parts.h"

/* Bytes of text that are reckoned as a token where nobody counted. */
static const double bytes_a_token = 4;

/* ---- The folder's files -------------------------------------------------------------------------------------------
 */

/* What the folder holds beside the task: texts that are freed together. */
typedef struct extras {
    at_proposer_extra *file;
    char **owned;
    int count, room;
    attune_status status;
} extras;

static void add_extra(extras *to, const char *name, const char *text)
{
    char *copies[2] = {strdup(name), strdup(text)};
    if (to->count + 1 >= to->room || copies[0] == NULL || copies[1] == NULL) {
        free(copies[0]);
        free(copies[1]);
        to->status = to->count + 1 >= to->room ? to->status : ATTUNE_OUT_OF_MEMORY;
        return;
    }
    to->owned[2 * to->count] = copies[0];
    to->owned[2 * to->count + 1] = copies[1];
    to->file[to->count++] = (at_proposer_extra){copies[0], copies[1]};
}

/* A program's sources below a folder, without comments unless they are to stay: they are data, and could be meant for
 * who reads them. */
static void add_program(const at_code *on, extras *to, const char *folder, const at_program *program)
{
    char name[256], text[256];
    for (int i = 0; i < program->sources.count; ++i) {
        const at_source_file *file = &program->sources.file[i];
        at_text stripped;
        at_text_init(&stripped);
        if (!on->options->keep_comments && at_source_strip(file->data, file->bytes, &stripped) != ATTUNE_OK) {
            to->status = ATTUNE_OUT_OF_MEMORY;
        }
        (void)snprintf(name, sizeof name, "%s/%d/%s", folder, program->id, file->name);
        add_extra(to, name, on->options->keep_comments ? file->data : stripped.data);
        at_text_free(&stripped);
    }
    (void)snprintf(name, sizeof name, "%s/%d/results.json", folder, program->id);
    (void)snprintf(text, sizeof text, "{\"verdict\":\"%s\",\"us\":%.3f,\"time\":%.4f}\n",
                   at_names_of_verdicts[program->verdict], program->us, exp(program->log_time));
    add_extra(to, name, text);
}

static attune_status fill_extras(const at_code *on, const at_next *next, extras *made)
{
    enum { ROOM = 512 };
    *made = (extras){calloc(ROOM, sizeof *made->file), calloc(2 * (size_t)ROOM, sizeof(char *)), 0, ROOM, ATTUNE_OK};
    AT_FAIL_IF(made->file == NULL || made->owned == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a proposal's folder");
    const at_program *parent = &on->lineage.program[next->parent];
    for (const at_proposer_extra *one = on->options->about.extra; one != NULL && one->name != NULL; ++one) {
        add_extra(made, one->name, one->text);
    }
    add_program(on, made, "parents", parent);
    if (next->other >= 0) {
        add_program(on, made, "parents", &on->lineage.program[next->other]);
    }
    const int champion = on->lineage.champion[parent->id == 0 ? AT_ARM_ENGINE : parent->arm];
    if (on->options->level == AT_TASK_FULL && champion != parent->id && champion != next->other) {
        add_program(on, made, "rivals", &on->lineage.program[champion]);
    }
    add_extra(made, "log/last.txt", parent->why);
    AT_FAIL_IF(made->status != ATTUNE_OK, made->status, "no memory for a proposal's folder");
    return ATTUNE_OK;
}

static void free_extras(extras *made)
{
    for (int i = 0; i < 2 * made->count; ++i) {
        free(made->owned[i]);
    }
    free(made->owned);
    free(made->file);
}

/* ---- Asking -------------------------------------------------------------------------------------------------------
 */

static attune_status print_task(const at_code *on, const at_next *next, at_code_arm arm, at_text *task,
                                at_text *request)
{
    const at_task of = {.about = &on->options->about,
                        .level = on->options->level,
                        .lineage = &on->lineage,
                        .arm = arm,
                        .next = *next,
                        .number = on->result->proposals[arm] + 1,
                        .proposals = on->options->budget.proposals,
                        .seconds = on->options->budget.each_s};
    AT_FORWARD(at_task_print(&of, task));
    return at_task_request(&of, request);
}

static void digest_request(const at_text *task, const at_text *request, char digest[AT_DIGEST_TEXT_MAX])
{
    unsigned char raw[AT_DIGEST_BYTES];
    at_sha256 sha;
    at_sha256_init(&sha);
    at_sha256_add(&sha, task->data, task->length + 1);
    at_sha256_add(&sha, request->data, request->length);
    at_sha256_end(&sha, raw);
    at_digest_text(raw, digest);
}

/* What nobody counted is unknown, which is not 0. */
static void print_count(double count, char text[AT_CODE_WORD_MAX])
{
    at_text words;
    at_text_init_fixed(&words, text, AT_CODE_WORD_MAX);
    if (count < 0) {
        at_text_add(&words, "unknown");
    } else {
        at_text_add_double(&words, count);
    }
}

static void take_reply(const at_proposal_reply *reply, at_event_proposal *to)
{
    to->proposed = (int32_t)reply->proposed;
    (void)snprintf(to->why, sizeof to->why, "%s", reply->why);
    memcpy(to->idea, reply->facts.idea, sizeof to->idea);
    memcpy(to->tags, reply->facts.tags, sizeof to->tags);
    memcpy(to->model, reply->facts.model, sizeof to->model);
    print_count((double)reply->facts.tokens_in, to->tokens_in);
    print_count((double)reply->facts.tokens_out, to->tokens_out);
    print_count(reply->facts.usd, to->usd);
    to->bytes_in = reply->bytes_in;
    to->bytes_out = reply->bytes_out;
    to->tries = reply->tries;
    to->seconds = reply->seconds;
    if (reply->proposed == AT_PROPOSED) {
        at_sources_digest(&reply->sources, to->answer);
    }
}

static bool is_new(const void *self, const at_sources *sources)
{
    const at_lineage *lineage = self;
    char digest[AT_DIGEST_TEXT_MAX];
    at_sources_digest(sources, digest);
    bool is = true;
    for (int i = 0; i < lineage->count; ++i) {
        const at_program *one = &lineage->program[i];
        is = is && ((i > 0 && one->arm != AT_ARM_ENGINE) || strcmp(one->digest, digest) != 0);
    }
    return is;
}

/* Asks the proposer, and keeps its answer before the ledger says that there is one. */
static attune_status ask_now(const at_code *on, const at_next *next, const at_text *task, const at_text *request,
                             at_event_proposal *to, at_sources *sources)
{
    extras files;
    const at_proposer *proposer = &on->options->proposer;
    at_proposal_reply reply = {.proposed = AT_PROPOSED_FAILED};
    attune_status status = fill_extras(on, next, &files);
    const bool crossed = next->other >= 0;
    const int base = crossed ? at_lineage_base(&on->lineage, next->parent, next->other) : 0;
    const bool knows = to->arm == AT_ARM_ENGINE; /* what was tried is the engine's to know: controls draw without */
    at_trial *trial = NULL;
    at_trials trials = {NULL, 0};
    status =
        status == ATTUNE_OK && knows ? at_lineage_trials(&on->lineage, AT_ARM_ENGINE, &trial, &trials.count) : status;
    trials.trial = trial;
    const at_proposal_request asked = {.number = on->result->proposals[to->arm] + 1,
                                       .repair = next->kind == AT_CODE_REPAIR,
                                       .anew = next->kind == AT_CODE_NEW,
                                       .trials = knows ? &trials : NULL,
                                       .is_new = knows ? is_new : NULL,
                                       .is_new_self = &on->lineage,
                                       .task = task->data,
                                       .request = request->data,
                                       .parent = &on->lineage.program[next->parent].sources,
                                       .other = crossed ? &on->lineage.program[next->other].sources : NULL,
                                       .base = crossed ? &on->lineage.program[base].sources : NULL,
                                       .extra = files.file,
                                       .seconds = on->options->budget.each_s};
    status = status == ATTUNE_OK ? proposer->ask(proposer->self, &asked, &reply) : status;
    free_extras(&files);
    free(trial);
    AT_FORWARD(status);
    take_reply(&reply, to);
    if (reply.proposed == AT_PROPOSED && on->options->folder != NULL) {
        status = at_code_answer_write(on->options->folder, to->answer, &reply.sources);
    }
    if (status != ATTUNE_OK) {
        at_proposal_reply_free(&reply);
        return status;
    }
    *sources = reply.sources;
    return ATTUNE_OK;
}

/* A recorded answer; where a record is gone through again into another folder, that has the answers too. */
static attune_status recall_answer(const at_code *on, const at_event_proposal *was, const char *request,
                                   at_sources *sources)
{
    const at_code_options *options = on->options;
    AT_FAIL_IF(strcmp(was->request, request) != 0, ATTUNE_CORRUPT,
               "proposal %d was asked for with another task than follows from what was before it", was->id);
    if (was->proposed != AT_PROPOSED) {
        return ATTUNE_OK;
    }
    const char *from = options->replay != NULL ? options->replay : options->folder;
    AT_FORWARD(at_code_answer_read(from, was->answer, sources));
    return options->replay != NULL && options->folder != NULL
               ? at_code_answer_write(options->folder, was->answer, sources)
               : ATTUNE_OK;
}

static attune_status ask_or_recall(at_code *on, const at_next *next, at_event *event, const at_text *task,
                                   const at_text *request, at_sources *sources)
{
    bool recalled;
    at_event_proposal *to = &event->as.proposal;
    const int id = to->id;
    char digest[AT_DIGEST_TEXT_MAX];
    digest_request(task, request, digest);
    at_event was = {.kind = AT_EVENT_PROPOSAL};
    AT_FORWARD(at_code_recall(on, &was, id, &recalled));
    if (recalled) {
        *event = was;
        AT_FORWARD(recall_answer(on, to, digest, sources));
    } else {
        memcpy(to->request, digest, sizeof to->request);
        AT_FORWARD(ask_now(on, next, task, request, to, sources));
        event->at_s = at_code_now(on);
    }
    return at_code_write(on, event, recalled);
}

static double count_or(const char *text, double fallback)
{
    char *end;
    double value = strtod(text, &end);
    return end != text && *end == '\0' && value >= 0 ? value : fallback;
}

static void spend(at_code *on, const at_event_proposal *one)
{
    at_code_turn *turn = &on->turn[one->arm];
    turn->spent_s += one->seconds;
    turn->spent_usd += count_or(one->usd, 0);
    turn->spent_tokens += count_or(one->tokens_in, (double)one->bytes_in / bytes_a_token) +
                          count_or(one->tokens_out, (double)one->bytes_out / bytes_a_token);
    on->result->tries += one->tries;
    ++on->result->proposals[one->arm];
}

/* ---- What is made of it -------------------------------------------------------------------------------------------
 */

static attune_status judge_answer(at_code *on, int id, const at_event_proposal *one)
{
    at_program *program = &on->lineage.program[id];
    memcpy(program->idea, one->idea, sizeof program->idea);
    memcpy(program->tags, one->tags, sizeof program->tags);
    if (program->kind == AT_CODE_REPAIR && one->tags[0] == '\0') { /* what is repaired is the same change */
        memcpy(program->tags, on->lineage.program[program->parent].tags, sizeof program->tags);
    }
    if (one->proposed != AT_PROPOSED) {
        const char *why = one->proposed == AT_PROPOSED_NOTHING ? "it had nothing to propose"
                          : one->proposed == AT_PROPOSED_SAME  ? "it answered with the parent's sources"
                                                               : one->why;
        return at_code_judge(on, id, one->proposed == AT_PROPOSED_SAME ? AT_CODE_DUPLICATE : AT_CODE_NONE, NULL, "%s",
                             why);
    }
    at_sources_digest(&program->sources, program->digest);
    int same = at_lineage_same_sources(&on->lineage, id);
    if (same >= 0) {
        return at_code_judge(on, id, AT_CODE_DUPLICATE, NULL, "its sources are those of proposal %d", same);
    }
    if (at_sources_scan(&program->sources, on->options->allow) != ATTUNE_OK) {
        return at_code_judge(on, id, AT_CODE_DENIED, NULL, "%s", attune_last_detail());
    }
    return at_code_assay(on, id);
}

attune_status at_code_propose(at_code *on, at_code_arm arm, bool *none)
{
    const at_next next = at_lineage_next(&on->lineage, arm, !on->options->no_repairs, &on->turn[arm].random);
    at_event event = {
        .kind = AT_EVENT_PROPOSAL,
        .as.proposal = {
            .id = on->lineage.count, .parent = next.parent, .arm = (int32_t)arm, .kind = (int32_t)next.kind}};
    at_sources sources = {.count = 0};
    at_text task, request;
    at_text_init(&task);
    at_text_init(&request);
    attune_status status = print_task(on, &next, arm, &task, &request);
    status = status == ATTUNE_OK ? ask_or_recall(on, &next, &event, &task, &request, &sources) : status;
    at_text_free(&task);
    at_text_free(&request);
    AT_FORWARD(status);
    at_program *program = at_lineage_add(&on->lineage, arm, next.kind, next.parent);
    if (program == NULL) {
        at_sources_free(&sources);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a proposal");
    }
    program->sources = sources;
    program->other = next.other;
    *none = event.as.proposal.proposed == AT_PROPOSED_NOTHING;
    spend(on, &event.as.proposal);
    return judge_answer(on, event.as.proposal.id, &event.as.proposal);
}
