/* A search for code, from its ledger, as a page for people. */
#ifndef REPORT_CODE_H
#define REPORT_CODE_H

#include "evolve/ledger.h"

/* A page in one file: what came out, the engine beside its controls, cost for each accepted percent, the tree of
 * sources, gain by idea, and what was refused, with reasons. For the caller to free. */
attune_status at_report_code_page(const at_ledger_log *log, char **page, size_t *bytes);
/* Whether a ledger is of a search for code. */
bool at_report_is_code(const at_ledger_log *log);

#endif
