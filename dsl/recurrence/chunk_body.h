/* chunk_body.h - what a chunk of a recurrence is made of: running sums of log decays, readers and writers, the matrices A
 * between them and their adjoints, the inverse. Included once for each type of numbers (steps_body.h).
 *
 * A chunk of C tokens has places 0..C between its tokens. Writer j writes at place j + 1. Reader i reads at place `at` and
 * sees the writers whose place is at most `upto`. Everything that decays is exp(total[late] - total[early]), early <= late,
 * and what is not seen is left out before the exponential, so that nothing is above 1 unless a decay is. */
/* NAME(x)(..) is a call, which the formatter takes for a cast. */
// clang-format off

/* Rows in memory as a matrix: elements a row and a column apart; mantissas of [bits] bits where they are multiplied. */
typedef struct NAME(Matrix) {
    const REAL *at;
    int64_t row, column;
    int32_t bits;
} NAME(Matrix);

typedef struct NAME(Reader) {
    const REAL *rows;   /* [C, K] */
    const REAL *factor; /* [C], NULL: 1. Applied behind products, never to an operand */
    AuReads reads;
} NAME(Reader);

typedef struct NAME(Chunk) {
    const NAME(Rows) *r; /* of the chunk: T is C */
    const AuEngine *how;
    AuArena *m;
    REAL *high, *low; /* [C + 1, G or 1]: total before each place, as a sum of two */
    NAME(Reader) q, x;
    REAL *Aqk, *Aqb, *Axk, *Axb, *inverse; /* [C, C] */
    REAL *fed;                             /* [C, V] what x reads of the state before the chunk */
    REAL *u, *p;                           /* [C, V] what k and b write */
} NAME(Chunk);

static REAL NAME(rounded)(REAL x, int32_t bits)
{
    return bits ? (REAL)au_round_bits(x, bits, INT32_MIN) : x;
}

/* out[rows, columns] += a b, of [rows, inner] and [inner, columns]; each sum in the order of the inner axis. Of b some columns at a time are
 * rounded, once for all rows. */
static void NAME(multiply)(REAL *restrict out, int64_t rows, int64_t inner, int64_t columns,
                           NAME(Matrix) a, NAME(Matrix) b)
{
    enum { SOME = 64 };
    for (int64_t first = 0; first < columns; first += SOME) {
        const int64_t some = columns - first < SOME ? columns - first : SOME;
        for (int64_t n = 0; n < inner; n++) {
            REAL row[SOME];
            for (int64_t j = 0; j < some; j++)
                row[j] = NAME(rounded)(b.at[n * b.row + (first + j) * b.column], b.bits);
            for (int64_t i = 0; i < rows; i++) {
                const REAL x = NAME(rounded)(a.at[i * a.row + n * a.column], a.bits);
                REAL *restrict to = out + i * columns + first;
                for (int64_t j = 0; j < some; j++) to[j] += x * row[j];
            }
        }
    }
}

static NAME(Matrix) NAME(plain)(const REAL *at, int64_t columns, int32_t bits)
{
    return (NAME(Matrix)){at, columns, 1, bits};
}

static NAME(Matrix) NAME(turned)(const REAL *at, int64_t columns, int32_t bits)
{
    return (NAME(Matrix)){at, 1, columns, bits};
}

static REAL *NAME(room)(const NAME(Chunk) *c, int64_t rows, int64_t columns)
{
    return AU_NEW_ARRAY(c->m, REAL, rows * columns + 1);
}

/* ---- decays */

static int64_t NAME(channels)(const NAME(Chunk) *c) { return c->r->G > 1 ? c->r->G : 1; }

static void NAME(sum_decays)(NAME(Chunk) *c)
{
    const int64_t C = c->r->T, G = NAME(channels)(c);
    c->high = NAME(room)(c, C + 1, G);
    c->low = NAME(room)(c, C + 1, G);
    for (int64_t t = 0; t < C; t++)
        for (int64_t n = 0; n < G; n++) {
            const REAL a = c->high[t * G + n], b = NAME(log_decay)(c->r, t, n), sum = a + b;
            const REAL back = sum - a;
            c->high[(t + 1) * G + n] = sum;
            if (!c->how->plain_sums) /* what the sum lost: Knuth's two-sum */
                c->low[(t + 1) * G + n] = c->low[t * G + n] + ((a - (sum - back)) + (b - back));
        }
}

/* What channel n keeps between two places. */
static REAL NAME(span)(const NAME(Chunk) *c, int64_t late, int64_t early, int64_t n)
{
    const int64_t G = NAME(channels)(c), l = late * G + (G > 1 ? n : 0),
                  e = early * G + (G > 1 ? n : 0);
    return c->r->G ? NAME(EXP)((c->high[l] - c->high[e]) + (c->low[l] - c->low[e])) : 1;
}

static int64_t NAME(at)(NAME(Reader) r, int64_t i)
{
    return r.reads == AU_READS_BEFORE ? i : i + 1;
}

static bool NAME(sees)(NAME(Reader) r, int64_t i, int64_t j)
{
    return j + 1 <= (r.reads == AU_READS_AFTER ? i + 1 : i);
}

static REAL NAME(factor)(NAME(Reader) r, int64_t i) { return r.factor ? r.factor[i] : 1; }

/* [C, K]: the rows, each channel by what it keeps between the chunk's start and the reader's place. */
static REAL *NAME(towards_start)(const NAME(Chunk) *c, NAME(Reader) r)
{
    const int64_t K = c->r->K;
    REAL *out = NAME(room)(c, c->r->T, K);
    for (int64_t i = 0; i < c->r->T; i++)
        for (int64_t n = 0; n < K; n++)
            out[i * K + n] = r.rows[i * K + n] * NAME(span)(c, NAME(at)(r, i), 0, n);
    return out;
}

static REAL *NAME(towards_end)(const NAME(Chunk) *c, const REAL *writer)
{
    const int64_t K = c->r->K;
    REAL *out = NAME(room)(c, c->r->T, K);
    for (int64_t j = 0; j < c->r->T; j++)
        for (int64_t n = 0; n < K; n++)
            out[j * K + n] = writer[j * K + n] * NAME(span)(c, c->r->T, j + 1, n);
    return out;
}

/* ---- A[i, j] = sum over channels of r_i w_j exp(total[at i] - total[j + 1]), of the writers that i sees; no factor */

enum { NAME(SUB) = 16 }; /* tokens of a sub-chunk, where decays have channels */

static REAL NAME(pair)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *w, int64_t i, int64_t j)
{
    const int64_t K = c->r->K, at = NAME(at)(r, i);
    REAL sum = 0;
    for (int64_t n = 0; n < K; n++)
        sum += r.rows[i * K + n] * w[j * K + n] * NAME(span)(c, at, j + 1, n);
    return sum;
}

/* Blocks below the diagonal are products: both factors decay towards the place of the first row, so that neither
 * exponent is positive where no decay is above 1. */
static REAL NAME(pair_below)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *w, int64_t i,
                             int64_t j)
{
    const int64_t K = c->r->K, first = NAME(at)(r, i / NAME(SUB) * NAME(SUB));
    const int32_t bits = c->how->operand;
    REAL sum = 0;
    for (int64_t n = 0; n < K; n++)
        sum += NAME(rounded)(r.rows[i * K + n] * NAME(span)(c, NAME(at)(r, i), first, n), bits) *
               NAME(rounded)(w[j * K + n] * NAME(span)(c, first, j + 1, n), bits);
    return sum;
}

static REAL *NAME(weights)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *w)
{
    const int64_t C = c->r->T, K = c->r->K;
    const int32_t bits = c->how->operand;
    REAL *A = NAME(room)(c, C, C);
    const bool vector = c->r->G > 1;
    if (!vector)
        NAME(multiply)(A, C, K, C, NAME(plain)(r.rows, K, bits), NAME(turned)(w, K, bits));
    for (int64_t i = 0; i < C; i++)
        for (int64_t j = 0; j < C; j++) {
            REAL *a = &A[i * C + j];
            if (!NAME(sees)(r, i, j))
                *a = 0;
            else if (!vector)
                *a *= NAME(span)(c, NAME(at)(r, i), j + 1, 0);
            else
                *a = i / NAME(SUB) == j / NAME(SUB) ? NAME(pair)(c, r, w, i, j)
                                                    : NAME(pair_below)(c, r, w, i, j);
        }
    return A;
}

/* Where gradients of A go: rows of the reader and of the writer, log decays [C, G]. */
typedef struct NAME(Into) {
    REAL *reader, *writer, *g;
} NAME(Into);

/* Pair (i, j) has the tokens j < t < at i between writer and reader. Nothing cancels: sums run up from nothing. */
static void NAME(straddle)(const NAME(Chunk) *c, NAME(Reader) r, int64_t i, int64_t first,
                           const REAL *of_pair, REAL *g, int64_t G)
{
    REAL sum = 0;
    for (int64_t t = first; t < NAME(at)(r, i) && t < c->r->T; t++) {
        g[t * G] += sum;
        sum += of_pair[t - first];
    }
}

static void NAME(scalar_back)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *w, const REAL *dA,
                              const REAL *A, NAME(Into) to)
{
    const int64_t C = c->r->T, K = c->r->K;
    const int32_t bits = c->how->operand;
    REAL *P = NAME(room)(c, C, C), *Z = NAME(room)(c, C, 1);
    for (int64_t i = 0; i < C; i++) {
        for (int64_t j = 0; j < C; j++) {
            const bool sees = NAME(sees)(r, i, j);
            P[i * C + j] = sees ? dA[i * C + j] * NAME(span)(c, NAME(at)(r, i), j + 1, 0) : 0;
            Z[j] = sees ? dA[i * C + j] * A[i * C + j] : 0;
        }
        if (c->r->G) NAME(straddle)(c, r, i, 0, Z, to.g, 1);
    }
    NAME(multiply)(to.reader, C, C, K, NAME(plain)(P, C, bits), NAME(plain)(w, K, bits));
    NAME(multiply)(to.writer, C, C, K, NAME(turned)(P, C, bits), NAME(plain)(r.rows, K, bits));
}

/* Block (I, J) below the diagonal, of one channel n. */
static void NAME(block_back)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *w, const REAL *dA,
                             NAME(Into) to, int64_t I, int64_t J, int64_t n)
{
    const int64_t C = c->r->T, K = c->r->K, first = NAME(at)(r, I);
    const int64_t end = I + NAME(SUB) < C ? I + NAME(SUB) : C, behind = J + NAME(SUB);
    const int32_t bits = c->how->operand;
    REAL of_i[NAME(SUB)] = {0}, of_j[NAME(SUB)] = {0}, whole = 0, before = 0;
    for (int64_t i = I; i < end; i++) {
        const REAL near = NAME(span)(c, NAME(at)(r, i), first, n);
        for (int64_t j = J; j < behind; j++) {
            const REAL far = NAME(span)(c, first, j + 1, n);
            const REAL d = NAME(rounded)(dA[i * C + j], bits);
            of_i[i - I] += d * NAME(rounded)(w[j * K + n] * far, bits) * near;
            of_j[j - J] += d * NAME(rounded)(r.rows[i * K + n] * near, bits) * far;
        }
    }
    for (int64_t i = I; i < end; i++) {
        const REAL along = r.rows[i * K + n] * of_i[i - I];
        to.reader[i * K + n] += of_i[i - I];
        whole += along;
        for (int64_t t = I; t < NAME(at)(r, i) && t < C; t++) to.g[t * K + n] += along;
    }
    for (int64_t j = J; j < behind; j++) {
        to.writer[j * K + n] += of_j[j - J];
        to.g[j * K + n] += before;
        before += w[j * K + n] * of_j[j - J];
    }
    for (int64_t t = behind; t < I; t++) to.g[t * K + n] += whole;
}

static void NAME(diagonal_back)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *w,
                                const REAL *dA, NAME(Into) to, int64_t i, int64_t n)
{
    const int64_t C = c->r->T, K = c->r->K, first = i / NAME(SUB) * NAME(SUB);
    REAL Z[NAME(SUB)] = {0};
    for (int64_t j = first; j < first + NAME(SUB) && j < C; j++) {
        if (!NAME(sees)(r, i, j)) continue;
        const REAL P = dA[i * C + j] * NAME(span)(c, NAME(at)(r, i), j + 1, n);
        to.reader[i * K + n] += P * w[j * K + n];
        to.writer[j * K + n] += P * r.rows[i * K + n];
        Z[j - first] = P * w[j * K + n] * r.rows[i * K + n];
    }
    NAME(straddle)(c, r, i, first, Z, to.g + n, K);
}

static void NAME(weights_back)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *w, const REAL *dA,
                               const REAL *A, NAME(Into) to)
{
    const int64_t C = c->r->T;
    if (c->r->G <= 1) {
        NAME(scalar_back)(c, r, w, dA, A, to);
        return;
    }
    for (int64_t n = 0; n < c->r->K; n++) {
        for (int64_t I = 0; I < C; I += NAME(SUB))
            for (int64_t J = 0; J < I; J += NAME(SUB)) NAME(block_back)(c, r, w, dA, to, I, J, n);
        for (int64_t i = 0; i < C; i++) NAME(diagonal_back)(c, r, w, dA, to, i, n);
    }
}

/* ---- (1 - A)^-1 of a strictly lower A whose rows have a factor: forward substitution */

static REAL *NAME(inverse)(const NAME(Chunk) *c, NAME(Reader) r, const REAL *A)
{
    const int64_t C = c->r->T;
    REAL *X = NAME(room)(c, C, C);
    for (int64_t i = 0; i < C; i++) {
        X[i * C + i] = 1;
        for (int64_t n = 0; n < i; n++)
            for (int64_t j = 0; j <= n; j++)
                X[i * C + j] += NAME(factor)(r, i) * A[i * C + n] * X[n * C + j];
    }
    return X;
}
// clang-format on
