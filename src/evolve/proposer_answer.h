/* What a proposer answered, read from text that nobody vouches for: whole files in fences tagged by a path, or one
 * unified diff; and what it says about itself.
 *
 *     ```c NAME.kernel.c          --- a/NAME.kernel.c
 *     the whole file              +++ b/NAME.kernel.c
 *     ```                         @@ -12,3 +12,4 @@
 *
 * A diff is applied where its context is, to the letter; line numbers are only hints. One that was cut off, or whose
 * context is not there, is refused, and nothing of it is applied. */
#ifndef EVOLVE_PROPOSER_ANSWER_H
#define EVOLVE_PROPOSER_ANSWER_H

#include <stdbool.h>

#include "evolve/proposer_files.h"

enum { AT_IDEA_MAX = 240, AT_TAGS_MAX = 160, AT_MODEL_MAX = 80 };

/* What a proposer says of itself. */
typedef struct at_answer_facts {
    char idea[AT_IDEA_MAX]; /* a sentence; "" where it says none */
    char tags[AT_TAGS_MAX]; /* blanks between */
    char model[AT_MODEL_MAX];
    int64_t tokens_in, tokens_out; /* -1: unknown */
    double usd;                    /* below 0: unknown */
} at_answer_facts;

void at_answer_facts_init(at_answer_facts *facts);
/* Reads {"idea":"...","tags":[...],"model":"...","tokens_in":n,"tokens_out":n,"usd":x}, each of them optional; of
 * other types they count as not said. False where the text is no such object. */
bool at_answer_facts_read(const char *text, size_t bytes, at_answer_facts *facts);
/* The same of a text's last line that is not blank. */
bool at_answer_facts_last(const char *text, size_t bytes, at_answer_facts *facts);

/* What a text holds. */
typedef enum at_answer_form { AT_ANSWER_NONE = 0, AT_ANSWER_FILES, AT_ANSWER_DIFF } at_answer_form;

/* Applies a text's files, or its diff, to `sources`, which stay as they were where that fails. Prefixes "a/", "b/" and
 * "candidate/" of names are dropped. ATTUNE_INVALID_ARGUMENT says what is wrong with the text. */
attune_status at_answer_apply(const char *text, size_t bytes, at_sources *sources, at_answer_form *form);

/* ---- Parts --------------------------------------------------------------------------------------------------------
 */

/* A name without the prefixes that answers put before it. */
const char *at_answer_name(const char *name);
/* Whether a unified diff begins somewhere in a text, and applying it. */
bool at_answer_has_diff(const char *text, size_t bytes);
attune_status at_answer_apply_diff(const char *text, size_t bytes, at_sources *sources);

#endif
