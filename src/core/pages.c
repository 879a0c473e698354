/* Page tables of the form that some engines keep, made into attune's. */
#include <string.h>

#include "base/status.h"
#include "core/problem.h"

static attune_status check_sequence(const int32_t *indptr, const int32_t *last_page_len, int64_t b, int32_t page_size,
                                    int64_t width)
{
    const int64_t pages = (int64_t)indptr[b + 1] - indptr[b];
    AT_FAIL_IF(indptr[b] < 0 || pages < 0, ATTUNE_INVALID_ARGUMENT,
               "indptr[%lld] is %d, and the next %d: entries from 0 that do not decrease are needed", (long long)b,
               indptr[b], indptr[b + 1]);
    AT_FAIL_IF(pages > width, ATTUNE_INVALID_ARGUMENT, "page_table_width is %lld: sequence %lld has %lld pages",
               (long long)width, (long long)b, (long long)pages);
    AT_FAIL_IF(pages > 0 && (last_page_len[b] < 1 || last_page_len[b] > page_size), ATTUNE_INVALID_ARGUMENT,
               "last_page_len[%lld] is %d: 1 ... %d is allowed", (long long)b, last_page_len[b], page_size);
    AT_FAIL_IF(pages > 0 && (pages - 1) * page_size + last_page_len[b] > AT_DIM_MAX, ATTUNE_INVALID_ARGUMENT,
               "sequence %lld has %lld pages of %d rows: %lld rows are allowed", (long long)b, (long long)pages,
               page_size, (long long)AT_DIM_MAX);
    return ATTUNE_OK;
}

static attune_status check_pages(const int32_t *indices, const int32_t *indptr, int64_t batch)
{
    for (int64_t i = indptr[0]; i < indptr[batch]; ++i) {
        AT_FAIL_IF(indices[i] < 0, ATTUNE_INVALID_ARGUMENT, "indices[%lld] is %d: a page, from 0, is needed",
                   (long long)i, indices[i]);
    }
    return ATTUNE_OK;
}

attune_status attune_pages_from_csr(const int32_t *indptr, const int32_t *indices, const int32_t *last_page_len,
                                    int64_t batch, int32_t page_size, int64_t page_table_width, int64_t row_stride,
                                    int32_t *table, int32_t *used_kv)
{
    AT_FAIL_IF(indptr == NULL || indices == NULL || last_page_len == NULL || table == NULL, ATTUNE_INVALID_ARGUMENT,
               "indptr, indices, last_page_len or table is NULL");
    AT_FAIL_IF(batch < 1 || batch > AT_DIM_MAX, ATTUNE_INVALID_ARGUMENT, "batch is %lld: 1 ... %lld is allowed",
               (long long)batch, (long long)AT_DIM_MAX);
    AT_FAIL_IF(page_size < 1 || page_size > AT_PAGE_MAX, ATTUNE_INVALID_ARGUMENT,
               "page_size is %d: 1 ... %d is allowed", page_size, AT_PAGE_MAX);
    AT_FAIL_IF(page_table_width < 0 || page_table_width > AT_DIM_MAX || row_stride < page_table_width,
               ATTUNE_INVALID_ARGUMENT, "page_table_width is %lld, row_stride %lld: at least so much is needed",
               (long long)page_table_width, (long long)row_stride);
    for (int64_t b = 0; b < batch; ++b) {
        AT_FORWARD(check_sequence(indptr, last_page_len, b, page_size, page_table_width));
    }
    AT_FORWARD(check_pages(indices, indptr, batch));
    for (int64_t b = 0; b < batch; ++b) {
        const int64_t pages = (int64_t)indptr[b + 1] - indptr[b];
        int32_t *row = table + b * row_stride;
        memset(row, 0, (size_t)page_table_width * sizeof *row);
        memcpy(row, indices + indptr[b], (size_t)pages * sizeof *row);
        if (used_kv != NULL) {
            used_kv[b] = pages == 0 ? 0 : (int32_t)((pages - 1) * page_size + last_page_len[b]);
        }
    }
    return ATTUNE_OK;
}
