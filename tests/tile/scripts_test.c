/* scripts_test.c - scripts through the front end, the schedules and the tiled interpreter, against the f64 oracle of the attention
 * IR: the rung of the ladder between the two. It needs no device, and finds races of schedules for devices that are not here. */
#include <math.h>
#include <stdio.h>

#include "front.h"
#include "run.h"
#include "schedule.h"
#include "support.h"
#include "warps.h"

enum { MOST = 24 };

typedef struct Case {
    const char *script, *sizes, *params;
} Case;

static const Case cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=33 T=57 D=32 E=32", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=70 T=23 D=16 E=48", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=16 E=16", NULL},
    {"mha.attn", "B=1 H=4 Hk=2 S=130 T=150 D=24 E=40", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=18 T=70 D=192 E=128", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=9 T=33 D=256 E=256", NULL},
    {"../../tile/scripts/latent.attn", "B=2 H=3 S=40 T=40", NULL},
    {"softmax_spelled_out.attn", "B=1 H=1 Hk=1 S=40 T=77 D=32 E=16", NULL},
    {"gemma_local.attn", "B=1 H=2 Hk=2 S=60 T=90 D=16 E=16", "window=20"},
    {"documents_bias_sink.attn", "B=2 H=1 S=90 T=90 D=16 E=16", NULL},
    {"dropout.attn", "B=1 H=1 Hk=1 S=37 T=37 D=16 E=16", "rate=0.25 seed=123456789"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=20 T=33 D=32", NULL},
    {"mla_train.attn", "B=1 H=1 S=20 T=35 D=32 E=16 P=16", NULL},
    {"sigmoid.attn", "B=1 H=1 S=40 T=40 D=16 E=16", NULL},
    {"relu.attn", "B=1 H=2 S=20 T=50 D=16 E=16", NULL},
    {"retention.attn", "B=1 H=2 S=50 T=50 D=16 E=16", NULL},
    {"retention_decay.attn", "B=1 H=2 S=60 T=60 D=16 E=32", NULL},
};

static const char *const targets[] = {"avx2", "avx512", "avx512bf16", "avx512amx",
                                      "neon", "simt32", "simt8",      "simt1"};

/* Targets whose warps have matrix units: every script again, in the shape of the table and in shapes for it to fail in. */
static const char *const warp_targets[] = {"sm_75", "sm_80", "sm_86", "sm_90"};

static const AuShape warp_shapes[] = {
    {.executors = 2, .rows = 16, .key_tile = 32, .stages = 1},
    {.executors = 2, .rows = 32, .key_tile = 16, .stages = 2, .query_in_registers = true},
    {.executors = 4, .rows = 16, .key_tile = 64, .stages = 2},
    {.executors = 1, .rows = 16, .key_tile = 16, .stages = 1, .query_in_registers = true},
};

static const char *scripts;
static bool quick;

typedef struct Run {
    Session *s;
    const Case *c;
    AuAttn *attn;
    AuTileElem operand;
    int64_t sizes[MOST], params_i64[MOST];
    double params[MOST];
    double *values[MOST]; /* of the attention's tensors */
    AuTileTensor tensors[MOST];
    uint32_t count;
    AuTileScalar scalars[MOST];
    uint32_t scalar_count;
    uint64_t random;
} Run;

/* ---- the case */

static double uniform(Run *r)
{
    uint64_t x = r->random += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static double normal(Run *r)
{
    return sqrt(-2 * log(uniform(r) + 1e-300)) * cos(6.283185307179586 * uniform(r));
}

static bool number_of(const char *list, const char *name, double *value)
{
    const size_t length = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ' ')) {
        while (*at == ' ') at++;
        if (strncmp(at, name, length) != 0 || at[length] != '=') continue;
        *value = strtod(at + length + 1, NULL);
        return true;
    }
    return false;
}

static AuAttn *check_script(Session *s, const char *name)
{
    const char *path = au_format(s->arena, "%s/%s", scripts, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot read %s", path);
    char *text = au_alloc(s->arena, 1 << 16);
    const size_t length = fread(text, 1, (1 << 16) - 1, file);
    fclose(file);
    uint32_t count = 0;
    AuNames *names = au_names_new(s->arena);
    const AuScript *script =
        front_parse(s->arena, names, s->diags, au_source_add(s->diags, name, text, length));
    AuAttn **all = front_check(s->arena, names, s->diags, script, &count);
    if (s->diags->errors || count != 1) fail_msg("%s", session_errors(s));
    return all[0];
}

/* Widths are fixed when compiling; the rest is bound by the launch. */
static void bind_numbers(Run *r)
{
    double v = 0;
    for (uint32_t n = 0; n < r->attn->size_count; n++) {
        AuSize *size = &r->attn->sizes[n];
        if (size->fixed < 0) {
            if (!number_of(r->c->sizes, size->name, &v))
                fail_msg("%s: no size %s", r->c->script, size->name);
            r->sizes[n] = (int64_t)v;
            if (strchr("DEP", *size->name) && !size->name[1]) size->fixed = r->sizes[n];
        } else {
            r->sizes[n] = size->fixed;
        }
    }
    for (uint32_t n = 0; n < r->attn->param_count; n++) {
        const AuParam *p = &r->attn->params[n];
        if (!number_of(r->c->params, p->name, &v))
            v = attn_scalar(r->attn, p->default_value, r->sizes, r->params);
        r->params[n] = p->dtype == AU_DT_F32 ? (double)(float)v : v;
        r->params_i64[n] = (int64_t)v;
        const char *name = hooks_name(r->s->arena, p->name);
        if (p->dtype != AU_DT_I64) {
            r->scalars[r->scalar_count++] = (AuTileScalar){name, r->params[n]};
            continue;
        }
        r->scalars[r->scalar_count++] = (AuTileScalar){au_format(r->s->arena, "%s_low", name),
                                                       (double)(int32_t)r->params_i64[n]};
        r->scalars[r->scalar_count++] = (AuTileScalar){au_format(r->s->arena, "%s_high", name),
                                                       (double)(int32_t)(r->params_i64[n] >> 32)};
    }
}

static bool is_integer(AuDtype d)
{
    return d == AU_DT_I32 || d == AU_DT_I64 || d == AU_DT_U8 || d == AU_DT_BOOL;
}

static float rounded(AuTileElem elem, float x)
{
    if (elem == TILE_F16) {
        const float step = fabsf(x) < 0x1p-14f ? 0x1p-24f : ldexpf(1, ilogbf(x) - 10);
        return rintf(x / step) * step;
    }
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (elem == TILE_BF16) bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
    memcpy(&x, &bits, 4);
    return x;
}

static void make_inputs(Run *r)
{
    static const char *const roles[] = {"q", "k", "v"};
    for (uint32_t n = 0; n < r->attn->tensor_count; n++) {
        const AuTensor *from = &r->attn->tensors[n];
        AuTileTensor *t = &r->tensors[r->count++];
        size_t elements = 1;
        *t = (AuTileTensor){.name = n < 3 ? roles[n] : hooks_name(r->s->arena, from->name),
                            .rank = from->rank};
        for (uint32_t d = 0; d < from->rank; d++) {
            t->shape[d] = (int64_t)attn_scalar(r->attn, from->axes[d], r->sizes, r->params);
            elements *= (size_t)t->shape[d];
        }
        r->values[n] = AU_NEW_ARRAY(r->s->arena, double, elements + 1);
        const bool integers = is_integer(from->dtype);
        const AuTileElem elem = from->dtype == AU_DT_OPERAND ? r->operand
                                : from->dtype == AU_DT_F16   ? TILE_F16
                                : from->dtype == AU_DT_BF16  ? TILE_BF16
                                                             : TILE_F32;
        if (integers)
            t->i32 = AU_NEW_ARRAY(r->s->arena, int32_t, elements + 1);
        else
            t->f32 = AU_NEW_ARRAY(r->s->arena, float, elements + 1);
        for (size_t x = 0; x < elements; x++) {
            const bool first = t->rank && x % (size_t)t->shape[t->rank - 1] == 0;
            if (integers)
                t->i32[x] = (first ? 0 : t->i32[x - 1]) + (uniform(r) < 0.06); /* ascending */
            else
                t->f32[x] = rounded(elem, (float)normal(r));
            r->values[n][x] = integers ? (double)t->i32[x] : (double)t->f32[x];
        }
    }
}

/* ---- what kernels write: outputs, finals, workspace. Extents are sums and products of sizes. */

static int64_t value_of(const Run *r, const AuTileExpr *e)
{
    int64_t a[3] = {0};
    for (uint32_t i = 0; i < e->args.count && i < 3; i++) a[i] = value_of(r, e->args.at[i]);
    switch ((int)e->op) {
    case TILE_X_INT: return e->integer;
    case TILE_X_ADD: return a[0] + a[1];
    case TILE_X_SUB: return a[0] - a[1];
    case TILE_X_MUL: return a[0] * a[1];
    case TILE_X_DIV: return a[0] / a[1];
    case TILE_X_CDIV: return (a[0] + a[1] - 1) / a[1];
    case TILE_X_MAX: return a[0] > a[1] ? a[0] : a[1];
    case TILE_X_MIN: return a[0] < a[1] ? a[0] : a[1];
    }
    for (uint32_t n = 0; e->op == TILE_X_NAME && n < r->attn->size_count; n++)
        if (strcmp(hooks_name(r->s->arena, r->attn->sizes[n].name), e->name) == 0)
            return r->sizes[n];
    fail_msg("%s: an extent of a tensor is no sum or product of sizes", r->c->script);
    return 0;
}

static void make_outputs(Run *r, const AuSchedule *schedule)
{
    const AuTileModule *m = schedule->module;
    for (uint32_t k = 0; k < m->kernels.count; k++)
        for (uint32_t i = 0; i < m->kernels.at[k]->args.count; i++) {
            const AuTileMemory *arg = m->kernels.at[k]->args.at[i];
            bool known = arg->mode == TILE_PARAM;
            for (uint32_t n = 0; n < r->count; n++)
                known |= strcmp(r->tensors[n].name, arg->name) == 0;
            if (known) continue;
            AuTileTensor *t = &r->tensors[r->count++];
            int64_t elements = 1;
            *t = (AuTileTensor){.name = arg->name, .rank = arg->type.count, .fresh = true};
            for (uint32_t n = 0; n < schedule->region_count; n++)
                t->workspace |= strcmp(schedule->regions[n], arg->name) == 0;
            for (uint32_t d = 0; d < t->rank; d++)
                elements *= t->shape[d] = value_of(r, arg->type.axes[d].extent);
            if (tile_elem(arg->type.elem)->is_float)
                t->f32 = AU_NEW_ARRAY(r->s->arena, float, elements + 1);
            else
                t->i32 = AU_NEW_ARRAY(r->s->arena, int32_t, elements + 1);
        }
}

static double difference(double x, double y)
{
    if (x == y || (isnan(x) && isnan(y))) return 0;
    return isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
}

static void compare(Run *r, const char *target, const char *name, const double *want,
                    const double *plain)
{
    const AuTileTensor *t = NULL;
    for (uint32_t n = 0; n < r->count; n++)
        if (strcmp(r->tensors[n].name, name) == 0) t = &r->tensors[n];
    if (!t) fail_msg("%s: no kernel writes %s", r->c->script, name);
    double error = 0, bound = 0, largest = 0;
    int64_t elements = 1;
    for (uint32_t d = 0; d < t->rank; d++) elements *= t->shape[d];
    for (int64_t n = 0; n < elements; n++) {
        error = fmax(error, difference((double)t->f32[n], want[n]));
        bound = fmax(bound, difference(plain[n], want[n]));
        if (isfinite(want[n])) largest = fmax(largest, fabs(want[n]));
    }
    bound = 2 * bound + 0x1p-20 * largest;
    if (!(error <= bound))
        fail_msg("%s [%s] on %s, %s: error %.3g, bound %.3g", r->c->script, r->c->sizes, target,
                 name, error, bound);
}

static void check_outputs(Run *r, const char *target)
{
    const AuAttn *a = r->attn;
    const AuDtype dtypes[] = {
        [TILE_F32] = AU_DT_F32, [TILE_F16] = AU_DT_F16, [TILE_BF16] = AU_DT_BF16};
    const char *why = NULL;
    double *o[2], *finals[2][MOST];
    int64_t rows = 1;
    for (uint32_t d = 0; d < 3; d++) rows *= r->tensors[0].shape[d];
    const int64_t width = (int64_t)attn_scalar(a, a->tensors[2].axes[3], r->sizes, r->params);
    for (int plain = 0; plain < 2; plain++) {
        o[plain] = AU_NEW_ARRAY(r->s->arena, double, rows *width);
        for (uint32_t f = 0; f < a->online->final_count; f++)
            finals[plain][f] = AU_NEW_ARRAY(r->s->arena, double, rows);
        const AuOracleCall call = {.sizes = r->sizes,
                                   .tensors = (const double *const *)r->values,
                                   .params = r->params,
                                   .params_i64 = r->params_i64,
                                   .o = o[plain],
                                   .finals = finals[plain],
                                   .round_to = plain ? dtypes[r->operand] : AU_DT_OPERAND};
        if (!attn_interpret(a, &call, r->s->arena, &why)) fail_msg("oracle: %s", why);
    }
    compare(r, target, "o", o[0], o[1]);
    for (uint32_t f = 0; f < a->online->final_count; f++)
        compare(r, target, au_format(r->s->arena, "final_%s", a->online->finals[f].name),
                finals[0][f], finals[1][f]);
}

static const AuSchedule *schedule_of(Run *r, const AuProblem *p, const AuShape *shape)
{
    const AuSchedule *out = shape ? schedule_warps_forward(r->s->arena, r->s->diags, p, shape) : NULL;
    if (!shape) {
        const AuShape lanes = schedule_lanes_shape(p);
        out = schedule_lanes_forward(r->s->arena, r->s->diags, p, &lanes);
    }
    if (!out) fail_msg("%s on %s: %s", r->c->script, p->caps->name, session_errors(r->s));
    return out;
}

/* [shape] 0: schedule lanes; 1: warps in the shape of the table; 2..: warps in shapes of this test. */
static void run_case(const Case *c, const char *target, AuTileElem operand, uint32_t shape, uint64_t seed)
{
    AuShape of_table;
    const char *why = NULL;
    Session s = session_begin();
    Run *r = AU_NEW(s.arena, Run);
    const AuTileCaps *caps = tile_caps(target);
    *r = (Run){.s = &s, .c = c, .operand = operand, .random = seed};
    r->attn = check_script(&s, c->script);
    bind_numbers(r);
    AuHooks *hooks = hooks_make(s.arena, s.diags, r->attn, caps);
    if (!hooks) fail_msg("%s", session_errors(&s));
    const AuProblem problem = {
        .attn = r->attn,
        .hooks = hooks,
        .caps = caps,
        .operand = operand,
        .d = (int32_t)attn_scalar(r->attn, r->attn->tensors[0].axes[3], r->sizes, r->params),
        .e = (int32_t)attn_scalar(r->attn, r->attn->tensors[2].axes[3], r->sizes, r->params)};
    if (shape == 1 && !schedule_warps_shape(s.arena, &problem, &of_table, &why))
        fail_msg("%s on %s: no shape, %s", c->script, target, why);
    if (shape > 1) of_table = warp_shapes[shape - 2];
    if (!(caps->is_async & TILE_ASYNC_COPY)) of_table.stages = 1;
    if (shape > 1 && schedule_warps_refusal(s.arena, &problem, &of_table)) {
        session_end(&s); /* wide heads do not fit all of them */
        return;
    }
    const AuSchedule *schedule = schedule_of(r, &problem, shape ? &of_table : NULL);
    make_inputs(r);
    make_outputs(r, schedule);
    const AuTileLaunch launch = {.tensors = r->tensors,
                                 .tensor_count = r->count,
                                 .params = r->scalars,
                                 .param_count = r->scalar_count,
                                 .seed = seed,
                                 .items = 1 + (uint32_t)seed % 3};
    if (!tile_run(s.diags, schedule->module, &launch))
        fail_msg("%s [%s] on %s: %s", c->script, c->sizes, target, session_errors(&s));
    check_outputs(r, target);
    session_end(&s);
}

static void test_target(void **state)
{
    static const AuTileElem operands[] = {TILE_F32, TILE_BF16, TILE_F16};
    for (uint32_t n = 0; n < sizeof cases / sizeof *cases; n++)
        for (uint32_t x = 0; x < 3; x++)
            if (!quick || x == n % 3) run_case(&cases[n], *state, operands[x], 0, n + x);
}

static void test_warps(void **state)
{
    const char *target = *state;
    const bool only_f16 = strcmp(target, "sm_75") == 0;
    const uint32_t shapes = 1 + sizeof warp_shapes / sizeof *warp_shapes;
    for (uint32_t n = 0; n < sizeof cases / sizeof *cases; n++)
        for (uint32_t shape = 1; shape <= shapes; shape++)
            if (!quick || shape == 1 + n % shapes)
                run_case(&cases[n], target, only_f16 || n % 2 ? TILE_F16 : TILE_BF16, shape, n + shape);
}

int main(int argc, char **argv)
{
    enum { LANES = sizeof targets / sizeof *targets, COUNT = LANES + sizeof warp_targets / sizeof *warp_targets };
    if (argc < 2) return 2;
    scripts = argv[1];
    quick = argc > 2;
    struct CMUnitTest tests[COUNT] = {{0}};
    for (size_t i = 0; i < COUNT; i++) {
        const char *target = i < LANES ? targets[i] : warp_targets[i - LANES];
        tests[i] = (struct CMUnitTest){target, i < LANES ? test_target : test_warps, NULL, NULL,
                                       (void *)(uintptr_t)target};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
