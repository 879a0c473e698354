/* What a page of evidence begins with: every kernel beside its best peer in one table that can be sorted, and small
 * pictures of speed against length. */
#ifndef REPORT_SUMMARY_H
#define REPORT_SUMMARY_H

#include "report/points.h"

/* One row a verdict that `which` shows (report/verdicts.h): the kernel's time, and beside it the fastest of its peers
 * with the interval of the ratio as a bar. */
void at_summary_table(at_text *page, const at_archive *archive, unsigned which);
/* A small picture for each device, head dim and mask: TFLOP/s by length, a colour a name as everywhere on the page. */
attune_status at_summary_pictures(at_text *page, const at_points *points);
/* What makes tables of the class "sort" sortable, and the field above them find: a script, at the page's end. */
void at_summary_script(at_text *page);

#endif
