/* How many problems of a call begin together, where the call is to end in time. */
#ifndef GATE_BATCH_H
#define GATE_BATCH_H

#include <stdbool.h>

/*
 * What verdicts took in this call, or their timing alone. Verdicts come when all that are timed together have been, for
 * they share the processes of their sessions: what is begun and cut is lost. Begins as zeros.
 */
typedef struct at_batch_pace {
    int problems;   /* of the slowest batch so far; 0: none has ended */
    double seconds; /* that it took */
} at_batch_pace;

/* A batch of so many problems took so long. */
void at_batch_note(at_batch_pace *pace, int problems, double seconds);

/*
 * How many problems, at most `most` (1 or more), would have their verdicts within left_s seconds: 0 where none would.
 * A batch is taken to cost the start of its processes and then the same for each problem, the slowest seen and a tenth
 * more. Before one has ended the guess is a generous one, and no less than one problem is begun.
 */
int at_batch_size(const at_batch_pace *pace, int most, double left_s);

/*
 * Whether another problem of a batch can be judged, and all be timed, within left_s seconds, where judging so many (1
 * or more) took judging_s, and timing what `timing` says: what judging takes is known only then, and it is lost where
 * no time is left to time it.
 */
bool at_batch_goes_on(const at_batch_pace *timing, int judged, int candidates, double judging_s, double left_s);

/*
 * How many of the problems that have been judged are timed next, so that their verdicts come within left_s seconds.
 * `timing`: what timing alone has taken so far. Before any has been timed the guess is a generous one, and no less than
 * one problem is timed: the verdicts of these are kept before others are begun, by the pace that is known then. After
 * that 0 where none would end in time.
 */
int at_batch_timed(const at_batch_pace *timing, int judged, int candidates, double left_s);

#endif
