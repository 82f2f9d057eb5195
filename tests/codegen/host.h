/* host.h - kernels on the host target against the interpreter: cases are collected, compiled into
 * one library for an architecture, run by runner.c, and every buffer compared with what kernel_run
 * leaves. */
#ifndef AU_TEST_HOST_H
#define AU_TEST_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_run.h"
#include "target.h"

enum { CASE_ARGS = 64 };

typedef struct Case {
    AuKernel *k; /* under construction */
    const char *label;
    uint32_t grid[3];
    uint64_t slots[CASE_ARGS];
    AuKBuffer buffers[CASE_ARGS]; /* what the interpreter works on */
    uint64_t bytes[CASE_ARGS];
    const AuKMap *maps; /* of the kernel's maps */
    float slack;        /* f32 outputs: relative error allowed, 0: equal bits (any NaN is a NaN) */
    float ulps;         /* the same in units of the last place */
} Case;

typedef struct Host {
    AuArena *arena;
    AuDiags *diags;
    const AuTarget *target;
    const AuArch *arch;
    bool gpu;          /* lanes are threads: what they see of each other needs barriers */
    uint32_t optimize; /* level of emission: 2 */
    uint32_t lanes;    /* for the cases: what fills a vector of the architecture */
    Case **cases;
    uint32_t count, capacity;
    uint64_t random;
} Host;

/* NULL: this machine cannot execute code for it (the test skips). For a GPU (sm_80) host_run only
 * assembles, where ptxas is found, and with AULE_DEVICE_OUT writes the cases into that folder for
 * cuda_runner.c. */
Host *host_new(const char *arch);
void host_free(Host *host);
void host_run(Host *host); /* compiles, executes, compares; fails the test with the case's label */
const AuArch *host_arch(const char *name); /* of target cpu */
void host_interpret(Case *c, bool lockstep);
/* device.c */
bool device_has_use(void); /* someone assembles, or takes the cases */
void device_run(Host *host);
/* What ptxas says of the code, and its status; where there is none (PTXAS is empty) it must not be called. */
int device_assemble(AuArena *arena, const AuArch *arch, const AuBlob *code, AuText *said);
void host_check(Host *host, bool good); /* fails with the diagnostics */

Case *host_case(Host *host, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A buffer argument with random content of the type, edge values first: [written] only for outputs,
 * filled with a pattern. */
AuMem case_tensor(Host *host, Case *c, const char *name, AuScalar scalar, uint64_t count, bool read,
                  bool written);
/* Instead of the kernel under construction; it gets the case's name. */
void case_kernel(Case *c, AuKernel *k);
AuVal case_i32(Case *c, const char *name, int32_t value);
void *case_data(Case *c, AuMem mem); /* to set other content */
uint32_t host_random(Host *host, uint32_t below);
/* Gives every lane of every block its own place: block * lanes + lane. */
AuVal case_place(Case *c);

#endif
