/* What the hardware's counters say of a candidate: read from ncu's table of one execution. For diagnosis only, never
 * part of a finding: a profiler runs each launch several times, with caches flushed and clocks disturbed.
 *
 *   duration_us                              of all launches of the execution together
 *   launches
 *   tensor_pipe_percent                      of the cycles in which a multiprocessor was at work
 *   sm_throughput_percent, dram_percent      of what the device can sustain
 *   issue_percent                            cycles in which a scheduler issued an instruction
 *   active_warps_percent                     of the warps that a multiprocessor can hold
 *   dram_read_bytes, dram_write_bytes, dram_read_sectors, dram_write_sectors
 *   l2_hit_percent
 *
 * Percentages of several launches are weighted by their durations. What a device or an ncu does not count is left out.
 */
#ifndef JUDGE_COUNTERS_H
#define JUDGE_COUNTERS_H

#include "base/text.h"
#include "judge/verdict.h"

/* Where ncu is: $ATTUNE_NCU, else in PATH, else in /usr/local/cuda/bin. ATTUNE_NOT_FOUND says where it was looked for.
 * For the caller to free. */
attune_status at_counters_find(char **ncu);
/* The metrics that this ncu knows on the device that is here, comma-separated, for the caller to free. Takes seconds.
 */
attune_status at_counters_metrics(const char *ncu, char **metrics);
/* The same from what `ncu --query-metrics` printed; ATTUNE_UNSUPPORTED where none is among them. */
attune_status at_counters_choose(const char *query, char **metrics);

/* Reads what `ncu --csv --page raw --print-units base` printed, remarks before the table included. `what` names the
 * text in errors: ATTUNE_CORRUPT where there is no table in it, or no launch. */
attune_status at_counters_parse(const char *what, const char *text, size_t bytes, at_counters *counters);
/* One sentence on what the candidate spends its time with. */
void at_counters_diagnose(at_counters *counters);
/* A counter by its name; NAN where it is not there. */
double at_counters_value(const at_counters *counters, const char *name);

#endif
