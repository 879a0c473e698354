/* A search's ledger for people and for tools. */
#ifndef REPORT_SEARCH_H
#define REPORT_SEARCH_H

#include "evolve/ledger.h"
#include "report/table.h"

/* Rows of candidates that were looked at, the fastest first: config, us, of_best (the fastest's time / its time),
 * pairs, refused (the stage, or "ran"). */
attune_status at_report_search(const at_ledger_log *log, at_format format, FILE *out);

/* A page in one file: the question, what came out, best so far against measurements (of every strategy, replayed, where
 * the ledger knows the whole space; else of this search), which parameters matter, the eight fastest, refusals by
 * reason, and what the search found when it looked at itself. For the caller to free. */
attune_status at_report_search_page(const at_ledger_log *log, char **page, size_t *bytes);

#endif
