/* What fork() leaves behind: a child has the memory of all threads and only the one that forked. Whoever owns threads,
 * or locks that other threads may hold just then, says here how to put them in order. */
#ifndef BASE_FORK_H
#define BASE_FORK_H

/* Belongs to who adds it, zeroed but for `self` and the functions, any of which may be NULL. */
typedef struct at_fork_watch {
    void (*before)(void *self); /* in the parent, about to fork: take locks, which are held for short times only */
    void (*parent)(void *self); /* afterwards: give them back */
    void (*child)(void *self);  /* the same in the child; nothing there was locked or running by other threads */
    void *self;
    struct at_fork_watch *next, *previous;
} at_fork_watch;

void at_fork_add(at_fork_watch *watch);
void at_fork_remove(at_fork_watch *watch);
/* How many forks lie between this process and the one that first asked: what was noted earlier and is another number
 * now is a parent's. */
unsigned at_fork_count(void);

#endif
