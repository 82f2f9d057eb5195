/* layouts.c - see layouts.h. */
#include "layouts.h"

#include "schedule.h"
#include "tensors.h"

#include <string.h>

static bool refuse(AuDiags *diags, AuSpan at, const char *axis, const char *why)
{
    au_error(diags, AU_E0811, at, "--layout: axis %s: %s", axis, why);
    return false;
}

static bool is_size(const AuAttn *a, AuExpr axis, const char *name)
{
    const AuNode *n = attn_at(a, axis);
    return n->op == AU_OP_SIZE && strcmp(a->sizes[n->integer].name, name) == 0;
}

static bool is_of_queries(const AuAttn *a, const char *axis)
{
    return is_size(a, a->tensors[0].axes[2], axis);
}

static bool is_of_keys(const AuAttn *a, const char *axis)
{
    return is_size(a, a->tensors[1].axes[2], axis);
}

static bool asks_for(AuArena *arena, const AuAttn *a, AuExpr e, AuExpr size)
{
    bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
    attn_mark(a, e, mark);
    return mark[size.i];
}

/* What is computed once a launch, of shapes, is not said of the length of one sequence. */
static bool is_asked_once(AuArena *arena, AuDiags *diags, const AuAttn *a, const char *axis,
                          AuExpr length)
{
    for (uint32_t n = 0; n < a->require_count; n++)
        if (asks_for(arena, a, a->requires[n].holds, length))
            return !refuse(diags, a->requires[n].span, axis,
                           "a `require` asks for its length, which is each sequence's own");
    for (uint32_t n = 0; n < a->param_count; n++)
        if (asks_for(arena, a, a->params[n].default_value, length))
            return !refuse(diags, a->params[n].span, axis,
                           au_format(arena,
                                     "the default of the param '%s' asks for its length, which is "
                                     "each sequence's own; a `let` may",
                                     a->params[n].name));
    return false;
}

/* An input with the length as an axis, or with one that is [made] of it (`2*S - 1`), whose rows are no keys; NULL: there is none. The room of rows does not say
 * how many elements it has. */
static const AuTensor *input_with(AuArena *arena, const AuAttn *a, AuExpr length, bool made)
{
    for (uint32_t n = 3; n < a->tensor_count; n++)
        for (uint32_t k = 0; k < a->tensors[n].rank && !a->tensors[n].as_keys; k++) {
            const AuExpr axis = a->tensors[n].axes[k];
            if (made ? asks_for(arena, a, axis, length) : axis.i == length.i) return &a->tensors[n];
        }
    return NULL;
}

/* Does a tensor that is not packed have as many elements along an axis as there are sequences: rows of queries or keys, an input? */
static bool has_batch(const AuAttn *a, AuExpr batch)
{
    if (a->queries.layout != AU_LAYOUT_PACKED || a->keys.layout != AU_LAYOUT_PACKED) return true;
    for (uint32_t n = 3; n < a->tensor_count; n++)
        for (uint32_t k = 0; k < a->tensors[n].rank; k++)
            if (a->tensors[n].axes[k].i == batch.i &&
                attn_input_place(a, n, k) == AU_PLACE_AS_WRITTEN)
                return true;
    return false;
}

static bool has_axis(AuArena *arena, AuDiags *diags, const AuAttn *a, const char *axis)
{
    if (is_of_queries(a, axis) || is_of_keys(a, axis)) return true;
    return refuse(
        diags, a->span, axis,
        au_format(arena, "the attention '%s' has no such axis of queries or keys", a->name));
}

/* Packed rows, or padded or paged keys that are no queries. */
static bool is_placed(AuArena *arena, AuDiags *diags, const AuAttn *a, AuAxisLayout of)
{
    const bool of_queries = is_of_queries(a, of.axis);
    const AuTensor *q = &a->tensors[0];
    if (!has_axis(arena, diags, a, of.axis)) return false;
    if (of_queries && of.layout == AU_LAYOUT_PAGED)
        return refuse(diags, q->span, of.axis,
                      "it is the length of q, and queries lie in no pages");
    if (!of_queries && of.positions && of.layout == AU_LAYOUT_PACKED)
        return refuse(diags, a->tensors[1].span, of.axis,
                      "packed rows are positions from 0 on, others are not carried yet");
    if (of_queries && (of.rows || of.positions) && is_of_keys(a, of.axis))
        return refuse(diags, q->span, of.axis,
                      "q and k have one axis; rows and positions are those of queries or of keys");
    return true;
}

static bool is_carried(AuArena *arena, AuDiags *diags, AuAttn *a, AuAxisLayout of)
{
    const char *axis = of.axis;
    const AuTensor *q = &a->tensors[0], *k = &a->tensors[1], *v = &a->tensors[2];
    if (a->linear)
        return refuse(diags, a->span, axis,
                      "sequences of a recurrence are packed by cu_seqlens, other layouts are of "
                      "attentions with weights");
    if (!is_placed(arena, diags, a, of)) return false;
    if (v->axes[2].i != k->axes[2].i || v->axes[0].i != k->axes[0].i ||
        k->axes[0].i != q->axes[0].i)
        return refuse(diags, k->span, axis, "q, k and v have different batches or lengths");
    const bool of_queries = is_of_queries(a, axis);
    const AuExpr length = (of_queries ? q : k)->axes[2];
    const AuTensor *input =
        of.positions && of.layout != AU_LAYOUT_PAGED ? input_with(arena, a, length, true) : NULL;
    if (input)
        return refuse(
            diags, input->span, axis,
            au_format(arena,
                      "positions: the input '%s' has elements for all positions, of which "
                      "%s has fewer rows%s",
                      input->name, of_queries ? "q" : "k",
                      of_queries ? "" : "; keys in pages may have such inputs"));
    return !is_asked_once(arena, diags, a, axis, length);
}

/* What a cache may hold: rows that are the same whenever they are looked at. */
static bool can_hold_modified(AuArena *arena, AuDiags *diags, const AuAttn *a, AuAxisLayout of)
{
    bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
    attn_mark(a, a->k_mod, mark);
    attn_mark(a, a->v_mod, mark);
    if (!is_of_keys(a, of.axis) || is_of_queries(a, of.axis) || of.layout == AU_LAYOUT_PACKED)
        return refuse(diags, a->span, of.axis,
                      "modified rows are those of a cache: of keys, dense, padded or paged");
    if (a->v_in_k && (a->k_mod.i || a->v_mod.i))
        return refuse(diags, a->tensors[2].span, of.axis,
                      "modified: values are channels of the keys as they were before k_mod");
    if (mark[a->tensors[1].axes[2].i] || mark[a->tensors[0].axes[2].i])
        return refuse(diags, a->span, of.axis,
                      "modified: k_mod or v_mod asks for a length, which grows after rows were "
                      "written");
    return true;
}

static uint32_t add_size(AuAttn *a, const char *axis, const char *what)
{
    return attn_add_size(a, au_format(a->arena, "%s_%s", axis, what), -1, a->span);
}

static AuExpr size_node(AuAttn *a, uint32_t size)
{
    return attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)size, 0, a->span);
}

static uint32_t add_list(AuAttn *a, const char *name, AuExpr first, AuExpr second)
{
    AuTensor t = {.name = name,
                  .role = AU_ROLE_INPUT,
                  .dtype = AU_DT_I32,
                  .axes = {first, second},
                  .rank = second.i ? 2 : 1,
                  .span = a->span};
    return attn_add_tensor(a, t);
}

/* Nothing of the script is called like the sizes that come. */
static bool is_free(AuArena *arena, AuDiags *diags, const AuAttn *a, const char *axis)
{
    static const char *const sizes[] = {"pages", "slots", "entries", "ends",
                                        "most",  "lines", "shares"};
    for (uint32_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        if (!driver_is_free(diags, a, a->size_count, au_format(arena, "%s_%s", axis, sizes[n])))
            return false;
    return true;
}

/* What a call must meet that no script says, in words of its tensors. */
static void ask(AuAttn *a, AuOp op, AuExpr left, AuExpr right, const char *says)
{
    attn_add_require(
        a,
        (AuRequire){.holds = attn_op2(a, op, left, right, a->span), .span = a->span, .says = says});
}

/* Kernels read one at least, whatever they are told: the size counts what the tensor has. */
static void ask_for_more(AuAttn *a, int32_t than, uint32_t size, const char *tensor,
                         const char *has)
{
    ask(a, AU_OP_LT, attn_i32(a, than, a->span), size_node(a, size),
        au_format(a->arena, "%s has %s at least", tensor, has));
}

/* A list of where sequences begin, of so many elements. */
static void ask_for_ends(AuAttn *a, uint32_t list, AuExpr ends)
{
    const AuExpr batch = a->tensors[0].axes[0], one = attn_i32(a, 1, a->span);
    ask(a, AU_OP_EQ, ends, attn_op2(a, AU_OP_ADD, batch, one, a->span),
        au_format(a->arena, "%s has an element for each sequence and one for the end",
                  a->tensors[list].name));
}

/* Where the pages of a line begin; and, since shapes do not say it, how many keys a sequence has at most: all there are, unless a call
 * says less, for less work and room. */
static void add_csr(AuAttn *a, AuAxisLayout of, AuRowLayout *keys)
{
    const AuSpan at = a->span;
    keys->ends = add_size(a, of.axis, "ends");
    const AuExpr ends = size_node(a, keys->ends);
    keys->table_starts =
        add_list(a, au_format(a->arena, "%s_table_starts", of.axis), ends, (AuExpr){0});
    ask_for_more(a, 0, keys->entries, a->tensors[keys->table].name, "an entry");
    ask_for_more(a, 1, keys->ends, a->tensors[keys->table_starts].name, "2 elements");
    if (!of.rows) ask_for_ends(a, keys->table_starts, ends);
    const AuParam most = {.name = au_format(a->arena, "%s_most", of.axis),
                          .dtype = AU_DT_I32,
                          .default_value = attn_op2(a, AU_OP_MUL, size_node(a, keys->entries),
                                                    size_node(a, keys->slots), at),
                          .span = at};
    keys->most_keys = attn_add_param(a, most);
    const AuExpr value = attn_node(a, AU_OP_PARAM, NULL, 0, (int32_t)keys->most_keys, 0, at);
    ask(a, AU_OP_LE, attn_i32(a, 0, at), value,
        au_format(a->arena, "%s is a number of keys", most.name));
    ask(a, AU_OP_LE, value, most.default_value,
        au_format(a->arena, "%s is at most what the pages of %s have room for", most.name,
                  a->tensors[keys->table].name));
}

/* Row j is position first + every * j of a sequence of [whole]. */
static void add_positions(AuAttn *a, AuAxisLayout of, AuRowLayout *rows)
{
    enum { MOST_EVERY = 1 << 16 };
    const AuSpan at = a->span;
    const AuExpr batch = a->tensors[0].axes[0], one = attn_i32(a, 1, at),
                 length = a->tensors[!is_of_queries(a, of.axis)].axes[2];
    rows->has_positions = true;
    rows->first = add_list(a, au_format(a->arena, "%s_first", of.axis), batch, (AuExpr){0});
    rows->whole = add_list(a, au_format(a->arena, "%s_whole", of.axis), batch, (AuExpr){0});
    const AuParam every = {.name = au_format(a->arena, "%s_every", of.axis),
                           .dtype = AU_DT_I32,
                           .default_value = one,
                           .span = at};
    rows->every = attn_add_param(a, every);
    const AuExpr value = attn_node(a, AU_OP_PARAM, NULL, 0, (int32_t)rows->every, 0, at);
    const char *says = au_format(a->arena, "%s is from 1 to %d", every.name, (int)MOST_EVERY);
    ask(a, AU_OP_LE, one, value, says);
    ask(a, AU_OP_LE, value, attn_i32(a, MOST_EVERY, at), says);
    /* Inputs with an element a position, whose number no room of rows says. */
    const AuTensor *input = input_with(a->arena, a, length, false);
    if (input) ask_for_more(a, 0, (uint32_t)attn_at(a, length)->integer, input->name, "a position");
}

/* Sequences groups[g] .. groups[g + 1] have the same first shared[g] keys. Kernels find a group by halves, in so many steps. */
static void add_groups(AuAttn *a, AuAxisLayout of, AuRowLayout *keys)
{
    const AuSpan at = a->span;
    keys->has_groups = true;
    keys->shares = add_size(a, of.axis, "shares");
    const AuExpr shares = size_node(a, keys->shares);
    keys->groups = add_list(a, au_format(a->arena, "%s_groups", of.axis),
                            attn_op2(a, AU_OP_ADD, shares, attn_i32(a, 1, at), at), (AuExpr){0});
    keys->shared = add_list(a, au_format(a->arena, "%s_shared", of.axis), shares, (AuExpr){0});
    const char *says =
        au_format(a->arena, "%s_shared has an element for each group, of which there are 1 to %d",
                  of.axis, (int)SCHEDULE_MOST_GROUPS);
    ask(a, AU_OP_LT, attn_i32(a, 0, at), shares, says);
    ask(a, AU_OP_LE, shares, attn_i32(a, SCHEDULE_MOST_GROUPS, at), says);
}

static AuRowLayout of_keys(AuAttn *a, AuAxisLayout of)
{
    const AuExpr batch = a->tensors[0].axes[0];
    AuRowLayout keys = {.layout = of.layout,
                        .has_rows = of.rows,
                        .is_csr = of.csr,
                        .has_no_lengths = of.has_no_lengths,
                        .modified = of.modified};
    if (of.rows) {
        keys.rows = add_list(a, au_format(a->arena, "%s_rows", of.axis), batch, (AuExpr){0});
        if (!of.csr) {
            keys.lines = add_size(a, of.axis, "lines");
            ask_for_more(a, 0, keys.lines,
                         of.layout == AU_LAYOUT_PAGED ? au_format(a->arena, "%s_table", of.axis)
                                                      : a->tensors[!is_of_queries(a, of.axis)].name,
                         "a row");
        }
        /* Rows of q that no sequence has are found by looking at all that have one. */
        if (is_of_queries(a, of.axis))
            ask(a, AU_OP_LT, attn_i32(a, 0, a->span), batch,
                au_format(a->arena, "%s has an element at least", a->tensors[keys.rows].name));
    }
    if (of.layout == AU_LAYOUT_PAGED) {
        keys.pages = add_size(a, of.axis, "pages");
        keys.slots = add_size(a, of.axis, "slots");
        ask_for_more(a, 0, keys.pages, a->tensors[1].name, "a page");
        ask_for_more(a, 0, keys.slots, a->tensors[1].name, "a slot a page");
        keys.entries = add_size(a, of.axis, "entries");
        const AuExpr entries = size_node(a, keys.entries),
                     lines = of.rows && !of.csr ? size_node(a, keys.lines) : batch;
        keys.table = add_list(a, au_format(a->arena, "%s_table", of.axis), of.csr ? entries : lines,
                              of.csr ? (AuExpr){0} : entries);
        if (of.csr) add_csr(a, of, &keys);
    }
    if (of.positions) add_positions(a, of, &keys);
    if (of.groups) add_groups(a, of, &keys);
    if (of.has_no_lengths) return keys;
    keys.lengths = add_list(a, au_format(a->arena, "%s_lengths", of.axis), batch, (AuExpr){0});
    return keys;
}

/* Lists of queries and of keys are of one length. */
static AuRowLayout packed(AuAttn *a, AuAxisLayout of)
{
    const AuRowLayout *first = a->queries.layout == AU_LAYOUT_PACKED ? &a->queries : &a->keys;
    const bool is_second = first->layout == AU_LAYOUT_PACKED;
    AuRowLayout rows = {.layout = of.layout,
                        .says_most = of.most,
                        .ends = is_second ? first->ends : add_size(a, of.axis, "ends")};
    rows.starts = add_list(a, au_format(a->arena, "%s_starts", of.axis), size_node(a, rows.ends),
                           (AuExpr){0});
    if (!is_second) ask_for_more(a, 1, rows.ends, a->tensors[rows.starts].name, "2 elements");
    if (of.positions) add_positions(a, of, &rows);
    return rows;
}

static bool add_layout(AuArena *arena, AuDiags *diags, AuAttn *a, AuAxisLayout of)
{
    if (of.layout == AU_LAYOUT_DENSE && !of.modified) return has_axis(arena, diags, a, of.axis);
    if (of.modified && !a->linear && !can_hold_modified(arena, diags, a, of)) return false;
    if (!is_carried(arena, diags, a, of) || !is_free(arena, diags, a, of.axis)) return false;
    if (of.layout == AU_LAYOUT_DENSE) {
        a->keys.modified = true;
        return true;
    }
    const bool queries = is_of_queries(a, of.axis), keys = is_of_keys(a, of.axis);
    const AuRowLayout rows = of.layout == AU_LAYOUT_PACKED ? packed(a, of) : of_keys(a, of);
    if (queries) a->queries = rows;
    if (keys) a->keys = rows;
    return true;
}

/* ---- inputs with a packed axis */

static const char *axis_name(const AuAttn *a, uint32_t tensor)
{
    return a->sizes[attn_at(a, a->tensors[tensor].axes[2])->integer].name;
}

static bool is_made_of(AuArena *arena, const AuAttn *a, AuExpr e, AuExpr size)
{
    return e.i != size.i && asks_for(arena, a, e, size);
}

/* 2 * S - 1 of all rows is not what a sequence has; of pages no size is T. */
static bool axes_fit(AuArena *arena, AuDiags *diags, const AuAttn *a, uint32_t tensor)
{
    const AuTensor *t = &a->tensors[tensor];
    for (uint32_t k = 0; k < t->rank; k++)
        if (a->keys.layout == AU_LAYOUT_PAGED && !schedule_inputs_have_keys(a) &&
            is_made_of(arena, a, t->axes[k], a->tensors[1].axes[2]))
            return refuse(diags, t->span, axis_name(a, 1),
                          au_format(arena,
                                    "axis %u of the input '%s' is made of it, and of keys in "
                                    "pages nothing in a call says it",
                                    k, t->name));
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t k = 0; k < t->rank; k++)
            if ((side ? &a->keys : &a->queries)->layout == AU_LAYOUT_PACKED &&
                is_made_of(arena, a, t->axes[k], a->tensors[side].axes[2]))
                return refuse(diags, t->span, axis_name(a, side),
                              au_format(arena,
                                        "axis %u of the input '%s' is made of it, and each "
                                        "sequence has its own",
                                        k, t->name));
    return true;
}

/* Rows of a sequence are found by its own starts. */
static bool reads_fit(AuArena *arena, AuDiags *diags, const AuAttn *a)
{
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        for (uint32_t k = 0; n->op == AU_OP_INPUT && k < n->count; k++) {
            const AuNode *index = attn_at(a, attn_arg(a, (AuExpr){i}, k));
            if (attn_input_place(a, (uint32_t)n->integer, k) != AU_PLACE_ONE ||
                (index->op == AU_OP_INDEX && index->integer == AU_AX_B))
                continue;
            const bool queries = a->queries.layout == AU_LAYOUT_PACKED;
            return refuse(diags, n->span, axis_name(a, !queries),
                          au_format(arena,
                                    "the input '%s', which has it, is read at another sequence "
                                    "than the pair's own",
                                    a->tensors[n->integer].name));
        }
    }
    return true;
}

static bool inputs_fit(AuArena *arena, AuDiags *diags, const AuAttn *a)
{
    for (uint32_t n = 3; n < a->tensor_count; n++)
        if (!axes_fit(arena, diags, a, n)) return false;
    return reads_fit(arena, diags, a);
}

static void add_most(AuAttn *a, bool of_keys)
{
    AuRowLayout *rows = of_keys ? &a->keys : &a->queries;
    if (!rows->most) rows->most = 1 + add_size(a, axis_name(a, of_keys), "most");
}

/* Sizes of axes that count the rows of one sequence. */
static void add_mosts(AuAttn *a)
{
    const uint32_t count = a->tensor_count;
    for (uint32_t n = 3; n < count; n++)
        for (uint32_t k = 0; k < a->tensors[n].rank; k++) {
            const AuInputPlace place = attn_input_place(a, n, k);
            if (place == AU_PLACE_MOST_QUERIES || place == AU_PLACE_MOST_KEYS)
                add_most(a, place == AU_PLACE_MOST_KEYS);
        }
}

/* So many rows a call says that a sequence has at most: a parameter, but where inputs count them. Else as many as there are. */
static void add_most_param(AuAttn *a, bool of_keys)
{
    AuRowLayout *rows = of_keys ? &a->keys : &a->queries;
    if (!rows->says_most || rows->most) return;
    const AuParam most = {.name = au_format(a->arena, "%s_most", axis_name(a, of_keys)),
                          .dtype = AU_DT_I32,
                          .default_value = a->tensors[of_keys].axes[2],
                          .span = a->span};
    rows->most_rows = attn_add_param(a, most);
    const AuExpr value = attn_node(a, AU_OP_PARAM, NULL, 0, (int32_t)rows->most_rows, 0, a->span);
    ask(a, AU_OP_LE, attn_i32(a, 0, a->span), value,
        au_format(a->arena, "%s is a number of rows", most.name));
}

/* Queries and keys of one axis have one. */
static void add_most_params(AuAttn *a)
{
    const bool is_one = a->tensors[0].axes[2].i == a->tensors[1].axes[2].i;
    add_most_param(a, false);
    if (is_one)
        a->keys.most_rows = a->queries.most_rows;
    else
        add_most_param(a, true);
}

/* Where another tensor has the batch, it is that of the starts. */
static void ask_for_one_batch(AuAttn *a)
{
    const AuRowLayout *packed = a->queries.layout == AU_LAYOUT_PACKED ? &a->queries : &a->keys;
    const AuExpr batch = a->tensors[0].axes[0];
    if (packed->layout != AU_LAYOUT_PACKED || !has_batch(a, batch)) return;
    ask_for_ends(a, packed->starts, size_node(a, packed->ends));
}

bool driver_add_layouts(AuArena *arena, AuDiags *diags, AuAttn *a, const AuAxisLayout *layouts,
                        uint32_t count)
{
    if (attn_has_layout(a) || a->keys.modified) return true;
    driver_find_key_rows(arena, a);
    for (uint32_t n = 0; n < count; n++)
        if (!add_layout(arena, diags, a, layouts[n])) return false;
    if (a->keys.has_groups && a->queries.has_positions)
        return refuse(diags, a->tensors[0].span, axis_name(a, 0),
                      "what `groups` share is for queries that are the last of their sequences; "
                      "beside it `positions` of queries are not carried yet");
    if (a->keys.has_groups && a->queries.has_rows)
        return refuse(
            diags, a->tensors[0].span, axis_name(a, 0),
            "sequences of a group are neighbours, in q as well; beside `groups` `rows` of "
            "queries are not carried yet");
    if (!inputs_fit(arena, diags, a) || !driver_dots_fit(arena, diags, a)) return false;
    add_mosts(a);
    add_most_params(a);
    ask_for_one_batch(a);
    return true;
}

bool driver_has_gradients(const AuAttn *a)
{
    return a->keys.layout != AU_LAYOUT_PAGED && !a->keys.modified && !a->keys.has_rows &&
           !a->keys.has_positions && !a->queries.has_rows && !a->queries.has_positions &&
           !attn_is_stored(a);
}

void driver_place_rows(AuAttn *a, bool of_keys, AuExpr *axes)
{
    const AuRowLayout *rows = of_keys ? &a->keys : &a->queries;
    if (rows->layout == AU_LAYOUT_PACKED) axes[0] = attn_i32(a, 1, a->span);
    if (rows->layout == AU_LAYOUT_PADDED && rows->has_rows) axes[0] = size_node(a, rows->lines);
    if (rows->layout != AU_LAYOUT_PAGED) return;
    axes[0] = size_node(a, rows->pages);
    axes[2] = size_node(a, rows->slots);
}

static bool is_same(const AuAttn *a, AuExpr axis, uint32_t size)
{
    const AuNode *n = attn_at(a, axis);
    return n->op == AU_OP_SIZE && (uint32_t)n->integer == size;
}

bool driver_is_unknown(const AuAttn *a, uint32_t size)
{
    const AuExpr batch = a->tensors[0].axes[0], length = a->tensors[1].axes[2];
    if (is_same(a, batch, size)) return !has_batch(a, batch);
    return a->keys.layout == AU_LAYOUT_PAGED && is_same(a, length, size) &&
           !schedule_inputs_have_keys(a);
}

/* Of a list that queries and keys may share. */
static uint32_t shared_flags(const AuAttn *a, uint32_t tensor)
{
    const AuRowLayout *q = &a->queries, *k = &a->keys;
    uint32_t flags = 0;
    if (q->layout == AU_LAYOUT_PACKED && tensor == q->starts) flags |= AULE_TENSOR_STARTS_Q;
    if (k->layout == AU_LAYOUT_PACKED && tensor == k->starts) flags |= AULE_TENSOR_STARTS_K;
    if (flags && (flags & AULE_TENSOR_STARTS_Q ? q : k)->most) flags |= AULE_TENSOR_MOST;
    if (q->layout == AU_LAYOUT_PADDED && !q->has_no_lengths && tensor == q->lengths)
        flags |= AULE_TENSOR_LENGTHS_Q;
    if (k->layout && k->layout != AU_LAYOUT_PACKED && !k->has_no_lengths && tensor == k->lengths)
        flags |= AULE_TENSOR_LENGTHS;
    return flags;
}

uint32_t driver_layout_flags(const AuAttn *a, uint32_t tensor)
{
    const AuRowLayout *k = &a->keys;
    const uint32_t flags = shared_flags(a, tensor);
    if (flags) return flags;
    if (k->has_rows && tensor == k->rows) return AULE_TENSOR_ROWS;
    const AuRowLayout *q = &a->queries;
    if (q->has_rows && tensor == q->rows) return AULE_TENSOR_ROWS_Q;
    if (q->has_positions && tensor == q->first) return AULE_TENSOR_FIRST_Q;
    if (q->has_positions && tensor == q->whole) return AULE_TENSOR_WHOLE_Q;
    if (k->has_positions && tensor == k->first) return AULE_TENSOR_FIRST;
    if (k->has_positions && tensor == k->whole) return AULE_TENSOR_WHOLE;
    if (k->is_csr && tensor == k->table_starts) return AULE_TENSOR_TABLE_STARTS;
    if (k->has_groups && tensor == k->groups) return AULE_TENSOR_GROUPS;
    if (k->has_groups && tensor == k->shared) return AULE_TENSOR_SHARED;
    return k->layout == AU_LAYOUT_PAGED && tensor == k->table ? AULE_TENSOR_TABLE : 0;
}
