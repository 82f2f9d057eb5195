/* fragment_loops.c - loops over the registers of a fragment (fragments.h), and where an element is in its array then.
 *
 * An axis of which a lane holds many indices becomes a loop over registers; of an axis along the lanes (rows of queries) a few registers
 * at a time, so that independent work fills the pipelines. Axes of few registers are unrolled. Loops over axes along the lanes are
 * outermost: a reduction over the others then runs in registers. */
#include "internal.h"

enum { MOST_UNROLLED = 4 };

/* Are the indices that a lane holds equally far apart? Then a loop over registers can compute them.
 */
static bool is_linear(const AuTilePlaces *places, int32_t regs)
{
    for (int32_t r = 2; r < regs; r++)
        if (tile_axis_offset(places, r) != r * tile_axis_offset(places, 1)) return false;
    return true;
}

bool lower_is_grouped(const AuLower *l, const AuTileAxis *axis)
{
    const int32_t regs = tile_axis_registers(axis->places),
                  group = l->module->options.product_columns;
    return !l->r.unit->written_out && !lower_in_registers_only(axis->places) && regs > group &&
           regs % group == 0 && is_linear(axis->places, regs);
}

AuSpaces lower_spaces(AuLower *l, const AuTileType *type)
{
    AuSpaces s = {.count = 0};
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileAxis *axis = &type->axes[n];
        if (!axis->places) {
            lower_refuse(l, "axis %s has no layout here", axis->name);
            continue;
        }
        const int32_t regs = tile_axis_registers(axis->places);
        const bool grouped = lower_is_grouped(l, axis),
                   looped = grouped ||
                            ((l->r.unit->written_out || lower_in_registers_only(axis->places)) &&
                             regs > MOST_UNROLLED);
        s.at[s.count++] = (AuSpace1){.axis = axis,
                                     .regs = regs,
                                     .looped = looped,
                                     .grouped = grouped,
                                     .step = grouped ? l->module->options.product_columns
                                             : looped && !l->r.unit->written_out ? 1
                                                                                 : regs};
    }
    return s;
}

/* Axes of one name may have other extents in other variables: tiles of 16 keys beside one of 32. */
static bool have_same_registers(const AuSpaces *a, const AuSpaces *b)
{
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t j = 0; j < b->count; j++)
            if (a->at[i].axis->name == b->at[j].axis->name && a->at[i].regs != b->at[j].regs)
                return false;
    return true;
}

bool lower_same_loops(const AuSpaces *a, const AuSpaces *b)
{
    uint32_t na = 0, nb = 0, equal = 0;
    if (!have_same_registers(a, b)) return false;
    for (uint32_t i = 0; i < a->count; i++) na += a->at[i].looped;
    for (uint32_t j = 0; j < b->count; j++) nb += b->at[j].looped;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t j = 0; j < b->count; j++)
            equal += a->at[i].looped && b->at[j].looped &&
                     a->at[i].axis->name == b->at[j].axis->name && a->at[i].regs == b->at[j].regs;
    return na == nb && equal == na;
}

typedef struct Walk {
    const AuSpaces *spaces;
    AuPointFn body;
    void *user;
    AuPoint point;
    AuVal first[6]; /* by axis: the register that its loop is at; none: it has no loop */
} Walk;

/* The registers of each axis that stand side by side. */
static void enumerate(AuLower *l, Walk *w, uint32_t n)
{
    AuKernel *k = l->k;
    if (n == w->spaces->count) {
        w->body(l, &w->point, w->user);
        return;
    }
    const AuSpace1 *s = &w->spaces->at[n];
    const AuVal base = lower_lane_part(l, s->axis->places),
                apart = kernel_i32(k, s->regs > 1 ? tile_axis_offset(s->axis->places, 1) : 0);
    for (int32_t r = 0; r < s->step; r++) {
        AuCoord c = {.axis = s->axis->name, .reg = w->first[n].i ? w->first[n] : kernel_i32(k, r)};
        AuVal offset = kernel_i32(k, tile_axis_offset(s->axis->places, r));
        if (s->grouped) {
            c.within = r;
            offset = kernel_op2(k, AU_K_ADD,
                                kernel_op2(k, AU_K_MUL,
                                           kernel_op2(k, AU_K_MUL, c.reg, kernel_i32(k, s->step)),
                                           apart),
                                offset);
        } else if (s->looped && s->step < s->regs) {
            if (s->step > 1)
                c.reg =
                    kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, c.reg, kernel_i32(k, s->step)),
                               kernel_i32(k, r));
            c.within = r;
            offset = kernel_op2(k, AU_K_MUL, c.reg, apart);
        }
        c.index = kernel_op2(k, AU_K_ADD, base, offset);
        w->point.at[w->point.count++] = c;
        enumerate(l, w, n + 1);
        w->point.count--;
    }
}

/* The longest axis outermost: what depends on a column (is the key inside?) is used up by its few
 * rows at once, and sums over the rows are as many independent chains. */
static AuSpaces longest_first(const AuSpaces *spaces)
{
    AuSpaces sorted = *spaces;
    for (uint32_t n = 1; n < sorted.count; n++)
        for (uint32_t i = n; i > 0 && sorted.at[i].regs > sorted.at[i - 1].regs; i--) {
            const AuSpace1 other = sorted.at[i];
            sorted.at[i] = sorted.at[i - 1];
            sorted.at[i - 1] = other;
        }
    return sorted;
}

void lower_each(AuLower *l, const AuSpaces *spaces, AuPointFn body, void *user)
{
    const AuSpaces order = l->r.unit->written_out ? longest_first(spaces) : *spaces;
    spaces = &order;
    Walk w = {spaces, body, user, {.count = 0}, {{0}}};
    uint32_t open = 0;
    for (int32_t along_registers = 0; along_registers < 2; along_registers++)
        for (uint32_t n = 0; n < spaces->count; n++) {
            const AuSpace1 *s = &spaces->at[n];
            if (s->step == s->regs || lower_in_registers_only(s->axis->places) != along_registers)
                continue;
            w.first[n] = kernel_for(l->k, kernel_i32(l->k, 0), kernel_i32(l->k, s->regs / s->step),
                                    1, AU_UNROLL_NEVER);
            open++;
        }
    enumerate(l, &w, 0);
    while (open--) kernel_end(l->k);
}

/* ---- in the array */

static const AuCoord *coordinate(const AuPoint *p, const char *axis)
{
    const AuCoord *c = NULL;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->at[i].axis == axis) c = &p->at[i];
    return c;
}

/* All registers are written out, so their numbers are constants. */
static AuVal constant_register(AuLower *l, const AuTileType *type, const AuPoint *p)
{
    int32_t regs[TILE_MAX_AXES] = {0};
    for (uint32_t n = 0; n < type->count; n++) {
        const AuCoord *c = coordinate(p, type->axes[n].name);
        if (!c || !c->reg.i || kernel_at(l->k, c->reg)->op != AU_K_CONST) {
            lower_refuse(l, "axis %s of a fragment has no register here", type->axes[n].name);
            return kernel_i32(l->k, 0);
        }
        regs[n] = (int32_t)kernel_at(l->k, c->reg)->imm;
    }
    return kernel_i32(l->k, (int32_t)lower_register_number(type, regs));
}

AuVal lower_register(AuLower *l, const AuTileType *type, const AuPoint *p)
{
    if (l->r.unit->written_out) return constant_register(l, type, p);
    return lower_pair_register(l, type, p, NULL);
}

AuVal lower_pair_register(AuLower *l, const AuTileType *type, const AuPoint *p,
                          const char *pair_axis)
{
    AuKernel *k = l->k;
    AuVal outer = kernel_i32(k, 0), inner = kernel_i32(k, 0);
    int32_t others = 1, group = 1, within = 0;
    bool grouped = false;
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileAxis *axis = &type->axes[n];
        const AuCoord *c = coordinate(p, axis->name);
        if (!c || !c->reg.i) {
            lower_refuse(l, "axis %s of a fragment has no register here", axis->name);
            return outer;
        }
        const bool pairs = axis->name == pair_axis;
        const int32_t regs = tile_axis_registers(axis->places) / (pairs ? 2 : 1);
        if (lower_is_grouped(l, axis)) {
            outer = c->reg;
            group = l->module->options.product_columns;
            grouped = true;
            within = c->within;
            continue;
        }
        inner = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, inner, kernel_i32(k, regs)),
                           pairs ? kernel_op2(k, AU_K_SHR, c->reg, kernel_i32(k, 1)) : c->reg);
        others *= regs;
    }
    if (!grouped) return inner;
    const AuVal row =
        kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, outer, kernel_i32(k, others)), inner);
    return kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, row, kernel_i32(k, group)),
                      kernel_i32(k, within));
}

void lower_by_pairs(AuSpaces *spaces, const char *pair_axis)
{
    for (uint32_t n = 0; n < spaces->count; n++)
        if (spaces->at[n].axis->name == pair_axis && spaces->at[n].looped) spaces->at[n].step = 2;
}
