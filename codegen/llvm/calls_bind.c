/* calls_bind.c - a function of an operation reads its fields into %b and checks them, as libaule binds a call's arguments (runtime/signature.c,
 * runtime/append.c): what it knows of shapes the fields of sizes say. */
#include "calls_ir.h"

#include <string.h>

static const char *field(AuCalls *c, uint32_t n)
{
    const char *at = calls_value(c, "getelementptr i64, ptr %%args, i64 %u", n);
    return calls_value(c, "load i64, ptr %s", at);
}

/* ---- sizes and parameters */

static void bind_size(AuCalls *c, const AuCallField *f, const char *value)
{
    const char *holds = calls_value(c, "icmp ule i64 %s, %d", value, AULE_LARGEST_SIZE);
    calls_check(c, holds, "%s: %s is not from 0 to %d", c->a->name, f->name, AULE_LARGEST_SIZE);
    calls_store(c, f->index, value);
    c->knows[f->index] = true;
}

/* Does it ask for a size that no tensor of the operation has? */
static bool lacks_size(const AuCalls *c, const aule_expr *e)
{
    for (uint32_t at = 0; at < e->length; at++) {
        const uint32_t op = e->code[at] & 255u;
        if (op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) at += 2;
        if (op == AULE_E_SIZE && !c->knows[e->code[at] >> 8]) return true;
    }
    return false;
}

static void check_param(AuCalls *c, const AuCallField *f, const char *value)
{
    const uint32_t dtype = c->a->params[f->index].dtype;
    if (dtype == AULE_F32 || dtype == AULE_I64) return;
    const char *narrow = calls_value(c, "trunc i64 %s to i32", value);
    const char *back = calls_value(c, "sext i32 %s to i64", narrow);
    calls_check(c, calls_value(c, "icmp eq i64 %s, %s", back, value), "%s: %s does not fit 32 bits",
                c->a->name, f->name);
}

/* One that lacks a size is 0: no kernel of the operation takes the parameter. */
static AuCallValue default_of(AuCalls *c, const aule_param_v1 *p)
{
    const char *wrong;
    return lacks_size(c, &p->default_value) ? (AuCallValue){"0", false}
                                            : calls_expr(c, &p->default_value, &wrong);
}

/* The default's place in the text is before the branch: it is of sizes and constants, and cheap. */
static void bind_param(AuCalls *c, const AuCallField *f, const char *value)
{
    const aule_param_v1 *p = &c->a->params[f->index];
    if (f->optional) {
        AuCallValue other = default_of(c, p);
        if (p->dtype == AULE_F32 && !other.is_float)
            other.name = calls_value(c, "sitofp i64 %s to double", other.name);
        else if (p->dtype != AULE_F32 && other.is_float)
            other.name = calls_value(c, "call i64 @llvm.fptosi.sat.i64.f64(double %s)", other.name);
        const char *slot = calls_value(c, "alloca i64");
        au_text_add(&c->text, "  store %s %s, ptr %s\n", p->dtype == AULE_F32 ? "double" : "i64",
                    other.name, slot);
        const char *given = calls_value(c, "inttoptr i64 %s to ptr", value);
        const char *null = calls_value(c, "icmp eq i64 %s, 0", value);
        const char *from = calls_value(c, "select i1 %s, ptr %s, ptr %s", null, slot, given);
        value = calls_value(c, "load i64, ptr %s", from);
    }
    check_param(c, f, value);
    calls_store(c, c->param_at + f->index, value);
}

/* ---- tensors */

/* Extents, and the strides that they imply. */
static void bind_strides(AuCalls *c, uint32_t tensor, const char *given, const char **elements)
{
    const aule_tensor_v1 *t = &c->a->tensors[tensor];
    const char *compact = calls_value(c, "alloca [%u x i64]", t->rank + 1), *step = "1";
    for (uint32_t n = t->rank; n-- > 0;) {
        const char *at = calls_value(c, "getelementptr i64, ptr %s, i64 %u", compact, n);
        au_text_add(&c->text, "  store i64 %s, ptr %s\n", step, at);
        step = calls_value(c, "mul i64 %s, %s", step, calls_count(c, &t->axes[n], t->name));
    }
    *elements = step;
    if (!t->rank) return;
    const char *null = calls_value(c, "icmp eq i64 %s, 0", given);
    const char *theirs = calls_value(c, "inttoptr i64 %s to ptr", given);
    const char *from = calls_value(c, "select i1 %s, ptr %s, ptr %s", null, compact, theirs);
    for (uint32_t n = 0; n < t->rank; n++) {
        const char *at = calls_value(c, "getelementptr i64, ptr %s, i64 %u", from, n);
        calls_store(c, c->tensor_at[tensor] + 1 + n, calls_value(c, "load i64, ptr %s", at));
    }
}

static uint32_t bytes_of(uint32_t dtype)
{
    return dtype == AULE_I64                                              ? 8
           : dtype == AULE_U8 || dtype == AULE_BOOL                       ? 1
           : dtype == AULE_E4M3 || dtype == AULE_E5M2 || dtype == AULE_I8 ? 1
           : dtype == AULE_F16 || dtype == AULE_BF16                      ? 2
                                                                          : 4;
}

static void bind_tensor(AuCalls *c, const AuCallField *f, const char *address, const char *strides,
                        const char *is_f32)
{
    const aule_tensor_v1 *t = &c->a->tensors[f->index];
    const char *elements;
    bind_strides(c, f->index, strides, &elements);
    if (!f->optional) {
        const char *there = calls_value(c, "icmp ne i64 %s, 0", address);
        const char *empty = calls_value(c, "icmp eq i64 %s, 0", elements);
        calls_check(c, calls_value(c, "or i1 %s, %s", there, empty), "%s: %s is NULL", c->a->name,
                    f->name);
    }
    const char *mask = t->dtype == AULE_OPERAND
                           ? calls_value(c, "select i1 %s, i64 3, i64 1", is_f32)
                           : au_format(c->arena, "%u", bytes_of(t->dtype) - 1);
    const char *low = calls_value(c, "and i64 %s, %s", address, mask);
    calls_check(c, calls_value(c, "icmp eq i64 %s, 0", low),
                "%s: %s is not aligned to its elements", c->a->name, f->name);
    calls_store(c, c->tensor_at[f->index], address);
}

/* The number of the first tensor of a role, or tensor_count. */
static uint32_t tensor_of(const AuCalls *c, uint32_t role)
{
    uint32_t n = 0;
    while (n < c->a->tensor_count && c->a->tensors[n].role != role) n++;
    return n;
}

static const char *rows_of(AuCalls *c, uint32_t tensor)
{
    const aule_tensor_v1 *t = &c->a->tensors[tensor];
    return calls_count(c, &t->axes[0], t->name);
}

/* Without slots a pool has a state for each of the sequences. */
static void check_pool(AuCalls *c, const char *slots_given, const char *batch)
{
    const uint32_t pool = tensor_of(c, AULE_ROLE_POOL);
    if (pool == c->a->tensor_count) return;
    const char *none = calls_value(c, "icmp eq i64 %s, 0", calls_load(c, c->tensor_at[pool]));
    const char *same = calls_value(c, "icmp eq i64 %s, %s", rows_of(c, pool), batch);
    const char *holds = calls_value(c, "or i1 %s, %s", none, same);
    calls_check(c, calls_value(c, "or i1 %s, %s", slots_given, holds),
                "%s: the pool has another number of states than there are sequences: pass slots, "
                "which say whose state is whose",
                c->a->name);
}

/* What is known of a recurrence's lists without reading them (rt_bind_tensors has the same rules). */
static void check_list(AuCalls *c, const AuCallField *f, const char *address)
{
    const aule_tensor_v1 *t = &c->a->tensors[f->index];
    const bool slots = t->role == AULE_ROLE_SLOTS;
    if (t->role != AULE_ROLE_SEQUENCES && !slots) return;
    const char *batch = rows_of(c, tensor_of(c, AULE_ROLE_Q)), *count = rows_of(c, f->index);
    const char *given = calls_value(c, "icmp ne i64 %s, 0", address);
    const char *none = calls_value(c, "icmp eq i64 %s, 0", count);
    const char *right = slots ? calls_value(c, "icmp eq i64 %s, %s", count, batch)
                              : calls_value(c, "icmp sge i64 %s, 2", count);
    calls_check(c, calls_value(c, "select i1 %s, i1 %s, i1 %s", given, right, none),
                slots ? "%s: %s_count is not the number of sequences, or not 0 without %s"
                      : "%s: %s_count is below 2, or not 0 without %s",
                c->a->name, f->name, f->name);
    if (slots) check_pool(c, given, batch);
    if (slots) return;
    const char *one = calls_value(c, "icmp eq i64 %s, 1", batch);
    calls_check(c, calls_value(c, "select i1 %s, i1 %s, i1 true", given, one),
                "%s: %s packs sequences into one batch, there are several", c->a->name, f->name);
}

/* ---- new rows of a cache, where the operation is append (rt_check_new_rows has the same rules) */

static uint32_t marked(const AuCalls *c, uint32_t flags)
{
    uint32_t n = 0;
    while (n < c->a->tensor_count && !(c->a->tensors[n].flags & flags)) n++;
    return n;
}

static int32_t size_of(const aule_expr *e)
{
    return e->length == 1 && (e->code[0] & 255u) == AULE_E_SIZE ? (int32_t)(e->code[0] >> 8) : -1;
}

/* Slots are as many as new rows, or none. */
static void bind_slots(AuCalls *c, const AuCall *call, const char *const *values)
{
    const uint32_t rows = tensor_of(c, AULE_ROLE_NEW);
    for (uint32_t n = 0; n < call->field_count; n++) {
        const AuCallField *f = &call->fields[n];
        if (f->kind != AU_CALL_TENSOR || c->a->tensors[f->index].role != AULE_ROLE_NEW_SLOTS)
            continue;
        const int32_t size = size_of(&c->a->tensors[f->index].axes[1]);
        const char *given = calls_value(c, "icmp ne i64 %s, 0", values[n]),
                   *all = calls_count(c, &c->a->tensors[rows].axes[2], "k_new");
        calls_store(c, (uint32_t)size, calls_value(c, "select i1 %s, i64 %s, i64 -1", given, all));
        c->knows[size] = true;
        c->slots_given = given;
    }
}

/* A list is there where slots do not say where rows go. */
static void check_needed(AuCalls *c, const AuCallField *f, const char *address)
{
    if (!(c->a->tensors[f->index].flags & AULE_TENSOR_LISTS)) return;
    const char *there = calls_value(c, "icmp ne i64 %s, 0", address);
    calls_check(c, calls_value(c, "or i1 %s, %s", there, c->slots_given),
                "%s: %s is NULL, and there are no slots that say where rows go", c->a->name,
                f->name);
}

/* A scale of each sequence, where slots do not say whose a row is: k_new has the sequences. */
static void check_scale(AuCalls *c, const AuCallField *f, const char *batch)
{
    const aule_tensor_v1 *t = &c->a->tensors[f->index];
    const uint32_t apart = AULE_TENSOR_TABLE | AULE_TENSOR_ROWS;
    if (!(t->flags & AULE_TENSOR_SPREADS) || t->flags & AULE_TENSOR_APPENDED ||
        marked(c, apart) == c->a->tensor_count)
        return;
    const char *one =
                   calls_value(c, "icmp eq i64 %s, 0", calls_load(c, c->tensor_at[f->index] + 1)),
               *same = calls_value(c, "icmp eq i64 %s, %s", rows_of(c, f->index), batch),
               *right = calls_value(c, "or i1 %s, %s", one, same),
               *none = calls_value(c, "xor i1 %s, true", c->slots_given);
    calls_check(c, calls_value(c, "or i1 %s, %s", none, right),
                "%s: %s has another number of sequences than k_new (strides of 0: one for all)",
                c->a->name, f->name);
}

/* Without slots new rows are those of sequences, or packed; with slots kernels count places in 32 bits. */
static void check_new_rows(AuCalls *c, const AuCall *call, const char *const *values)
{
    const uint32_t rows = tensor_of(c, AULE_ROLE_NEW), none = c->a->tensor_count;
    const char *batch = rows_of(c, rows);
    const aule_tensor_v1 *k = &c->a->tensors[tensor_of(c, AULE_ROLE_K)];
    if (!c->slots_given) c->slots_given = "false";
    for (uint32_t n = 0; n < call->field_count; n++)
        if (call->fields[n].kind == AU_CALL_TENSOR) {
            check_needed(c, &call->fields[n], values[n]);
            check_scale(c, &call->fields[n], batch);
        }
    const bool packed = marked(c, AULE_TENSOR_STARTS_Q) < none;
    const uint32_t lengths = marked(c, AULE_TENSOR_LENGTHS), lines = marked(c, AULE_TENSOR_ROWS),
                   of = lengths < none ? lengths
                        : lines < none ? lines
                                       : tensor_of(c, AULE_ROLE_K);
    const char *right = calls_value(c, "icmp eq i64 %s, %s", batch, packed ? "1" : rows_of(c, of));
    calls_check(c, calls_value(c, "or i1 %s, %s", c->slots_given, right),
                packed ? "%s: new_batch is not 1: without slots new rows are packed"
                       : "%s: new_batch is not the number of sequences, and there are no slots",
                c->a->name);
    const char *places = calls_value(c, "mul i64 %s, %s", calls_count(c, &k->axes[0], k->name),
                                     calls_count(c, &k->axes[2], k->name)),
               *few = calls_value(c, "icmp sle i64 %s, %d", places, INT32_MAX),
               *unused = calls_value(c, "xor i1 %s, true", c->slots_given);
    calls_check(c, calls_value(c, "or i1 %s, %s", few, unused),
                "%s: k has more slots than 2^31 - 1 can number", c->a->name);
}

/* ---- a call */

static void check_requires(AuCalls *c)
{
    for (uint32_t n = 0; n < c->a->require_count; n++) {
        const char *wrong;
        if (lacks_size(c, &c->a->requires_[n].condition)) continue;
        const AuCallValue v = calls_expr(c, &c->a->requires_[n].condition, &wrong);
        const char *holds = v.is_float ? calls_value(c, "fcmp une double %s, 0.0", v.name)
                                       : calls_value(c, "icmp ne i64 %s, 0", v.name);
        const char *right = calls_value(c, "xor i1 %s, true", wrong);
        calls_check(c, calls_value(c, "and i1 %s, %s", holds, right), "%s: requires %s", c->a->name,
                    c->a->requires_[n].text);
    }
}

/* Sizes come first, since shapes and defaults are made of them; strides stand after their tensor. */
const char *calls_bind(AuCalls *c, const AuCall *call)
{
    memset(c->knows, 0, sizeof c->knows);
    const char **values = AU_NEW_ARRAY(c->arena, const char *, call->field_count + 1);
    const char *dtype = "0";
    for (uint32_t n = 0; n < call->field_count; n++) {
        const AuCallField *f = &call->fields[n];
        values[n] = field(c, n);
        if (f->kind == AU_CALL_STRUCT_SIZE)
            calls_check(c, calls_value(c, "icmp eq i64 %s, %u", values[n], 8 * call->field_count),
                        "%s: struct_size is not what this code was compiled with", c->a->name);
        if (f->kind == AU_CALL_DTYPE) dtype = values[n];
        if (f->kind == AU_CALL_SIZE) bind_size(c, f, values[n]);
        if (f->kind == AU_CALL_WORKSPACE) calls_store(c, c->workspace_at, values[n]);
        if (f->kind == AU_CALL_WORKSPACE_BYTES) calls_store(c, c->bytes_at, values[n]);
        if (f->kind == AU_CALL_PARALLEL) calls_store(c, c->parallel_at, values[n]);
        if (f->kind == AU_CALL_USER) calls_store(c, c->user_at, values[n]);
    }
    const bool appends = strcmp(call->operation, "append") == 0;
    c->slots_given = NULL;
    if (appends) bind_slots(c, call, values);
    for (uint32_t n = 0; n < c->a->size_count; n++)
        if (!c->knows[n]) calls_store(c, n, "-1");
    for (uint32_t n = 0; n < call->field_count; n++)
        if (call->fields[n].kind == AU_CALL_PARAM) bind_param(c, &call->fields[n], values[n]);
    check_requires(c);
    const char *is_f32 = calls_value(c, "icmp eq i64 %s, %d", dtype, AULE_F32);
    for (uint32_t n = 0; n < call->field_count; n++) {
        const AuCallField *f = &call->fields[n];
        if (f->kind != AU_CALL_TENSOR) continue;
        const bool has_strides = n + 1 < call->field_count && f[1].kind == AU_CALL_STRIDES;
        bind_tensor(c, f, values[n], has_strides ? values[n + 1] : "0", is_f32);
        check_list(c, f, values[n]);
    }
    if (appends) check_new_rows(c, call, values);
    return dtype;
}
