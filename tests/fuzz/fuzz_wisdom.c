/* Any bytes are read as wisdom or refused; what was read prints, and reads back as the same. */
#include <stdlib.h>
#include <string.h>

#include "library/wisdom.h"

static void read_back(const at_wisdom *wisdom)
{
    char *text = NULL;
    char *again = NULL;
    size_t bytes = 0, bytes_again = 0, skipped = 1;
    at_wisdom *copy = NULL;
    if (at_wisdom_print(wisdom, &text, &bytes) != ATTUNE_OK || at_wisdom_create(&copy) != ATTUNE_OK ||
        at_wisdom_parse(copy, text, bytes, &skipped) != ATTUNE_OK || skipped != 0 ||
        at_wisdom_count(copy) != at_wisdom_count(wisdom) || at_wisdom_print(copy, &again, &bytes_again) != ATTUNE_OK ||
        bytes != bytes_again || memcmp(text, again, bytes) != 0) {
        abort();
    }
    for (size_t i = 0; i < at_wisdom_count(copy); ++i) {
        const at_wisdom_row *row = at_wisdom_at(copy, i);
        if (at_wisdom_find(wisdom, row->class_text, row->target_text, NULL) == NULL) {
            abort();
        }
    }
    free(text);
    free(again);
    at_wisdom_destroy(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at_wisdom *wisdom = NULL;
    if (at_wisdom_create(&wisdom) == ATTUNE_OK &&
        at_wisdom_parse(wisdom, (const char *)data, size, NULL) == ATTUNE_OK) {
        read_back(wisdom);
    }
    at_wisdom_destroy(wisdom);
    return 0;
}
