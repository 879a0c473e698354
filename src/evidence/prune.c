#include "evidence/prune.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evidence/evidence_parts.h"
#include "evidence/ratchet.h"
#include "library/wisdom.h"

static bool is_named(const at_record *record)
{
    for (const at_embedded *file = at_embedded_wisdom; file->name != NULL; ++file) {
        if (strstr((const char *)file->data, record->entry->digest) != NULL) {
            return true;
        }
    }
    return false;
}

static void keep_series(const at_archive *archive, size_t begin, size_t count, bool *keep)
{
    const at_record *first = &archive->record[begin];
    for (size_t i = 0; i < count; ++i) {
        const at_record *record = first + i;
        keep[begin + i] = record->newest || record->state == AT_BROKEN || is_named(record);
    }
    at_ratchet_mark(first, count, keep + begin);
}

/* The entries of a file that no record keeps, from the last to the first. */
static attune_status prune_file(const at_archive *archive, size_t file, const bool *keep, size_t *removed)
{
    const at_evidence *evidence = &archive->evidence[file];
    json_t *object, *list;
    size_t gone = 0;
    AT_FORWARD(at_evidence_list(archive->file[file], &object, &list));
    for (size_t k = evidence->count; k-- > 0;) {
        for (size_t i = 0; i < archive->count; ++i) {
            if (archive->record[i].entry == &evidence->entry[k] && !keep[i]) {
                (void)json_array_remove(list, k);
                ++gone;
            }
        }
    }
    attune_status status = gone > 0 ? at_evidence_write(archive->file[file], list) : ATTUNE_OK;
    json_decref(object);
    *removed += gone;
    return status;
}

static attune_status prune_files(const at_archive *archive, const bool *keep, size_t *removed)
{
    for (size_t file = 0; file < archive->files; ++file) {
        if (archive->evidence[file].count > 0) {
            AT_FORWARD(prune_file(archive, file, keep, removed));
        }
    }
    return ATTUNE_OK;
}

attune_status at_archive_prune(const at_archive *archive, size_t *removed)
{
    bool *keep = calloc(archive->count + 1, sizeof *keep);
    *removed = 0;
    AT_FAIL_IF(keep == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu verdicts", archive->count);
    for (size_t i = 0, count; i < archive->count; i += count) {
        const at_record *first = &archive->record[i];
        keep[i] = true; /* what has no verdict is of no series */
        for (count = 1; i + count < archive->count && at_record_same_series(first, first + count); ++count) {
        }
        if (at_record_same_series(first, first)) {
            keep_series(archive, i, count, keep);
        }
    }
    attune_status status = prune_files(archive, keep, removed);
    free(keep);
    return status;
}
