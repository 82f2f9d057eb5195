#include "elf_versions.h"

/* Libraries that are needed, and versions of one: linkers write a handful. */
enum { MOST_LIBRARIES = 64, MOST_OF_ONE = 1024 };
enum {
    NUMBER = 0x7fff,
    FIRST = 1
}; /* bits of a version's number; what has none is of number 0 or 1 */

typedef struct Walk {
    const AuElfFile *file;
    const AuElfDynamic *d;
    AuElfTable table; /* from its first entry on */
    AuElfVersions *versions;
} Walk;

static void count_number(const Walk *w, uint32_t number)
{
    number &= NUMBER;
    if (number > w->versions->most) w->versions->most = number;
}

static bool is_name(const Walk *w, uint32_t name) { return name < w->d->at[DT_STRSZ]; }

/* The loader ends the process if it has not loaded such a library for this one. */
static bool is_needed(const Walk *w, uint32_t name)
{
    Elf64_Dyn entry;
    for (uint64_t n = 0; rt_elf_row(&w->d->entries, n, &entry, sizeof entry); n++) {
        if (entry.d_tag == DT_NULL) return false;
        if (entry.d_tag == DT_NEEDED && entry.d_val < w->d->at[DT_STRSZ] &&
            rt_elf_same_name(w->d, name, (uint32_t)entry.d_val))
            return true;
    }
    return false;
}

static bool needs_of_one(const Walk *w, uint64_t offset)
{
    Elf64_Vernaux of;
    for (int n = 0; n < MOST_OF_ONE; n++) {
        if (!rt_elf_at(&w->table, offset, &of, sizeof of) || !is_name(w, of.vna_name)) return false;
        count_number(w, of.vna_other);
        if (!of.vna_next) return true;
        offset += of.vna_next;
    }
    return false;
}

static bool needs_fit(const Walk *w)
{
    Elf64_Verneed library;
    uint64_t offset = 0;
    for (int n = 0; n < MOST_LIBRARIES; n++) {
        if (!rt_elf_at(&w->table, offset, &library, sizeof library) || library.vn_version != 1 ||
            !is_name(w, library.vn_file) || !is_needed(w, library.vn_file) ||
            !needs_of_one(w, offset + library.vn_aux))
            return false;
        if (!library.vn_next) return true;
        offset += library.vn_next;
    }
    return false;
}

static bool definitions_fit(const Walk *w)
{
    Elf64_Verdef version;
    uint32_t name;
    uint64_t offset = 0;
    for (int n = 0; n < MOST_OF_ONE; n++) {
        if (!rt_elf_at(&w->table, offset, &version, sizeof version) || version.vd_version != 1 ||
            !rt_elf_at(&w->table, offset + version.vd_aux, &name, sizeof name) || !is_name(w, name))
            return false;
        count_number(w, version.vd_ndx);
        if (!version.vd_next) return true;
        offset += version.vd_next;
    }
    return false;
}

bool rt_elf_versions(const AuElfFile *file, const AuElfLoads *loads, const AuElfDynamic *d,
                     AuElfVersions *versions)
{
    Walk w = {.file = file, .d = d, .versions = versions};
    *versions = (AuElfVersions){.most = FIRST};
    if (d->needs && (!rt_elf_table(file, loads, d->needs, &w.table) || !needs_fit(&w)))
        return false;
    if (d->definitions &&
        (!rt_elf_table(file, loads, d->definitions, &w.table) || !definitions_fit(&w)))
        return false;
    return !d->versions || rt_elf_table(file, loads, d->versions, &versions->of_symbols);
}

bool rt_elf_has_version(const AuElfVersions *versions, uint32_t symbol)
{
    uint16_t number;
    if (!versions->of_symbols.file) return true;
    return rt_elf_row(&versions->of_symbols, symbol, &number, sizeof number) &&
           (number & NUMBER) <= versions->most;
}

bool rt_elf_have_versions(const AuElfVersions *versions, const AuElfDynamic *d)
{
    uint32_t first, end;
    if (!versions->of_symbols.file) return true;
    if (!rt_elf_found_by_name(d, &first, &end)) return false;
    for (uint32_t n = first; n < end; n++)
        if (!rt_elf_has_version(versions, n)) return false;
    return true;
}
