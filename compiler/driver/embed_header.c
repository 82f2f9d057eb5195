/* embed_header.c - the header of a static build: for each operation of target `cpu` a structure of
 * arguments and the functions that take it (codegen/calls.h), and the descriptor for libaule. */
#include "embed.h"
#include "operations.h"

#include <string.h>

/* A comment cannot hold the end of a comment. */
static void comment_text(AuText *out, const char *indent, const char *text)
{
    au_text_add(out, "%s", *text ? indent : "");
    for (; *text; text++) {
        if (*text != '\n')
            au_text_add(out, "%c%s", *text, text[0] == '*' && text[1] == '/' ? " " : "");
        else if (text[1])
            au_text_add(out, "\n%s", indent);
    }
}

/* ---- extents: launch expressions as people write them */

typedef struct Infix {
    uint32_t op;
    const char *sign;
} Infix;

static const char *infix_sign(uint32_t op)
{
    static const Infix signs[] = {{AULE_E_ADD, "+"},  {AULE_E_SUB, "-"}, {AULE_E_MUL, "*"},
                                  {AULE_E_DIV, "/"},  {AULE_E_MOD, "%"}, {AULE_E_LT, "<"},
                                  {AULE_E_LE, "<="},  {AULE_E_EQ, "=="}, {AULE_E_NE, "!="},
                                  {AULE_E_AND, "&&"}, {AULE_E_OR, "||"}};
    for (size_t n = 0; n < sizeof signs / sizeof *signs; n++)
        if (signs[n].op == op) return signs[n].sign;
    return NULL;
}

static const char *leaf_text(AuArena *arena, const aule_attention_v1 *a, const uint32_t *code)
{
    const uint32_t op = code[0] & 255u, operand = code[0] >> 8;
    if (op == AULE_E_SIZE) return a->sizes[operand].name;
    if (op == AULE_E_PARAM) return a->params[operand].name;
    const uint64_t bits = code[1] | (uint64_t)code[2] << 32;
    if (op == AULE_E_CONST_INT) return au_format(arena, "%lld", (long long)bits);
    AuText text = {.arena = arena};
    double number;
    memcpy(&number, &bits, sizeof number);
    au_text_number(&text, number);
    return au_text_str(&text);
}

/* "2 * R + 1", with more parentheses than people write; "..." for what has no infix form. */
static const char *expr_text(AuArena *arena, const aule_attention_v1 *a, const aule_expr *e)
{
    enum { STACK = 64 };
    const char *stack[STACK];
    bool whole[STACK]; /* needs no parentheses */
    uint32_t depth = 0;
    for (uint32_t at = 0; at < e->length; at++) {
        const uint32_t op = e->code[at] & 255u;
        if (op < AULE_E_ADD) {
            if (depth == STACK) return "...";
            whole[depth] = true;
            stack[depth++] = leaf_text(arena, a, e->code + at);
            at += op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT ? 2 : 0;
            continue;
        }
        const char *sign = infix_sign(op);
        if (!sign || depth < 2) return "...";
        depth--;
        stack[depth - 1] =
            au_format(arena, whole[depth - 1] ? "%s %s %s%s%s" : "(%s) %s %s%s%s", stack[depth - 1],
                      sign, whole[depth] ? "" : "(", stack[depth], whole[depth] ? "" : ")");
        whole[depth - 1] = false;
    }
    return depth == 1 ? stack[0] : "...";
}

static void shape_text(const AuEmbed *e, const aule_attention_v1 *a, const aule_tensor_v1 *t,
                       AuText *out)
{
    const aule_expr *axes[8];
    for (uint32_t n = 0; n < t->rank; n++) axes[n] = &t->axes[n];
    for (uint32_t n = 0; n < a->tensor_count;
         n++) /* slots are of rows, which have a size in the structure */
        if (t->role == AULE_ROLE_NEW_SLOTS && a->tensors[n].role == AULE_ROLE_NEW)
            axes[1] = &a->tensors[n].axes[2];
    au_text_add(out, "[");
    for (uint32_t n = 0; n < t->rank; n++)
        au_text_add(out, "%s%s", n ? ", " : "", expr_text(e->arena, a, axes[n]));
    au_text_add(out, "]");
}

/* ---- types */

typedef struct Ctype {
    const char *name, *type;
} Ctype;

/* ORDER aule_dtype */
static const Ctype ctypes[] = {{"operand", "void"},  {"f32", "float"},    {"f16", "uint16_t"},
                               {"bf16", "uint16_t"}, {"i32", "int32_t"},  {"i64", "int64_t"},
                               {"u8", "uint8_t"},    {"bool", "uint8_t"}, {"e4m3", "uint8_t"},
                               {"e5m2", "uint8_t"},  {"i8", "int8_t"}};

static bool is_host(const aule_variant_v1 *v) { return v->code_format == AULE_CODE_HOST; }

/* Operand types with code, as bits by aule_dtype. */
static uint32_t operand_types(const AuCall *call)
{
    uint32_t bits = 0;
    for (uint32_t n = 0; n < call->attention->variant_count; n++)
        if (is_host(&call->attention->variants[n]))
            bits |= 1u << call->attention->variants[n].dtype;
    return bits;
}

/* A pointer to operands is typed where only one type was compiled. */
static const char *pointee(const AuCall *call, uint32_t dtype)
{
    const uint32_t all = operand_types(call);
    if (dtype != AULE_OPERAND || (all & (all - 1))) return ctypes[dtype].type;
    return all == 1u << AULE_F32 ? "float" : "uint16_t";
}

static bool is_written(const AuCall *call, const aule_tensor_v1 *t)
{
    return operation_writes(operation_named(call->operation), t->role, t->flags);
}

/* ---- the structure */

static void field_line(AuText *out, const char *declaration, const char *comment)
{
    au_text_add(out, *comment ? "    %-32s /* %s */\n" : "    %s\n", declaration, comment);
}

/* "64, 128": the widths for which there is code. */
static const char *fixed_values(const AuEmbed *e, const AuCall *call, uint32_t size)
{
    AuText text = {.arena = e->arena};
    int64_t seen[64];
    uint32_t count = 0;
    for (uint32_t n = 0; n < call->attention->variant_count; n++) {
        const aule_variant_v1 *v = &call->attention->variants[n];
        for (uint32_t f = 0; f < v->fixed_count && is_host(v); f++) {
            bool known = v->fixed[f].size != size || count == 64;
            for (uint32_t i = 0; i < count; i++) known |= seen[i] == v->fixed[f].value;
            if (known) continue;
            seen[count++] = v->fixed[f].value;
            au_text_add(&text, "%s%lld", text.length ? ", " : "compiled for ",
                        (long long)v->fixed[f].value);
        }
    }
    return au_text_str(&text);
}

/* What it means that a tensor is not there. */
static const char *without(const aule_tensor_v1 *t, bool written)
{
    if (t->role == AULE_ROLE_SEQUENCES || t->role == AULE_ROLE_SLOTS)
        return "none, and its count is 0";
    if (t->role == AULE_ROLE_NEW_SLOTS) return "rows are the last of their sequences";
    if (t->flags & AULE_TENSOR_LISTS) return "slots say where rows go";
    return written ? "not wanted" : "zeros";
}

static void tensor_field(const AuEmbed *e, const AuCall *call, const AuCallField *f, AuText *out)
{
    const aule_tensor_v1 *t = &call->attention->tensors[f->index];
    AuText comment = {.arena = e->arena};
    const bool written = is_written(call, t);
    if (t->dtype != AULE_OPERAND) au_text_add(&comment, "%s", ctypes[t->dtype].name);
    shape_text(e, call->attention, t, &comment);
    if (written) au_text_add(&comment, ", written");
    if (f->optional) au_text_add(&comment, "; NULL: %s", without(t, written));
    field_line(
        out,
        au_format(e->arena, "%s%s *%s;", written ? "" : "const ", pointee(call, t->dtype), f->name),
        au_text_str(&comment));
}

static void param_field(const AuEmbed *e, const AuCall *call, const AuCallField *f, AuText *out)
{
    const aule_param_v1 *p = &call->attention->params[f->index];
    const char *type = p->dtype == AULE_F32 ? "double" : "int64_t";
    const char *declaration = f->optional ? au_format(e->arena, "const %s *%s;", type, f->name)
                                          : au_format(e->arena, "%s %s;", type, f->name);
    AuText comment = {.arena = e->arena};
    au_text_add(&comment, "parameter, %s", ctypes[p->dtype].name);
    if (f->optional)
        au_text_add(&comment, "; NULL: %s",
                    expr_text(e->arena, call->attention, &p->default_value));
    field_line(out, declaration, au_text_str(&comment));
}

static const char *dtype_names(const AuEmbed *e, const AuCall *call)
{
    const char *prefix = embed_upper(e->arena, call->attention->name);
    AuText text = {.arena = e->arena};
    for (uint32_t d = AULE_F32; d <= AULE_BF16; d++)
        if (operand_types(call) >> d & 1)
            au_text_add(&text, "%s%s_%s", text.length ? ", " : "", prefix,
                        embed_upper(e->arena, ctypes[d].name));
    return au_text_str(&text);
}

static void field(const AuEmbed *e, const AuCall *call, const AuCallField *f, AuText *out)
{
    const char *name = f->name;
    switch (f->kind) {
    case AU_CALL_STRUCT_SIZE:
        field_line(
            out, "size_t struct_size;",
            au_format(e->arena, "sizeof(%s_%s_args)", call->attention->name, call->operation));
        break;
    case AU_CALL_DTYPE:
        field_line(out, "int64_t dtype;",
                   au_format(e->arena, "of operands: %s", dtype_names(e, call)));
        break;
    case AU_CALL_SIZE:
        field_line(out, au_format(e->arena, "int64_t %s;", name), fixed_values(e, call, f->index));
        break;
    case AU_CALL_TENSOR: tensor_field(e, call, f, out); break;
    case AU_CALL_STRIDES:
        field_line(out, au_format(e->arena, "const int64_t *%s;", name), "");
        break;
    case AU_CALL_PARAM: param_field(e, call, f, out); break;
    case AU_CALL_WORKSPACE:
        field_line(out, "void *workspace;", "aligned to 64 bytes; NULL where 0 bytes are needed");
        break;
    case AU_CALL_WORKSPACE_BYTES: field_line(out, "size_t workspace_bytes;", ""); break;
    case AU_CALL_PARALLEL:
        field_line(out, "aule_parallel parallel;", "NULL: all in the calling thread");
        break;
    case AU_CALL_USER: field_line(out, "void *parallel_user;", ""); break;
    }
}

/* ---- the whole */

static uint32_t stack_bytes(const AuCall *call)
{
    uint32_t most = 0;
    for (uint32_t n = 0; n < call->attention->variant_count; n++) {
        const aule_variant_v1 *v = &call->attention->variants[n];
        for (uint32_t l = 0; l < v->launch_count && is_host(v); l++)
            if (strcmp(v->operation, call->operation) == 0 && v->launches[l].private_bytes > most)
                most = v->launches[l].private_bytes;
    }
    return most;
}

static void operation(const AuEmbed *e, const AuCall *call, AuText *out)
{
    const char *name = au_format(e->arena, "%s_%s", call->attention->name, call->operation);
    au_text_add(out, "\ntypedef struct %s_args {\n", name);
    for (uint32_t n = 0; n < call->field_count; n++) field(e, call, &call->fields[n], out);
    au_text_add(out,
                "} %s_args;\n"
                "\n"
                "/* 0, or the number of an error; %s_message tells which. */\n"
                "int %s(const %s_args *args);\n"
                "/* Bytes that the call needs as workspace, or minus the number of an error. */\n"
                "int64_t %s_workspace(const %s_args *args);\n"
                "/* Of each thread that runs a part of the work. */\n"
                "#define %s_STACK_BYTES %u\n",
                name, call->attention->name, name, name, name, name, embed_upper(e->arena, name),
                stack_bytes(call));
}

static void attention(const AuEmbed *e, const AuCall *call, AuText *out)
{
    const aule_attention_v1 *a = call->attention;
    const char *prefix = embed_upper(e->arena, a->name);
    au_text_add(out, "\n/* ---- %s\n *\n", a->name);
    comment_text(out, " *     ", a->formula);
    au_text_add(out, "\n */\n");
    au_text_add(out, "enum {");
    const char *separator = " ";
    for (uint32_t d = AULE_F32; d <= AULE_BF16; d++)
        if (operand_types(call) >> d & 1) {
            au_text_add(out, "%s%s_%s = %u", separator, prefix,
                        embed_upper(e->arena, ctypes[d].name), d);
            separator = ", ";
        }
    au_text_add(out,
                " };\n"
                "\n"
                "/* What a status means, as a line of text: \"%s: q is NULL\". Never NULL. */\n"
                "const char *%s_message(int status);\n",
                a->name, a->name);
}

static const char calls_text[] =
    "\n"
    "/* Functions that run on the processor and need no library.\n"
    " *\n"
    " * Arguments are a structure: zero it, set struct_size, the dtype of operands, every size, "
    "every\n"
    " * tensor. A tensor is the address of its first element, with strides in elements, outermost "
    "axis\n"
    " * first; strides NULL: compact. What is written must not overlap anything else. Checked: "
    "sizes,\n"
    " * conditions of the script, NULL, alignment, the workspace, and that there is code for "
    "dtype,\n"
    " * widths and processor. Not checked: that memory is as large as sizes and strides say.\n"
    " *\n"
    " * Functions keep nothing between calls and may be called from several threads at once. They\n"
    " * expect the floating-point modes that C starts with. */\n"
    "\n"
    "#ifndef AULE_PARALLEL\n"
    "#define AULE_PARALLEL\n"
    "/* A loop of the caller's: calls part(job, first, last) for ranges that make up 0 to count, "
    "on\n"
    " * threads of its choice, and returns when all are done. */\n"
    "typedef void (*aule_part)(void *job, uint64_t first, uint64_t last);\n"
    "typedef void (*aule_parallel)(void *user, aule_part part, void *job, uint64_t count);\n"
    "#endif\n";

static void heading(const AuEmbed *e, AuText *out)
{
    const char *guard = embed_upper(e->arena, e->stem);
    au_text_add(out, "/* %s.h - made by %s from %s; changes will be lost. */\n", e->stem,
                e->module->producer, e->module->source_name);
    au_text_add(
        out,
        "#ifndef AULE_EMBED_%s_H\n"
        "#define AULE_EMBED_%s_H\n"
        "\n"
        "#include <stddef.h>\n"
        "#include <stdint.h>\n"
        "\n"
        "#ifdef __cplusplus\n"
        "extern \"C\" {\n"
        "#endif\n"
        "\n"
        "/* The artifact, for libaule: aule_module_from(&%s_module, ...) of <aule/aule.h>. */\n"
        "struct aule_module_v1;\n"
        "extern const struct aule_module_v1 %s_module;\n",
        guard, guard, e->stem, e->stem);
}

void embed_header(const AuEmbed *e, AuText *out)
{
    heading(e, out);
    if (e->call_count) au_text_add(out, "%s", calls_text);
    for (uint32_t n = 0; n < e->call_count; n++) {
        if (n == 0 || e->calls[n].attention != e->calls[n - 1].attention)
            attention(e, &e->calls[n], out);
        operation(e, &e->calls[n], out);
    }
    au_text_add(out, "\n"
                     "#ifdef __cplusplus\n"
                     "}\n"
                     "#endif\n"
                     "#endif\n");
}
