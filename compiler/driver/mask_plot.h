/* mask_plot.h - the tiles of a mask, for people: drawn with letters or as SVG. */
#ifndef AU_DRIVER_MASK_PLOT_H
#define AU_DRIVER_MASK_PLOT_H

#include "trial.h"

typedef enum AuTileKind { AU_TILE_EMPTY, AU_TILE_PARTIAL, AU_TILE_FULL } AuTileKind;

typedef struct AuMaskPlot {
    const char *name;       /* of the attention */
    uint32_t rows, columns; /* tiles */
    int64_t tile;           /* pairs along each side of a tile */
    int64_t S, T;
    bool one_of_many; /* other heads or batches may have another mask */
    uint8_t *kinds;   /* AuTileKind [rows, columns] */
    uint64_t of[3];   /* tiles of each kind */
    double pairs;     /* share of the pairs that take part */
} AuMaskPlot;

/* The mask of batch 0, head 0, in at most [most] tiles a side; tiles are squares of a power of two.
 * False: *why. */
bool mask_plot_make(AuArena *arena, const AuTrial *trial, const AuDiags *diags, uint32_t most,
                    AuMaskPlot *out, const char **why);

/* Tiles that fit a side of a drawing in lines of [columns] characters. */
uint32_t mask_plot_most(uint32_t columns);
/* Two letters a tile, which make it about a square, numbers of queries and keys at the edges, the shares. */
void mask_plot_text(const AuMaskPlot *plot, AuText *out);
/* An SVG document of the same. */
void mask_plot_svg(const AuMaskPlot *plot, AuText *out);

#endif
