/* Any bytes as what a proposer wrote: refused with words and nothing changed, or sources within the limits; and what is
 * stripped of comments once has none left. */
#include <stdlib.h>
#include <string.h>

#include "evolve/proposer_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void look_at(const at_sources *sources)
{
    size_t all = 0;
    for (int i = 0; i < sources->count; ++i) {
        require(at_source_name_check(sources->file[i].name) == ATTUNE_OK);
        require(sources->file[i].data[sources->file[i].bytes] == '\0');
        require(i == 0 || strcmp(sources->file[i - 1].name, sources->file[i].name) < 0);
        all += sources->file[i].bytes;
    }
    require(all <= AT_SOURCES_BYTES_MAX);
}

static void strip_twice(const char *data, size_t bytes)
{
    at_text once, twice;
    at_text_init(&once);
    at_text_init(&twice);
    require(at_source_strip(data, bytes, &once) == ATTUNE_OK);
    require(at_source_strip(once.data, once.length, &twice) == ATTUNE_OK);
    at_text_free(&once);
    at_text_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char one[] = "one\ntwo\nthree\nfour\nfive\n";
    at_sources sources = {.count = 0};
    char before[AT_DIGEST_TEXT_MAX], after[AT_DIGEST_TEXT_MAX];
    at_answer_facts facts;
    at_answer_form form;
    require(at_sources_put(&sources, "k.kernel.c", one, strlen(one)) == ATTUNE_OK);
    at_sources_digest(&sources, before);
    attune_status status = at_answer_apply((const char *)data, bytes, &sources, &form);
    at_sources_digest(&sources, after);
    require(status == ATTUNE_OK || (strcmp(before, after) == 0 && attune_last_detail()[0] != '\0'));
    look_at(&sources);
    (void)at_sources_scan(&sources, NULL);
    at_answer_facts_init(&facts);
    (void)at_answer_facts_last((const char *)data, bytes, &facts);
    strip_twice((const char *)data, bytes);
    at_sources_free(&sources);
    return 0;
}
