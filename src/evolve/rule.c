#include "evolve/rule.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static at_text *add_edit(at_change *change, int32_t at, int32_t end)
{
    change->overfull = change->overfull || change->edits == AT_EDITS_MAX;
    at_edit *edit = &change->edit[change->overfull ? AT_EDITS_MAX - 1 : change->edits++];
    if (!change->overfull) {
        at_text_init(&edit->text);
        edit->at = at;
        edit->end = end;
    }
    return &edit->text;
}

static int32_t byte_of(const at_code *code, int32_t index)
{
    return index < code->count ? code->token[index].at : (int32_t)strlen(code->text);
}

static int32_t byte_behind(const at_code *code, int32_t index)
{
    return code->token[index].at + code->token[index].length;
}

at_text *at_change_tokens(at_change *change, int32_t first, int32_t end)
{
    const int32_t at = byte_of(change->code, first);
    return add_edit(change, at, end > first ? byte_behind(change->code, end - 1) : at);
}

static bool is_directive(const at_code *code, int32_t index, const char *word)
{
    const at_token *t = &code->token[index];
    const char *text = code->text + t->at + 1;
    return t->kind == AT_TOKEN_DIRECTIVE && strncmp(text + strspn(text, " \t"), word, strlen(word)) == 0;
}

/* Behind the last of the includes that stand under the fewest conditions. */
at_text *at_change_prelude(at_change *change)
{
    const at_code *code = change->code;
    int depth = 0, least = 1 << 30;
    int32_t at = 0;
    for (int32_t i = 0; i < code->count; ++i) {
        depth += is_directive(code, i, "if") ? 1 : is_directive(code, i, "endif") ? -1 : 0;
        if (is_directive(code, i, "include") && depth <= least) {
            least = depth;
            at = byte_behind(code, i);
        }
    }
    return add_edit(change, at, at);
}

void at_change_idea(at_change *change, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(change->idea, sizeof change->idea, format, list);
    va_end(list);
}

int at_change_draw(at_change *change, int bound)
{
    return (int)at_random_below(change->random, (uint64_t)bound);
}

void at_text_add_tokens(at_text *text, const at_code *code, int32_t first, int32_t end)
{
    if (end > first) {
        const int32_t at = code->token[first].at;
        at_text_add_bytes(text, code->text + at, (size_t)(byte_behind(code, end - 1) - at));
    }
}

bool at_enclosing_loop(const at_code *code, int32_t place, at_loop *loop)
{
    for (int32_t i = place - 1; i >= 0; --i) {
        at_loop found;
        if (at_token_is(code, i, "for") && at_loop_read(code, i, &found) && found.body <= place && place < found.end) {
            *loop = found;
            return true;
        }
    }
    return false;
}

int at_line_of(const at_code *code, int32_t index)
{
    int line = 1;
    for (int32_t i = 0; i < byte_of(code, index); ++i) {
        line += code->text[i] == '\n';
    }
    return line;
}

int at_largest_copy(const at_code *code, int32_t name)
{
    const at_token *n = &code->token[name];
    int largest = 0;
    for (int32_t i = 0; i < code->count; ++i) {
        const at_token *t = &code->token[i];
        const char *word = code->text + t->at;
        if (t->length > n->length + 1 && t->length < n->length + 8 && word[n->length] == '_' &&
            memcmp(word, code->text + n->at, (size_t)n->length) == 0) {
            char *end;
            const long number = strtol(word + n->length + 1, &end, 10);
            largest = end == word + t->length && number > largest ? (int)number : largest;
        }
    }
    return largest;
}
