/* check_layouts.c - `aule check --layout`: sequences of different lengths in one call, their rows as a layout has them. What each is by itself, the
 * compiler says: a case of the one sequence, of whose arguments the call's are put together. The call's results are compared with what the
 * interpreter makes of each in f64, by the rule for dense rows, and with dense calls of each in the same run. */
#include "check.h"
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SEQUENCES = 5,
    MOST_SEQUENCES = 64,
    PAGE = 16,
    BEHIND = 3,
    EVERY = 2,
    NARROW = 9,
    TEXT = 2048
};

/* Of a tensor that the call writes, by element: what must be there, and what dense calls have. */
typedef struct Result {
    double *want, *dense, *bound;
    bool *there; /* of a sequence */
} Result;

typedef struct Laid {
    Script *script;
    aule_device *device;
    const aulec_case *whole; /* whose sizes are those of the longest sequence */
    aule_module *dense;
    AuSession written, call;        /* of the first the signature alone: as the script has it */
    AuOptions options;              /* of call */
    const char *dtype, *more;       /* what the line says behind the layout */
    const char *batch, *axis[2];    /* the script's names of B, S and T */
    char values[TEXT], shape[TEXT]; /* of a sequence, of the call */
    int64_t sequences, most[2], lines[2], pages, entries; /* of queries, of keys */
    int64_t rows[2][MOST_SEQUENCES],
        held[2][MOST_SEQUENCES]; /* of the sequence; that the call has of them */
    int64_t starts[2][MOST_SEQUENCES + 1], first[MOST_SEQUENCES + 1]; /* in the call; pages */
    aulec_case *part[MOST_SEQUENCES];
    Trial *alone[MOST_SEQUENCES];
    Result results[MAX_ARGS];
} Laid;

static bool is_named(const char *name, const char *axis, const char *suffix)
{
    const size_t length = strlen(axis);
    return *axis && strncmp(name, axis, length) == 0 && strcmp(name + length, suffix) == 0;
}

static bool has(const Laid *l, uint64_t flag)
{
    for (uint32_t i = 0; i < l->call.signature->tensor_count; i++)
        if (session_tensor(&l->call, i)->flags & flag) return true;
    return false;
}

static int32_t find(const AuSession *s, const char *name)
{
    for (uint32_t i = 0; i < s->signature->tensor_count; i++)
        if (strcmp(session_tensor(s, i)->name, name) == 0) return (int32_t)i;
    return -1;
}

/* ---- how many rows a sequence has */

static bool is_packed(const Laid *l, int side)
{
    return has(l, side ? AULE_TENSOR_STARTS_K : AULE_TENSOR_STARTS_Q);
}

static bool has_lengths(const Laid *l, int side)
{
    return has(l, side ? AULE_TENSOR_LENGTHS : AULE_TENSOR_LENGTHS_Q);
}

static bool has_lines(const Laid *l, int side)
{
    return has(l, side ? AULE_TENSOR_ROWS : AULE_TENSOR_ROWS_Q);
}

/* The position of its first row, where queries are some of a sequence's. */
static int64_t first_of(int64_t b) { return b % EVERY; }

/* All, one, none, borders of pages and primes; as many as there are where no list says it. */
static void choose_rows(Laid *l)
{
    const bool is_one = strcmp(l->axis[0], l->axis[1]) == 0;
    for (int side = 0; side < 2; side++) {
        const int64_t all = l->most[side],
                      some[2][SEQUENCES] = {{all, 1, 13, 0, all - 1}, {all, PAGE + 1, 5, 2, 0}};
        for (int64_t b = 0; b < l->sequences; b++) {
            const int64_t rows = some[is_one ? 0 : side][b % SEQUENCES];
            const bool is_own = is_packed(l, side) || has_lengths(l, side);
            l->rows[side][b] = !is_own || rows > all ? all : rows < 0 ? 0 : rows;
            l->held[side][b] = side || !has(l, AULE_TENSOR_FIRST_Q) ? l->rows[side][b]
                               : is_own ? (l->rows[side][b] + EVERY - 1 - first_of(b)) / EVERY
                                        : all / EVERY;
            l->starts[side][b + 1] = l->starts[side][b] + l->held[side][b];
        }
    }
    l->entries = 1;
    for (int64_t b = 0; b < l->sequences; b++) {
        const int64_t pages = (l->rows[1][b] + PAGE - 1) / PAGE;
        if (pages > l->entries) l->entries = pages;
        l->first[b + 1] = l->first[b] + pages;
    }
    l->pages = l->first[l->sequences] + 1; /* one is nobody's */
    for (int side = 0; side < 2; side++)
        l->lines[side] = l->sequences + (has_lines(l, side) ? 2 : 0);
}

/* The row of q, or of a table or a cache, that a sequence has: some are nobody's. */
static int64_t line_of(const Laid *l, int side, int64_t b)
{
    if (!has_lines(l, side)) return b;
    return side ? l->lines[1] - 1 - b : b + 1;
}

/* ---- sizes and lists of the call */

static void add_size(Laid *l, const char *axis, const char *suffix, int64_t value)
{
    session_add_size(&l->call, l->shape, sizeof l->shape, axis, suffix, value);
}

/* Rows that there is room for, some of nobody among them. */
static int64_t room(const Laid *l, int side)
{
    if (is_packed(l, side)) return l->starts[side][l->sequences] + BEHIND;
    if (side && has(l, AULE_TENSOR_TABLE)) return l->entries * PAGE;
    const int64_t most = !side && has(l, AULE_TENSOR_FIRST_Q)
                             ? (l->most[0] + (has_lengths(l, 0) ? EVERY - 1 : 0)) / EVERY
                             : l->most[side];
    return most + (has_lengths(l, side) ? BEHIND : 0);
}

/* Sizes that no layout changes: heads, widths, what inputs have. */
static void add_own_sizes(Laid *l)
{
    AuCompiler *c = &l->script->compiler;
    for (size_t n = 0; n < c->aulec_case_tensor_count(l->whole); n++) {
        const aulec_case_tensor *t = c->aulec_case_get_tensor(l->whole, n);
        const int32_t index = find(&l->written, t->name);
        for (uint32_t d = 0; index >= 0 && d < t->rank; d++) {
            const char *name =
                session_axis_name(&l->written, session_tensor(&l->written, (uint32_t)index), d);
            const bool is_size = *name; /* else a number, or a term of sizes */
            if (is_size && strcmp(name, l->batch) != 0 && strcmp(name, l->axis[0]) != 0 &&
                strcmp(name, l->axis[1]) != 0)
                add_size(l, name, "", t->shape[d]);
        }
    }
}

static void add_sizes(Laid *l)
{
    const bool is_one = strcmp(l->axis[0], l->axis[1]) == 0, csr = has(l, AULE_TENSOR_TABLE_STARTS);
    const char *keys = l->axis[1];
    snprintf(l->shape, sizeof l->shape, "%s", "");
    add_size(l, l->batch, "", l->sequences);
    for (int side = 0; side < (is_one ? 1 : 2); side++) {
        add_size(l, l->axis[side], "", room(l, side));
        add_size(l, l->axis[side], "_ends", (side && csr ? l->lines[1] : l->sequences) + 1);
        add_size(l, l->axis[side], "_lines", l->lines[is_one ? 1 : side]);
        add_size(l, l->axis[side], "_most", l->most[side]);
    }
    add_size(l, keys, "_pages", l->pages);
    add_size(l, keys, "_slots", PAGE);
    add_size(l, keys, "_entries", csr ? l->first[l->sequences] + 1 : l->entries);
    add_size(l, keys, "_shares", l->sequences);
    add_own_sizes(l);
}

/* Entries of lines; what no sequence has is no page's number. */
static void fill_table(const Laid *l, AuArray *table, const int32_t *line_starts)
{
    int32_t *values = table->data;
    for (size_t i = 0; i < table->bytes / sizeof *values; i++) values[i] = -1;
    for (int64_t b = 0; b < l->sequences; b++) {
        const int64_t line = line_of(l, 1, b),
                      at = line_starts ? line_starts[line] : line * l->entries;
        for (int64_t n = l->first[b]; n < l->first[b + 1]; n++)
            values[at + n - l->first[b]] = (int32_t)session_page(n, l->pages);
    }
}

/* Lines in their order, of which sequence b has line_of. */
static void fill_line_starts(const Laid *l, int32_t *values)
{
    for (int64_t line = 0; line < l->lines[1]; line++) {
        values[line + 1] = values[line];
        for (int64_t b = 0; b < l->sequences; b++)
            if (line_of(l, 1, b) == line)
                values[line + 1] += (int32_t)(l->first[b + 1] - l->first[b]);
    }
}

static void fill_list(const Laid *l, uint64_t flags, int32_t *values)
{
    const int keys =
        !(flags & (AULE_TENSOR_STARTS_Q | AULE_TENSOR_LENGTHS_Q | AULE_TENSOR_WHOLE_Q));
    const bool ends = flags & (AULE_TENSOR_STARTS_Q | AULE_TENSOR_STARTS_K | AULE_TENSOR_GROUPS);
    for (int64_t b = 0; b < l->sequences + ends; b++)
        values[b] = (int32_t)(flags & AULE_TENSOR_GROUPS                          ? b
                              : flags & (AULE_TENSOR_FIRST | AULE_TENSOR_SHARED)  ? 0
                              : flags & AULE_TENSOR_FIRST_Q                       ? first_of(b)
                              : flags & (AULE_TENSOR_WHOLE | AULE_TENSOR_WHOLE_Q) ? l->rows[keys][b]
                              : flags & AULE_TENSOR_ROWS                          ? line_of(l, 1, b)
                              : flags & AULE_TENSOR_ROWS_Q                        ? line_of(l, 0, b)
                              : ends ? l->starts[keys][b]
                                     : l->held[keys][b]);
}

static void fill_lists(Laid *l)
{
    enum { LISTS = AULE_TENSOR_SEQUENCES & ~(AULE_TENSOR_TABLE | AULE_TENSOR_TABLE_STARTS) };
    const int32_t *line_starts = NULL;
    for (uint32_t i = 0; i < l->call.signature->tensor_count; i++) {
        const uint64_t flags = session_tensor(&l->call, i)->flags;
        AuArray *array = &l->call.arrays[i];
        if (flags & AULE_TENSOR_TABLE_STARTS) fill_line_starts(l, array->data);
        if (flags & AULE_TENSOR_TABLE_STARTS) line_starts = array->data;
        if (flags & LISTS) fill_list(l, flags, array->data);
    }
    for (uint32_t i = 0; i < l->call.signature->tensor_count; i++)
        if (session_tensor(&l->call, i)->flags & AULE_TENSOR_TABLE)
            fill_table(l, &l->call.arrays[i], line_starts);
}

/* ---- where elements lie */

static int64_t sequence_in_memory(const Laid *l, const char *axis, int64_t b, int64_t key)
{
    if (!*axis) return 0; /* of packed rows there is one */
    for (int side = 0; side < 2; side++)
        if (is_named(axis, l->axis[side], "_lines")) return line_of(l, side, b);
    if (is_named(axis, l->axis[1], "_pages"))
        return session_page(l->first[b] + key / PAGE, l->pages);
    return b;
}

/* -1: the call has not got it. */
static int64_t row_in_memory(const Laid *l, const char *axis, int side, int64_t b, int64_t row)
{
    if (!side && has(l, AULE_TENSOR_FIRST_Q)) {
        if (row < first_of(b) || (row - first_of(b)) % EVERY) return -1;
        row = (row - first_of(b)) / EVERY;
        if (row >= l->held[0][b]) return -1;
    }
    if (is_named(axis, l->axis[1], "_slots")) return row % PAGE;
    return is_packed(l, side) && strcmp(axis, l->axis[side]) == 0 ? l->starts[side][b] + row : row;
}

/* Element [at] of a sequence's tensor in the call's; -1: it is not there, also where the call's has fewer than the sequence says, which results then show. */
static int64_t place_of(const Laid *l, uint32_t index, const aule_tensor_v1 *written, int64_t b,
                        const int64_t *at)
{
    const AuArray *array = &l->call.arrays[index];
    int64_t place = 0, key = 0;
    for (uint32_t d = 0; d < written->rank; d++)
        if (strcmp(session_axis_name(&l->written, written, d), l->axis[1]) == 0) key = at[d];
    for (uint32_t d = 0; d < written->rank; d++) {
        const char *was = session_axis_name(&l->written, written, d),
                   *is = session_axis_name(&l->call, session_tensor(&l->call, index), d);
        const int side = strcmp(was, l->axis[0]) == 0 ? 0 : 1;
        int64_t i = at[d];
        if (*was && strcmp(was, l->batch) == 0)
            i = sequence_in_memory(l, is, b, key);
        else if (*was && strcmp(was, l->axis[side]) == 0)
            i = row_in_memory(l, is, side, b, at[d]);
        if (i < 0 || i >= array->shape[d]) return -1;
        place += i * array->strides[d];
    }
    return place;
}

/* Of element n of a sequence's tensor. */
static int64_t place_of_element(const Laid *l, uint32_t index, const aulec_case_tensor *t,
                                int64_t b, uint64_t n)
{
    const aule_tensor_v1 *written =
        session_tensor(&l->written, (uint32_t)find(&l->written, t->name));
    int64_t at[ARRAY_RANK];
    for (uint32_t d = t->rank; d-- > 0; n /= (uint64_t)t->shape[d])
        at[d] = (int64_t)(n % (uint64_t)t->shape[d]);
    return place_of(l, index, written, b, at);
}

/* ---- arguments */

/* NaN wherever no sequence has an element. Given gradients of finals are made here: nothing else needs them without a file. */
static int clear_arguments(Laid *l)
{
    AuWhy why;
    const int32_t dout = find(&l->call, "do");
    for (uint32_t i = 0; i < l->call.signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(&l->call, i);
        AuArray *array = &l->call.arrays[i];
        if (t->role == AULE_ROLE_DFINAL && l->call.backward && dout >= 0 &&
            !array_new(array, AULE_F32, 3, l->call.arrays[dout].shape, &why))
            return command_fail(EXIT_WRONG, "%s", why.text);
        const bool is_number =
            array->dtype == AULE_F32 || array->dtype == AULE_F16 || array->dtype == AULE_BF16;
        if (array->data && is_number) memset(array->data, 0xff, array->bytes);
    }
    return 0;
}

static void put_arguments(Laid *l, int64_t b)
{
    AuCompiler *c = &l->script->compiler;
    for (size_t n = 0; n < c->aulec_case_tensor_count(l->part[b]); n++) {
        const aulec_case_tensor *t = c->aulec_case_get_tensor(l->part[b], n);
        const int32_t index = find(&l->call, t->name);
        if (!t->data || index < 0 || !l->call.arrays[index].data) continue;
        const size_t bytes = array_dtype_bytes(t->dtype);
        for (uint64_t i = 0; i < t->elements; i++) {
            const int64_t at = place_of_element(l, (uint32_t)index, t, b, i);
            if (at >= 0)
                memcpy((char *)l->call.arrays[index].data + (size_t)at * bytes,
                       (const char *)t->data + i * bytes, bytes);
        }
    }
}

static void put_params(Laid *l)
{
    AuCompiler *c = &l->script->compiler;
    AuSession *s = &l->call;
    s->param_count = 0;
    for (uint32_t i = 0; i < s->signature->param_count; i++) {
        const char *name = session_param(s->signature, i)->name;
        for (int side = 0; side < 2; side++)
            if (is_named(name, l->axis[side], "_most") &&
                (!side || strcmp(l->axis[0], l->axis[1]) != 0))
                s->param_args[s->param_count++] =
                    (aule_param_arg){name, {.type = AULE_VALUE_INT, .i = l->most[side]}};
        if (is_named(name, l->axis[0], "_every") && has(l, AULE_TENSOR_FIRST_Q))
            s->param_args[s->param_count++] =
                (aule_param_arg){name, {.type = AULE_VALUE_INT, .i = EVERY}};
        for (size_t n = 0; n < c->aulec_case_param_count(l->whole); n++) {
            const aulec_case_param *p = c->aulec_case_get_param(l->whole, n);
            if (strcmp(p->name, name) == 0)
                s->param_args[s->param_count++] =
                    (aule_param_arg){name,
                                     {.type = p->is_float ? AULE_VALUE_FLOAT : AULE_VALUE_INT,
                                      .i = p->i,
                                      .f = p->f}};
        }
    }
}

/* ---- results */

static int new_results(Laid *l)
{
    for (uint32_t i = 0; i < l->call.signature->tensor_count; i++) {
        const AuArray *array = &l->call.arrays[i];
        const uint32_t role = session_tensor(&l->call, i)->role;
        const bool is_told = role == AULE_ROLE_OUTPUT || role == AULE_ROLE_FINAL ||
                             role == AULE_ROLE_GRAD; /* not what backward finds kept */
        if (!is_told || !array->data) continue;
        const size_t count = array->bytes / array_dtype_bytes(array->dtype) + 1;
        l->results[i] = (Result){calloc(count, sizeof(double)), calloc(count, sizeof(double)),
                                 calloc(count, sizeof(double)), calloc(count, sizeof(bool))};
        const Result *r = &l->results[i];
        if (!r->want || !r->dense || !r->bound || !r->there)
            return command_fail(EXIT_WRONG, "%s: no memory", l->script->path);
    }
    return 0;
}

/* Gradients of what all sequences have are sums over them. */
static void put_results(Laid *l, int64_t b)
{
    AuCompiler *c = &l->script->compiler;
    for (size_t n = 0; n < c->aulec_case_tensor_count(l->part[b]); n++) {
        const aulec_case_tensor *t = c->aulec_case_get_tensor(l->part[b], n);
        const int32_t index = find(&l->call, t->name);
        Result *r = index < 0 ? NULL : &l->results[index];
        for (uint64_t i = 0; t->want && r && r->want && i < t->elements; i++) {
            const int64_t at = place_of_element(l, (uint32_t)index, t, b, i);
            if (at < 0) continue;
            r->want[at] += t->want[i];
            r->bound[at] += t->bound;
            r->dense[at] += l->alone[b] ? check_element(&l->alone[b]->arrays[n], i) : t->want[i];
            r->there[at] = true;
        }
    }
}

/* What no sequence has is 0, but for finals, of which nothing is said here. */
static bool compare(const Laid *l, uint32_t index, double *from_dense)
{
    const aule_tensor_v1 *t = session_tensor(&l->call, index);
    const AuArray *array = &l->call.arrays[index];
    const Result *r = &l->results[index];
    double worst = 0, size = 0, bound = 0, over = 0;
    for (uint64_t i = 0; i < array->bytes / array_dtype_bytes(array->dtype); i++) {
        const double got = check_element(array, i), off = check_apart(got, r->want[i]);
        if (!r->there[i] && t->role == AULE_ROLE_FINAL) continue;
        if (off > worst) worst = off;
        if (off - r->bound[i] > over) over = off - r->bound[i];
        bound = fmax(bound, r->bound[i]);
        if (isfinite(r->want[i])) size = fmax(size, fabs(r->want[i]));
        if (t->role == AULE_ROLE_OUTPUT && r->there[i])
            *from_dense = fmax(*from_dense, check_apart(got, r->dense[i]));
    }
    if (t->role == AULE_ROLE_OUTPUT) *from_dense /= size > 0 ? size : 1;
    check_tell(t->name, worst, size, over > 0 ? fmin(bound, nextafter(worst, 0)) : bound);
    return over <= 0;
}

static int compare_all(Laid *l)
{
    double from_dense = 0;
    bool good = true;
    for (uint32_t i = 0; i < l->call.signature->tensor_count; i++)
        if (l->results[i].want) good &= compare(l, i, &from_dense);
    const double bound = session_dense_bound(aule_plan_variant(l->call.steps[STEP_FORWARD].plan));
    printf("; %.2g of the largest value from dense calls", from_dense);
    if (!(from_dense <= bound)) printf(" (!) [bound %.1e]", bound);
    puts(l->call.backward ? "" : " (no kernels of gradients here)");
    return good && from_dense <= bound ? 0 : EXIT_WRONG;
}

/* ---- a layout */

static int make_part(Laid *l, int64_t b)
{
    const aulec_case_options options = {.struct_size = sizeof options,
                                        .attention = l->script->attention,
                                        .dtype = l->dtype,
                                        .values = l->values,
                                        .seed = l->script->seed,
                                        .alone = 1,
                                        .sequence = (uint32_t)b,
                                        .queries = l->rows[0][b],
                                        .keys = l->rows[1][b]};
    int status = check_reference(l->script, &options, &l->part[b]);
    if (status || !l->rows[1][b])
        return status; /* shapes without elements are not for dense calls */
    l->alone[b] = check_trial(l->script, l->device, l->part[b]);
    return l->alone[b] ? check_run(l->alone[b], l->dense) : EXIT_WRONG;
}

static bool has_backward(const AuSession *s)
{
    for (uint32_t n = 0; n < s->signature->variant_count; n++)
        if (strcmp(session_variant(s->signature, n)->operation, "backward") == 0) return true;
    return false;
}

static void read_names(Laid *l)
{
    AuCompiler *c = &l->script->compiler;
    const AuSession *w = &l->written;
    const aule_tensor_v1 *q = session_tensor(w, (uint32_t)session_find_role(w, AULE_ROLE_Q)),
                         *k = session_tensor(w, (uint32_t)session_find_role(w, AULE_ROLE_K));
    const char *values = l->script->values;
    l->batch = session_axis_name(w, q, 0);
    l->axis[0] = session_axis_name(w, q, 2), l->axis[1] = session_axis_name(w, k, 2);
    for (size_t n = 0; n < c->aulec_case_tensor_count(l->whole); n++) {
        const aulec_case_tensor *t = c->aulec_case_get_tensor(l->whole, n);
        if (t->role == AULE_ROLE_Q) l->most[0] = t->shape[2], l->sequences = t->shape[0];
        if (t->role == AULE_ROLE_K) l->most[1] = t->shape[2];
    }
    snprintf(l->values, sizeof l->values, "%s", values ? values : "");
    if (!*l->batch || session_says_size(values, l->batch)) return;
    const size_t used = strlen(l->values);
    l->sequences = SEQUENCES;
    snprintf(l->values + used, sizeof l->values - used, "%s%s=%d", used ? "," : "", l->batch,
             (int)SEQUENCES);
}

static int run_call(Laid *l)
{
    int status = session_make_shaped(&l->call, &l->options, l->shape);
    if (!status) status = clear_arguments(l);
    if (status) return status;
    fill_lists(l);
    put_params(l);
    for (int64_t b = 0; b < l->sequences; b++)
        if (l->part[b]) put_arguments(l, b);
    status = session_prepare(&l->call);
    if (!status) status = new_results(l);
    if (!status) status = session_run(&l->call, STEP_FORWARD);
    if (!status && l->call.backward) status = session_run(&l->call, STEP_BACKWARD);
    if (!status) status = session_wait(&l->call);
    return status ? status : session_fetch(&l->call);
}

static int run_layout(Laid *l)
{
    read_names(l);
    if (l->sequences > MOST_SEQUENCES)
        return command_fail(EXIT_USAGE, "--shape: with --layout there are at most %d sequences",
                            (int)MOST_SEQUENCES);
    l->call.backward =
        has_backward(&l->call) && l->script->compiler.aulec_case_has_gradients(l->whole);
    choose_rows(l);
    add_sizes(l);
    int status = 0;
    for (int64_t b = 0; b < l->sequences && !status; b++)
        if (l->rows[0][b]) status = make_part(l, b);
    if (!status) status = run_call(l);
    for (int64_t b = 0; b < l->sequences && !status; b++)
        if (l->part[b]) put_results(l, b);
    return status ? status : compare_all(l);
}

static void free_layout(Laid *l)
{
    for (int64_t b = 0; b < MOST_SEQUENCES; b++) {
        check_free(l->alone[b]);
        l->script->compiler.aulec_case_free(l->part[b]);
    }
    for (uint32_t i = 0; i < MAX_ARGS; i++) {
        free(l->results[i].want), free(l->results[i].dense);
        free(l->results[i].bound), free(l->results[i].there);
    }
    session_close(&l->call);
    free(l);
}

static AuOption option(const char *name, const char *value)
{
    return (AuOption){.name = name, .value = value, .name_length = strlen(name)};
}

/* [layout]: "T=paged"; NULL: that of an artifact that has no other. */
static int check_layout(const Laid *like, const char *artifact, const char *layout,
                        const char *said)
{
    Laid *l = malloc(sizeof *l);
    if (!l) return command_fail(EXIT_WRONG, "%s: no memory", like->script->path);
    *l = *like;
    const aule_device_info *info = aule_device_get_info(l->device);
    const char *dtype = strcmp(l->dtype, "tf32") == 0 ? "f32" : l->dtype;
    l->options = (AuOptions){.command = "check",
                             .artifact = artifact,
                             .at = {option("backend", info->id), option("dtype", dtype),
                                    option("attention", l->written.signature->name)},
                             .count = 3};
    printf("  %-10s %-4s  %s%s%s ", info->id, l->dtype, said, *l->more ? ", with " : "", l->more);
    fflush(stdout);
    int status = session_open_layout(&l->call, &l->options, layout);
    if (!status) status = run_layout(l);
    if (!status && has(l, AULE_TENSOR_FIRST))
        puts("      not tested: other positions of keys than those from 0 on");
    if (!status && has(l, AULE_TENSOR_SHARED)) puts("      not tested: keys that sequences share");
    free_layout(l);
    return status;
}

/* All that the artifact has; without a word behind a name it is what the list says, or the dense one, which was tried. */
static int check_artifact(const Laid *like, const char *artifact)
{
    aule_module *module = NULL;
    aule_error *error = NULL;
    int status = 0;
    if (aule_module_open(artifact, NULL, &module, &error)) return command_error(error);
    const size_t count = aule_module_count(module);
    for (size_t n = 0; n < count; n++) {
        const char *name = aule_attention_descriptor(aule_module_attention(module, n))->name,
                   *at = strchr(name, '@');
        if (count > 1 && !at) continue;
        const int failed =
            check_layout(like, artifact, at ? at + 1 : NULL, at ? at + 1 : like->script->layout);
        if (failed) status = failed;
    }
    aule_module_close(module);
    return status;
}

/* The values of a call, with one within the sequences for each whole parameter whose default no sequence reaches, as that of a wide window; [more]
 * has those alone, empty: there are none. */
static void narrow(const Laid *like, char *values, char *more, size_t size)
{
    AuCompiler *c = &like->script->compiler;
    const char *said = like->script->values;
    int64_t keys = 0;
    for (size_t n = 0; n < c->aulec_case_tensor_count(like->whole); n++) {
        const aulec_case_tensor *t = c->aulec_case_get_tensor(like->whole, n);
        if (t->role == AULE_ROLE_K) keys = t->shape[2];
    }
    size_t used = 0;
    *more = 0;
    for (size_t n = 0; n < c->aulec_case_param_count(like->whole) && used < size; n++) {
        const aulec_case_param *p = c->aulec_case_get_param(like->whole, n);
        if (!p->is_float && p->i >= keys && keys > NARROW && !session_says_size(said, p->name))
            used += (size_t)snprintf(more + used, size - used, "%s%s=%d", used ? "," : "", p->name,
                                     NARROW);
    }
    snprintf(values, size, "%s%s%s", said ? said : "", said && *said ? "," : "", more);
}

/* The layouts once more, where defaults leave no key out. */
static int check_narrow(const Laid *like, const char *artifact)
{
    char values[TEXT], more[TEXT];
    Script *s = like->script, within = *s;
    Laid *l = malloc(sizeof *l);
    if (!l) return command_fail(EXIT_WRONG, "%s: no memory", s->path);
    aulec_case *whole = NULL;
    aulec_result *result = NULL;
    int status = 0;
    narrow(like, values, more, sizeof more);
    within.values = values;
    *l = *like;
    l->script = &within, l->more = more;
    const aulec_case_options options = {.struct_size = sizeof options,
                                        .attention = s->attention,
                                        .dtype = like->dtype,
                                        .values = values,
                                        .seed = s->seed};
    if (*more && s->compiler.aulec_case_new(s->path, (const char *)s->file.bytes, s->file.length,
                                            &options, &whole, &result) == AULEC_OK) {
        l->whole = whole;
        status = check_artifact(l, artifact);
    } else if (*more)
        printf("      not tested: %s, which the script does not take\n", more);
    s->compiler.aulec_result_free(result);
    s->compiler.aulec_case_free(whole);
    free(l);
    return status;
}

int check_layouts(Script *s, aule_device *device, const char *dtype, const aulec_case *whole,
                  aule_module *module)
{
    Laid like = {
        .script = s, .device = device, .whole = whole, .dense = module, .dtype = dtype, .more = ""};
    const aule_device_info *info = aule_device_get_info(device);
    char path[CHECK_PATH] = "";
    aulec_result *result = NULL;
    aule_attention *attention = NULL;
    aule_error *error = NULL;
    if (aule_module_find(module, s->compiler.aulec_case_attention(whole), &attention, &error))
        return command_error(error);
    like.written.signature = aule_attention_descriptor(attention);
    int status = check_compile(s, info, whole, dtype, s->layout, &result);
    if (status ==
        EXIT_USAGE) { /* of the target alone: the layouts are those of check_layouts_fit */
        printf("  %-10s %-4s  no layouts: the target has none\n", info->id, dtype);
        s->compiler.aulec_result_free(result);
        return 0;
    }
    if (status) check_tell_why(s, result);
    if (!status) status = check_write(result, s, path);
    s->compiler.aulec_result_free(result);
    if (!status) status = check_artifact(&like, path);
    if (!status) status = check_narrow(&like, path);
    if (*path) unlink(path);
    return status;
}

int check_layouts_fit(Script *s)
{
    const aulec_options options = {.struct_size = sizeof options,
                                   .targets = "cpu",
                                   .archs = s->compiler.aulec_best_arch("cpu", "", "f32"),
                                   .dtypes = "f32",
                                   .attention = s->attention,
                                   .emit = AULEC_EMIT_TILED_IR,
                                   .layout = s->layout};
    aulec_result *result = NULL;
    const aulec_status status = s->compiler.aulec_compile(s->path, (const char *)s->file.bytes,
                                                          s->file.length, &options, &result);
    if (status != AULEC_OK) check_tell_why(s, result);
    s->compiler.aulec_result_free(result);
    return status == AULEC_OK ? 0 : status == AULEC_ERROR_USAGE ? EXIT_USAGE : EXIT_WRONG;
}
