/* hostile.h - libraries that no linker makes, byte by byte: a descriptor whose pointers go where the test says, in one segment or in many. They are
 * for the machine that this is not, so that they are read as data. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stddef.h>
#include <stdint.h>

#include "aule/artifact.h"
#include "aule/elf64.h"

typedef struct Hostile {
    unsigned char *at;
    size_t length, room;
    Elf64_Rela *pointers;
    size_t pointer_count, pointer_room;
    size_t module;     /* where the descriptor is */
    uint32_t segments; /* empty ones in front of the one that has everything */
    uint32_t
        chain; /* what the table of names says of its length; 0: the truth. Else symbols are a ring */
} Hostile;

/* All that follows is zero, at multiples of 8. */
void hostile_begin(Hostile *h, uint32_t segments);
size_t hostile_place(Hostile *h, size_t bytes);
size_t hostile_text(Hostile *h, const char *text);
/* The eight bytes at [at] become the address of [to]. */
void hostile_point(Hostile *h, size_t at, size_t to);
void hostile_u32(Hostile *h, size_t at, uint32_t value);
/* A module with so many attentions without anything in them; where they are. */
size_t hostile_module(Hostile *h, uint32_t attentions);
/* Tables for the loader. Then it is whole. */
void hostile_end(Hostile *h);
void hostile_write(const Hostile *h, const char *path);
void hostile_free(Hostile *h);

#endif
