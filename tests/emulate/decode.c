/* decode.c - an instruction's text, as LLVM's disassembler gives it, becomes an operation of our tables, operands and modifiers; each is read
 * once. A word that is not known here stops the emulator when the instruction is reached. */
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>

#include <llvm-c/Disassembler.h>

/* ---- operations */

static const Op *const tables[] = {wait_ops,    scalar_ops, vector_ops,
                                   special_ops, memory_ops, matrix_ops};

static const Op *op_exact(const char *name)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const Op *op = tables[t]; op->name; op++)
            if (strcmp(op->name, name) == 0) return op;
    return NULL;
}

/* Names that are another's, of the newer families. */
static const char *const aliases[][2] = {
    {"v_add_nc_u32", "v_add_u32"},
    {"v_sub_nc_u32", "v_sub_u32"},
    {"v_subrev_nc_u32", "v_subrev_u32"},
    {"v_add_co_ci_u32", "v_addc_co_u32"},
    {"v_sub_co_ci_u32", "v_subb_co_u32"},
    {"v_subrev_co_ci_u32", "v_subbrev_co_u32"},
    {"v_max_num_f32", "v_max_f32"},
    {"v_min_num_f32", "v_min_f32"},
    {"v_max3_num_f32", "v_max3_f32"},
    {"v_min3_num_f32", "v_min3_f32"},
    {"v_max_num_f16", "v_max_f16"},
    {"v_min_num_f16", "v_min_f16"},
    {"v_mad_co_u64_u32", "v_mad_u64_u32"},
    {"v_mad_co_i64_i32", "v_mad_i64_i32"},
    {"s_add_co_i32", "s_add_i32"},
    {"s_sub_co_i32", "s_sub_i32"},
    {"s_add_co_u32", "s_add_u32"},
    {"s_sub_co_u32", "s_sub_u32"},
    {"s_add_co_ci_u32", "s_addc_u32"},
    {"s_sub_co_ci_u32", "s_subb_u32"},
    {"s_addk_co_i32", "s_addk_i32"},
    {"s_and_not1_b32", "s_andn2_b32"},
    {"s_and_not1_b64", "s_andn2_b64"},
    {"s_or_not1_b32", "s_orn2_b32"},
    {"s_or_not1_b64", "s_orn2_b64"},
    {"s_ctz_i32_b32", "s_ff1_i32_b32"},
    {"s_ctz_i32_b64", "s_ff1_i32_b64"},
    {"s_clz_i32_u32", "s_flbit_i32_b32"},
    {"s_clz_i32_u64", "s_flbit_i32_b64"},
    {"s_and_not1_saveexec_b32", "s_andn2_saveexec_b32"},
    {"s_and_not1_saveexec_b64", "s_andn2_saveexec_b64"},
    {"s_or_not0_saveexec_b32", "s_orn1_saveexec_b32"},
    {"s_or_not0_saveexec_b64", "s_orn1_saveexec_b64"},
    {"s_or_not1_saveexec_b32", "s_orn2_saveexec_b32"},
    {"s_or_not1_saveexec_b64", "s_orn2_saveexec_b64"},
    {"v_pk_max_num_f16", "v_pk_max_f16"},
    {"v_pk_min_num_f16", "v_pk_min_f16"},
    {"v_mul_dx9_zero_f32", "v_mul_legacy_f32"},
    {"v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32"},
    {"v_clz_i32_u32", "v_ffbh_u32"},
    {"v_ctz_i32_b32", "v_ffbl_b32"},
};

const Op *op_find(const char *name, size_t length)
{
    static const char *const endings[] = {"_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"};
    char all[64];
    if (length >= sizeof all) return NULL;
    const bool pair = length > 7 && strncmp(name, "v_dual_", 7) == 0;
    if (pair)
        snprintf(all, sizeof all, "v_%.*s", (int)length - 7, name + 7);
    else
        snprintf(all, sizeof all, "%.*s", (int)length, name);
    const Op *op = op_exact(all);
    for (size_t n = 0; !op && n < sizeof endings / sizeof *endings; n++) {
        const size_t end = strlen(endings[n]), have = strlen(all);
        if (have > end && strcmp(all + have - end, endings[n]) == 0) {
            all[have - end] = 0;
            op = op_exact(all);
            break;
        }
    }
    for (size_t n = 0; !op && n < sizeof aliases / sizeof *aliases; n++)
        if (strcmp(all, aliases[n][0]) == 0) op = op_exact(aliases[n][1]);
    return op;
}

/* ---- operands */

static bool read_range(const char *text, Operand *o)
{
    int first, last;
    if (sscanf(text, "[%d:%d]", &first, &last) == 2) {
        o->reg = (uint16_t)first;
        o->regs = (uint8_t)(last - first + 1);
        return true;
    }
    if (sscanf(text, "[%d]", &first) == 1 || sscanf(text, "%d", &first) == 1) {
        o->reg = (uint16_t)first;
        o->regs = 1;
        return true;
    }
    return false;
}

static bool read_named(const char *text, Operand *o)
{
    static const struct {
        const char *name;
        int reg, regs;
    } names[] = {{"vcc", S_VCC, 2},
                 {"vcc_lo", S_VCC, 1},
                 {"vcc_hi", S_VCC + 1, 1},
                 {"exec", S_EXEC, 2},
                 {"exec_lo", S_EXEC, 1},
                 {"exec_hi", S_EXEC + 1, 1},
                 {"flat_scratch", S_FLAT, 2},
                 {"flat_scratch_lo", S_FLAT, 1},
                 {"flat_scratch_hi", S_FLAT + 1, 1},
                 {"m0", S_M0, 1},
                 {"null", S_NULL, 1}};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strcmp(text, names[n].name) == 0) {
            o->kind = O_SCALAR;
            o->reg = (uint16_t)names[n].reg;
            o->regs = (uint8_t)names[n].regs;
            return true;
        }
    if (strcmp(text, "off") == 0) return o->kind = O_OFF, true;
    if (strcmp(text, "scc") == 0 || strcmp(text, "src_scc") == 0) return o->kind = O_SCC, true;
    return false;
}

static bool read_register(char *text, Operand *o)
{
    const bool digit = (text[1] >= '0' && text[1] <= '9') || text[1] == '[';
    if (strncmp(text, "ttmp", 4) == 0) {
        o->kind = O_SCALAR;
        const bool good = read_range(text + 4, o);
        o->reg += S_TTMP;
        return good;
    }
    if ((*text != 'v' && *text != 'a' && *text != 's') || !digit) return read_named(text, o);
    char *dot = strchr(text, '.');
    if (dot) o->half = dot[1] == 'l' ? 1 : 2;
    o->kind = *text == 's' ? O_SCALAR : O_VECTOR;
    if (!read_range(text + 1, o)) return false;
    if (*text == 'a') o->reg += AGPR;
    return true;
}

static bool read_number(const char *text, Operand *o)
{
    char *end;
    if (strchr(text, '.') || strchr(text, 'e')) {
        const bool hex = strstr(text, "0x") != NULL;
        if (!hex) {
            o->kind = O_REAL;
            o->real = strtof(text, &end);
            return *end == 0;
        }
    }
    o->kind = O_NUMBER;
    o->number = strtoll(text, &end, 0);
    return end != text && *end == 0;
}

static bool read_operand(char *text, Operand *o)
{
    if (strncmp(text, "neg(", 4) == 0) {
        o->neg = true;
        text += 4;
        text[strlen(text) - 1] = 0;
    } else if (*text == '-' && (text[1] < '0' || text[1] > '9')) {
        o->neg = true;
        text++;
    }
    if (strncmp(text, "lit(", 4) == 0) { /* a literal where a short form would do */
        text += 4;
        text[strlen(text) - 1] = 0;
    }
    if (*text == '|') {
        o->abs = true;
        text++;
        text[strlen(text) - 1] = 0;
    }
    return read_register(text, o) || read_number(text, o);
}

/* ---- modifiers */

static void read_list(const char *text, uint8_t *to)
{
    unsigned n = 0;
    for (const char *at = strchr(text, '['); at && n < 4; at = strchr(at + 1, ','))
        to[n++] = (uint8_t)atoi(at + 1);
}

static bool read_dpp(const char *text, Modifiers *m)
{
    static const struct {
        const char *name;
        Dpp dpp;
    } kinds[] = {{"row_shl:", ROW_SHL},     {"row_shr:", ROW_SHR},     {"row_ror:", ROW_ROR},
                 {"row_bcast:", ROW_BCAST}, {"row_share:", ROW_SHARE}, {"row_xmask:", ROW_XMASK}};
    if (strncmp(text, "quad_perm:", 10) == 0) {
        m->dpp = QUAD_PERM;
        read_list(text, m->dpp_argument);
        return true;
    }
    if (strcmp(text, "row_mirror") == 0) return m->dpp = ROW_MIRROR, true;
    if (strcmp(text, "row_half_mirror") == 0) return m->dpp = HALF_MIRROR, true;
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++)
        if (strncmp(text, kinds[n].name, strlen(kinds[n].name)) == 0) {
            m->dpp = kinds[n].dpp;
            m->dpp_argument[0] = (uint8_t)atoi(strchr(text, ':') + 1);
            return true;
        }
    return false;
}

static bool read_select(const char *text, Modifiers *m)
{
    static const char *const parts[] = {"DWORD",  "BYTE_0", "BYTE_1", "BYTE_2",
                                        "BYTE_3", "WORD_0", "WORD_1"};
    static const char *const which[] = {"dst_sel:", "src0_sel:", "src1_sel:"};
    for (int n = 0; n < 3; n++)
        for (int p = 0; p < 7 && strncmp(text, which[n], strlen(which[n])) == 0; p++)
            if (strcmp(text + strlen(which[n]), parts[p]) == 0)
                return m->select[n] = (int8_t)p, true;
    if (strcmp(text, "dst_unused:UNUSED_PRESERVE") == 0) return m->preserve = true;
    return strcmp(text, "dst_unused:UNUSED_PAD") == 0;
}

static bool read_swizzle(const char *text, Modifiers *m)
{
    int a, b, c, d;
    char bits[8];
    const char *at = strstr(text, "swizzle(");
    if (!at) return m->swizzle = (uint16_t)strtol(strchr(text, ':') + 1, NULL, 0), true;
    if (sscanf(at, "swizzle(SWAP,%d)", &a) == 1)
        m->swizzle = (uint16_t)(0x1f | a << 10);
    else if (sscanf(at, "swizzle(REVERSE,%d)", &a) == 1)
        m->swizzle = (uint16_t)(0x1f | (a - 1) << 10);
    else if (sscanf(at, "swizzle(BROADCAST,%d,%d)", &a, &b) == 2)
        m->swizzle = (uint16_t)((-a & 31) | b << 5);
    else if (sscanf(at, "swizzle(QUAD_PERM,%d,%d,%d,%d)", &a, &b, &c, &d) == 4)
        m->swizzle = (uint16_t)(0x8000 | a | b << 2 | c << 4 | d << 6);
    else if (sscanf(at, "swizzle(BITMASK_PERM,\"%5[01pi]\")", bits) == 1) {
        unsigned and = 0, or = 0, xor = 0;
        for (int n = 0; n < 5; n++) {
            const unsigned bit = 1u << (4 - n);
            if (bits[n] == 'p' || bits[n] == 'i') and |= bit;
            if (bits[n] == '1') or |= bit;
            if (bits[n] == 'i') xor |= bit;
        }
        m->swizzle = (uint16_t)(and | or << 5 | xor << 10);
    } else
        return false;
    return true;
}

/* RDNA's v_cmpx_ writes EXEC alone. */
static bool has_no_result(const Inst *in)
{
    return in->count == 2 && strncmp(in->op->name, "v_cmpx_", 7) == 0;
}

static bool read_modifier(const char *text, Inst *in)
{
    static const char *const nothing[] = {"offen", "glc", "slc", "dlc", "nv",
                                          "sc0",   "sc1", "nt",  "fi:0"};
    Modifiers *m = &in->m;
    int value;
    if (sscanf(text, "offset0:%d", &value) == 1) return m->offset0 = value, true;
    if (sscanf(text, "offset1:%d", &value) == 1) return m->offset1 = value, true;
    if (strncmp(text, "offset:swizzle", 14) == 0) return read_swizzle(text, m);
    if (strncmp(text, "offset:", 7) == 0) {
        m->offset = (int32_t)strtol(text + 7, NULL, 0);
        m->swizzle = (uint16_t)m->offset;
        return true;
    }
    if (strncmp(text, "gpr_idx(", 8) == 0) {
        static const char *const places[] = {"SRC0", "SRC1", "SRC2", "DST"};
        for (int n = 0; n < 4; n++)
            if (strstr(text, places[n])) m->indexed |= (uint8_t)(1 << n);
        return true;
    }
    if (strncmp(text, "bitop3:", 7) == 0)
        return m->swizzle = (uint16_t)strtol(text + 7, NULL, 0), true;
    if (strncmp(text, "scope:", 6) == 0 || strncmp(text, "th:", 3) == 0) {
        m->glc |= strstr(text, "RETURN") != NULL;
        return true;
    }
    for (size_t n = 0; n < sizeof nothing / sizeof *nothing; n++)
        if (strcmp(text, nothing[n]) == 0) return m->glc |= n == 1 || n == 5, true;
    if (strncmp(text, "op_sel_hi:", 10) == 0)
        return read_list(text, m->op_sel_hi), m->has_op_sel_hi = true;
    if (strncmp(text, "op_sel:", 7) == 0) {
        read_list(text, m->op_sel);
        if (in->count == 3 && strncmp(in->op->name, "v_pk", 4) != 0)
            m->op_sel[3] = m->op_sel[2], m->op_sel[2] = 0;
        if (in->count == 2 && !has_no_result(in)) m->op_sel[3] = m->op_sel[1], m->op_sel[1] = 0;
        return true;
    }
    if (strncmp(text, "neg_lo:", 7) == 0) return read_list(text, m->neg_lo), true;
    if (strncmp(text, "neg_hi:", 7) == 0) return read_list(text, m->neg_hi), true;
    if (strcmp(text, "clamp") == 0) return m->clamp = true;
    if (strcmp(text, "mul:2") == 0) return m->omod = 1, true;
    if (strcmp(text, "mul:4") == 0) return m->omod = 2, true;
    if (strcmp(text, "div:2") == 0) return m->omod = 3, true;
    if (strncmp(text, "row_mask:", 9) == 0)
        return m->row_mask = (uint8_t)strtol(text + 9, NULL, 0), true;
    if (strncmp(text, "bank_mask:", 10) == 0)
        return m->bank_mask = (uint8_t)strtol(text + 10, NULL, 0), true;
    if (strncmp(text, "bound_ctrl:", 11) == 0) return m->bound_ctrl = true;
    if (strcmp(text, "fi:1") == 0) return m->fetches = true;
    return read_dpp(text, m) || read_select(text, m);
}

/* ---- a line */

/* The next piece that ends in [stop] or the end, outside of brackets. */
static char *cut(char **at, char stop)
{
    int depth = 0;
    bool quoted = false;
    char *begin = *at + strspn(*at, " \t");
    if (!*begin) return NULL;
    char *end = begin;
    for (; *end && (*end != stop || depth || quoted); end++) {
        depth += (*end == '[' || *end == '(') - (*end == ']' || *end == ')');
        quoted ^= *end == '"';
    }
    *at = *end ? end + 1 : end;
    *end = 0;
    return begin;
}

/* Hints, and waits whose words are read when they run. */
static bool is_raw(const Op *op) { return strcmp(op->signature, "raw") == 0; }

static bool decode_one(Inst *in, char *text)
{
    char *at = text + strspn(text, " \t");
    const size_t length = strcspn(at, " \t");
    in->op = op_find(at, length);
    in->m.row_mask = in->m.bank_mask = 0xf;
    if (!in->op) return false;
    if (is_raw(in->op)) return true;
    at += length;
    bool last = false;
    while (!last) {
        char *piece = cut(&at, ',');
        if (!piece) break;
        last = *at == 0;
        char *word = cut(&piece, ' ');
        Operand *o = &in->o[in->count];
        if (in->count == MOST_OPERANDS) return false;
        if (read_operand(word, o))
            in->count++;
        else {
            memset(o, 0, sizeof *o);
            if (!read_modifier(word, in)) return false;
        }
        while ((word = cut(&piece, ' ')) != NULL)
            if (!read_modifier(word, in)) return false;
    }
    /* LLVM 22 writes the code of a constant, not the constant, in v_fmac_f32_e64_dpp; there are no others of this size with DPP. */
    for (unsigned n = 0; n < in->count && in->m.dpp; n++)
        if (in->o[n].kind == O_NUMBER && in->o[n].number > 64) return false;
    if (has_no_result(in)) { /* its sources stand where others' do */
        memmove(in->o + 1, in->o, 2 * sizeof *in->o);
        in->o[0] = (Operand){.kind = O_OFF};
        in->count = 3;
    }
    return true;
}

bool decode_text(Inst *in, const char *text)
{
    char first[160];
    snprintf(in->text, sizeof in->text, "%s", text + strspn(text, " \t"));
    snprintf(first, sizeof first, "%s", in->text);
    char *second = strstr(first, " :: ");
    if (second) {
        *second = 0;
        in->second = calloc(1, sizeof *in->second);
        snprintf(in->second->text, sizeof in->second->text, "%s", second + 4);
        if (!decode_one(in->second, second + 4)) return false;
    }
    return decode_one(in, first);
}

/* ---- code */

Inst *decode(Wave *w, uint64_t address)
{
    Emulator *e = w->e;
    if (address < e->text_at || address >= e->text_at + e->text_bytes || address % 4) {
        fail(w, "it goes to 0x%llx, which is no code", (unsigned long long)address);
        return NULL;
    }
    Inst **place = &e->cache[(address - e->text_at) / 4];
    if (*place) return *place;
    char text[256] = "";
    const uint64_t offset = address - e->text_at;
    unsigned char *bytes = e->code + e->text_offset + offset;
    const size_t size = LLVMDisasmInstruction(e->disassembler, bytes, e->text_bytes - offset,
                                              address, text, sizeof text);
    Inst *in = calloc(1, sizeof *in);
    *place = in;
    in->address = address;
    in->bytes = (uint32_t)size;
    if (size == 0) snprintf(in->text, sizeof in->text, "bytes that are no instruction");
    if (size == 0 || !decode_text(in, text)) in->op = NULL;
    return in;
}
