/* verify_product.c - matrix products: operands, where they live, and what comes of them. */
#include "verify.h"

/* The sums that the product is added to, which say where their axes lie; NULL: the instruction does. */
static const AuTileType *sums_of(Verify *v, const AuTileStmt *s)
{
    const AuTileVar *var = s->product.add && !s->product.dest ? find_var(v, s->product.name) : NULL;
    return var && var->kind == TILE_VALUE && !var->type->opaque ? var->type : NULL;
}

/* Where the free axis of an operand in registers lies as sums have it, though not as the instruction has; NULL: it does not. */
static const AuTilePlaces *places_of_sums(Verify *v, const AuTileStmt *s, AuTileUse use,
                                          const AuTileAxis *free)
{
    const AuTilePlaces *own =
        tile_atom_places(v->arena, s->product.atom, use, use == TILE_B, free->size);
    if (!free->places || !own || tile_same_places(free->places, own)) return NULL;
    const AuTileType *sums = sums_of(v, s);
    const AuTileAxis *axis = sums ? tile_axis(sums, free->name) : NULL;
    if (!axis || !axis->places || axis->size != free->size) return NULL;
    return tile_free_matches(s->product.atom, use, free->places, axis->places, free->size)
               ? axis->places
               : NULL;
}

/* Does the machine's unit take such an operand straight from a tensor: as a thread does, by its lanes' own loads or by blocks? Nobody writes
 * the tensor meanwhile, and what is outside of it is 0. */
static bool comes_from_tensor(const Verify *v, const AuTileAtom *atom, const AuTileMemory *m,
                              AuTileUse use)
{
    if (atom->native >> use & 1 && atom->on & 1u << TILE_ON_THREAD) return true;
    return tile_takes_tensors(v->module->caps) && tile_is_of_warp(atom) && m->mode == TILE_IN &&
           !m->packed.kind;
}

/* Element type and home of one operand; `free` is its axis that is not contracted. */
static bool check_operand(Verify *v, const AuTileStmt *s, const AuTileExpr *e,
                          const AuTileType *type, AuTileUse use, const AuTileAxis *free)
{
    const AuTileAtom *atom = s->product.atom;
    const char *name = tile_use_names[use];
    if (!(atom->elems >> type->elem & 1))
        return verify_error(v, AU_E0703, e->span,
                            "operand %s of %s must be rounded to an operand type, it is %s", name,
                            atom->name, tile_elem(type->elem)->name);
    if (e->op == TILE_X_REF) {
        const AuTileSpace space = e->memory->space;
        if (tile_elem(e->memory->type.elem)->is_code)
            return verify_error(v, AU_E0703, e->span, "operand %s of %s cannot be stored as %s",
                                name, atom->name, tile_elem(e->memory->type.elem)->name);
        if (space == TILE_GLOBAL && !comes_from_tensor(v, atom, e->memory, use))
            return verify_error(v, AU_E0703, e->span,
                                "operand %s of %s cannot come from global memory", name,
                                atom->name);
        if (space == TILE_TENSOR && !(atom->tensor && use == TILE_A))
            return verify_error(v, AU_E0704, e->span, "operand %s of %s cannot be in tensor memory",
                                name, atom->name);
        return true;
    }
    if (atom->memory >> use & 1)
        return verify_error(v, AU_E0704, e->span, "operand %s of %s must be in memory", name,
                            atom->name);
    if (type->opaque != (atom->opaque ? atom : NULL) || (type->opaque && type->use != use))
        return verify_error(v, AU_E0704, e->span, "operand %s is not in layout %s.%s", name,
                            atom->name, name);
    const AuTilePlaces *want = tile_atom_places(v->arena, atom, use, use == TILE_B, free->size);
    if (!atom->opaque && (!free->places || !tile_same_places(free->places, want)) &&
        !places_of_sums(v, s, use, free))
        return verify_error(v, AU_E0704, e->span,
                            "axis %s of operand %s is not where %s.%s wants it; convert it",
                            free->name, name, atom->name, name);
    return true;
}

static const AuTileAxis *common_axis(const AuTileType *a, const AuTileType *b, uint32_t *count)
{
    const AuTileAxis *common = NULL;
    *count = 0;
    for (uint32_t i = 0; i < a->count; i++)
        if (tile_axis(b, a->axes[i].name)) {
            common = &a->axes[i];
            ++*count;
        }
    return common;
}

static const AuTileAxis *other_axis(const AuTileType *type, const char *name)
{
    return type->axes[0].name == name ? &type->axes[1] : &type->axes[0];
}

static const AuTilePlaces *places_in_registers(const AuTileExpr *e, const AuTileType *type,
                                               const char *axis)
{
    return e->op == TILE_X_REF ? NULL : tile_axis(type, axis)->places;
}

static bool check_contraction(Verify *v, AuTileStmt *s, const AuTileType *a, const AuTileType *b,
                              const AuTileAxis *k)
{
    const AuTileAtom *atom = s->product.atom;
    const AuTilePlaces *ka = places_in_registers(s->product.a, a, k->name);
    const AuTilePlaces *kb = places_in_registers(s->product.b, b, k->name);
    if (atom->opaque || tile_contraction_matches(atom, ka, kb, k->size)) return true;
    return verify_error(v, AU_E0704, s->span,
                        "axis %s of operand %s is not where %s wants it; convert it", k->name,
                        ka && kb ? "A and B"
                        : ka     ? "A"
                                 : "B",
                        atom->name);
}

/* Both operands and the type of the result, [m, n] of f32. */
static bool check_product(Verify *v, AuTileStmt *s)
{
    const AuTileAtom *atom = s->product.atom;
    const AuTileType *a = type_of_operand(v, s->product.a),
                     *b = a ? type_of_operand(v, s->product.b) : NULL;
    if (!b) return false;
    uint32_t common;
    const AuTileAxis *k = common_axis(a, b, &common);
    if (a->count != 2 || b->count != 2 || common != 1)
        return verify_error(v, AU_E0703, s->span,
                            "operands must have two axes each and one in common: %s, %s",
                            tile_type_text(v, a), tile_type_text(v, b));
    const AuTileAxis *m = other_axis(a, k->name), *n = other_axis(b, k->name);
    if (tile_axis(b, k->name)->size != k->size)
        return verify_error(v, AU_E0703, s->span, "axis %s is %d in A and %d in B", k->name,
                            k->size, tile_axis(b, k->name)->size);
    if (m->size % atom->m || n->size % atom->n || k->size % atom->k)
        return verify_error(v, AU_E0703, s->span,
                            "%d x %d x %d is no multiple of %d x %d x %d (%s)", m->size, n->size,
                            k->size, atom->m, atom->n, atom->k, atom->name);
    if (!check_operand(v, s, s->product.a, a, TILE_A, m) ||
        !check_operand(v, s, s->product.b, b, TILE_B, n))
        return false;
    if (a->elem != b->elem && !(atom->elems >> TILE_F32 & 1))
        return verify_error(v, AU_E0703, s->span, "operands of %s are of one type, found %s and %s",
                            atom->name, tile_elem(a->elem)->name, tile_elem(b->elem)->name);
    AuTileType *c = new_type(v, TILE_F32, 2);
    c->axes[0] = (AuTileAxis){.name = m->name, .size = m->size};
    c->axes[1] = (AuTileAxis){.name = n->name, .size = n->size};
    for (int axis = 0; axis < 2 && !atom->opaque; axis++) {
        const AuTileExpr *e = axis ? s->product.b : s->product.a;
        const AuTilePlaces *own =
                               tile_atom_places(v->arena, atom, TILE_C, axis, c->axes[axis].size),
                           *other =
                               e->op == TILE_X_REF
                                   ? NULL
                                   : places_of_sums(v, s, axis ? TILE_B : TILE_A, axis ? n : m);
        c->axes[axis].places = other ? other : own;
    }
    if (atom->opaque) c->opaque = atom, c->use = TILE_C;
    s->product.contracted = k->name;
    s->product.result = c;
    return check_contraction(v, s, a, b, k);
}

static bool into_memory(Verify *v, AuTileStmt *s)
{
    const AuTileType *dest = type_of_view(v, s->product.dest), *c = s->product.result;
    if (!dest) return false;
    const AuTileMemory *m = s->product.dest->memory;
    if (s->product.when && !expect_scalar(v, s->product.when, "the condition to add")) return false;
    if (m->space != TILE_TENSOR || m->type.elem != TILE_F32 || !same_axes(dest, c))
        return verify_error(v, AU_E0703, s->span, "%s into %s memory %s", tile_type_text(v, c),
                            tile_space_names[m->space], tile_type_text(v, dest));
    s->var = set_handle(v, s->product.name, TILE_TOKEN);
    return s->var != NULL;
}

bool verify_product(Verify *v, AuTileStmt *s)
{
    const AuTileAtom *atom = s->product.atom;
    const char *target = v->module->caps->name;
    if (!check_product(v, s)) return false;
    if (!tile_has_atom(v->module->caps, atom))
        return verify_error(v, AU_E0708, s->span, "%s has no %s", target, atom->name);
    if (!(atom->on >> v->role->on & 1))
        return verify_error(v, AU_E0708, s->span, "%s is executed by a %s, role %s is a %s",
                            atom->name,
                            tile_executor_name(atom->on >> TILE_ON_WARPGROUP & 1 ? TILE_ON_WARPGROUP
                                               : atom->on >> TILE_ON_WARP & 1    ? TILE_ON_WARP
                                                                                 : TILE_ON_THREAD),
                            v->role->name, tile_executor_name(v->role->on));
    if (s->product.is_async != atom->is_async)
        return verify_error(v, AU_E0708, s->span, "%s is %s", atom->name,
                            atom->is_async ? "async" : "not async");
    if ((s->product.dest != NULL) != atom->tensor)
        return verify_error(v, AU_E0703, s->span, "%s %s destination in tensor memory", atom->name,
                            atom->tensor ? "needs a" : "has no");
    if (s->product.serial && atom->m > 1)
        return verify_error(v, AU_E0703, s->span, "the order in which %s adds is its own",
                            atom->name);
    if (s->product.dest) return into_memory(v, s);
    if (s->product.add && !find_var(v, s->product.name))
        return verify_error(v, AU_E0702, s->span, "unknown name %s", s->product.name);
    s->var = set_value(v, s->product.name, s->product.result);
    return s->var != NULL;
}
