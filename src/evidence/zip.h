/* Files of evidence compressed as gzip does it. */
#ifndef EVIDENCE_ZIP_H
#define EVIDENCE_ZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

bool at_zip_is(const void *data, size_t bytes);
/* Adds what was compressed. ATTUNE_CORRUPT, naming `what`, for what is no whole gzip file or holds more than `most`
 * bytes. */
attune_status at_zip_open(const char *what, const void *data, size_t bytes, size_t most, at_text *text);

/* A file under way, into the text that it was begun with. Pieces are compressed by themselves: a piece gives the same
 * bytes after the same piece, so that versions of a file differ where their pieces do. */
typedef struct at_zip at_zip;

attune_status at_zip_create(at_text *to, at_zip **zip);
/* A part of the piece that at_zip_add ends, with a code of its own. */
void at_zip_part(at_zip *zip, const char *part, size_t bytes);
attune_status at_zip_add(at_zip *zip, const char *piece, size_t bytes);
/* Ends the file and frees; NULL is fine. */
attune_status at_zip_end(at_zip *zip);

#endif
