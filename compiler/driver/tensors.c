/* tensors.c - see tensors.h. */
#include "tensors.h"

#include "append.h"
#include "work.h"
#include "layouts.h"
#include "storage.h"

#include "aule/artifact.h"
#include "hooks.h"

#include <string.h>

#define SEQUENCES "cu_seqlens"

typedef struct Rows {
    AuArena *arena;
    AuAttn *a;
    AuExpr heads; /* of the output */
    AuTensorRow *at;
    uint32_t count, capacity;
} Rows;

static void add(Rows *r, AuTensorRow row) { AU_PUSH(r->arena, r->at, r->count, r->capacity, row); }

/* [b, h, q] and, of outputs, e. */
static void add_of_rows(Rows *r, const char *name, const char *kernel, uint32_t role, uint32_t rank,
                        uint32_t flags, AuSpan span)
{
    const AuTensor *q = &r->a->tensors[0], *v = &r->a->tensors[2];
    add(r, (AuTensorRow){.name = name,
                         .kernel = kernel,
                         .role = role,
                         .dtype = rank == 3 ? AU_DT_F32 : AU_DT_OPERAND,
                         .rank = rank,
                         .flags = flags,
                         .axes = {q->axes[0], r->heads, q->axes[2], v->axes[3]},
                         .span = span});
}

static void add_like(Rows *r, uint32_t tensor, const char *name, const char *kernel, uint32_t role,
                     uint32_t flags)
{
    const AuTensor *t = &r->a->tensors[tensor];
    AuTensorRow row = {.name = name,
                       .kernel = kernel,
                       .role = role,
                       .dtype = t->dtype,
                       .rank = t->rank,
                       .flags = flags,
                       .span = t->span};
    memcpy(row.axes, t->axes, sizeof row.axes);
    for (uint32_t n = 0; n < t->rank && tensor >= 3; n++)
        row.axes[n] = attn_input_extent(r->a, tensor, n);
    add(r, row);
}

/* ORDER: of cu_seqlens, of a step's states, of its slots. */
static const char *const size_names[] = {"cu_seqlens_count", "pool", "slots_count"};
enum { OF_SEQUENCES, OF_POOL, OF_SLOTS, OWN_SIZES };

void driver_add_sizes(AuAttn *a)
{
    if (!a->linear || a->linear->own_sizes) return;
    a->linear->own_sizes = 1 + a->size_count;
    for (uint32_t n = 0; n < OWN_SIZES; n++) attn_add_size(a, size_names[n], -1, a->span);
}

static AuExpr own_size(AuAttn *a, uint32_t which)
{
    const int32_t index = (int32_t)(a->linear->own_sizes - 1 + which);
    return attn_node(a, AU_OP_SIZE, NULL, 0, index, 0, a->span);
}

/* ---- of unfinished and combine */

#define PARTS "parts"

void driver_add_parts(AuAttn *a)
{
    if (a->online->parts_size) return;
    a->online->parts_size = 1 + a->size_count;
    attn_add_size(a, PARTS, -1, a->span);
}

/* [b, h, q] and, of the sum, e; of combine one axis before them. */
static void add_part(Rows *r, const char *name, const char *kernel, bool is_sum, uint32_t role,
                     AuSpan span)
{
    AuAttn *a = r->a;
    const AuTensor *q = &a->tensors[0], *v = &a->tensors[2];
    AuTensorRow row = {
        .name = name, .kernel = kernel, .role = role, .dtype = AU_DT_F32, .rank = 0, .span = span};
    if (role == AULE_ROLE_PART) {
        row.name = au_format(r->arena, "%s_parts", name);
        row.kernel = au_format(r->arena, "%s_parts", kernel);
        row.axes[row.rank++] =
            attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)a->online->parts_size - 1, 0, a->span);
    }
    row.axes[row.rank++] = q->axes[0];
    row.axes[row.rank++] = r->heads;
    row.axes[row.rank++] = q->axes[2];
    if (is_sum) row.axes[row.rank++] = v->axes[3];
    add(r, row);
}

static void add_parts(Rows *r, uint32_t role)
{
    const AuOnline *online = r->a->online;
    add_part(r, "acc", "part_acc", true, role, r->a->span);
    for (uint32_t n = 0; n < hooks_state_count(r->a); n++) {
        const bool is_flag = n == online->scale_count;
        add_part(r, is_flag ? "seen" : au_format(r->arena, "state_%s", online->scales[n].name),
                 au_format(r->arena, "part_%u", n), false, role,
                 is_flag ? r->a->span : online->scales[n].span);
    }
}

static bool is_axis(const AuAttn *a, const AuExpr *axes, uint32_t rank, uint32_t size)
{
    for (uint32_t n = 0; n < rank; n++) {
        const AuNode *axis = attn_at(a, axes[n]);
        if (axis->op == AU_OP_SIZE && (uint32_t)axis->integer == size) return true;
    }
    return false;
}

/* Do tensors that are passed to combine give it: parts, inputs that it reads? */
static bool gives_size(AuAttn *a, const bool *joined, uint32_t size)
{
    const AuTensor *q = &a->tensors[0], *v = &a->tensors[2];
    const AuExpr of_parts[4] = {q->axes[0], attn_heads(a), q->axes[2], v->axes[3]};
    if (is_axis(a, of_parts, 4, size)) return true;
    for (uint32_t n = 3; n < a->tensor_count; n++)
        if (joined[n] && is_axis(a, a->tensors[n].axes, a->tensors[n].rank, size)) return true;
    return false;
}

/* What parts of queries in a layout do not say: which sequence a packed row is of, and how many rows a sequence has. */
static const char *of_sequence(const AuAttn *a, const AuNode *node)
{
    const AuRowLayout *rows = &a->queries;
    if (rows->layout && node->op == AU_OP_SIZE &&
        node->integer == attn_at(a, a->tensors[0].axes[2])->integer)
        return "how many queries a sequence has";
    const bool packed = rows->layout == AU_LAYOUT_PACKED;
    if ((!packed && !rows->has_rows) || node->op != AU_OP_INDEX) return NULL;
    return node->integer == AU_AX_B   ? "which sequence a row is of"
           : !packed                  ? NULL
           : node->integer == AU_AX_Q ? "a row's number in its sequence"
                                      : NULL;
}

const char *driver_parts_refusal(AuArena *arena, AuAttn *a)
{
    if (!a->online) return "states of parts in sequence are state_in and state_out";
    if (!attn_derive_combine(a))
        return au_format(arena,
                         "'%s' has no combine, and none that is right can be derived from it",
                         a->online->name);
    const bool *mark = hooks_behind_sums(arena, a), *joined = hooks_joined(arena, a);
    const uint32_t count = a->node_count; /* heads may be a node of their own */
    for (uint32_t n = 1; n < count; n++) {
        const AuNode *node = &a->nodes[n];
        const char *lacks = mark[n] ? of_sequence(a, node) : NULL;
        if (lacks)
            return au_format(arena, "what follows the sums asks for %s, which no part says", lacks);
        if (mark[n] && node->op == AU_OP_SIZE && a->sizes[node->integer].fixed < 0 &&
            !gives_size(a, joined, (uint32_t)node->integer))
            return au_format(arena, "what follows the sums asks for the size %s, which no part has",
                             a->sizes[node->integer].name);
    }
    return NULL;
}

static void mark_joined(Rows *r)
{
    const bool *joined = hooks_joined(r->arena, r->a);
    for (uint32_t n = 3; n < r->a->tensor_count; n++)
        if (joined[n]) r->at[n].flags |= AULE_TENSOR_JOINED;
}

/* ---- of append */

/* "k_new", of a tensor that has rows of keys. */
static void add_new(Rows *r, uint32_t tensor, const char *of, const char *kernel)
{
    add_like(r, tensor, au_format(r->arena, "%s_new", of), au_format(r->arena, "%s_new", kernel),
             AULE_ROLE_NEW, 0);
    AuExpr *axes = r->at[r->count - 1].axes;
    axes[0] = driver_new_size(r->a, AU_NEW_BATCH), axes[2] = driver_new_size(r->a, AU_NEW_ROWS);
}

/* Rows of k and v, those of keys of further products, and where they go. */
static void add_new_rows(Rows *r)
{
    AuAttn *a = r->a;
    const AuExpr batch = driver_new_size(a, AU_NEW_BATCH);
    add_new(r, 1, "k", "k");
    if (!a->v_in_k) add_new(r, 2, "v", "v");
    for (uint32_t n = 3; n < a->tensor_count; n++)
        if (a->tensors[n].as_keys)
            add_new(r, n, a->tensors[n].name, hooks_name(r->arena, a->tensors[n].name));
    if (!driver_has_slots(a)) return;
    add(r, (AuTensorRow){.name = "slots",
                         .kernel = "slots",
                         .role = AULE_ROLE_NEW_SLOTS,
                         .dtype = AU_DT_I64,
                         .rank = 2,
                         .flags = AULE_TENSOR_OPTIONAL,
                         .axes = {batch, driver_new_size(a, AU_SLOTS_ROWS)},
                         .span = a->span});
}

/* ---- of schedule */

static void add_work(Rows *r)
{
    add(r, (AuTensorRow){.name = "work",
                         .kernel = "work_given", /* no kernel asks for it: it stands for regions */
                         .role = AULE_ROLE_WORK,
                         .dtype = AU_DT_I32,
                         .rank = 1,
                         .flags = AULE_TENSOR_OPTIONAL,
                         .axes = {work_axis(r->a)},
                         .span = r->a->span});
}

/* ---- all */

static void add_list(Rows *r, const char *name, uint32_t role, uint32_t size)
{
    add(r, (AuTensorRow){.name = name,
                         .kernel = name,
                         .role = role,
                         .dtype = AU_DT_I32,
                         .rank = 1,
                         .flags = AULE_TENSOR_OPTIONAL,
                         .axes = {own_size(r->a, size)},
                         .span = r->a->span});
}

/* One a batch, or one a packed sequence. */
static AuExpr state_count(AuAttn *a)
{
    const AuExpr one = attn_i32(a, 1, a->span);
    return attn_op2(a, AU_OP_MAX, attn_op2(a, AU_OP_SUB, own_size(a, OF_SEQUENCES), one, a->span),
                    a->tensors[0].axes[0], a->span);
}

/* Of a recurrence, [n, h, K, V], and where it has a norm that of the column of ones, [n, h, K]. */
static void add_states(Rows *r, const char *prefix, const char *suffix, uint32_t role)
{
    const AuTensor *q = &r->a->tensors[0], *v = &r->a->tensors[2];
    const bool pool = role == AULE_ROLE_POOL;
    for (uint32_t sum = 0; sum < 1u + (r->a->linear->norm.i != 0); sum++) {
        const char *name = au_format(r->arena, "%s%s%s", prefix, sum ? "sum" : "state", suffix);
        add(r, (AuTensorRow){.name = name,
                             .kernel = pool ? au_format(r->arena, "pool_%s", name) : name,
                             .role = role,
                             .dtype = AU_DT_F32,
                             .rank = sum ? 3 : 4,
                             .flags = AULE_TENSOR_OPTIONAL,
                             .axes = {pool ? own_size(r->a, OF_POOL) : state_count(r->a), r->heads,
                                      q->axes[3], v->axes[3]},
                             .span = r->a->span});
    }
}

static void add_final(Rows *r, uint32_t n)
{
    const AuFinal *f = &r->a->online->finals[n];
    add_of_rows(r, f->kept ? au_format(r->arena, "%s_kept", f->name) : f->name,
                au_format(r->arena, "final_%s", f->name),
                f->kept ? AULE_ROLE_KEPT_ROW : AULE_ROLE_FINAL, 3, AULE_TENSOR_OPTIONAL, f->span);
}

static void add_input_gradients(Rows *r)
{
    static const char *const gradients[] = {"dq", "dk", "dv"};
    const AuAttn *a = r->a;
    for (uint32_t n = 0; n < a->tensor_count; n++) {
        if (n < 3 ? n == 2 && a->v_in_k : !a->tensors[n].grad) continue;
        add_like(r, n, n < 3 ? gradients[n] : au_format(r->arena, "d%s", a->tensors[n].name),
                 n < 3 ? gradients[n] : au_format(r->arena, "grad_%u", n), AULE_ROLE_GRAD, 0);
    }
}

static void add_recurrence_gradients(Rows *r)
{
    add_of_rows(r, "do", "do", AULE_ROLE_DOUT, 4, 0, r->a->span);
    add_states(r, "d", "_out", AULE_ROLE_DSTATE_OUT);
    add_input_gradients(r);
    add_states(r, "d", "_in", AULE_ROLE_DSTATE);
}

static void add_gradients(Rows *r, const AuGrads *g)
{
    const AuAttn *a = r->a;
    if (g->keeps_output)
        add_of_rows(r, "o_kept", "o_kept", AULE_ROLE_KEPT, 4, AULE_TENSOR_OPTIONAL, a->span);
    for (uint32_t n = 0; n < a->online->final_count; n++)
        if (a->online->finals[n].kept) add_final(r, n);
    add_of_rows(r, "do", "do", AULE_ROLE_DOUT, 4, 0, a->span);
    for (uint32_t n = 0; n < a->online->final_count; n++) {
        const AuFinal *f = &a->online->finals[n];
        if (!g->reads[n].given) continue;
        add_of_rows(r, au_format(r->arena, "d%s", f->name),
                    au_format(r->arena, "dfinal_%s", f->name), AULE_ROLE_DFINAL, 3,
                    AULE_TENSOR_OPTIONAL, f->span);
    }
    add_input_gradients(r);
}

/* By the kernel's name, which no input has. */
static bool is_of(const AuTensorRow *row, const char *first, const char *second,
                  const char *gradient, const char *other)
{
    switch (row->role) {
    case AULE_ROLE_Q:
    case AULE_ROLE_K:
    case AULE_ROLE_V:
    case AULE_ROLE_GRAD: break;
    default: return false;
    }
    return strcmp(row->kernel, first) == 0 || strcmp(row->kernel, second) == 0 ||
           strcmp(row->kernel, gradient) == 0 || strcmp(row->kernel, other) == 0;
}

static bool is_of_queries(const AuTensorRow *row)
{
    switch (row->role) {
    case AULE_ROLE_OUTPUT:
    case AULE_ROLE_FINAL:
    case AULE_ROLE_KEPT:
    case AULE_ROLE_KEPT_ROW:
    case AULE_ROLE_DOUT:
    case AULE_ROLE_PART_OUT:
    case AULE_ROLE_DFINAL: return true;
    }
    return is_of(row, "q", "dq", "q", "dq");
}

AuTensorRow *driver_tensors(AuArena *arena, AuAttn *a, const AuGrads *g, uint32_t *count)
{
    static const uint32_t roles[] = {AULE_ROLE_Q, AULE_ROLE_K, AULE_ROLE_V, AULE_ROLE_INPUT};
    static const char *const names[] = {"q", "k", "v"};
    driver_add_sizes(a);
    Rows r = {.arena = arena, .a = a, .heads = attn_heads(a)};
    for (uint32_t n = 0; n < a->tensor_count; n++) {
        const AuTensor *t = &a->tensors[n];
        const uint32_t flags = (t->grad && (g || !attn_is_for_calls(a)) ? AULE_TENSOR_GRAD : 0) |
                               (n == 2 && a->v_in_k ? AULE_TENSOR_IN_K : 0) |
                               (n == 1 && a->keys.modified ? AULE_TENSOR_MODIFIED : 0) |
                               driver_layout_flags(a, n) | driver_storage_flags(a, n) |
                               driver_append_flags(a, n);
        add_like(&r, n, n < 3 ? names[n] : t->name, n < 3 ? names[n] : hooks_name(arena, t->name),
                 roles[n < 3 ? n : 3], flags);
    }
    if (a->online || a->linear) add_of_rows(&r, "o", "o", AULE_ROLE_OUTPUT, 4, 0, a->span);
    for (uint32_t n = 0; a->online && n < a->online->final_count; n++)
        if (!a->online->finals[n].kept) add_final(&r, n);
    if (a->linear) {
        add_states(&r, "", "_in", AULE_ROLE_STATE);
        add_states(&r, "", "_out", AULE_ROLE_STATE_OUT);
        add_list(&r, SEQUENCES, AULE_ROLE_SEQUENCES, OF_SEQUENCES);
        add_states(&r, "", "", AULE_ROLE_POOL);
        add_list(&r, "slots", AULE_ROLE_SLOTS, OF_SLOTS);
    }
    if (g && a->linear) add_recurrence_gradients(&r);
    if (g && a->online) add_gradients(&r, g);
    if (a->online && a->online->parts_size) {
        mark_joined(&r);
        add_parts(&r, AULE_ROLE_PART_OUT);
        add_parts(&r, AULE_ROLE_PART);
    }
    if (a->new_sizes) add_new_rows(&r);
    if (a->work_size) add_work(&r);
    for (uint32_t n = 0; n < r.count; n++) {
        const uint32_t role = r.at[n].role;
        const bool of_keys = is_of(&r.at[n], "k", "v", "dk", "dv");
        if (role == AULE_ROLE_K || role == AULE_ROLE_V) {
            const uint32_t tensor = role == AULE_ROLE_K ? 1 : 2;
            r.at[n].stored = driver_stored_dtype(a, tensor);
            driver_place_codes(a, tensor, r.at[n].axes);
        }
        if (of_keys || is_of_queries(&r.at[n])) driver_place_rows(a, of_keys, r.at[n].axes);
        if (role == AULE_ROLE_PART) driver_place_rows(a, false, r.at[n].axes + 1); /* behind N */
    }
    *count = r.count;
    return r.at;
}

bool driver_is_free(AuDiags *diags, const AuAttn *a, uint32_t sizes, const char *name)
{
    const char *what = NULL;
    AuSpan at = a->span;
    for (uint32_t n = 0; n < sizes; n++)
        if (a->sizes[n].name && strcmp(a->sizes[n].name, name) == 0)
            what = "a size", at = a->sizes[n].span;
    for (uint32_t n = 0; n < a->param_count; n++)
        if (strcmp(a->params[n].name, name) == 0) what = "a parameter", at = a->params[n].span;
    if (what)
        au_error(diags, AU_E0607, at,
                 "attention '%s' has %s '%s', which is what a size of a tensor is called that the "
                 "compiler adds",
                 a->name, what, name);
    return !what;
}

bool driver_names_differ(AuArena *arena, AuDiags *diags, AuAttn *a, const AuGrads *g)
{
    uint32_t count;
    const AuTensorRow *rows = driver_tensors(arena, a, g, &count);
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t m = 0; m < n; m++) {
            if (strcmp(rows[n].name, rows[m].name) != 0) continue;
            AuDiag *e = au_error(diags, AU_E0607, rows[m].span,
                                 "two tensors of attention '%s' are called '%s': this one, and one "
                                 "that the compiler adds",
                                 a->name, rows[n].name);
            au_add_note(diags, e, rows[n].span, "'%s' belongs to this", rows[n].name);
            return false;
        }
    if (a->online && a->online->parts_size &&
        !driver_is_free(diags, a, a->online->parts_size - 1, PARTS))
        return false;
    for (uint32_t own = 0; a->linear && own < OWN_SIZES; own++)
        if (!driver_is_free(diags, a, a->linear->own_sizes - 1, size_names[own])) return false;
    return true;
}

static bool fits(AuDiags *diags, const AuAttn *a, uint32_t count, uint32_t most, const char *what,
                 AuSpan first_beyond)
{
    if (count <= most) return true;
    au_error(diags, AU_E0608, first_beyond, "attention '%s' has %u %s; there is room for %u",
             a->name, count, what, most);
    return false;
}

/* The first of [count] rows that there is no room for, among those the script writes. */
static AuSpan span_beyond(const AuAttn *a, const AuTensorRow *rows, uint32_t count)
{
    return count > AULE_MAX_TENSORS ? rows[AULE_MAX_TENSORS].span : a->span;
}

bool driver_fits(AuArena *arena, AuDiags *diags, AuAttn *a, const AuGrads *g)
{
    uint32_t count, grads = 0;
    AuSpan last = a->span;
    const AuTensorRow *rows = driver_tensors(arena, a, g, &count);
    for (uint32_t n = 3; g && n < a->tensor_count; n++)
        if (a->tensors[n].grad && ++grads == AULE_MAX_GRADS + 1) last = a->tensors[n].span;
    const AuSpan param =
                     a->param_count > AULE_MAX_PARAMS ? a->params[AULE_MAX_PARAMS].span : a->span,
                 size = a->size_count > AULE_MAX_SIZES ? a->sizes[AULE_MAX_SIZES].span : a->span;
    return fits(diags, a, grads, AULE_MAX_GRADS, "inputs with gradients", last) &&
           fits(diags, a, count, AULE_MAX_TENSORS, "tensors, gradients among them",
                span_beyond(a, rows, count)) &&
           fits(diags, a, a->param_count, AULE_MAX_PARAMS, "parameters", param) &&
           fits(diags, a, a->size_count, AULE_MAX_SIZES, "sizes", size);
}

static void mark_width(const AuAttn *a, AuExpr axis, bool *is_width)
{
    const AuNode *n = attn_at(a, axis);
    if (n->op == AU_OP_SIZE && a->sizes[n->integer].fixed < 0) is_width[n->integer] = true;
}

void driver_find_widths(const AuAttn *a, bool *is_width)
{
    for (uint32_t n = 0; n < 3; n++) mark_width(a, a->tensors[n].axes[3], is_width);
    for (uint32_t n = 1; n < a->node_count; n++) {
        if (a->nodes[n].op != AU_OP_DOT) continue;
        const AuTensor *t = &a->tensors[a->nodes[n].integer];
        mark_width(a, t->axes[t->rank - 1], is_width);
    }
}
