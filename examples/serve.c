/* Continuous batching over one paged cache: requests of different lengths arrive, are read in chunks, answer a token a
 * step and leave; those of one prompt share its pages, and pages are used again. Each step is one append and one call
 * of attention for everybody, whose lengths and pages the kernels read from arrays.
 *
 * There is no model: rows follow from (document, position), a request's from its prompt's up to the prefix they share.
 * At the end every request's outputs are compared with causal attention over its whole sequence at once.
 *
 * serve [cpu|cuda]: on a CPU without a word. */
#include <attune/attune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { HEADS = 8, HEADS_KV = 2, DIM = 64, PAGE = 16, POOL = 40, BATCH = 4, LONGEST = 256, CHUNK = 32 };
enum { WIDTH = LONGEST / PAGE, ROWS = BATCH * CHUNK, REQUESTS = 12, PREFIX = 48, NOBODY = -1 };

typedef struct request {
    int prompt, tokens;  /* rows to be read, and answered */
    int shares;          /* 1: its first PREFIX rows are those of the first request */
    int length, started; /* rows in the cache; the first of its own */
    int pages[WIDTH];
    float *o; /* [LONGEST, HEADS, DIM] */
} request;

typedef struct server {
    memory memory;
    attune_context *context;
    attune_plan *append, *attend, *whole; /* the last to compare with */
    attune_call appending, attending;
    float *k, *v;                  /* [POOL, PAGE, HEADS_KV, DIM] */
    float *q, *o, *new_k, *new_v;  /* [rows, heads, DIM] of one step */
    int32_t *table, *used, *first; /* [BATCH, WIDTH], [BATCH], [BATCH + 1] */
    int users[POOL];               /* of each page */
    request *slot[BATCH];
    request all[REQUESTS];
    int arrived, steps, most_pages, taken;
} server;

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

static void write_row(float *to, int document, int position, int kind, int count)
{
    uint32_t state = (uint32_t)(document * 7919 + position * 3 + kind) * 2654435761U + 1;
    for (int c = 0; c < count; ++c) {
        state = state * 1664525U + 1013904223U;
        to[c] = (float)(int32_t)state * 0x1p-31F;
    }
}

/* Q, K and V of one row of a request. */
static void write_token(const server *s, const request *r, int position, float *q, float *k, float *v)
{
    const int document = r->shares && position < PREFIX ? 0 : (int)(r - s->all);
    write_row(q, document, position, 0, HEADS * DIM);
    write_row(k, document, position, 1, HEADS_KV * DIM);
    write_row(v, document, position, 2, HEADS_KV * DIM);
}

/* ---- Pages ------------------------------------------------------------------------------------------------------ */

static int take_page(server *s)
{
    for (int page = 0; page < POOL; ++page) {
        if (s->users[page] == 0) {
            s->users[page] = 1;
            ++s->taken;
            return page;
        }
    }
    return NOBODY;
}

static int free_pages(const server *s)
{
    int count = 0;
    for (int page = 0; page < POOL; ++page) {
        count += s->users[page] == 0;
    }
    return count;
}

static int pages_of(const request *r)
{
    return (r->prompt + r->tokens + PAGE - 1) / PAGE;
}

/* A request begins when there is room for all that it may become. Who shares its prompt's beginning waits until the
 * first request, whose pages those are, has read it; that keeps them as long as the server runs. */
static int admit(server *s, request *r)
{
    const request *first = &s->all[0];
    const int shared = r->shares && r != first ? PREFIX / PAGE : 0;
    if (free_pages(s) < pages_of(r) - shared || (shared > 0 && first->length < PREFIX)) {
        return 0;
    }
    for (int i = 0; i < pages_of(r); ++i) {
        r->pages[i] = i < shared ? first->pages[i] : take_page(s);
        s->users[r->pages[i]] += i < shared || (r == first && i < PREFIX / PAGE);
    }
    r->length = r->started = shared * PAGE;
    return 1;
}

static void leave(server *s, request *r)
{
    for (int i = 0; i < pages_of(r); ++i) {
        --s->users[r->pages[i]];
    }
}

static void fill_slots(server *s)
{
    for (int i = 0; i < BATCH && s->arrived < REQUESTS; ++i) {
        if (s->slot[i] == NULL && admit(s, &s->all[s->arrived])) {
            s->slot[i] = &s->all[s->arrived++];
        }
    }
    const int busy = POOL - free_pages(s);
    s->most_pages = busy > s->most_pages ? busy : s->most_pages;
}

/* ---- One step --------------------------------------------------------------------------------------------------- */

/* A chunk of its prompt, or the one row that it answers with. */
static int rows_now(const request *r)
{
    const int left = r->prompt - r->length;
    return left <= 0 ? 1 : left < CHUNK ? left : CHUNK;
}

/* Where everybody's rows lie among the step's, how long their sequences are then, and which pages they have. */
static int gather(server *s)
{
    int row = 0;
    for (int i = 0; i < BATCH; ++i) {
        request *r = s->slot[i];
        const int rows = r == NULL ? 0 : rows_now(r);
        s->first[i] = row;
        s->used[i] = r == NULL ? 0 : r->length + rows;
        for (int j = 0; j < rows; ++j, ++row) {
            write_token(s, r, r->length + j, s->q + row * HEADS * DIM, s->new_k + row * HEADS_KV * DIM,
                        s->new_v + row * HEADS_KV * DIM);
        }
        for (int c = 0; c < WIDTH; ++c) {
            s->table[i * WIDTH + c] = r != NULL && c < pages_of(r) ? r->pages[c] : NOBODY; /* never looked at */
        }
    }
    s->first[BATCH] = row;
    return row;
}

static void scatter(server *s)
{
    for (int i = 0; i < BATCH; ++i) {
        request *r = s->slot[i];
        const int rows = s->first[i + 1] - s->first[i];
        if (r == NULL) {
            continue;
        }
        memcpy(r->o + r->length * HEADS * DIM, s->o + s->first[i] * HEADS * DIM,
               (size_t)rows * HEADS * DIM * sizeof(float));
        r->length += rows;
        if (r->length == r->prompt + r->tokens) {
            leave(s, r);
            s->slot[i] = NULL;
        }
    }
}

static attune_status step(server *s)
{
    fill_slots(s);
    s->appending.total_new = s->attending.total_q = gather(s);
    attune_status status = attune_plan_execute(s->append, &s->appending);
    status = status ? status : attune_plan_execute(s->attend, &s->attending);
    if (!status && memory_wait(&s->memory)) {
        return ATTUNE_DEVICE_ERROR;
    }
    if (!status) {
        scatter(s);
        ++s->steps;
    }
    return status;
}

static int is_busy(const server *s)
{
    int busy = s->arrived < REQUESTS;
    for (int i = 0; i < BATCH; ++i) {
        busy |= s->slot[i] != NULL;
    }
    return busy;
}

/* ---- Is it right? ----------------------------------------------------------------------------------------------- */

/* The largest difference to causal attention over the whole sequence, all rows at once. */
static attune_status compare(server *s, const request *r, float *worst)
{
    const int rows = r->prompt + r->tokens;
    attune_problem problem;
    attune_call call;
    float *all = memory_take(&s->memory, (size_t)rows * (2 * HEADS + 2 * HEADS_KV) * DIM * sizeof *all);
    if (all == NULL) {
        return ATTUNE_OUT_OF_MEMORY;
    }
    float *k = all + rows * HEADS * DIM, *v = k + rows * HEADS_KV * DIM, *o = v + rows * HEADS_KV * DIM;
    for (int i = 0; i < rows; ++i) {
        write_token(s, r, i, all + i * HEADS * DIM, k + i * HEADS_KV * DIM, v + i * HEADS_KV * DIM);
    }
    attune_status status = attune_problem_parse("b1,h8,hkv2,s256,d64,fp32,causal,align=4,layout=bshd", &problem);
    problem.seqlen_q = problem.seqlen_kv = rows;
    status = status ? status : attune_call_init(&call, &problem);
    if (!status) {
        call.tensor[ATTUNE_Q].data = all;
        call.tensor[ATTUNE_K].data = k;
        call.tensor[ATTUNE_V].data = v;
        call.tensor[ATTUNE_O].data = o;
        call.workspace = s->attending.workspace;
        call.workspace_bytes = s->attending.workspace_bytes;
        status = attune_plan_execute(s->whole, &call);
        status = !status && memory_wait(&s->memory) ? ATTUNE_DEVICE_ERROR : status;
    }
    for (int i = r->started * HEADS * DIM; !status && i < rows * HEADS * DIM; ++i) {
        const float apart = fabsf(o[i] - r->o[i]);
        *worst = apart > *worst || isnan(apart) ? apart : *worst;
    }
    memory_give(&s->memory, all);
    return status;
}

/* ---- All of it -------------------------------------------------------------------------------------------------- */

static attune_status plan(server *s, const char *text, attune_plan **to, attune_call *call)
{
    attune_problem problem;
    attune_status status = attune_problem_parse(text, &problem);
    status = status ? status : attune_plan_create(s->context, &problem, NULL, to);
    return status || call == NULL ? status : attune_call_init(call, &problem);
}

static float *floats(const server *s, size_t count)
{
    return memory_take(&s->memory, count * sizeof(float));
}

/* One workspace for both plans that attend, whose calls come one after the other. */
static attune_status take_workspace(server *s)
{
    size_t bytes = 0, other = 0;
    attune_status status = attune_plan_workspace(s->attend, NULL, &bytes);
    status = status ? status : attune_plan_workspace(s->whole, NULL, &other);
    bytes = other > bytes ? other : bytes;
    s->attending.workspace = bytes > 0 ? memory_take(&s->memory, bytes) : NULL;
    s->attending.workspace_bytes = bytes;
    return status;
}

static void set_tensors(server *s)
{
    attune_call *calls[] = {&s->appending, &s->attending};
    for (int i = 0; i < 2; ++i) {
        calls[i]->page_count = POOL;
        calls[i]->tensor[ATTUNE_K].data = s->k;
        calls[i]->tensor[ATTUNE_V].data = s->v;
        calls[i]->tensor[ATTUNE_PAGE_TABLE_K].data = s->table;
        calls[i]->tensor[ATTUNE_USED_KV].data = s->used;
        calls[i]->tensor[ATTUNE_CU_Q].data = s->first;
    }
    s->appending.tensor[ATTUNE_NEW_K].data = s->new_k;
    s->appending.tensor[ATTUNE_NEW_V].data = s->new_v;
    s->attending.tensor[ATTUNE_Q].data = s->q;
    s->attending.tensor[ATTUNE_O].data = s->o;
}

static attune_status open_server(server *s, const char *target)
{
    attune_options options;
    attune_options_init(&options);
    options.target = target;
    attune_status status = attune_context_create(&options, &s->context);
    status = status ? status
                    : plan(s, "append:b4,h2,sq32,skv256,d64,fp32,seqused,page=16,varlen", &s->append, &s->appending);
    status = status
                 ? status
                 : plan(s, "b4,h8,hkv2,sq32,skv256,d64,fp32,causal,seqused,page=16,varlen", &s->attend, &s->attending);
    status = status ? status : plan(s, "b1,h8,hkv2,s256,d64,fp32,causal,align=4,layout=bshd", &s->whole, NULL);
    status = status ? status : take_workspace(s);
    s->k = floats(s, POOL * PAGE * HEADS_KV * DIM);
    s->v = floats(s, POOL * PAGE * HEADS_KV * DIM);
    s->q = floats(s, ROWS * HEADS * DIM);
    s->o = floats(s, ROWS * HEADS * DIM);
    s->new_k = floats(s, ROWS * HEADS_KV * DIM);
    s->new_v = floats(s, ROWS * HEADS_KV * DIM);
    s->table = memory_take(&s->memory, BATCH * WIDTH * sizeof *s->table);
    s->used = memory_take(&s->memory, BATCH * sizeof *s->used);
    s->first = memory_take(&s->memory, (BATCH + 1) * sizeof *s->first);
    set_tensors(s);
    for (int i = 0; i < REQUESTS; ++i) {
        s->all[i] = (request){.prompt = 5 + i * 37 % 190, .tokens = 3 + i * 11 % 40, .shares = i % 3 == 0};
        s->all[i].prompt += s->all[i].shares && s->all[i].prompt <= PREFIX ? PREFIX : 0;
        s->all[i].o = floats(s, (size_t)LONGEST * HEADS * DIM);
    }
    return status;
}

static void close_server(server *s)
{
    void *taken[] = {s->k, s->v, s->q, s->o, s->new_k, s->new_v, s->table, s->used, s->first, s->attending.workspace};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; ++i) {
        memory_give(&s->memory, taken[i]);
    }
    for (int i = 0; i < REQUESTS; ++i) {
        memory_give(&s->memory, s->all[i].o);
    }
    attune_plan_destroy(s->whole);
    attune_plan_destroy(s->attend);
    attune_plan_destroy(s->append);
    attune_context_destroy(s->context);
}

int main(int count, char **word)
{
    static server s;
    float worst = 0;
    int rows = 0;
    const char *target = count > 1 ? word[1] : "cpu";
    if (memory_open(&s.memory, target)) {
        (void)printf("there is no CUDA device\n");
        return 1;
    }
    attune_status status = open_server(&s, target);
    while (!status && is_busy(&s)) {
        status = step(&s);
    }
    for (int i = 0; !status && i < REQUESTS; ++i) {
        status = compare(&s, &s.all[i], &worst);
        rows += s.all[i].length - s.all[i].started;
    }
    if (status) {
        (void)printf("%s\n", attune_last_detail());
    } else {
        (void)printf("append: %s\nattend: %s\n", attune_plan_kernel(s.append), attune_plan_kernel(s.attend));
        (void)printf("%d requests, %d rows in %d steps; %d pages of %d at most, taken %d times; off by %.2g at most\n",
                     REQUESTS, rows, s.steps, s.most_pages, POOL, s.taken, (double)worst);
    }
    const int wrong = !(worst <= 1e-5F) || free_pages(&s) != POOL - PREFIX / PAGE;
    close_server(&s);
    return status || wrong;
}
