/* place.h - where the running program lies: linux.c or macos.c (meson.build). */
#ifndef AU_TOOLS_PLACE_H
#define AU_TOOLS_PLACE_H

#include <stdbool.h>
#include <stddef.h>

bool place_of_program(char *path, size_t bytes);

#endif
