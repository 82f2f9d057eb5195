/* fragment.h - which element of a matrix is element e of lane l, for the instructions that take operands from registers of lanes
 * (MATRIX of atoms.def). It follows from the digits of the atom.
 *
 * Registers of a lane are in the instruction's order: neighbours along the contracted axis (of C: along its columns) that the first
 * digit puts side by side, then what the lane has of the other axis, then the rest of the first one. All vendors number them so. */
#ifndef AU_MACHINE_FRAGMENT_H
#define AU_MACHINE_FRAGMENT_H

#include "atoms.h"

enum { MACHINE_FRAGMENT_BITS = 16, MACHINE_MOST_LANES = 64, MACHINE_LARGEST = 32 /* of m, n, k */ };

/* Each bit of the element's number, then each of the lane's, then of the executor's in its group, moves down by so many rows and right by so many columns; by none: lanes
 * hold copies. */
typedef struct AuFragment {
    uint8_t element_bits, lane_bits, executor_bits;
    uint8_t rows[MACHINE_FRAGMENT_BITS], columns[MACHINE_FRAGMENT_BITS];
} AuFragment;

/* [turned]: of the other form of A or B. False: the operand is not held by lanes, or the digits are no powers of two. */
bool machine_fragment(const AuTileAtom *atom, AuTileUse use, bool turned, AuFragment *out);
/* Of an instruction of a group of executors, for sums [columns] wide, a multiple of the atom's. What an axis has beyond the digits
 * are further elements, any number. */
bool machine_group_fragment(const AuTileAtom *atom, AuTileUse use, int32_t columns,
                            AuFragment *out);
/* [lane]: with the executor of a group above its bits. */
void machine_fragment_at(const AuFragment *f, uint32_t lane, uint32_t element, uint32_t *row,
                         uint32_t *column);

#endif
