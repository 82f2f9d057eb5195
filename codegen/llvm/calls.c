/* calls.c - the functions that a C program calls (../calls.h), as LLVM IR made into an object.
 *
 * A function of an operation binds (calls_bind.c): it reads the fields into %b, words of sizes, parameters, tensors
 * (address, strides) and the caller's workspace and loop, and checks each. Then it goes through the
 * variants in their order, the best first, for one of the dtype, the widths and the processor. Sizes that no tensor of the operation has are
 * -1 there, and what is fixed of them counts as right. */
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

/* ---- words of %b */

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
        if (!c->knows[v->fixed[f].size]) continue;
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
    const char *dtype = calls_bind(c, call);
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
