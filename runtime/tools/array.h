/* array.h - arrays in files: reads .npy and .safetensors, writes .npy.
 * Files are foreign: every length is checked before it is used, and what is wrong is said in one line with the numbers.
 * .npy: versions 1 to 3, little-endian f8 f4 f2 i4 i8 and u1 i1 b1, C or Fortran order (a matter of strides). bf16, which NumPy has no
 * type for, is read from 2-byte void ('V2', as ml_dtypes writes it) or u2, and written as '|V2'.
 * .safetensors: F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I32 I64 U8 I8 BOOL; one tensor is read, named after a colon: file.safetensors:name. */
#ifndef AU_TOOLS_ARRAY_H
#define AU_TOOLS_ARRAY_H

#include <stdbool.h>
#include <stdio.h>

#include "aule/aule.h"

enum { ARRAY_RANK = 8 };

/* f64, which files have and no signature: array_convert rounds it to what a signature has. */
enum { ARRAY_F64 = AULE_I8 + 1 };

typedef struct AuArray {
    uint32_t dtype; /* aule_dtype, or ARRAY_F64 */
    int32_t rank;
    int64_t shape[ARRAY_RANK], strides[ARRAY_RANK]; /* in elements */
    void *data;                                     /* malloc's */
    size_t bytes;
} AuArray;

/* One line that says what is wrong. */
typedef struct AuWhy {
    char text[512];
} AuWhy;
bool array_wrong(AuWhy *why, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* false */

uint32_t array_dtype_bytes(uint32_t dtype);
const char *array_dtype_name(uint32_t dtype);
uint32_t array_dtype_named(const char *name); /* AULE_OPERAND: none */
DLDataType array_dl_type(uint32_t dtype);

/* Compact, last axis fastest, zeroed. */
bool array_new(AuArray *array, uint32_t dtype, int32_t rank, const int64_t *shape, AuWhy *why);
void array_free(AuArray *array);

/* [spec]: a path, or path:tensor for .safetensors; [name] is the tensor's name there where the spec has none. */
bool array_read(AuArray *array, const char *spec, const char *name, AuWhy *why);

/* As file_write. The array must be compact. */
bool array_write(const AuArray *array, const char *path, AuWhy *why);

/* f32, f16, bf16 into each other, f64 into each of them, in place of the old data: rounded once, to nearest. */
bool array_convert(AuArray *array, uint32_t dtype, AuWhy *why);
float array_from_half(uint16_t half);
uint16_t array_to_half(float value); /* to nearest, ties to even */
uint16_t array_to_bfloat(float value);

/* A whole file in memory. */
typedef struct AuFile {
    unsigned char *bytes;
    size_t length;
} AuFile;
bool file_read(AuFile *file, const char *path, AuWhy *why); /* files alone: no pipe, no device */
void file_free(AuFile *file);

/* Replaces the file at [path] as a whole or not at all: a new file beside it, which nobody else can have made, is renamed. What is there
 * and is no file stays. [put] returns false, and leaves errno, where it cannot. */
bool file_write(const char *path, bool (*put)(FILE *stream, const void *what), const void *what,
                AuWhy *why);

bool npy_parse(AuArray *array, const AuFile *file, const char *path, AuWhy *why);
bool safetensors_parse(AuArray *array, const AuFile *file, const char *path, const char *name,
                       AuWhy *why);

/* Fills in strides and bytes of a compact array and takes a copy of its data, of which [available] bytes are there. */
bool array_take(AuArray *array, bool fortran, const void *data, size_t available, const char *path,
                AuWhy *why);

#endif
