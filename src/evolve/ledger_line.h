/* Lines of ledgers: shared by writing, reading and tests. */
#ifndef EVOLVE_LEDGER_LINE_H
#define EVOLVE_LEDGER_LINE_H

#include "base/text.h"
#include "evolve/event.h"

/* What is between a line's body and its digest. */
#define AT_LEDGER_DIGEST ",\"digest\":\""

/* The digest of a line from that of the line before ("" for the first), which may be the same array. */
void at_ledger_digest(const char *before, const char *body, size_t bytes, char digest[AT_DIGEST_TEXT_MAX]);
/* Appends the whole line, its newline included; `digest` is the line's before, and becomes this one's. */
attune_status at_ledger_line(const at_event *event, int64_t seq, char digest[AT_DIGEST_TEXT_MAX], at_text *line);
/* Bytes of the next line with its newline; 0 for a tail that is no whole line: one without a newline, or the last one
 * with zeros in it, as file systems leave what they had no time to write. */
size_t at_ledger_next_line(const char *text, size_t bytes);
/* Whether a text is what is left of a first line that was torn, and nothing that somebody else wrote. */
bool at_ledger_is_torn_start(const char *text, size_t bytes);

#endif
