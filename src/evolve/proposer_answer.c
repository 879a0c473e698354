#include "evolve/proposer_answer.h"

#include <ctype.h>
#include <string.h>

#include "base/status.h"
#include "wire/json.h"

/* ---- What it says of itself -------------------------------------------------------------------------------------- */

void at_answer_facts_init(at_answer_facts *facts)
{
    *facts = (at_answer_facts){.tokens_in = -1, .tokens_out = -1, .usd = -1};
}

/* One line of plain text, whatever it was. */
static void copy_words(const char *from, char *to, size_t bytes)
{
    size_t used = 0;
    for (; from != NULL && *from != '\0' && used + 1 < bytes; ++from) {
        to[used++] = isprint((unsigned char)*from) ? *from : ' ';
    }
    to[used] = '\0';
}

static void copy_tags(const json_t *list, char *to, size_t bytes)
{
    at_text text;
    at_text_init_fixed(&text, to, bytes);
    for (size_t i = 0; json_is_array(list) && i < json_array_size(list); ++i) {
        char tag[40];
        copy_words(json_string_value(json_array_get(list, i)), tag, sizeof tag);
        for (char *at = tag; *at != '\0'; ++at) {
            *at = *at == ' ' ? '-' : *at;
        }
        at_text_add(&text, "%s%s", i == 0 ? "" : " ", tag);
    }
}

static int64_t count_of(const json_t *value)
{
    static const double most = 1e15;
    double number = json_is_number(value) ? json_number_value(value) : -1;
    return number >= 0 && number < most ? (int64_t)number : -1;
}

static void read_facts(const json_t *object, at_answer_facts *facts)
{
    const json_t *usd = json_object_get(object, "usd");
    copy_words(json_string_value(json_object_get(object, "idea")), facts->idea, sizeof facts->idea);
    copy_words(json_string_value(json_object_get(object, "model")), facts->model, sizeof facts->model);
    copy_tags(json_object_get(object, "tags"), facts->tags, sizeof facts->tags);
    facts->tokens_in = count_of(json_object_get(object, "tokens_in"));
    facts->tokens_out = count_of(json_object_get(object, "tokens_out"));
    facts->usd = json_is_number(usd) && json_number_value(usd) >= 0 && json_number_value(usd) < 1e9
                     ? json_number_value(usd)
                     : -1;
}

bool at_answer_facts_read(const char *text, size_t bytes, at_answer_facts *facts)
{
    static const char *const known[] = {"idea", "tags", "model", "tokens_in", "tokens_out", "usd"};
    json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    bool is_one = false;
    for (size_t i = 0; json_is_object(object) && i < sizeof known / sizeof known[0]; ++i) {
        is_one = is_one || json_object_get(object, known[i]) != NULL;
    }
    if (is_one) {
        read_facts(object, facts);
    }
    json_decref(object);
    return is_one;
}

bool at_answer_facts_last(const char *text, size_t bytes, at_answer_facts *facts)
{
    while (bytes > 0 && isspace((unsigned char)text[bytes - 1])) {
        --bytes;
    }
    size_t begin = bytes;
    while (begin > 0 && text[begin - 1] != '\n') {
        --begin;
    }
    return begin < bytes && text[begin] == '{' && at_answer_facts_read(text + begin, bytes - begin, facts);
}

/* ---- Fences ------------------------------------------------------------------------------------------------------ */

/* One line of a text, without its end. */
typedef struct line {
    const char *text;
    size_t length;
} line;

static bool next_line(const char **at, const char *end, line *one)
{
    if (*at >= end) {
        return false;
    }
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    const char *stop = newline != NULL ? newline : end;
    *one = (line){*at, (size_t)(stop - *at)};
    *at = newline != NULL ? newline + 1 : end;
    one->length -= one->length > 0 && one->text[one->length - 1] == '\r';
    return true;
}

/* How many backticks or tildes a line begins with, three at least; 0: it is no fence. */
static size_t fence_of(const line *one)
{
    size_t count = 0;
    char mark = one->length > 0 ? one->text[0] : ' ';
    while ((mark == '`' || mark == '~') && count < one->length && one->text[count] == mark) {
        ++count;
    }
    return count >= 3 ? count : 0;
}

/* The last word behind the fence that has a point in it and says a file's name: "c NAME.c", "c:NAME.c", "path=NAME.c".
 */
static bool tag_of(const line *one, size_t fence, char name[AT_SOURCE_NAME_MAX])
{
    size_t end = one->length;
    name[0] = '\0';
    while (end > fence) {
        size_t begin = end;
        while (begin > fence && strchr(" \t:=\"'(){}", one->text[begin - 1]) == NULL) {
            --begin;
        }
        if (begin < end && memchr(one->text + begin, '.', end - begin) != NULL && end - begin < AT_SOURCE_NAME_MAX) {
            memcpy(name, one->text + begin, end - begin);
            name[end - begin] = '\0';
            return true;
        }
        end = begin > fence ? begin - 1 : fence;
    }
    return false;
}

/* Finds the line that closes a fence; the text between begins at *at. NULL where there is none. */
static const char *close_fence(const char **at, const char *end, size_t fence, char mark)
{
    for (line one; next_line(at, end, &one);) {
        if (fence_of(&one) >= fence && one.text[0] == mark && one.length == fence_of(&one)) {
            return one.text;
        }
    }
    return NULL;
}

/* Puts the tagged fences' files into `sources`; *files counts them. */
static attune_status take_fences(const char *text, size_t bytes, at_sources *sources, int *files)
{
    const char *at = text;
    const char *const end = text + bytes;
    char name[AT_SOURCE_NAME_MAX];
    for (line one; next_line(&at, end, &one);) {
        size_t fence = fence_of(&one);
        const char *const begin = at;
        bool tagged = fence > 0 && tag_of(&one, fence, name);
        const char *close = fence > 0 ? close_fence(&at, end, fence, one.text[0]) : NULL;
        AT_FAIL_IF(tagged && close == NULL, ATTUNE_INVALID_ARGUMENT, "the fence of %s is not closed: it was cut off",
                   name);
        if (fence > 0 && close == NULL) {
            at = begin;
        }
        if (tagged) {
            AT_FORWARD(at_sources_put(sources, at_answer_name(name), begin, (size_t)(close - begin)));
            ++*files;
        }
    }
    return ATTUNE_OK;
}

static attune_status apply(const char *text, size_t bytes, at_sources *sources, at_answer_form *form)
{
    int files = 0;
    AT_FORWARD(take_fences(text, bytes, sources, &files));
    *form = files > 0 ? AT_ANSWER_FILES : at_answer_has_diff(text, bytes) ? AT_ANSWER_DIFF : AT_ANSWER_NONE;
    return *form == AT_ANSWER_DIFF ? at_answer_apply_diff(text, bytes, sources) : ATTUNE_OK;
}

attune_status at_answer_apply(const char *text, size_t bytes, at_sources *sources, at_answer_form *form)
{
    at_sources changed;
    *form = AT_ANSWER_NONE;
    AT_FORWARD(at_sources_copy(sources, &changed));
    attune_status status = apply(text, bytes, &changed, form);
    if (status != ATTUNE_OK) {
        at_sources_free(&changed);
        return status;
    }
    at_sources_free(sources);
    *sources = changed;
    return ATTUNE_OK;
}
