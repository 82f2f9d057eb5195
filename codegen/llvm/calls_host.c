/* calls_host.c - the part of the calls' LLVM IR that is the same for every attention: running a grid,
 * arithmetic that rounds down, and what the processor can do. */
#include "calls_ir.h"

#include <string.h>

/* A grid is run by parts of its blocks, x fastest. A part is what the caller's parallel loop is given. */
static const char running[] =
    "%job = type { ptr, ptr, i64, i64, i64 } ; kernel, slots, blocks in x, in y, of all\n"
    "\n"
    "define internal void @part(ptr %job, i64 %first, i64 %last) {\n"
    "  %kernel = load ptr, ptr %job\n"
    "  %slots.at = getelementptr %job, ptr %job, i32 0, i32 1\n"
    "  %slots = load ptr, ptr %slots.at\n"
    "  %x.at = getelementptr %job, ptr %job, i32 0, i32 2\n"
    "  %xs = load i64, ptr %x.at\n"
    "  %y.at = getelementptr %job, ptr %job, i32 0, i32 3\n"
    "  %ys = load i64, ptr %y.at\n"
    "  br label %test\n"
    "test:\n"
    "  %block = phi i64 [ %first, %0 ], [ %next, %body ]\n"
    "  %more = icmp ult i64 %block, %last\n"
    "  br i1 %more, label %body, label %done\n"
    "body:\n"
    "  %x = urem i64 %block, %xs\n"
    "  %row = udiv i64 %block, %xs\n"
    "  %y = urem i64 %row, %ys\n"
    "  %z = udiv i64 %row, %ys\n"
    "  %x32 = trunc i64 %x to i32\n"
    "  %y32 = trunc i64 %y to i32\n"
    "  %z32 = trunc i64 %z to i32\n"
    "  call void %kernel(ptr %slots, i32 %x32, i32 %y32, i32 %z32)\n"
    "  %next = add i64 %block, 1\n"
    "  br label %test\n"
    "done:\n"
    "  ret void\n"
    "}\n"
    "\n"
    "define internal void @launch(ptr %kernel, ptr %slots, i64 %x, i64 %y, i64 %z, ptr %parallel, "
    "ptr %user) {\n"
    "  %job = alloca %job\n"
    "  %xy = mul i64 %x, %y\n"
    "  %all = mul i64 %xy, %z\n"
    "  store ptr %kernel, ptr %job\n"
    "  %slots.at = getelementptr %job, ptr %job, i32 0, i32 1\n"
    "  store ptr %slots, ptr %slots.at\n"
    "  %x.at = getelementptr %job, ptr %job, i32 0, i32 2\n"
    "  store i64 %x, ptr %x.at\n"
    "  %y.at = getelementptr %job, ptr %job, i32 0, i32 3\n"
    "  store i64 %y, ptr %y.at\n"
    "  %none = icmp slt i64 %all, 1\n"
    "  br i1 %none, label %done, label %some\n"
    "some:\n"
    "  %alone = icmp eq ptr %parallel, null\n"
    "  br i1 %alone, label %here, label %there\n"
    "here:\n"
    "  call void @part(ptr %job, i64 0, i64 %all)\n"
    "  ret void\n"
    "there:\n"
    "  call void %parallel(ptr %user, ptr @part, ptr %job, i64 %all)\n"
    "  ret void\n"
    "done:\n"
    "  ret void\n"
    "}\n"
    "\n"
    "define internal void @clear(ptr %at, i64 %bytes) { ; regions end with whole words\n"
    "  br label %test\n"
    "test:\n"
    "  %n = phi i64 [ 0, %0 ], [ %next, %body ]\n"
    "  %more = icmp slt i64 %n, %bytes\n"
    "  br i1 %more, label %body, label %done\n"
    "body:\n"
    "  %here = getelementptr i8, ptr %at, i64 %n\n"
    "  store i64 0, ptr %here\n"
    "  %next = add i64 %n, 8\n"
    "  br label %test\n"
    "done:\n"
    "  ret void\n"
    "}\n"
    "\n"
    "; Is there a number in a slice of i32[outer, slices, rows]?\n"
    "define internal i1 @outside(ptr %at, i64 %outer, i64 %slices, i64 %slice, i64 %rows) {\n"
    "  %all = mul i64 %outer, %rows\n"
    "  br label %test\n"
    "test:\n"
    "  %n = phi i64 [ 0, %0 ], [ %next, %good ]\n"
    "  %more = icmp slt i64 %n, %all\n"
    "  br i1 %more, label %body, label %none\n"
    "body:\n"
    "  %block = udiv i64 %n, %rows\n"
    "  %row = urem i64 %n, %rows\n"
    "  %first = mul i64 %block, %slices\n"
    "  %mine = add i64 %first, %slice\n"
    "  %start = mul i64 %mine, %rows\n"
    "  %index = add i64 %start, %row\n"
    "  %here = getelementptr i32, ptr %at, i64 %index\n"
    "  %found = load i32, ptr %here\n"
    "  %zero = icmp eq i32 %found, 0\n"
    "  br i1 %zero, label %good, label %bad\n"
    "good:\n"
    "  %next = add i64 %n, 1\n"
    "  br label %test\n"
    "bad:\n"
    "  ret i1 true\n"
    "none:\n"
    "  ret i1 false\n"
    "}\n"
    "\n";

// clang-format off
static const char arithmetic[] =
    "define internal i64 @divide(i64 %a, i64 %b) { ; rounds down\n"
    "  %q = sdiv i64 %a, %b\n"
    "  %r = srem i64 %a, %b\n"
    "  %left = icmp ne i64 %r, 0\n"
    "  %signs = xor i64 %a, %b\n"
    "  %differ = icmp slt i64 %signs, 0\n"
    "  %down = and i1 %left, %differ\n"
    "  %one = zext i1 %down to i64\n"
    "  %d = sub i64 %q, %one\n"
    "  ret i64 %d\n"
    "}\n"
    "\n"
    "define internal i64 @modulo(i64 %a, i64 %b) {\n"
    "  %d = call i64 @divide(i64 %a, i64 %b)\n"
    "  %whole = mul i64 %d, %b\n"
    "  %m = sub i64 %a, %whole\n"
    "  ret i64 %m\n"
    "}\n"
    "\n"
    "define internal double @modulo_float(double %a, double %b) {\n"
    "  %q = fdiv double %a, %b\n"
    "  %d = call double @floor(double %q)\n"
    "  %whole = fmul double %d, %b\n"
    "  %m = fsub double %a, %whole\n"
    "  ret double %m\n"
    "}\n"
    "\n"
    "define internal double @least(double %a, double %b) {\n"
    "  %first = fcmp ole double %a, %b\n"
    "  %r = select i1 %first, double %a, double %b\n"
    "  ret double %r\n"
    "}\n"
    "\n"
    "define internal double @most(double %a, double %b) {\n"
    "  %first = fcmp oge double %a, %b\n"
    "  %r = select i1 %first, double %a, double %b\n"
    "  ret double %r\n"
    "}\n"
    "\n"
    "define internal double @inverse_root(double %a) {\n"
    "  %root = call double @llvm.sqrt.f64(double %a)\n"
    "  %r = fdiv double 1.0, %root\n"
    "  ret double %r\n"
    "}\n"
    "\n"
    "define internal i1 @both(i64 %a, i64 %b) {\n"
    "  %p = icmp ne i64 %a, 0\n"
    "  %q = icmp ne i64 %b, 0\n"
    "  %r = and i1 %p, %q\n"
    "  ret i1 %r\n"
    "}\n"
    "\n"
    "define internal i1 @either(i64 %a, i64 %b) {\n"
    "  %or = or i64 %a, %b\n"
    "  %r = icmp ne i64 %or, 0\n"
    "  ret i1 %r\n"
    "}\n"
    "\n"
    "declare i64 @llvm.smin.i64(i64, i64)\n"
    "declare i64 @llvm.smax.i64(i64, i64)\n"
    "declare i64 @llvm.abs.i64(i64, i1)\n"
    "declare i64 @llvm.fptosi.sat.i64.f64(double)\n"
    "declare double @llvm.fabs.f64(double)\n"
    "declare double @llvm.sqrt.f64(double)\n"
    "declare double @floor(double)\n"
    "declare double @ceil(double)\n"
    "declare double @exp(double)\n"
    "declare double @exp2(double)\n"
    "declare double @log(double)\n"
    "declare double @log2(double)\n"
    "declare double @pow(double, double)\n"
    "declare double @tanh(double)\n"
    "declare double @sin(double)\n"
    "declare double @cos(double)\n";
// clang-format on

/* ---- features */

typedef struct Feature {
    const char *name;
    uint32_t leaf, subleaf, where, bit;
    uint64_t state;
} Feature;

/* The runtime's table is data about processors, which belongs to nobody in particular. */
static const Feature x86[] = {
// clang-format off
#define A 0
#define B 1
#define C 2
#define D 3
#define X86(name, leaf, subleaf, where, bit, state, arch) {name, leaf, subleaf, where, bit, state},
#include "../../runtime/backends/cpu_features.def"
#undef A
#undef B
#undef C
#undef D
    // clang-format on
};
enum { X86_COUNT = sizeof x86 / sizeof *x86, TILES = 0x60000 };

static const Feature *find_feature(const char *name)
{
    for (uint32_t n = 0; n < X86_COUNT; n++)
        if (strcmp(x86[n].name, name) == 0) return &x86[n];
    return NULL;
}

uint64_t calls_features(AuCalls *c, const char *words)
{
    uint64_t bits = 0;
    while (*words) {
        const size_t length = strcspn(words, " ");
        const char *word = au_strndup(c->arena, words, length);
        words += length + (words[length] == ' ');
        uint32_t n = 0;
        while (n < c->feature_count && strcmp(c->features[n], word) != 0) n++;
        if (n == c->feature_count) c->features[c->feature_count++] = word;
        bits |= UINT64_C(1) << n;
    }
    return bits;
}

/* Intel SDM volume 2A, CPUID: register [where] of the leaf; 0 where the processor has no such leaf. */
static const char *cpuid(AuCalls *c, uint32_t leaf, uint32_t subleaf, uint32_t where)
{
    const char *all = calls_value(
        c,
        "call { i32, i32, i32, i32 } asm sideeffect \"cpuid\", "
        "\"={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}\"(i32 %u, i32 %u)",
        leaf, subleaf);
    return calls_value(c, "extractvalue { i32, i32, i32, i32 } %s, %u", all, where);
}

static const char *cpuid_known(AuCalls *c, const Feature *f)
{
    const char *most = cpuid(c, f->leaf & 0x80000000u, 0, 0);
    const char *known = calls_value(c, "icmp uge i32 %s, %u", most, f->leaf);
    return calls_value(c, "select i1 %s, i32 %s, i32 0", known,
                       cpuid(c, f->leaf, f->subleaf, f->where));
}

/* Linux's Documentation/arch/x86/xstate.rst: a process asks, once, for large states. 158 is
 * arch_prctl, 0x1023 ARCH_REQ_XCOMP_PERM, 18 the tiles. */
static const char *ask_for_tiles(AuCalls *c, const char *has)
{
    const uint32_t n = c->next++;
    au_text_add(&c->text,
                "  br label %%before%u\n"
                "before%u:\n"
                "  br i1 %s, label %%ask%u, label %%after%u\n"
                "ask%u:\n"
                "  %%answer%u = call i64 asm sideeffect \"syscall\", "
                "\"={ax},{ax},{di},{si},~{rcx},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}\""
                "(i64 158, i64 4131, i64 18)\n"
                "  %%granted%u = icmp eq i64 %%answer%u, 0\n"
                "  br label %%after%u\n"
                "after%u:\n",
                n, n, has, n, n, n, n, n, n, n, n);
    return calls_value(c, "phi i1 [ false, %%before%u ], [ %%granted%u, %%ask%u ]", n, n, n);
}

static const char *has_feature(AuCalls *c, const Feature *f, const char *saved)
{
    const char *word = cpuid_known(c, f);
    const char *bit = calls_value(c, "and i32 %s, %u", word, UINT32_C(1) << f->bit);
    const char *has = calls_value(c, "icmp ne i32 %s, 0", bit);
    if (!f->state) return has;
    const char *state = calls_value(c, "and i64 %s, %llu", saved, (unsigned long long)f->state);
    const char *kept = calls_value(c, "icmp eq i64 %s, %llu", state, (unsigned long long)f->state);
    has = calls_value(c, "and i1 %s, %s", has, kept);
    return f->state & TILES ? ask_for_tiles(c, has) : has;
}

/* XCR0: the states that the system saves. */
static const char *saved_state(AuCalls *c)
{
    const char *ecx = cpuid(c, 1, 0, 2);
    const char *bit = calls_value(c, "and i32 %s, 134217728", ecx); /* OSXSAVE */
    au_text_add(&c->text,
                "  %%xsave = icmp ne i32 %s, 0\n"
                "  br i1 %%xsave, label %%xgetbv, label %%state\n"
                "xgetbv:\n"
                "  %%xcr0 = call { i32, i32 } asm sideeffect \"xgetbv\", "
                "\"={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}\"(i32 0)\n"
                "  %%low = extractvalue { i32, i32 } %%xcr0, 0\n"
                "  %%low64 = zext i32 %%low to i64\n"
                "  br label %%state\n"
                "state:\n",
                bit);
    return calls_value(c, "phi i64 [ 0, %%ask ], [ %%low64, %%xgetbv ]");
}

/* CPUID is slow where a hypervisor answers it, so the answer is kept; whoever writes it writes the same. */
static void x86_features(AuCalls *c)
{
    au_text_add(&c->text, "\n@known = internal global i64 0\n"
                          "\n"
                          "define internal i64 @features() {\n"
                          "  %%known = load atomic i64, ptr @known monotonic, align 8\n"
                          "  %%fresh = icmp eq i64 %%known, 0\n"
                          "  br i1 %%fresh, label %%ask, label %%told\n"
                          "told:\n"
                          "  ret i64 %%known\n"
                          "ask:\n");
    const char *saved = saved_state(c), *mask = au_format(c->arena, "%lld", (long long)INT64_MIN);
    for (uint32_t n = 0; n < c->feature_count; n++) {
        const Feature *f = find_feature(c->features[n]);
        if (!f) continue; /* never there */
        const char *has = calls_value(c, "zext i1 %s to i64", has_feature(c, f, saved));
        mask = calls_value(c, "or i64 %s, %s", mask, calls_value(c, "shl i64 %s, %u", has, n));
    }
    au_text_add(&c->text,
                "  store atomic i64 %s, ptr @known monotonic, align 8\n"
                "  ret i64 %s\n}\n",
                mask, mask);
}

void calls_host(AuCalls *c, bool is_x86)
{
    if (is_x86)
        x86_features(c);
    else /* what the base architecture has: there is no other row */
        au_text_add(&c->text, "\ndefine internal i64 @features() {\n  ret i64 -1\n}\n");
    au_text_add(&c->text, "\n%s%s", running, arithmetic);
}
