#include "signature.h"

/* What is being bound, for helpers and messages. */
typedef struct Binding {
    const aule_attention_v1 *a;
    AuBound *bound;
    bool whole;
    int32_t giver[AULE_MAX_SIZES]; /* tensor that gave the size, -1: none yet */
    AuSink sink;
} Binding;

AuEnv rt_bound_env(const aule_attention_v1 *attention, const AuBound *bound)
{
    return (AuEnv){bound->sizes, bound->params, attention->size_count, attention->param_count, 0};
}

int32_t rt_find_tensor(const aule_attention_v1 *attention, const char *name)
{
    for (uint32_t i = 0; i < attention->tensor_count; i++)
        if (strcmp(rt_tensor(attention, i)->name, name) == 0) return (int32_t)i;
    return -1;
}

void rt_shape_text(AuText *text, const int64_t *shape, int32_t rank)
{
    rt_text_add(text, "[");
    for (int32_t i = 0; i < rank; i++)
        rt_text_add(text, "%s%lld", i ? ", " : "", (long long)shape[i]);
    rt_text_add(text, "]");
}

/* Finishes a message that was built in pieces. */
static aule_status fail_text(const Binding *b, aule_status status, AuText *text)
{
    status =
        text->failed ? rt_fail_memory(b->sink) : rt_fail(b->sink, status, "%s", rt_text_str(text));
    rt_text_free(text);
    return status;
}

AuPart rt_bound_part(const AuBound *bound, const aule_tensor_v1 *tensor)
{
    const AuPart part = rt_part(bound->operation, tensor),
                 first = bound->first ? rt_part(bound->first, tensor) : AU_PART_NONE;
    return part == AU_PART_NONE || first == AU_PART_WRITTEN ? (first ? first : part) : part;
}

/* ---- names */

/* May it be passed? */
static bool takes_part(const Binding *b, const aule_tensor_v1 *t)
{
    return !(t->flags & AULE_TENSOR_IN_K) &&
           (!b->whole || rt_bound_part(b->bound, t) != AU_PART_NONE);
}

/* Where shapes alone count, the script's own tensors are enough, or the parts that are joined. */
static bool is_argument(const Binding *b, const aule_tensor_v1 *t)
{
    return (t->role <= AULE_ROLE_INPUT || t->role == AULE_ROLE_PART || t->role == AULE_ROLE_NEW) &&
           rt_bound_part(b->bound, t) != AU_PART_NONE;
}

int32_t rt_passed_of(const aule_attention_v1 *attention, const AuBound *bound, uint32_t role)
{
    for (uint32_t i = 0; i < attention->tensor_count; i++)
        if (rt_tensor(attention, i)->role == role && bound->tensors[i]) return (int32_t)i;
    return -1;
}

static int32_t passed_of(const Binding *b, uint32_t role)
{
    return rt_passed_of(b->a, b->bound, role);
}

/* Must it be passed? */
static bool is_needed(const Binding *b, const aule_tensor_v1 *t)
{
    if (!takes_part(b, t)) return false;
    if (!b->whole) return is_argument(b, t);
    const bool by_first = rt_part(b->bound->operation, t) == AU_PART_NONE;
    switch (rt_passed(by_first ? b->bound->first : b->bound->operation, t)) {
    case AU_PASSED_IF_CACHED:
        return !(t->flags & AULE_TENSOR_LISTS) || passed_of(b, AULE_ROLE_NEW_SLOTS) < 0;
    case AU_PASSED_IF_JOINED:
    case AU_PASSED_ALWAYS: return true;
    case AU_PASSED_IF_GIVEN: return false;
    case AU_PASSED_UNLESS_MARKED: return !(t->flags & AULE_TENSOR_OPTIONAL);
    case AU_PASSED_UNLESS_KEPT: return !rt_keeps_output(b->a);
    }
    return true;
}

static aule_status fail_unknown(const Binding *b, const char *name)
{
    AuText text = {.memory = b->sink.memory};
    rt_text_add(&text, "%s: no tensor '%s', it has", b->a->name, name);
    for (uint32_t i = 0; i < b->a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(b->a, i);
        if (takes_part(b, t)) rt_text_add(&text, "%s %s", i ? "," : "", t->name);
    }
    return fail_text(b, AULE_ERROR_NAME, &text);
}

/* Forward that is given new rows appends them first. */
static const AuOperation *first_operation(const aule_attention_v1 *a, const aule_call *call)
{
    const AuOperation *append = rt_operation("append");
    if (rt_operation(call->operation) != rt_operation("forward")) return NULL;
    for (size_t i = 0; i < call->tensor_count; i++) {
        const int32_t index = call->tensors[i].name ? rt_find_tensor(a, call->tensors[i].name) : -1;
        const uint32_t role = index < 0 ? AULE_ROLES : rt_tensor(a, (uint32_t)index)->role;
        if (role == AULE_ROLE_NEW || role == AULE_ROLE_NEW_SLOTS) return append;
    }
    return NULL;
}

static aule_status bind_names(const Binding *b, const aule_call *call)
{
    const char *attention = b->a->name;
    if (call->tensor_count > 0 && !call->tensors)
        return rt_fail(b->sink, AULE_ERROR_USAGE, "aule_call.tensors is NULL, tensor_count is %zu",
                       call->tensor_count);
    b->bound->first = first_operation(b->a, call);
    for (size_t i = 0; i < call->tensor_count; i++) {
        const aule_tensor_arg *arg = &call->tensors[i];
        if (!arg->name)
            return rt_fail(b->sink, AULE_ERROR_USAGE, "%s: tensor %zu of the call has no name",
                           attention, i);
        int32_t index = rt_find_tensor(b->a, arg->name);
        if (index < 0) return fail_unknown(b, arg->name);
        if (rt_tensor(b->a, (uint32_t)index)->flags & AULE_TENSOR_IN_K)
            return rt_fail(b->sink, AULE_ERROR_NAME, "%s: %s is a part of k and is not passed",
                           attention, arg->name);
        if (!takes_part(b, rt_tensor(b->a, (uint32_t)index)))
            return rt_fail(b->sink, AULE_ERROR_NAME, "%s: %s is passed to %s only", attention,
                           arg->name, rt_operation_with(rt_tensor(b->a, (uint32_t)index)));
        if (!arg->tensor)
            return rt_fail(b->sink, AULE_ERROR_TENSOR, "%s: %s: the tensor is NULL", attention,
                           arg->name);
        if (b->bound->tensors[index])
            return rt_fail(b->sink, AULE_ERROR_NAME, "%s: %s is passed twice", attention,
                           arg->name);
        b->bound->tensors[index] = arg->tensor;
    }
    for (uint32_t i = 0; i < b->a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(b->a, i);
        if (is_needed(b, t) && !b->bound->tensors[i])
            return rt_fail(b->sink, AULE_ERROR_NAME, "%s: %s is missing%s", attention, t->name,
                           t->role == AULE_ROLE_WORK         ? ", schedule writes it"
                           : t->flags & AULE_TENSOR_OPTIONAL ? ", backward needs it"
                                                             : "");
    }
    return AULE_OK;
}

/* ---- one tensor */

static void dl_type_text(AuText *text, DLDataType type)
{
    static const char *const codes[] = {"int",    "uint",    "float", "handle",
                                        "bfloat", "complex", "bool"};
    uint32_t known = rt_dtype_from_dl(type);
    if (known)
        rt_text_add(text, "%s", rt_dtype_name(known));
    else if (type.code < sizeof codes / sizeof *codes)
        rt_text_add(text, "%s%u", codes[type.code], type.bits);
    else
        rt_text_add(text, "type code %u of %u bits", type.code, type.bits);
    if (type.lanes != 1) rt_text_add(text, " in vectors of %u", type.lanes);
}

static aule_status fail_dtype(const Binding *b, uint32_t index, const char *expected,
                              const char *why)
{
    AuText text = {.memory = b->sink.memory};
    rt_text_add(&text, "%s: %s: dtype is ", b->a->name, rt_tensor(b->a, index)->name);
    dl_type_text(&text, b->bound->tensors[index]->dtype);
    rt_text_add(&text, ", expected %s%s", expected, why);
    return fail_text(b, AULE_ERROR_TENSOR, &text);
}

/* Frameworks make integers of 64 bits unless they are told otherwise. */
static const char *way_out(const aule_tensor_v1 *t, uint32_t found, uint32_t expected)
{
    const bool declared = t->role == AULE_ROLE_INPUT && !(t->flags & AULE_TENSOR_BROUGHT);
    if (!declared && found == AULE_I64 && expected == AULE_I32)
        return ": convert it (.int() in torch, .astype(\"int32\") in NumPy)";
    if (!declared && found == AULE_I32 && expected == AULE_I64)
        return ": convert it (.long() in torch, .astype(\"int64\") in NumPy)";
    if (!declared) return "";
    if (found == AULE_I64 && expected == AULE_I32)
        return ": declare i64 in the script, or convert it (.int() in torch, .astype(\"int32\") in "
               "NumPy)";
    if (found == AULE_I32 && expected == AULE_I64)
        return ": declare i32 in the script, or convert it (.long() in torch, .astype(\"int64\") "
               "in NumPy)";
    return "";
}

static aule_status bind_dtype(const Binding *b, uint32_t index)
{
    const aule_tensor_v1 *t = rt_tensor(b->a, index);
    uint32_t found = rt_dtype_from_dl(b->bound->tensors[index]->dtype);
    uint32_t expected = t->dtype;
    if (expected == AULE_OPERAND) {
        bool operand = found == AULE_F32 || found == AULE_F16 || found == AULE_BF16;
        if (!operand) return fail_dtype(b, index, "f32, f16 or bf16", "");
        if (b->bound->operand == AULE_OPERAND) b->bound->operand = found;
        expected = b->bound->operand;
        if (found != expected)
            return fail_dtype(b, index, rt_dtype_name(expected), ", as the other operands are");
    }
    /* Frameworks write booleans as bytes, too. */
    if (expected == AULE_BOOL && found == AULE_U8) found = AULE_BOOL;
    /* ... and those without numbers of 8 bits pass their codes as bytes. */
    if ((expected == AULE_E4M3 || expected == AULE_E5M2) && found == AULE_U8) found = expected;
    if (found != expected)
        return fail_dtype(b, index, rt_dtype_name(expected), way_out(t, found, expected));
    b->bound->dtypes[index] = expected;
    return AULE_OK;
}

/* An axis as the signature has it: "T", "576", "an expression". */
static void axis_text(AuText *text, const aule_attention_v1 *a, const aule_expr *axis)
{
    int32_t size = rt_expr_size(axis);
    aule_value value;
    AuEnv nothing = {0};
    if (size >= 0 && a->sizes[size].name[0])
        rt_text_add(text, "%s", a->sizes[size].name);
    else if (size < 0 && rt_evaluate(axis, &nothing, &value) == NULL)
        rt_value_text(text, &value);
    else if (size >= 0)
        rt_text_add(text, "fixed");
    else
        rt_expr_text(text, axis, a);
}

static aule_status fail_rank(const Binding *b, uint32_t index)
{
    const aule_tensor_v1 *t = rt_tensor(b->a, index);
    const DLTensor *given = b->bound->tensors[index];
    AuText text = {.memory = b->sink.memory};
    rt_text_add(&text, "%s: %s: shape is ", b->a->name, t->name);
    if (given->ndim > 0 && given->ndim <= 32)
        rt_shape_text(&text, given->shape, given->ndim);
    else
        rt_text_add(&text, "of %d axes", given->ndim);
    rt_text_add(&text, ", expected %u ax%s [", t->rank, t->rank == 1 ? "is" : "es");
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        rt_text_add(&text, "%s", axis ? ", " : "");
        axis_text(&text, b->a, &t->axes[axis]);
    }
    rt_text_add(&text, "]");
    return fail_text(b, AULE_ERROR_TENSOR, &text);
}

bool rt_extent(const DLTensor *tensor, const int64_t *strides, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int32_t axis = 0; axis < tensor->ndim; axis++)
        if (tensor->shape[axis] == 0) return *high = -1, true;
    for (int32_t axis = 0; axis < tensor->ndim; axis++) {
        int64_t span, *end = strides[axis] < 0 ? low : high;
        if (__builtin_mul_overflow(tensor->shape[axis] - 1, strides[axis], &span) ||
            __builtin_add_overflow(*end, span, end))
            return false;
    }
    /* In bytes, too: no element type is longer than 8. */
    return *low > INT64_MIN / 64 && *high < INT64_MAX / 64;
}

/* Is it one element that all of an axis have? What is written has all of its own. */
static bool spreads(const Binding *b, uint32_t i, uint32_t axis)
{
    const aule_tensor_v1 *t = rt_tensor(b->a, i);
    return t->flags & AULE_TENSOR_SPREADS && b->bound->tensors[i]->shape[axis] == 1 &&
           rt_bound_part(b->bound, t) != AU_PART_WRITTEN;
}

static aule_status bind_layout(const Binding *b, uint32_t index)
{
    const aule_tensor_v1 *t = rt_tensor(b->a, index);
    const DLTensor *given = b->bound->tensors[index];
    if (given->ndim != (int32_t)t->rank && (given->shape || given->ndim <= 0))
        return fail_rank(b, index);
    if (given->ndim > 0 && !given->shape)
        return rt_fail(b->sink, AULE_ERROR_TENSOR, "%s: %s: its shape is NULL", b->a->name,
                       t->name);
    int64_t *strides = b->bound->strides[index], compact = 1;
    for (int32_t axis = given->ndim - 1; axis >= 0; axis--) {
        if (given->shape[axis] < 0)
            return rt_fail(b->sink, AULE_ERROR_TENSOR, "%s: %s: axis %d has %lld elements",
                           b->a->name, t->name, axis, (long long)given->shape[axis]);
        strides[axis] = given->strides ? given->strides[axis] : compact;
        if (spreads(b, index, (uint32_t)axis)) strides[axis] = 0;
        int64_t extent = given->shape[axis] > 0 ? given->shape[axis] : 1;
        if (__builtin_mul_overflow(compact, extent, &compact)) compact = INT64_MAX;
    }
    int64_t low, high;
    if (!rt_extent(given, strides, &low, &high))
        return rt_fail(b->sink, AULE_ERROR_TENSOR,
                       "%s: %s: its shape and strides reach beyond 64 bits", b->a->name, t->name);
    if (!b->whole || high < low) return AULE_OK;
    if (!given->data)
        return rt_fail(b->sink, AULE_ERROR_TENSOR, "%s: %s: its data is NULL", b->a->name, t->name);
    return AULE_OK;
}

/* ---- sizes */

static aule_status fail_extent(const Binding *b, uint32_t index, uint32_t axis, int64_t expected,
                               const char *giver)
{
    const aule_tensor_v1 *t = rt_tensor(b->a, index);
    const DLTensor *given = b->bound->tensors[index];
    AuText text = {.memory = b->sink.memory};
    rt_text_add(&text, "%s: %s: axis %u (", b->a->name, t->name, axis);
    axis_text(&text, b->a, &t->axes[axis]);
    rt_text_add(&text, ") has %lld elements, expected %lld", (long long)given->shape[axis],
                (long long)expected);
    if (giver) rt_text_add(&text, " as in %s", giver);
    rt_text_add(&text, "; its shape is ");
    rt_shape_text(&text, given->shape, given->ndim);
    return fail_text(b, AULE_ERROR_TENSOR, &text);
}

/* Whether tensors that need not be passed, or are none of the operation's, have it: then -1 says that none of them was. */
static bool is_of_others(const Binding *b, uint32_t size)
{
    for (uint32_t i = 0; i < b->a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(b->a, i);
        for (uint32_t axis = 0; !is_needed(b, t) && axis < t->rank; axis++)
            if (rt_expr_size(&t->axes[axis]) == (int32_t)size) return true;
    }
    return false;
}

/* What no axis is, but some are a part of, as bytes of v are half of its channels of 4 bits. */
static void bind_parts(Binding *b)
{
    int64_t parts = 1;
    for (uint32_t i = 0; i < b->a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(b->a, i);
        for (uint32_t axis = 0; b->bound->tensors[i] && axis < t->rank; axis++) {
            const int32_t size = rt_expr_part_of(&t->axes[axis], &parts);
            if (size < 0 || b->giver[size] >= 0 || spreads(b, i, axis)) continue;
            int64_t *to = &b->bound->sizes[size];
            if (__builtin_mul_overflow(b->bound->tensors[i]->shape[axis], parts, to)) *to = -1;
            b->giver[size] = (int32_t)i;
        }
    }
}

/* Axes that are one size bind it, the first tensor in the signature's order, or must agree. */
static aule_status bind_sizes(Binding *b)
{
    for (uint32_t i = 0; i < b->a->size_count; i++) b->giver[i] = -1, b->bound->sizes[i] = -1;
    for (uint32_t i = 0; i < b->a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(b->a, i);
        for (uint32_t axis = 0; b->bound->tensors[i] && axis < t->rank; axis++) {
            int64_t extent = b->bound->tensors[i]->shape[axis];
            int32_t size = rt_expr_size(&t->axes[axis]);
            if (size < 0 || spreads(b, i, axis)) continue;
            if (b->giver[size] < 0) {
                b->giver[size] = (int32_t)i;
                b->bound->sizes[size] = extent;
            } else if (b->bound->sizes[size] != extent) {
                return fail_extent(b, i, axis, b->bound->sizes[size],
                                   rt_tensor(b->a, (uint32_t)b->giver[size])->name);
            }
        }
    }
    bind_parts(b);
    for (uint32_t i = 0; i < b->a->size_count; i++)
        if (b->giver[i] < 0 && b->whole && b->a->sizes[i].name[0] && !is_of_others(b, i))
            return rt_fail(b->sink, AULE_ERROR_TENSOR, "%s: no tensor gives the size %s",
                           b->a->name, b->a->sizes[i].name);
    return AULE_OK;
}

/* The other axes are expressions of sizes. */
static aule_status check_axes(const Binding *b)
{
    AuEnv env = {b->bound->sizes, NULL, b->a->size_count, 0, 0};
    for (uint32_t i = 0; i < b->a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(b->a, i);
        for (uint32_t axis = 0; b->bound->tensors[i] && axis < t->rank; axis++) {
            if (rt_expr_size(&t->axes[axis]) >= 0 || spreads(b, i, axis)) continue;
            aule_value extent;
            const char *wrong = rt_evaluate(&t->axes[axis], &env, &extent);
            if (!wrong && extent.type != AULE_VALUE_INT) wrong = "is not an integer";
            if (wrong)
                return rt_fail(b->sink, AULE_ERROR_TENSOR, "%s: %s: the extent of axis %u %s",
                               b->a->name, t->name, axis, wrong);
            if (extent.i != b->bound->tensors[i]->shape[axis])
                return fail_extent(b, i, axis, extent.i, NULL);
        }
    }
    return AULE_OK;
}

static int64_t count_of(const Binding *b, int32_t index)
{
    return b->bound->tensors[index]->shape[0];
}

/* Packed sequences lie in one batch, one after another. */
static aule_status check_sequences(const Binding *b)
{
    const int32_t given = passed_of(b, AULE_ROLE_SEQUENCES), q = passed_of(b, AULE_ROLE_Q);
    if (given < 0) return AULE_OK;
    const char *name = rt_tensor(b->a, (uint32_t)given)->name;
    if (count_of(b, given) < 2)
        return rt_fail(b->sink, AULE_ERROR_TENSOR,
                       "%s: %s has %lld elements, expected where each sequence begins and where "
                       "the last ends: 2 at least",
                       b->a->name, name, (long long)count_of(b, given));
    if (q < 0 || count_of(b, q) == 1) return AULE_OK;
    return rt_fail(b->sink, AULE_ERROR_TENSOR, "%s: %s packs sequences into one batch, %s has %lld",
                   b->a->name, name, rt_tensor(b->a, (uint32_t)q)->name, (long long)count_of(b, q));
}

/* Of packed rows: one sequence at least, so that there is one that kernels can ask for. */
static aule_status check_starts(const Binding *b)
{
    for (uint32_t i = 0; i < b->a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(b->a, i);
        if (!(t->flags & (AULE_TENSOR_STARTS_Q | AULE_TENSOR_STARTS_K)) || !b->bound->tensors[i])
            continue;
        if (count_of(b, (int32_t)i) < 2)
            return rt_fail(b->sink, AULE_ERROR_TENSOR,
                           "%s: %s has %lld elements, expected where each sequence begins and "
                           "where the last ends: 2 at least",
                           b->a->name, t->name, (long long)count_of(b, (int32_t)i));
    }
    return AULE_OK;
}

/* A slot for each sequence; without slots a state for each. */
static aule_status check_slots(const Binding *b)
{
    const int32_t pool = passed_of(b, AULE_ROLE_POOL), slots = passed_of(b, AULE_ROLE_SLOTS),
                  q = passed_of(b, AULE_ROLE_Q);
    if (pool < 0 || q < 0) return AULE_OK;
    const int32_t of = slots < 0 ? pool : slots;
    if (count_of(b, of) == count_of(b, q)) return AULE_OK;
    return rt_fail(b->sink, AULE_ERROR_TENSOR,
                   "%s: %s has %lld elements along axis 0, %s has %lld%s", b->a->name,
                   rt_tensor(b->a, (uint32_t)of)->name, (long long)count_of(b, of),
                   rt_tensor(b->a, (uint32_t)q)->name, (long long)count_of(b, q),
                   slots < 0 ? ": pass slots, which say whose state is whose" : "");
}

aule_status rt_bind_tensors(const aule_attention_v1 *attention, const aule_call *call, bool whole,
                            AuBound *bound, AuSink sink)
{
    Binding b = {.a = attention, .bound = bound, .whole = whole, .sink = sink};
    memset(bound, 0, sizeof *bound);
    bound->operation = rt_operation(call->operation);
    aule_status status = bind_names(&b, call);
    for (uint32_t i = 0; !status && i < attention->tensor_count; i++) {
        if (!bound->tensors[i]) continue;
        status = bind_layout(&b, i);
        if (!status) status = bind_dtype(&b, i);
    }
    if (!status) status = bind_sizes(&b);
    if (!status) status = check_axes(&b);
    if (!status) status = check_sequences(&b);
    if (!status) status = check_slots(&b);
    if (!status) status = check_starts(&b);
    if (!status) status = rt_check_new_rows(attention, bound, sink);
    return status;
}
