/* module.c - see module.h. */
#include "flavour.h"

#include <string.h>

SpvModule *spirv_new(AuArena *arena, const SpvFlavour *flavour)
{
    SpvModule *m = AU_NEW(arena, SpvModule);
    *m = (SpvModule){.arena = arena, .flavour = flavour};
    m->known_room = 256;
    m->known = AU_NEW_ARRAY(arena, SpvKnown, m->known_room);
    return m;
}

SpvId spirv_id(SpvModule *m) { return ++m->ids; }

/* ---- words */

static void add(SpvModule *m, SpvWords *to, uint32_t word)
{
    AU_PUSH(m->arena, to->at, to->count, to->capacity, word);
}

void spirv_put(SpvModule *m, SpvWords *to, uint32_t op, const uint32_t *words, size_t count)
{
    add(m, to, (uint32_t)(count + 1) << 16 | op);
    for (size_t n = 0; n < count; n++) add(m, to, words[n]);
}

void spirv_put_text(SpvModule *m, SpvWords *to, uint32_t op, const uint32_t *words, size_t count,
                    const char *text, const uint32_t *after, size_t after_count)
{
    enum { MOST = 60000 }; /* an instruction has at most 65535 words */
    const size_t length = strnlen(text, MOST), text_words = length / 4 + 1;
    add(m, to, (uint32_t)(1 + count + text_words + after_count) << 16 | op);
    for (size_t n = 0; n < count; n++) add(m, to, words[n]);
    for (size_t n = 0; n < text_words; n++) {
        uint32_t word = 0; /* the first character in the lowest byte */
        for (size_t c = 0; c < 4 && 4 * n + c < length; c++)
            word |= (uint32_t)(unsigned char)text[4 * n + c] << 8 * c;
        add(m, to, word);
    }
    for (size_t n = 0; n < after_count; n++) add(m, to, after[n]);
}

void spirv_capability(SpvModule *m, uint32_t capability)
{
    SpvWords *s = &m->sections[SPV_CAPABILITIES];
    for (uint32_t n = 1; n < s->count; n += 2)
        if (s->at[n] == capability) return;
    spirv_put(m, s, SPV_Capability, &capability, 1);
}

void spirv_extension(SpvModule *m, const char *name)
{
    SpvWords *s = &m->sections[SPV_EXTENSIONS];
    uint32_t n = 0;
    while (n + 1 < SPV_ASKED && m->asked[n] && strcmp(m->asked[n], name) != 0) n++;
    if (m->asked[n]) return;
    m->asked[n] = name;
    spirv_put_text(m, s, SPV_Extension, NULL, 0, name, NULL, 0);
}

void spirv_name(SpvModule *m, SpvId id, const char *name)
{
    if (name) spirv_put_text(m, &m->sections[SPV_NAMES], SPV_Name, &id, 1, name, NULL, 0);
}

void spirv_decorate(SpvModule *m, SpvId id, uint32_t decoration)
{
    spirv_put(m, &m->sections[SPV_DECORATIONS], SPV_Decorate, SPV_WORDS(id, decoration));
}

void spirv_exact(SpvModule *m, SpvId id)
{
    if (m->flavour->marks_exact) spirv_decorate(m, id, SPV_IS_NoContraction);
}

/* ---- types and constants */

static uint32_t hash(uint32_t op, const uint32_t *words, size_t count)
{
    uint32_t h = op * 2654435761u;
    for (size_t n = 0; n < count; n++) h = (h ^ words[n]) * 16777619u + (h >> 15);
    return h;
}

/* The words of an instruction in SPV_GLOBALS without its result, which is the [result]th. */
static bool is_same(const SpvModule *m, uint32_t at, uint32_t op, const uint32_t *words,
                    size_t count, size_t result)
{
    const uint32_t *have = m->sections[SPV_GLOBALS].at + at;
    if (have[0] != ((uint32_t)(count + 2) << 16 | op)) return false;
    for (size_t n = 0; n < count; n++)
        if (have[1 + n + (n >= result)] != words[n]) return false;
    return true;
}

static void grow(SpvModule *m)
{
    const SpvKnown *old = m->known;
    const uint32_t room = m->known_room;
    m->known_room *= 2;
    m->known = AU_NEW_ARRAY(m->arena, SpvKnown, m->known_room);
    for (uint32_t n = 0; n < room; n++) {
        uint32_t at = old[n].hash & (m->known_room - 1);
        if (!old[n].id) continue;
        while (m->known[at].id) at = (at + 1) & (m->known_room - 1);
        m->known[at] = old[n];
    }
}

/* The result is the [result]th word behind the first: 0 of types, 1 of constants. */
static SpvId once(SpvModule *m, uint32_t op, const uint32_t *words, size_t count, size_t result)
{
    const uint32_t hashed = hash(op, words, count);
    uint32_t h = hashed & (m->known_room - 1);
    for (; m->known[h].id; h = (h + 1) & (m->known_room - 1))
        if (is_same(m, m->known[h].at, op, words, count, result)) return m->known[h].id;
    SpvWords *s = &m->sections[SPV_GLOBALS];
    const SpvId id = spirv_id(m);
    m->known[h] = (SpvKnown){s->count, id, hashed};
    add(m, s, (uint32_t)(count + 2) << 16 | op);
    for (size_t n = 0; n <= count; n++) add(m, s, n == result ? id : words[n - (n > result)]);
    if (++m->known_count * 2 > m->known_room) grow(m);
    return id;
}

SpvId spirv_type(SpvModule *m, uint32_t op, const uint32_t *words, size_t count)
{
    return once(m, op, words, count, 0);
}

SpvId spirv_int(SpvModule *m, uint32_t bits)
{
    if (bits == 64) spirv_capability(m, SPV_CAP_Int64);
    return spirv_type(m, SPV_TypeInt, SPV_WORDS(bits, 0));
}

SpvId spirv_scalar(SpvModule *m, AuScalar scalar)
{
    switch (scalar) {
    case AU_I1: return spirv_type(m, SPV_TypeBool, NULL, 0);
    case AU_F32: return spirv_type(m, SPV_TypeFloat, SPV_WORDS(32));
    case AU_I64: return spirv_int(m, 64);
    case AU_VOID: return spirv_type(m, SPV_TypeVoid, NULL, 0);
    case AU_I32:
    case AU_F16:
    case AU_BF16:
    case AU_U8:
    case AU_SCALARS: break;
    }
    return spirv_int(m, 32);
}

SpvId spirv_stored(SpvModule *m, AuScalar scalar)
{
    const uint32_t bytes = kernel_scalar_bytes(scalar);
    return bytes < 4 ? spirv_int(m, 8 * bytes) : spirv_scalar(m, scalar);
}

SpvId spirv_half(SpvModule *m)
{
    spirv_capability(m, SPV_CAP_Float16);
    return spirv_type(m, SPV_TypeFloat, SPV_WORDS(16));
}

/* As matrices alone have it. */
static SpvId brain_float(SpvModule *m)
{
    enum { BITS = 16, ENCODING = 0 };
    spirv_extension(m, "SPV_KHR_bfloat16");
    spirv_capability(m, SPV_CAP_BFloat16TypeKHR);
    spirv_capability(m, SPV_CAP_BFloat16CooperativeMatrixKHR);
    return spirv_type(m, SPV_TypeFloat, SPV_WORDS(BITS, ENCODING));
}

SpvId spirv_matrix_element(SpvModule *m, AuScalar scalar)
{
    return scalar == AU_F16    ? spirv_half(m)
           : scalar == AU_BF16 ? brain_float(m)
                               : spirv_scalar(m, AU_F32);
}

SpvId spirv_matrix_type(SpvModule *m, const AuMemory *memory, uint32_t of)
{
    /* ORDER AuMatrixOperand; the numbers are those of Cooperative Matrix Use */
    static const uint32_t uses[] = {[AU_MATRIX_A] = 0, [AU_MATRIX_B] = 1, [AU_MATRIX_C] = 2};
    if (memory->scalar != AU_F32 && memory->scalar != AU_F16 && memory->scalar != AU_BF16) return 0;
    spirv_capability(m, SPV_CAP_CooperativeMatrixKHR);
    spirv_extension(m, "SPV_KHR_cooperative_matrix");
    const SpvId element = spirv_matrix_element(m, memory->scalar);
    const SpvId scope = spirv_u32(m, of), use = spirv_u32(m, uses[memory->use]);
    const SpvId rows = spirv_u32(m, memory->rows), columns = spirv_u32(m, memory->columns);
    return spirv_type(m, SPV_TypeCooperativeMatrixKHR,
                      SPV_WORDS(element, scope, rows, columns, use));
}

SpvId spirv_pointer(SpvModule *m, uint32_t storage, SpvId type)
{
    return spirv_type(m, SPV_TypePointer, SPV_WORDS(storage, type));
}

SpvId spirv_array(SpvModule *m, SpvId element, uint32_t count)
{
    return spirv_type(m, SPV_TypeArray, SPV_WORDS(element, spirv_u32(m, count)));
}

SpvId spirv_bits(SpvModule *m, AuScalar scalar, uint64_t bits)
{
    const SpvId type = spirv_scalar(m, scalar);
    const uint32_t words[] = {type, (uint32_t)bits, (uint32_t)(bits >> 32)};
    if (scalar == AU_I1)
        return once(m, bits & 1 ? SPV_ConstantTrue : SPV_ConstantFalse, words, 1, 1);
    return once(m, SPV_Constant, words, scalar == AU_I64 ? 3 : 2, 1);
}

SpvId spirv_null(SpvModule *m, SpvId type) { return once(m, SPV_ConstantNull, SPV_WORDS(type), 1); }

SpvId spirv_u32(SpvModule *m, uint32_t value) { return spirv_bits(m, AU_I32, value); }
SpvId spirv_u64(SpvModule *m, uint64_t value) { return spirv_bits(m, AU_I64, value); }
SpvId spirv_bool(SpvModule *m, bool value) { return spirv_bits(m, AU_I1, value); }
SpvId spirv_f32(SpvModule *m, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return spirv_bits(m, AU_F32, bits);
}

/* ---- instructions */

void spirv_do(SpvModule *m, uint32_t op, const uint32_t *words, size_t count)
{
    spirv_put(m, &m->f->body, op, words, count);
}

SpvId spirv_make(SpvModule *m, uint32_t op, SpvId type, const uint32_t *operands, size_t count)
{
    SpvWords *to = &m->f->body;
    const SpvId id = spirv_id(m);
    add(m, to, (uint32_t)(count + 3) << 16 | op);
    add(m, to, type);
    add(m, to, id);
    for (size_t n = 0; n < count; n++) add(m, to, operands[n]);
    return id;
}

SpvId spirv_make1(SpvModule *m, uint32_t op, SpvId type, SpvId a)
{
    return spirv_make(m, op, type, &a, 1);
}

SpvId spirv_make2(SpvModule *m, uint32_t op, SpvId type, SpvId a, SpvId b)
{
    return spirv_make(m, op, type, SPV_WORDS(a, b));
}

SpvId spirv_choose(SpvModule *m, SpvId type, SpvId condition, SpvId a, SpvId b)
{
    return spirv_make(m, SPV_Select, type, SPV_WORDS(condition, a, b));
}

SpvId spirv_function(SpvModule *m, uint32_t which, SpvId type, const uint32_t *operands,
                     size_t count)
{
    uint32_t words[5] = {m->functions, m->flavour->functions[which]};
    for (size_t n = 0; n < count; n++) words[2 + n] = operands[n];
    return spirv_make(m, SPV_ExtInst, type, words, 2 + count);
}

SpvId spirv_variable(SpvModule *m, SpvId type)
{
    const SpvId pointer = spirv_pointer(m, SPV_IN_Function, type), id = spirv_id(m);
    spirv_put(m, &m->f->variables, SPV_Variable, SPV_WORDS(pointer, id, SPV_IN_Function));
    return id;
}

void spirv_label(SpvModule *m, SpvId label)
{
    spirv_do(m, SPV_Label, &label, 1);
    m->f->label = label;
}

void spirv_branch(SpvModule *m, SpvId label) { spirv_do(m, SPV_Branch, &label, 1); }

/* ---- the whole */

SpvTurns spirv_open_turns(SpvModule *m, uint32_t count)
{
    enum { DONT_UNROLL = 2 };
    const SpvId word = spirv_scalar(m, AU_I32), truth = spirv_scalar(m, AU_I1);
    const SpvId before = m->f->label, head = spirv_id(m), turn = spirv_id(m), next = spirv_id(m);
    const SpvId end = spirv_id(m), now = spirv_id(m), then = spirv_id(m);
    const SpvId none = spirv_u32(m, 0), one = spirv_u32(m, 1), all = spirv_u32(m, count);
    const SpvTurns t = {now, then, head, next, end, one};
    spirv_branch(m, t.head);
    spirv_label(m, t.head);
    spirv_do(m, SPV_Phi, SPV_WORDS(word, t.now, none, before, t.then, t.next));
    const SpvId goes_on = spirv_make2(m, SPV_SLessThan, truth, t.now, all);
    spirv_do(m, SPV_LoopMerge, SPV_WORDS(t.end, t.next, DONT_UNROLL));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(goes_on, turn, t.end));
    spirv_label(m, turn);
    return t;
}

void spirv_close_turns(SpvModule *m, const SpvTurns *turns)
{
    const SpvId word = spirv_scalar(m, AU_I32);
    spirv_branch(m, turns->next);
    spirv_label(m, turns->next);
    spirv_do(m, SPV_IAdd, SPV_WORDS(word, turns->then, turns->now, turns->step));
    spirv_branch(m, turns->head);
    spirv_label(m, turns->end);
}

SpvWords spirv_finish(SpvModule *m)
{
    SpvWords all = {0};
    const uint32_t generator = 0; /* no number was asked for */
    const uint32_t header[SPV_HEADER] = {SPV_MAGIC, m->flavour->version, generator, m->ids + 1, 0};
    for (size_t n = 0; n < SPV_HEADER; n++) add(m, &all, header[n]);
    for (uint32_t s = 0; s < SPV_SECTIONS; s++)
        for (uint32_t n = 0; n < m->sections[s].count; n++) add(m, &all, m->sections[s].at[n]);
    return all;
}
