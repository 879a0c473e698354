/* The tile micro-benchmark: candidates launched a few times on a small slice of the problem; the eight best are kept in
 * a file and are among the seeds of searches. A slice tells which tiles suit the machine, in a second or two, and not
 * which config is best.
 *
 * The file is text, an entry a line, the newest first:
 *
 *     attune-micro 1
 *     KERNEL CLASS TARGET SOURCE NAME:PARAM=VALUE,... NAME:PARAM=VALUE,...
 *
 * CLASS and TARGET are keys as wisdom has them; SOURCE is the digest of the kernel's source: what another one did is
 * not used. Lines that are none are passed over. */
#ifndef EVOLVE_MICRO_H
#define EVOLVE_MICRO_H

#include "core/problem.h"
#include "evolve/measurer.h"

enum { AT_MICRO_BEST = 8 };

typedef struct at_micro_best {
    int count;
    char config[AT_MICRO_BEST][AT_KERNEL_TEXT_MAX]; /* the fastest first */
} at_micro_best;

/* What an entry is of; no blanks in any of them. */
typedef struct at_micro_key {
    char kernel[AT_SPACE_NAME_MAX];
    char class_text[AT_CLASS_TEXT_MAX];
    char target[AT_TARGET_TEXT_MAX];
    char source[AT_DIGEST_TEXT_MAX];
} at_micro_key;

/* The first entry of the key in a text; none: count 0. */
void at_micro_find(const char *text, const at_micro_key *key, at_micro_best *best);
/* Reads the file's entry; count 0 where there is none, or no file. ATTUNE_CORRUPT for what is no such file. */
attune_status at_micro_read(const char *path, const at_micro_key *key, at_micro_best *best);
/* Whether at_micro_write could write there; asked before the benchmark. The folder is made. */
attune_status at_micro_check(const char *path);
/* Puts an entry in front of the file's others, in place of those of the same key; makes the file where there is none.
 */
attune_status at_micro_write(const char *path, const at_micro_key *key, const at_micro_best *best);

/* The problem cut down until a call takes about a millisecond on a slow kernel: batch first, then heads, then lengths.
 */
attune_problem at_micro_slice(const attune_problem *problem, attune_target_kind kind);

/* Launches candidates of the machine's space, each so often that its best time counts for something; those that are
 * refused are none of the best. Where candidates are compiled it looks at `most` of them: the kernel's own order, then
 * from all over the space. */
attune_status at_micro_run(const at_space *space, const at_machine *machine, int most, at_micro_best *best);

#endif
