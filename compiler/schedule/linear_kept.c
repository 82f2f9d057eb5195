/* linear_kept.c - recurrences in chunks: what decays of a head or token leave between two places of a chunk. `kept` [q, kv],
 * between a writer and a reader, 0 where the reader does not see the writer; `since` the chunk's start, at a reader's place; `until`
 * the chunk's end, behind a writer; `whole` of the chunk. */
#include "linear.h"

void lin_kept_memory(Linear *l)
{
    if (l->n->decay != AU_DECAY_SCALAR) return;
    lin_memory(l, "Since", tile_text(l->x.t, "f32[q:%d]", l->chunk + 1));
    lin_memory(l, "Until", tile_text(l->x.t, "f32[kv:%d]", l->chunk));
}

void lin_kept_declare(Linear *l, const char *values)
{
    AuTileBuild *t = l->x.t;
    const int32_t C = l->chunk;
    if (l->n->decay == AU_DECAY_NONE) return;
    tile_frag(t, "kept", "f32[q:%d, kv:%d] @ %s.C", C, C, l->x.atom->name);
    tile_frag(t, "since", "f32[kv:%d] @ along_lanes", C);
    tile_frag(t, "since_rows", "f32[q:%d] like score", C);
    tile_frag(t, "until", "f32[kv:%d] @ along_lanes", C);
    tile_frag(t, "until_rows", "f32[kv:%d] like %s", C, values);
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    if (l->n->decay != AU_DECAY_SCALAR) return;
    tile_frag(t, "span", "f32[kv:%d] @ along_lanes = 0.0", C);
    tile_frag(t, "sums_of_g", "f32[q:%d] @ in_registers", C);
    tile_frag(t, "nothing", "f32[q:1] @ in_registers = 0.0");
    tile_store(t, "nothing -> Since[0 +: 1]");
}

/* Of the log decays in G, a reader after the other: so a span of tokens is summed up from nothing. [all]: A becomes `kept`. */
static void spans(Linear *l, bool all)
{
    AuTileBuild *t = l->x.t;
    const int32_t C = l->chunk;
    const bool before = l->n->before;
    const char *go_on = "where(j < reader, span + g, 0.0)";
    tile_load(t, "sums_of_g", "G[0 +: %d] as [q]", C);
    tile_set(t, "sums_of_g", "cumsum(sums_of_g, q)");
    tile_store(t, "sums_of_g -> Since[1 +: %d]", C);
    tile_set(t, "span", "fill(span, 0.0)");
    tile_for_range(t, "reader", "0", tile_text(t, "%d", C));
    tile_load(t, "g", "G[reader]");
    if (!before) tile_set(t, "span", "%s", go_on);
    if (all)
        tile_store(t, "where(j %s reader, exp(span), 0.0) -> A[reader, :]", before ? "<" : "<=");
    if (before) tile_set(t, "span", "%s", go_on);
    tile_end(t);
    tile_set(t, "until", "exp(span)");
    tile_store(t, "until -> Until");
    lin_meet(l);
    tile_load(t, "until_rows", "Until");
    tile_load(t, "total", "Since[%d]", C);
    tile_set(t, "whole", "exp(total)");
    if (!all) return;
    tile_load(t, "kept", "A");
    tile_load(t, "since", "Since[%d +: %d] as [kv]", before ? 0 : 1, C);
    tile_load(t, "since_rows", "Since[%d +: %d]", before ? 0 : 1, C);
    tile_set(t, "since", "exp(since)");
    tile_set(t, "since_rows", "exp(since_rows)");
}

/* Of a decay of the head. */
static void powers(Linear *l, bool all)
{
    AuTileBuild *t = l->x.t;
    const char *at = l->n->before ? "" : " + 1";
    tile_set(t, "until", "exp(f32(max(count - 1 - j, 0)) * rate)");
    tile_set(t, "until_rows", "exp(f32(max(count - 1 - j, 0)) * rate)");
    tile_set(t, "whole", "exp(f32(count) * rate)");
    if (!all) return;
    tile_set(t, "kept", "where(%s, exp(f32(i_q%s - j - 1) * rate), 0.0)",
             l->n->before ? "j < i_q" : "j <= i_q", at);
    tile_set(t, "since", "exp(f32(j%s) * rate)", at);
    tile_set(t, "since_rows", "exp(f32(i_q%s) * rate)", at);
}

void lin_kept(Linear *l, bool all)
{
    if (l->n->decay == AU_DECAY_SCALAR)
        spans(l, all);
    else if (l->n->decay == AU_DECAY_CONSTANT)
        powers(l, all);
}
