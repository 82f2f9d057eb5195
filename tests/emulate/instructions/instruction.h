/* instruction.h - single instructions as the documents say them: what a machine's registers hold before and after, forms of an instruction with
 * random operands and modifiers, and their C meaning. It shares nothing with the emulator. */
#ifndef INSTRUCTION_H
#define INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WIDEST = 64, VECTORS = 12, SCALARS = 16, FIRST_V = 10, FIRST_S = 32, MOST_SOURCES = 3 };
enum { TO_VCC = 99 }; /* a mask's place that is no s register */

/* As it lies in memory: lanes, then scalars. */
typedef struct State {
    uint32_t v[WIDEST][VECTORS];
    uint32_t s[SCALARS], vcc[2], exec[2], scc, m0, unused[2];
} State;

typedef enum Generation { GFX9, GFX10, GFX11, GFX12 } Generation;
typedef struct Machine {
    const char *name;
    Generation generation;
    uint32_t lanes;
    bool sdwa;
} Machine;

/* How a register's result is compared: bits; a real of 32 bits, 64 (with the next register), two of 16, bf16, where a NaN is any NaN; within a
 * unit of the last place; within 2^-18. */
typedef enum Kind { BITS, REAL, REAL64, HALVES, BRAINS, NEAR, SINE } Kind;

typedef struct Source {
    char kind; /* v, s, c: a constant, m: a mask */
    uint8_t reg;
    uint64_t bits; /* of a constant, as it is read */
    const char *text;
    bool neg, abs, high; /* high: the upper half (op_sel, .h) */
    bool second[2];      /* of pairs: which half each result takes, and its sign */
    bool minus[2];
    uint8_t select; /* SDWA: 0 the dword, 1 to 4 a byte, 5 and 6 a half */
} Source;

typedef struct Meaning Meaning;
typedef struct Form {
    const Meaning *meaning;
    const Machine *machine;
    uint8_t table; /* of the meaning, and which of its rows */
    uint16_t row;
    char text[200];
    Source source[MOST_SOURCES];
    uint8_t to, mask_to;                   /* places of the results in State */
    uint8_t first_from[2], second_from[2]; /* of two at once */
    bool high, clamp, sdwa, preserve, mixes_half;
    uint8_t omod, select;
    char
        dpp; /* 0, or q: quad_perm, l, r, o: row_shl, shr, ror; m, h: mirrors; s: row_share; x: row_xmask; f, w: row_bcast 15, 31 */
    uint8_t dpp_argument[4], rows, banks;
    bool zeros, fetches; /* bound_ctrl, fi */
    int32_t immediate;
    uint8_t kinds[VECTORS], scalar_kind;
    uint64_t unsaid[VECTORS]; /* lanes of which the documents say nothing */
} Form;

typedef struct Random {
    uint64_t state;
} Random;
uint32_t draw(Random *r, uint32_t below);

typedef uint64_t Lane(uint64_t a, uint64_t b, uint64_t c);
struct Meaning {
    const char *name, *types; /* the result's letter, the sources' */
    Lane *lane;
    void (*make)(Form *f, const char *name, Random *r); /* writes the text */
    void (*apply)(Form *f, const State *before, State *after);
    int more;
};

/* All of them; ends with a row without a name. */
const Meaning *meanings_of_lanes(void), *meanings_of_scalars(void), *meanings_of_masks(void),
    *meanings_of_pairs(void);

/* ---- numbers, numbers.c: halves by integers, sums rounded to odd, so that the next rounding is the only one */
double real_of(uint32_t bits);
uint32_t real_bits(double value); /* to nearest even */
double half_value(uint32_t half);
uint32_t half_bits(double value), half_towards_zero(double value), bf16_bits(double value);
double sum_to_odd(double a, double b);
double greater(double a, double b), between(double a, double b, double c);
double inside_of(double a, double least, double most); /* NaN is 0 */
uint32_t turned_bits(uint32_t a), ones(uint32_t a),
    chosen_bytes(uint32_t a, uint32_t b, uint32_t select);
uint32_t first_from(uint64_t a, int at, int step);
int64_t signed24(uint32_t a), sorted3(int64_t a, int64_t b, int64_t c, int which);
int32_t high_word(int64_t a), signed_field(int32_t a, uint32_t from, uint32_t count);
uint64_t field_of(uint64_t a, uint64_t from, uint64_t count);
uint64_t signed_field64(int64_t a, uint64_t from, uint64_t count, unsigned bits);
static inline uint32_t pair_of(uint32_t low, uint32_t high)
{
    return (low & 0xffff) + (high << 16);
}

/* ---- parts that makers share, forms.c */
void say(Form *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void draw_source(Form *f, unsigned n, char type, Random *r, const char *kinds); /* of these kinds */
void say_source(Form *f, unsigned n, char type, bool halves);
void say_mask(Form *f, uint8_t place); /* s[2n:2n+1] or vcc, of the machine's width */
uint8_t draw_mask(Random *r);
unsigned width_of(char type); /* bits */
void make_lanes(Form *f, const char *name, Random *r);

/* ---- parts that meanings share, lanes.c */
uint64_t exec_lanes(const Form *f, const State *s);
uint64_t source_bits(const Form *f, const State *s, unsigned n, char type, unsigned lane);
uint64_t mask_of(const Form *f, const State *s, uint8_t place);
void set_mask(const Form *f, State *s, uint8_t place, uint64_t bits);
void apply_lanes(Form *f, const State *before, State *after);
uint64_t limited(const Form *f, char type, uint64_t bits);
bool is_real(char type);

#endif
