/* driver.h - the main of a fuzzer without a fuzzing engine: mutates a corpus with a seeded generator for a number of rounds.
 * A fuzzer is a file with LLVMFuzzerTestOneInput; with -fsanitize=fuzzer an engine calls it instead of this driver. */
#ifndef AU_TEST_FUZZ_DRIVER_H
#define AU_TEST_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
