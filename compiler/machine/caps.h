/* caps.h - what the machines have: the rows of caps.def. A schedule, a pass or the verifier asks here and never for a target's
 * name. */
#ifndef AU_MACHINE_CAPS_H
#define AU_MACHINE_CAPS_H

#include "atoms.h"

/* How operands of matrix units come to registers, beside plain loads of each lane. */
typedef enum AuTileLoads {
    TILE_LOADS_MATRIX = 1,     /* from shared memory, by rows of 16 bytes: ldmatrix */
    TILE_LOADS_TURNED = 2,     /* from shared memory, rows and columns exchanged */
    TILE_LOADS_TURNED_FAR = 4, /* the same from global memory */
    TILE_LOADS_BLOCK = 8,      /* a block of a matrix in global memory, by its coordinates */
    TILE_LOADS_OWN = 16,    /* plain loads, of global memory too: no tile in shared memory pays */
    TILE_LOADS_TENSOR = 32, /* matrices that lie nobody knows how, from a tensor by its bounds */
} AuTileLoads;

/* Copies from global to shared memory that run beside their executor. */
typedef enum AuTileCopies {
    TILE_COPIES_LANES = 1,  /* each lane says from where and where to: cp.async */
    TILE_COPIES_BULK = 2,   /* a row of bytes; and sums of such rows, on the way back */
    TILE_COPIES_TENSOR = 4, /* a box of a tensor that a map describes */
    TILE_COPIES_DIRECT = 8, /* of each lane, next to those of the lanes before it */
} AuTileCopies;

/* Hints around products (`hints` of a shape), which a machine, or its compiler, may heed. By default no machine has one. */
typedef enum AuTileHints {
    TILE_HINTS_PRIORITY = 1, /* a warp in its products comes before others */
    TILE_HINTS_BORDER = 2,   /* products are begun before what is made of them */
} AuTileHints;

/* What lanes of a warp learn from each other without memory. */
typedef enum AuTileExchange {
    TILE_EXCHANGE_ANY = 1,  /* a value from any lane */
    TILE_EXCHANGE_VOTE = 2, /* whether any lane says so */
} AuTileExchange;

typedef struct AuTileCaps {
    const char *name, *source;
    int32_t lanes;                    /* of a warp; on a CPU, of a vector */
    uint32_t executors;               /* set of 1 << TILE_ON_... */
    const char *atoms;                /* names, in order of preference, between spaces */
    uint32_t loads, copies, exchange; /* sets of AuTileLoads, AuTileCopies, AuTileExchange */
    bool matrix_stores; /* fragments go to shared memory by rows of 16 bytes: stmatrix */
    int32_t
        turned; /* 16-bit elements that a lane names and gets by a turned load, which 64 / turned lanes make together */
    int32_t direct_bytes; /* that a lane brings by TILE_COPIES_DIRECT at most */
    int32_t direct_reach; /* bytes of shared memory in which such copies may begin */
    bool pipelines;       /* rings of stages between roles */
    bool has_private;     /* memory of one executor (a CPU's stack) */
    uint32_t
        converts; /* set of 1 << TILE_E4M3 ...: codes that instructions make numbers of, and back */
    uint32_t
        decodes; /* the same of codes that the generator makes numbers of better than kernel_legalize_codes */
    bool halves_lose_denormals; /* products take f16 below 2^-14 for 0 */
    bool max_with_nan; /* a maximum that is NaN where an operand is costs no more than another */
    bool
        overlaps; /* a grid may begin before the one launched before it has ended, and waits for it: griddepcontrol */
    int32_t sum_words;                           /* neighbouring f32 that one sum in memory takes */
    int32_t shared_bytes, tensor_bytes, threads; /* of a block */

    int32_t registers; /* of 32 bits that a lane has */
    int32_t
        private_words;   /* of 32 bits that fragments of a lane may declare: what exceeds registers
                              lies in memory, slower and as right */
    int32_t most_words;  /* the same where a schedule has no choice; 0: private_words */
    int32_t held;        /* 64ths of registers that fragments and weights may take together */
    int32_t half_held;   /* the same of half of the registers, where a scheduler's warps share
                           them out: what takes no more leaves room for a second warp; 0: no */
    int32_t direct_held; /* `held` where tiles come to shared memory by TILE_COPIES_DIRECT */
    int32_t far_held;    /* `held` where operands come straight from tensors */
    int32_t back_held;   /* the same of a backward's sums, operands that stay and three times its
                           pairs; 0: not known */
    /* `held` where nothing fits into that, and values move between two kinds of registers; 0: none */
    int32_t moved_held;
    bool passes_ahead; /* registers hold a tile that passes through them to shared memory under the
                           work on the one before */
    bool
        lags; /* where tiles pass through registers, running maxima may lie behind without a spill */
    bool tanh_near; /* tanh of a tile near 0 is a polynomial, without a spill (passes/tanh.c) */
    bool pairs; /* an instruction adds, or multiplies and adds, two f32 of neighbouring registers */
    int32_t
        pair_rows; /* keys or queries of a tile whose pairs a lane of multiply-adds has at once, since all that is made of them is
                          written out; 0: all of a tile */
    bool lone_rows; /* its compiler spills where a warp has a second set of rows of products */

    /* The row of the same machine whose matrices lie nobody knows how: its schedules (trait OPAQUE) are taken where no other has matrices, and in
     * backward from so many channels of keys and values together on. NULL: there is none. */
    const char *plain;
    int32_t plain_from;
    /* The row of the same machine whose warps are whole blocks, and whose shapes come before its own. NULL: there is none. */
    const char *block;
    /* The row whose rates cost models take: one of the family that was measured. NULL: its own. */
    const char *weighed_as;
    /* A processor: what the warps of a block share; its rates are per cycle. 0: not known. */
    int32_t schedulers, warps;   /* that are resident */
    int32_t processor_registers; /* of all lanes */
    int32_t processor_shared,
        reserved;  /* bytes of shared memory; what a block takes beside its own */
    double matrix; /* multiply-adds of 16-bit operands, by its best synchronous instruction */
    double
        group_matrix; /* multiply-adds of 16-bit operands by an instruction of a group of warps, which runs beside what these do next */
    double
        bulk_sums; /* bytes of f32 added to memory by bulk reductions, in the cache that all processors share */
    double fma;    /* of f32, an instruction a number */
    double exp;    /* powers of two */
    double shared; /* bytes of shared memory */
    double far;    /* bytes from the cache that all processors share */
    int32_t
        cached; /* bytes of that cache that what a section of heads comes back to may fill; 0: heads stand in no sections */
    double sums;              /* bytes of f32 added to memory */
    int32_t latency, barrier; /* cycles: of memory; of a block's barrier */
} AuTileCaps;

const AuTileCaps *tile_caps(const char *name); /* NULL if there is none */
const AuTileCaps *tile_caps_at(uint32_t n);    /* NULL after the last */
/* Registers: so many 64ths of those that a lane has. */
/* Numbers of 32 bits that fragments of a lane may declare at most. */
int32_t tile_most_words(const AuTileCaps *caps);
int32_t tile_share(const AuTileCaps *caps, int32_t part);
/* Words of an executor's memory by way of which its lanes reduce; 0: they shuffle. Rows of as many numbers as there are lanes, and one. */
int32_t tile_exchange_words(const AuTileCaps *caps);
/* Does a warp's unit take operands straight from tensors? */
bool tile_takes_tensors(const AuTileCaps *caps);
/* Does it see them as surfaces of rows and columns, by their bounds? */
bool tile_takes_surfaces(const AuTileCaps *caps);
/* The row whose rates cost models take for this one. */
const AuTileCaps *tile_rates(const AuTileCaps *caps);
bool tile_has_atom(const AuTileCaps *caps, const AuTileAtom *atom);
/* Does an instruction multiply more than one pair of numbers of this type and add up the products? Not those that round operands of f32. */
bool tile_has_products(const AuTileCaps *caps, AuTileElem operands);
/* The first atom of the target that multiplies operands of this type on this executor; NULL if none does. */
const AuTileAtom *tile_best_atom(const AuTileCaps *caps, AuTileElem operands, AuTileExecutor on);
/* Of those the one that has fewer rows than columns, for few queries; NULL: there is none. */
const AuTileAtom *tile_narrow_atom(const AuTileCaps *caps, AuTileElem operands, AuTileExecutor on);
/* Of these, where the first is a matrix unit, the first whose columns divide both widths; the first of all where none does. */
const AuTileAtom *tile_atom_of_widths(const AuTileCaps *caps, AuTileElem operands,
                                      AuTileExecutor on, int32_t d, int32_t e);
/* The same among those that round operands of f32 to tf32. */
const AuTileAtom *tile_rounding_atom(const AuTileCaps *caps, AuTileExecutor on);

#endif
