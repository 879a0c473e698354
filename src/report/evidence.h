/* Evidence as a page. */
#ifndef REPORT_EVIDENCE_H
#define REPORT_EVIDENCE_H

#include "report/verdicts.h"

/* A page in one file, of the verdicts that `which` shows: their state; speed against the length of a sequence, a
 * picture for each device and question; arithmetic intensity against speed, under those ceilings that the evidence
 * records; how the times of each verdict's arms are spread; and the tables and notes of the text form. For the caller
 * to free. */
attune_status at_report_evidence_page(const at_archive *archive, unsigned which, char **page, size_t *bytes);

#endif
