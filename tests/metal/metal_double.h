/* metal_double.h - a double of libobjc and of Metal: what tests ask of it. */
#ifndef AU_TESTS_METAL_DOUBLE_H
#define AU_TESTS_METAL_DOUBLE_H

#include <stdint.h>

/* What a test changes and counts. Messages that make something give nothing at the call [fail_at] (counted from 1; 0: none), commits
 * then end with an error, and buffers are not to be seen. */
typedef struct MetalDouble {
    int fail_at, calls;
    const char *failed; /* the selector of that call; NULL: there were fewer */
    int objects, pools; /* alive, with what holds the device; open */
    int keeps;          /* the last text that was compiled is not compiled again */
    int gpu_fails;      /* command buffers end with an error */
    int slow;           /* they are done when one of them is waited for */
    int two;            /* devices */
    int alike;          /* they are objects of the same GPU */
    int family; /* of Apple's GPUs; 0: as METAL_DOUBLE_FAMILY of the environment says, else 7 */
    int width;  /* of simdgroups; 0: 32 */
    int most_threads; /* of pipelines; 0: 1024 */
    int turned;       /* elements of matrices are in other places */
    int idle; /* messages do nothing, and answer that commands are done: what is left is the caller's own time */
    int built, found; /* pipelines that were compiled, for an archive too; that lay in an archive */
    const char *system; /* its version, as a text; NULL: one */
    int macos; /* the same as a number; 0: as METAL_DOUBLE_MACOS of the environment says, else 14 */
    char broken[256]; /* the first misuse; "": none */
} MetalDouble;
MetalDouble *metal_double(void);

/* The messages it takes, as Apple documents them: class, selector, types of the result and of arguments: @ object, * C string,
 * Q unsigned 64 bits, q signed, B bool, d double, ^ pointer, v nothing; S an MTLSize (three Q), R an NSRange (two Q), C an unsigned byte. */
typedef struct MetalDoubleMessage {
    const char *of, *selector, *types;
} MetalDoubleMessage;
const MetalDoubleMessage *metal_double_messages(unsigned *count);

void *metal_double_devices(void);

#endif
