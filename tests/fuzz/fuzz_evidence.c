/* Any bytes are read as evidence or refused; what was read can be judged, prints, and reads back as the same. */
#include <stdlib.h>
#include <string.h>

#include "evidence/evidence.h"
#include "evidence/evidence_parts.h"
#include "evidence/zip.h"

/* Digests are looked at by at_evidence_parse; here changed verdicts are read as well. */
static at_verdict *read_verdict(const json_t *object)
{
    at_verdict *verdict = NULL;
    if (at_verdict_create(&verdict) == ATTUNE_OK && at_evidence_read_verdict(object, "fuzz", verdict) == ATTUNE_OK) {
        return verdict;
    }
    at_verdict_destroy(verdict);
    return NULL;
}

static char *print(const at_verdict *verdict)
{
    char *text = NULL, digest[AT_DIGEST_TEXT_MAX];
    if (at_verdict_print(verdict, &text, digest) != ATTUNE_OK) {
        abort();
    }
    return text;
}

static void read_back(const at_verdict *verdict)
{
    char *text = print(verdict);
    json_t *object = NULL;
    if (at_json_parse("print", text, strlen(text), &object) != ATTUNE_OK) {
        abort();
    }
    at_verdict *copy = read_verdict(object);
    char *again = copy == NULL ? NULL : print(copy);
    if (again == NULL || strcmp(text, again) != 0) {
        abort();
    }
    free(again);
    free(text);
    at_verdict_destroy(copy);
    json_decref(object);
}

static void take(const json_t *object)
{
    at_verdict *verdict = read_verdict(object);
    if (verdict != NULL) {
        read_back(verdict);
        (void)(at_verdict_judge(verdict) == ATTUNE_OK ? at_verdict_exit(verdict) : 0);
    }
    at_verdict_destroy(verdict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at_evidence evidence;
    json_t *object = NULL;
    at_text text;
    at_text_init(&text);
    if (at_zip_is(data, size) && at_zip_open("fuzz", data, size, 1 << 20, &text) == ATTUNE_OK &&
        at_evidence_parse("fuzz", text.data, text.length, &evidence) == ATTUNE_OK) {
        at_evidence_close(&evidence);
    }
    at_text_free(&text);
    if (at_evidence_parse("fuzz", (const char *)data, size, &evidence) == ATTUNE_OK) {
        at_evidence_close(&evidence);
    }
    if (at_json_parse("fuzz", (const char *)data, size, &object) == ATTUNE_OK) {
        const json_t *list = json_object_get(object, "verdicts");
        for (size_t i = 0; i < json_array_size(list); ++i) {
            take(json_array_get(list, i));
        }
    }
    json_decref(object);
    return 0;
}
