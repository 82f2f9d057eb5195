/* hip_pairs.c - two additions or multiply-adds of f32 become one instruction: v_pk_add_f32, v_pk_fma_f32, from CDNA 2 on.
 *
 * LLVM's own pass (slp-vectorizer) begins at stores and at vectors that are built, so it finds neither exponents of weights, which end in
 * a power of two, nor sums that are carried on. Here the second of two operations of one kind in a block joins the first where their
 * operands are the same, constants, neighbours of one vector or results of a pair; of one operand alone two numbers of any kind
 * may be: their registers become neighbours. Numbers are what they were. */
#include "hip.h"

enum { WINDOW = 4, MOST_STEPS = 256, SLOTS = 1 << 14, MOST_PLACES = SLOTS / 4 * 3 };

/* A block while it is looked at. Places count its instructions, from 1 on; what is made takes the place of what it is made of. */
typedef struct Place {
    LLVMValueRef of;
    uint32_t at;
} Place;
typedef struct Pairs {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTypeRef f32, two;
    Place places[SLOTS];
    uint32_t used, steps;
    bool chains;                     /* rows of sums may begin */
    LLVMValueRef waiting[2][WINDOW]; /* of a kind, without a partner, the latest first */
} Pairs;

typedef enum Kind { ADD, FMA, NONE } Kind;
typedef enum Match { SAME, NEIGHBOURS, ANY, NEVER } Match;

/* ---- places */

static Place *place_of(Pairs *p, LLVMValueRef v)
{
    uint32_t n = (uint32_t)((uintptr_t)v >> 4) * 2654435761u >> 18;
    while (p->places[n].of && p->places[n].of != v) n = (n + 1) % SLOTS;
    return &p->places[n];
}

/* 0: before the block. */
static uint32_t where(Pairs *p, LLVMValueRef v)
{
    const Place *place = place_of(p, v);
    return place->of ? place->at : 0;
}

static void put(Pairs *p, LLVMValueRef v, uint32_t at)
{
    Place *place = place_of(p, v);
    p->used += !place->of;
    *place = (Place){v, at};
}

/* ---- what may be a pair */

static bool is_extract(LLVMValueRef v, uint64_t *lane)
{
    if (!LLVMIsAExtractElementInst(v)) return false;
    LLVMValueRef index = LLVMGetOperand(v, 1);
    if (!LLVMIsAConstantInt(index)) return false;
    *lane = LLVMConstIntGetZExtValue(index);
    return true;
}

static Kind kind_of(const Pairs *p, LLVMValueRef v)
{
    if (LLVMTypeOf(v) != p->f32) return NONE;
    if (LLVMIsABinaryOperator(v)) return LLVMGetInstructionOpcode(v) == LLVMFAdd ? ADD : NONE;
    if (!LLVMIsACallInst(v)) return NONE;
    LLVMValueRef called = LLVMGetCalledValue(v);
    return LLVMGetIntrinsicID(called) == LLVMLookupIntrinsicID("llvm.fma", 8) ? FMA : NONE;
}

static Match match(LLVMValueRef a, LLVMValueRef b)
{
    uint64_t first, second;
    const bool known = LLVMIsConstant(a) && LLVMIsConstant(b);
    if (a == b || known) return SAME;
    if (is_extract(a, &first) && is_extract(b, &second) &&
        LLVMGetOperand(a, 0) == LLVMGetOperand(b, 0) && first % 2 == 0 && second == first + 1)
        return NEIGHBOURS;
    return LLVMIsAInstruction(a) && LLVMIsAInstruction(b) ? ANY : NEVER;
}

/* Does the value come from [from], through what lies behind it in the block? Where that takes long to say, yes. */
static bool comes_from(Pairs *p, LLVMValueRef v, LLVMValueRef from, uint32_t at)
{
    if (v == from || ++p->steps > MOST_STEPS) return true;
    if (!LLVMIsAInstruction(v) || where(p, v) <= at) return false;
    const int count = LLVMGetNumOperands(v);
    for (int n = 0; n < count; n++)
        if (comes_from(p, LLVMGetOperand(v, (unsigned)n), from, at)) return true;
    return false;
}

/* What a pair of operands is made of is there at a place: of neighbours their vector. */
static bool is_there(Pairs *p, LLVMValueRef v, Match m, uint32_t at)
{
    return where(p, m == NEIGHBOURS ? LLVMGetOperand(v, 0) : v) < at;
}

static bool used_before(Pairs *p, LLVMValueRef v, uint32_t at)
{
    for (LLVMUseRef use = LLVMGetFirstUse(v); use; use = LLVMGetNextUse(use)) {
        const uint32_t user = where(p, LLVMGetUser(use));
        if (user && user < at) return true;
    }
    return false;
}

/* The sum that alone takes the value, later in the block; NULL: others or none do. */
static LLVMValueRef sum_of(Pairs *p, LLVMValueRef v)
{
    LLVMUseRef use = LLVMGetFirstUse(v);
    LLVMValueRef user = use && !LLVMGetNextUse(use) ? LLVMGetUser(use) : NULL;
    return user && where(p, user) && kind_of(p, user) == ADD ? user : NULL;
}

/* The first sums of two rows of them: those that follow have a pair to go on with. LLVM's pass finds such rows by what a loop carries, in the last
 * of its blocks, and where copies are begun behind a branch they are in another. */
static bool begin_chains(Pairs *p, Kind kind, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef next = p->chains && kind == ADD ? sum_of(p, a) : NULL,
                 other = next ? sum_of(p, b) : NULL;
    return other && next != other && sum_of(p, next) && sum_of(p, other) &&
           sum_of(p, next) != sum_of(p, other);
}

/* Where the two can be one; NULL: nowhere. */
static LLVMValueRef meeting(Pairs *p, Kind kind, LLVMValueRef a, LLVMValueRef b)
{
    const unsigned operands = kind == FMA ? 3 : 2;
    const uint32_t first = where(p, a), second = where(p, b);
    unsigned any = 0, shared = 0;
    bool early = true;
    p->steps = 0;
    for (unsigned n = 0; n < operands; n++) {
        LLVMValueRef x = LLVMGetOperand(a, n), y = LLVMGetOperand(b, n);
        const Match m = match(x, y);
        if (m == NEVER || comes_from(p, y, a, first)) return NULL;
        any += m == ANY;
        shared += m != ANY;
        early = early && is_there(p, y, m, first);
    }
    if ((any > 1 || !shared) && !begin_chains(p, kind, a, b)) return NULL;
    if (early) return a;
    return used_before(p, a, second) ? NULL : b;
}

/* ---- what it becomes */

static LLVMValueRef i32(const Pairs *p, uint64_t n)
{
    return LLVMConstInt(LLVMInt32TypeInContext(p->context), n, false);
}

/* What is made stands at a place, too: it uses values. */
static LLVMValueRef at_place(Pairs *p, LLVMValueRef v, uint32_t at)
{
    put(p, v, at);
    return v;
}

static LLVMValueRef both(Pairs *p, LLVMValueRef a, LLVMValueRef b, uint32_t at)
{
    uint64_t lane;
    if (match(a, b) == NEIGHBOURS && is_extract(a, &lane)) {
        LLVMValueRef of = LLVMGetOperand(a, 0);
        if (LLVMTypeOf(of) == p->two) return of;
        LLVMValueRef lanes[2] = {i32(p, lane), i32(p, lane + 1)};
        LLVMValueRef none = LLVMGetPoison(LLVMTypeOf(of)), which = LLVMConstVector(lanes, 2);
        return at_place(p, LLVMBuildShuffleVector(p->builder, of, none, which, ""), at);
    }
    LLVMValueRef v = LLVMGetPoison(p->two);
    v = at_place(p, LLVMBuildInsertElement(p->builder, v, a, i32(p, 0), ""), at);
    return at_place(p, LLVMBuildInsertElement(p->builder, v, b, i32(p, 1), ""), at);
}

static LLVMValueRef pair(Pairs *p, Kind kind, LLVMValueRef a, LLVMValueRef b, uint32_t at)
{
    LLVMValueRef x[3];
    for (unsigned n = 0; n < (kind == FMA ? 3u : 2u); n++)
        x[n] = both(p, LLVMGetOperand(a, n), LLVMGetOperand(b, n), at);
    if (kind == ADD) return LLVMBuildFAdd(p->builder, x[0], x[1], "");
    const unsigned id = LLVMLookupIntrinsicID("llvm.fma", 8);
    LLVMValueRef fma = LLVMGetIntrinsicDeclaration(p->module, id, &p->two, 1);
    return LLVMBuildCall2(p->builder, LLVMGlobalGetValueType(fma), fma, x, 3, "");
}

static void join(Pairs *p, Kind kind, LLVMValueRef a, LLVMValueRef b, LLVMValueRef at)
{
    const uint32_t place = where(p, at);
    LLVMValueRef old[2] = {a, b};
    LLVMPositionBuilderBefore(p->builder, at);
    LLVMValueRef v = at_place(p, pair(p, kind, a, b, place), place);
    for (unsigned n = 0; n < 2; n++) {
        LLVMValueRef one = LLVMBuildExtractElement(p->builder, v, i32(p, n), "");
        LLVMReplaceAllUsesWith(old[n], at_place(p, one, place));
    }
    LLVMInstructionEraseFromParent(a);
    LLVMInstructionEraseFromParent(b);
}

/* ---- blocks */

static void look(Pairs *p, LLVMValueRef v)
{
    const Kind kind = kind_of(p, v);
    if (kind == NONE || p->used > MOST_PLACES) return;
    LLVMValueRef *waiting = p->waiting[kind];
    for (unsigned n = 0; n < WINDOW && waiting[n]; n++) {
        LLVMValueRef first = waiting[n], at = meeting(p, kind, first, v);
        if (!at) continue;
        for (; n + 1 < WINDOW; n++) waiting[n] = waiting[n + 1];
        waiting[WINDOW - 1] = NULL;
        join(p, kind, first, v, at);
        return;
    }
    for (unsigned n = WINDOW - 1; n > 0; n--) waiting[n] = waiting[n - 1];
    waiting[0] = v;
}

static void look_at_block(Pairs *p, LLVMBasicBlockRef block)
{
    uint32_t at = 0;
    for (uint32_t n = 0; n < SLOTS && p->used; n++) p->places[n] = (Place){NULL, 0};
    p->used = 0;
    for (Kind kind = ADD; kind < NONE; kind++)
        for (unsigned n = 0; n < WINDOW; n++) p->waiting[kind][n] = NULL;
    LLVMValueRef v, next;
    for (v = LLVMGetFirstInstruction(block); v; v = LLVMGetNextInstruction(v)) put(p, v, ++at);
    for (v = LLVMGetFirstInstruction(block); v; v = next) {
        next = LLVMGetNextInstruction(v);
        look(p, v);
    }
}

/* Has it two operations that may be one, and no more instructions than places? */
static bool is_worth_it(const Pairs *p, LLVMBasicBlockRef block)
{
    uint32_t length = 0, operations = 0;
    LLVMValueRef v = LLVMGetFirstInstruction(block);
    for (; v; v = LLVMGetNextInstruction(v), length++) operations += kind_of(p, v) != NONE;
    return operations > 1 && length < SLOTS / 2;
}

void hip_pairs(AuArena *arena, LLVMModuleRef module, bool chains)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    Pairs *p = AU_NEW(arena, Pairs);
    p->context = context, p->module = module, p->chains = chains;
    p->builder = LLVMCreateBuilderInContext(context);
    p->f32 = LLVMFloatTypeInContext(context);
    p->two = LLVMVectorType(p->f32, 2);
    LLVMValueRef f = LLVMGetFirstFunction(module);
    for (; f; f = LLVMGetNextFunction(f)) {
        LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f);
        for (; block; block = LLVMGetNextBasicBlock(block))
            if (is_worth_it(p, block)) look_at_block(p, block);
    }
    LLVMDisposeBuilder(p->builder);
}
