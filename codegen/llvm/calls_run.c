/* calls_run.c - one variant: its workspace laid out, the parameter block of each launch filled, the
 * grids run. The meaning of slots is that of <aule/artifact.h>. */
#include "calls_ir.h"

#include <string.h>

static void kernel(AuCalls *c, const char *name)
{
    for (uint32_t n = 0; n < c->kernel_count; n++)
        if (strcmp(c->kernels[n], name) == 0) return;
    AU_PUSH(c->arena, c->kernels, c->kernel_count, c->kernel_capacity, name);
}

/* Offsets of regions into %b; gives the bytes of all. */
static const char *workspace(AuCalls *c, const aule_variant_v1 *v)
{
    const char *end = "0";
    for (uint32_t r = 0; r < v->workspace_count; r++) {
        const aule_workspace_v1 *w = &v->workspaces[r];
        const char *up = calls_value(c, "add i64 %s, %u", end, w->align - 1);
        const char *at = calls_value(c, "and i64 %s, -%u", up, w->align);
        const char *bytes = calls_count(c, &w->bytes, "the workspace");
        calls_store(c, c->region_at + r, at);
        const char *last = calls_value(c, "add i64 %s, %s", at, bytes);
        end = calls_value(c, "and i64 %s, -8", calls_value(c, "add i64 %s, 7", last));
    }
    return end;
}

static void check_workspace(AuCalls *c, const char *total)
{
    if (strcmp(total, "0") == 0) return;
    const char *needed = calls_value(c, "icmp ne i64 %s, 0", total);
    const char *address = calls_load(c, c->workspace_at), *bytes = calls_load(c, c->bytes_at);
    const char *low = calls_value(c, "and i64 %s, 63", address);
    const char *null = calls_value(c, "icmp eq i64 %s, 0", address);
    const char *odd = calls_value(c, "icmp ne i64 %s, 0", low);
    const char *small = calls_value(c, "icmp ult i64 %s, %s", bytes, total);
    const struct {
        const char *wrong, *message;
    } checks[] = {{null, "workspace is NULL, and this call needs one"},
                  {odd, "workspace is not aligned to 64 bytes"},
                  {small, "workspace_bytes is less than this call needs"}};
    for (uint32_t n = 0; n < 3; n++) {
        const char *both = calls_value(c, "and i1 %s, %s", needed, checks[n].wrong);
        calls_check(c, calls_value(c, "xor i1 %s, true", both), "%s: %s", c->a->name,
                    checks[n].message);
    }
}

static const char *region(AuCalls *c, uint32_t r)
{
    return calls_value(c, "add i64 %s, %s", calls_load(c, c->workspace_at),
                       calls_load(c, c->region_at + r));
}

static void zero_regions(AuCalls *c, const aule_variant_v1 *v)
{
    for (uint32_t r = 0; r < v->workspace_count; r++) {
        if (!v->workspaces[r].zeroed) continue;
        const char *bytes = calls_count(c, &v->workspaces[r].bytes, "the workspace");
        const char *at = calls_value(c, "inttoptr i64 %s to ptr", region(c, r));
        au_text_add(&c->text, "  call void @clear(ptr %s, i64 %s)\n", at, bytes);
    }
}

static const char *param_slot(AuCalls *c, uint32_t index)
{
    const char *bits = calls_load(c, c->param_at + index);
    if (c->a->params[index].dtype != AULE_F32) return bits;
    const char *wide = calls_value(c, "bitcast i64 %s to double", bits);
    const char *narrow = calls_value(c, "fptrunc double %s to float", wide);
    const char *word = calls_value(c, "bitcast float %s to i32", narrow);
    return calls_value(c, "zext i32 %s to i64", word);
}

static const char *slot_value(AuCalls *c, const aule_slot_v1 *slot)
{
    switch ((aule_slot_kind)slot->kind) {
    case AULE_SLOT_TENSOR: return calls_load(c, c->tensor_at[slot->index]);
    case AULE_SLOT_STRIDE: return calls_load(c, c->tensor_at[slot->index] + 1 + slot->dim);
    case AULE_SLOT_SIZE: return calls_load(c, slot->index);
    case AULE_SLOT_PARAM: return param_slot(c, slot->index);
    case AULE_SLOT_WORKSPACE: return region(c, slot->index);
    case AULE_SLOT_PRESENT: {
        const char *at = calls_load(c, c->tensor_at[slot->index]);
        return calls_value(c, "zext i1 %s to i64", calls_value(c, "icmp ne i64 %s, 0", at));
    }
    }
    return "0";
}

static void launch(AuCalls *c, const aule_launch_v1 *l)
{
    const char *slots = calls_value(c, "alloca [%u x i64], align 64", l->slot_count + 1);
    kernel(c, l->entry);
    for (uint32_t n = 0; n < l->slot_count; n++) {
        const char *value = slot_value(c, &l->slots[n]);
        const char *at = calls_value(c, "getelementptr i64, ptr %s, i64 %u", slots, n);
        au_text_add(&c->text, "  store i64 %s, ptr %s\n", value, at);
    }
    const char *grid[3];
    for (uint32_t n = 0; n < 3; n++)
        grid[n] = l->grid[n].code ? calls_count(c, &l->grid[n], "the grid") : "1";
    const char *parallel = calls_value(c, "inttoptr i64 %s to ptr", calls_load(c, c->parallel_at));
    const char *user = calls_value(c, "inttoptr i64 %s to ptr", calls_load(c, c->user_at));
    au_text_add(&c->text,
                "  call void @launch(ptr @%s, ptr %s, i64 %s, i64 %s, i64 %s, ptr %s, ptr %s)\n",
                l->entry, slots, grid[0], grid[1], grid[2], parallel, user);
}

static const aule_tensor_v1 *list_with(const aule_attention_v1 *a, uint32_t flags)
{
    for (uint32_t n = 0; n < a->tensor_count; n++)
        if (a->tensors[n].flags & flags) return &a->tensors[n];
    return NULL;
}

/* How many batches a region of codes has, i32[b, h, slices, row] (aule_check_v1): of packed rows one, of others as many as sequences. */
static const char *batch_of(AuCalls *c, const aule_check_v1 *check)
{
    const aule_tensor_v1 *rows = &c->a->tensors[check->rows],
                         *queries = list_with(c->a, AULE_TENSOR_STARTS_Q);
    if (!list_with(c->a, AULE_TENSOR_SEQUENCES)) return calls_count(c, &rows->axes[0], rows->name);
    if (check->rows ? list_with(c->a, AULE_TENSOR_STARTS_K) : queries) return "1";
    if (!queries) return calls_count(c, &c->a->tensors[0].axes[0], c->a->tensors[0].name);
    return calls_value(c, "sub i64 %s, 1", calls_count(c, &queries->axes[0], queries->name));
}

/* With --checked: the first launches looked at the script's indices. How many rows there are the region's size says. */
static void report(AuCalls *c, const aule_variant_v1 *v, const aule_check_v1 *check)
{
    if (check->slices == 0) return; /* a list, whose values nobody looks at here */
    const aule_tensor_v1 *rows = &c->a->tensors[check->rows];
    const char *heads = calls_count(c, &rows->axes[1], rows->name),
               *outer = calls_value(c, "mul i64 %s, %s", batch_of(c, check), heads),
               *slices = calls_value(c, "mul i64 %s, %u", outer, check->slices),
               *none = calls_value(c, "icmp eq i64 %s, 0", slices),
               *some = calls_value(c, "select i1 %s, i64 1, i64 %s", none, slices),
               *bytes = calls_count(c, &v->workspaces[check->region].bytes, "the workspace"),
               *codes = calls_value(c, "udiv i64 %s, 4", bytes),
               *count = calls_value(c, "udiv i64 %s, %s", codes, some),
               *at = calls_value(c, "inttoptr i64 %s to ptr", region(c, check->region)),
               *bad = calls_value(c, "call i1 @outside(ptr %s, i64 %s, i64 %u, i64 %u, i64 %s)", at,
                                  outer, check->slices, check->slice, count);
    calls_check(c, calls_value(c, "xor i1 %s, true", bad),
                "%s: %s: an index lies outside of axis %u of %s", c->a->name, check->text,
                check->axis, c->a->tensors[check->tensor].name);
}

void calls_variant(AuCalls *c, const aule_variant_v1 *v)
{
    au_text_add(&c->text, "\ndefine internal i64 @run.%s(ptr %%b, i1 %%measure) {\n",
                v->launches[0].entry);
    const char *total = workspace(c, v);
    au_text_add(&c->text,
                "  br i1 %%measure, label %%measured, label %%go\n"
                "measured:\n"
                "  ret i64 %s\n"
                "go:\n",
                total);
    check_workspace(c, total);
    zero_regions(c, v);
    for (uint32_t n = 0; n < v->launch_count; n++) launch(c, &v->launches[n]);
    for (uint32_t n = 0; n < v->check_count; n++) report(c, v, &v->checks[n]);
    au_text_add(&c->text, "  ret i64 0\n}\n");
}
