/* elf_image.h - an artifact's file as data in memory, without a loader: for systems whose own takes no ELF (macOS), and for files that were made
 * for another machine. Nothing of it is executable. Code for processors could not be run so even where the instructions are the machine's: it
 * is compiled for Linux, where AArch64's register x18 is the program's, and macOS clears it at any time. */
#ifndef AU_RUNTIME_ELF_IMAGE_H
#define AU_RUNTIME_ELF_IMAGE_H

#include "segments.h"
#include "sofile.h"

typedef struct AuElfImage {
    unsigned char *memory; /* pages; NULL: none */
    size_t bytes;
    const void *symbol; /* where the symbol that was asked for is */
    AuSegments segments;
} AuElfImage;

/* Of a file that rt_check_library has looked at; it may have changed since: nothing is written or pointed to outside of the image. */
aule_status rt_read_image(const AuElfFile *file, const AuElfLibrary *library, AuElfImage *image,
                          AuSink sink);
/* Nobody writes to it any more. */
bool rt_seal_image(const AuElfImage *image);
void rt_free_image(AuElfImage *image);

#endif
