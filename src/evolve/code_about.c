/* What a run was asked, beside its ledger: all that is needed to go on with it, or through it again. The requests'
 * digests in the ledger bind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "evidence/fields.h"
#include "evolve/code_about.h"

enum { PATH_BYTES = 4096, ABOUT_MAX = 1 << 20 };

#define COUNT(member, key) AT_FIELD_COUNT(at_code_asked, member, key)
#define REAL(member, key) AT_FIELD(AT_FIELD_REAL, at_code_asked, member, key)
#define BOOL(member, key) AT_FIELD(AT_FIELD_BOOL, at_code_asked, member, key)
#define TEXT(member, key) AT_FIELD(AT_FIELD_TEXT, at_code_asked, member, key)

static const at_field of_asked[] = {
    TEXT(problems, "problems"),
    TEXT(machine, "machine"),
    TEXT(device, "device"),
    TEXT(allow, "allow"),
    TEXT(first, "first"),
    BOOL(cuda, "cuda"),
    BOOL(controls, "controls"),
    BOOL(keep_comments, "keep_comments"),
    BOOL(prove, "prove"),
    BOOL(no_repairs, "no_repairs"),
    AT_FIELD_NAMED(at_code_asked, level, "level", at_names_of_levels),
    COUNT(tune_runs, "tune_runs"),
    COUNT(proposals, "proposals"),
    REAL(seconds, "seconds"),
    REAL(usd, "usd"),
    REAL(tokens, "tokens"),
    REAL(all_s, "all_s"),
    REAL(each_s, "each_s"),
    REAL(roof_us, "roof_us"),
    AT_FIELD(AT_FIELD_SEED, at_code_asked, seed, "seed"),
    {.key = NULL},
};

static void about_path(const char *folder, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/about.json", folder);
}

static void take(const at_code_options *options, at_code_asked *asked)
{
    *asked = (at_code_asked){.cuda = options->about.cuda,
                             .controls = options->controls,
                             .keep_comments = options->keep_comments,
                             .prove = options->prove,
                             .no_repairs = options->no_repairs,
                             .level = (int32_t)options->level,
                             .tune_runs = options->tune_runs,
                             .proposals = options->budget.proposals,
                             .seconds = options->budget.seconds,
                             .usd = options->budget.usd,
                             .tokens = options->budget.tokens,
                             .all_s = options->budget.all_s,
                             .each_s = options->budget.each_s,
                             .roof_us = options->about.roof_us,
                             .seed = options->seed};
    (void)snprintf(asked->problems, sizeof asked->problems, "%s", options->about.problems);
    (void)snprintf(asked->machine, sizeof asked->machine, "%s", options->about.machine);
    (void)snprintf(asked->device, sizeof asked->device, "%s", options->about.device);
    (void)snprintf(asked->allow, sizeof asked->allow, "%s", options->allow != NULL ? options->allow : "");
    at_sources_digest(options->first, asked->first);
}

attune_status at_code_about_write(const char *folder, const at_code_options *options)
{
    char path[PATH_BYTES];
    at_text text;
    at_code_asked *asked = malloc(sizeof *asked);
    AT_FAIL_IF(asked == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to keep what was asked");
    take(options, asked);
    about_path(folder, path);
    json_t *object = at_fields_write(of_asked, asked);
    at_text_init(&text);
    at_json_print(object, &text);
    json_decref(object);
    attune_status status = at_directory_make(folder);
    status = status == ATTUNE_OK ? at_code_answer_write(folder, asked->first, options->first) : status;
    status = status == ATTUNE_OK ? at_text_status(&text, path) : status;
    status = status == ATTUNE_OK ? at_file_write(path, text.data, text.length) : status;
    at_text_free(&text);
    free(asked);
    return status;
}

attune_status at_code_about_read(const char *folder, at_code_asked *asked)
{
    char path[PATH_BYTES];
    void *data;
    size_t bytes;
    json_t *object;
    about_path(folder, path);
    AT_FORWARD(at_file_read(path, ABOUT_MAX, &data, &bytes));
    attune_status status = at_json_parse(path, data, bytes, &object);
    free(data);
    AT_FORWARD(status);
    status = at_fields_read(of_asked, object, path, asked);
    json_decref(object);
    return status;
}

void at_code_about_use(const at_code_asked *asked, at_code_options *options)
{
    options->about.problems = asked->problems;
    options->about.machine = asked->machine;
    options->about.device = asked->device;
    options->about.roof_us = asked->roof_us;
    options->about.cuda = asked->cuda;
    options->level = (at_task_level)asked->level;
    options->budget = (at_code_budget){.proposals = asked->proposals,
                                       .seconds = asked->seconds,
                                       .usd = asked->usd,
                                       .tokens = asked->tokens,
                                       .all_s = asked->all_s,
                                       .each_s = asked->each_s};
    options->tune_runs = asked->tune_runs;
    options->controls = asked->controls;
    options->keep_comments = asked->keep_comments;
    options->prove = asked->prove;
    options->no_repairs = asked->no_repairs;
    options->allow = asked->allow;
    options->seed = asked->seed;
}

/* ---- Going through a run again -------------------------------------------------------------------------------------
 */

static attune_status run_again(const char *folder, const char *to, const at_code_asked *asked, at_sources *first,
                               at_ledger_log *log, const at_code_watch *watch, at_code_result *result)
{
    at_code_options options = {.first = first, .folder = to, .replay = folder, .watch = *watch};
    AT_FAIL_IF(log->count == 0, ATTUNE_CORRUPT, "%s holds no run", folder);
    options.start = log->event[0].as.start;
    options.about.target = options.start.target;
    at_code_about_use(asked, &options);
    return at_code_run(&options, result, NULL);
}

attune_status at_code_replay(const char *folder, const char *to, const at_code_watch *watch, at_code_result *result)
{
    char path[PATH_BYTES];
    at_ledger_log *log = NULL;
    at_sources first = {.count = 0};
    at_code_asked *asked = malloc(sizeof *asked);
    AT_FAIL_IF(asked == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for what was asked");
    at_code_ledger_path(folder, path, sizeof path);
    attune_status status = at_code_about_read(folder, asked);
    status = status == ATTUNE_OK ? at_code_answer_read(folder, asked->first, &first) : status;
    status = status == ATTUNE_OK ? at_ledger_read(path, &log) : status;
    status = status == ATTUNE_OK ? run_again(folder, to, asked, &first, log, watch, result) : status;
    at_ledger_free(log);
    at_sources_free(&first);
    free(asked);
    return status;
}

/* ---- Answers of another run ----------------------------------------------------------------------------------------
 */

static attune_status answer_again(const at_recorded_proposer *on, const at_event_proposal *was,
                                  at_proposal_reply *reply)
{
    reply->proposed = (at_proposed)was->proposed;
    (void)snprintf(reply->why, sizeof reply->why, "%s", was->why);
    (void)snprintf(reply->facts.idea, sizeof reply->facts.idea, "%s", was->idea);
    (void)snprintf(reply->facts.tags, sizeof reply->facts.tags, "%s", was->tags);
    (void)snprintf(reply->facts.model, sizeof reply->facts.model, "%s", was->model);
    return reply->proposed == AT_PROPOSED ? at_code_answer_read(on->folder, was->answer, &reply->sources) : ATTUNE_OK;
}

/* The answer to the proposal of the same number; past the last one it has nothing to propose. Costs are not paid again.
 */
static attune_status ask_recorded(void *self, const at_proposal_request *request, at_proposal_reply *reply)
{
    const at_recorded_proposer *on = self;
    *reply = (at_proposal_reply){.proposed = AT_PROPOSED_NOTHING};
    at_answer_facts_init(&reply->facts);
    for (size_t i = 0; i < on->log->count; ++i) {
        const at_event *event = &on->log->event[i];
        if (event->kind == AT_EVENT_PROPOSAL && event->as.proposal.id == request->number) {
            return answer_again(on, &event->as.proposal, reply);
        }
    }
    return ATTUNE_OK;
}

attune_status at_recorded_proposer_open(const char *folder, at_recorded_proposer *proposer)
{
    char path[PATH_BYTES];
    *proposer = (at_recorded_proposer){.folder = folder};
    at_code_ledger_path(folder, path, sizeof path);
    return at_ledger_read(path, &proposer->log);
}

void at_recorded_proposer_close(at_recorded_proposer *proposer)
{
    at_ledger_free(proposer->log);
    proposer->log = NULL;
}

at_proposer at_proposer_of_record(at_recorded_proposer *proposer)
{
    return (at_proposer){.self = proposer, .ask = ask_recorded};
}
