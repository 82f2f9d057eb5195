/* build.h - how a schedule builds a kernel: one call a statement, in the order of the text form.
 *
 * Expressions, views and types are given in the text form, as templates (template.h), since `mb * %d + self * 64 + iota(q:64)` is read
 * more easily than a tree of calls. Declarations give handles, which go into other templates as %v; where a name stands in one
 * function alone, the template may have it as it is. Each call is read where it stands, by the reader of files, so a program is by
 * construction what the reader makes of its dump, and what is wrong is said with the schedule's own line.
 *
 *     AuTileBuild *t = tile_build(arena, diags, caps, "hopper_forward");
 *     tile_const(t, "N", shape->tile_n);
 *     tile_kernel(t, "forward");
 *         tile_arg(t, "q", TILE_IN, "%s[b:B, h:H, q:S, d:D]", dtype);
 *         tile_grid(t, "mb: cdiv(S, M), h: H, b: B");
 *         tile_role(t, "mma", shape->consumers, TILE_ON_WARPGROUP, 240);
 *             const AuTileHandle score = tile_frag(t, "score", "f32[q:64, kv:N] @ %s.C", mma->name);
 *             tile_for_tiles(t, "n", "keys", NULL);
 *                 tile_product(t, score, mma, TILE_START, "x.Q[self * 64 +: 64, :]", "y.K");
 *                 ...
 *             tile_end(t);
 *         tile_end(t);
 *     tile_end(t);
 *     AuTileModule *module = tile_built(t); */
#ifndef AU_TILE_BUILD_H
#define AU_TILE_BUILD_H

#include "template.h"
#include "tile.h"

typedef struct AuTileBuild AuTileBuild;

/* `name`: what diagnostics call the program. caps NULL: a file of hooks alone. */
AuTileBuild *tile_build(AuArena *arena, AuDiags *diags, const AuTileCaps *caps, const char *name);
/* The module; NULL after an error. Every block must be closed. */
AuTileModule *tile_built(AuTileBuild *t);

/* Below, "..." is a template and what goes into it; names and operands are handles or texts. The functions with _ behind their names
 * are what the macros call, with the place of the call. */

/* A text, for parts of templates; lives in the builder's arena. */
#define tile_text(t, ...) tile_text_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
/* The same as a handle: a view or an expression that others go on with. */
#define tile_part(t, ...) ((AuTileHandle){tile_text(t, __VA_ARGS__)})
/* One of several of a kind: "dot3". */
AuTileHandle tile_numbered(AuTileBuild *t, const char *kind, uint32_t n);
const char *tile_text_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text);
const char *tile_number(AuTileBuild *t,
                        double value); /* as a float literal that reads back exactly */

/* ---- the file */
#define tile_set_option(t, name, value) tile_set_option_(t, TILE_WHERE, TILE_WORD(name), value)
void tile_set_option_(AuTileBuild *t, AuTileWhere at, const char *name, int32_t value);
#define tile_const(t, name, value) tile_const_(t, TILE_WHERE, TILE_WORD(name), value)
void tile_const_(AuTileBuild *t, AuTileWhere at, const char *name, int64_t value);
/* cols may be NULL */
#define tile_layout(t, name, rows, cols)                                                           \
    tile_layout_(t, TILE_WHERE, TILE_WORD(name), TILE_WORD(rows), TILE_WORD(cols))
void tile_layout_(AuTileBuild *t, AuTileWhere at, const char *name, const char *rows,
                  const char *cols);
/* A hook: assignments (tile_set), then tile_return, then tile_end. */
#define tile_fn(t, name, params) tile_fn_(t, TILE_WHERE, TILE_WORD(name), TILE_WORD(params))
void tile_fn_(AuTileBuild *t, AuTileWhere at, const char *name, const char *params);
#define tile_return(t, ...) tile_return_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_return_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text);

/* ---- a kernel, until tile_end: arguments, grid, then declarations, then roles */
#define tile_kernel(t, name) tile_kernel_(t, TILE_WHERE, TILE_WORD(name))
void tile_kernel_(AuTileBuild *t, AuTileWhere at, const char *name);
#define tile_arg(t, name, mode, ...)                                                               \
    tile_arg_(t, TILE_WHERE, TILE_WORD(name), mode, TILE_TEMPLATE(__VA_ARGS__))
AuTileHandle tile_arg_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileMode mode,
                       AuTileTemplate type);
#define tile_grid(t, ...) tile_grid_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_grid_(AuTileBuild *t, AuTileWhere at, AuTileTemplate axes);
/* Blocks that a processor shall have registers for. */
void tile_resident(AuTileBuild *t, int32_t blocks);
void tile_coarse(AuTileBuild *t);
/* Of kernels that begin from here on: instructions at most where loops over registers are written out. */
void tile_written(AuTileBuild *t, int32_t instructions);
#define tile_let(t, names, ...)                                                                    \
    tile_let_(t, TILE_WHERE, TILE_WORD(names), TILE_TEMPLATE(__VA_ARGS__))
AuTileHandle tile_let_(AuTileBuild *t, AuTileWhere at, const char *names, AuTileTemplate value);
/* Its segments follow. */
#define tile_list(t, name) tile_list_(t, TILE_WHERE, TILE_WORD(name))
AuTileHandle tile_list_(AuTileBuild *t, AuTileWhere at, const char *name);
#define tile_segment(t, name, how, a, b)                                                           \
    tile_segment_(t, TILE_WHERE, TILE_WORD(name), how, TILE_WORD(a), TILE_WORD(b))
void tile_segment_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileHow how, const char *a,
                   const char *b);
/* "... swizzle 128", "... tensor" */
#define tile_shared(t, name, ...)                                                                  \
    tile_shared_(t, TILE_WHERE, TILE_WORD(name), TILE_TEMPLATE(__VA_ARGS__))
AuTileHandle tile_shared_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileTemplate type);
/* `producer` and `consumer` may begin with "each " or "one "; the tiles as in the text form: "K: bf16[kv:N, d:D] swizzle 128". */
#define tile_pipeline(t, name, stages, producer, consumer, ...)                                    \
    tile_pipeline_(t, TILE_WHERE, TILE_WORD(name), stages, TILE_WORD(producer),                    \
                   TILE_WORD(consumer), TILE_TEMPLATE(__VA_ARGS__))
void tile_pipeline_(AuTileBuild *t, AuTileWhere at, const char *name, int32_t stages,
                    const char *producer, const char *consumer, AuTileTemplate tiles);
/* many 0: no index */
#define tile_barrier(t, name, many, count)                                                         \
    tile_barrier_(t, TILE_WHERE, TILE_WORD(name), many, count)
void tile_barrier_(AuTileBuild *t, AuTileWhere at, const char *name, int32_t many, int32_t count);
/* many 0: one, without an index; registers 0: not said. Until tile_end. */
#define tile_role(t, name, many, on, registers)                                                    \
    tile_role_(t, TILE_WHERE, TILE_WORD(name), many, on, registers)
void tile_role_(AuTileBuild *t, AuTileWhere at, const char *name, int32_t many, AuTileExecutor on,
                int32_t registers);
/* The role that is open has exact maxima (option lag). */
void tile_role_exact(AuTileBuild *t);

/* ---- statements */
#define tile_frag(t, name, ...)                                                                    \
    tile_frag_(t, TILE_WHERE, TILE_WORD(name), TILE_TEMPLATE(__VA_ARGS__))
AuTileHandle tile_frag_(AuTileBuild *t, AuTileWhere at, const char *name,
                        AuTileTemplate type_and_layout);
#define tile_private(t, name, ...)                                                                 \
    tile_private_(t, TILE_WHERE, TILE_WORD(name), TILE_TEMPLATE(__VA_ARGS__))
AuTileHandle tile_private_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileTemplate type);
/* Hook calls too. */
#define tile_set(t, names, ...)                                                                    \
    tile_set_(t, TILE_WHERE, TILE_WORD(names), TILE_TEMPLATE(__VA_ARGS__))
AuTileHandle tile_set_(AuTileBuild *t, AuTileWhere at, const char *names, AuTileTemplate value);
#define tile_convert(t, name, source, layout)                                                      \
    tile_convert_(t, TILE_WHERE, TILE_WORD(name), TILE_WORD(source), TILE_WORD(layout))
AuTileHandle tile_convert_(AuTileBuild *t, AuTileWhere at, const char *name, const char *source,
                           const char *layout);
/* View, layout and options: "k[b, h, :, :] like y pad 0 when p" */
#define tile_load(t, name, ...)                                                                    \
    tile_load_(t, TILE_WHERE, TILE_WORD(name), TILE_TEMPLATE(__VA_ARGS__))
AuTileHandle tile_load_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileTemplate view);
/* From, to, options: "bf16(out) -> o[b, h, mb * M +: M, :] clip" */
#define tile_store(t, ...) tile_store_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_store_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text);
#define tile_atomic_add(t, ...) tile_atomic_add_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_atomic_add_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text);
#define tile_copy(t, ...) tile_copy_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_copy_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text);

#define tile_prefetch(t, ...) tile_prefetch_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_prefetch_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text);
/* token NULL: into a stage */
#define tile_async_copy(t, token, ...)                                                             \
    tile_async_copy_(t, TILE_WHERE, TILE_WORD(token), TILE_TEMPLATE(__VA_ARGS__))
void tile_async_copy_(AuTileBuild *t, AuTileWhere at, const char *token, AuTileTemplate text);
#define tile_async_reduce_add(t, token, ...)                                                       \
    tile_async_reduce_add_(t, TILE_WHERE, TILE_WORD(token), TILE_TEMPLATE(__VA_ARGS__))
void tile_async_reduce_add_(AuTileBuild *t, AuTileWhere at, const char *token, AuTileTemplate text);

/* serial: of multiply-adds, each to the sum as it is; else first among themselves. */
typedef enum AuTileProduct { TILE_START, TILE_ADD, TILE_ADD_SERIAL } AuTileProduct;
/* acc = a b, or acc += a b; async if the atom always is. */
#define tile_product(t, acc, atom, how, a, b)                                                      \
    tile_product_(t, TILE_WHERE, TILE_WORD(acc), atom, how, TILE_WORD(a), TILE_WORD(b))
void tile_product_(AuTileBuild *t, AuTileWhere at, const char *acc, const AuTileAtom *atom,
                   AuTileProduct how, const char *a, const char *b);
/* Into tensor memory; `dest` may end with "when p". */
#define tile_product_into(t, token, atom, how, a, b, dest)                                         \
    tile_product_into_(t, TILE_WHERE, TILE_WORD(token), atom, how, TILE_WORD(a), TILE_WORD(b),     \
                       TILE_WORD(dest))
void tile_product_into_(AuTileBuild *t, AuTileWhere at, const char *token, const AuTileAtom *atom,
                        AuTileProduct how, const char *a, const char *b, const char *dest);
#define tile_wait(t, names) tile_wait_(t, TILE_WHERE, TILE_WORD(names))
void tile_wait_(AuTileBuild *t, AuTileWhere at, const char *names);
/* "scores[half]" */
#define tile_acquire(t, stage, pipeline)                                                           \
    tile_acquire_(t, TILE_WHERE, TILE_WORD(stage), TILE_WORD(pipeline))
void tile_acquire_(AuTileBuild *t, AuTileWhere at, const char *stage, const char *pipeline);
#define tile_wait_stage(t, stage, pipeline)                                                        \
    tile_wait_stage_(t, TILE_WHERE, TILE_WORD(stage), TILE_WORD(pipeline))
void tile_wait_stage_(AuTileBuild *t, AuTileWhere at, const char *stage, const char *pipeline);
/* "s after t" */
#define tile_commit(t, names) tile_commit_(t, TILE_WHERE, TILE_WORD(names))
void tile_commit_(AuTileBuild *t, AuTileWhere at, const char *names);
/* "y, z after t" */
#define tile_release(t, names) tile_release_(t, TILE_WHERE, TILE_WORD(names))
void tile_release_(AuTileBuild *t, AuTileWhere at, const char *names);
#define tile_sync(t, ...) tile_sync_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_sync_(AuTileBuild *t, AuTileWhere at, AuTileTemplate barrier);
#define tile_arrive(t, ...) tile_arrive_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_arrive_(AuTileBuild *t, AuTileWhere at, AuTileTemplate barrier);

/* ---- blocks, until tile_end */
/* from may be NULL */
#define tile_for_tiles(t, var, list, from)                                                         \
    tile_for_tiles_(t, TILE_WHERE, TILE_WORD(var), TILE_WORD(list), TILE_WORD(from))
void tile_for_tiles_(AuTileBuild *t, AuTileWhere at, const char *var, const char *list,
                     const char *from);
#define tile_for_range(t, var, low, high)                                                          \
    tile_for_range_(t, TILE_WHERE, TILE_WORD(var), TILE_WORD(low), TILE_WORD(high))
void tile_for_range_(AuTileBuild *t, AuTileWhere at, const char *var, const char *low,
                     const char *high);
#define tile_if(t, ...) tile_if_(t, TILE_WHERE, TILE_TEMPLATE(__VA_ARGS__))
void tile_if_(AuTileBuild *t, AuTileWhere at, AuTileTemplate test);
#define tile_else(t) tile_else_(t, TILE_WHERE)
void tile_else_(AuTileBuild *t, AuTileWhere at);
#define tile_on_segment(t, segment) tile_on_segment_(t, TILE_WHERE, TILE_WORD(segment))
void tile_on_segment_(AuTileBuild *t, AuTileWhere at, const char *segment);
#define tile_end(t) tile_end_(t, TILE_WHERE)
void tile_end_(AuTileBuild *t, AuTileWhere at);

#endif
