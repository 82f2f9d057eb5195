/* scripts.c - see scripts.h. */
#include "scripts.h"

#include <math.h>
#include <stdio.h>

#include "front.h"
#include "random.h"

/* ---- the case */

static double uniform(Run *r) { return au_uniform(&r->random); }

double script_normal(Run *r)
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

const Case script_cases[SCRIPT_CASES] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=33 T=57 D=32 E=32", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=70 T=23 D=16 E=48", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=16 E=16", NULL},
    {"mha.attn", "B=1 H=4 Hk=2 S=130 T=150 D=24 E=40", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=18 T=70 D=192 E=128", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=9 T=33 D=256 E=256", NULL},
    {"../../tile/scripts/latent.attn", "B=2 H=3 S=40 T=40", NULL},
    {"softmax_spelled_out.attn", "B=1 H=1 Hk=1 S=40 T=77 D=32 E=16", NULL},
    {"gemma_local.attn", "B=1 H=2 Hk=2 S=60 T=90 D=16 E=16", "window=20"},
    {"dropout.attn", "B=1 H=1 Hk=1 S=37 T=37 D=16 E=16", "rate=0.25 seed=123456789"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=20 T=33 D=32", NULL},
    {"mla_train.attn", "B=1 H=1 S=20 T=35 D=32 E=16 P=16", NULL},
    {"sigmoid.attn", "B=1 H=1 S=40 T=40 D=16 E=16", NULL},
    {"relu.attn", "B=1 H=2 S=20 T=50 D=16 E=16", NULL},
    {"retention.attn", "B=1 H=2 S=50 T=50 D=16 E=16", NULL},
    {"retention_decay.attn", "B=1 H=2 S=60 T=60 D=16 E=32", NULL},
    {"../../tile/scripts/rows_alike.attn", "B=1 H=2 Hk=1 S=33 T=40 D=16 E=24", NULL},
    {"../../tile/scripts/constant_queries.attn", "B=1 H=1 Hk=1 S=20 T=40 D=32 E=16", NULL},
    {"../../tile/scripts/scores_of_inputs.attn", "B=1 H=2 Hk=1 S=40 T=50 D=16 E=16", NULL},
    {"../../tile/scripts/chosen_by_value.attn", "B=1 H=2 Hk=1 S=40 T=50 D=16 E=16", NULL},
    {"../../../attn_scripts/cross.attn", "B=1 H=2 Hk=1 S=140 T=230 D=32 E=48", NULL},
    {"../../tile/scripts/full.attn", "B=1 H=2 Hk=1 S=140 T=230 D=32 E=48", NULL},
};

static AuAttn *check_script(Session *s, const char *folder, const char *name)
{
    const char *path = au_format(s->arena, "%s/%s", folder, name);
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

float script_rounded(AuTileElem elem, float x)
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
                t->f32[x] = script_rounded(elem, (float)script_normal(r));
            r->values[n][x] = integers ? (double)t->i32[x] : (double)t->f32[x];
        }
    }
}

/* ---- what kernels write: outputs, finals, workspace. Extents are sums and products of sizes. */

static int64_t size_named(const void *user, const char *name)
{
    const Run *r = user;
    for (uint32_t n = 0; n < r->attn->size_count; n++)
        if (strcmp(hooks_name(r->s->arena, r->attn->sizes[n].name), name) == 0) return r->sizes[n];
    return -1;
}

void script_outputs(Run *r, const AuSchedule *schedule)
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
                elements *= t->shape[d] = extent_value(arg->type.axes[d].extent, size_named, r);
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

AuTileTensor *script_tensor(Run *r, const char *name)
{
    for (uint32_t n = 0; n < r->count; n++)
        if (strcmp(r->tensors[n].name, name) == 0) return &r->tensors[n];
    return NULL;
}

void script_compare(Run *r, const char *target, const char *name, const double *want,
                    const double *plain, double factor)
{
    const AuTileTensor *t = script_tensor(r, name);
    if (!t) fail_msg("%s: no kernel writes %s", r->c->script, name);
    double error = 0, bound = 0, largest = 0;
    int64_t elements = 1;
    for (uint32_t d = 0; d < t->rank; d++) elements *= t->shape[d];
    for (int64_t n = 0; n < elements; n++) {
        error = fmax(error, difference((double)t->f32[n], want[n]));
        bound = fmax(bound, difference(plain[n], want[n]));
        if (isfinite(want[n])) largest = fmax(largest, fabs(want[n]));
    }
    bound = factor * bound + 0x1p-20 * largest;
    if (!(error <= bound))
        fail_msg("%s [%s] on %s, %s: error %.3g, bound %.3g", r->c->script, r->c->sizes, target,
                 name, error, bound);
}

Run *script_begin(Session *s, const Case *c, const char *folder, AuTileElem operand, uint64_t seed)
{
    Run *r = AU_NEW(s->arena, Run);
    *r = (Run){.s = s, .c = c, .operand = operand, .random = seed};
    r->attn = check_script(s, folder, c->script);
    bind_numbers(r);
    make_inputs(r);
    return r;
}

void script_launch(Run *r, const AuSchedule *schedule, const char *target, uint64_t seed)
{
    const AuTileLaunch launch = {.tensors = r->tensors,
                                 .tensor_count = r->count,
                                 .params = r->scalars,
                                 .param_count = r->scalar_count,
                                 .seed = seed,
                                 .items = 1 + (uint32_t)seed % 3};
    if (!tile_run(r->s->diags, schedule->module, &launch))
        fail_msg("%s [%s] on %s, %s: %s", r->c->script, r->c->sizes, target, schedule->name,
                 session_errors(r->s));
}

AuProblem script_problem(const Run *r, const AuHooks *hooks, const AuTileCaps *caps)
{
    return (AuProblem){
        .attn = r->attn,
        .hooks = hooks,
        .caps = caps,
        .operand = r->operand,
        .d = (int32_t)attn_scalar(r->attn, r->attn->tensors[0].axes[3], r->sizes, r->params),
        .e = (int32_t)attn_scalar(r->attn, r->attn->tensors[2].axes[3], r->sizes, r->params)};
}

void script_check_outputs(Run *r, const char *target)
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
    script_compare(r, target, "o", o[0], o[1], 2);
    for (uint32_t f = 0; f < a->online->final_count; f++)
        if (!a->online->finals[f].kept) /* of gradients, which are not asked for here */
            script_compare(r, target, au_format(r->s->arena, "final_%s", a->online->finals[f].name),
                           finals[0][f], finals[1][f], 2);
}
