/* embed.h - an artifact for a static build instead of a shared library: a header, C source, an
 * object or an archive. All are made from the artifact's descriptor (<aule/artifact.h>), so that
 * whatever an artifact can say is embedded, too.
 *
 *   header    what x.o, libx.a or x.c define: typed functions of target `cpu`, the descriptor
 *   c         the descriptor as data, for targets whose code is data
 *   obj       the descriptor, the kernels of target `cpu`, the functions that call them
 *   archive   the same, one member for each variant, so that a program links what it uses */
#ifndef AU_DRIVER_EMBED_H
#define AU_DRIVER_EMBED_H

#include "calls.h"
#include "driver.h"

typedef struct AuEmbed {
    AuArena *arena;
    AuDiags *diags;
    uint32_t emit;         /* aulec_emit */
    const char *name;      /* of the script, as the user wrote it */
    const char *attention; /* the only one that was asked for; NULL: all */
    const AuAttentionBuild *builds;
    uint32_t build_count;
    const aule_module_v1 *module;
    /* filled by embed_is_possible and embed_emit */
    const char *stem; /* that attention, else the script's name as an identifier: "mha" */
    AuCall *calls;    /* of target cpu, grouped by attention */
    uint32_t call_count, call_capacity;
    const AuArch *host; /* of the kernels for target cpu; NULL: there are none */
} AuEmbed;

/* false: a diagnostic says why the variants cannot be put into what was asked for. */
bool embed_is_possible(AuEmbed *e);
/* Does it hold code? The header does not. */
bool embed_needs_code(uint32_t emit);
bool embed_emit(AuEmbed *e, AuBlob *out);

/* embed_header.c, embed_source.c */
void embed_header(const AuEmbed *e, AuText *out);
void embed_source(const AuEmbed *e, AuText *out);
/* "MHA" of "mha" */
const char *embed_upper(AuArena *arena, const char *name);

/* archive.c: an archive (`ar`) with an index of the names that members define. */
typedef struct AuMember {
    const char *name; /* at most 15 characters */
    AuBlob content;
    const char *const *symbols;
    uint32_t symbol_count;
} AuMember;
AuBlob archive_write(AuArena *arena, const AuMember *members, uint32_t count);

#endif
