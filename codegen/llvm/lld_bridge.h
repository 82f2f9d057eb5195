/* lld_bridge.h - lld's ELF linker as a C function. */
#ifndef AU_LLD_BRIDGE_H
#define AU_LLD_BRIDGE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the linker with the arguments of a command line, arguments[0] "ld.lld". Returns its exit code; *message is NULL or what
 * it said, to be given to free. Callable from any thread; links run one after the other. */
int lld_link_elf(int count, const char *const *arguments, char **message);

#ifdef __cplusplus
}
#endif
#endif
