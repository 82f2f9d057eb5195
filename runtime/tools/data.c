/* data.c - random arguments of the shapes that a command line names. */
#include <math.h>
#include <string.h>

#include "session.h"

enum { LISTS = AULE_TENSOR_BROUGHT & ~AULE_TENSOR_SPREADS }; /* of a layout */

/* ---- shapes */

typedef struct Shape {
    int64_t at[MAX_ARGS]; /* by index of the signature's sizes; -1: not given */
} Shape;

static int fail_size(const AuSession *s, const char *name, int length)
{
    char names[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < s->signature->size_count && used < sizeof names - 1; i++)
        if (s->signature->sizes[i].name[0])
            used += (size_t)snprintf(names + used, sizeof names - used, "%s %s", used ? "," : "",
                                     s->signature->sizes[i].name);
    return command_fail(EXIT_USAGE, "--shape: %s has no size '%.*s', it has%s", s->signature->name,
                        length, name, names);
}

/* "S=4096", of [length] characters. */
static int parse_size(const AuSession *s, const char *text, size_t length, Shape *shape)
{
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : 0;
    uint64_t value;
    uint32_t i = 0;
    if (name == 0 || !parse_whole(equals + 1, length - name - 1, INT64_MAX, &value))
        return command_fail(EXIT_USAGE, "--shape: '%.*s', expected NAME=NUMBER", (int)length, text);
    while (i < s->signature->size_count && (strlen(s->signature->sizes[i].name) != name ||
                                            memcmp(s->signature->sizes[i].name, text, name) != 0))
        i++;
    if (i == s->signature->size_count) return fail_size(s, text, (int)name);
    if (shape->at[i] >= 0)
        return command_fail(EXIT_USAGE, "--shape: %.*s is given twice", (int)name, text);
    shape->at[i] = (int64_t)value;
    return 0;
}

static int parse_shape(const AuSession *s, const char *text, Shape *shape)
{
    int status = 0;
    for (uint32_t i = 0; i < MAX_ARGS; i++) shape->at[i] = -1;
    while (text && !status) {
        size_t length = strcspn(text, ",");
        status = parse_size(s, text, length, shape);
        text = text[length] ? text + length + 1 : NULL;
    }
    return status;
}

/* Does a kernel for the device take operands of that type? */
static bool is_taken(const AuSession *s, uint32_t dtype)
{
    const char *target = aule_device_get_info(s->device)->backend;
    for (uint32_t i = 0; i < s->signature->variant_count; i++) {
        const aule_variant_v1 *v = session_variant(s->signature, i);
        if (v->dtype == dtype && strcmp(v->target, target) == 0) return true;
    }
    return false;
}

/* "vulkan, opencl" */
static void list_targets(const AuSession *s, char *text, size_t bytes)
{
    for (uint32_t i = 0; i < s->signature->variant_count; i++) {
        const char *target = session_variant(s->signature, i)->target;
        const size_t used = strlen(text);
        if (!strstr(text, target))
            snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", target);
    }
}

/* A type that nobody gave: the first that a kernel takes. Of one that none takes, or a device for which there is nothing, it is said here,
 * since widths follow from it. */
static int choose_type(const AuSession *s, uint32_t *dtype)
{
    static const uint32_t types[] = {AULE_F32, AULE_F16, AULE_BF16};
    char there[64] = "", targets[96] = "";
    if (is_taken(s, *dtype)) return 0;
    const bool given = *dtype != AULE_OPERAND;
    for (int n = 0; n < 3; n++) {
        const size_t used = strlen(there);
        if (!is_taken(s, types[n])) continue;
        if (!given && !used) *dtype = types[n];
        snprintf(there + used, sizeof there - used, "%s%s", used ? ", " : "",
                 array_dtype_name(types[n]));
    }
    if (!*there) {
        list_targets(s, targets, sizeof targets);
        return command_fail(EXIT_WRONG, "%s has no kernel for %s, only for %s", s->signature->name,
                            aule_device_get_info(s->device)->id, *targets ? targets : "nothing");
    }
    if (!given) return 0;
    return command_fail(EXIT_USAGE, "--dtype is %s, of which %s has no kernels for %s; it has %s",
                        array_dtype_name(*dtype), s->signature->name,
                        aule_device_get_info(s->device)->id, there);
}

/* Widths that were not given: those of the first kernel for the device and type that agrees with what was. */
static void add_fixed(const AuSession *s, uint32_t dtype, Shape *shape)
{
    const char *target = aule_device_get_info(s->device)->backend;
    for (uint32_t i = 0; i < s->signature->variant_count; i++) {
        const aule_variant_v1 *v = session_variant(s->signature, i);
        bool fits = v->dtype == dtype && strcmp(v->target, target) == 0;
        for (uint32_t j = 0; fits && j < v->fixed_count; j++)
            fits =
                shape->at[v->fixed[j].size] < 0 || shape->at[v->fixed[j].size] == v->fixed[j].value;
        for (uint32_t j = 0; fits && j < v->fixed_count; j++)
            shape->at[v->fixed[j].size] = v->fixed[j].value;
        if (fits) return;
    }
}

/* The size that is axis 1 of the tensor in [role], or -1. */
static int32_t heads_of(const AuSession *s, uint32_t role)
{
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(s, i);
        if (t->role != role || t->rank != 4 || t->axes[1].length != 1) continue;
        if ((t->axes[1].code[0] & 255u) == AULE_E_SIZE) return (int32_t)(t->axes[1].code[0] >> 8);
    }
    return -1;
}

/* Key and value heads that were not given: as many as query heads. */
static void add_heads(const AuSession *s, Shape *shape)
{
    int32_t q = heads_of(s, AULE_ROLE_Q),
            others[] = {heads_of(s, AULE_ROLE_K), heads_of(s, AULE_ROLE_V)};
    for (int i = 0; q >= 0 && i < 2; i++)
        if (others[i] >= 0 && shape->at[others[i]] < 0) shape->at[others[i]] = shape->at[q];
}

/* ---- data */

typedef struct Random {
    uint64_t state;
} Random;

static uint64_t draw(Random *r) /* splitmix64 */
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(Random *r) /* (0, 1) */ { return ((double)(draw(r) >> 11) + 0.5) * 0x1p-53; }

static double normal(Random *r)
{
    return sqrt(-2 * log(uniform(r))) * cos(6.283185307179586 * uniform(r));
}

/* Behind the first 2^20 each is one of those, drawn: caches of gigabytes would take a minute of logarithms. */
static void make_normal(float *values, size_t count, Random *r)
{
    enum { KEPT = 1 << 20, BITS = 20, AT_ONCE = 3 };
    const size_t own = count < KEPT ? count : KEPT;
    for (size_t i = 0; i < own; i++) values[i] = (float)normal(r);
    for (size_t i = own; i < count;) {
        uint64_t drawn = draw(r);
        for (uint32_t n = 0; n < AT_ONCE && i < count; n++, drawn >>= BITS)
            values[i++] = values[drawn & (KEPT - 1)];
    }
}

/* Elements of 8 bits; without the bit in which NaN and infinity differ from numbers. */
static void make_codes(AuArray *array, Random *random)
{
    uint8_t *codes = array->data;
    for (size_t i = 0; i < array->bytes; i++) codes[i] = (uint8_t)(256 * uniform(random)) & 0xbf;
}

/* The first size of an extent that nobody has given. */
static const char *missing_size(const AuSession *s, const aule_expr *extent, const Shape *shape)
{
    for (uint32_t n = 0; n < extent->length; n++) {
        const uint32_t size = extent->code[n] >> 8;
        if ((extent->code[n] & 255u) == AULE_E_SIZE && size < s->signature->size_count &&
            shape->at[size] < 0)
            return s->signature->sizes[size].name;
    }
    return "the sizes";
}

static int make_input(AuSession *s, uint32_t index, uint32_t operand, const Shape *shape,
                      Random *random)
{
    const aule_tensor_v1 *t = session_tensor(s, index);
    AuArray *array = &s->arrays[index];
    int64_t extents[8];
    AuWhy why;
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        aule_value value;
        aule_error *error = NULL;
        if (aule_evaluate(&t->axes[axis], shape->at, s->signature->size_count, NULL, 0, &value,
                          &error))
            return command_error(error);
        if (value.i < 0)
            return command_fail(EXIT_USAGE, "--shape does not give %s, of which %s has an axis",
                                missing_size(s, &t->axes[axis], shape), t->name);
        extents[axis] = value.i;
    }
    uint32_t dtype = t->dtype == AULE_OPERAND ? operand : t->dtype;
    bool is_float = dtype == AULE_F32 || dtype == AULE_F16 || dtype == AULE_BF16;
    if (!array_new(array, is_float ? AULE_F32 : dtype, (int32_t)t->rank, extents, &why))
        return command_fail(EXIT_WRONG, "%s", why.text);
    float *values = array->data;
    if (is_float)
        make_normal(values, array->bytes / 4, random);
    else if (dtype == AULE_BOOL)
        memset(array->data, 1, array->bytes);
    else if (t->role == AULE_ROLE_K || t->role == AULE_ROLE_V)
        make_codes(array, random);
    return is_float && !array_convert(array, dtype, &why) ? command_fail(EXIT_WRONG, "%s", why.text)
                                                          : 0;
}

const char *session_axis_name(const AuSession *s, const aule_tensor_v1 *t, uint32_t axis)
{
    if (axis >= t->rank || t->axes[axis].length != 1) return "";
    const uint32_t word = t->axes[axis].code[0], size = word >> 8;
    return (word & 255u) == AULE_E_SIZE && size < s->signature->size_count
               ? s->signature->sizes[size].name
               : "";
}

int session_make_inputs(AuSession *s, AuOptions *options)
{
    return session_make_shaped(s, options, options_take(options, "shape"));
}

int session_make_shaped(AuSession *s, AuOptions *options, const char *sizes)
{
    Shape shape;
    uint32_t dtype;
    Random random = {1};
    int status = session_dtype(options, &dtype);
    if (!status) status = parse_shape(s, sizes, &shape);
    if (!status) status = session_read(s, options, dtype);
    if (!status) status = choose_type(s, &dtype);
    if (status) return status;
    add_fixed(s, dtype, &shape);
    add_heads(s, &shape);
    bool made[MAX_ARGS] = {false};
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(s, i);
        bool wanted = !session_is_of_backward(t) || (s->backward && t->role == AULE_ROLE_DOUT);
        if (t->role >= AULE_ROLE_SEQUENCES) wanted = false; /* indices; states of steps */
        if (session_is_made(t) || !wanted || (t->flags & AULE_TENSOR_IN_K) || s->arrays[i].data)
            continue;
        status = make_input(s, i, dtype, &shape, &random);
        if (status) return status;
        made[i] = true;
    }
    for (uint32_t i = 0; i < s->signature->tensor_count; i++)
        if (made[i] && session_tensor(s, i)->flags & LISTS) session_fill_list(s, i);
    return 0;
}
