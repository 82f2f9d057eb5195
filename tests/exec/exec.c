/* exec.c - see exec.h. */
#include "internal.h"

#include "aule/artifact.h"
#include "meaning.h"
#include "tensors.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENOUGH_ELEMENTS = 32, MOST_SETS = 8 }; /* for the plain formula's error (plain_errors) */

bool exec_fail(const Run *r, const char *what, const char *detail)
{
    fprintf(stderr, "%s %s [%s] %s on %s: %s: %s\n", r->c->script, r->dtype, r->c->sizes,
            r->c->how ? r->c->how : "", r->suite->name, what, detail);
    return false;
}

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
bool exec_has(const Run *r, const char *word) { return r->c->how && strstr(r->c->how, word); }

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

static void fill(Run *r, Tensor *t, uint32_t index)
{
    if (t->role == AULE_ROLE_SEQUENCES && !t->absent)
        r->cu_seqlens = AU_NEW_ARRAY(r->arena, int64_t, t->elements);
    const double deviation = exec_has(r, "big") && index < 2 ? 3 : 1;
    double ascending = 0;
    t->values = AU_NEW_ARRAY(r->arena, double, t->elements + 1);
    t->bytes = AU_NEW_ARRAY(r->arena, unsigned char, (t->span + 16) * exec_bytes_of(t->dtype));
    for (size_t n = 0; n < t->span; n++)
        exec_put(t->bytes + n * exec_bytes_of(t->dtype), t->dtype, exec_has(r, "nan") ? NAN : 0);
    for (size_t n = 0; n < t->elements; n++) {
        double v = normal(r) * deviation;
        if (is_integer(t->dtype)) {
            if (n % (size_t)t->shape[t->rank - 1] == 0) ascending = 0;
            ascending += uniform(r) < 0.06;
            v = exec_has(r, "sorted") ? ascending
                                      : floor(uniform(r) * (exec_has(r, "long") ? 90 : 2));
        }
        if (t->role == AULE_ROLE_SEQUENCES) v = (double)(r->cu_seqlens[n] = start_of(r, t, n));
        if (t->role == AULE_ROLE_SLOTS) v = (double)exec_slot(r, n);
        if (exec_has(r, "flat") && index == 0) v = 0;
        if (exec_has(r, "poison") && is_poisoned(t, index, n)) v = NAN;
        if (t->rank > 2 && strcmp(t->name, "bias") == 0) v = far_bias(r, t, n, v);
        if (exec_has(r, "scaled") && t->role == AULE_ROLE_DOUT) v *= 4096;
        if (exec_has(r, "huge") && index == 1 && n % 977 == 13) v *= 1e3;
        unsigned char *at = t->bytes + exec_memory_index(t, n) * exec_bytes_of(t->dtype);
        if (!t->output)
            exec_put(at, t->dtype, v);
        else
            exec_put(at, t->dtype, NAN); /* what is not written shows */
        t->values[n] = exec_get(at, t->dtype);
    }
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

static bool is_made(uint32_t role, AuOperation operation)
{
    if (operation == AU_BACKWARD) return role == AULE_ROLE_GRAD || role == AULE_ROLE_DSTATE;
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

static bool add_tensor(Run *r, const char *name, AuDtype dtype, const int64_t *shape, uint32_t rank,
                       uint32_t role)
{
    Tensor *t = &r->tensors[r->tensor_count];
    *t = (Tensor){.name = name,
                  .dtype = dtype == AU_DT_OPERAND ? exec_dtype_of(r->dtype) : dtype,
                  .rank = rank,
                  .role = role,
                  .output = is_made(role, AU_FORWARD) || is_made(role, AU_BACKWARD),
                  .absent = is_absent(r, role),
                  .elements = 1};
    for (uint32_t d = 0; d < rank; d++) {
        t->shape[d] = shape[d];
        t->elements *= (size_t)shape[d];
    }
    lay_out(r, t);
    fill(r, t, r->tensor_count);
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

/* ---- the case */

static char *read_file(AuArena *arena, const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = au_alloc(arena, 1 << 16);
    *length = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    return text;
}

static bool number_of(const char *list, const char *name, double *value)
{
    const size_t length = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ' ')) {
        while (*at == ' ') at++;
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            *value = strtod(at + length + 1, NULL);
            return true;
        }
    }
    return false;
}

static bool bind(Run *r)
{
    double v;
    for (uint32_t n = 0; n < r->attn->size_count; n++) {
        const AuSize *s = &r->attn->sizes[n];
        if (s->fixed >= 0)
            r->sizes[n] = s->fixed;
        else if (number_of(r->c->sizes, s->name, &v))
            r->sizes[n] = (int64_t)v;
        else
            return exec_fail(r, "the case gives no size", s->name);
    }
    for (uint32_t n = 0; n < r->attn->param_count; n++) {
        const AuParam *p = &r->attn->params[n];
        if (r->c->params && number_of(r->c->params, p->name, &v))
            r->params[n] = p->dtype == AU_DT_F32 ? (double)(float)v : v;
        else if (p->default_value.i)
            r->params[n] =
                (double)(float)attn_scalar(r->attn, p->default_value, r->sizes, r->params);
        else
            return exec_fail(r, "the case gives no parameter", p->name);
        r->params_i64[n] = (int64_t)r->params[n];
    }
    return true;
}

/* `packed=N` among the sizes: as many sequences in the one batch. `pool=N`: states of a step, whose slots are passed. */
static void place_sequences(Run *r)
{
    double count = 0, batch = 0;
    if (!r->attn->linear) return;
    driver_add_sizes(r->attn);
    int64_t *own = &r->sizes[r->attn->linear->own_sizes - 1];
    if (number_of(r->c->sizes, "packed", &count)) own[0] = (int64_t)count + 1;
    if (!number_of(r->c->sizes, "pool", &count) || !number_of(r->c->sizes, "B", &batch)) return;
    own[1] = (int64_t)count;
    own[2] = (int64_t)batch;
}

static bool make_tensors(Run *r)
{
    uint32_t count;
    place_sequences(r);
    const AuTensorRow *rows = driver_tensors(r->arena, r->attn, r->grads, &count);
    for (uint32_t n = 0; n < count; n++) {
        int64_t shape[8];
        for (uint32_t d = 0; d < rows[n].rank; d++)
            shape[d] = (int64_t)attn_scalar(r->attn, rows[n].axes[d], r->sizes, r->params);
        if (!add_tensor(r, rows[n].name, rows[n].dtype, shape, rows[n].rank, rows[n].role))
            return false;
    }
    return true;
}

void exec_begin(Run *r, AuOperation operation)
{
    r->operation = operation;
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        Tensor *t = &r->tensors[n];
        t->output = is_made(t->role, operation);
        for (size_t i = 0; i < t->elements; i++)
            t->values[i] =
                exec_get(t->bytes + exec_memory_index(t, i) * exec_bytes_of(t->dtype), t->dtype);
    }
}

const char *exec_widths(Run *r)
{
    AuText text = {.arena = r->arena};
    bool *is_width = AU_NEW_ARRAY(r->arena, bool, r->attn->size_count + 1);
    driver_find_widths(r->attn, is_width);
    for (uint32_t n = 0; n < r->attn->size_count; n++)
        if (is_width[n])
            au_text_add(&text, "%s%s=%d", text.length ? ";" : "", r->attn->sizes[n].name,
                        (int)r->sizes[n]);
    return text.length ? au_text_str(&text) : NULL;
}

/* The n-th tensor of a role; EXEC_NONE: there are fewer. */
uint32_t exec_find_role(const Run *r, uint32_t role, uint32_t n)
{
    for (uint32_t i = 0; i < r->tensor_count; i++)
        if (r->tensors[i].role == role && n-- == 0) return i;
    return EXEC_NONE;
}

/* The oracle's results by tensor, in f64 or rounded as a plain kernel rounds. */
static bool oracle(Run *r, AuDtype round_to, double *const *results)
{
    const uint32_t o = r->attn->tensor_count;
    const double *tensors[MOST_TENSORS], *dfinals[MOST_TENSORS], *dout = NULL;
    double *grads[MOST_TENSORS] = {NULL}, *finals[MOST_TENSORS];
    const uint32_t final_count = r->attn->online ? r->attn->online->final_count : 0;
    for (uint32_t n = 0, shown = 0, given = 0, kept = 0; n < final_count; n++) {
        const bool is_kept = r->attn->online->finals[n].kept;
        const uint32_t at = is_kept ? exec_find_role(r, AULE_ROLE_KEPT_ROW, kept++)
                                    : exec_find_role(r, AULE_ROLE_FINAL, shown++);
        const bool is_given = r->grads && r->grads->reads[n].given;
        const uint32_t dfinal = is_given ? exec_find_role(r, AULE_ROLE_DFINAL, given++) : EXEC_NONE;
        finals[n] = at == EXEC_NONE ? NULL : results[at];
        dfinals[n] =
            dfinal == EXEC_NONE || r->tensors[dfinal].absent ? NULL : r->tensors[dfinal].values;
    }
    const char *why = NULL;
    for (uint32_t n = 0; n < o; n++) tensors[n] = r->tensors[n].values;
    const AuOracleCall call = {.sizes = r->sizes,
                               .tensors = tensors,
                               .params = r->params,
                               .params_i64 = r->params_i64,
                               .o = results[o],
                               .finals = finals,
                               .round_to = round_to,
                               .tf32 = exec_is_tf32(r) && round_to == AU_DT_F32,
                               .exact_sums = r->suite->is_strict};
    if (!(r->attn->linear ? exec_recurrence(r, call, results, &why)
                          : attn_interpret(r->attn, &call, r->arena, &why)))
        return exec_fail(r, "oracle", why ? why : "");
    if (!r->grads || r->attn->linear) return true;
    dout = r->tensors[exec_find_role(r, AULE_ROLE_DOUT, 0)].values;
    exec_gradients_of(r, results, grads);
    return attn_interpret_gradients(r->attn, r->grads, &call, dout, dfinals, grads, r->arena,
                                    &why) ||
           exec_fail(r, "oracle of gradients", why ? why : "");
}

static double difference(double x, double y)
{
    return x == y || (isnan(x) && isnan(y)) ? 0
           : isfinite(x) && isfinite(y)     ? fabs(x - y)
                                            : INFINITY;
}

static double largest_of(const Tensor *t, const double *want)
{
    double largest = 0;
    for (size_t n = 0; n < t->elements; n++)
        if (isfinite(want[n])) largest = fmax(largest, fabs(want[n]));
    return largest;
}

static double largest_error(const Tensor *t, const double *want, const double *plain)
{
    double error = 0;
    for (size_t n = 0; n < t->elements; n++) error = fmax(error, difference(plain[n], want[n]));
    return error;
}

static bool ask_oracle(Run *r, double **want, double **plain)
{
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        want[n] = AU_NEW_ARRAY(r->arena, double, r->tensors[n].elements + 1);
        plain[n] = AU_NEW_ARRAY(r->arena, double, r->tensors[n].elements + 1);
    }
    return oracle(r, AU_DT_OPERAND, want) && oracle(r, exec_dtype_of(r->dtype), plain);
}

static bool is_small_gradient(const Tensor *t)
{
    return t->role == AULE_ROLE_GRAD && t->elements > 0 && t->elements < ENOUGH_ELEMENTS;
}

/* How large the plain formula's error is. A gradient of few elements, each a sum over many pairs, says it
 * once or twice only, and the quotient of two such numbers can be anything: it is asked of more arguments. */
static bool plain_errors(Run *r, double *const *want, double *const *plain, double *errors)
{
    double *others[2][MOST_TENSORS] = {{NULL}};
    size_t least = ENOUGH_ELEMENTS;
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        errors[n] = largest_error(t, want[n], plain[n]);
        if (is_small_gradient(t) && t->elements < least) least = t->elements;
    }
    for (size_t sets = 1; sets < MOST_SETS && sets * least < ENOUGH_ELEMENTS; sets++) {
        for (uint32_t n = 0; n < r->tensor_count; n++) {
            const uint32_t role = r->tensors[n].role;
            if (n < r->attn->tensor_count || role == AULE_ROLE_DOUT || role == AULE_ROLE_DFINAL ||
                role == AULE_ROLE_DSTATE_OUT || role == AULE_ROLE_STATE)
                fill(r, &r->tensors[n], n);
        }
        if (!ask_oracle(r, others[0], others[1])) return false;
        for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++)
            if (is_small_gradient(&r->tensors[n]))
                errors[n] =
                    fmax(errors[n], largest_error(&r->tensors[n], others[0][n], others[1][n]));
    }
    return true;
}

/* Gradients of keys and values are products of whole tiles, in which 0 times NaN is NaN. */
static bool may_be_poisoned(const Run *r, const Tensor *t)
{
    return exec_has(r, "poison") && (strcmp(t->name, "dk") == 0 || strcmp(t->name, "dv") == 0);
}

/* With queries of 0, scores are biases alone, which no rounding touches: then a script whose plain formula in the operand type is not
 * near the truth has the wrong formula, and a kernel that has the same error is not right. */
static bool is_no_measure(const Run *r, const Tensor *t, const double *want, double bound)
{
    const double largest = largest_of(t, want);
    return exec_has(r, "flat") && largest > 0 && bound > largest / 4;
}

/* The plain formula rounds weights to the type, and loses those that it does not hold. */
static bool is_of_small_weights(const Run *r, const Tensor *t)
{
    return exec_has(r, "scaled") && strcmp(t->name, "dv") == 0;
}

/* What a few roundings are of the largest result. A state behind chunks is f32, but it may be little more than the token last written, whose key
 * products take rounded: one rounding of the operand's type. Of a
 * gradient through slots twice the few: of those, the plain formula of recurrences has none. */
static double few_roundings(const Run *r, const Tensor *t)
{
    if (r->attn->linear && t->role == AULE_ROLE_GRAD && t->dtype == AU_DT_F32) return 0x1p-20;
    if (!r->chunk || t->role != AULE_ROLE_STATE_OUT) return 0x1p-21;
    return 0x1p-21 + (strcmp(r->dtype, "bf16") == 0 ? 0x1p-8 : 0x1p-11);
}

/* [plain]: the plain formula's error; [scale]: of which a few roundings are no error. */
static bool compare(Run *r, const Tensor *t, const double *want, double plain, double scale)
{
    const double factor = is_made(t->role, AU_BACKWARD) ? 4 : 2;
    double error = 0;
    size_t worst = 0;
    for (size_t n = 0; n < t->elements; n++) {
        const double got = exec_get(t->bytes + exec_memory_index(t, n) * exec_bytes_of(t->dtype),
                                    t->dtype),
                     e = difference(got, want[n]);
        if (isnan(got) && may_be_poisoned(r, t)) continue;
        if (exec_may_be_later(r, t, n, got)) continue;
        if (e > error || isnan(e)) error = e, worst = n;
    }
    const double bound =
        is_of_small_weights(r, t)
            ? (strcmp(r->dtype, "bf16") == 0 ? 0x1p-6 : 0x1p-9) * largest_of(t, want)
            : factor * plain + few_roundings(r, t) * scale;
    if (is_no_measure(r, t, want, bound))
        return exec_fail(r, t->name, "the plain formula itself is as far off as this is large");
    ExecSuite *suite = r->suite;
    const uint32_t result = suite->result_count++;
    suite->results[result].error = error == 0 ? 0 : error / bound;
    snprintf(suite->results[result].name, sizeof suite->results[result].name, "%s", t->name);
    if (error <= bound) return true;
    char text[200];
    snprintf(text, sizeof text, "element %zu is %.9g, expected %.9g: error %.3g, bound %.3g", worst,
             exec_get(t->bytes + exec_memory_index(t, worst) * exec_bytes_of(t->dtype), t->dtype),
             want[worst], error, bound);
    return exec_fail(r, t->name, text);
}

static bool check(Run *r)
{
    double *want[MOST_TENSORS] = {NULL}, *plain[MOST_TENSORS] = {NULL}, errors[MOST_TENSORS];
    if (!ask_oracle(r, want, plain) || !plain_errors(r, want, plain, errors)) return false;
    bool good = true;
    double gradients = 0; /* those that cancel are differences of numbers as large as the others */
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++)
        if (is_made(r->tensors[n].role, AU_BACKWARD) && !r->tensors[n].absent)
            gradients = fmax(gradients, largest_of(&r->tensors[n], want[n]));
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        if (is_made(t->role, AU_BACKWARD) && !t->absent)
            good &= compare(r, t, want[n], errors[n], gradients);
        else if (t->role == AULE_ROLE_OUTPUT || t->role == AULE_ROLE_FINAL ||
                 ((t->role == AULE_ROLE_STATE_OUT || t->role == AULE_ROLE_POOL) && !t->absent))
            good &= compare(r, t, want[n], errors[n], largest_of(t, want[n]));
    }
    return good;
}

bool exec_run(ExecSuite *suite, const ExecCase *c, const char *dtype)
{
    Run *r = calloc(1, sizeof *r);
    if (!r) return false;
    suite->result_count = 0;
    *r = (Run){.suite = suite,
               .c = c,
               .dtype = dtype,
               .arena = au_arena_new(NULL),
               .random = 88172645463325252u ^ suite->seed * 0x9E3779B97F4A7C15u};
    r->diags = au_diags_new(r->arena);
    size_t length = 0;
    uint32_t count = 0;
    const char *text =
        read_file(r->arena, au_format(r->arena, "%s/%s", suite->scripts, c->script), &length);
    bool good = text != NULL || exec_fail(r, "read", suite->scripts);
    const AuScript *script = NULL;
    if (good) {
        AuNames *names = r->names = au_names_new(r->arena);
        script = front_parse(r->arena, names, r->diags,
                             au_source_add(r->diags, c->script, text, length));
        AuAttn **all = front_check(r->arena, names, r->diags, script, &count);
        good = (count == 1 && !r->diags->errors) || exec_fail(r, "front end", "errors");
        if (good) r->attn = all[0];
    }
    if (good && !exec_has(r, "forward")) {
        attn_simplify(r->attn);
        r->grads = attn_gradients(r->attn, r->arena, r->diags);
        AuText said = {.arena = r->arena};
        if (!r->grads) au_diags_render(r->diags, &said);
        good = r->grads || exec_fail(r, "gradients", au_text_str(&said));
    }
    good = good && bind(r) && make_tensors(r) && exec_plant(r) &&
           (suite->device ? exec_on_device(r, text, length) : exec_interpreted(r, script)) &&
           check(r);
    for (uint32_t n = 0; n < r->tensor_count; n++) aule_buffer_free(r->tensors[n].buffer);
    au_arena_free(r->arena);
    free(r);
    return good;
}

ExecSuite *exec_open(const char *device, const char *scripts)
{
    ExecSuite *s = calloc(1, sizeof *s);
    aule_error *error = NULL;
    if (s) *s = (ExecSuite){.name = device, .scripts = scripts};
    if (s && strstr(device, "-ir:")) return s;
    if (!s || aule_device_open(device, NULL, &s->device, &error)) {
        fprintf(stderr, "%s: %s\n", device, aule_error_message(error));
        aule_error_free(error);
        free(s);
        return NULL;
    }
    s->info = aule_device_get_info(s->device);
    return s;
}

bool exec_all(ExecTally *tally, const char *device, const char *scripts, const ExecCase *cases,
              unsigned count, ExecChoice *choose, const void *of)
{
    ExecSuite *suite = exec_open(device, scripts);
    if (!suite) return false;
    for (unsigned n = 0; n < count; n++)
        for (unsigned turn = 0; turn < EXEC_TURNS; turn++) {
            const char *dtype = choose(of, n, turn);
            if (dtype) *(exec_run(suite, &cases[n], dtype) ? &tally->passed : &tally->failed) += 1;
        }
    exec_close(suite);
    return true;
}

int exec_report(const ExecTally *tally)
{
    printf("%u passed, %u failed\n", tally->passed, tally->failed);
    return tally->failed != 0;
}

void exec_be_strict(ExecSuite *suite, uint64_t seed)
{
    suite->is_strict = true;
    suite->seed = seed;
}

double exec_error(const ExecSuite *suite, uint32_t n, const char **name)
{
    *name = n < suite->result_count ? suite->results[n].name : NULL;
    return *name ? suite->results[n].error : 0;
}

void exec_close(ExecSuite *suite)
{
    if (!suite) return;
    if (suite->device) aule_device_close(suite->device);
    free(suite);
}
