/* roles.c - which executors of the block have which role, where the roles part, and where they meet.
 *
 * With one role there is nothing to part. Else roles of warps come first, one warp behind the other; where there are roles of groups,
 * the warps of the others fill up groups too, so that registers can change hands between groups:
 *
 *     if warp / 4 < 1 { registers #24; if warp == 0 { role load } } else { registers #240; role mma }
 *
 * What a kernel knows before its roles part (sizes, lets, tile lists, barriers in memory) is computed in front of them. */
#include "internal.h"

enum { NAMED = 16, GROUP = 4 };

/* ---- who */

static uint32_t warps_of(const AuTileRole *role)
{
    return role->on == TILE_ON_WARPGROUP ? GROUP : 1;
}

static uint32_t many_of(const AuTileRole *role)
{
    return role->on == TILE_ON_THREAD || role->many_value < 1 ? 1 : (uint32_t)role->many_value;
}

static uint32_t whole_groups(const AuLower *l, uint32_t warps)
{
    const uint32_t group = l->k->group ? l->k->group : 1;
    return (warps + group - 1) / group * group;
}

/* Warps of the roles that are [grouped] or not, from the first on. */
static void place_roles(AuLower *l, bool grouped, uint32_t *first)
{
    for (uint32_t n = 0; n < l->tile->roles.count; n++) {
        const AuTileRole *role = l->tile->roles.at[n];
        if ((warps_of(role) > 1) != grouped) continue;
        l->plans[n] = (AuRolePlan){role, *first, warps_of(role), many_of(role), 0};
        *first += l->plans[n].warps * l->plans[n].many;
    }
}

/* Numbers of named barriers: those of the program first, then one for each group of warps. */
static void number_barriers(AuLower *l)
{
    uint32_t next = 1;
    for (uint32_t n = 0; n < l->tile->barriers.count; n++)
        next += (uint32_t)l->tile->barriers.at[n]->many_value;
    for (uint32_t n = 0; n < l->tile->roles.count; n++) {
        AuRolePlan *plan = &l->plans[n];
        if (plan->warps == 1) continue;
        plan->barrier = next;
        next += plan->many;
    }
    if (l->has_units && next > NAMED) lower_refuse(l, "more than %d barriers", NAMED - 1);
}

bool lower_plan(AuLower *l)
{
    const AuTileKernel *t = l->tile;
    uint32_t warps = 0;
    l->plans = AU_NEW_ARRAY(l->arena, AuRolePlan, t->roles.count + 1);
    for (uint32_t n = 0; n < t->roles.count; n++) {
        const AuTileRole *role = t->roles.at[n];
        if (role->on == TILE_ON_BLOCK || (role->on == TILE_ON_THREAD && t->roles.count > 1))
            lower_refuse(l, "role %s of a %s", role->name, tile_executor_name(role->on));
        if (warps_of(role) > 1) l->k->group = GROUP;
        l->vector_access |= lower_unit(l->module, role)->vector_access;
    }
    l->has_units = t->roles.count > 1 || t->pipes.count || l->k->group;
    l->is_persistent = l->module->options.persistent && t->pipes.count;
    place_roles(l, false, &warps);
    if (l->k->group) warps = whole_groups(l, warps);
    place_roles(l, true, &warps);
    l->k->warps = warps;
    number_barriers(l);
    return !l->failed;
}

/* ---- where they part */

/* Roles that share a group of warps, or one role of groups. */
static uint32_t end_of_part(const AuLower *l, const AuRolePlan *plan)
{
    const uint32_t end = plan->first + plan->warps * plan->many;
    if (plan->warps > 1 || !l->k->group) return end;
    uint32_t all = 0;
    for (uint32_t n = 0; n < l->tile->roles.count; n++)
        if (l->plans[n].warps == 1) all += l->plans[n].many;
    return whole_groups(l, all);
}

/* Registers of a lane that the roles before this warp ask for; 0: none does. */
static uint32_t registers_of(const AuLower *l, uint32_t begin, uint32_t end)
{
    int32_t most = 0;
    for (uint32_t n = 0; n < l->tile->roles.count; n++) {
        const AuRolePlan *plan = &l->plans[n];
        if (plan->first >= begin && plan->first < end && plan->role->regs_value > most)
            most = plan->role->regs_value;
    }
    return (uint32_t)most;
}

static void check_registers(AuLower *l, uint32_t all)
{
    const int32_t there = l->module->caps->processor_registers;
    if (there && all * l->k->lanes > (uint32_t)there)
        lower_refuse(l, "registers of %u lanes' roles, %u of %d", l->k->lanes * l->k->warps,
                     all * l->k->lanes, there);
}

void lower_begin_role(AuLower *l, const AuRolePlan *plan)
{
    const AuRoleState kernel = l->r;
    l->r =
        (AuRoleState){.role = plan->role, .plan = plan, .unit = lower_unit(l->module, plan->role)};
    l->r.vars = AU_NEW_ARRAY(l->arena, AuHeld, plan->role->vars.count + 1);
    for (uint32_t n = 0; n < kernel.tiles_count; n++) l->r.tiles[n] = kernel.tiles[n];
    l->r.tiles_count = kernel.tiles_count;
}

/* Which of the role's executors this is, and which warp of it. In this order of operations the verifier sees that it is one number for
 * all of a group. */
static void find_self(AuLower *l)
{
    AuKernel *k = l->k;
    const AuRolePlan *plan = l->r.plan;
    const int32_t warps = (int32_t)plan->warps, before = (int32_t)(plan->first / plan->warps);
    if (k->warps == 1 || (plan->many == 1 && l->has_units)) {
        l->r.self = kernel_i32(k, 0);
    } else {
        l->r.self = kernel_warp(k);
        if (warps > 1) l->r.self = kernel_op2(k, AU_K_IDIV, l->r.self, kernel_i32(k, warps));
        if (before) l->r.self = kernel_op2(k, AU_K_SUB, l->r.self, kernel_i32(k, before));
    }
    if (warps > 1) l->r.warp = kernel_op2(k, AU_K_IMOD, kernel_warp(k), kernel_i32(k, warps));
}

/* The roles that begin in the warps [begin, end): one after the other. */
static void part(AuLower *l, uint32_t begin, uint32_t end, void (*body)(AuLower *l))
{
    AuKernel *k = l->k;
    for (uint32_t n = 0; n < l->tile->roles.count && !l->failed; n++) {
        const AuRolePlan *plan = &l->plans[n];
        const uint32_t last = plan->first + plan->warps * plan->many;
        if (plan->first < begin || plan->first >= end) continue;
        const bool all = plan->first == begin && last == end;
        if (!all) {
            const AuVal warp = kernel_warp(k);
            AuVal mine = kernel_op2(k, AU_K_LT, warp, kernel_i32(k, (int32_t)last));
            if (plan->first > begin)
                mine = kernel_op2(k, AU_K_LAND,
                                  kernel_op2(k, AU_K_LE, kernel_i32(k, (int32_t)plan->first), warp),
                                  mine);
            kernel_if(k, mine);
        }
        lower_begin_role(l, plan);
        find_self(l);
        body(l);
        if (!all) kernel_end(k);
    }
}

void lower_each_role(AuLower *l, void (*body)(AuLower *l))
{
    AuKernel *k = l->k;
    const uint32_t group = k->group ? k->group : 1;
    uint32_t begin = 0, open = 0, all = 0;
    if (l->tile->roles.count == 1 && !l->has_units) {
        find_self(l);
        body(l);
        return;
    }
    while (begin < k->warps && !l->failed) {
        const AuRolePlan *plan = l->plans;
        while (plan->first != begin) plan++;
        const uint32_t end = end_of_part(l, plan), registers = registers_of(l, begin, end);
        if (end < k->warps) {
            const AuVal which =
                kernel_op2(k, AU_K_IDIV, kernel_warp(k), kernel_i32(k, (int32_t)group));
            kernel_if(k, kernel_op2(k, AU_K_LT, which, kernel_i32(k, (int32_t)(end / group))));
        }
        if (registers && k->group) kernel_registers(k, registers);
        all += registers * (end - begin);
        part(l, begin, end, body);
        begin = end;
        if (end < k->warps) kernel_else(k), open++;
    }
    while (open--) kernel_end(k);
    check_registers(l, all);
}

/* ---- where they meet */

AuVal lower_one_lane(AuLower *l)
{
    if (l->r.plan->warps == 1) return l->elected;
    return lower_both(l, l->elected, kernel_op2(l->k, AU_K_EQ, l->r.warp, kernel_i32(l->k, 0)));
}

void lower_meet_self(AuLower *l)
{
    AuKernel *k = l->k;
    const AuRolePlan *plan = l->r.plan;
    if (plan->warps == 1) {
        kernel_barrier(k, 1);
        return;
    }
    const AuVal number = kernel_op2(k, AU_K_ADD, l->r.self, kernel_i32(k, (int32_t)plan->barrier));
    kernel_sync(k, number, plan->warps * k->lanes);
}

/* Lanes that come to the barrier: executors of one kind count alike. 0: they are of several. */
typedef struct Comers {
    const AuTileBarrier *barrier;
    uint32_t warps;
    bool differ;
} Comers;

static void find_comers(Comers *c, const AuTileRole *role, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) find_comers(c, role, parts.bodies[i]);
        if ((s->kind != TILE_S_SYNC && s->kind != TILE_S_ARRIVE) ||
            s->barrier.barrier != c->barrier)
            continue;
        c->differ |= c->warps && c->warps != warps_of(role);
        c->warps = warps_of(role);
    }
}

static void meet_others(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    const AuTileBarrier *b = s->barrier.barrier;
    Comers c = {.barrier = b};
    int32_t first = 1;
    for (uint32_t n = 0; n < l->tile->roles.count; n++)
        find_comers(&c, l->tile->roles.at[n], &l->tile->roles.at[n]->body);
    if (c.differ) lower_refuse(l, "barrier %s of executors of several kinds", b->name);
    for (uint32_t n = 0; l->tile->barriers.at[n] != b; n++)
        first += l->tile->barriers.at[n]->many_value;
    AuVal number = kernel_i32(k, first);
    if (s->barrier.index)
        number = kernel_op2(k, AU_K_ADD, number, lower_integer(l, s->barrier.index));
    const uint32_t lanes = (uint32_t)b->count_value * c.warps * k->lanes;
    if (s->kind == TILE_S_SYNC)
        kernel_sync(k, number, lanes);
    else
        kernel_arrive(k, number, lanes);
}

void lower_meet(AuLower *l, const AuTileStmt *s)
{
    const AuTileBarrier *b = s->barrier.barrier;
    if (!b) {
        if (s->barrier.fences) kernel_fence(l->k, AU_K_FENCE_PROXY);
        lower_meet_self(l);
        return;
    }
    const bool alone = l->r.unit->meets_alone,
               all = !l->has_units && (alone || b->count_value == (int32_t)l->k->warps);
    if (!all || s->kind == TILE_S_ARRIVE)
        meet_others(l, s);
    else if (l->k->warps > 1 || alone)
        kernel_barrier(l->k, 0);
}
