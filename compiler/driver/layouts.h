/* layouts.h - where queries and keys lie that a call gives in another layout than [B, H, L, D] (docs/dev/serving.md): the tensors and
 * sizes that it has beside the script's. */
#ifndef AU_DRIVER_LAYOUTS_H
#define AU_DRIVER_LAYOUTS_H

#include "attn.h"

#include "aule/artifact.h"

typedef struct AuAxisLayout {
    AuLayout layout;
    const char *axis; /* as the script calls it */
    bool rows;        /* the row of the table, or of the cache, that a sequence has, is given */
    bool csr;         /* pages of all sequences lie in one list, and where each begins is given */
    bool positions;   /* which positions of a longer sequence the rows are */
    bool most;        /* how many packed rows a sequence has at most is given */
    bool groups;      /* which neighbouring sequences have the same pages first */
    bool has_no_lengths; /* padded rows that are all in use */
    bool modified;       /* a cache of what row mods make of keys and values */
} AuAxisLayout;

/* Of axes of queries and keys, those that have one; none: all is dense. */
typedef struct AuLayouts {
    AuAxisLayout of[2];
    uint32_t count;
} AuLayouts;
enum { LAYOUTS_MOST = 16 }; /* that an artifact has attentions of */

/* Adds the inputs `starts`, or `lengths` and, of pages, `table`, with their sizes. false: what the attention has there is not
 * carried, a diagnostic names it. */
bool driver_add_layouts(AuArena *arena, AuDiags *diags, AuAttn *a, const AuAxisLayout *layouts,
                        uint32_t count);
/* layout_dots.c: marks inputs that are rows of keys of further products (AuTensor.as_keys). false: a diagnostic says what of further products the layouts
 * do not carry. */
void driver_find_key_rows(AuArena *arena, AuAttn *a);
bool driver_dots_fit(AuArena *arena, AuDiags *diags, AuAttn *a);
/* Keys in pages, rows by `rows` or with positions, and what is stored in codes, have none. */
bool driver_has_gradients(const AuAttn *a);
/* The axes in memory of rows of keys (k, v, their gradients), else of queries (q, o, finals, ..): [B, Hk, T, D] of k or v becomes
 * [pages, Hk, slots, D] where they are paged; the batch of packed rows is 1. */
void driver_place_rows(AuAttn *a, bool of_keys, AuExpr *axes);
/* Is it a size that no tensor of a call gives: that of paged keys, the batch of packed queries, which no input has? Kernels do
 * not ask for it. */
bool driver_is_unknown(const AuAttn *a, uint32_t size);
/* AULE_TENSOR_LENGTHS, _TABLE, _ROWS, _STARTS with its rows, or 0. */
uint32_t driver_layout_flags(const AuAttn *a, uint32_t tensor);

#endif
