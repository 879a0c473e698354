/* The fields of evidence. docs/evidence.md lists the same for readers. */
#ifndef EVIDENCE_EVIDENCE_TABLES_H
#define EVIDENCE_EVIDENCE_TABLES_H

#include "evidence/fields.h"

extern const char *const at_names_of_outcomes[],
    *const at_names_of_parts[], *const at_names_of_modes[], *const at_names_of_stages[], *const at_names_of_controls[];

/* Of: */
extern const at_field at_fields_of_verdict[];  /* at_verdict: who, where, how, build, counters' words, right and fast */
extern const at_field at_fields_of_run[];      /* at_stage_run */
extern const at_field at_fields_of_suite[];    /* at_suite_result, but for its lists */
extern const at_field at_fields_of_failure[];  /* at_failure */
extern const at_field at_fields_of_refusal[];  /* at_refusal */
extern const at_field at_fields_of_policy[];   /* at_session_policy */
extern const at_field at_fields_of_arm[];      /* at_arm_facts */
extern const at_field at_fields_of_counters[]; /* at_counters, but for its numbers */
extern const at_field at_fields_of_finding[];  /* at_stage_finding */
extern const at_field at_fields_of_control[];  /* at_control */
extern const at_field at_fields_of_speed[];    /* at_speed, but for its modes */
extern const at_field at_fields_of_ratio[];    /* at_ratio, but for what each process gave */

#endif
