/* sample_call.h - bytes as calls of a module that is the sample's, or was once: planned and run on the mock device, on which no kernel runs. */
#ifndef AU_TEST_FUZZ_SAMPLE_CALL_H
#define AU_TEST_FUZZ_SAMPLE_CALL_H

#include "aule/aule.h"

#include "source.h"

/* Small numbers, numbers at the ends, and the words of expressions. */
uint64_t take_value(Source *s);
/* Of its first attention, forward and backward. */
void call_and_close(aule_module *module, Source *s);

#endif
