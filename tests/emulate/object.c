/* object.c - a code object: its machine, the code, kernels' descriptors ("User Guide for AMDGPU Backend", code object version 5). */
#include "inside.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>

enum { EM_AMDGPU_ = 224 };
/* Machines by the low byte of e_flags. Code of a generic ISA runs on those that it covers, and is executed as the first of them. */
static const struct {
    unsigned flags;
    const char *name;
    Family family;
    const char *covers;
} machines[] = {{0x30, "gfx908", CDNA, ""},
                {0x3f, "gfx90a", CDNA, ""},
                {0x4c, "gfx942", CDNA, ""},
                {0x4f, "gfx950", CDNA, ""},
                {0x36, "gfx1030", RDNA2, ""},
                {0x41, "gfx1100", RDNA3, ""},
                {0x46, "gfx1101", RDNA3, ""},
                {0x47, "gfx1102", RDNA3, ""},
                {0x44, "gfx1103", RDNA3, ""},
                {0x43, "gfx1150", RDNA3, ""},
                {0x4a, "gfx1151", RDNA3, ""},
                {0x55, "gfx1152", RDNA3, ""},
                {0x58, "gfx1153", RDNA3, ""},
                {0x48, "gfx1200", RDNA4, ""},
                {0x4e, "gfx1201", RDNA4, ""},
                {0x5f, "gfx9-4-generic", CDNA, "gfx942 gfx950"},
                {0x53, "gfx10-3-generic", RDNA2, "gfx1030 gfx1031"},
                {0x54, "gfx11-generic", RDNA3, "gfx1100 gfx1101 gfx1151"},
                {0x59, "gfx12-generic", RDNA4, "gfx1200 gfx1201"}};

static const Elf64_Shdr *sections(const unsigned char *code, unsigned *count)
{
    const Elf64_Ehdr *head = (const void *)code;
    *count = head->e_shnum;
    return (const void *)(code + head->e_shoff);
}

size_t emu_code_bytes(const void *code)
{
    const Elf64_Ehdr *head = code;
    if (memcmp(code, ELFMAG "\2\1", 6) != 0 || head->e_machine != EM_AMDGPU_) return 0;
    return head->e_shoff + (size_t)head->e_shentsize * head->e_shnum;
}

const unsigned char *object_at(const Emulator *e, uint64_t address, size_t bytes)
{
    unsigned count;
    const Elf64_Shdr *s = sections(e->code, &count);
    for (unsigned n = 0; n < count; n++)
        if (s[n].sh_type != SHT_NOBITS && s[n].sh_addr && address >= s[n].sh_addr &&
            address + bytes <= s[n].sh_addr + s[n].sh_size)
            return e->code + s[n].sh_offset + (address - s[n].sh_addr);
    return NULL;
}

static bool find_symbol(const Emulator *e, const char *name, uint64_t *address)
{
    unsigned count;
    const Elf64_Shdr *s = sections(e->code, &count);
    for (unsigned n = 0; n < count; n++) {
        if (s[n].sh_type != SHT_DYNSYM) continue;
        const Elf64_Sym *symbols = (const void *)(e->code + s[n].sh_offset);
        const char *names = (const char *)e->code + s[s[n].sh_link].sh_offset;
        for (size_t i = 0; i < s[n].sh_size / sizeof *symbols; i++)
            if (strcmp(names + symbols[i].st_name, name) == 0) {
                *address = symbols[i].st_value;
                return true;
            }
    }
    return false;
}

static uint32_t word_at(const unsigned char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

bool object_find(const Emulator *e, const char *kernel, Descriptor *d)
{
    char name[200];
    uint64_t address, entry;
    snprintf(name, sizeof name, "%s.kd", kernel);
    if (!find_symbol(e, name, &address)) return false;
    const unsigned char *at = object_at(e, address, 64);
    if (!at) return false;
    memcpy(&entry, at + 16, sizeof entry);
    *d = (Descriptor){.lds = word_at(at),
                      .scratch = word_at(at + 4),
                      .arguments = word_at(at + 8),
                      .entry = address + entry,
                      .rsrc3 = word_at(at + 44),
                      .rsrc1 = word_at(at + 48),
                      .rsrc2 = word_at(at + 52),
                      .properties = (uint16_t)word_at(at + 56)};
    return true;
}

bool emu_has(const Emulator *e, const char *kernel)
{
    Descriptor unused;
    return object_find(e, kernel, &unused);
}

bool emu_runs_on(const Emulator *e, const char *machine)
{
    const size_t length = strcspn(machine, ":");
    if (strlen(e->machine) == length && memcmp(e->machine, machine, length) == 0) return true;
    for (const char *at = e->covers; *at; at += strspn(at, " ")) {
        const size_t span = strcspn(at, " ");
        if (span == length && memcmp(at, machine, length) == 0) return true;
        at += span;
    }
    return false;
}

static bool find_code(Emulator *e)
{
    unsigned count;
    const Elf64_Shdr *s = sections(e->code, &count);
    for (unsigned n = 0; n < count; n++)
        if (s[n].sh_type == SHT_PROGBITS && s[n].sh_flags & SHF_EXECINSTR) {
            e->text_at = s[n].sh_addr;
            e->text_bytes = s[n].sh_size;
            e->text_offset = s[n].sh_offset;
            return true;
        }
    return false;
}

static void *make_disassembler(const Emulator *e)
{
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    const char *features = e->family == CDNA ? "+wavefrontsize64" : "+wavefrontsize32";
    return LLVMCreateDisasmCPUFeatures("amdgcn-amd-amdhsa", e->machine, features, NULL, 0, NULL,
                                       NULL);
}

Emulator *emu_new(const void *code, char *why, size_t why_bytes)
{
    const size_t bytes = emu_code_bytes(code);
    const Elf64_Ehdr *head = code;
    if (!bytes) {
        snprintf(why, why_bytes, "no code object of AMD's");
        return NULL;
    }
    Emulator *e = calloc(1, sizeof *e);
    for (size_t n = 0; n < sizeof machines / sizeof *machines; n++)
        if (machines[n].flags == (head->e_flags & 0xff)) {
            snprintf(e->machine, sizeof e->machine, "%s", machines[n].name);
            e->family = machines[n].family;
            e->covers = machines[n].covers;
        }
    e->code = malloc(bytes);
    memcpy(e->code, code, bytes);
    e->bytes = bytes;
    const char *problem = !*e->machine    ? "a machine that is not emulated"
                          : !find_code(e) ? "no code in it"
                          : !(e->disassembler = make_disassembler(e))
                              ? "LLVM has no disassembler for it"
                              : NULL;
    if (problem) {
        snprintf(why, why_bytes, "%s (flags 0x%x)", problem, (unsigned)head->e_flags);
        emu_free(e);
        return NULL;
    }
    e->cache = calloc(e->text_bytes / 4 + 1, sizeof *e->cache);
    return e;
}

void emu_free(Emulator *e)
{
    if (!e) return;
    for (uint64_t n = 0; e->cache && n < e->text_bytes / 4; n++)
        if (e->cache[n]) {
            free(e->cache[n]->second);
            free(e->cache[n]);
        }
    if (e->disassembler) LLVMDisasmDispose(e->disassembler);
    free(e->cache);
    free(e->code);
    free(e);
}

const char *emu_error(const Emulator *e) { return e->error; }
const EmuCounts *emu_counts(const Emulator *e) { return &e->counts; }
