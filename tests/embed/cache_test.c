/* cache_test.c - functions of static builds over a cache of codes: new rows by the ends of sequences and by slots, what is then read of
 * them, parts of the keys that are joined, packed keys with scales of heads, and calls that are refused. Standard library alone. */
#include "coded.h"
#include "queued.h"
#include "served.h"

#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 3, H = 4, HK = 2, S = 2, D = 16, SLOTS = 4, ENTRIES = 6, ROOM = SLOTS * ENTRIES };
enum { PAGES = B * ENTRIES + 1, GROUP = 8, GROUPS = D / GROUP, BYTES = 1 << 20 };
enum { ROWS = PAGES * HK * SLOTS, BEFORE = 0x55 };

static int failures;
static const int32_t lengths[B] = {23, 0, 6};
static unsigned char workspace[BYTES] __attribute__((aligned(64)));

static void expect(int holds, const char *what)
{
    if (holds) return;
    printf("failed: %s\n", what);
    failures++;
}

/* k is i8 with a scale a token, f16; v is of 4 bits with a scale and a zero point, f32, for eight channels. */
typedef struct Cache {
    int8_t k[ROWS * D];
    uint8_t v[ROWS * D / 2];
    uint16_t k_scale[ROWS];
    float v_scale[ROWS * GROUPS], v_zero[ROWS * GROUPS];
} Cache;

typedef struct Rows { /* of all sequences, as many as the longest has */
    float k[B * HK * ROOM * D], v[B * HK * ROOM * D];
} Rows;

static int32_t table[B * ENTRIES];
static Rows rows;

static void fill(void)
{
    reference_fill(rows.k, B * HK * ROOM * D, 1);
    reference_fill(rows.v, B * HK * ROOM * D, 2);
    for (int n = 0; n < B * ENTRIES; n++) table[n] = 1 + (n * 7 + 3) % (B * ENTRIES);
}

/* Row j of sequence b among the new ones: those end with the sequence. */
static const float *new_row(const float *of, int b, int h, int j)
{
    return of + ((size_t)(b * HK + h) * ROOM + (size_t)(ROOM - lengths[b] + j)) * D;
}

static size_t place_of(int b, int h, int j)
{
    return (size_t)((table[b * ENTRIES + j / SLOTS] * HK + h) * SLOTS + j % SLOTS);
}

static double half_of(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    return exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
}

static double key_of(const Cache *c, size_t row, int d)
{
    return half_of(c->k_scale[row]) * c->k[row * D + (size_t)d];
}

static double value_of(const Cache *c, size_t row, int d)
{
    const int byte = c->v[(row * D + (size_t)d) / 2], code = d % 2 ? byte >> 4 : byte & 15;
    const size_t group = row * GROUPS + (size_t)(d / GROUP);
    return (double)c->v_scale[group] * ((code > 7 ? code - 16 : code) - (double)c->v_zero[group]);
}

/* ---- new rows */

static served_append_args append_of(Cache *c)
{
    served_append_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = SERVED_F32;
    a.B = B, a.D = D, a.Hk = HK, a.T_pages = PAGES, a.T_slots = SLOTS, a.T_entries = ENTRIES;
    a.new_batch = B, a.new_rows = ROOM;
    a.k = c->k, a.v = c->v, a.k_scale = c->k_scale, a.v_scale = c->v_scale, a.v_zero = c->v_zero;
    a.k_new = rows.k, a.v_new = rows.v, a.T_table = table, a.T_lengths = lengths;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    return a;
}

/* Each row is what it was, as near as its codes are apart; nothing else was written. */
static void check_rows(const Cache *c)
{
    static Cache nothing;
    static char own[ROWS];
    memset(&nothing, BEFORE, sizeof nothing), memset(own, 0, sizeof own);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < HK; h++)
            for (int j = 0; j < lengths[b]; j++) {
                const size_t row = place_of(b, h, j);
                own[row] = 1;
                for (int d = 0; d < D; d++) {
                    const double k = fabs(key_of(c, row, d) - (double)new_row(rows.k, b, h, j)[d]),
                                 v = fabs(value_of(c, row, d) -
                                          (double)new_row(rows.v, b, h, j)[d]),
                                 scale = (double)c->v_scale[row * GROUPS + (size_t)(d / GROUP)];
                    if (!(k <= 0.55 * half_of(c->k_scale[row]))) expect(0, "an element of k");
                    if (!(v <= 0.51 * scale)) expect(0, "an element of v");
                }
            }
    for (size_t row = 0; row < ROWS; row++)
        if (!own[row] && (memcmp(c->k + row * D, nothing.k, D) != 0 ||
                          memcmp(c->v + row * D / 2, nothing.v, D / 2) != 0 ||
                          c->k_scale[row] != nothing.k_scale[0]))
            expect(0, "rows of others are as they were");
}

static Cache by_ends;

static void test_append(void)
{
    memset(&by_ends, BEFORE, sizeof by_ends);
    const served_append_args a = append_of(&by_ends);
    const int status = served_append(&a);
    expect(status == 0, served_message(status));
    check_rows(&by_ends);
}

/* All tokens as one batch, some of which go nowhere; no list is there. */
static void test_slots(void)
{
    static Cache c;
    static int64_t slots[B * ROOM];
    static Rows all;
    memset(&c, BEFORE, sizeof c);
    for (int n = 0; n < B * ROOM; n++) {
        const int b = n / ROOM, j = n % ROOM - (ROOM - lengths[b]);
        slots[n] =
            j < 0 ? (n % 2 ? -1 : INT64_MAX) : table[b * ENTRIES + j / SLOTS] * SLOTS + j % SLOTS;
        for (int h = 0; h < HK; h++) {
            const size_t from = ((size_t)(b * HK + h) * ROOM + (size_t)(n % ROOM)) * D,
                         to = ((size_t)h * B * ROOM + (size_t)n) * D;
            memcpy(all.k + to, rows.k + from, D * sizeof *all.k);
            memcpy(all.v + to, rows.v + from, D * sizeof *all.v);
        }
    }
    served_append_args a = append_of(&c);
    a.new_batch = 1, a.new_rows = B * ROOM, a.k_new = all.k, a.v_new = all.v;
    a.slots = slots, a.T_table = NULL, a.T_lengths = NULL;
    const int status = served_append(&a);
    expect(status == 0, served_message(status));
    expect(memcmp(&c, &by_ends, sizeof c) == 0, "by slots as by the ends of sequences");
}

static void refused(const served_append_args *a, const char *what)
{
    static Cache before;
    before = by_ends;
    const char *said = served_message(served_append(a));
    expect(strstr(said, what) != NULL, said);
    expect(memcmp(&before, &by_ends, sizeof before) == 0, "what is refused writes nothing");
}

static void test_refused(void)
{
    static const int64_t slots[B * ROOM];
    const served_append_args right = append_of(&by_ends);
    served_append_args a = right;
    a.T_table = NULL, refused(&a, "T_table is NULL, and there are no slots that say where rows go");
    a = right, a.T_lengths = NULL, refused(&a, "T_lengths is NULL, and there are no slots");
    a = right, a.new_batch = 2, refused(&a, "new_batch is not the number of sequences");
    a = right, a.k_new = NULL, refused(&a, "k_new is NULL");
    a = right, a.k_scale = NULL, refused(&a, "k_scale is NULL");
    a = right, a.v_zero = NULL, refused(&a, "v_zero is NULL");
    a = right, a.D = 32, refused(&a, "nothing was compiled for this dtype and these widths");
    a = right, a.T_slots = 0, refused(&a, "requires k has a slot a page at least");
    a = right, a.k_scale = (uint16_t *)((char *)by_ends.k_scale + 1);
    refused(&a, "k_scale is not aligned to its elements");
    a = right, a.slots = slots, a.T_pages = 1 << 30, a.T_slots = 1 << 10;
    refused(&a, "k has more slots than 2^31 - 1 can number");
}

/* Lists that nobody looks at here make no address outside: the sanitizers, where they watch, say so. */
static void test_wild(void)
{
    static Cache c, before;
    int32_t odd[B * ENTRIES], ends[B] = {INT32_MAX, INT32_MIN, ROOM + 1};
    for (int n = 0; n < B * ENTRIES; n++) odd[n] = n % 3 ? INT32_MIN + n : PAGES + n;
    memset(&c, BEFORE, sizeof c), before = c;
    served_append_args a = append_of(&c);
    a.T_table = odd, a.T_lengths = ends;
    expect(served_append(&a) == 0, "wild lists name no rows");
    expect(memcmp(&c, &before, sizeof c) == 0, "and nothing is written");
}

/* ---- what is read */

static float q[B * H * S * D], o[B * H * S * D], lse[B * H * S];

static served_forward_args forward_of(const Cache *c)
{
    served_forward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = SERVED_F32;
    a.B = B, a.H = H, a.S = S, a.D = D, a.Hk = HK;
    a.T_pages = PAGES, a.T_slots = SLOTS, a.T_entries = ENTRIES;
    a.q = q, a.k = c->k, a.v = c->v, a.o = o, a.lse = lse, a.T_table = table, a.T_lengths = lengths;
    a.k_scale = c->k_scale, a.v_scale = c->v_scale, a.v_zero = c->v_zero;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    return a;
}

static void test_forward(void)
{
    static float k[HK * ROOM * D], v[HK * ROOM * D];
    reference_fill(q, B * H * S * D, 3);
    const served_forward_args a = forward_of(&by_ends);
    const int status = served_forward(&a);
    expect(status == 0, served_message(status));
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < HK; h++)
            for (int n = 0; n < lengths[b] * D; n++) {
                const size_t row = place_of(b, h, n / D), to = (size_t)(h * lengths[b] * D + n);
                k[to] = (float)key_of(&by_ends, row, n % D);
                v[to] = (float)value_of(&by_ends, row, n % D);
            }
        const Reference r = {.H = H,
                             .Hk = HK,
                             .S = S,
                             .T = lengths[b],
                             .D = D,
                             .q = q + b * H * S * D,
                             .k = k,
                             .v = v,
                             .window = INT64_MAX};
        if (lengths[b])
            expect(reference_error(&r, o + b * H * S * D, lse + b * H * S) < 2e-5, "a sequence");
        for (int n = 0; n < H * S * D && !lengths[b]; n++)
            if (o[b * H * S * D + n] != 0) expect(0, "rows without keys are 0");
    }
}

/* ---- parts: the pages before, those behind, and none, of one query each, to which all keys count */

enum { PARTS = 3, STATES = B * H };
static float acc[PARTS * STATES * D], m[PARTS * STATES], r[PARTS * STATES], seen[PARTS * STATES];

static void make_part(int part, const int32_t *of, const int32_t *counts)
{
    served_unfinished_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = SERVED_F32;
    a.B = B, a.H = H, a.S = 1, a.D = D, a.Hk = HK;
    a.T_pages = PAGES, a.T_slots = SLOTS, a.T_entries = ENTRIES;
    a.q = q, a.k = by_ends.k, a.v = by_ends.v, a.T_table = of, a.T_lengths = counts;
    a.k_scale = by_ends.k_scale, a.v_scale = by_ends.v_scale, a.v_zero = by_ends.v_zero;
    a.acc = acc + part * STATES * D, a.state_m = m + part * STATES, a.state_r = r + part * STATES;
    a.seen = seen + part * STATES;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    const int status = served_unfinished(&a);
    expect(status == 0, served_message(status));
    if (part) return;
    a.acc = NULL;
    const char *said = served_message(served_unfinished(&a));
    expect(strstr(said, "acc is NULL") != NULL, said);
}

static served_combine_args combine_of(float *joined, float *sums)
{
    served_combine_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = SERVED_F32;
    a.B = B, a.H = H, a.S = 1, a.D = D, a.parts = PARTS;
    a.acc_parts = acc, a.state_m_parts = m, a.state_r_parts = r, a.seen_parts = seen;
    a.o = joined, a.lse = sums;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    return a;
}

static void test_parts(void)
{
    enum { FIRST = 2 };
    static float joined[STATES * D], sums[STATES];
    int32_t behind[B * ENTRIES], some[B], rest[B], none[B] = {0};
    memset(behind, 0xff, sizeof behind);
    for (int b = 0; b < B; b++) {
        some[b] = lengths[b] < FIRST * SLOTS ? lengths[b] : FIRST * SLOTS;
        rest[b] = lengths[b] - some[b];
        memcpy(behind + b * ENTRIES, table + b * ENTRIES + FIRST,
               (ENTRIES - FIRST) * sizeof *table);
    }
    served_forward_args whole = forward_of(&by_ends);
    whole.S = 1;
    expect(served_forward(&whole) == 0, "all keys at once");
    make_part(0, table, some), make_part(1, table, none), make_part(2, behind, rest);
    served_combine_args a = combine_of(joined, sums);
    const int status = served_combine(&a);
    expect(status == 0, served_message(status));
    for (int n = 0; n < STATES * D; n++)
        if (!(fabsf(joined[n] - o[n]) < 1e-5f)) expect(0, "parts are as all keys at once");
    for (int n = 0; n < STATES; n++)
        if (sums[n] != lse[n] && !(fabsf(sums[n] - lse[n]) < 1e-5f)) expect(0, "and so is lse");
    a.parts = 0, a.acc_parts = a.state_m_parts = a.state_r_parts = a.seen_parts = NULL;
    expect(served_combine(&a) == 0, "no part");
    for (int n = 0; n < STATES * D; n++)
        if (joined[n] != 0) expect(0, "no part is a row without a pair");
    a.parts = PARTS;
    const char *said = served_message(served_combine(&a));
    expect(strstr(said, "acc_parts is NULL") != NULL, said);
}

/* ---- packed keys, with a scale a head that is the same for all sequences */

enum { TOTAL = 13, HEADS = 2 };

static void test_packed(void)
{
    static const int32_t starts[B + 1] = {0, 9, 9, 13};
    static const int64_t spread[] = {0, 1, 0, 0};
    static const float k_scale[HEADS] = {0.25f, 0.125f}, v_scale[HEADS] = {0.5f, 2};
    static float rows_of[HEADS * TOTAL * D], found[HEADS * TOTAL * D], k[HEADS * TOTAL * D],
        v[HEADS * TOTAL * D];
    static uint8_t codes[2][HEADS * TOTAL * D];
    reference_fill(rows_of, HEADS * TOTAL * D, 5);
    for (int n = 0; n < HEADS * TOTAL * D; n++) { /* e4m3: s eeee mmm; of exponents about 1 */
        const int h = n / TOTAL / D;
        for (int side = 0; side < 2; side++) {
            const int bits = n * (side ? 29 : 37) % 64, sign = n * (side ? 5 : 3) % 2;
            const double number = ldexp(8 + bits % 8, 5 + bits / 16 - 7 - 3) * (sign ? -1 : 1);
            codes[side][n] = (uint8_t)(sign << 7 | (5 + bits / 16) << 3 | bits % 8);
            (side ? v : k)[n] = (float)(number * (double)(side ? v_scale : k_scale)[h]);
        }
    }
    coded_forward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = CODED_F32;
    a.H = HEADS, a.S = TOTAL, a.T = TOTAL, a.D = D, a.S_ends = B + 1;
    a.q = rows_of, a.k = codes[0], a.v = codes[1], a.o = found;
    a.S_starts = a.T_starts = starts;
    a.k_scale = k_scale, a.v_scale = v_scale, a.k_scale_strides = a.v_scale_strides = spread;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    const int status = coded_forward(&a);
    expect(status == 0, coded_message(status));
    for (int b = 0; b < B; b++) {
        static float own[4][HEADS * TOTAL * D];
        const float *from[] = {rows_of, k, v, found};
        const int count = starts[b + 1] - starts[b];
        for (int n = 0; n < 4; n++)
            for (int h = 0; h < HEADS; h++)
                memcpy(own[n] + h * count * D, from[n] + (h * TOTAL + starts[b]) * D,
                       (size_t)(count * D) * sizeof(float));
        const Reference of = {.H = HEADS,
                              .Hk = HEADS,
                              .S = count,
                              .T = count,
                              .D = D,
                              .q = own[0],
                              .k = own[1],
                              .v = own[2],
                              .window = INT64_MAX};
        if (count) expect(reference_error(&of, own[3], NULL) < 2e-5, "packed rows");
    }
    a.k_scale = NULL;
    const char *said = coded_message(coded_forward(&a));
    expect(strstr(said, "k_scale is NULL") != NULL, said);
}

/* ---- packed new rows, values of e5m2 with a scale for each sequence */

enum { FRESH = 9 };
static const int32_t fresh[B + 1] = {0, 4, 4, FRESH};

typedef struct Queue {
    float k[PAGES * HEADS * SLOTS * D];
    uint8_t v[PAGES * HEADS * SLOTS * D];
} Queue;

static queued_append_args queue_of(Queue *to, const float *from)
{
    static const float scale[B * HEADS] = {0.5f, 1, 2, 4, 0.25f, 0.5f};
    queued_append_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = QUEUED_F32;
    a.B = B, a.H = HEADS, a.D = D, a.T_pages = PAGES, a.T_slots = SLOTS, a.T_entries = ENTRIES;
    a.S_ends = B + 1, a.new_batch = 1, a.new_rows = FRESH;
    a.k = to->k, a.v = to->v, a.v_scale = scale, a.k_new = a.v_new = from;
    a.S_starts = fresh, a.T_table = table, a.T_lengths = lengths;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    return a;
}

static void queue_refused(const queued_append_args *a, const char *what)
{
    const char *said = queued_message(queued_append(a));
    expect(strstr(said, what) != NULL, said);
}

static double fifth_of(uint8_t code) /* s eeeee mm */
{
    const int exponent = code >> 2 & 31, mantissa = code & 3;
    const double size = exponent ? ldexp(4 + mantissa, exponent - 17) : ldexp(mantissa, -16);
    return code & 0x80 ? -size : size;
}

static void test_queue(void)
{
    static Queue queue;
    static float from[HEADS * FRESH * D];
    static int64_t slots[FRESH];
    reference_fill(from, HEADS * FRESH * D, 6);
    const queued_append_args right = queue_of(&queue, from);
    queued_append_args a = right;
    const int status = queued_append(&right);
    expect(status == 0, queued_message(status));
    for (int b = 0; b < B; b++)
        for (int n = fresh[b]; n < fresh[b + 1]; n++)
            for (int h = 0; h < HEADS; h++) {
                const int j = lengths[b] - (fresh[b + 1] - n);
                const size_t row =
                    (size_t)((table[b * ENTRIES + j / SLOTS] * HEADS + h) * SLOTS + j % SLOTS);
                const float *new = from + (h * FRESH + n) * D;
                expect(memcmp(queue.k + row * D, new, D * sizeof *new) == 0, "packed rows of k");
                for (int d = 0; d < D; d++) {
                    const double scale = (double)right.v_scale[b * HEADS + h],
                                 found = scale * fifth_of(queue.v[row * D + (size_t)d]);
                    if (!(fabs(found - (double)new[d]) <= fabs((double)new[d]) / 8 + scale / 65536))
                        expect(0, "packed rows of v");
                }
            }
    for (int n = 0; n < FRESH; n++) slots[n] = -1;
    a.new_batch = B, queue_refused(&a, "new_batch is not 1: without slots new rows are packed");
    a = right, a.S_starts = NULL, queue_refused(&a, "S_starts is NULL, and there are no slots");
    a = right, a.slots = slots,
    queue_refused(&a, "v_scale has another number of sequences than k_new");
    static const int64_t spread[] = {0, 1, 0, 0};
    static Queue before;
    before = queue;
    a.v_scale_strides = spread;
    expect(queued_append(&a) == 0, "a scale for all sequences");
    expect(memcmp(&before, &queue, sizeof queue) == 0, "slots that are none");
}

int main(void)
{
    fill();
    test_append();
    test_slots();
    test_refused();
    test_wild();
    test_forward();
    test_parts();
    test_packed();
    test_queue();
    printf("%d failed\n", failures);
    return failures != 0;
}
