/* internal.h - the state of the C printer, shared by its files and by dialects. */
#ifndef AU_CODEGEN_CPRINT_INTERNAL_H
#define AU_CODEGEN_CPRINT_INTERNAL_H

#include "cprint.h"

/* What the printer knows of a value. */
typedef struct AuCValue {
    AuCExpr expr;  /* how to refer to it */
    uint32_t uses; /* by instructions that are printed */
    uint32_t
        region; /* where it is made: the instruction that owns the region, twice, plus 1 in `else` */
    uint32_t used_in; /* where it is used; C_MANY_REGIONS: in several */
    uint64_t
        reads; /* memories (bit index modulo 64) that its expression looks at when it is evaluated */
    bool live;    /* something visible comes of it */
    bool pending; /* made, not printed yet: waits to become part of its only user */
} AuCValue;
#define C_MANY_REGIONS UINT32_MAX

typedef struct AuCMemory {
    const char *name;
    bool used;
    bool split;     /* a LANE array of which all indices are constant: one variable an element */
    uint32_t scope; /* LANE: region in which it is declared */
    uint32_t first_use;    /* LANE: instruction of that region before which it is declared */
    bool starts_here;      /* that instruction is its declaration */
    const char **elements; /* split: their names, NULL where not used */
} AuCMemory;

typedef struct AuCNames AuCNames; /* names.c: identifiers taken in the present kernel */

struct AuCPrinter {
    const AuCDialect *dialect;
    AuArena *arena;
    AuDiags *diags;
    const AuKernel *k;
    AuText *out;
    uint32_t indent;
    uint32_t region; /* of the instruction that is printed */
    AuCNames *names;
    AuCValue *values;
    AuCMemory *mems;
    const bool *written; /* by instruction: loops over arrays that are unrolled; NULL: all */
    const char **args;   /* names of scalar and pointer arguments */
    const char *block_name[3], *blocks_name[3], *lane_name, *warp_name; /* NULL: not used */
    AuVal *pending; /* in the order in which they were made */
    uint32_t pending_count, pending_capacity;
    uint64_t reading;        /* memories that the operands taken since the last statement look at */
    AuLanes executors;       /* which values differ between the executors of a block */
    const AuInstr *expanded; /* the operation whose pattern is filled */
    struct {
        uint32_t source, line;
    } placed;        /* what the last comment of lines.c said */
    uint32_t parted; /* depth of control flow that executors may take differently */
    bool good;
};

/* ---- names.c */
AuCNames *cprint_names_new(AuArena *arena, const AuCDialect *dialect);
/* An identifier that is still free, made from [wanted]; NULL: t1, t2, ... */
const char *cprint_name(AuCPrinter *p, const char *wanted);
bool cprint_is_identifier(const AuCDialect *dialect, const char *name);

/* A name for the variable of a loop. */
const char *cprint_counter(AuCPrinter *p);
/* Names taken between the two are free again: those of a region, which nothing outside sees. */
uint32_t cprint_names_open(const AuCPrinter *p);
void cprint_names_close(AuCPrinter *p, uint32_t opened);

/* ---- survey.c */
void cprint_survey(AuCPrinter *p);
/* The line before a loop, NULL: none. As the IR says; but loops over arrays of a lane are unrolled, since a GPU's registers have no
 * indices. */
const char *cprint_unroll(const AuCPrinter *p, AuVal loop);
static inline uint32_t cprint_region(uint32_t owner, bool other) { return owner * 2 + other; }

/* ---- expr.c */
const char *cprint_type(const AuCPrinter *p, AuKType type, bool is_unsigned);
/* Whether the dialect has values of the type. */
bool cprint_has_type(const AuCPrinter *p, AuKType type);
/* Eight numbers of 16 bits where the dialect has no such vectors. */
bool cprint_is_eight(const AuCPrinter *p, AuKType type);
/* An error that names the operation. */
AuCExpr cprint_lacks(AuCPrinter *p, const AuInstr *in);
/* The text with parentheses if it binds looser than [least]. */
const char *cprint_within(AuCPrinter *p, AuCExpr e, AuCBinding least);
/* Fills a pattern of the dialect (cprint.h); the binding follows from its form. */
AuCExpr cprint_expand(AuCPrinter *p, const char *pattern, AuKType type, const AuCExpr *operands);
/* An integer in the signed (unsigned) type. */
AuCExpr cprint_as(AuCPrinter *p, AuCExpr e, AuKType type, bool is_unsigned);
AuCExpr cprint_constant(AuCPrinter *p, const AuInstr *in, bool is_unsigned);
/* The expression of an operation of ops.def, or of VEC, ELEMENT, DOT2. No text: not in the dialect, reported. */
AuCExpr cprint_operation(AuCPrinter *p, const AuInstr *in);
/* The operand's expression, which is thereby used up if it was pending. */
AuCExpr cprint_take(AuCPrinter *p, const AuInstr *in, uint32_t n);

/* ---- cprint.c */
void cprint_line(AuCPrinter *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Lines of a comment, of a text that may contain anything. */
void cprint_comment(AuCPrinter *p, const char *text);
/* Gives a value a variable of its own. */
void cprint_declare(AuCPrinter *p, AuVal v);
/* Declares the pending values that look at one of the memories, before these change. */
void cprint_settle(AuCPrinter *p, uint64_t memories);

/* ---- lines.c: before a statement that comes of the instruction, the line of the script that it is of */
void cprint_place(AuCPrinter *p, const AuInstr *in);

/* ---- memory.c */
AuCExpr cprint_load(AuCPrinter *p, const AuInstr *in);
void cprint_store(AuCPrinter *p, const AuInstr *in);
void cprint_atomic(AuCPrinter *p, AuVal v);
void cprint_array(AuCPrinter *p, AuMem mem);
/* Declares the arrays of lanes that live from this instruction on. */
void cprint_lane_memories(AuCPrinter *p, uint32_t i);

/* ---- helpers.c */
const char *cprint_helpers(AuArena *arena, const AuCDialect *dialect, const char *text);

#endif
