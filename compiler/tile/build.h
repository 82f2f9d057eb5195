/* build.h - how a schedule builds a kernel: one call a statement, in the order of the text form.
 *
 * Names are the handles: a schedule and its dump use the same words. Expressions, views and types are given in the text form with
 * printf's directives, since `mb * %d + self * 64 + iota(q:64)` is read more easily than a tree of calls. What is built is written
 * down and read at the end (tile_built), so it is by construction what the reader makes of the dump, errors point into the dump,
 * and there is one way only to make nodes.
 *
 *     AuTileBuild *t = tile_build(arena, diags, caps, "hopper_forward");
 *     tile_const(t, "N", shape->tile_n);
 *     tile_kernel(t, "forward");
 *         tile_arg(t, "q", TILE_IN, "%s[b:B, h:H, q:S, d:D]", dtype);
 *         tile_grid(t, "mb: cdiv(S, M), h: H, b: B");
 *         tile_role(t, "mma", shape->consumers, TILE_ON_WARPGROUP, 240);
 *             tile_frag(t, "score", "f32[q:64, kv:N] @ %s.C", mma->name);
 *             tile_for_tiles(t, "n", "keys", NULL);
 *                 tile_product(t, "score", mma, TILE_START, "x.Q[self * 64 +: 64, :]", "y.K");
 *                 ...
 *             tile_end(t);
 *         tile_end(t);
 *     tile_end(t);
 *     AuTileModule *module = tile_built(t); */
#ifndef AU_TILE_BUILD_H
#define AU_TILE_BUILD_H

#include "tile.h"

#define TILE_FORMAT(n) __attribute__((format(printf, n, n + 1)))

typedef struct AuTileBuild AuTileBuild;

/* `name`: what diagnostics call the dump. caps NULL: a file of hooks alone. */
AuTileBuild *tile_build(AuArena *arena, AuDiags *diags, const AuTileCaps *caps, const char *name);
/* The module, as read from the dump; NULL after an error. Every block must be closed. */
AuTileModule *tile_built(AuTileBuild *t);

/* A text with the arguments in it, for parts of statements; lives in the builder's arena. */
const char *tile_text(AuTileBuild *t, const char *format, ...) TILE_FORMAT(2);
const char *tile_number(AuTileBuild *t,
                        double value); /* as a float literal that reads back exactly */

/* ---- the file */
void tile_set_option(AuTileBuild *t, const char *name, int32_t value);
void tile_const(AuTileBuild *t, const char *name, int64_t value);
void tile_layout(AuTileBuild *t, const char *name, const char *rows,
                 const char *cols); /* cols may be NULL */
/* A hook: assignments (tile_set), then tile_return, then tile_end. */
void tile_fn(AuTileBuild *t, const char *name, const char *params);
void tile_return(AuTileBuild *t, const char *format, ...) TILE_FORMAT(2);

/* ---- a kernel, until tile_end: arguments, grid, then declarations, then roles */
void tile_kernel(AuTileBuild *t, const char *name);
void tile_arg(AuTileBuild *t, const char *name, AuTileMode mode, const char *type, ...)
    TILE_FORMAT(4);
void tile_grid(AuTileBuild *t, const char *axes, ...) TILE_FORMAT(2);
void tile_let(AuTileBuild *t, const char *names, const char *value, ...) TILE_FORMAT(3);
void tile_list(AuTileBuild *t, const char *name); /* its segments follow */
void tile_segment(AuTileBuild *t, const char *name, AuTileHow how, const char *a, const char *b);
void tile_shared(AuTileBuild *t, const char *name, const char *type, ...)
    TILE_FORMAT(3); /* "... swizzle 128", "... tensor" */
/* `producer` and `consumer` may begin with "each "; the tiles as in the text form: "K: bf16[kv:N, d:D] swizzle 128". */
void tile_pipeline(AuTileBuild *t, const char *name, int32_t stages, const char *producer,
                   const char *consumer, const char *tiles, ...) TILE_FORMAT(6);
void tile_barrier(AuTileBuild *t, const char *name, int32_t many,
                  int32_t count); /* many 0: no index */
/* many 0: one, without an index; registers 0: not said. Until tile_end. */
void tile_role(AuTileBuild *t, const char *name, int32_t many, AuTileExecutor on,
               int32_t registers);

/* ---- statements */
void tile_frag(AuTileBuild *t, const char *name, const char *type_and_layout, ...) TILE_FORMAT(3);
void tile_private(AuTileBuild *t, const char *name, const char *type, ...) TILE_FORMAT(3);
void tile_set(AuTileBuild *t, const char *names, const char *value, ...)
    TILE_FORMAT(3); /* hook calls too */
void tile_convert(AuTileBuild *t, const char *name, const char *source, const char *layout);
/* View, layout and options: "k[b, h, :, :] like y pad 0 when p" */
void tile_load(AuTileBuild *t, const char *name, const char *view, ...) TILE_FORMAT(3);
/* From, to, options: "bf16(out) -> o[b, h, mb * M +: M, :] clip" */
void tile_store(AuTileBuild *t, const char *format, ...) TILE_FORMAT(2);
void tile_atomic_add(AuTileBuild *t, const char *format, ...) TILE_FORMAT(2);
void tile_copy(AuTileBuild *t, const char *format, ...) TILE_FORMAT(2);
/* token NULL: into a stage */
void tile_async_copy(AuTileBuild *t, const char *token, const char *format, ...) TILE_FORMAT(3);
void tile_async_reduce_add(AuTileBuild *t, const char *token, const char *format, ...)
    TILE_FORMAT(3);

typedef enum AuTileProduct { TILE_START, TILE_ADD } AuTileProduct;
/* acc = a b, or acc += a b; async if the atom always is. */
void tile_product(AuTileBuild *t, const char *acc, const AuTileAtom *atom, AuTileProduct how,
                  const char *a, const char *b);
/* Into tensor memory; `dest` may end with "when p". */
void tile_product_into(AuTileBuild *t, const char *token, const AuTileAtom *atom, AuTileProduct how,
                       const char *a, const char *b, const char *dest);
void tile_wait(AuTileBuild *t, const char *names);
void tile_acquire(AuTileBuild *t, const char *stage, const char *pipeline); /* "scores[half]" */
void tile_wait_stage(AuTileBuild *t, const char *stage, const char *pipeline);
void tile_commit(AuTileBuild *t, const char *names);  /* "s after t" */
void tile_release(AuTileBuild *t, const char *names); /* "y, z after t" */
void tile_sync(AuTileBuild *t, const char *barrier, ...) TILE_FORMAT(2);
void tile_arrive(AuTileBuild *t, const char *barrier, ...) TILE_FORMAT(2);

/* ---- blocks, until tile_end */
void tile_for_tiles(AuTileBuild *t, const char *var, const char *list,
                    const char *from); /* from may be NULL */
void tile_for_range(AuTileBuild *t, const char *var, const char *low, const char *high);
void tile_if(AuTileBuild *t, const char *test, ...) TILE_FORMAT(2);
void tile_else(AuTileBuild *t);
void tile_on_segment(AuTileBuild *t, const char *segment);
void tile_end(AuTileBuild *t);

#endif
