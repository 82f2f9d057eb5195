/* elf64.h - what artifacts are made of as files: ELF of 64 bits, little endian (System V ABI, chapters 4 and 5), in the ABI's names. For
 * what writes and reads them on every system, <elf.h> or not; not installed, since programs that open artifacts need none of it. */
#ifndef AULE_ELF64_H
#define AULE_ELF64_H

#include <stdint.h>

typedef struct Elf64_Ehdr {
    unsigned char e_ident[16];
    uint16_t e_type, e_machine;
    uint32_t e_version;
    uint64_t e_entry, e_phoff, e_shoff;
    uint32_t e_flags;
    uint16_t e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx;
} Elf64_Ehdr;

typedef struct Elf64_Phdr {
    uint32_t p_type, p_flags;
    uint64_t p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align;
} Elf64_Phdr;

typedef struct Elf64_Shdr {
    uint32_t sh_name, sh_type;
    uint64_t sh_flags, sh_addr, sh_offset, sh_size;
    uint32_t sh_link, sh_info;
    uint64_t sh_addralign, sh_entsize;
} Elf64_Shdr;

typedef struct Elf64_Sym {
    uint32_t st_name;
    unsigned char st_info, st_other;
    uint16_t st_shndx;
    uint64_t st_value, st_size;
} Elf64_Sym;

typedef struct Elf64_Dyn {
    int64_t d_tag;
    uint64_t d_val; /* or an address */
} Elf64_Dyn;

typedef struct Elf64_Rela {
    uint64_t r_offset, r_info; /* the symbol in the upper half of r_info, the kind in the lower */
    int64_t r_addend;
} Elf64_Rela;

/* Versions of symbols: of libraries that are needed, and the file's own. */
typedef struct Elf64_Verneed {
    uint16_t vn_version, vn_cnt;
    uint32_t vn_file, vn_aux, vn_next;
} Elf64_Verneed;

typedef struct Elf64_Vernaux {
    uint32_t vna_hash;
    uint16_t vna_flags, vna_other;
    uint32_t vna_name, vna_next;
} Elf64_Vernaux;

typedef struct Elf64_Verdef {
    uint16_t vd_version, vd_flags, vd_ndx, vd_cnt;
    uint32_t vd_hash, vd_aux, vd_next;
} Elf64_Verdef;

/* e_ident begins with the magic, 4 bytes; then class, order of bytes, version */
#define ELF_MAGIC "\177ELF"
enum { ELF_MAGIC_BYTES = 4, EI_CLASS = 4, EI_DATA = 5, EI_VERSION = 6 };
enum { ELFCLASS64 = 2, ELFDATA2LSB = 1, EV_CURRENT = 1, ET_DYN = 3 };
enum { EM_NONE = 0, EM_386 = 3, EM_X86_64 = 62, EM_AARCH64 = 183 };

enum {
    PT_LOAD = 1,
    PT_DYNAMIC = 2,
    PT_PHDR = 6,
    PT_TLS = 7,
    PT_GNU_STACK = 0x6474e551,
    PT_GNU_RELRO = 0x6474e552
};
enum { PF_X = 1, PF_W = 2, PF_R = 4 };

/* Tags of the dynamic section; those below ELF_TAGS are the ABI's own. */
enum {
    DT_NULL = 0,
    DT_NEEDED = 1,
    DT_PLTRELSZ = 2,
    DT_HASH = 4,
    DT_STRTAB = 5,
    DT_SYMTAB = 6,
    DT_RELA = 7,
    DT_RELASZ = 8,
    DT_RELAENT = 9,
    DT_STRSZ = 10,
    DT_SYMENT = 11,
    DT_INIT = 12,
    DT_FINI = 13,
    DT_REL = 17,
    DT_PLTREL = 20,
    DT_TEXTREL = 22,
    DT_JMPREL = 23,
    DT_INIT_ARRAY = 25,
    DT_FINI_ARRAY = 26,
    DT_INIT_ARRAYSZ = 27,
    DT_FINI_ARRAYSZ = 28,
    ELF_TAGS = 38,
    DT_GNU_HASH = 0x6ffffef5,
    DT_VERSYM = 0x6ffffff0,
    DT_RELACOUNT = 0x6ffffff9,
    DT_VERDEF = 0x6ffffffc,
    DT_VERNEED = 0x6ffffffe,
    DT_AUXILIARY = 0x7ffffffd,
    DT_FILTER = 0x7fffffff
};

enum {
    SHN_UNDEF = 0,
    SHT_PROGBITS = 1,
    SHT_STRTAB = 3,
    SHT_RELA = 4,
    SHT_HASH = 5,
    SHT_DYNAMIC = 6,
    SHT_DYNSYM = 11
};
enum { SHF_WRITE = 1, SHF_ALLOC = 2 };
enum { STB_GLOBAL = 1, STB_WEAK = 2, STB_GNU_UNIQUE = 10, STT_OBJECT = 1, STT_FUNC = 2 };

enum {
    R_X86_64_64 = 1,
    R_X86_64_GLOB_DAT = 6,
    R_X86_64_JUMP_SLOT = 7,
    R_X86_64_RELATIVE = 8,
    R_X86_64_IRELATIVE = 37,
    R_AARCH64_ABS64 = 257,
    R_AARCH64_GLOB_DAT = 1025,
    R_AARCH64_JUMP_SLOT = 1026,
    R_AARCH64_RELATIVE = 1027,
    R_AARCH64_IRELATIVE = 1032
};

#endif
