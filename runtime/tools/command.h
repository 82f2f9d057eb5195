/* command.h - the command line `aule`: options, messages, and the commands. Errors are one line on stderr; a command returns the exit
 * status: 0, 1 for what went wrong, 2 for a wrong command line. */
#ifndef AU_TOOLS_COMMAND_H
#define AU_TOOLS_COMMAND_H

#include "array.h"

enum { MAX_OPTIONS = 128, EXIT_WRONG = 1, EXIT_USAGE = 2 };

/* --name value, --name=value, or a flag, whose value is NULL. */
typedef struct AuOption {
    const char *name, *value;
    size_t name_length; /* of name, which may go on with "=value" */
    bool used;
} AuOption;

typedef struct AuOptions {
    const char *command;
    const char *artifact; /* the one argument without a name; NULL: none */
    AuOption at[MAX_OPTIONS];
    size_t count;
} AuOptions;

/* 0, or EXIT_USAGE after a message. Flags are the same for all commands. */
int options_parse(AuOptions *options, const char *command, int count, char **arguments);
const char *options_take(AuOptions *options,
                         const char *name); /* its value, marked as used; NULL: not given */
bool options_flag(AuOptions *options, const char *name);
bool option_is(const AuOption *option, const char *name);

/* "aule: ..." on stderr; returns [status]. */
int command_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the error and frees it; EXIT_WRONG. */
int command_error(aule_error *error);

/* "1e-3", "-5", "0x10", "true"; false: not a number. */
bool parse_value(const char *text, aule_value *value);

int command_devices(AuOptions *options);
int command_inspect(AuOptions *options);
int command_run(AuOptions *options);
int command_bench(AuOptions *options);
int command_check(AuOptions *options);

#endif
