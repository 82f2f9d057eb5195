/* choose.c - which schedule makes the kernels of an operation on a machine: `warps` where its matrix
 * units take the operands and a shape fits, else `lanes`, which every machine has; and up to how many queries a kernel of fewer rows does. Who asks for tf32
 * gets it or is refused: `lanes` multiplies f32. */
#include "schedule.h"

AuSchedule *schedule_choose(AuArena *arena, AuDiags *diags, const AuProblem *p,
                            AuOperation operation)
{
    AuShape shape;
    const char *why = NULL;
    const bool warps = !schedule_values_apart(p);
    if (warps && operation == AU_FORWARD && schedule_warps_shape(arena, p, &shape, &why))
        return schedule_warps_forward(arena, diags, p, &shape);
    if (warps && operation == AU_BACKWARD && schedule_warps_back_shape(arena, p, &shape, &why))
        return schedule_warps_backward(arena, diags, p, &shape);
    if (p->tf32) {
        au_error(diags, AU_E0811, p->attn->span, "%s in tf32 on %s: %s",
                 operation == AU_BACKWARD ? "backward" : "forward", p->caps->name,
                 why ? why : "values that are rows of their own");
        return NULL;
    }
    if (operation == AU_BACKWARD) {
        shape = schedule_lanes_back_shape(p);
        return schedule_lanes_backward(arena, diags, p, &shape);
    }
    shape = schedule_lanes_shape(p);
    return schedule_lanes_forward(arena, diags, p, &shape);
}

int32_t schedule_limit(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    AuProblem usual = *p;
    usual.queries = AU_ANY_QUERIES;
    if (!schedule_values_apart(p) && schedule_warps_shape(arena, &usual, &shape, &why))
        return schedule_warps_limit(arena, p, shape.rows * shape.executors);
    return p->tf32 ? 0 : schedule_lanes_limit(p, p->queries);
}
