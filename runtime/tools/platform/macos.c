#include "place.h"

#include <limits.h>
#include <mach-o/dyld.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* As it was called, links and all, until they are followed. */
bool place_of_program(char *path, size_t bytes)
{
    char called[PATH_MAX], real[PATH_MAX];
    uint32_t room = sizeof called;
    if (_NSGetExecutablePath(called, &room) != 0 || !realpath(called, real)) return false;
    return strlcpy(path, real, bytes) < bytes;
}
