/* runner.c - executes host kernels in a process of its own: a fault is a failed test, not the end of all of them, and the same
 * program built for AArch64 runs under qemu-user.
 *
 * runner LIBRARY FILE: the library exports aule_module_v1, an array of functions. FILE is an array of 64-bit words: the number of
 * cases; for each case its three grid sizes, the number of arguments, and for each argument a slot, or for a buffer its length
 * in bytes and then the bytes, padded to 64. It is mapped, kernels write into it, and it stays as they leave it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void (*Kernel)(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z);

/* One case at word [at]; gives the word behind it. */
static uint64_t run_case(Kernel kernel, uint64_t *words, uint64_t at)
{
    const uint64_t *grid = words + at, count = words[at + 3];
    uint64_t slots[32];
    at += 4;
    for (uint64_t n = 0; n < count; n++) {
        const uint64_t bytes = words[at], value = words[at + 1];
        slots[n] = bytes ? (uint64_t)(uintptr_t)(words + at + 8) : value;
        at += 8 + (bytes + 63) / 64 * 8;
    }
    for (uint32_t z = 0; z < grid[2]; z++)
        for (uint32_t y = 0; y < grid[1]; y++)
            for (uint32_t x = 0; x < grid[0]; x++) kernel(slots, x, y, z);
    return (at + 7) / 8 * 8;
}

/* As the runtime does for processes that may run AMX: kernels of other architectures do not care. */
static void ask_for_tiles(void)
{
#ifdef __x86_64__
    syscall(SYS_arch_prctl, 0x1023, 18);
#endif
}

int main(int count, char **arguments)
{
    ask_for_tiles();
    if (count != 3) return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    const Kernel *kernels = dlsym(library, "aule_module_v1");
    const int handle = open(arguments[2], O_RDWR);
    struct stat info;
    if (!kernels || handle < 0 || fstat(handle, &info)) return 4;
    uint64_t *words =
        mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    if (words == MAP_FAILED) return 5;
    for (uint64_t n = 0, at = 8; n < words[0]; n++) at = run_case(kernels[n], words, at);
    return 0;
}
