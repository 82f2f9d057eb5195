/* memory.c - global and scratch memory, scalar loads, LDS. Every access is inside a buffer that was handed over, the kernel's arguments, the
 * dispatch packet, its LDS or scratch memory, and on a multiple of its element (of 4 bytes at most). */
#include "inside.h"

/* What the tables say of an access. */
enum {
    BYTES = 0xff,
    SIGNED = 1 << 8,
    D16 = 1 << 9,   /* one half of the register, the other stays */
    HIGH = 1 << 10, /* that of the upper 16 bits */
    STORE = 1 << 11,
    TWO = 1 << 12, /* two places */
    FAR = 1 << 13, /* their offsets count 64 elements */
    RETURNS = 1 << 14,
    ADD_F32 = 1 << 16,
    ADD_U32 = 2 << 16,
    INC_U32 = 3 << 16,
    SWAP_IF = 4 << 16,
    MAX_U32 = 5 << 16,
    ADD_PK_F16 = 6 << 16,
    ATOMIC = 0xf << 16,
    TURNED = 1 << 20 /* 16 lanes exchange 16-bit elements */
};

static unsigned registers_of(int more) { return ((more & BYTES) + 3u) / 4u; }

/* Of loads that come back in order a later one may write what an earlier one will. */
static void allow_rewrite(Wave *w, unsigned reg, unsigned count, Counter counter)
{
    const Counter c = family_counter(w, counter);
    if (w->unordered[c] > w->done[c]) return;
    for (unsigned n = reg; n < reg + count && n < VGPRS; n++)
        if (w->v_pending[n].counter == c) w->v_pending[n].at = 0;
}

static uint32_t extend(uint32_t value, int more)
{
    const unsigned bytes = more & BYTES;
    if (!(more & SIGNED) || bytes >= 4) return value;
    return bytes == 1 ? (uint32_t)(int8_t)value : (uint32_t)(int16_t)value;
}

/* The words that a load brought, [undef] a mask of lanes a word, into the registers of operand [n]. */
static void bring(Wave *w, const Inst *in, unsigned n, const Vec *words, unsigned first,
                  unsigned count, uint64_t lanes)
{
    Inst to = *in;
    for (unsigned r = 0; r < count; r++) {
        to.o[n] = in->o[n];
        to.o[n].reg = (uint16_t)(in->o[n].reg + first + r);
        if (in->op->more & D16) {
            to.o[n].half = in->op->more & HIGH ? 2 : 1;
            to.m.preserve = true;
            memset(to.m.op_sel, 0, sizeof to.m.op_sel);
            vector_put(w, &to, n, 'w', &words[r], lanes);
        } else {
            vector_put(w, &to, n, 'u', &words[r], lanes);
            if (!w->e->failed) vector_halves(w, &to.o[n], &words[r], lanes);
        }
    }
}

static void take_words(Wave *w, const Inst *in, unsigned n, unsigned count, Vec *words)
{
    Inst from = *in;
    for (unsigned r = 0; r < count; r++) {
        from.o[n].reg = (uint16_t)(in->o[n].reg + r);
        vector_get(w, &from, n, 'u', &words[r]);
        if (in->op->more & HIGH)
            for (int lane = 0; lane < LANES; lane++) words[r].u[lane] >>= 16;
        /* of less than a word, only the part that is stored must be known */
        if ((in->op->more & BYTES) <= 2 && in->o[n].kind == O_VECTOR)
            words[r].undef = words[r].half[0] = w->undef[(in->op->more & HIGH) != 0][in->o[n].reg];
    }
}

static bool is_known(Wave *w, const Vec *v, uint64_t lanes, const char *what)
{
    if (v->undef & lanes) {
        fail(w, "%s of lane %d is what nobody wrote", what, __builtin_ctzll(v->undef & lanes));
        return false;
    }
    return true;
}

/* ---- global memory */

static bool may_touch(Wave *w, uint64_t address, unsigned bytes, int lane)
{
    const unsigned element = bytes < 4 ? bytes : 4;
    if (w->g->launch->inside(w->g->launch->context, address, bytes) && address % element == 0)
        return true;
    fail(w, "lane %d: %u bytes at 0x%llx are %s", lane, bytes, (unsigned long long)address,
         address % element ? "misaligned" : "in no buffer");
    return false;
}

static bool global_addresses(Wave *w, const Inst *in, unsigned at, unsigned base, uint64_t lanes,
                             uint64_t *addresses)
{
    Vec v;
    uint64_t scalar = 0, undef = 0;
    const bool off = base >= in->count || in->o[base].kind == O_OFF;
    if (!off) scalar = scalar_get(w, &in->o[base], 64, &undef);
    if (undef) fail(w, "the address is what nobody wrote");
    vector_get(w, in, at, off ? 'q' : 'u', &v);
    if (!is_known(w, &v, lanes, "the address")) return false;
    for (int n = 0; n < LANES; n++)
        addresses[n] = (off ? v.q[n] : scalar + v.u[n]) + (uint64_t)(int64_t)in->m.offset;
    return true;
}

static void run_global(Wave *w, const Inst *in)
{
    const int more = in->op->more;
    const unsigned bytes = more & BYTES, count = registers_of(more);
    const uint64_t lanes = exec_of(w);
    uint64_t addresses[LANES];
    Vec words[4];
    memset(words, 0, sizeof words);
    const bool store = more & STORE;
    if (!global_addresses(w, in, store ? 0 : 1, 2, lanes, addresses)) return;
    if (store) {
        take_words(w, in, 1, count, words);
        for (unsigned r = 0; r < count; r++)
            if (!is_known(w, &words[r], lanes, "what is stored")) return;
    }
    for (int n = 0; n < LANES && !w->e->failed; n++) {
        if (!(lanes >> n & 1) || !may_touch(w, addresses[n], bytes, n)) continue;
        unsigned char *place = (unsigned char *)(uintptr_t)addresses[n];
        for (unsigned r = 0; r < count; r++) {
            const unsigned part = bytes < 4 ? bytes : 4;
            if (store)
                memcpy(place + 4 * r, &words[r].u[n], part);
            else
                memcpy(&words[r].u[n], place + 4 * r, part);
            if (!store) words[r].u[n] = extend(words[r].u[n], more);
        }
    }
    const uint32_t at = issue(w, store ? C_STORE : C_LOAD, true);
    if (store || w->e->failed) return;
    allow_rewrite(w, in->o[0].reg, count, C_LOAD);
    bring(w, in, 0, words, 0, count, lanes);
    set_pending(w, in->o[0].reg, count, C_LOAD, at);
}

static uint32_t combine(int how, uint32_t old, uint32_t value, uint32_t compare)
{
    switch (how & ATOMIC) {
    case ADD_F32: return bits_of(float_of(old) + float_of(value));
    case ADD_U32: return old + value;
    case INC_U32: return old >= value ? 0 : old + 1;
    case SWAP_IF: return old == compare ? value : old;
    case MAX_U32: return old > value ? old : value;
    default:
        return half_of_float(float_of_half(old & 0xffff) + float_of_half(value & 0xffff)) |
               half_of_float(float_of_half(old >> 16) + float_of_half(value >> 16)) << 16;
    }
}

/* With or without the old value as a result: by the number of operands. */
static void run_global_atomic(Wave *w, const Inst *in)
{
    const bool returns = in->count == 4;
    const uint64_t lanes = exec_of(w);
    const unsigned address = returns, count = (in->op->more & ATOMIC) == SWAP_IF ? 2 : 1;
    uint64_t addresses[LANES];
    Vec words[4], old;
    memset(words, 0, sizeof words);
    memset(&old, 0, sizeof old);
    if (!global_addresses(w, in, address, address + 2, lanes, addresses)) return;
    take_words(w, in, address + 1, count, words);
    for (unsigned r = 0; r < count; r++)
        if (!is_known(w, &words[r], lanes, "what is added")) return;
    for (int n = 0; n < LANES && !w->e->failed; n++) {
        if (!(lanes >> n & 1) || !may_touch(w, addresses[n], 4, n)) continue;
        unsigned char *place = (unsigned char *)(uintptr_t)addresses[n];
        memcpy(&old.u[n], place, 4);
        const uint32_t made = combine(in->op->more, old.u[n], words[0].u[n], words[1].u[n]);
        memcpy(place, &made, 4);
    }
    const uint32_t at = issue(w, returns ? C_LOAD : C_STORE, true);
    if (!returns || w->e->failed) return;
    bring(w, in, 0, &old, 0, 1, lanes);
    set_pending(w, in->o[0].reg, 1, C_LOAD, at);
}

/* ---- scratch memory, each lane's own */

static void not_known(Vec *word, int lane, unsigned byte)
{
    word->undef |= 1ull << lane;
    word->half[byte / 2] |= 1ull << lane;
}

/* One lane's words at a byte of its memory; false: outside. */
static bool touch_scratch(Wave *w, int lane, uint32_t at, int more, Vec *words)
{
    const unsigned bytes = more & BYTES, room = w->g->scratch_bytes;
    if (at > room || bytes > room - at) {
        fail(w, "lane %d: byte %u of %u in scratch memory", lane, at, room);
        return false;
    }
    uint8_t *memory = w->scratch + (size_t)lane * room + at;
    uint8_t *set = w->scratch_set + (size_t)lane * room + at;
    for (unsigned r = 0; r < registers_of(more); r++) {
        const unsigned part = bytes < 4 ? bytes : 4;
        if (more & STORE) {
            memcpy(memory + 4 * r, &words[r].u[lane], part);
            for (unsigned b = 0; b < part; b++)
                set[4 * r + b] = !(words[r].half[b / 2] >> lane & 1);
        } else {
            memcpy(&words[r].u[lane], memory + 4 * r, part);
            words[r].u[lane] = extend(words[r].u[lane], more);
            for (unsigned b = 0; b < part; b++)
                if (!set[4 * r + b]) not_known(&words[r], lane, b);
        }
    }
    return true;
}

/* [data], [address]: operands. */
static void access_scratch(Wave *w, const Inst *in, unsigned data, unsigned address, uint32_t base)
{
    const int more = in->op->more;
    const unsigned count = registers_of(more);
    const uint64_t lanes = exec_of(w);
    Vec words[4], places;
    memset(words, 0, sizeof words);
    memset(&places, 0, sizeof places);
    if (in->o[address].kind != O_OFF) vector_get(w, in, address, 'u', &places);
    if (!is_known(w, &places, lanes, "the address")) return;
    if (more & STORE) take_words(w, in, data, count, words);
    for (int n = 0; n < LANES; n++)
        if ((lanes >> n & 1) &&
            !touch_scratch(w, n, base + places.u[n] + (uint32_t)in->m.offset, more, words))
            return;
    const uint32_t at = issue(w, more & STORE ? C_STORE : C_LOAD, true);
    if (more & STORE) return;
    allow_rewrite(w, in->o[data].reg, count, C_LOAD);
    bring(w, in, data, words, 0, count, lanes);
    set_pending(w, in->o[data].reg, count, C_LOAD, at);
}

static void run_scratch(Wave *w, const Inst *in)
{
    uint64_t undef = 0, base = 0;
    const bool store = in->op->more & STORE;
    if (in->count > 2 && in->o[2].kind != O_OFF) base = scalar_get(w, &in->o[2], 32, &undef);
    if (undef) fail(w, "the address is what nobody wrote");
    access_scratch(w, in, store, !store, (uint32_t)base);
}

/* Before gfx940 scratch memory is a buffer, whose words the wave began with; other buffers are not modelled. */
static void run_buffer(Wave *w, const Inst *in)
{
    Operand half = in->o[2];
    uint64_t undef = 0, more_undef = 0;
    const uint64_t base = scalar_get(w, &half, 64, &undef);
    half.reg += 2;
    const uint64_t form = scalar_get(w, &half, 64, &more_undef);
    if (undef || more_undef || base || form != SCRATCH_BUFFER) {
        fail(w, "a buffer that is not scratch memory: 0x%llx 0x%llx%s", (unsigned long long)base,
             (unsigned long long)form, undef || more_undef ? ", not known" : "");
        return;
    }
    /* The offset from a scalar register is not swizzled: it counts the bytes of all lanes (AMDGPU's ABI in LLVM's documents, "Scratch"). */
    const uint64_t offset = scalar_get(w, &in->o[3], 32, &undef);
    if (undef) fail(w, "the address is what nobody wrote");
    if (offset % (uint64_t)w->lanes) fail(w, "an offset that is not the same of each lane");
    access_scratch(w, in, 0, 1, (uint32_t)(offset / (uint64_t)w->lanes));
}

/* ---- scalar loads */

static void run_scalar_load(Wave *w, const Inst *in)
{
    uint64_t undef, offset = 0, offset_undef = 0;
    uint32_t words[16];
    const unsigned count = (unsigned)in->op->more;
    const uint64_t base = scalar_get(w, &in->o[1], 64, &undef);
    if (in->count > 2) offset = scalar_get(w, &in->o[2], 32, &offset_undef);
    if (undef || offset_undef) fail(w, "the address is what nobody wrote");
    if (in->count > 2 && in->o[2].kind == O_NUMBER) offset = (uint64_t)in->o[2].number;
    const uint64_t address = (base & ~(uint64_t)3) + offset + (uint64_t)(int64_t)in->m.offset;
    if (w->e->failed || !may_touch(w, address, 4 * count, 0)) return;
    memcpy(words, (const void *)(uintptr_t)address, 4 * count);
    const uint32_t at = issue(w, C_SCALAR, false);
    for (unsigned n = 0; n < count; n++) {
        Operand o = in->o[0];
        o.reg = (uint16_t)(o.reg + n);
        scalar_put(w, &o, 32, words[n], 0);
        w->s_pending[o.reg] = (Pending){(uint8_t)family_counter(w, C_SCALAR), at};
    }
}

/* ---- LDS */

static bool lds_check(Wave *w, uint32_t at, unsigned bytes, int lane, unsigned align)
{
    const unsigned element = bytes < align ? bytes : align, room = w->g->lds_bytes;
    if (at <= room && bytes <= room - at && at % element == 0) return true;
    fail(w, "lane %d: %u bytes at byte %u of the %u of LDS%s", lane, bytes, at, room,
         at % element ? ", misaligned" : "");
    return false;
}

static uint32_t lds_offset(const Inst *in, unsigned place)
{
    const int more = in->op->more;
    if (!(more & TWO)) return (uint32_t)in->m.offset;
    return (uint32_t)(place ? in->m.offset1 : in->m.offset0) * (more & BYTES) *
           (more & FAR ? 64 : 1);
}

/* CDNA4 ISA, "LDS transpose loads", DS_READ_B64_TR_B16: each 16 lanes bring a matrix of 4 rows of 16 elements, four lanes 8 bytes each of a row,
 * and lane l gets column l: its element of row 0 in the lowest bits. All lanes take part: EXEC is not looked at, so it must be full. */
static bool turn_lanes(Wave *w, Vec *words)
{
    enum { GROUP = 16, BESIDE = 4 };
    Vec got[2];
    if (exec_of(w) != (w->wide ? ~0ull : 0xffffffffull)) {
        fail(w, "a load that lanes turn, with some of them off");
        return false;
    }
    memset(got, 0, sizeof got);
    for (unsigned n = 0; n < LANES; n++)
        for (unsigned row = 0; row < 4; row++) {
            const unsigned column = n % GROUP, element = column % 4,
                           from = n / GROUP * GROUP + row * BESIDE + column / 4;
            const Vec *source = &words[element / 2];
            Vec *to = &got[row / 2];
            to->u[n] |= (source->u[from] >> 16 * (element % 2) & 0xffff) << 16 * (row % 2);
            if (!(source->half[element % 2] >> from & 1)) continue;
            to->half[row % 2] |= 1ull << n;
            to->undef |= 1ull << n;
        }
    memcpy(words, got, sizeof got);
    return true;
}

static void run_lds_load(Wave *w, const Inst *in)
{
    const int more = in->op->more;
    const unsigned bytes = more & BYTES, count = registers_of(more), places = more & TWO ? 2 : 1;
    const uint64_t lanes = exec_of(w);
    Vec address, words[8];
    memset(words, 0, sizeof words);
    vector_get(w, in, 1, 'u', &address);
    if (!is_known(w, &address, lanes, "the address")) return;
    for (unsigned p = 0; p < places; p++) {
        lds_banks(w, &address, lds_offset(in, p), bytes, lanes);
        for (int n = 0; n < LANES; n++) {
            if (!(lanes >> n & 1)) continue;
            const uint32_t at = address.u[n] + lds_offset(in, p);
            if (!lds_check(w, at, bytes, n, more & TURNED ? bytes : 4)) return;
            lds_read(w, at, bytes);
            for (unsigned r = 0; r < count; r++) {
                Vec *word = &words[p * count + r];
                const unsigned part = bytes < 4 ? bytes : 4;
                memcpy(&word->u[n], w->g->lds + at + 4 * r, part);
                word->u[n] = extend(word->u[n], more);
                for (unsigned b = 0; b < part; b++)
                    if (!w->g->shadow[at + 4 * r + b].written) not_known(word, n, b);
            }
        }
    }
    if (more & TURNED && !turn_lanes(w, words)) return;
    const uint32_t at = issue(w, C_LDS, true);
    allow_rewrite(w, in->o[0].reg, count * places, C_LDS);
    bring(w, in, 0, words, 0, count * places, lanes);
    set_pending(w, in->o[0].reg, count * places, C_LDS, at);
}

static void run_lds_store(Wave *w, const Inst *in)
{
    const int more = in->op->more;
    const unsigned bytes = more & BYTES, count = registers_of(more), places = more & TWO ? 2 : 1;
    const uint64_t lanes = exec_of(w);
    Vec address, words[4];
    vector_get(w, in, 0, 'u', &address);
    if (!is_known(w, &address, lanes, "the address")) return;
    const uint32_t at_counter = issue(w, C_LDS, true);
    for (unsigned p = 0; p < places; p++) {
        take_words(w, in, 1 + p, count, words);
        lds_banks(w, &address, lds_offset(in, p), bytes, lanes);
        for (int n = 0; n < LANES; n++) {
            if (!(lanes >> n & 1)) continue;
            const uint32_t at = address.u[n] + lds_offset(in, p);
            if (!lds_check(w, at, bytes, n, 4)) return;
            lds_write(w, at, bytes, C_LDS, at_counter);
            for (unsigned r = 0; r < count; r++) {
                const unsigned part = bytes < 4 ? bytes : 4;
                memcpy(w->g->lds + at + 4 * r, &words[r].u[n], part);
                for (unsigned b = 0; b < part; b++)
                    if (words[r].half[b / 2] >> n & 1) w->g->shadow[at + 4 * r + b].written = 0;
            }
        }
    }
}

/* CDNA3 and 4 ISA, "memory loads to LDS": lane n's bytes go to M0 and the instruction's offset and n times as many. Counted as loads; LDS has them
 * when that is. */
static void run_global_to_lds(Wave *w, const Inst *in)
{
    const unsigned bytes = in->op->more & BYTES;
    const uint64_t lanes = exec_of(w);
    uint64_t addresses[LANES];
    if (!global_addresses(w, in, 0, 1, lanes, addresses)) return;
    if (w->s_undef[S_M0]) fail(w, "M0 is what nobody wrote");
    const uint32_t counted = issue(w, C_LOAD, true);
    for (int n = 0; n < LANES && !w->e->failed; n++) {
        const uint32_t at = w->s[S_M0] + (uint32_t)in->m.offset + (uint32_t)n * bytes;
        if (!(lanes >> n & 1) || !may_touch(w, addresses[n], bytes, n) ||
            !lds_check(w, at, bytes, n, 4))
            continue;
        lds_write(w, at, bytes, C_LOAD, counted);
        memcpy(w->g->lds + at, (const void *)(uintptr_t)addresses[n], bytes);
    }
}

/* Sums of other waves may come between, so these are no race; they are followed as writes of nobody. */
static void run_lds_atomic(Wave *w, const Inst *in)
{
    const bool returns = in->op->more & RETURNS;
    const uint64_t lanes = exec_of(w);
    Vec address, value, old;
    memset(&old, 0, sizeof old);
    vector_get(w, in, returns, 'u', &address);
    vector_get(w, in, returns + 1u, 'u', &value);
    if (!is_known(w, &address, lanes, "the address") ||
        !is_known(w, &value, lanes, "what is added"))
        return;
    for (int n = 0; n < LANES; n++) {
        if (!(lanes >> n & 1)) continue;
        const uint32_t at = address.u[n] + (uint32_t)in->m.offset;
        if (!lds_check(w, at, 4, n, 4)) return;
        memcpy(&old.u[n], w->g->lds + at, 4);
        const uint32_t made = combine(in->op->more, old.u[n], value.u[n], 0);
        memcpy(w->g->lds + at, &made, 4);
    }
    const uint32_t at = issue(w, C_LDS, true);
    if (!returns) return;
    bring(w, in, 0, &old, 0, 1, lanes);
    set_pending(w, in->o[0].reg, 1, C_LDS, at);
}

/* Exchange through LDS's crossbar: a lane that is off gives 0. */
static unsigned swizzled(unsigned lane, unsigned how)
{
    if (how & 0x8000) return (lane & ~3u) | (how >> 2 * (lane & 3) & 3);
    return (lane & ~31u) | ((((lane & 31) & (how & 31)) | (how >> 5 & 31)) ^ (how >> 10 & 31));
}

enum { SWIZZLE, PULL, PUSH };
static void run_exchange(Wave *w, const Inst *in)
{
    const int more = in->op->more;
    const uint64_t lanes = exec_of(w);
    const unsigned top = w->wide ? 63 : 31;
    Vec address, value, got;
    memset(&got, 0, sizeof got);
    memset(&address, 0, sizeof address);
    vector_get(w, in, more == SWIZZLE ? 1 : 2, 'u', &value);
    if (more != SWIZZLE) {
        vector_get(w, in, 1, 'u', &address);
        if (!is_known(w, &address, lanes, "the lane")) return;
    }
    for (unsigned n = 0; n < LANES; n++) {
        if (!(lanes >> n & 1)) continue;
        const unsigned other = more == SWIZZLE
                                   ? swizzled(n, in->m.swizzle)
                                   : ((address.u[n] + (uint32_t)in->m.offset) / 4 & top);
        const unsigned from = more == PUSH ? n : other, to = more == PUSH ? other : n;
        if (!(lanes >> from & 1)) continue;
        got.u[to] = value.u[from];
        if (value.undef >> from & 1) got.undef |= 1ull << to;
    }
    const uint32_t at = issue(w, C_LDS, true);
    allow_rewrite(w, in->o[0].reg, 1, C_LDS);
    vector_put(w, in, 0, 'u', &got, lanes);
    set_pending(w, in->o[0].reg, 1, C_LDS, at);
}

// clang-format off
#define G(name, more) {"global_" name, "", run_global, NULL, more, EMU_MEMORY}, {"scratch_" name, "", run_scratch, NULL, more, EMU_MEMORY},
#define B(name, more) {"buffer_" name, "", run_buffer, NULL, more, EMU_MEMORY},
#define GA(name, more) {"global_atomic_" name, "", run_global_atomic, NULL, 4 | (more), EMU_MEMORY},
#define L(name, more) {"ds_" name, "", run_lds_load, NULL, more, EMU_LDS},
#define S(name, more) {"ds_" name, "", run_lds_store, NULL, more, EMU_LDS},
#define SL(name, words) {"s_load_" name, "", run_scalar_load, NULL, words, EMU_MEMORY},
const Op memory_ops[] = {
    G("load_ubyte", 1) G("load_sbyte", 1 | SIGNED) G("load_ushort", 2) G("load_sshort", 2 | SIGNED)
    G("load_dword", 4) G("load_dwordx2", 8) G("load_dwordx3", 12) G("load_dwordx4", 16)
    G("load_u8", 1) G("load_i8", 1 | SIGNED) G("load_u16", 2) G("load_i16", 2 | SIGNED)
    G("load_b32", 4) G("load_b64", 8) G("load_b96", 12) G("load_b128", 16)
    G("load_short_d16", 2 | D16) G("load_short_d16_hi", 2 | D16 | HIGH) G("load_d16_b16", 2 | D16) G("load_d16_hi_b16", 2 | D16 | HIGH)
    G("load_ubyte_d16", 1 | D16) G("load_ubyte_d16_hi", 1 | D16 | HIGH) G("load_d16_u8", 1 | D16) G("load_d16_hi_u8", 1 | D16 | HIGH)
    G("store_byte", 1 | STORE) G("store_short", 2 | STORE) G("store_dword", 4 | STORE)
    G("store_dwordx2", 8 | STORE) G("store_dwordx3", 12 | STORE) G("store_dwordx4", 16 | STORE)
    G("store_b8", 1 | STORE) G("store_b16", 2 | STORE) G("store_b32", 4 | STORE)
    G("store_b64", 8 | STORE) G("store_b96", 12 | STORE) G("store_b128", 16 | STORE)
    G("store_short_d16_hi", 2 | STORE | HIGH) G("store_d16_hi_b16", 2 | STORE | HIGH)
    G("store_byte_d16_hi", 1 | STORE | HIGH) G("store_d16_hi_b8", 1 | STORE | HIGH)
    B("load_ubyte", 1) B("load_sbyte", 1 | SIGNED) B("load_ushort", 2) B("load_sshort", 2 | SIGNED)
    B("load_dword", 4) B("load_dwordx2", 8) B("load_dwordx3", 12) B("load_dwordx4", 16)
    B("load_short_d16", 2 | D16) B("load_short_d16_hi", 2 | D16 | HIGH)
    B("store_byte", 1 | STORE) B("store_short", 2 | STORE) B("store_short_d16_hi", 2 | STORE | HIGH) B("store_byte_d16_hi", 1 | STORE | HIGH)
    B("store_dword", 4 | STORE) B("store_dwordx2", 8 | STORE) B("store_dwordx3", 12 | STORE) B("store_dwordx4", 16 | STORE)
    GA("add_f32", ADD_F32) GA("add", ADD_U32) GA("add_u32", ADD_U32) GA("inc", INC_U32) GA("inc_u32", INC_U32)
    GA("cmpswap", SWAP_IF) GA("cmpswap_b32", SWAP_IF) GA("umax", MAX_U32) GA("pk_add_f16", ADD_PK_F16)
    L("read_b32", 4) L("read_b64", 8) L("read_b96", 12) L("read_b128", 16)
    L("read_u8", 1) L("read_i8", 1 | SIGNED) L("read_u16", 2) L("read_i16", 2 | SIGNED)
    L("read_u16_d16", 2 | D16) L("read_u16_d16_hi", 2 | D16 | HIGH)
    L("read2_b32", 4 | TWO) L("read2_b64", 8 | TWO) L("read2st64_b32", 4 | TWO | FAR) L("read2st64_b64", 8 | TWO | FAR)
    L("read_b64_tr_b16", 8 | TURNED)
    L("load_b32", 4) L("load_b64", 8) L("load_b96", 12) L("load_b128", 16)
    L("load_u8", 1) L("load_i8", 1 | SIGNED) L("load_u16", 2) L("load_i16", 2 | SIGNED)
    L("load_u16_d16", 2 | D16) L("load_u16_d16_hi", 2 | D16 | HIGH)
    L("load_2addr_b32", 4 | TWO) L("load_2addr_b64", 8 | TWO) L("load_2addr_stride64_b32", 4 | TWO | FAR) L("load_2addr_stride64_b64", 8 | TWO | FAR)
    S("write_b8", 1) S("write_b16", 2) S("write_b32", 4) S("write_b64", 8) S("write_b96", 12) S("write_b128", 16)
    S("write_b8_d16_hi", 1 | HIGH) S("write_b16_d16_hi", 2 | HIGH) S("write2_b32", 4 | TWO) S("write2_b64", 8 | TWO)
    S("write2st64_b32", 4 | TWO | FAR) S("write2st64_b64", 8 | TWO | FAR)
    S("store_b8", 1) S("store_b16", 2) S("store_b32", 4) S("store_b64", 8) S("store_b96", 12) S("store_b128", 16)
    S("store_b8_d16_hi", 1 | HIGH) S("store_b16_d16_hi", 2 | HIGH) S("store_2addr_b32", 4 | TWO) S("store_2addr_b64", 8 | TWO)
    S("store_2addr_stride64_b32", 4 | TWO | FAR) S("store_2addr_stride64_b64", 8 | TWO | FAR)
    {"global_load_lds_dword", "", run_global_to_lds, NULL, 4, EMU_MEMORY},
    {"global_load_lds_dwordx4", "", run_global_to_lds, NULL, 16, EMU_MEMORY},
    {"ds_add_f32", "", run_lds_atomic, NULL, ADD_F32, EMU_LDS},
    {"ds_add_u32", "", run_lds_atomic, NULL, ADD_U32, EMU_LDS},
    {"ds_add_rtn_f32", "", run_lds_atomic, NULL, ADD_F32 | RETURNS, EMU_LDS},
    {"ds_add_rtn_u32", "", run_lds_atomic, NULL, ADD_U32 | RETURNS, EMU_LDS},
    {"ds_swizzle_b32", "", run_exchange, NULL, SWIZZLE, EMU_LDS},
    {"ds_bpermute_b32", "", run_exchange, NULL, PULL, EMU_LDS},
    {"ds_permute_b32", "", run_exchange, NULL, PUSH, EMU_LDS},
    SL("dword", 1) SL("dwordx2", 2) SL("dwordx4", 4) SL("dwordx8", 8) SL("dwordx16", 16)
    SL("b32", 1) SL("b64", 2) SL("b96", 3) SL("b128", 4) SL("b256", 8) SL("b512", 16)
    {NULL, NULL, NULL, NULL, 0, 0},
};
// clang-format on
