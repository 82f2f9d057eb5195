#include "place.h"

#include <unistd.h>

bool place_of_program(char *path, size_t bytes)
{
    const ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    if (length <= 0) return false;
    path[length] = 0;
    return true;
}
