/* affine.h - a mask as cases: it holds where one of them does, and a case is what must hold
 * together. With i the row and j the column of a tile of pairs, a case is a list of inequalities
 * that are affine in i and j, a list of conditions that depend on neither, and whether anything
 * else was there, too, that is none of these. */
#ifndef AU_DSL_ATTN_AFFINE_H
#define AU_DSL_ATTN_AFFINE_H

#include "attn.h"

enum { AU_AFFINE_TERMS = 12, AU_AFFINE_SPECIALS = 4, AU_MAX_CASES = 16 };

/* How an expression of i alone moves as i grows. */
typedef enum AuMotion {
    AU_MOVES_NO,
    AU_MOVES_UP,
    AU_MOVES_DOWN,
    AU_MOVES_ONE_WAY,
    AU_MOVES_ANY
} AuMotion;

typedef struct AuAffineTerm {
    AuExpr e; /* i32; of neither i nor j, or of i alone and monotone */
    int64_t k;
    AuMotion motion;
} AuAffineTerm;

/* row * i + col * j + sum of terms + constant, at least 0 */
typedef struct AuAffine {
    int64_t row, col, constant;
    AuAffineTerm terms[AU_AFFINE_TERMS];
    uint32_t count;
    AuAffineTerm specials
        [AU_AFFINE_SPECIALS]; /* min, max, abs, where, idiv of j: gone once the cases are made */
    uint32_t special_count;
    bool failed; /* not of this form, or the numbers are too large */
} AuAffine;

typedef struct AuCase {
    AuAffine *affine;
    uint32_t count, capacity;
    AuExpr *when; /* bool, of neither i nor j */
    uint32_t when_count, when_capacity;
    bool unknown;
} AuCase;

typedef struct AuCases {
    AuCase *at;
    uint32_t count; /* none: the mask never holds */
} AuCases;

/* row and col are AU_AX_Q and AU_AX_KV, or the other way around. */
AuCases attn_cases(AuAttn *a, AuArena *arena, AuExpr mask, uint8_t row, uint8_t col);

/* By node: does it hold a number that callers give, a parameter or an input? Begins empty; nodes are looked at once. */
typedef struct AuGiven {
    bool *at;
    uint32_t count, capacity;
} AuGiven;

/* Such terms of an inequality may be as large as numbers are, 2^31 - 1 for a window that is none. After this they count as 2^29 at most, so that
 * no sum with rows, columns and lengths leaves what 32 bits hold: as good as infinite beside fewer than 2^28 of these. What is taken away from
 * another is taken from it first: times of a clock are large, their difference is not. */
void attn_bound_given(AuAttn *a, AuGiven *given, AuAffine *f);

/* to += k * from */
void attn_affine_add(AuAffine *to, const AuAffine *from, int64_t k);

#endif
