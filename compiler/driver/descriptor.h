/* descriptor.h - the structures of <aule/artifact.h> as tables of their members, so that one walk writes any of them: into the image
 * that becomes an artifact's data (image.c), into C (embed_source.c). A new member of a structure is a new row. */
#ifndef AU_DRIVER_DESCRIPTOR_H
#define AU_DRIVER_DESCRIPTOR_H

#include "target.h"

#include "aule/artifact.h"

typedef enum AuMemberKind {
    AU_M_END,
    AU_M_MAGIC,
    AU_M_SIZE, /* struct_size */
    AU_M_U16,
    AU_M_U32,
    AU_M_U64,
    AU_M_I64,
    AU_M_TEXT,
    AU_M_WORDS,  /* pointer to uint32_t */
    AU_M_CODE,   /* pointer to bytes, for text with a NUL that is not counted */
    AU_M_HOST,   /* the function that is called as the member `entry` before it says; NULL: none */
    AU_M_INLINE, /* structures of [of] that are part of this one */
    AU_M_LIST,   /* pointer to structures of [of] */
} AuMemberKind;

typedef struct AuStructMember {
    AuMemberKind kind;
    uint32_t at, many; /* offset; of U32 and INLINE: how many there are, one after the other */
    uint32_t count_at; /* offset of the number of what is pointed to, u32, of CODE u64 */
    const struct AuStruct *of;
} AuStructMember;

typedef struct AuStruct {
    const char *name;
    uint32_t bytes;
    const AuStructMember *members;
} AuStruct;
extern const AuStruct descriptor_module;

/* How many structures or words a member of [data] points to. */
uint64_t descriptor_count(const AuStructMember *member, const void *data);

/* Code that was written, and where: equal code of several variants is written once. */
typedef struct AuCodes {
    struct AuWritten *codes;
    uint32_t count, capacity;
} AuCodes;
/* Where such code is; [fresh]: nowhere yet, and the caller says where, before it asks again. */
uint64_t *descriptor_code(AuArena *arena, AuCodes *all, const void *bytes, uint64_t length,
                          bool *fresh);

/* image.c: the module as data of an object. Between members there are zeros, so that a script always gives the same. */
AuImage descriptor_image(AuArena *arena, const aule_module_v1 *module);

#endif
