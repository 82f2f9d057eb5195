/* report.c - what the kernels of checks found in a run of an artifact that was compiled with --checked: which index of the script
 * left its tensor, and by how much (aule_check_v1); and what is wrong with the lists of a call, which devices take as they are. */
#include "key_pages.h"
#include "report.h"

typedef struct Report {
    const aule_plan *plan;
    const AuBound *bound;
    const aule_address *at; /* lists are the host's */
    AuSink sink;
} Report;

/* Plans are of sizes that can be evaluated. */
static int64_t extent_of(const Report *r, uint32_t tensor, uint32_t axis)
{
    AuEnv env = rt_bound_env(r->plan->attention, r->bound);
    aule_value value = {0};
    const char *wrong =
        rt_evaluate(&rt_tensor(r->plan->attention, tensor)->axes[axis], &env, &value);
    return wrong ? 0 : value.i;
}

/* A list of the call whose name is [size]'s but for their ends: "T_starts" beside "T" or "T_most"; -1: there is none. */
static int32_t list_beside(const Report *r, const char *size, const char *end, const char *instead)
{
    const aule_attention_v1 *a = r->plan->attention;
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(a, i);
        if (t->flags & AULE_TENSOR_SEQUENCES && t->rank == 1 && r->plan->bound.tensors[i] &&
            rt_is_beside(r->plan, i, end, size, instead))
            return (int32_t)i;
    }
    return -1;
}

static int64_t number(const Report *r, int32_t list, int64_t n)
{
    return rt_i32_at(r->plan, (uint32_t)list, &r->at[list], n, 0);
}

/* Of an axis that is the script's T, of which each sequence has its own, that of sequence [b]. */
static int64_t extent_for(const Report *r, uint32_t tensor, uint32_t axis, int64_t b)
{
    const aule_attention_v1 *a = r->plan->attention;
    const int64_t all = extent_of(r, tensor, axis);
    const int32_t size = rt_expr_size(&rt_tensor(a, tensor)->axes[axis]);
    if (size < 0) return all;
    const char *name = a->sizes[size].name;
    int32_t starts = list_beside(r, name, "_starts", "");
    if (starts < 0) starts = list_beside(r, name, "_starts", "_most");
    const int32_t whole = list_beside(r, name, "_whole", ""),
                  lengths = list_beside(r, name, "_lengths", "");
    if (starts >= 0) return number(r, starts, b + 1) - number(r, starts, b);
    return whole >= 0 ? number(r, whole, b) : lengths >= 0 ? number(r, lengths, b) : all;
}

/* Rows that a region has codes of, [b, h, slices, row]: of packed ones all lie one behind the other in one batch. */
typedef struct Rows {
    int64_t batch, heads, count;
    int32_t starts; /* -1: they are not packed */
} Rows;

static uint32_t flags_of(const aule_attention_v1 *a)
{
    uint32_t flags = 0;
    for (uint32_t i = 0; i < a->tensor_count; i++) flags |= rt_tensor(a, i)->flags;
    return flags;
}

/* Of pages no tensor has the number of rows that a sequence has room for: the region's size says it. */
static int64_t row_count(const Report *r, const aule_check_v1 *check, int64_t codes, int64_t blocks)
{
    const bool in_pages = check->rows && flags_of(r->plan->attention) & AULE_TENSOR_TABLE;
    if (!in_pages) return extent_of(r, check->rows, 2);
    return codes % blocks ? 0 : codes / blocks;
}

/* false: the region is not as large as that. */
static bool find_rows(const Report *r, const aule_check_v1 *check, uint64_t bytes, Rows *rows)
{
    const aule_attention_v1 *a = r->plan->attention;
    const int32_t queries = rt_list_of(a, AULE_TENSOR_STARTS_Q, 1),
                  lines = rt_list_of(a, AULE_TENSOR_ROWS_Q, 1),
                  starts = check->rows ? rt_list_of(a, AULE_TENSOR_STARTS_K, 1) : queries;
    const int64_t codes = (int64_t)(bytes / sizeof(int32_t));
    int64_t blocks, all;
    *rows = (Rows){1, extent_of(r, check->rows, 1), 0, starts};
    if (!(flags_of(a) & AULE_TENSOR_SEQUENCES))
        rows->batch = extent_of(r, check->rows, 0);
    else if (starts < 0) /* as many as sequences, wherever their rows lie */
        rows->batch = queries >= 0 ? extent_of(r, (uint32_t)queries, 0) - 1
                                   : extent_of(r, lines < 0 ? 0 : (uint32_t)lines, 0);
    if (rows->batch <= 0 || rows->heads <= 0) return true;
    if (__builtin_mul_overflow(rows->batch, rows->heads, &blocks) ||
        __builtin_mul_overflow(blocks, (int64_t)check->slices, &blocks))
        return false;
    const int64_t count = row_count(r, check, codes, blocks);
    if (count < 0 || __builtin_mul_overflow(blocks, count, &all) || all > codes) return false;
    rows->count = count;
    return true;
}

/* The sequence of row [*row], which becomes its number there; of rows of none there are no codes. */
static int64_t sequence_of(const Report *r, const Rows *rows, int64_t *row)
{
    int64_t b = 0;
    while (b + 2 < extent_of(r, (uint32_t)rows->starts, 0) &&
           number(r, rows->starts, b + 1) <= *row)
        b++;
    *row -= number(r, rows->starts, b);
    return b;
}

static aule_status tell(const Report *r, const aule_check_v1 *check, const Rows *rows, int32_t code,
                        int64_t block, int64_t row)
{
    const int64_t b = rows->starts < 0 ? block / rows->heads : sequence_of(r, rows, &row);
    return rt_fail(r->sink, AULE_ERROR_INDEX,
                   "%s: index %d on axis %u of '%s' is not in [0, %lld) (b %lld, h %lld, %s %lld)",
                   check->text, code < 0 ? code : code - 1, check->axis,
                   rt_tensor(r->plan->attention, check->tensor)->name,
                   (long long)extent_for(r, check->tensor, check->axis, b), (long long)b,
                   (long long)(block % rows->heads), check->rows ? "kv_idx" : "q_idx",
                   (long long)row);
}

/* Tells of the first row whose code is not 0. */
static aule_status look(const Report *r, const aule_check_v1 *check, const int32_t *codes,
                        uint64_t bytes)
{
    Rows rows;
    if (!find_rows(r, check, bytes, &rows))
        return rt_fail(r->sink, AULE_ERROR_ARTIFACT, "%s: a region of checks is too small",
                       r->plan->attention->name);
    for (int64_t block = 0; rows.count > 0 && block < rows.batch * rows.heads; block++)
        for (int64_t row = 0; row < rows.count; row++) {
            const int32_t code = codes[(block * check->slices + check->slice) * rows.count + row];
            if (code != 0) return tell(r, check, &rows, code, block, row);
        }
    return AULE_OK;
}

/* A region on the host: in place where the device's memory is; else a copy, which several checks look at one after the other. */
typedef struct Region {
    int64_t index; /* -1: none yet */
    const int32_t *codes;
    void *copy;
} Region;

static aule_status fetch(const Report *r, const AuLayout *layout, uint32_t index, void *workspace,
                         Region *region)
{
    const aule_plan *plan = r->plan;
    const AuBackend *backend = plan->device->backend;
    const uint64_t at = layout->region_at[index], bytes = layout->region_bytes[index];
    if (region->index == index) return AULE_OK;
    rt_free(region->copy);
    *region = (Region){.index = -1};
    if (!backend->synchronize) {
        region->codes = (const int32_t *)(const void *)((const char *)workspace + at);
        region->index = index;
        return AULE_OK;
    }
    region->copy = rt_alloc(r->sink.memory, bytes + 1);
    if (!region->copy) return rt_fail_memory(r->sink);
    region->codes = region->copy;
    const aule_status status =
        bytes ? backend->download(plan->device->state, workspace, at, region->copy, bytes, r->sink)
              : AULE_OK;
    if (!status) region->index = index;
    return status;
}

/* Of wrong lists the kernels took a part: what they found says less than what is wrong with these. */
static aule_status look_at_all(const Report *r, const AuLayout *layout, void *workspace)
{
    const aule_plan *plan = r->plan;
    Region region = {.index = -1};
    aule_status status = AULE_OK;
    if (plan->device->backend->synchronize) /* else they were looked at before the run */
        status = rt_check_sequences(plan, r->bound, r->at, r->sink);
    for (uint32_t i = 0; i < rt_check_count(plan->variant) && !status; i++) {
        const aule_check_v1 *check = &plan->variant->checks[i];
        if (check->slices == 0) continue; /* a list */
        status = fetch(r, layout, check->region, workspace, &region);
        if (!status) status = look(r, check, region.codes, layout->region_bytes[check->region]);
    }
    rt_free(region.copy);
    return status;
}

aule_status rt_report(const aule_plan *plan, const AuBound *bound, const AuLayout *layout,
                      void *workspace, const aule_address *at, AuSink sink)
{
    AuHostLists lists;
    if (!rt_check_count(plan->variant)) return AULE_OK;
    aule_status status = rt_host_lists(plan, at, &lists, sink);
    const Report r = {plan, bound, lists.at, sink};
    if (!status) status = look_at_all(&r, layout, workspace);
    rt_host_lists_free(&lists);
    return status;
}
