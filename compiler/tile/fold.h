/* fold.h - inside tile_expand: arithmetic on literals. */
#ifndef AU_TILE_FOLD_H
#define AU_TILE_FOLD_H

#include "tile.h"

bool is_literal(const AuTileExpr *e);
/* Makes `e` a literal if all its arguments are literals and its operation is one of numbers. */
void fold(AuTileExpr *e);

#endif
