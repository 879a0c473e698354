#include "stranger/question.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "core/config.h"
#include "core/term.h"
#include "stranger/object.h"
#include "stranger/sandbox.h"
#include "stranger/wire_kernel.h"
#include "wire/serve.h"

enum { OBJECT_MAX = 16 << 20, MEMORY_MAX = 1 << 30, SECONDS_MAX = 60, VALUES_MAX = 256 };

typedef struct session {
    at_server server;
    const attune_kernel *kernel;
    attune_status status; /* of loading it: where that failed, every answer says so */
    char detail[512];
    attune_problem problem;
    attune_target target;
    attune_config config;
} session;

/* ---- Reading what is asked -------------------------------------------------------------------------------------- */

static attune_status read_place(const at_request *request, session *on)
{
    json_t *target;
    AT_FORWARD(at_wire_problem(request->root, "problem", &on->problem));
    AT_FORWARD(at_json_field(request->root, "request", "target", JSON_OBJECT, &target));
    return at_wire_target(target, &on->target);
}

static attune_status read_choice(const at_request *request, session *on)
{
    AT_FORWARD(read_place(request, on));
    return at_wire_config(json_object_get(request->root, "config"), on->kernel, &on->config);
}

/* ---- Answering -------------------------------------------------------------------------------------------------- */

static attune_status put_opinion(json_t *answer, bool can, const attune_reason *reason)
{
    AT_FORWARD(at_answer_put(answer, "can", json_boolean(can)));
    if (can) {
        return ATTUNE_OK;
    }
    json_t *why = json_stringn(reason->text, strnlen(reason->text, sizeof reason->text));
    AT_FAIL_IF(why == NULL, ATTUNE_INVALID_ARGUMENT, "its reason is not UTF-8 text");
    return at_answer_put(answer, "why", why);
}

static attune_status about(session *on, const at_request *request, json_t *answer)
{
    (void)request;
    return at_answer_put(answer, "kernel", at_wire_from_kernel(on->kernel));
}

static attune_status supports(session *on, const at_request *request, json_t *answer)
{
    attune_reason reason = {""};
    AT_FORWARD(read_place(request, on));
    bool can = at_kernel_supports(on->kernel, &on->problem, &on->target, &reason);
    return put_opinion(answer, can, &reason);
}

static attune_status valid(session *on, const at_request *request, json_t *answer)
{
    attune_reason reason = {""};
    AT_FORWARD(read_choice(request, on));
    bool can = on->kernel->valid(&on->problem, &on->target, &on->config, &reason);
    return put_opinion(answer, can, &reason);
}

static attune_status heuristic(session *on, const at_request *request, json_t *answer)
{
    int64_t index;
    AT_FORWARD(read_place(request, on));
    AT_FORWARD(at_json_int(request->root, "request", "index", 0, INT32_MAX, &index));
    memset(&on->config, 0, sizeof on->config);
    if (!on->kernel->heuristic(&on->problem, &on->target, (int32_t)index, &on->config)) {
        return ATTUNE_OK;
    }
    return at_answer_put(answer, "config", at_wire_from_config(on->kernel, &on->config));
}

static attune_status plan(session *on, const at_request *request, json_t *answer)
{
    at_recipe recipe;
    AT_FORWARD(read_choice(request, on));
    AT_FORWARD(at_recipe_ask(on->kernel, &on->problem, &on->target, &on->config, &recipe));
    AT_FORWARD(at_steps_check(on->kernel, &recipe.steps)); /* what is not sound cannot be printed */
    attune_status status = at_term_check(&recipe.resources.workspace);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "kernel %s: resources: workspace", on->kernel->name);
    }
    return at_answer_put(answer, "plan", at_wire_from_plan(&recipe.resources, &recipe.steps));
}

static attune_status quit(session *on, const at_request *request, json_t *answer)
{
    (void)request;
    (void)answer;
    on->server.quits = true;
    return ATTUNE_OK;
}

static const struct {
    const char *op;
    attune_status (*answer)(session *on, const at_request *request, json_t *answer);
} questions[] = {
    {"about", about}, {"supports", supports}, {"heuristic", heuristic},
    {"valid", valid}, {"plan", plan},         {"quit", quit},
};

static attune_status handle(void *self, const at_request *request, json_t *answer)
{
    const session *on = self;
    AT_FAIL_IF(on->status != ATTUNE_OK && strcmp(request->op, "quit") != 0, on->status, "%s", on->detail);
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; ++i) {
        if (strcmp(request->op, questions[i].op) == 0) {
            return questions[i].answer(self, request, answer);
        }
    }
    return at_fail(ATTUNE_INVALID_ARGUMENT, "there is no question \"%.40s\"", request->op);
}

/* ---- The object ------------------------------------------------------------------------------------------------- */

/* What an object of ours was checked to have: a table of symbols behind DT_HASH. */
static const attune_kernel *find_kernel(void *object)
{
    struct link_map *map = NULL;
    const Elf64_Sym *symbol = NULL;
    const char *text = NULL;
    uint32_t count = 0;
    if (dlinfo(object, RTLD_DI_LINKMAP, &map) != 0) {
        return NULL;
    }
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
        const void *at = (const void *)(uintptr_t)entry->d_un.d_ptr;
        symbol = entry->d_tag == DT_SYMTAB ? at : symbol;
        text = entry->d_tag == DT_STRTAB ? at : text;
        count = entry->d_tag == DT_HASH ? ((const uint32_t *)at)[1] : count;
    }
    for (uint32_t i = 1; i < count && symbol != NULL && text != NULL; ++i) {
        const char *name = text + symbol[i].st_name;
        if (symbol[i].st_shndx != SHN_UNDEF && strncmp(name, "at_kernel_", 10) == 0 &&
            symbol[i].st_size == sizeof(attune_kernel)) {
            return dlsym(object, name);
        }
    }
    return NULL;
}

static attune_status check_head(const attune_kernel *kernel)
{
    AT_FAIL_IF(kernel->size != sizeof *kernel || kernel->abi != ATTUNE_ABI, ATTUNE_INVALID_ARGUMENT,
               "its at_kernel_... has size %zu and abi is %u: %zu and %u are needed%s", kernel->size, kernel->abi,
               sizeof *kernel, ATTUNE_ABI, kernel->abi == 2 ? AT_ABI_2_CHANGES : "");
    AT_FAIL_IF(kernel->name == NULL || kernel->summary == NULL, ATTUNE_INVALID_ARGUMENT, "%s is NULL",
               kernel->name == NULL ? "name" : "summary");
    AT_FAIL_IF(kernel->param_count < 0 || kernel->param_count > ATTUNE_PARAMS_MAX ||
                   (kernel->param_count > 0 && kernel->params == NULL),
               ATTUNE_INVALID_ARGUMENT, "param_count is %d, and params %s: 0 ... %d is allowed", kernel->param_count,
               kernel->params == NULL ? "is NULL" : "is there", ATTUNE_PARAMS_MAX);
    for (int i = 0; i < kernel->param_count; ++i) {
        const attune_param *param = &kernel->params[i];
        AT_FAIL_IF(param->name == NULL || param->values == NULL || param->count < 1 || param->count > VALUES_MAX,
                   ATTUNE_INVALID_ARGUMENT,
                   "parameter %d has %d values and its name or values may be NULL: both, and "
                   "1 ... %d values, are needed",
                   i, param->count, VALUES_MAX);
    }
    AT_FAIL_IF(kernel->valid == NULL || kernel->resources == NULL || kernel->heuristic == NULL || kernel->steps == NULL,
               ATTUNE_INVALID_ARGUMENT, "valid, resources, heuristic or steps is NULL");
    return ATTUNE_OK;
}

static attune_status load(const char *path, const attune_kernel **kernel)
{
    void *bytes;
    size_t size;
    AT_FORWARD(at_file_read(path, OBJECT_MAX, &bytes, &size));
    attune_status status = at_object_check("the descriptor", bytes, size, AT_OBJECT_DESCRIPTOR);
    free(bytes);
    AT_FORWARD(status);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    AT_FAIL_IF(object == NULL, ATTUNE_COMPILE_ERROR, "the descriptor cannot be loaded: %s", dlerror());
    *kernel = find_kernel(object);
    AT_FAIL_IF(*kernel == NULL, ATTUNE_INVALID_ARGUMENT,
               "the descriptor defines no `const attune_kernel at_kernel_NAME`");
    return check_head(*kernel);
}

/* jansson takes its hash's seed from the system, which it cannot once the process is locked. */
static attune_status lock(void)
{
    const at_sandbox_limits limits = {.seconds = SECONDS_MAX, .memory = MEMORY_MAX, .no_clock = true};
    json_object_seed(0);
    AT_FORWARD(at_sandbox_begin(&limits));
    return at_sandbox_lock(AT_LOCK_LOADING);
}

static attune_status prepare(const char *object, const attune_kernel **kernel)
{
    AT_FORWARD(lock());
    AT_FORWARD(load(object, kernel));
    return at_sandbox_lock(AT_LOCK_RUNNING);
}

attune_status at_question_serve(const char *object)
{
    session on = {.server = {.handle = handle}};
    int in, out;
    on.server.self = &on;
    AT_FORWARD(at_serve_take_line(&in, &out));
    on.status = prepare(object, &on.kernel);
    (void)snprintf(on.detail, sizeof on.detail, "%s", attune_last_detail());
    return at_serve(&on.server, in, out);
}
