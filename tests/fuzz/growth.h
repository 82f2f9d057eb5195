/* growth.h - scripts that grow: a place of the language filled with steps, each of which uses the value before it more than once. As
 * trees their expressions double with each step; as graphs they grow by a few nodes. */
#ifndef AU_TEST_FUZZ_GROWTH_H
#define AU_TEST_FUZZ_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct GrowthPlace {
    const char *name, *kinds, *file, *start, *items;
} GrowthPlace;
typedef struct GrowthStep {
    const char *name, *kinds, *text;
} GrowthStep;

extern const GrowthPlace growth_places[];
extern const size_t growth_place_count;
extern const GrowthStep growth_steps[];
extern const size_t growth_step_count;
bool growth_fits(const GrowthPlace *place, const GrowthStep *step);

/* Writes the script of [place] with as many of [steps] as there are, fewer if they would make it longer than [size] allows; a text
 * that ends with a NUL. Returns how many there are. */
size_t growth_script(const GrowthPlace *place, const GrowthStep *const *steps, size_t count,
                     char *text, size_t size);

#endif
