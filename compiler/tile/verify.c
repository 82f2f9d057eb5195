/* verify.c - tile_verify: what a kernel declares, its needs against the target's, then each role's statements. */
#include "verify.h"

const AuTileType *verify_error(Verify *v, AuCode code, AuSpan span, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *message = au_vformat(v->diags->arena, format, arguments);
    va_end(arguments);
    au_error(v->diags, code, span.source || !v->stmt ? span : v->stmt->span, "%s", message);
    v->failed = true;
    return NULL;
}

/* ---- scalars that all roles see */

static AuTileVar *add_scalar(Verify *v, const char *name, AuTileVarOrigin origin, AuTileElem elem,
                             AuSpan span)
{
    for (uint32_t i = 0; i < v->kernel->vars.count; i++)
        if (v->kernel->vars.at[i]->name == name)
            verify_error(v, AU_E0702, span, "%s is the name of something else already", name);
    AuTileVar *var = AU_NEW(v->arena, AuTileVar);
    *var = (AuTileVar){.name = name,
                       .origin = origin,
                       .type = new_type(v, elem, 0),
                       .slot = v->kernel->vars.count};
    AU_PUSH(v->arena, v->kernel->vars.at, v->kernel->vars.count, v->kernel->vars.capacity, var);
    return var;
}

static bool has_few_axes(Verify *v, const AuTileMemory *m)
{
    if (m->type.count <= TILE_MAX_AXES) return true;
    return verify_error(v, AU_E0703, m->span, "%s has %u axes, at most %d are possible", m->name,
                        m->type.count, TILE_MAX_AXES);
}

/* Extents that are names are the sizes of the launch; the first tensor that has one defines it. */
static void add_sizes(Verify *v, AuTileMemory *m, uint32_t arg)
{
    for (uint32_t i = 0; i < m->type.count; i++) {
        const AuTileExpr *extent = m->type.axes[i].extent;
        if (extent->op != TILE_X_NAME || find_var(v, extent->name)) continue;
        AuTileVar *var = add_scalar(v, extent->name, TILE_FROM_SIZE, TILE_I32, m->span);
        var->arg = arg;
        var->axis = i;
    }
}

/* A packed tensor consists of whole pieces, and one exists: an instruction whose operand lies in lanes that are known. */
static void check_packed(Verify *v, AuTileMemory *m)
{
    if (!m->packed.kind) return;
    if (m->mode == TILE_PARAM || m->type.count < 2) {
        verify_error(v, AU_E0703, m->span, "%s is packed and has no rows and columns", m->name);
        return;
    }
    const AuTileAxis *axes = &m->type.axes[m->type.count - 2];
    AuTileType *piece = new_type(v, m->type.elem, 2);
    for (int n = 0; n < 2; n++)
        piece->axes[n] = (AuTileAxis){.name = axes[n].name,
                                      .size = tile_atom_extent(m->packed.atom, m->packed.use, n)};
    if (!place(v, &m->packed, piece)) return;
    if (!piece->axes[0].places) {
        verify_error(v, AU_E0704, m->packed.span, "nobody knows in which lanes %s.%s lies",
                     m->packed.atom->name, tile_use_names[m->packed.use]);
        return;
    }
    for (int n = 0; n < 2; n++)
        if (tile_divisor(axes[n].extent) % piece->axes[n].size)
            verify_error(v, AU_E0704, m->span,
                         "%s consists of pieces: axis %s must be a multiple of %d for all sizes",
                         m->name, axes[n].name, piece->axes[n].size);
    m->piece = piece;
}

static void check_args(Verify *v)
{
    AuTileKernel *k = v->kernel;
    for (uint32_t i = 0; i < k->args.count; i++) {
        AuTileMemory *m = k->args.at[i];
        m->stages = 1;
        has_few_axes(v, m);
        if (m->mode == TILE_PARAM) {
            const AuTileElem elem = tile_elem(m->type.elem)->memory_only ? TILE_I32 : m->type.elem;
            if (m->type.count)
                verify_error(v, AU_E0703, m->span,
                             "a parameter is a scalar; a tensor is in, out or inout");
            else
                add_scalar(v, m->name, TILE_FROM_PARAM, elem, m->span)->arg = i;
        } else {
            add_sizes(v, m, i);
        }
    }
    for (uint32_t i = 0; i < k->args.count; i++)
        for (uint32_t a = 0; a < k->args.at[i]->type.count; a++) {
            AuTileExpr *extent = k->args.at[i]->type.axes[a].extent;
            expect_scalar(v, extent, "an extent");
            if (extent->op == TILE_X_INT)
                constant(v, extent, "an extent", &k->args.at[i]->type.axes[a].size);
        }
    for (uint32_t i = 0; i < k->args.count && !v->failed; i++) check_packed(v, k->args.at[i]);
}

static void check_grid_and_lets(Verify *v)
{
    AuTileKernel *k = v->kernel;
    for (uint32_t i = 0; i < k->grid.count; i++)
        expect_scalar(v, k->grid.at[i].extent, "an extent of the grid");
    for (uint32_t i = 0; i < k->grid.count; i++)
        add_scalar(v, k->grid.at[i].name, TILE_FROM_GRID, TILE_I32, k->span)->axis = i;
    for (uint32_t i = 0; i < k->lets.count && !v->failed; i++) {
        AuTileStmt *s = k->lets.at[i];
        v->stmt = s;
        if (!expect_scalar(v, s->assign.value, "a let")) return;
        s->var = add_scalar(v, s->assign.names.at[0], TILE_FROM_LET, s->assign.value->type->elem,
                            s->span);
    }
    v->stmt = NULL;
}

/* list(row of an index tensor, count): the row has one `:`, elsewhere scalars. */
static void check_index_row(Verify *v, AuTileExpr *row)
{
    uint32_t all = 0;
    row->memory = find_memory(v, row->name);
    if (!row->memory || row->memory->mode != TILE_IN ||
        row->args.count != row->memory->type.count) {
        verify_error(v, AU_E0703, row->span,
                     "expected a row of a read-only index tensor: t[b, m, :]");
        return;
    }
    for (uint32_t i = 0; i < row->args.count; i++) {
        if (row->args.at[i]->op == TILE_X_ALL)
            all++;
        else
            expect_scalar(v, row->args.at[i], "an index of a tile list");
    }
    if (all != 1) verify_error(v, AU_E0703, row->span, "a row of an index tensor has one `:`");
}

static void check_lists(Verify *v)
{
    for (uint32_t i = 0; i < v->kernel->lists.count; i++)
        for (uint32_t g = 0; g < v->kernel->lists.at[i]->segments.count; g++) {
            AuTileSegment *segment = &v->kernel->lists.at[i]->segments.at[g];
            if (segment->how == TILE_INDEX_LIST)
                check_index_row(v, segment->a);
            else
                expect_scalar(v, segment->a, "a bound of a tile list");
            expect_scalar(v, segment->b, "a bound of a tile list");
        }
}

/* ---- memory of a block, pipelines, barriers */

/* Rows consist of swizzle spans, and spans of 16-byte vectors. */
static void check_swizzle_span(Verify *v, const AuTileMemory *m)
{
    const AuTileAxis *last = m->type.count ? &m->type.axes[m->type.count - 1] : NULL;
    const int32_t row = last ? last->size * tile_elem(m->type.elem)->bytes : 0;
    if (m->swizzle_span && tile_swizzle_span(row, m->swizzle_span_bytes) != m->swizzle_span_bytes)
        verify_error(v, AU_E0703, m->swizzle_span->span,
                     "rows of %d bytes have no swizzle spans of %d", row, m->swizzle_span_bytes);
}

static void check_memory(Verify *v, AuTileMemory *m, int32_t times)
{
    const AuTileCaps *caps = v->module->caps;
    const int32_t room = m->space == TILE_TENSOR ? caps->tensor_bytes : caps->shared_bytes;
    int64_t bytes = (int64_t)times * tile_elem(m->type.elem)->bytes;
    if (!room) {
        verify_error(v, AU_E0708, m->span, "%s has no %s memory: %s", caps->name,
                     tile_space_names[m->space], m->name);
        return;
    }
    if (!has_few_axes(v, m)) return;
    if (m->swizzle) constant(v, m->swizzle, "a swizzle", &m->swizzle_bytes);
    if (m->swizzle_span) constant(v, m->swizzle_span, "a swizzle span", &m->swizzle_span_bytes);
    m->stages = m->pipe ? m->pipe->stage_count : 1;
    for (uint32_t i = 0; i < m->type.count; i++) {
        AuTileAxis *axis = &m->type.axes[i];
        if (!constant(v, axis->extent, "an extent", &axis->size)) return;
        if (bytes < INT32_MAX) bytes *= axis->size;
    }
    check_swizzle_span(v, m);
    check_packed(v, m);
    int32_t *used = m->space == TILE_TENSOR ? &v->kernel->tensor_used : &v->kernel->shared_used;
    const int64_t sum = *used + bytes;
    *used = sum > INT32_MAX ? INT32_MAX : (int32_t)sum;
}

static AuTileRole *find_role(Verify *v, const char *name, AuSpan span)
{
    for (uint32_t i = 0; i < v->kernel->roles.count; i++)
        if (v->kernel->roles.at[i]->name == name) return v->kernel->roles.at[i];
    verify_error(v, AU_E0702, span, "no role %s", name);
    return NULL;
}

static void check_pipe(Verify *v, AuTilePipe *p)
{
    if (!v->module->caps->pipelines)
        verify_error(v, AU_E0708, p->span, "%s has no pipelines between roles: %s",
                     v->module->caps->name, p->name);
    p->producer = find_role(v, p->producer_name, p->span);
    p->consumer = find_role(v, p->consumer_name, p->span);
    if (p->also_name) {
        p->also = find_role(v, p->also_name, p->span);
        if (p->each != TILE_EACH_NONE || p->one_consumer || p->also == p->consumer)
            verify_error(v, AU_E0706, p->span,
                         "stages of %s are those of all instances of two roles, or of one role",
                         p->name);
    }
    if (v->failed || !constant(v, p->stages, "the number of stages", &p->stage_count)) return;
    p->rings = p->each == TILE_EACH_PRODUCER   ? p->producer->many_value
               : p->each == TILE_EACH_CONSUMER ? p->consumer->many_value
                                               : 1;
    for (uint32_t i = 0; i < p->tiles.count; i++)
        check_memory(v, p->tiles.at[i], p->stage_count * p->rings);
}

static void check_declarations(Verify *v)
{
    AuTileKernel *k = v->kernel;
    for (uint32_t i = 0; i < k->shared.count; i++) check_memory(v, k->shared.at[i], 1);
    for (uint32_t i = 0; i < k->pipes.count; i++) check_pipe(v, k->pipes.at[i]);
    for (uint32_t i = 0; i < k->barriers.count; i++) {
        AuTileBarrier *b = k->barriers.at[i];
        b->many_value = 1;
        if (b->many) constant(v, b->many, "the number of barriers", &b->many_value);
        constant(v, b->count, "how many meet at a barrier", &b->count_value);
    }
}

/* Numbers of executors; threads of the block. */
static void check_executors(Verify *v)
{
    const AuTileCaps *caps = v->module->caps;
    int64_t threads = 0;
    for (uint32_t i = 0; i < v->kernel->roles.count; i++) {
        AuTileRole *role = v->kernel->roles.at[i];
        role->many_value = 1;
        if (role->many) constant(v, role->many, "how many execute a role", &role->many_value);
        if (role->regs) constant(v, role->regs, "registers", &role->regs_value);
        if (!(caps->executors >> role->on & 1))
            verify_error(v, AU_E0708, role->span, "%s has no executor %s", caps->name,
                         tile_executor_name(role->on));
        const int32_t width = role->on == TILE_ON_THREAD      ? 1
                              : role->on == TILE_ON_WARP      ? caps->lanes
                              : role->on == TILE_ON_WARPGROUP ? 4 * caps->lanes
                                                              : 0;
        threads += (int64_t)role->many_value * width;
    }
    v->kernel->threads = threads > INT32_MAX ? INT32_MAX : (int32_t)threads;
}

/* Roles that divide the registers among them have no other place for their fragments. */
static int32_t most_registers(const AuTileCaps *caps, const AuTileKernel *k)
{
    return k->roles.count > 1 ? caps->registers : tile_most_words(caps);
}

static void check_needs(Verify *v)
{
    const AuTileCaps *caps = v->module->caps;
    const AuTileKernel *k = v->kernel;
    const int32_t registers = most_registers(caps, k);
    if (k->shared_used > caps->shared_bytes)
        verify_error(v, AU_E0709, k->span, "%d bytes of shared memory, %s has %d", k->shared_used,
                     caps->name, caps->shared_bytes);
    if (k->tensor_used > caps->tensor_bytes)
        verify_error(v, AU_E0709, k->span, "%d bytes of tensor memory, %s has %d", k->tensor_used,
                     caps->name, caps->tensor_bytes);
    if (k->threads > caps->threads)
        verify_error(v, AU_E0709, k->span, "%d threads, a block of %s has at most %d", k->threads,
                     caps->name, caps->threads);
    for (uint32_t i = 0; i < k->roles.count; i++)
        if (k->roles.at[i]->fragment_registers > registers)
            verify_error(v, AU_E0709, k->roles.at[i]->span,
                         "role %s declares %d registers a lane of %d", k->roles.at[i]->name,
                         k->roles.at[i]->fragment_registers, registers);
}

static bool verify_kernel(Verify *v, AuTileKernel *k, AuTileRules rules)
{
    v->kernel = k;
    v->role = NULL;
    v->stmt = NULL;
    v->privates.count = 0;
    k->vars.count = 0;
    k->shared_used = k->tensor_used = 0;
    check_args(v);
    if (!v->failed) check_grid_and_lets(v);
    if (!v->failed) check_lists(v);
    if (!v->failed) check_executors(v);
    if (!v->failed) check_declarations(v);
    if (v->failed) return false;
    bool ok = true;
    for (uint32_t i = 0; i < k->roles.count; i++) {
        const bool typed = verify_role(v, k->roles.at[i]);
        ok &=
            typed && (rules == TILE_TYPES_ONLY || verify_flow(v->arena, v->diags, k->roles.at[i]));
    }
    v->stmt = NULL;
    check_needs(v);
    return ok && !v->failed;
}

bool tile_verify(AuDiags *diags, AuTileModule *module, AuTileRules rules)
{
    bool ok = true;
    for (uint32_t i = 0; i < module->kernels.count; i++) {
        Verify v = {.arena = module->arena, .diags = diags, .module = module};
        ok &= verify_kernel(&v, module->kernels.at[i], rules);
    }
    return ok;
}
