/* sequences.c - see plan.h: what cu_seqlens and slots say of sequences, and lengths and tables of keys. How many elements there
 * must be is a matter of shapes (signature.c); the values are read where memory is the host's and a run is done when it returns,
 * and of artifacts that were compiled with --checked by the report of a run, which brings them there (report_lists.c). Kernels on
 * devices take what they find as a part of the tensors, so that no value makes a wild address. */
#include "key_pages.h"

#include <stdio.h>
#include <string.h>

int64_t rt_bound_extent(const aule_plan *plan, uint32_t index, uint32_t axis)
{
    const AuEnv env = rt_bound_env(plan->attention, &plan->bound);
    aule_value value = {0};
    rt_evaluate(&rt_tensor(plan->attention, index)->axes[axis], &env, &value);
    return value.i;
}

static int64_t tokens_of(const aule_plan *plan)
{
    for (uint32_t i = 0; i < plan->attention->tensor_count; i++)
        if (rt_tensor(plan->attention, i)->role == AULE_ROLE_Q) return rt_bound_extent(plan, i, 2);
    return 0;
}

/* A list of i32 on the host. */
typedef struct List {
    uint32_t index; /* of the tensor */
    int64_t count, stride;
    const char *first;
} List;

static int64_t element(const List *list, int64_t n)
{
    int32_t value;
    memcpy(&value, list->first + n * list->stride * (int64_t)sizeof value, sizeof value);
    return value;
}

static List host_list(const aule_plan *plan, uint32_t index, const aule_address *at)
{
    return (List){.index = index,
                  .count = rt_bound_extent(plan, index, 0),
                  .stride = plan->bound.strides[index][0],
                  .first = (const char *)at->data + at->byte_offset};
}

/* How many rows a sequence may have, and how a message says why. */
typedef struct Most {
    int64_t rows;
    const char *why, *after; /* around the number */
} Most;

static const Most any_number = {INT64_MAX, "", ""};

/* A list of where rows of [what] begin, of which there are [all]. */
static aule_status check_begins(const aule_plan *plan, const List *list, const char *what,
                                int64_t all, Most most, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const char *name = rt_tensor(a, list->index)->name;
    int64_t before = 0;
    for (int64_t n = 0; n < list->count; n++) {
        const int64_t next = element(list, n);
        if (n == 0 && next != 0)
            return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s begins with %lld, expected 0", a->name,
                           name, (long long)next);
        if (next < before)
            return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s decreases at %lld: %lld after %lld",
                           a->name, name, (long long)n, (long long)next, (long long)before);
        if (next > all)
            return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s[%lld] is %lld, %s has %lld rows",
                           a->name, name, (long long)n, (long long)next, what, (long long)all);
        if (n > 0 && next - before > most.rows)
            return rt_fail(sink, AULE_ERROR_TENSOR,
                           "%s: %s: sequence %lld has %lld rows, %s %lld%s", a->name, name,
                           (long long)(n - 1), (long long)(next - before), most.why,
                           (long long)most.rows, most.after);
        before = next;
    }
    return AULE_OK;
}

/* Of tokens, all of which are a sequence's. */
static aule_status check_values(const aule_plan *plan, const List *list, AuSink sink)
{
    const int64_t tokens = tokens_of(plan), last = element(list, list->count - 1);
    const aule_status status = check_begins(plan, list, "q", INT64_MAX, any_number, sink);
    if (status || last == tokens) return status;
    return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s ends with %lld, there are %lld tokens",
                   plan->attention->name, rt_tensor(plan->attention, list->index)->name,
                   (long long)last, (long long)tokens);
}

/* -1 is none; two sequences of a call must not have one state, which both would write. */
static aule_status check_slots(const aule_plan *plan, const List *list, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const char *attention = a->name, *name = rt_tensor(a, list->index)->name;
    int64_t states = 0;
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (rt_tensor(a, i)->role == AULE_ROLE_POOL && plan->bound.tensors[i])
            states = rt_bound_extent(plan, i, 0);
    for (int64_t n = 0; n < list->count; n++) {
        const int64_t slot = element(list, n);
        if (slot < -1 || slot >= states)
            return rt_fail(sink, AULE_ERROR_TENSOR,
                           "%s: %s[%lld] is %lld, there are %lld states (-1: none)", attention,
                           name, (long long)n, (long long)slot, (long long)states);
        for (int64_t m = 0; m < n && slot >= 0; m++)
            if (element(list, m) == slot)
                return rt_fail(
                    sink, AULE_ERROR_TENSOR,
                    "%s: %s[%lld] and %s[%lld] are both %lld: one state for two sequences",
                    attention, name, (long long)m, name, (long long)n, (long long)slot);
    }
    return AULE_OK;
}

/* Of a recurrence. */
static aule_status check_list(const aule_plan *plan, uint32_t index, const aule_address *at,
                              AuSink sink)
{
    const uint32_t role = rt_tensor(plan->attention, index)->role;
    if (!plan->bound.tensors[index]) return AULE_OK;
    const List list = host_list(plan, index, at);
    if (role == AULE_ROLE_SLOTS) return check_slots(plan, &list, sink);
    return list.count > 0 ? check_values(plan, &list, sink) : AULE_OK;
}

/* ---- rows of queries and of keys in layouts */

enum { STARTS = AULE_TENSOR_STARTS_Q | AULE_TENSOR_STARTS_K };

static bool is_list(const aule_tensor_v1 *t, uint32_t flag, uint32_t rank)
{
    return t->flags & flag && t->rank == rank && t->dtype == AULE_I32;
}

/* The first tensor with that role. */
static uint32_t first_of(const aule_attention_v1 *a, uint32_t role)
{
    uint32_t i = 0;
    while (i + 1 < a->tensor_count && rt_tensor(a, i)->role != role) i++;
    return i;
}

int64_t rt_i32_at(const aule_plan *plan, uint32_t index, const aule_address *at, int64_t row,
                  int64_t column)
{
    const int64_t *strides = plan->bound.strides[index];
    const int64_t offset = row * strides[0] + (column ? column * strides[1] : 0);
    int32_t value;
    memcpy(&value, (const char *)at->data + at->byte_offset + offset * (int64_t)sizeof value,
           sizeof value);
    return value;
}

bool rt_is_beside(const aule_plan *plan, uint32_t index, const char *end, const char *name,
                  const char *instead)
{
    const char *tensor = rt_tensor(plan->attention, index)->name;
    const size_t length = strlen(tensor), ends = strlen(end);
    if (length < ends || strcmp(tensor + length - ends, end) != 0) return false;
    const size_t axis = length - ends;
    return strncmp(name, tensor, axis) == 0 && strcmp(name + axis, instead) == 0;
}

/* The value of such a size; [none] if there is no such size. */
static int64_t size_beside(const aule_plan *plan, uint32_t index, const char *end,
                           const char *instead, int64_t none)
{
    const aule_attention_v1 *a = plan->attention;
    for (uint32_t n = 0; n < a->size_count; n++)
        if (rt_is_beside(plan, index, end, a->sizes[n].name, instead)) return plan->bound.sizes[n];
    return none;
}

/* The value of a parameter that is called so: X_most beside X_starts. */
static int64_t param_beside(const aule_plan *plan, const AuBound *bound, int32_t index,
                            const char *end, const char *instead)
{
    const aule_attention_v1 *a = plan->attention;
    for (uint32_t n = 0; n < a->param_count; n++)
        if (rt_is_beside(plan, (uint32_t)index, end, rt_param(a, n)->name, instead))
            return bound->params[n].i;
    return INT32_MAX;
}

/* X_most beside X_starts, a size of inputs or a parameter. Append, which has no queries, takes as many rows as there are. */
static Most most_rows(const aule_plan *plan, const AuBound *bound, uint32_t starts)
{
    if (rt_passed_of(plan->attention, &plan->bound, AULE_ROLE_Q) < 0)
        return (Most){INT64_MAX, "", ""};
    if (rt_tensor(plan->attention, starts)->flags & AULE_TENSOR_MOST)
        return (Most){size_beside(plan, starts, "_starts", "_most", INT64_MAX), "inputs have",
                      " for each"};
    return (Most){param_beside(plan, bound, (int32_t)starts, "_starts", "_most"),
                  "the call says that none has more than", ""};
}

/* Packed rows. */
static aule_status check_starts(const aule_plan *plan, const AuBound *bound, uint32_t starts,
                                const aule_address *at, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const bool of_keys = !(rt_tensor(a, starts)->flags & AULE_TENSOR_STARTS_Q);
    const uint32_t q = first_of(a, AULE_ROLE_Q),
                   rows = of_keys                  ? first_of(a, AULE_ROLE_K)
                          : plan->bound.tensors[q] ? q
                                                   : first_of(a, AULE_ROLE_NEW); /* append */
    const List list = host_list(plan, starts, at);
    return check_begins(plan, &list, rt_tensor(a, rows)->name, rt_bound_extent(plan, rows, 2),
                        most_rows(plan, bound, starts), sink);
}

/* ---- keys in a layout: `lengths` and, of pages, `table` */

int32_t rt_list_of(const aule_attention_v1 *a, uint32_t flag, uint32_t rank)
{
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (is_list(rt_tensor(a, i), flag, rank)) return (int32_t)i;
    return -1;
}

static AuPositions positions_of(const aule_plan *plan, const AuBound *bound, bool of_keys)
{
    const aule_attention_v1 *a = plan->attention;
    const int32_t first = rt_list_of(a, of_keys ? AULE_TENSOR_FIRST : AULE_TENSOR_FIRST_Q, 1);
    return (AuPositions){
        .first = first,
        .whole = rt_list_of(a, of_keys ? AULE_TENSOR_WHOLE : AULE_TENSOR_WHOLE_Q, 1),
        .every = first < 0 ? 1 : param_beside(plan, bound, first, "_first", "_every"),
        .rows = of_keys ? "keys" : "queries"};
}

static AuKeyPages pages_of(const aule_plan *plan, const AuBound *bound)
{
    const aule_attention_v1 *a = plan->attention;
    const uint32_t k = first_of(a, AULE_ROLE_K);
    const int32_t starts = rt_list_of(a, AULE_TENSOR_TABLE_STARTS, 1);
    AuKeyPages p = {.table = rt_list_of(a, AULE_TENSOR_TABLE, starts < 0 ? 2 : 1),
                    .starts = starts,
                    .rows = rt_list_of(a, AULE_TENSOR_ROWS, 1),
                    .pages = rt_bound_extent(plan, k, 0),
                    .slots = rt_bound_extent(plan, k, 2),
                    .most = starts < 0
                                ? INT32_MAX
                                : param_beside(plan, bound, starts, "_table_starts", "_most"),
                    .positions = positions_of(plan, bound, true)};
    const uint32_t table = (uint32_t)p.table;
    p.room = p.table < 0 || starts >= 0 ? p.slots : p.slots * rt_bound_extent(plan, table, 1);
    p.lines = starts >= 0   ? rt_bound_extent(plan, (uint32_t)starts, 0) - 1
              : p.table < 0 ? p.pages
                            : rt_bound_extent(plan, table, 0);
    return p;
}

/* Kernels count the keys that a line of the table has room for in 32 bits. */
aule_status rt_check_room(const aule_plan *plan, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const int32_t table = rt_list_of(a, AULE_TENSOR_TABLE, 2);
    if (table < 0 || !plan->bound.tensors[table]) return AULE_OK; /* combine is given none */
    const int64_t slots = rt_bound_extent(plan, first_of(a, AULE_ROLE_K), 2),
                  entries = rt_bound_extent(plan, (uint32_t)table, 1);
    if (slots == 0 || entries <= AULE_LARGEST_SIZE / slots) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: a line of %s has %lld pages of %lld rows, more than the %d keys that a "
                   "sequence may have room for",
                   a->name, rt_tensor(a, (uint32_t)table)->name, (long long)entries,
                   (long long)slots, AULE_LARGEST_SIZE);
}

/* Which row of the table, or of k, sequence b has. */
aule_status rt_line_of(const aule_plan *plan, const AuKeyPages *p, const aule_address *at,
                       int64_t b, int64_t *line, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    *line = b;
    if (p->rows < 0 && b < p->lines) return AULE_OK;
    if (p->rows < 0) /* what requirements of a whole artifact say before */
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "%s: keys are of %lld sequences", a->name,
                       (long long)p->lines);
    *line = rt_i32_at(plan, (uint32_t)p->rows, &at[p->rows], b, 0);
    if (*line >= 0 && *line < p->lines) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s[%lld] is %lld, %s has %lld rows", a->name,
                   rt_tensor(a, (uint32_t)p->rows)->name, (long long)b, (long long)*line,
                   p->table < 0 ? "k" : rt_tensor(a, (uint32_t)p->table)->name,
                   (long long)p->lines);
}

/* How the message calls page [n] of row [line] of the table. */
static aule_status fail_page(const aule_plan *plan, const AuKeyPages *p, int64_t line, int64_t at,
                             int64_t n, int64_t page, AuSink sink)
{
    const char *name = rt_tensor(plan->attention, (uint32_t)p->table)->name;
    char place[64];
    if (p->starts < 0)
        snprintf(place, sizeof place, "%lld, %lld", (long long)line, (long long)at);
    else
        snprintf(place, sizeof place, "%lld", (long long)at);
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: %s[%s] is %lld, there are %lld pages (keys from %lld on)",
                   plan->attention->name, name, place, (long long)page, (long long)p->pages,
                   (long long)(n * p->slots));
}

int64_t rt_page_at(const aule_plan *plan, const AuKeyPages *p, const aule_address *table,
                   int64_t line, int64_t entry)
{
    const uint32_t index = (uint32_t)p->table;
    return p->starts < 0 ? rt_i32_at(plan, index, table, line, entry)
                         : rt_i32_at(plan, index, table, entry, 0);
}

/* The pages in use of a sequence, which has [length] keys and row [line] of the table: of one list, what lies from [first] on. */
static aule_status check_pages(const aule_plan *plan, const AuKeyPages *p,
                               const aule_address *table, int64_t line, int64_t first,
                               int64_t length, AuSink sink)
{
    for (int64_t n = 0; n * p->slots < length; n++) {
        const int64_t page = rt_page_at(plan, p, table, line, first + n);
        if (page < 0 || page >= p->pages) return fail_page(plan, p, line, first + n, n, page, sink);
    }
    return AULE_OK;
}

/* As many positions as inputs of keys in pages have, which alone give the size T beside T_whole. */
static int64_t inputs_have(const aule_plan *plan, uint32_t whole)
{
    return size_beside(plan, whole, "_whole", "", INT32_MAX);
}

/* Row [length] - 1 is a position of the sequence. */
static aule_status check_positions(const aule_plan *plan, const AuPositions *p,
                                   const aule_address *at, int64_t b, int64_t length, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    if (p->first < 0) return AULE_OK;
    const uint32_t first = (uint32_t)p->first, whole = (uint32_t)p->whole;
    const int64_t from = rt_i32_at(plan, first, &at[first], b, 0),
                  all = rt_i32_at(plan, whole, &at[whole], b, 0),
                  last = from + p->every * (length > 0 ? length - 1 : 0);
    if (all - 1 > INT32_MAX - p->every)
        return rt_fail(sink, AULE_ERROR_TENSOR,
                       "%s: %s[%lld] is %lld, with %.*severy %lld there are at most %lld positions",
                       a->name, rt_tensor(a, whole)->name, (long long)b, (long long)all,
                       (int)(strlen(rt_tensor(a, whole)->name) - strlen("whole")),
                       rt_tensor(a, whole)->name, (long long)p->every,
                       (long long)(INT32_MAX - p->every + 1));
    if (from < 0 || all < 0 || (length > 0 && from > all))
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s[%lld] is %lld, %s has %lld positions",
                       a->name, rt_tensor(a, first)->name, (long long)b, (long long)from,
                       rt_tensor(a, whole)->name, (long long)all);
    if (length > 0 && last >= all)
        return rt_fail(sink, AULE_ERROR_TENSOR,
                       "%s: %s[%lld] is %lld, and the last of %lld %s is position %lld", a->name,
                       rt_tensor(a, whole)->name, (long long)b, (long long)all, (long long)length,
                       p->rows, (long long)last);
    return AULE_OK;
}

static aule_status check_key_positions(const aule_plan *plan, const AuKeyPages *p,
                                       const aule_address *at, int64_t b, int64_t length,
                                       AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const aule_status status = check_positions(plan, &p->positions, at, b, length, sink);
    if (status || p->positions.first < 0) return status;
    const uint32_t whole = (uint32_t)p->positions.whole;
    const int64_t all = rt_i32_at(plan, whole, &at[whole], b, 0);
    if (p->table >= 0 && inputs_have(plan, whole) < all)
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s[%lld] is %lld, inputs have %lld positions",
                       a->name, rt_tensor(a, whole)->name, (long long)b, (long long)all,
                       (long long)inputs_have(plan, whole));
    return AULE_OK;
}

static aule_status check_sequence(const aule_plan *plan, const AuKeyPages *p, int32_t lengths,
                                  const aule_address *at, int64_t b, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    int64_t line, first = 0, room = p->room;
    aule_status status = rt_line_of(plan, p, at, b, &line, sink);
    if (!status && lengths < 0) status = check_key_positions(plan, p, at, b, room, sink);
    if (status || lengths < 0) return status;
    const int64_t length = rt_i32_at(plan, (uint32_t)lengths, &at[lengths], b, 0);
    const char *name = rt_tensor(a, (uint32_t)lengths)->name;
    if (p->starts >= 0) {
        const uint32_t starts = (uint32_t)p->starts;
        first = rt_i32_at(plan, starts, &at[starts], line, 0);
        room *= rt_i32_at(plan, starts, &at[starts], line + 1, 0) - first;
    }
    if (length < 0 || length > room)
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s[%lld] is %lld, %s to %lld", a->name, name,
                       (long long)b, (long long)length,
                       p->table < 0 ? "k reaches" : "the table reaches", (long long)room);
    if (p->starts >= 0 && length > p->most)
        return rt_fail(sink, AULE_ERROR_TENSOR,
                       "%s: %s[%lld] is %lld, the call says that no sequence has more than %lld",
                       a->name, name, (long long)b, (long long)length, (long long)p->most);
    if (p->table >= 0) status = check_pages(plan, p, &at[p->table], line, first, length, sink);
    return status ? status : check_key_positions(plan, p, at, b, length, sink);
}

/* Queries that are padded: how many sequence [b] has. */
static aule_status check_query_length(const aule_plan *plan, int32_t list, const aule_address *at,
                                      int64_t b, int64_t *length, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const int64_t room = rt_bound_extent(plan, first_of(a, AULE_ROLE_Q), 2);
    *length = list < 0 ? room : rt_i32_at(plan, (uint32_t)list, &at[list], b, 0);
    if (*length >= 0 && *length <= room) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s[%lld] is %lld, q has %lld rows", a->name,
                   rt_tensor(a, (uint32_t)list)->name, (long long)b, (long long)*length,
                   (long long)room);
}

/* The list `rows` of queries: which row of q, and so of o, each sequence has. */
typedef struct QueryLines {
    const aule_plan *plan;
    uint32_t list;
    const aule_address *at;
    int64_t sequences, lines;
} QueryLines;

static int64_t line_of(const QueryLines *q, int64_t b)
{
    return rt_i32_at(q->plan, q->list, &q->at[q->list], b, 0);
}

static aule_status say_shared_line(const QueryLines *q, int64_t b, AuSink sink)
{
    const aule_attention_v1 *a = q->plan->attention;
    const int64_t line = line_of(q, b);
    int64_t other = 0;
    while (line_of(q, other) != line) other++;
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: %s[%lld] and [%lld] are both %lld, where one output lies", a->name,
                   rt_tensor(a, q->list)->name, (long long)other, (long long)b, (long long)line);
}

/* No two sequences have one row: those that are taken are bits, of some rows at a time, so that nothing is allocated and time grows
 * with the sequences. */
static aule_status check_lines_differ(const QueryLines *q, int64_t most, AuSink sink)
{
    enum { WINDOW = 1 << 16, BITS = 64 };
    uint64_t taken[WINDOW / BITS];
    for (int64_t from = 0; from <= most; from += WINDOW) {
        memset(taken, 0, sizeof taken);
        for (int64_t b = 0; b < q->sequences; b++) {
            const int64_t at = line_of(q, b) - from;
            if (at < 0 || at >= WINDOW) continue;
            const uint64_t bit = (uint64_t)1 << at % BITS;
            if (taken[at / BITS] & bit) return say_shared_line(q, b, sink);
            taken[at / BITS] |= bit;
        }
    }
    return AULE_OK;
}

static aule_status check_query_lines(const aule_plan *plan, int32_t rows, const aule_address *at,
                                     AuSink sink)
{
    if (rows < 0 || !plan->bound.tensors[rows]) return AULE_OK;
    const aule_attention_v1 *a = plan->attention;
    const QueryLines q = {.plan = plan,
                          .list = (uint32_t)rows,
                          .at = at,
                          .sequences = rt_bound_extent(plan, (uint32_t)rows, 0),
                          .lines = rt_bound_extent(plan, first_of(a, AULE_ROLE_Q), 0)};
    int64_t most = -1;
    for (int64_t b = 0; b < q.sequences; b++) {
        const int64_t line = line_of(&q, b);
        if (line < 0 || line >= q.lines)
            return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s[%lld] is %lld, q has %lld rows",
                           a->name, rt_tensor(a, q.list)->name, (long long)b, (long long)line,
                           (long long)q.lines);
        if (line > most) most = line;
    }
    return check_lines_differ(&q, most, sink);
}

/* And those that are some of a sequence's, packed ones when their starts were looked at. */
static aule_status check_queries(const aule_plan *plan, const AuBound *bound,
                                 const aule_address *at, bool packed, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const AuPositions positions = positions_of(plan, bound, false);
    const int32_t lengths = rt_list_of(a, AULE_TENSOR_LENGTHS_Q, 1),
                  starts = rt_list_of(a, AULE_TENSOR_STARTS_Q, 1),
                  rows = rt_list_of(a, AULE_TENSOR_ROWS_Q, 1),
                  list = lengths >= 0 ? lengths
                         : rows >= 0  ? rows
                                      : positions.first;
    if (list < 0 || !plan->bound.tensors[list] || packed != (starts >= 0)) return AULE_OK;
    const int64_t count = rt_bound_extent(plan, (uint32_t)list, 0);
    aule_status status = AULE_OK;
    for (int64_t b = 0; b < count && !status; b++) {
        int64_t length = 0;
        if (!packed)
            status = check_query_length(plan, lengths, at, b, &length, sink);
        else
            length = rt_i32_at(plan, (uint32_t)starts, &at[starts], b + 1, 0) -
                     rt_i32_at(plan, (uint32_t)starts, &at[starts], b, 0);
        if (!status) status = check_positions(plan, &positions, at, b, length, sink);
    }
    return status ? status : check_query_lines(plan, rows, at, sink);
}

/* Keys, by the list that each sequence has an element of. */
static aule_status check_layout(const aule_plan *plan, const AuBound *bound, const aule_address *at,
                                AuSink sink)
{
    const int32_t lengths = rt_list_of(plan->attention, AULE_TENSOR_LENGTHS, 1),
                  rows = rt_list_of(plan->attention, AULE_TENSOR_ROWS, 1),
                  first = rt_list_of(plan->attention, AULE_TENSOR_FIRST, 1),
                  list = lengths >= 0 ? lengths
                         : rows >= 0  ? rows
                                      : first;
    if (list < 0 || !plan->bound.tensors[list]) return AULE_OK;
    const AuKeyPages p = pages_of(plan, bound);
    const int64_t count = rt_bound_extent(plan, (uint32_t)list, 0);
    aule_status status = AULE_OK;
    if (p.starts >= 0) {
        const List begins = host_list(plan, (uint32_t)p.starts, &at[p.starts]);
        status = check_begins(plan, &begins, rt_tensor(plan->attention, (uint32_t)p.table)->name,
                              rt_bound_extent(plan, (uint32_t)p.table, 0), any_number, sink);
    }
    for (int64_t b = 0; b < count && !status; b++)
        status = check_sequence(plan, &p, lengths, at, b, sink);
    return status ? status : rt_check_groups(plan, &p, at, count, sink);
}

/* Of rows that are appended at the ends of sequences: no two go to one place. */
static aule_status check_new_places(const aule_plan *plan, const AuBound *bound,
                                    const aule_address *at, AuSink sink)
{
    const int32_t lengths = rt_list_of(plan->attention, AULE_TENSOR_LENGTHS, 1);
    if (lengths < 0 || !plan->bound.tensors[lengths]) return AULE_OK;
    const AuKeyPages p = pages_of(plan, bound);
    return rt_check_new_places(plan, &p, (uint32_t)lengths, at, sink);
}

aule_status rt_check_sequences(const aule_plan *plan, const AuBound *bound, const aule_address *at,
                               AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    /* Where slots say it all, append reads no lists, and some of them may be missing; a forward behind it reads them. */
    const bool slots = rt_passed_of(a, &plan->bound, AULE_ROLE_NEW_SLOTS) >= 0;
    aule_status status = slots ? rt_check_new_slots(plan, at, sink) : AULE_OK;
    if (slots && !plan->bound.first) return status;
    if (!status) status = check_queries(plan, bound, at, false, sink);
    if (!status) status = check_layout(plan, bound, at, sink);
    for (uint32_t i = 0; i < a->tensor_count && !status; i++) {
        const uint32_t role = rt_tensor(a, i)->role;
        if (role == AULE_ROLE_SEQUENCES || role == AULE_ROLE_SLOTS)
            status = check_list(plan, i, &at[i], sink);
        if (!status && is_list(rt_tensor(a, i), STARTS, 1) && plan->bound.tensors[i])
            status = check_starts(plan, bound, i, &at[i], sink);
    }
    if (!status) status = check_queries(plan, bound, at, true, sink);
    return status || slots ? status : check_new_places(plan, bound, at, sink);
}
