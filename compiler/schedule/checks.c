/* checks.c - kernels that look for indices outside of their tensors, for builds with --checked.
 *
 * They run before the others and change nothing in them: those clamp such indices, with or without
 * checks. For every index of a read in the script there is one expression of the attention's graph,
 * its code: 0 where the read is not chosen or lies inside, else the index if it is negative, else the
 * index plus 1. A lane holds a row, goes through all that the code depends on beside, and stores the
 * first code that is not 0.
 *
 * What chooses a read: the mask, for what is read for pairs; the conditions of `&&`, `||` and `where`
 * above it. Reads whose index or condition asks for scores, products or rows are left out: they are
 * known in the midst of the other kernels only. */
#include "hook_writer.h"
#include "key_layout.h"

#include <math.h>
#include <string.h>

typedef struct Site {
    AuCheck check;
    AuExpr code;
    uint32_t width; /* channels, if it depends on them, are those of this tensor */
} Site;

typedef struct Reach {
    bool reached;
    AuExpr guard; /* none: always */
} Reach;

typedef struct Finder {
    AuAttn *a;
    AuArena *arena;
    uint32_t rows, width; /* of the expression at hand: see AuCheck and Site */
    Reach *reach;         /* by node */
    Site *sites;
    uint32_t count, capacity;
} Finder;

static const AuExpr none = {0};

/* ---- which reads, and when they are chosen */

/* Whether indices, parameters and inputs are enough for a value. */
static bool is_known(const AuAttn *a, AuExpr e)
{
    bool *mark = AU_NEW_ARRAY(a->arena, bool, a->node_count);
    attn_mark(a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuOp op = (AuOp)a->nodes[i].op;
        const bool leaf = attn_op_info(op)->rule == AU_RULE_LEAF;
        if (mark[i] && leaf && op != AU_OP_F32 && op != AU_OP_I32 && op != AU_OP_SIZE &&
            op != AU_OP_INDEX && op != AU_OP_KV_H && op != AU_OP_PARAM && op != AU_OP_INPUT)
            return false;
    }
    return true;
}

static AuExpr both(AuAttn *a, AuExpr x, AuExpr y)
{
    return !x.i ? y : !y.i ? x : attn_op2(a, AU_OP_AND, x, y, attn_at(a, y)->span);
}

static AuExpr negated(AuAttn *a, AuExpr x)
{
    return attn_op1(a, AU_OP_NOT, x, attn_at(a, x)->span);
}

/* An argument that is evaluated where [guard] holds. Reached in two ways: where either does. */
static void reach(Finder *f, AuExpr e, AuExpr guard)
{
    Reach *r = &f->reach[e.i];
    if (!r->reached)
        *r = (Reach){true, guard};
    else if (r->guard.i)
        r->guard =
            guard.i ? attn_op2(f->a, AU_OP_OR, r->guard, guard, attn_at(f->a, e)->span) : none;
}

/* The same if also [condition] holds, or, [expected] false, does not; never if that is not known. */
static void reach_if(Finder *f, AuExpr e, AuExpr guard, AuExpr condition, bool expected)
{
    if (is_known(f->a, condition))
        reach(f, e, both(f->a, guard, expected ? condition : negated(f->a, condition)));
}

static void reach_arguments(Finder *f, AuExpr e)
{
    const AuNode n = *attn_at(f->a, e);
    const AuExpr guard = f->reach[e.i].guard;
    for (uint32_t i = 0; i < n.count; i++) {
        const AuExpr x = attn_arg(f->a, e, i);
        if (i > 0 && (n.op == AU_OP_WHERE || n.op == AU_OP_AND || n.op == AU_OP_OR))
            reach_if(f, x, guard, attn_arg(f->a, e, 0),
                     n.op == AU_OP_AND || (n.op == AU_OP_WHERE && i == 1));
        else
            reach(f, x, guard);
    }
}

/* ---- sites */

/* Does the index run along just this axis, or is it a number inside? */
static bool is_inside(const Finder *f, AuExpr index, AuExpr extent)
{
    const AuAttn *a = f->a;
    static const struct {
        int32_t index;
        uint32_t tensor, axis;
    } along[] = {{AU_AX_B, 0, 0}, {AU_AX_H, 0, 1}, {AU_AX_Q, 0, 2}, {AU_AX_KV, 1, 2}};
    const AuNode *n = attn_at(a, index);
    if (n->op == AU_OP_I32) {
        const AuNode *x = attn_at(a, extent);
        const int64_t count = x->op == AU_OP_SIZE  ? a->sizes[x->integer].fixed
                              : x->op == AU_OP_I32 ? x->integer
                                                   : -1;
        return n->integer >= 0 && n->integer < count;
    }
    if (n->op == AU_OP_KV_H) return extent.i == a->tensors[1].axes[1].i;
    if (n->op != AU_OP_INDEX) return false;
    if (n->integer == AU_AX_C) return extent.i == a->tensors[f->width].axes[3].i;
    for (uint32_t i = 0; i < sizeof along / sizeof *along; i++)
        if (n->integer == along[i].index &&
            extent.i == a->tensors[along[i].tensor].axes[along[i].axis].i)
            return true;
    return false;
}

static AuExpr code_of(Finder *f, AuExpr index, AuExpr extent, AuExpr guard, AuSpan span)
{
    AuAttn *a = f->a;
    const AuExpr zero = attn_i32(a, 0, span);
    const AuExpr below = attn_op2(a, AU_OP_LT, index, zero, span);
    const AuExpr inside = attn_op2(a, AU_OP_LT, index, extent, span);
    const AuExpr bad = both(a, guard, attn_op2(a, AU_OP_OR, below, negated(a, inside), span));
    const AuExpr last = attn_i32(a, INT32_MAX - 1,
                                 span), /* the largest index has no code of its own */
        after = attn_op2(a, AU_OP_ADD, attn_op2(a, AU_OP_MIN, index, last, span),
                         attn_i32(a, 1, span), span);
    return attn_where(a, bad, attn_where(a, below, index, after, span), zero, span);
}

/* Indices args[first..] of the read [e] into the leading axes of a tensor. */
static void add_sites(Finder *f, AuExpr e, int32_t tensor, uint32_t first, uint32_t axes)
{
    AuAttn *a = f->a;
    const AuSpan span = attn_at(a, e)->span;
    for (uint32_t k = 0; k < axes; k++) {
        const AuExpr index = attn_arg(a, e, first + k), extent = a->tensors[tensor].axes[k];
        if (is_inside(f, index, extent) || !is_known(a, index)) continue;
        const Site site = {{.span = span, .tensor = (uint32_t)tensor, .axis = k, .rows = f->rows},
                           code_of(f, index, extent, f->reach[e.i].guard, span),
                           f->width};
        bool known = false;
        for (uint32_t n = 0; n < f->count; n++)
            known |= f->sites[n].code.i == site.code.i && f->sites[n].check.rows == f->rows &&
                     f->sites[n].width == f->width;
        if (!known) AU_PUSH(f->arena, f->sites, f->count, f->capacity, site);
    }
}

static void find_in(Finder *f, AuExpr root, AuExpr guard)
{
    f->reach = AU_NEW_ARRAY(f->arena, Reach, f->a->node_count);
    reach(f, root, guard);
    for (uint32_t i = root.i; i > 0; i--) { /* users come after what they use */
        if (!f->reach[i].reached) continue;
        const AuExpr e = {i};
        const AuNode n = f->a->nodes[i];
        reach_arguments(f, e);
        if (n.op == AU_OP_INPUT) add_sites(f, e, n.integer, 0, n.count);
        if (n.op != AU_OP_DOT) continue;
        const uint32_t left = f->a->tensors[n.integer].rank - 1;
        add_sites(f, e, n.integer, 0, left);
        add_sites(f, e, n.integer2, left, n.count - left);
    }
}

/* What was found of the nodes that a graph had at first: one that is shared is asked about once. */
typedef struct Found {
    bool *seen;
    AuExpr *when;
} Found;

static AuExpr when_unmasked(AuAttn *a, AuExpr score, Found *found);

/* When a score is not chosen to be -inf: then its pair has a weight. */
static AuExpr when_score_is_unmasked(AuAttn *a, AuExpr score, Found *found)
{
    const AuNode n = *attn_at(a, score);
    AuExpr x[3] = {none, none, none};
    bool never[3] = {false, false, false};
    if (n.op != AU_OP_WHERE && n.op != AU_OP_ADD) return none;
    for (uint32_t i = n.op == AU_OP_WHERE; i < n.count; i++) {
        const AuNode *at = attn_at(a, attn_arg(a, score, i));
        never[i] = at->op == AU_OP_F32 && isinf(at->number) && at->number < 0;
        x[i] = when_unmasked(a, attn_arg(a, score, i), found);
    }
    if (n.op == AU_OP_ADD) return both(a, x[0], x[1]);
    const AuExpr c = attn_arg(a, score, 0);
    if (never[1]) return both(a, negated(a, c), x[2]);
    return never[2] ? both(a, c, x[1]) : none;
}

static AuExpr when_unmasked(AuAttn *a, AuExpr score, Found *found)
{
    if (found->seen[score.i]) return found->when[score.i];
    found->seen[score.i] = true;
    return found->when[score.i] = when_score_is_unmasked(a, score, found);
}

/* All of an attention, in the order of its text form. */
static void find_all(Finder *f)
{
    AuAttn *a = f->a;
    AuRoot *roots;
    const uint32_t count = attn_roots(a, f->arena, &roots);
    for (uint32_t n = 0; n < count; n++) {
        AuExpr guard = none;
        Found found;
        f->rows = f->width = 0;
        switch (roots[n].place) {
        case AU_PLACE_K_MOD: f->rows = 1; break;
        case AU_PLACE_V_MOD: f->rows = f->width = 2; break;
        case AU_PLACE_OUT_MOD:
        case AU_PLACE_EPILOGUE: f->width = 2; break;
        case AU_PLACE_SCORE_MOD: guard = a->mask; break;
        case AU_PLACE_WEIGHT_MOD:
            found.seen = AU_NEW_ARRAY(f->arena, bool, a->node_count);
            found.when = AU_NEW_ARRAY(f->arena, AuExpr, a->node_count);
            guard =
                both(a, a->mask, a->score_mod.i ? when_unmasked(a, a->score_mod, &found) : none);
            break;
        case AU_PLACE_MASK:
        case AU_PLACE_Q_MOD:
        case AU_PLACE_START:
        case AU_PLACE_NEXT:
        case AU_PLACE_P:
        case AU_PLACE_RESCALE:
        case AU_PLACE_FINAL:
        case AU_PLACE_FORWARD: break;
        default: continue; /* sizes, which read nothing, and clauses that kernels do not use */
        }
        if (!guard.i || is_known(a, guard)) find_in(f, *roots[n].at, guard);
    }
}

/* ---- kernels, one for rows of queries, of keys, of values */

/* The code as the hook check<n>. */
static void write_hook(AuHookWriter *w, const Site *site, uint32_t n)
{
    static const char *const params[] = {"b", "h", "i", "j", "c"};
    w->own_head = site->check.rows > 0;
    writer_begin(w, au_format(writer_module(w)->arena, "check%u", n), params, 5);
    writer_count_uses(w, site->code);
    AuTileExpr *x = writer_expr(w, site->code);
    writer_finish(w, &x, 1);
}

static LanesSide side_of(uint32_t rows) { return rows ? LANES_KEYS : LANES_QUERIES; }

/* Where rows of a side end: in a layout, those of the sequence. */
static const char *end_of(Lanes *x, uint32_t rows)
{
    return rows ? lanes_key_end(x) : lanes_query_end(x);
}

/* Loops over all that the code of check<n> depends on beside its row. */
static void search(Lanes *x, const Finder *f, uint32_t n)
{
    AuTileBuild *t = x->t;
    const uint32_t rows = f->sites[n].check.rows;
    const uint8_t axes = attn_at(f->a, f->sites[n].code)->axes;
    const char *row = rows ? "j" : "i", *code = tile_text(t, "code%u", n);
    const bool keys = !rows && (axes & AU_AX_KV), channels = axes & AU_AX_C;
    tile_frag(t, code, "i32[r:%d] @ along_lanes = 0", x->p->caps->lanes);
    if (keys) tile_for_range(t, "j", "0", end_of(x, 1));
    if (channels)
        tile_for_range(t, "c", "0", tile_text(t, "%d", f->sites[n].width ? x->p->e : x->p->d));
    tile_set(t, code, "where(%s == 0 && %s < %s, check%u(b, h, %s, %s, %s), %s)", code, row,
             end_of(x, rows), n, rows ? "0" : "i", rows || keys ? "j" : "0", channels ? "c" : "0",
             code);
    if (channels) tile_end(t);
    if (keys) tile_end(t);
}

/* Codes lie as rows do: packed ones of all sequences one behind the other. Rows of no sequence have none, so that the region is zero before. */
static void kernel(Lanes *x, Finder *f, uint32_t rows)
{
    static const char *const names[] = {"queries", "keys", "values"};
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes;
    const LanesSide side = side_of(rows);
    const AuRowLayout *layout = rows ? &x->p->attn->keys : &x->p->attn->queries;
    const char *region = tile_text(t, "outside_%s", names[rows]), *length = lanes_axis(x, rows, 2);
    uint32_t slices = 0;
    for (uint32_t n = 0; n < f->count; n++)
        if (f->sites[n].check.rows == rows) {
            f->sites[n].check.slice = slices++;
            f->sites[n].check.region = x->out->region_count;
        }
    if (!slices) return;
    for (uint32_t n = 0; n < f->count; n++)
        if (f->sites[n].check.rows == rows) f->sites[n].check.slices = slices;
    tile_kernel(t, tile_text(t, "check_%s", names[rows]));
    lanes_arguments(x);
    const bool packed = lanes_is_packed(x, side); /* else codes are those of sequences' rows */
    tile_arg(t, region, TILE_OUT, "i32[b:%s, h:%s, n:%u, r:%s]",
             packed ? "1" : lanes_axis(x, rows, 0), lanes_axis(x, rows, 1), slices, length);
    tile_grid(t, "nb: cdiv(%s, %d), h: %s, b: %s", length, lanes, lanes_axis(x, rows, 1),
              lanes_axis(x, rows, 0));
    lanes_let_key_length(x);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_set(t, rows ? "j" : "i", "nb * %d + iota(r:%d)", lanes, lanes);
    for (uint32_t n = 0; n < f->count; n++) {
        if (f->sites[n].check.rows != rows) continue;
        search(x, f, n);
        tile_store(
            t, "code%u -> %s[%s, h, %u, %s] clip", n, region, packed ? "0" : "b",
            f->sites[n].check.slice,
            lanes_row_span(x, side, tile_text(t, "nb * %d +: %d", lanes, lanes), NULL, NULL));
    }
    tile_end(t);
    tile_end(t);
    (layout->layout ? lanes_zeroed_region : lanes_region)(x, region);
}

bool schedule_checks(AuArena *arena, AuDiags *diags, const AuProblem *p, AuChecks *out)
{
    Finder f = {.a = p->attn, .arena = arena};
    *out = (AuChecks){0};
    find_all(&f);
    if (!f.count) return true;
    AuHooks hooks = *p->hooks;
    hooks.module = tile_module_new(arena, p->caps);
    AuHookWriter w = {.hooks = &hooks, .attn = p->attn, .diags = diags, .channel = "d"};
    for (uint32_t n = 0; n < f.count; n++) write_hook(&w, &f.sites[n], n);
    AuProblem problem = *p;
    problem.hooks = &hooks;
    AuSchedule *made = out->schedule = AU_NEW(arena, AuSchedule);
    made->name = "checks";
    Lanes x = {.t = schedule_begin(arena, diags, p, made),
               .p = &problem,
               .shape = &made->shape,
               .out = made,
               .arena = arena,
               .operand = tile_elem(p->operand)->name,
               .on_cpu = p->caps->has_private};
    tile_layout(x.t, "along_lanes", tile_text(x.t, "lane:%d@1", p->caps->lanes), NULL);
    for (uint32_t rows = 0; rows < 3; rows++) kernel(&x, &f, rows);
    out->at = AU_NEW_ARRAY(arena, AuCheck, f.count);
    out->count = f.count;
    for (uint32_t n = 0; n < f.count; n++) out->at[n] = f.sites[n].check;
    return !w.failed && lanes_built(&x, diags);
}
