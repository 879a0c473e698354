/* The fields of evidence. docs/evidence.md lists the same for readers. */
#ifndef EVIDENCE_EVIDENCE_TABLES_H
#define EVIDENCE_EVIDENCE_TABLES_H

#include "evidence/fields.h"

extern const char *const at_names_of_parts[], *const at_names_of_modes[];

/* A process's warm-up, as its row. */
typedef struct at_warmup {
    double seconds;
    bool settled;
} at_warmup;

/* Of: */
extern const at_field at_fields_of_verdict[];   /* at_verdict: who, where, how, build, right, fast, findings */
extern const at_field at_fields_of_checks[];    /* at_verdict: controls, stages, suite, absent peers */
extern const at_field at_fields_of_counters[];  /* at_counters, which are there where they were asked for */
extern const at_field at_fields_of_sanitizer[]; /* at_verdict: what tools said, where they were asked */
extern const at_field at_fields_of_speed[];     /* at_speed, but for its modes */
extern const at_field at_fields_of_modes[];     /* at_speed: its modes */
extern const at_field at_fields_of_arms[];      /* at_verdict: the session's policy, and its arms but for their parts */
extern const at_field at_fields_of_session[];   /* at_session: single numbers */
extern const at_field at_fields_of_warmup[];    /* at_warmup, a row */
extern const at_field at_fields_of_clocks[];    /* at_two_clocks, a row */
extern const at_field at_fields_of_stretch[];   /* at_block: what blocks that follow each other share */
extern const at_field at_fields_of_block[];     /* at_block: columns of whole numbers */

#endif
