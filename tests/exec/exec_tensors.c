/* exec_tensors.c - the tensors of a run: numbers that are hard where the case's words ask for that, in memory as these lay it out, on the
 * device. */
#include "internal.h"

#include "aule/artifact.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers */

static uint64_t next_random(Run *r) /* xorshift64*, Vigna 2016 */
{
    r->random ^= r->random >> 12, r->random ^= r->random << 25, r->random ^= r->random >> 27;
    return r->random * 2685821657736338717u;
}
static double uniform(Run *r) { return (double)(next_random(r) >> 11) * 0x1p-53; }
static double normal(Run *r)
{
    return sqrt(-2 * log(uniform(r) + 0x1p-60)) * cos(6.283185307179586 * uniform(r));
}

static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static float from_bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

AuDtype exec_dtype_of(const char *name)
{
    return strcmp(name, "f16") == 0    ? AU_DT_F16
           : strcmp(name, "bf16") == 0 ? AU_DT_BF16
                                       : AU_DT_F32;
}

bool exec_is_tf32(const Run *r) { return strcmp(r->dtype, "tf32") == 0; }

size_t exec_bytes_of(AuDtype d)
{
    return d == AU_DT_I64                      ? 8
           : d == AU_DT_F16 || d == AU_DT_BF16 ? 2
           : d == AU_DT_U8 || d == AU_DT_BOOL  ? 1
                                               : 4;
}

__extension__ typedef _Float16 Half;

void exec_put(unsigned char *at, AuDtype d, double v)
{
    const float f = (float)v;
    const int32_t i = (int32_t)(isfinite(v) ? v : 0);
    const int64_t wide = i;
    const Half h = (Half)f;
    const uint16_t b = isnan(v) ? 0x7fc0 : to_bf16(f);
    switch (d) {
    case AU_DT_F32:
    case AU_DT_OPERAND: memcpy(at, &f, 4); break;
    case AU_DT_F16: memcpy(at, &h, 2); break;
    case AU_DT_BF16: memcpy(at, &b, 2); break;
    case AU_DT_I32: memcpy(at, &i, 4); break;
    case AU_DT_I64: memcpy(at, &wide, 8); break;
    case AU_DT_U8:
    case AU_DT_BOOL: *at = (unsigned char)i; break;
    }
}

double exec_get(const unsigned char *at, AuDtype d)
{
    float f;
    Half h;
    uint16_t b;
    int32_t i;
    int64_t wide;
    switch (d) {
    case AU_DT_F32:
    case AU_DT_OPERAND: memcpy(&f, at, 4); return (double)f;
    case AU_DT_F16: memcpy(&h, at, 2); return (double)h;
    case AU_DT_BF16: memcpy(&b, at, 2); return (double)from_bf16(b);
    case AU_DT_I32: memcpy(&i, at, 4); return i;
    case AU_DT_I64: memcpy(&wide, at, 8); return (double)wide;
    case AU_DT_U8:
    case AU_DT_BOOL: return *at;
    }
    return 0;
}

static bool is_integer(AuDtype d)
{
    return d == AU_DT_I32 || d == AU_DT_I64 || d == AU_DT_U8 || d == AU_DT_BOOL;
}
/* ---- tensors */

size_t exec_memory_index(const Tensor *t, size_t n)
{
    size_t at = 0;
    for (uint32_t d = t->rank; d-- > 0;) {
        at += n % (size_t)t->shape[d] * (size_t)t->strides[d];
        n /= (size_t)t->shape[d];
    }
    return at;
}

/* Strides from the innermost axis outwards; `odd` leaves gaps, heads_inside puts axis 1 inside
 * axis 2. */
static void lay_out(Run *r, Tensor *t)
{
    static const uint32_t plain[] = {0, 1, 2, 3, 4, 5, 6, 7}, inside[] = {0, 2, 1, 3};
    const uint32_t *order = exec_has(r, "heads_inside") && t->rank == 4 ? inside : plain;
    int64_t step = exec_has(r, "odd") && t->rank ? 3 : 1;
    for (uint32_t n = t->rank; n-- > 0;) {
        t->strides[order[n]] = step;
        step *= t->shape[order[n]];
        if (exec_has(r, "odd")) step += 5;
    }
    t->span = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->shape[d]) t->span += (size_t)((t->shape[d] - 1) * t->strides[d]);
}

/* Biases as paddings have them, another one each row: all keys of it, the first or the last third, or of one head only. */
static double far_bias(const Run *r, const Tensor *t, size_t n, double v)
{
    static const double far[] = {-1e4,  -65504,   -1e6,           -1e9,     -1e20,
                                 -1e38, -FLT_MAX, -3.38953139e38, -INFINITY};
    const size_t keys = (size_t)t->shape[t->rank - 1], key = n % keys, row = n / keys;
    const size_t head = row / (size_t)t->shape[t->rank - 2] % (size_t)t->shape[t->rank - 3];
    const bool is_far = exec_has(r, "far_front")  ? 3 * key < keys
                        : exec_has(r, "far_back") ? 3 * key >= 2 * keys
                        : exec_has(r, "far_head") ? head == 0
                                                  : exec_has(r, "far_all");
    return is_far ? far[row % (sizeof far / sizeof *far)] : v;
}

/* A query of the first head, and one pair's bias. */
static bool is_poisoned(const Tensor *t, uint32_t index, size_t n)
{
    const size_t width = (size_t)t->shape[t->rank - 1], row = n / width;
    if (index == 0) return row == 3 && n % width == 1;
    return t->rank > 2 && strcmp(t->name, "bias") == 0 && row == 7 && n % width == 5;
}

/* Where a packed sequence begins: the first has no token, the second one, if there are as many. */
static int64_t start_of(const Run *r, const Tensor *t, size_t n)
{
    const int64_t tokens = r->tensors[0].shape[2], last = (int64_t)t->elements - 1;
    const int64_t part = n < 2 ? 0 : n == 2 ? 1 : tokens * ((int64_t)n - 1) / (last - 1);
    return (int64_t)n == last || part > tokens ? tokens : part;
}

/* What the case wants of the tensor's elements, asked once. */
typedef struct Wanted {
    bool sorted, is_long, flat, poison, is_bias, scaled, huge, far_queries;
    double deviation;
} Wanted;

static Wanted wanted_of(const Run *r, const Tensor *t, uint32_t index)
{
    return (Wanted){.sorted = exec_has(r, "sorted"),
                    .is_long = exec_has(r, "long"),
                    .flat = exec_has(r, "flat") && index == 0,
                    .poison = exec_has(r, "poison"),
                    .is_bias = t->rank > 2 && strcmp(t->name, "bias") == 0,
                    .scaled = exec_has(r, "scaled") && t->role == AULE_ROLE_DOUT,
                    .huge = exec_has(r, "huge") && index == 1,
                    .far_queries = exec_has(r, "far_queries") && index == 0,
                    .deviation = exec_has(r, "big") && index < 2 ? 3 : 1};
}

static double element_of(Run *r, Tensor *t, uint32_t index, const Wanted *w, size_t n,
                         double *ascending)
{
    double v = normal(r) * w->deviation;
    if (is_integer(t->dtype)) {
        if (t->rank && n % (size_t)t->shape[t->rank - 1] == 0) *ascending = 0;
        *ascending += uniform(r) < 0.06;
        v = w->sorted ? *ascending : floor(uniform(r) * (w->is_long ? 90 : 2));
    }
    if (t->dtype == AU_DT_I64 && !t->rank) /* a seed, as far as interpreters hold one */
        v = floor((uniform(r) - 0.5) * 0x1p32);
    if (t->role == AULE_ROLE_SEQUENCES) v = (double)(r->cu_seqlens[n] = start_of(r, t, n));
    if (t->role == AULE_ROLE_SLOTS) v = (double)exec_slot(r, n);
    if (w->flat) v = 0;
    if (w->poison && is_poisoned(t, index, n)) v = NAN;
    if (w->is_bias) v = far_bias(r, t, n, v);
    if (w->scaled) v *= 4096;
    if (w->huge && n % 977 == 13) v *= 1e3;
    if (w->far_queries && n / (size_t)t->shape[t->rank - 1] % 3 == 1) v *= 1e4;
    return v;
}

void exec_fill(Run *r, Tensor *t, uint32_t index)
{
    if (t->role == AULE_ROLE_SEQUENCES && !t->absent)
        r->cu_seqlens = AU_NEW_ARRAY(r->arena, int64_t, t->elements);
    const Wanted w = wanted_of(r, t, index);
    const double between = exec_has(r, "nan") ? NAN : 0;
    double ascending = 0;
    t->values = AU_NEW_ARRAY(r->arena, double, t->elements + 1);
    t->bytes = AU_NEW_ARRAY(r->arena, unsigned char, (t->span + 16) * exec_bytes_of(t->dtype));
    for (size_t n = 0; n < t->span; n++)
        exec_put(t->bytes + n * exec_bytes_of(t->dtype), t->dtype, between);
    for (size_t n = 0; n < t->elements; n++) {
        const double v = element_of(r, t, index, &w, n, &ascending);
        unsigned char *at = t->bytes + exec_memory_index(t, n) * exec_bytes_of(t->dtype);
        exec_put(at, t->dtype, t->output ? NAN : v); /* what is not written shows */
        t->values[n] = exec_get(at, t->dtype);
    }
    const AuAttn *a = r->attn;
    const bool of_keys = index > 2 && index < a->tensor_count &&
                         t->rank == 4 && /* of further products, too */
                         a->tensors[index].axes[0].i == a->tensors[1].axes[0].i &&
                         a->tensors[index].axes[2].i == a->tensors[1].axes[2].i;
    if (t->role == AULE_ROLE_K || t->role == AULE_ROLE_V || of_keys) exec_share_rows(r, t);
}

static DLDataType dl_type(AuDtype d)
{
    switch (d) {
    case AU_DT_F32:
    case AU_DT_OPERAND: return (DLDataType){kDLFloat, 32, 1};
    case AU_DT_F16: return (DLDataType){kDLFloat, 16, 1};
    case AU_DT_BF16: return (DLDataType){kDLBfloat, 16, 1};
    case AU_DT_I32: return (DLDataType){kDLInt, 32, 1};
    case AU_DT_I64: return (DLDataType){kDLInt, 64, 1};
    case AU_DT_U8: return (DLDataType){kDLUInt, 8, 1};
    case AU_DT_BOOL: return (DLDataType){kDLBool, 8, 1};
    }
    return (DLDataType){kDLFloat, 32, 1};
}

static bool on_host(const Run *r)
{
    return !r->suite->device || strcmp(r->suite->info->backend, "cpu") == 0;
}

bool exec_is_made(uint32_t role, AuOperation operation)
{
    if (operation == AU_BACKWARD) return role == AULE_ROLE_GRAD || role == AULE_ROLE_DSTATE;
    if (operation == AU_UNFINISHED) return role == AULE_ROLE_PART_OUT;
    if (operation == AU_COMBINE) return role == AULE_ROLE_OUTPUT || role == AULE_ROLE_FINAL;
    if (operation == AU_STEP) return role == AULE_ROLE_OUTPUT || role == AULE_ROLE_POOL;
    return role == AULE_ROLE_OUTPUT || role == AULE_ROLE_FINAL || role == AULE_ROLE_KEPT ||
           role == AULE_ROLE_KEPT_ROW || role == AULE_ROLE_STATE_OUT;
}

static bool is_state(uint32_t role)
{
    return role == AULE_ROLE_STATE || role == AULE_ROLE_STATE_OUT || role == AULE_ROLE_DSTATE ||
           role == AULE_ROLE_DSTATE_OUT;
}

/* What a case leaves out of its call. */
static bool is_absent(const Run *r, uint32_t role)
{
    return (role == AULE_ROLE_DFINAL && !exec_has(r, "dfinals")) ||
           (role == AULE_ROLE_SEQUENCES && !r->sizes[r->attn->linear->own_sizes - 1]) ||
           (is_state(role) && !exec_has(r, "states")) ||
           ((role == AULE_ROLE_POOL || role == AULE_ROLE_SLOTS) && !exec_has(r, "step"));
}

bool exec_add_tensor(Run *r, const char *name, AuDtype dtype, const int64_t *shape, uint32_t rank,
                     uint32_t role)
{
    Tensor *t = &r->tensors[r->tensor_count];
    *t = (Tensor){.name = name,
                  .dtype = dtype == AU_DT_OPERAND ? exec_dtype_of(r->dtype) : dtype,
                  .rank = rank,
                  .role = role,
                  .output = exec_is_made(role, AU_FORWARD) || exec_is_made(role, AU_BACKWARD),
                  .absent = is_absent(r, role),
                  .elements = 1};
    for (uint32_t d = 0; d < rank; d++) {
        t->shape[d] = shape[d];
        t->elements *= (size_t)shape[d];
    }
    lay_out(r, t);
    exec_fill(r, t, r->tensor_count);
    aule_error *error = NULL;
    const size_t bytes = t->span * exec_bytes_of(t->dtype);
    if (!on_host(r) && (aule_buffer_new(r->suite->device, bytes ? bytes : 4, &t->buffer, &error) ||
                        aule_buffer_upload(t->buffer, 0, t->bytes, bytes, &error)))
        return exec_fail(r, "buffer", aule_error_message(error));
    t->dl = (DLTensor){.data = t->buffer ? aule_buffer_data(t->buffer) : t->bytes,
                       .device = r->suite->device ? r->suite->info->dl : (DLDevice){kDLCPU, 0},
                       .ndim = (int32_t)rank,
                       .dtype = dl_type(t->dtype),
                       .shape = t->shape,
                       .strides = t->strides};
    r->tensor_count++;
    return true;
}

/* ---- a run of an operation */

void exec_begin(Run *r, AuOperation operation)
{
    r->operation = operation;
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        Tensor *t = &r->tensors[n];
        t->output = exec_is_made(t->role, operation);
        for (size_t i = 0; i < t->elements; i++)
            t->values[i] =
                exec_get(t->bytes + exec_memory_index(t, i) * exec_bytes_of(t->dtype), t->dtype);
    }
}

uint32_t exec_find_role(const Run *r, uint32_t role, uint32_t n)
{
    for (uint32_t i = 0; i < r->tensor_count; i++)
        if (r->tensors[i].role == role && n-- == 0) return i;
    return EXEC_NONE;
}
