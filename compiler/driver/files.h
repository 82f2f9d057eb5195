/* files.h - of the command: scripts that it reads, results that it writes, and what it says to the standard error. Exit statuses as in
 * aulec.c. */
#ifndef AULEC_FILES_H
#define AULEC_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Wrong use, "aulec: what: detail" ("": without one). Returns the status for that. */
int files_complain(const char *what, const char *detail);
/* The text of a script, to be freed; "-" is the standard input. NULL: it cannot be read, which is said. */
char *files_read(const char *name, size_t *length);
/* Do both names, however they are spelled, stand for one file? */
bool files_are_one(const char *a, const char *b);
/* Into a file beside [name], renamed when complete: whoever reads [name] finds the old content or the new one. Returns the status. */
int files_write(const char *name, const void *data, size_t length);
/* Everything so far, to a standard output that may be full. Returns the status. */
int files_flush(void);

#endif
