/* metal_objects.h - what the parts of the double of Metal share: metal_objects.c has objects, counts and pools, metal_made.c what a device
 * makes, metal_double.c the messages. */
#ifndef AU_TESTS_METAL_OBJECTS_H
#define AU_TESTS_METAL_OBJECTS_H

#include "metal_compile.h"
#include "metal_double.h"

#include <pthread.h>

typedef struct Object Object;
struct Object {
    const char *is; /* class */
    Object *older;  /* of those that are alive */
    int count;
    char *
        text; /* NSString, NSError, MTLFunction: its name, NSURL: its path, MTLBinaryArchive: what it holds */
    void *memory; /* MTLBuffer */
    uint64_t length;
    MetalText *compiled; /* MTLLibrary */
    uint64_t sum;        /* MTLLibrary: of its source */
    Object *owner;       /* retained: what it was made of */
    Object *pipeline;    /* encoder; of a descriptor: its list of archives */
    unsigned char slots[4096];
    uint64_t slot_bytes, shared_bytes;
    ShimBuffer used[256];
    unsigned used_count;
    int state,
        fast; /* command buffer: 0 open, 2 committed, 4 done, 5 failed; options: of math, 1 by default */
    int fails;              /* command buffer */
    int encoding, borrowed; /* buffer: its memory is not freed */
    uint64_t language;
    double start, end;
};

extern pthread_mutex_t metal_lock; /* taken by every message */
extern MetalDouble metal_told;
extern Object metal_device, metal_second; /* the second one where a test has two (MetalDouble) */

/* Remembers and prints the first misuse. */
void metal_broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Objects begin with a count of one; the last metal_drop frees. */
Object *metal_make(const char *is);
Object *metal_keep(Object *o);
void metal_drop(Object *o);
Object *metal_autorelease(Object *o); /* given to the innermost pool */
Object *metal_string(const char *text);

/* Is this call, one of those that can, told to fail? */
int metal_fails(const char *selector);
/* 0, and broken: it is of another class. */
int metal_must_be(const Object *o, const char *is, const char *selector);
void metal_set_error(uint64_t place, const char *text);
/* All that was committed. */
void metal_finish(void);

/* Texts that stay compiled where a test asks for the same again and again (keeps). */
int metal_is_kept(const MetalText *text);

int metal_macos(void);  /* the version of the system */
int metal_family(void); /* of Apple's GPUs */

/* What a device makes of arguments; what it cannot make is nil. */
Object *metal_made(const char *selector, const uint64_t *n);
/* Messages of archives, their descriptors and pipelines' descriptors. */
uint64_t metal_of_archives(Object *o, const char *selector, const uint64_t *n);

#endif
