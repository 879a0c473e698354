#include "evidence/zip.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/status.h"

enum { GZIP = 16, WINDOW = 15, MEMORY = 9, PIECE = 65536 };

struct at_zip {
    z_stream stream;
    at_text *to;
};

bool at_zip_is(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    return bytes > 2 && at[0] == 0x1f && at[1] == 0x8b;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static attune_status inflate_all(const char *what, z_stream *stream, size_t most, at_text *text)
{
    char piece[PIECE];
    int code = Z_OK;
    while (code == Z_OK) {
        stream->next_out = (Bytef *)piece;
        stream->avail_out = sizeof piece;
        code = inflate(stream, Z_NO_FLUSH);
        at_text_add_bytes(text, piece, sizeof piece - stream->avail_out);
        AT_FAIL_IF(text->length > most, ATTUNE_CORRUPT, "%s holds more than %zu bytes", what, most);
    }
    AT_FAIL_IF(code != Z_STREAM_END || stream->avail_in != 0, ATTUNE_CORRUPT, "%s cannot be decompressed: %s", what,
               stream->msg != NULL ? stream->msg : "it was cut off, or something follows");
    return at_text_status(text, what);
}

attune_status at_zip_open(const char *what, const void *data, size_t bytes, size_t most, at_text *text)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes};
    AT_FAIL_IF(bytes > most || inflateInit2(&stream, WINDOW + GZIP) != Z_OK, ATTUNE_OUT_OF_MEMORY,
               "%s: no memory to decompress %zu bytes", what, bytes);
    attune_status status = inflate_all(what, &stream, most, text);
    (void)inflateEnd(&stream);
    return status;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

attune_status at_zip_create(at_text *to, at_zip **zip)
{
    at_zip *made = calloc(1, sizeof *made);
    *zip = NULL;
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to compress");
    made->to = to;
    if (deflateInit2(&made->stream, Z_BEST_COMPRESSION, Z_DEFLATED, WINDOW + GZIP, MEMORY, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        free(made);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to compress");
    }
    *zip = made;
    return ATTUNE_OK;
}

static void deflate_piece(at_zip *zip, int flush)
{
    char piece[PIECE];
    do {
        zip->stream.next_out = (Bytef *)piece;
        zip->stream.avail_out = sizeof piece;
        (void)deflate(&zip->stream, flush);
        at_text_add_bytes(zip->to, piece, sizeof piece - zip->stream.avail_out);
    } while (zip->stream.avail_out == 0);
}

void at_zip_part(at_zip *zip, const char *part, size_t bytes)
{
    zip->stream.next_in = (Bytef *)(uintptr_t)part;
    zip->stream.avail_in = (uInt)bytes;
    deflate_piece(zip, Z_BLOCK);
}

attune_status at_zip_add(at_zip *zip, const char *piece, size_t bytes)
{
    zip->stream.next_in = (Bytef *)(uintptr_t)piece;
    zip->stream.avail_in = (uInt)bytes;
    deflate_piece(zip, Z_SYNC_FLUSH);
    return at_text_status(zip->to, "compressed evidence");
}

attune_status at_zip_end(at_zip *zip)
{
    if (zip == NULL) {
        return ATTUNE_OK;
    }
    deflate_piece(zip, Z_FINISH);
    attune_status status = at_text_status(zip->to, "compressed evidence");
    (void)deflateEnd(&zip->stream);
    free(zip);
    return status;
}
