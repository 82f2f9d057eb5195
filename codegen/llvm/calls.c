/* calls.c - the functions that a C program calls (../calls.h), as LLVM IR made into an object.
 *
 * A function of an operation binds: it reads the fields into %b, words of sizes, parameters, tensors
 * (address, strides) and the caller's workspace and loop, and checks each. Then it goes through the
 * variants in their order, the best first, for one of the dtype, the widths and the processor. */
#include "calls_ir.h"

#include "aule/artifact.h"

#include <llvm-c/IRReader.h>
#include <string.h>

/* ---- writing */

const char *calls_value(AuCalls *c, const char *format, ...)
{
    const char *name = au_format(c->arena, "%%v%u", c->next++);
    au_text_add(&c->text, "  %s = ", name);
    va_list arguments;
    va_start(arguments, format);
    au_text_vadd(&c->text, format, arguments);
    va_end(arguments);
    au_text_add(&c->text, "\n");
    return name;
}

const char *calls_load(AuCalls *c, uint32_t word)
{
    const char *at = calls_value(c, "getelementptr i64, ptr %%b, i64 %u", word);
    return calls_value(c, "load i64, ptr %s", at);
}

void calls_store(AuCalls *c, uint32_t word, const char *value)
{
    const char *at = calls_value(c, "getelementptr i64, ptr %%b, i64 %u", word);
    au_text_add(&c->text, "  store i64 %s, ptr %s\n", value, at);
}

void calls_check(AuCalls *c, const char *holds, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *message = au_vformat(c->arena, format, arguments);
    va_end(arguments);
    uint32_t number = 0;
    while (number < c->message_count && strcmp(c->messages[number], message) != 0) number++;
    if (number == c->message_count)
        AU_PUSH(c->arena, c->messages, c->message_count, c->message_capacity, message);
    const uint32_t label = c->next++;
    au_text_add(&c->text,
                "  br i1 %s, label %%ok%u, label %%bad%u\n"
                "bad%u:\n"
                "  ret i64 -%u\n"
                "ok%u:\n",
                holds, label, label, label, number + 1, label);
}

/* ---- binding */

static uint32_t most_regions(const aule_attention_v1 *a)
{
    uint32_t most = 0;
    for (uint32_t n = 0; n < a->variant_count; n++)
        if (a->variants[n].workspace_count > most) most = a->variants[n].workspace_count;
    return most;
}

static void lay_out(AuCalls *c)
{
    uint32_t at = c->param_at = c->a->size_count;
    at += c->a->param_count;
    for (uint32_t n = 0; n < c->a->tensor_count; n++) {
        c->tensor_at[n] = at;
        at += 1 + c->a->tensors[n].rank;
    }
    c->region_at = at;
    at += most_regions(c->a);
    c->workspace_at = at++;
    c->bytes_at = at++;
    c->parallel_at = at++;
    c->user_at = at++;
    c->words = at;
}

static const char *field(AuCalls *c, uint32_t n)
{
    const char *at = calls_value(c, "getelementptr i64, ptr %%args, i64 %u", n);
    return calls_value(c, "load i64, ptr %s", at);
}

static void bind_size(AuCalls *c, const AuCallField *f, const char *value)
{
    const char *holds = calls_value(c, "icmp ule i64 %s, %d", value, AULE_LARGEST_SIZE);
    calls_check(c, holds, "%s: %s is not from 0 to %d", c->a->name, f->name, AULE_LARGEST_SIZE);
    calls_store(c, f->index, value);
}

static void check_param(AuCalls *c, const AuCallField *f, const char *value)
{
    const uint32_t dtype = c->a->params[f->index].dtype;
    if (dtype == AULE_F32 || dtype == AULE_I64) return;
    const char *narrow = calls_value(c, "trunc i64 %s to i32", value);
    const char *back = calls_value(c, "sext i32 %s to i64", narrow);
    calls_check(c, calls_value(c, "icmp eq i64 %s, %s", back, value), "%s: %s does not fit 32 bits",
                c->a->name, f->name);
}

/* The default's place in the text is before the branch: it is of sizes and constants, and cheap. */
static void bind_param(AuCalls *c, const AuCallField *f, const char *value)
{
    const aule_param_v1 *p = &c->a->params[f->index];
    if (f->optional) {
        const char *wrong;
        AuCallValue other = calls_expr(c, &p->default_value, &wrong);
        if (p->dtype == AULE_F32 && !other.is_float)
            other.name = calls_value(c, "sitofp i64 %s to double", other.name);
        else if (p->dtype != AULE_F32 && other.is_float)
            other.name = calls_value(c, "call i64 @llvm.fptosi.sat.i64.f64(double %s)", other.name);
        const char *slot = calls_value(c, "alloca i64");
        au_text_add(&c->text, "  store %s %s, ptr %s\n", p->dtype == AULE_F32 ? "double" : "i64",
                    other.name, slot);
        const char *given = calls_value(c, "inttoptr i64 %s to ptr", value);
        const char *null = calls_value(c, "icmp eq i64 %s, 0", value);
        const char *from = calls_value(c, "select i1 %s, ptr %s, ptr %s", null, slot, given);
        value = calls_value(c, "load i64, ptr %s", from);
    }
    check_param(c, f, value);
    calls_store(c, c->param_at + f->index, value);
}

/* Extents, and the strides that they imply. */
static void bind_strides(AuCalls *c, uint32_t tensor, const char *given, const char **elements)
{
    const aule_tensor_v1 *t = &c->a->tensors[tensor];
    const char *compact = calls_value(c, "alloca [%u x i64]", t->rank + 1), *step = "1";
    for (uint32_t n = t->rank; n-- > 0;) {
        const char *at = calls_value(c, "getelementptr i64, ptr %s, i64 %u", compact, n);
        au_text_add(&c->text, "  store i64 %s, ptr %s\n", step, at);
        step = calls_value(c, "mul i64 %s, %s", step, calls_count(c, &t->axes[n], t->name));
    }
    *elements = step;
    if (!t->rank) return;
    const char *null = calls_value(c, "icmp eq i64 %s, 0", given);
    const char *theirs = calls_value(c, "inttoptr i64 %s to ptr", given);
    const char *from = calls_value(c, "select i1 %s, ptr %s, ptr %s", null, compact, theirs);
    for (uint32_t n = 0; n < t->rank; n++) {
        const char *at = calls_value(c, "getelementptr i64, ptr %s, i64 %u", from, n);
        calls_store(c, c->tensor_at[tensor] + 1 + n, calls_value(c, "load i64, ptr %s", at));
    }
}

static uint32_t bytes_of(uint32_t dtype)
{
    return dtype == AULE_I64                         ? 8
           : dtype == AULE_U8 || dtype == AULE_BOOL  ? 1
           : dtype == AULE_F16 || dtype == AULE_BF16 ? 2
                                                     : 4;
}

static void bind_tensor(AuCalls *c, const AuCallField *f, const char *address, const char *strides,
                        const char *is_f32)
{
    const aule_tensor_v1 *t = &c->a->tensors[f->index];
    const char *elements;
    bind_strides(c, f->index, strides, &elements);
    if (!f->optional) {
        const char *there = calls_value(c, "icmp ne i64 %s, 0", address);
        const char *empty = calls_value(c, "icmp eq i64 %s, 0", elements);
        calls_check(c, calls_value(c, "or i1 %s, %s", there, empty), "%s: %s is NULL", c->a->name,
                    f->name);
    }
    const char *mask = t->dtype == AULE_OPERAND
                           ? calls_value(c, "select i1 %s, i64 3, i64 1", is_f32)
                           : au_format(c->arena, "%u", bytes_of(t->dtype) - 1);
    const char *low = calls_value(c, "and i64 %s, %s", address, mask);
    calls_check(c, calls_value(c, "icmp eq i64 %s, 0", low),
                "%s: %s is not aligned to its elements", c->a->name, f->name);
    calls_store(c, c->tensor_at[f->index], address);
}

/* The number of the first tensor of a role, or tensor_count. */
static uint32_t tensor_of(const AuCalls *c, uint32_t role)
{
    uint32_t n = 0;
    while (n < c->a->tensor_count && c->a->tensors[n].role != role) n++;
    return n;
}

static const char *rows_of(AuCalls *c, uint32_t tensor)
{
    const aule_tensor_v1 *t = &c->a->tensors[tensor];
    return calls_count(c, &t->axes[0], t->name);
}

/* Without slots a pool has a state for each of the sequences. */
static void check_pool(AuCalls *c, const char *slots_given, const char *batch)
{
    const uint32_t pool = tensor_of(c, AULE_ROLE_POOL);
    if (pool == c->a->tensor_count) return;
    const char *none = calls_value(c, "icmp eq i64 %s, 0", calls_load(c, c->tensor_at[pool]));
    const char *same = calls_value(c, "icmp eq i64 %s, %s", rows_of(c, pool), batch);
    const char *holds = calls_value(c, "or i1 %s, %s", none, same);
    calls_check(c, calls_value(c, "or i1 %s, %s", slots_given, holds),
                "%s: the pool has another number of states than there are sequences: pass slots, "
                "which say whose state is whose",
                c->a->name);
}

/* What is known of a recurrence's lists without reading them (rt_bind_tensors has the same rules). */
static void check_list(AuCalls *c, const AuCallField *f, const char *address)
{
    const aule_tensor_v1 *t = &c->a->tensors[f->index];
    const bool slots = t->role == AULE_ROLE_SLOTS;
    if (t->role != AULE_ROLE_SEQUENCES && !slots) return;
    const char *batch = rows_of(c, tensor_of(c, AULE_ROLE_Q)), *count = rows_of(c, f->index);
    const char *given = calls_value(c, "icmp ne i64 %s, 0", address);
    const char *none = calls_value(c, "icmp eq i64 %s, 0", count);
    const char *right = slots ? calls_value(c, "icmp eq i64 %s, %s", count, batch)
                              : calls_value(c, "icmp sge i64 %s, 2", count);
    calls_check(c, calls_value(c, "select i1 %s, i1 %s, i1 %s", given, right, none),
                slots ? "%s: %s_count is not the number of sequences, or not 0 without %s"
                      : "%s: %s_count is below 2, or not 0 without %s",
                c->a->name, f->name, f->name);
    if (slots) check_pool(c, given, batch);
    if (slots) return;
    const char *one = calls_value(c, "icmp eq i64 %s, 1", batch);
    calls_check(c, calls_value(c, "select i1 %s, i1 %s, i1 true", given, one),
                "%s: %s packs sequences into one batch, there are several", c->a->name, f->name);
}

static void check_requires(AuCalls *c)
{
    for (uint32_t n = 0; n < c->a->require_count; n++) {
        const char *wrong;
        const AuCallValue v = calls_expr(c, &c->a->requires_[n].condition, &wrong);
        const char *holds = v.is_float ? calls_value(c, "fcmp une double %s, 0.0", v.name)
                                       : calls_value(c, "icmp ne i64 %s, 0", v.name);
        const char *right = calls_value(c, "xor i1 %s, true", wrong);
        calls_check(c, calls_value(c, "and i1 %s, %s", holds, right), "%s: requires %s", c->a->name,
                    c->a->requires_[n].text);
    }
}

/* Sizes come first, since shapes and defaults are made of them; strides stand after their tensor. */
static const char *bind(AuCalls *c, const AuCall *call)
{
    const char **values = AU_NEW_ARRAY(c->arena, const char *, call->field_count + 1);
    const char *dtype = "0";
    for (uint32_t n = 0; n < call->field_count; n++) {
        const AuCallField *f = &call->fields[n];
        values[n] = field(c, n);
        if (f->kind == AU_CALL_STRUCT_SIZE)
            calls_check(c, calls_value(c, "icmp eq i64 %s, %u", values[n], 8 * call->field_count),
                        "%s: struct_size is not what this code was compiled with", c->a->name);
        if (f->kind == AU_CALL_DTYPE) dtype = values[n];
        if (f->kind == AU_CALL_SIZE) bind_size(c, f, values[n]);
        if (f->kind == AU_CALL_WORKSPACE) calls_store(c, c->workspace_at, values[n]);
        if (f->kind == AU_CALL_WORKSPACE_BYTES) calls_store(c, c->bytes_at, values[n]);
        if (f->kind == AU_CALL_PARALLEL) calls_store(c, c->parallel_at, values[n]);
        if (f->kind == AU_CALL_USER) calls_store(c, c->user_at, values[n]);
    }
    for (uint32_t n = 0; n < call->field_count; n++)
        if (call->fields[n].kind == AU_CALL_PARAM) bind_param(c, &call->fields[n], values[n]);
    check_requires(c);
    const char *is_f32 = calls_value(c, "icmp eq i64 %s, %d", dtype, AULE_F32);
    for (uint32_t n = 0; n < call->field_count; n++) {
        const AuCallField *f = &call->fields[n];
        if (f->kind != AU_CALL_TENSOR) continue;
        const bool has_strides = n + 1 < call->field_count && f[1].kind == AU_CALL_STRIDES;
        bind_tensor(c, f, values[n], has_strides ? values[n + 1] : "0", is_f32);
        check_list(c, f, values[n]);
    }
    return dtype;
}

/* ---- choosing */

static bool is_of(const aule_variant_v1 *v, const AuCall *call)
{
    return strcmp(v->target, "cpu") == 0 && strcmp(v->operation, call->operation) == 0;
}

static void try_variant(AuCalls *c, const aule_variant_v1 *v, const char *dtype)
{
    const uint32_t n = c->next++;
    const char *fits = calls_value(c, "icmp eq i64 %s, %u", dtype, v->dtype);
    for (uint32_t f = 0; f < v->fixed_count; f++) {
        const char *same = calls_value(c, "icmp eq i64 %s, %lld", calls_load(c, v->fixed[f].size),
                                       (long long)v->fixed[f].value);
        fits = calls_value(c, "and i1 %s, %s", fits, same);
    }
    if (v->condition.code) {
        const char *wrong; /* never of sizes alone */
        const AuCallValue holds = calls_expr(c, &v->condition, &wrong);
        fits =
            calls_value(c, "and i1 %s, %s", fits, calls_value(c, "icmp ne i64 %s, 0", holds.name));
    }
    const uint64_t needs = calls_features(c, v->features);
    au_text_add(&c->text,
                "  br i1 %s, label %%fits%u, label %%not%u\n"
                "fits%u:\n"
                "  store i1 true, ptr %%compiled\n",
                fits, n, n, n);
    const char *has = calls_value(c, "and i64 %%has, %llu", (unsigned long long)needs);
    const char *all = calls_value(c, "icmp eq i64 %s, %llu", has, (unsigned long long)needs);
    au_text_add(&c->text, "  br i1 %s, label %%take%u, label %%not%u\ntake%u:\n", all, n, n, n);
    const char *result =
        calls_value(c, "call i64 @run.%s(ptr %%b, i1 %%measure)", v->launches[0].entry);
    au_text_add(&c->text, "  ret i64 %s\nnot%u:\n", result, n);
}

static const char *name_of(AuCalls *c, const AuCall *call)
{
    return au_format(c->arena, "%s_%s", call->attention->name, call->operation);
}

static void write_call(AuCalls *c, const AuCall *call)
{
    const char *name = name_of(c, call);
    au_text_add(&c->text,
                "\n; ---- %s\n"
                "define internal i64 @bind.%s(ptr %%args, i1 %%measure) {\n"
                "  %%b = alloca [%u x i64], align 16\n"
                "  %%compiled = alloca i1\n"
                "  store [%u x i64] zeroinitializer, ptr %%b\n"
                "  store i1 false, ptr %%compiled\n"
                "  %%there = icmp ne ptr %%args, null\n",
                name, name, c->words, c->words);
    calls_check(c, "%there", "%s: the arguments are NULL", c->a->name);
    const char *dtype = bind(c, call);
    au_text_add(&c->text, "  %%has = call i64 @features()\n");
    for (uint32_t n = 0; n < c->a->variant_count; n++)
        if (is_of(&c->a->variants[n], call)) try_variant(c, &c->a->variants[n], dtype);
    calls_check(c, calls_value(c, "load i1, ptr %%compiled"),
                "%s: nothing was compiled for this dtype and these widths", c->a->name);
    calls_check(c, "false", "%s: this processor lacks what the code needs", c->a->name);
    au_text_add(&c->text,
                "  ret i64 0\n}\n"
                "\n"
                "define i32 @%s(ptr %%args) {\n"
                "  %%r = call i64 @bind.%s(ptr %%args, i1 false)\n"
                "  %%error = sub i64 0, %%r\n"
                "  %%status = trunc i64 %%error to i32\n"
                "  ret i32 %%status\n}\n"
                "\n"
                "define i64 @%s_workspace(ptr %%args) {\n"
                "  %%r = call i64 @bind.%s(ptr %%args, i1 true)\n"
                "  ret i64 %%r\n}\n",
                name, name, name, name);
}

static void quote(AuCalls *c, const char *text)
{
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte < 32 || byte > 126 || byte == '"' || byte == '\\')
            au_text_add(&c->text, "\\%02X", byte);
        else
            au_text_add(&c->text, "%c", byte);
    }
}

static void write_messages(AuCalls *c)
{
    const char *name = c->a->name;
    AU_PUSH(c->arena, c->messages, c->message_count, c->message_capacity, "no such error");
    const uint32_t count = c->message_count;
    for (uint32_t n = 0; n <= count; n++) {
        const char *text = n ? c->messages[n - 1] : "done";
        au_text_add(&c->text, "\n@%s.message%u = private constant [%zu x i8] c\"", name, n,
                    strlen(text) + 1);
        quote(c, text);
        au_text_add(&c->text, "\\00\"");
    }
    au_text_add(&c->text, "\n@%s.messages = internal constant [%u x ptr] [", name, count + 1);
    for (uint32_t n = 0; n <= count; n++)
        au_text_add(&c->text, "%sptr @%s.message%u", n ? ", " : "", name, n);
    au_text_add(&c->text,
                "]\n\n"
                "define ptr @%s_message(i32 %%status) {\n"
                "  %%known = icmp ult i32 %%status, %u\n"
                "  %%n = select i1 %%known, i32 %%status, i32 %u\n"
                "  %%wide = zext i32 %%n to i64\n"
                "  %%at = getelementptr ptr, ptr @%s.messages, i64 %%wide\n"
                "  %%text = load ptr, ptr %%at\n"
                "  ret ptr %%text\n}\n",
                name, count, count, name);
}

static void write_attention(AuCalls *c, const AuCall *calls, uint32_t count)
{
    c->a = calls[0].attention;
    c->messages = NULL;
    c->message_count = c->message_capacity = 0;
    lay_out(c);
    for (uint32_t n = 0; n < count; n++) {
        write_call(c, &calls[n]);
        for (uint32_t v = 0; v < c->a->variant_count; v++)
            if (is_of(&c->a->variants[v], &calls[n])) calls_variant(c, &c->a->variants[v]);
    }
    write_messages(c);
}

/* ---- the object */

static bool read_text(AuDiags *diags, LlvmUnit *unit, const AuText *text)
{
    char *message = NULL;
    LLVMModuleRef module = NULL;
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRange(au_text_str(text), text->length, "calls", true);
    const bool good =
        !LLVMParseIRInContext(unit->context, buffer, &module, &message); /* takes the buffer */
    if (good) {
        LLVMSetTarget(module, LLVMGetTarget(unit->module));
        LLVMSetDataLayout(module, LLVMGetDataLayoutStr(unit->module));
        LLVMDisposeModule(unit->module);
        unit->module = module;
    } else {
        au_error(diags, AU_E0004, (AuSpan){0}, "calls from C: %s", message);
    }
    LLVMDisposeMessage(message);
    return good;
}

bool au_calls_object(AuArena *arena, AuDiags *diags, const AuCall *calls, uint32_t count,
                     const AuArch *arch, AuBlob *out)
{
    AuCalls c = {.arena = arena, .diags = diags, .text = {.arena = arena}};
    const AuHost *host = llvm_host(arch);
    for (uint32_t first = 0, last; first < count; first = last) {
        last = first;
        while (last < count && calls[last].attention == calls[first].attention) last++;
        write_attention(&c, &calls[first], last - first);
    }
    for (uint32_t n = 0; n < c.kernel_count; n++)
        au_text_add(&c.text, "declare void @%s(ptr, i32, i32, i32)\n", c.kernels[n]);
    const bool is_x86 = strncmp(host->triple, "x86", 3) == 0;
    calls_host(&c, is_x86);
    if (c.failed) return false;
    LlvmUnit unit; /* for any machine of the family: the processor is asked before kernels run */
    const AuHost plain = {host->triple, is_x86 ? "x86-64" : "generic", "", .gathers_words = false};
    if (!llvm_open(&unit, diags, &plain, "calls", 1, true)) return false;
    const bool good =
        read_text(diags, &unit, &c.text) && llvm_is_sound(&unit, diags, "calls") &&
        /* Helpers that nothing calls go, with what they would ask of the program. */
        llvm_optimise(&unit, diags, "globaldce,function(sroa,early-cse,simplifycfg)") &&
        llvm_emit(&unit, arena, diags, false, out);
    return llvm_close(&unit, diags) && good;
}
