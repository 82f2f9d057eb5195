/* std.h - the standard library: the scripts of this folder as one text, compiled into the library.
 * The front end parses it like a script of the user's; a script's own definition of a name goes
 * before the library's. */
#ifndef AU_DSL_STD_H
#define AU_DSL_STD_H

/* All scripts one after the other, ending with a NUL. The library's scripts are ASCII. */
const char *au_std_source(void);

#endif
