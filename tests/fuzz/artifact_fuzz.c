/* artifact_fuzz.c - bytes as changes of an artifact's descriptor and of a call: numbers, lengths, words of expressions, missing pieces. The
 * runtime refuses or plans and runs, on the mock device (no kernel is run), forward and backward; it never reads outside of what the
 * descriptor has. Pointers to wild memory and counts beyond what is there cannot be told by a reader, and are not tried. */
#include "driver.h"
#include "sample_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/sample.h"

enum { WORDS = 16, MOST_EXPRS = 512, MOST_FIELDS = 8192 };

/* A number in the descriptor: it may become anything up to [most]. */
typedef struct Field {
    void *at;
    uint32_t bytes;
    uint64_t most;
} Field;

/* A copy of the sample's descriptor with two kernels of the mock, forward and backward, in which all arrays are as long as they may be. */
typedef struct Bent {
    aule_module_v1 module;
    aule_attention_v1 attention;
    aule_size_v1 sizes[AULE_MAX_SIZES];
    aule_tensor_v1 tensors[AULE_MAX_TENSORS];
    aule_expr axes[AULE_MAX_TENSORS][AULE_MAX_RANK];
    aule_param_v1 params[AULE_MAX_PARAMS];
    aule_require_v1 requires_[8];
    aule_variant_v1 variants[2];
    aule_fixed_v1 fixed[2][AULE_MAX_SIZES];
    aule_workspace_v1 workspaces[2][AULE_MAX_REGIONS];
    aule_launch_v1 launches[2][AULE_MAX_LAUNCHES];
    aule_slot_v1 slots[2][AULE_MAX_SLOTS];
    uint32_t touches[2][AULE_MAX_SLOTS / 16];
    uint32_t words[MOST_EXPRS][WORDS];
    uint32_t expr_count;
    Field fields[MOST_FIELDS];
    uint32_t field_count;
} Bent;

static void add_field(Bent *b, void *at, size_t bytes, uint64_t most)
{
    if (b->field_count < MOST_FIELDS)
        b->fields[b->field_count++] = (Field){at, (uint32_t)bytes, most};
}
#define FIELD(b, field, most) add_field(b, &(field), sizeof(field), most)
#define ANY                   UINT64_MAX

/* The words become ours, with room for more. */
static void own_expr(Bent *b, aule_expr *expr)
{
    if (!expr->code || expr->length > WORDS || b->expr_count == MOST_EXPRS) return;
    uint32_t *words = b->words[b->expr_count++];
    memcpy(words, expr->code, expr->length * sizeof *words);
    expr->code = words;
    FIELD(b, expr->length, WORDS);
    for (uint32_t i = 0; i < expr->length; i++) FIELD(b, words[i], ANY);
}

static void copy_variant(Bent *b, uint32_t which, const aule_variant_v1 *from)
{
    aule_variant_v1 *v = &b->variants[which];
    *v = *from;
    memcpy(b->fixed[which], from->fixed, from->fixed_count * sizeof *from->fixed);
    memcpy(b->workspaces[which], from->workspaces,
           from->workspace_count * sizeof *from->workspaces);
    memcpy(b->launches[which], from->launches, from->launch_count * sizeof *from->launches);
    memcpy(b->slots[which], from->launches->slots,
           from->launches->slot_count * sizeof *b->slots[which]);
    v->fixed = b->fixed[which];
    v->workspaces = b->workspaces[which];
    v->launches = b->launches[which];
    FIELD(b, v->struct_size, sizeof *v);
    FIELD(b, v->dtype, ANY);
    FIELD(b, v->fixed_count, AULE_MAX_SIZES);
    FIELD(b, v->code_format, ANY);
    FIELD(b, v->code_bytes, ANY);
    FIELD(b, v->workspace_count, AULE_MAX_REGIONS);
    FIELD(b, v->launch_count, AULE_MAX_LAUNCHES);
    for (uint32_t i = 0; i < from->fixed_count; i++) {
        FIELD(b, b->fixed[which][i].size, ANY);
        FIELD(b, b->fixed[which][i].value, ANY);
    }
    for (uint32_t i = 0; i < from->workspace_count; i++) {
        own_expr(b, &b->workspaces[which][i].bytes);
        FIELD(b, b->workspaces[which][i].align, ANY);
        FIELD(b, b->workspaces[which][i].zeroed, 2);
    }
    for (uint32_t i = 0; i < from->launch_count; i++) {
        aule_launch_v1 *launch = &b->launches[which][i];
        launch->slots = b->slots[which];
        launch->touches = b->touches[which];
        FIELD(b, launch->touch_count, AULE_MAX_SLOTS / 16);
        for (int axis = 0; axis < 3; axis++) own_expr(b, &launch->grid[axis]);
        FIELD(b, launch->struct_size, sizeof *launch);
        FIELD(b, launch->slot_count, AULE_MAX_SLOTS);
        FIELD(b, launch->shared_bytes, ANY);
    }
    for (uint32_t i = 0; i < (from->launches->slot_count + 15) / 16; i++)
        FIELD(b, b->touches[which][i], ANY);
    for (uint32_t i = 0; i < from->launches->slot_count; i++) {
        aule_slot_v1 *slot = &b->slots[which][i];
        FIELD(b, slot->kind, ANY);
        FIELD(b, slot->type, ANY);
        FIELD(b, slot->index, ANY);
        FIELD(b, slot->dim, ANY);
    }
}

static void copy_signature(Bent *b)
{
    const aule_attention_v1 *from = sample_module.attentions;
    memcpy(b->sizes, from->sizes, from->size_count * sizeof *from->sizes);
    memcpy(b->tensors, from->tensors, from->tensor_count * sizeof *from->tensors);
    memcpy(b->params, from->params, from->param_count * sizeof *from->params);
    memcpy(b->requires_, from->requires_, from->require_count * sizeof *from->requires_);
    for (uint32_t i = 0; i < from->tensor_count; i++) {
        aule_tensor_v1 *t = &b->tensors[i];
        memcpy(b->axes[i], t->axes, t->rank * sizeof *t->axes);
        t->axes = b->axes[i];
        for (uint32_t axis = 0; axis < t->rank; axis++) own_expr(b, &b->axes[i][axis]);
        FIELD(b, t->struct_size, sizeof *t);
        FIELD(b, t->role, ANY);
        FIELD(b, t->dtype, ANY);
        FIELD(b, t->rank, AULE_MAX_RANK);
        FIELD(b, t->flags, ANY);
    }
    for (uint32_t i = 0; i < from->param_count; i++) {
        own_expr(b, &b->params[i].default_value);
        FIELD(b, b->params[i].struct_size, sizeof *b->params);
        FIELD(b, b->params[i].dtype, ANY);
    }
    for (uint32_t i = 0; i < from->require_count; i++) own_expr(b, &b->requires_[i].condition);
}

static void copy_sample(Bent *b)
{
    b->module = sample_module;
    b->attention = sample_module.attentions[0];
    copy_signature(b);
    uint32_t which = 0;
    for (uint32_t i = 0; i < b->attention.variant_count && which < 2; i++)
        if (strcmp(b->attention.variants[i].target, "mock") == 0)
            copy_variant(b, which++, &b->attention.variants[i]);
    b->attention.sizes = b->sizes;
    b->attention.tensors = b->tensors;
    b->attention.params = b->params;
    b->attention.requires_ = b->requires_;
    b->attention.variants = b->variants;
    b->attention.variant_count = 2;
    b->module.attentions = &b->attention;
    FIELD(b, b->attention.size_count, AULE_MAX_SIZES);
    FIELD(b, b->attention.tensor_count, AULE_MAX_TENSORS);
    FIELD(b, b->attention.param_count, AULE_MAX_PARAMS);
    FIELD(b, b->attention.require_count, 8);
    FIELD(b, b->attention.variant_count, 2);
    FIELD(b, b->attention.struct_size, sizeof b->attention);
}

/* ---- the input */

static void set_field(const Field *field, uint64_t value)
{
    if (value > field->most) value %= field->most + 1;
    memcpy(field->at, &value, field->bytes); /* little-endian */
}

static void try_artifact(const Bent *b, Source *s)
{
    aule_module *module;
    char *text;
    if (aule_module_from(&b->module, NULL, &module, NULL) != AULE_OK) return;
    if (aule_describe_module(module, &text, NULL) == AULE_OK) aule_text_free(text);
    call_and_close(module, s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Source s = {data, size};
    Bent *b = calloc(1, sizeof *b);
    if (!b) return 0;
    copy_sample(b);
    for (uint64_t changes = take(&s, 1) % 6; changes > 0; changes--)
        set_field(&b->fields[take(&s, 2) % b->field_count], take_value(&s));
    try_artifact(b, &s);
    free(b);
    return 0;
}
