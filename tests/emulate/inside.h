/* inside.h - the machine's state, and an instruction as it is kept once it was read. */
#ifndef EMULATE_INSIDE_H
#define EMULATE_INSIDE_H

#include "emulate.h"

#include <math.h>
#include <string.h>

enum { LANES = 64, VGPRS = 512 /* AGPRs from 256 on */, AGPR = 256, SGPRS = 128 };
/* Places of named scalar registers. */
enum { S_FLAT = 104, S_VCC = 106, S_TTMP = 108, S_M0 = 124, S_NULL = 125, S_EXEC = 126 };
/* The upper words of the buffer that is scratch memory, as this machine has it. */
#define SCRATCH_BUFFER 0x00e80000ffffffffull
/* Families, by what they write differently. */
typedef enum Family { CDNA, RDNA2, RDNA3, RDNA4 } Family;

/* A value of all lanes; the letters are those of the signatures in the tables (vector.def): h is a half as its f32. */
typedef struct Vec {
    uint64_t undef;   /* lanes with a part that nobody wrote */
    uint64_t low;     /* and of 64 bits those where it is in the low word */
    uint64_t half[2]; /* of a register, where it is in the low half, in the high one */
    union {
        uint32_t u[LANES];
        int32_t i[LANES];
        float f[LANES];
        uint64_t q[LANES];
        int64_t l[LANES];
        double d[LANES];
    };
} Vec;

typedef enum OperandKind { O_OFF, O_VECTOR, O_SCALAR, O_SCC, O_NUMBER, O_REAL } OperandKind;
typedef struct Operand {
    OperandKind kind;
    uint16_t reg;
    uint8_t regs;
    uint8_t half; /* 1: .l, 2: .h */
    bool neg, abs;
    int64_t number;
    float real;
} Operand;

enum { MOST_OPERANDS = 6 };
typedef enum Dpp {
    DPP_NONE,
    QUAD_PERM,
    ROW_SHL,
    ROW_SHR,
    ROW_ROR,
    ROW_MIRROR,
    HALF_MIRROR,
    ROW_BCAST,
    ROW_SHARE,
    ROW_XMASK
} Dpp;
typedef struct Modifiers {
    int32_t offset, offset0, offset1;
    uint8_t op_sel[4], op_sel_hi[4], neg_lo[4], neg_hi[4];
    bool has_op_sel_hi, clamp, glc, gds, bound_ctrl, fetches /* lanes that are off */, to_lds;
    int8_t omod;
    Dpp dpp;
    uint8_t dpp_argument[4], row_mask, bank_mask;
    int8_t select
        [4]; /* SDWA: of the result and two sources; 0 a dword, 1 to 4 a byte, 5 and 6 a word */
    bool preserve;
    uint16_t swizzle; /* or a table of three bits (bitop3) */
    uint8_t indexed;  /* gpr_idx(): sources 1, 2, 4, result 8 */
} Modifiers;

typedef struct Wave Wave;
typedef struct Inst Inst;
typedef void Run(Wave *w, const Inst *in);
typedef void Lanes(Vec *d, const Vec *a, const Vec *b, const Vec *c);
typedef struct Op {
    const char *name, *signature;
    Run *run;
    Lanes *lanes;
    int more; /* what [run] wants to know */
    uint8_t klass;
} Op;

struct Inst {
    const Op *op;
    uint64_t address;
    uint32_t bytes, cycles;
    uint8_t count;
    bool narrow; /* reads 16 bits of LDS a lane */
    Operand o[MOST_OPERANDS];
    Modifiers m;
    Inst *second; /* of a pair (v_dual_) */
    char text[160];
};

/* Counters of what was issued and is not known to be done. Machines have fewer: family_counter. */
typedef enum Counter { C_LOAD, C_STORE, C_LDS, C_SCALAR, COUNTERS } Counter;
typedef struct Pending {
    uint8_t counter;
    uint32_t at; /* done when the counter is; 0: nothing */
} Pending;

typedef struct LdsByte {
    uint32_t written, read; /* epochs (barriers passed) + 1; 0: never */
    uint32_t at;            /* of the writer's counter */
    uint16_t writer, readers;
    uint8_t counter; /* which one that is: a copy from global memory counts as a load */
} LdsByte;
enum { MOST_WAVES = 16 };

typedef struct Group {
    Emulator *e;
    const EmuLaunch *launch;
    uint32_t waves, epoch, lds_bytes, scratch_bytes;
    uint8_t *lds;
    LdsByte *shadow;
    uint32_t id[3];
    Wave *wave;
} Group;

struct Wave {
    Group *g;
    Emulator *e;
    uint32_t number, lanes;
    Family family;
    bool wide; /* 64 lanes */
    uint64_t pc, next;
    uint8_t indexed, index; /* gfx9's way to a register by number */
    bool ended, waiting, scc, scc_undef;
    uint32_t s[SGPRS], s_undef[SGPRS]; /* undef: bits that nobody wrote */
    uint64_t undef[2][VGPRS];          /* low, high halves */
    Pending v_pending[VGPRS], s_pending[SGPRS];
    uint32_t issued[COUNTERS], done[COUNTERS], unordered[COUNTERS];
    uint32_t v[VGPRS][LANES];
    uint8_t *scratch, *scratch_set;
    uint32_t released[COUNTERS]; /* what was done when it came to the last barrier */
};

struct Emulator {
    unsigned char *code;
    size_t bytes;
    char machine[32];
    const char *covers; /* machines that code of a generic ISA runs on */
    Family family;
    void *disassembler;
    Inst **cache; /* by a quarter of the address */
    uint64_t text_at, text_bytes, text_offset;
    char kernel[160], error[512];
    bool failed;
    EmuCounts counts;
    uint64_t random;
    uint64_t errors; /* EmuLaunch.errors */
    uint8_t lds_poison;
};

typedef struct Descriptor {
    uint32_t lds, scratch, arguments, rsrc1, rsrc2, rsrc3;
    uint16_t properties;
    uint64_t entry;
} Descriptor;

/* ---- object.c */
bool object_find(const Emulator *e, const char *kernel, Descriptor *d);
const unsigned char *object_at(const Emulator *e, uint64_t address, size_t bytes);

/* ---- decode.c */
Inst *decode(Wave *w, uint64_t address);
const Op *op_find(const char *name, size_t length);
bool decode_text(Inst *in, const char *text);

/* ---- rates.c: cycles in which it keeps its SIMD */
uint32_t cycles_of(const Wave *w, const Inst *in);

/* ---- banks.c: what an access to LDS by these lanes takes of its banks, into counts */
void lds_banks(Wave *w, const Vec *address, uint32_t offset, unsigned bytes, uint64_t lanes);

/* ---- state.c: reading and writing registers */
void fail(Wave *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline uint64_t exec_of(const Wave *w)
{
    return w->wide ? w->s[S_EXEC] | (uint64_t)w->s[S_EXEC + 1] << 32 : w->s[S_EXEC];
}
uint64_t scalar_get(Wave *w, const Operand *o, unsigned bits, uint64_t *undef);
void scalar_put(Wave *w, const Operand *o, unsigned bits, uint64_t value, uint64_t undef);
uint64_t mask_get(Wave *w, const Operand *o, uint64_t *undef); /* a bit a lane */
void mask_put(Wave *w, const Operand *o, uint64_t value, uint64_t undef);
void vector_get(Wave *w, const Inst *in, unsigned n, char type, Vec *v);
void vector_put(Wave *w, const Inst *in, unsigned n, char type, const Vec *v, uint64_t lanes);
/* After vector_put: what is known of the halves, where that is more than of the whole. */
void vector_halves(Wave *w, const Operand *o, const Vec *v, uint64_t lanes);
void vector_ready(Wave *w, unsigned reg, unsigned count);
void scalar_ready(Wave *w, unsigned reg, unsigned count);
static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
/* -0 is less than 0; of a NaN and a number, the number. */
static inline float largest(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a > b || (a == b && signbit(b)) ? a : b;
}
static inline float smallest(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a < b || (a == b && signbit(a)) ? a : b;
}
uint32_t half_of_float(float value);
float fused_halves(float a, float b, float c);
uint32_t half_cut(float value);
float float_of_half(uint32_t half);
uint32_t bf16_of_float(float value);

/* ---- waits.c */
uint32_t issue(Wave *w, Counter counter, bool in_order);
void set_pending(Wave *w, unsigned reg, unsigned count, Counter counter, uint32_t at);
Counter family_counter(const Wave *w, Counter counter);
bool is_pending(const Wave *w, Pending p);
void lds_read(Wave *w, uint32_t address, uint32_t bytes);
void lds_write(Wave *w, uint32_t address, uint32_t bytes, Counter counter, uint32_t at);
void lds_barrier(Wave *w);

/* ---- the tables */
extern const Op wait_ops[], scalar_ops[], vector_ops[], special_ops[], memory_ops[], matrix_ops[];

#endif
