/* linear_channels_parts.c - see linear_channels.h. */
#include "linear_channels.h"

void lin_channels_memory(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t C = l->chunk, D = l->x.p->d;
    lin_memory(l, "Factors", tile_text(t, "f32[kv:%d, d:%d]", C, D));
    lin_memory(l, "Left", tile_text(t, "f32[kv:%d, d:%d]", C, D));
    lin_memory(l, "Whole", tile_text(t, "f32[d:%d]", D));
}

void lin_channels_declare(Linear *l)
{
    static const char *const rows[] = {"line", "factor", "until"};
    for (uint32_t n = 0; n < sizeof rows / sizeof *rows; n++)
        tile_frag(l->x.t, rows[n], "f32[d:%d] @ along_lanes = 0.0", l->x.p->d);
}

void lin_channels_up(Linear *l)
{
    tile_for_range(l->x.t, "token", "0", tile_text(l->x.t, "%d", l->chunk));
}

void lin_channels_down(Linear *l)
{
    tile_for_range(l->x.t, "turn", "0", tile_text(l->x.t, "%d", l->chunk));
    tile_set(l->x.t, "place", "%d - turn", l->chunk - 1);
}

void lin_channels_until(Linear *l, bool keeps, bool weighs)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "until", "fill(until, 1.0)");
    lin_channels_down(l);
    tile_load(t, "line", "K[place, :]");
    if (weighs) tile_load(t, "weight", "W[place]");
    tile_store(t, "line * until%s -> Left[place, :]", weighs ? " * weight" : "");
    if (keeps) tile_store(t, "until -> Until[place, :]");
    tile_load(t, "factor", "G[place, :]");
    tile_set(t, "factor", "exp(factor)");
    tile_store(t, "factor -> Factors[place, :]");
    tile_set(t, "until", "until * factor");
    tile_end(t);
    tile_store(t, "until -> Whole");
}

const char *lin_channels_refusal(const AuProblem *p, const AuShape *s)
{
    const AuNormal *n = p->hooks->normal;
    if (n->decay != AU_DECAY_VECTOR) return "no decay a channel";
    if (n->feedback != AU_FEEDBACK_NONE) return "a decay a channel beside feedback";
    if (n->log_decay.high > 0) return "a decay a channel that may be above 1";
    /* the pair of a token with itself meets values here, which have their strengths */
    if (p->hooks->slots[AU_SLOT_BONUS].value.i && p->hooks->slots[AU_SLOT_WRITE].value.i)
        return "a bonus beside a strength";
    if (!p->caps->has_private) return "machines whose executors have no memory of their own";
    if (p->d % p->caps->lanes) return "channels of keys that are no whole vectors";
    if (s->key_tile % p->caps->lanes) return "a chunk of as many tokens as there are lanes";
    return NULL;
}

int32_t lin_channels_tokens(const AuProblem *p)
{
    enum { TOKENS = 16 };
    return p->caps->lanes > TOKENS ? p->caps->lanes : TOKENS;
}
