/* picture.h - a matrix of attention weights as a picture in the terminal.
 * On a terminal with colours, two rows of pixels a line as half blocks in shades of grey; elsewhere, shades of ink. A matrix that is
 * wider than the terminal is reduced by the largest weight of each cell, so that thin lines stay visible. */
#ifndef AU_DEMO_PICTURE_H
#define AU_DEMO_PICTURE_H

#include <stdint.h>

/* [weights]: [size, size] rows of weights that sum to 1, or to 0. [columns]: 0 asks the terminal. */
void picture_draw(const double *weights, int64_t size, int64_t columns);

#endif
