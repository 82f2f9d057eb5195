/* recent.h - the last launches of a device, for drivers tell late that a kernel has failed, and not which one. Names are copied, since an
 * artifact may be closed before its kernels are done; a launch allocates nothing. */
#ifndef AU_RUNTIME_RECENT_H
#define AU_RUNTIME_RECENT_H

#include <pthread.h>

#include "../base.h"

enum { RECENT_LAUNCHES = 64, RECENT_NAME = 112, RECENT_TOLD = 8 };

typedef struct AuRecent {
    pthread_mutex_t lock; /* of what follows */
    uint64_t count;       /* of launches so far; launch N, from 1 on, is at N % RECENT_LAUNCHES */
    uint64_t open;        /* a bit each: nobody has seen it done */
    const void *queue[RECENT_LAUNCHES];
    char name[RECENT_LAUNCHES][RECENT_NAME]; /* of a longer one the end */
} AuRecent;

void rt_recent_begin(AuRecent *r);
void rt_recent_end(AuRecent *r);

/* The launch's number. */
uint64_t rt_recent_add(AuRecent *r, const void *queue, const char *name);
uint64_t rt_recent_count(AuRecent *r);
/* Launches of a queue up to a number are done. */
void rt_recent_done(AuRecent *r, const void *queue, uint64_t upto);

/* Adds the kernel's name, if it is still known. */
void rt_recent_name(AuRecent *r, uint64_t number, AuText *text);
/* Adds "; launched last and not seen done: X, Y", each name once, in the order of last launches. Nothing where there are none. */
void rt_recent_tell(AuRecent *r, AuText *text);
void rt_recent_tell_of(AuRecent *r, const void *queue, AuText *text); /* of one queue */

#endif
