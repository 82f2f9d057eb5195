/* units.h - who computes: executors, by how fragments lie over their lanes, and what multiplies, by the atom of a product.
 * All that other files know of them is in the rows of units.c. */
#ifndef AU_LOWER_UNITS_H
#define AU_LOWER_UNITS_H

#include "tile.h"

typedef struct AuLower AuLower;

typedef struct AuUnit {
    const char *name;
    bool (*takes)(const AuTileModule *module, const AuTileRole *role);
    bool
        vectors; /* lanes are elements of vectors: contiguous memory has code of its own, which moves them whole */
    bool
        written_out; /* registers have constant numbers, in the order of matrix instructions; there are no loops over them */
    bool fuses;      /* a * b + c in expressions is one instruction */
    bool
        vector_access; /* memory moves in 16-byte vectors a lane, so rows and tensors are known or asked to be aligned to them,
                         and what a loop over tiles changes of an address is kept apart */
    bool looks_ahead;  /* numbers of tiles are found before anybody waits for them */
    bool meets_alone;  /* a barrier of the block is one of the lanes of its only executor */
    void (*load)(AuLower *l, const AuTileStmt *s);
    void (*store)(AuLower *l, const AuTileStmt *s); /* and sums in memory */
    void (*copy)(AuLower *l, const AuTileStmt *s);  /* memory to memory */
} AuUnit;
const AuUnit *lower_unit(const AuTileModule *module, const AuTileRole *role);

/* Statements that the units lower. */
void lower_load(AuLower *l, const AuTileStmt *s);
void lower_move(AuLower *l, const AuTileStmt *s);
void lower_prefetch(AuLower *l, const AuTileStmt *s);
void lower_product(AuLower *l, const AuTileStmt *s);

#endif
