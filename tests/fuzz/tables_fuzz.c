/* tables_fuzz.c - bytes as the shapes and lists of calls over rows in layouts: tables of pages, lengths, starts, lines, groups, positions. Whatever they say,
 * no address outside of the call's tensors is touched and no input is written: each lies between pages that nobody may touch, inputs in memory that
 * nobody may write. What is computed are means of values, which all lie between 1 and 2, or 0. Of lengths, tables, lines and starts this program knows
 * itself which are right: a processor refuses the others, and those alone; other devices take what they find.
 *     AULE_FUZZ_ARTIFACT: gqa.attn in layouts, width 16, f32 or bf16 (meson.build, pack.sh).     AULE_FUZZ_DEVICE: "cpu" if not there, "cuda:0" */
#include "driver.h"

#include <aule/aule.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_TENSORS = 16, MOST_RANK = 4 };

typedef struct Bytes {
    const uint8_t *at, *end;
} Bytes;

typedef struct Memory {
    void *mapped; /* with a page before and behind */
    size_t bytes;
    void *data; /* so that it ends where the page behind begins */
    size_t size;
    aule_buffer *buffer; /* of another device */
} Memory;

typedef struct Call {
    const aule_attention_v1 *a;
    bool is_half; /* operands are bfloat16, where there are kernels for it */
    int64_t sizes[AULE_MAX_SIZES];
    aule_param_arg params[4];
    size_t param_count;
    DLTensor tensors[MOST_TENSORS];
    int64_t shapes[MOST_TENSORS][MOST_RANK];
    aule_tensor_arg args[MOST_TENSORS];
    const aule_tensor_v1 *specs[MOST_TENSORS];
    Memory memory[MOST_TENSORS];
    size_t count;
} Call;

static aule_module *module;
static aule_device *device;
static bool on_cpu;

static void stop(const char *why, const char *what)
{
    fprintf(stderr, "tables_fuzz: %s: %s\n", why, what);
    abort();
}

static void open_all(void)
{
    const char *path = getenv("AULE_FUZZ_ARTIFACT"), *id = getenv("AULE_FUZZ_DEVICE");
    aule_error *error = NULL;
    if (!path) stop("AULE_FUZZ_ARTIFACT", "it says which artifact");
    if (aule_module_open(path, NULL, &module, &error) ||
        aule_device_open(id ? id : "cpu", NULL, &device, &error))
        stop("it does not open", aule_error_message(error));
    on_cpu = strcmp(aule_device_get_info(device)->backend, "cpu") == 0;
}

/* ---- bytes */

static uint32_t next(Bytes *b) { return b->at < b->end ? *b->at++ : 0; }

/* Small numbers, and some that are far off. */
static int32_t number(Bytes *b, uint32_t below)
{
    static const int32_t far[] = {-1, INT32_MAX, INT32_MIN, 1 << 16, -2, 1 << 30, 97};
    const uint32_t byte = next(b);
    if (byte < 248) return (int32_t)(byte % below);
    if (byte < 255) return far[byte - 248];
    uint32_t bits = 0;
    for (int n = 0; n < 4; n++) bits = bits << 8 | next(b);
    return (int32_t)bits;
}

static bool ends(const char *name, const char *with)
{
    const size_t length = strlen(name), of = strlen(with);
    return length >= of && strcmp(name + length - of, with) == 0;
}

static int64_t size_of(const char *name, Bytes *b, int64_t batch)
{
    static const int64_t rows[] = {1, 2, 5, 20, 0, 9, 3, 70}, slots[] = {1, 3, 16, 5};
    if (strcmp(name, "B") == 0) return batch;
    if (strcmp(name, "H") == 0) return 4;
    if (strcmp(name, "Hk") == 0) return 2;
    if (strcmp(name, "D") == 0 || strcmp(name, "E") == 0) return 16;
    if (strcmp(name, "S") == 0) return rows[next(b) % 8];
    if (strcmp(name, "T") == 0) return next(b) % 40;
    if (ends(name, "_slots")) return slots[next(b) % 4];
    if (ends(name, "_pages")) return 1 + next(b) % 12;
    if (ends(name, "_ends")) return batch + 1;
    return 1 + next(b) % 5; /* entries, lines, shares */
}

/* ---- memory */

static Memory memory_of(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (size + page - 1) / page * page;
    Memory m = {.bytes = inner + 2 * page, .size = size};
    m.mapped = mmap(NULL, m.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m.mapped == MAP_FAILED) stop("mmap", "no memory");
    char *first = (char *)m.mapped + page;
    if (inner && mprotect(first, inner, PROT_READ | PROT_WRITE)) stop("mprotect", "refused");
    m.data = first + inner - size;
    return m;
}

static int64_t size(const Call *c, const char *name)
{
    for (uint32_t n = 0; n < c->a->size_count; n++)
        if (strcmp(c->a->sizes[n].name, name) == 0) return c->sizes[n];
    return 0;
}

/* Numbers below this may be right. */
static int64_t right_below(const Call *c, const char *name, int64_t count)
{
    const bool of_queries = name[0] == 'S';
    const int64_t rows = size(c, of_queries ? "S" : "T"), slots = size(c, "T_slots"),
                  entries = size(c, "T_entries");
    if (ends(name, "_table_starts")) return entries / count + 2;
    if (ends(name, "_starts")) return rows / count + 2;
    if (ends(name, "_groups")) return 3;
    if (ends(name, "_table")) return size(c, "T_pages");
    if (ends(name, "_rows")) return size(c, "T_lines") ? size(c, "T_lines") : size(c, "T_ends") - 1;
    if (of_queries || !slots) return rows + 1;
    return entries * slots + 1;
}

/* The first byte says what is likely: what may be right, or any numbers; of starts and borders, counted up from 0. */
static void fill_list(const Call *c, Bytes *b, const char *name, int32_t *list, int64_t count)
{
    const uint32_t kind = next(b);
    const int64_t below = kind % 4 ? right_below(c, name, count) : kind % 64 + 1;
    const bool is_sum = (ends(name, "_starts") || ends(name, "_groups")) && kind % 16 != 15;
    int64_t sum = 0;
    for (int64_t n = 0; n < count; n++) {
        const int32_t value = number(b, (uint32_t)below);
        list[n] = is_sum ? (int32_t)(sum & 0x7fffffff) : value;
        sum += value;
        if (is_sum && kind % 16 == 14 && n + 2 == count) sum = size(c, "B");
    }
}

/* bfloat16 is the upper half of a float. */
static float number_at(const Call *c, const void *data, size_t n)
{
    uint32_t bits = 0;
    if (c->is_half)
        bits = (uint32_t)((const uint16_t *)data)[n] << 16;
    else
        bits = ((const uint32_t *)data)[n];
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_number(const Call *c, void *data, size_t n, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (c->is_half)
        ((uint16_t *)data)[n] = (uint16_t)(bits >> 16);
    else
        ((uint32_t *)data)[n] = bits;
}

static size_t element_of(const Call *c, const aule_tensor_v1 *spec)
{
    return spec->dtype == AULE_OPERAND && c->is_half ? 2 : 4;
}

/* Rows are of numbers from 1 to 2 that both types have. */
static void fill(const Call *c, Bytes *b, const aule_tensor_v1 *spec, Memory *m)
{
    const size_t count = m->size / element_of(c, spec);
    if (spec->dtype == AULE_I32)
        fill_list(c, b, spec->name, m->data, (int64_t)count);
    else
        for (size_t n = 0; n < count; n++)
            put_number(c, m->data, n,
                       spec->role == AULE_ROLE_OUTPUT ? NAN : 1 + (float)(n * 37 % 101) / 128);
}

static void guard(Memory *m)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (m->bytes > 2 * page && mprotect((char *)m->mapped + page, m->bytes - 2 * page, PROT_READ))
        stop("mprotect", "refused");
}

static void *to_device(Memory *m)
{
    aule_error *error = NULL;
    if (on_cpu) return m->data;
    if (aule_buffer_new(device, m->size ? m->size : 4, &m->buffer, &error) ||
        (m->size && aule_buffer_upload(m->buffer, 0, m->data, m->size, &error)))
        stop("a buffer", aule_error_message(error));
    return aule_buffer_data(m->buffer);
}

static void add_tensor(Call *c, Bytes *b, const aule_tensor_v1 *spec)
{
    size_t size = element_of(c, spec);
    const size_t n = c->count++;
    for (uint32_t k = 0; k < spec->rank; k++) {
        aule_value extent;
        if (aule_evaluate(&spec->axes[k], c->sizes, c->a->size_count, NULL, 0, &extent, NULL))
            stop("an axis", spec->name);
        c->shapes[n][k] = extent.i;
        size *= (size_t)extent.i;
    }
    c->memory[n] = memory_of(size);
    fill(c, b, spec, &c->memory[n]);
    if (spec->role != AULE_ROLE_OUTPUT) guard(&c->memory[n]);
    const DLDataType list = {kDLInt, 32, 1}, whole = {kDLFloat, 32, 1}, half = {kDLBfloat, 16, 1};
    c->tensors[n] = (DLTensor){to_device(&c->memory[n]),
                               aule_device_get_info(device)->dl,
                               (int32_t)spec->rank,
                               spec->dtype == AULE_I32 ? list
                               : c->is_half            ? half
                                                       : whole,
                               c->shapes[n],
                               NULL,
                               0};
    c->specs[n] = spec;
    c->args[n] = (aule_tensor_arg){spec->name, &c->tensors[n]};
}

static void make(Call *c, Bytes *b)
{
    c->a = aule_attention_descriptor(
        aule_module_attention(module, next(b) % aule_module_count(module)));
    const int64_t batch = 1 + next(b) % 4;
    const bool wants_half = next(b) % 2;
    for (uint32_t n = 0; n < c->a->variant_count; n++)
        c->is_half |= wants_half && c->a->variants[n].dtype == AULE_BF16;
    for (uint32_t n = 0; n < c->a->size_count; n++)
        c->sizes[n] = size_of(c->a->sizes[n].name, b, batch);
    for (uint32_t n = 0; n < c->a->param_count; n++)
        if (next(b) % 4 == 0)
            c->params[c->param_count++] =
                (aule_param_arg){c->a->params[n].name, {.i = number(b, 100) % 5000}};
    for (uint32_t n = 0; n < c->a->tensor_count; n++)
        if (c->a->tensors[n].role <= AULE_ROLE_OUTPUT) add_tensor(c, b, &c->a->tensors[n]);
}

/* ---- which lists are right */

typedef struct List {
    const int32_t *at;
    int64_t rows, columns;
} List;

static List list(const Call *c, const char *name)
{
    for (size_t n = 0; n < c->count; n++)
        if (strcmp(c->specs[n]->name, name) == 0)
            return (List){c->memory[n].data, c->shapes[n][0],
                          c->specs[n]->rank > 1 ? c->shapes[n][1] : 1};
    return (List){0};
}

static bool are_starts(List starts, int64_t total)
{
    for (int64_t n = 0; n < starts.rows; n++)
        if (starts.at[n] < 0 || starts.at[n] > total || (!n && starts.at[n]) ||
            (n && starts.at[n] < starts.at[n - 1]))
            return false;
    return true;
}

static bool are_lengths(List lengths, int64_t most)
{
    for (int64_t n = 0; n < lengths.rows; n++)
        if (lengths.at[n] < 0 || lengths.at[n] > most) return false;
    return true;
}

/* After lengths and rows were found right: entries in use. */
static bool is_table(const Call *c, List table, List lengths, List rows)
{
    const int64_t slots = size(c, "T_slots"), pages = size(c, "T_pages");
    for (int64_t b = 0; b < lengths.rows; b++)
        for (int64_t n = 0; n * slots < lengths.at[b]; n++) {
            const int32_t page = table.at[(rows.at ? rows.at[b] : b) * table.columns + n];
            if (page < 0 || page >= pages) return false;
        }
    return true;
}

/* Are there rules that this program does not know? */
static bool is_open(const Call *c)
{
    return list(c, "T_groups").at || list(c, "T_first").at || list(c, "T_table_starts").at ||
           c->param_count;
}

static bool is_right(const Call *c)
{
    const List rows = list(c, "T_rows"), lengths = list(c, "T_lengths"), table = list(c, "T_table");
    const int64_t most = table.at ? size(c, "T_entries") * size(c, "T_slots") : size(c, "T");
    return are_starts(list(c, "S_starts"), size(c, "S")) &&
           are_starts(list(c, "T_starts"), size(c, "T")) &&
           are_lengths(list(c, "S_lengths"), size(c, "S")) && are_lengths(lengths, most) &&
           are_lengths(rows, size(c, "T_lines") - 1) &&
           (!table.at || is_table(c, table, lengths, rows));
}

/* ---- a round */

static void check_output(const Call *c)
{
    for (size_t n = 0; n < c->count; n++) {
        Memory m = c->memory[n];
        const float off = c->is_half ? 0x1p-6f : 0x1p-16f;
        if (c->specs[n]->role != AULE_ROLE_OUTPUT) continue;
        if (m.buffer && m.size && aule_buffer_download(m.buffer, 0, m.data, m.size, NULL))
            stop("a buffer", "is not read");
        for (size_t k = 0; k < m.size / element_of(c, c->specs[n]); k++) {
            const float o = number_at(c, m.data, k);
            const bool is_mean = o > 1 - off && o < 2 + off,
                       is_unwritten = !on_cpu && isnan(o); /* by wrong lists */
            if (!is_mean && o != 0 && !is_unwritten) stop("a result is no mean", c->a->name);
        }
    }
}

/* The workspace lies between guarded pages, too. */
static aule_status run_plan(const aule_plan *plan, aule_error **error)
{
    uint32_t align = 1;
    const size_t bytes = (size_t)aule_plan_workspace(plan, &align);
    Memory m = memory_of((bytes + align - 1) / align * align);
    aule_run run = {.struct_size = sizeof run, .workspace_bytes = bytes};
    if (bytes) run.workspace = to_device(&m);
    const aule_status status = aule_plan_run(plan, &run, error);
    if (!status && !on_cpu && aule_device_synchronize(device, NULL, error))
        stop("the device", aule_error_message(*error));
    aule_buffer_free(m.buffer);
    munmap(m.mapped, m.bytes);
    return status;
}

static void run(Call *c)
{
    aule_error *error = NULL;
    aule_attention *attention = NULL;
    aule_plan *plan = NULL;
    if (aule_module_find(module, c->a->name, &attention, &error)) stop("no such", c->a->name);
    const aule_call call = {.struct_size = sizeof call,
                            .tensors = c->args,
                            .tensor_count = c->count,
                            .params = c->params,
                            .param_count = c->param_count};
    aule_status status = aule_plan_new(attention, device, &call, &plan, &error);
    if (!status) status = run_plan(plan, &error);
    aule_plan_free(plan);
    const char *said = aule_error_message(error);
    if (status && status != AULE_ERROR_TENSOR && status != AULE_ERROR_PARAM &&
        status != AULE_ERROR_REQUIRE)
        stop(aule_status_name(status), said);
    if (status && strncmp(said, c->a->name, strcspn(c->a->name, "@")) != 0)
        stop("of which attention", said);
    if (!status) check_output(c);
    if (on_cpu && !is_open(c) && (status == AULE_OK) != is_right(c))
        stop(status ? "right lists are refused" : "wrong lists are taken",
             status ? said : c->a->name);
    aule_error_free(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (!module) open_all();
    Call *c = calloc(1, sizeof *c);
    if (!c) return 0;
    Bytes b = {data, data + length};
    make(c, &b);
    run(c);
    for (size_t n = 0; n < c->count; n++) {
        aule_buffer_free(c->memory[n].buffer);
        munmap(c->memory[n].mapped, c->memory[n].bytes);
    }
    free(c);
    return 0;
}
