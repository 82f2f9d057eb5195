/* launch_code.c - scalar expressions of the attention IR as launch expressions of the artifact:
 * shapes of inputs, conditions, default values of parameters. */
#include "driver.h"

#include "aule/artifact.h"

#include <string.h>

typedef struct Code {
    AuArena *arena;
    AuDiags *diags;
    const AuAttn *attn;
    uint32_t *words;
    uint32_t count, capacity;
    bool failed;
} Code;

static void word(Code *c, uint32_t op, uint32_t operand)
{
    AU_PUSH(c->arena, c->words, c->count, c->capacity, op + (operand << 8));
}

static void constant(Code *c, uint32_t op, uint64_t bits)
{
    word(c, op, 0);
    AU_PUSH(c->arena, c->words, c->count, c->capacity, (uint32_t)(bits & 0xffffffffu));
    AU_PUSH(c->arena, c->words, c->count, c->capacity, (uint32_t)(bits >> 32));
}

static const uint8_t codes[AU_OP_COUNT] = {
    // clang-format off
    [AU_OP_ADD] = AULE_E_ADD, [AU_OP_SUB] = AULE_E_SUB, [AU_OP_MUL] = AULE_E_MUL, [AU_OP_DIV] = AULE_E_DIV, [AU_OP_IDIV] = AULE_E_DIV,
    [AU_OP_MOD] = AULE_E_MOD, [AU_OP_NEG] = AULE_E_NEG, [AU_OP_MIN] = AULE_E_MIN, [AU_OP_MAX] = AULE_E_MAX, [AU_OP_ABS] = AULE_E_ABS,
    [AU_OP_FLOOR] = AULE_E_FLOOR, [AU_OP_CEIL] = AULE_E_CEIL, [AU_OP_EXP] = AULE_E_EXP, [AU_OP_EXP2] = AULE_E_EXP2, [AU_OP_LOG] = AULE_E_LOG,
    [AU_OP_LOG2] = AULE_E_LOG2, [AU_OP_SQRT] = AULE_E_SQRT, [AU_OP_RSQRT] = AULE_E_RSQRT, [AU_OP_POW] = AULE_E_POW, [AU_OP_TANH] = AULE_E_TANH,
    [AU_OP_SIN] = AULE_E_SIN, [AU_OP_COS] = AULE_E_COS, [AU_OP_LT] = AULE_E_LT, [AU_OP_LE] = AULE_E_LE, [AU_OP_EQ] = AULE_E_EQ,
    [AU_OP_NE] = AULE_E_NE, [AU_OP_AND] = AULE_E_AND, [AU_OP_OR] = AULE_E_OR, [AU_OP_NOT] = AULE_E_NOT, [AU_OP_WHERE] = AULE_E_SELECT,
    [AU_OP_TO_F32] = AULE_E_TO_FLOAT, [AU_OP_TO_I32] = AULE_E_TO_INT,
    // clang-format on
};

/* Code of a stack: what a script uses twice stands there twice. */
static void expression(Code *c, AuExpr e)
{
    enum { MOST = 1 << 16 };
    const AuNode *n = attn_at(c->attn, e);
    uint64_t bits = 0;
    if (c->count > MOST) {
        au_error(c->diags, AU_E0812, n->span,
                 "written out, this expression is too large to be computed at launch: it uses "
                 "what it names several times");
        c->failed = true;
        return;
    }
    switch ((int)n->op) {
    case AU_OP_F32:
        memcpy(&bits, &n->number, sizeof bits);
        constant(c, AULE_E_CONST_FLOAT, bits);
        return;
    case AU_OP_I32: constant(c, AULE_E_CONST_INT, (uint64_t)(int64_t)n->integer); return;
    case AU_OP_SIZE:
        if (c->attn->sizes[n->integer].fixed >= 0)
            constant(c, AULE_E_CONST_INT, (uint64_t)c->attn->sizes[n->integer].fixed);
        else
            word(c, AULE_E_SIZE, (uint32_t)n->integer);
        return;
    case AU_OP_PARAM: word(c, AULE_E_PARAM, (uint32_t)n->integer); return;
    default: break;
    }
    if (!codes[n->op]) {
        au_error(c->diags, AU_E0812, n->span,
                 "this expression cannot be computed at launch: it must be arithmetic on sizes, "
                 "parameters and constants");
        c->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n->count && !c->failed; i++) expression(c, attn_arg(c->attn, e, i));
    word(c, codes[n->op], 0);
}

bool launch_code(AuArena *arena, AuDiags *diags, const AuAttn *attn, AuExpr e, AuLaunchExpr *out)
{
    Code c = {.arena = arena, .diags = diags, .attn = attn};
    expression(&c, e);
    *out = (AuLaunchExpr){c.words, c.count};
    return !c.failed;
}
