/* Evidence for people and for tools: who was right, and how fast beside whom. */
#ifndef REPORT_VERDICTS_H
#define REPORT_VERDICTS_H

#include "evidence/verify.h"
#include "report/table.h"

/* Which verdicts to show: */
enum {
    AT_REPORT_ALL = 1 << 0,    /* those that a newer one superseded too */
    AT_REPORT_EARNEST = 1 << 1 /* none that asked for less than a verdict should */
};

/* Rows of TSV and JSON, one a peer and mode: device problem kernel config peer mode ratio lo hi candidate_us peer_us
 * tflops right faster state. `ratio` is the peer's median / the candidate's; lo and hi the 95 % interval of the
 * session's statistics; tflops the candidate's, masked work left out where the problem alone says what is masked. A
 * verdict whose kernel never came to be timed is one row without a peer. As text: a table for each device and problem,
 * and below it what was found wrong, and the session's controls. */
attune_status at_report_verdicts(const at_archive *archive, unsigned which, at_format format, FILE *out);

/* Whether `which` shows a record; never one without a verdict. */
bool at_report_shows(const at_record *record, unsigned which);
/* The text's sections, one a device and problem: whether a record is the first of one, whether another belongs to the
 * section that `first` opens, its table (to be destroyed, also after an error), and the notes on a record. */
bool at_report_opens(const at_archive *archive, size_t index, unsigned which);
bool at_report_same_section(const at_archive *archive, size_t first, size_t index, unsigned which);
attune_status at_report_section(const at_archive *archive, size_t first, unsigned which, at_table **table);
void at_report_notes(const at_record *record, FILE *out);

/* The table of those rows, and the rows of one verdict. */
attune_status at_report_rows(at_table **table);
void at_report_add(at_table *table, const at_verdict *verdict, const char *state);

/* Each verdict's state, device, kernel, problem, when, file, and why it is not fresh. */
attune_status at_report_freshness(const at_archive *archive, at_format format, FILE *out);

#endif
