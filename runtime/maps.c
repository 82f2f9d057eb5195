#include "maps.h"

enum { MAP_ALIGN = 16 };
static const uint64_t most_size = 1ull << 32, most_stride = 1ull << 40,
                      most_cut = 1ull << 31; /* rows whose numbers are coordinates: i32 */

/* ---- one map */

static const char *size_of(const aule_expr *expr, const AuEnv *env, uint64_t *size)
{
    aule_value value;
    const char *wrong = rt_evaluate(expr, env, &value);
    if (wrong) return wrong;
    if (value.type != AULE_VALUE_INT || value.i < 1 || (uint64_t)value.i > most_size)
        return "has an extent that no map describes";
    *size = (uint64_t)value.i;
    return NULL;
}

/* In elements: as the expression says, as the tensor comes, or of a contiguous array. */
static const char *stride_of(const aule_map_v1 *map, uint32_t d, const AuEnv *env,
                             const AuBound *bound, const AuMapView *view, int64_t *stride)
{
    aule_value value;
    if (map->stride[d].code) {
        const char *wrong = rt_evaluate(&map->stride[d], env, &value);
        *stride = value.i;
        return wrong ? wrong : value.type != AULE_VALUE_INT ? "has no whole stride" : NULL;
    }
    if (map->kind == AULE_SLOT_TENSOR) {
        *stride = bound->strides[map->index][map->rank - 1 - d];
        return NULL;
    }
    *stride = 1;
    for (uint32_t n = 0; n < d; n++) *stride *= (int64_t)view->size[n];
    return NULL;
}

static const char *check_dimension(uint32_t d, uint64_t size, int64_t stride, uint64_t bytes)
{
    if (size == 1) return NULL;
    if (d == 0) return stride == 1 ? NULL : "is not contiguous";
    if (stride <= 0 || (uint64_t)stride > most_stride / bytes)
        return "has a stride that no map describes";
    return (uint64_t)stride * bytes % MAP_ALIGN ? "has a stride that is no multiple of 16 bytes"
                                                : NULL;
}

/* The dimension that is cut once more: see AULE_MAP_CUT. Nothing before the tensor is read, since what is inside of both is in the tensor. */
static bool add_cut(AuMapView *view, uint32_t cut)
{
    if (!cut) return true;
    if (view->size[cut] >= most_cut) return false;
    view->size[view->rank] = view->size[cut] + 1;
    view->stride[view->rank] = view->stride[cut];
    view->before = view->size[cut] * view->stride[cut];
    view->rank++;
    return true;
}

/* NULL: [view] describes the map; else why there is none. Tensors that were not passed have none, and nobody asks for it. */
static const char *view_of(const aule_attention_v1 *a, const aule_map_v1 *map, const AuBound *bound,
                           AuMapView *view)
{
    const AuEnv env = rt_bound_env(a, bound);
    const uint64_t bytes = rt_dtype_bytes(map->dtype);
    *view = (AuMapView){0};
    if (map->kind == AULE_SLOT_TENSOR && !bound->tensors[map->index]) return NULL;
    for (uint32_t d = 0; d < map->rank; d++) {
        int64_t stride = 0;
        const char *wrong = size_of(&map->size[d], &env, &view->size[d]);
        if (!wrong) wrong = stride_of(map, d, &env, bound, view, &stride);
        if (!wrong) wrong = check_dimension(d, view->size[d], stride, bytes);
        if (wrong) return wrong;
        view->stride[d] = view->size[d] == 1 ? MAP_ALIGN : (uint64_t)stride * bytes;
    }
    view->rank = map->rank;
    if (!add_cut(view, AULE_MAP_CUT(map->flags))) return "has an extent that no map cuts";
    const bool splits = view->size[0] * bytes % MAP_ALIGN && map->flags & AULE_MAP_WRITTEN;
    return splits ? "has rows that are no multiples of 16 bytes" : NULL;
}

/* ---- the maps of a variant */

typedef const char *(*Visit)(const aule_map_v1 *map, uint32_t number, void *user);

/* Stops at the first that gives a text. */
static const char *each_map(const aule_variant_v1 *v, Visit visit, void *user)
{
    uint32_t number = 0;
    const char *wrong = NULL;
    for (uint32_t i = 0; i < v->launch_count && !wrong; i++) {
        const aule_launch_v1 *launch = rt_launch(v, i);
        for (uint32_t n = 0; n < rt_map_count(launch) && !wrong; n++)
            wrong = visit(rt_map(launch, n), number++, user);
    }
    return wrong;
}

typedef struct Call {
    const aule_attention_v1 *a;
    const AuBound *bound;
    const aule_address *at;
    AuMapView *views;
    const aule_map_v1 *map; /* the one at hand */
} Call;

static bool is_aligned(const void *data, uint64_t offset)
{
    return ((uintptr_t)data + offset) % MAP_ALIGN == 0;
}

static const char *fits(const aule_map_v1 *map, uint32_t number, void *user)
{
    const Call *call = user;
    AuMapView view;
    (void)number;
    const char *wrong = view_of(call->a, map, call->bound, &view);
    if (wrong || map->kind != AULE_SLOT_TENSOR) return wrong;
    const DLTensor *given = call->bound->tensors[map->index];
    return !given || is_aligned(given->data, given->byte_offset) ? NULL : "is not aligned";
}

bool rt_maps_fit(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                 const AuBound *bound)
{
    Call call = {.a = attention, .bound = bound};
    return !each_map(variant, fits, &call);
}

static const char *lay_out(const aule_map_v1 *map, uint32_t number, void *user)
{
    Call *call = user;
    call->map = map;
    return view_of(call->a, map, call->bound, &call->views[number]);
}

aule_status rt_lay_out_maps(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                            const AuBound *bound, AuMapView *views, AuSink sink)
{
    Call call = {.a = attention, .bound = bound, .views = views};
    const char *wrong = each_map(variant, lay_out, &call);
    if (!wrong) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s %s, which kernels '%s' copy in boxes",
                   attention->name,
                   call.map->kind == AULE_SLOT_TENSOR ? rt_tensor(attention, call.map->index)->name
                                                      : "a workspace",
                   wrong, variant->schedule);
}

static const char *moves(const aule_map_v1 *map, uint32_t number, void *user)
{
    Call *call = user;
    (void)number;
    call->map = map;
    if (map->kind != AULE_SLOT_TENSOR || !call->bound->tensors[map->index]) return NULL;
    const aule_address *at = &call->at[map->index];
    return is_aligned(at->data, at->byte_offset) ? NULL : "is not aligned";
}

aule_status rt_check_map_addresses(const aule_plan *plan, const aule_address *at, AuSink sink)
{
    Call call = {.a = plan->attention, .bound = &plan->bound, .at = at};
    if (!each_map(plan->variant, moves, &call)) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: %s: its address is no multiple of %d bytes, as it was when the plan was "
                   "made: make another plan with this address",
                   plan->attention->name, rt_tensor(plan->attention, call.map->index)->name,
                   MAP_ALIGN);
}
