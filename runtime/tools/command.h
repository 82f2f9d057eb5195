/* command.h - the command line `aule`: options, messages, and the commands. Errors are one line on stderr. What is given is read as a
 * whole or refused by its name: nothing is guessed, cut or left out. */
#ifndef AU_TOOLS_COMMAND_H
#define AU_TOOLS_COMMAND_H

#include "array.h"

enum { MAX_OPTIONS = 128 };

/* Exit statuses, those of aulec too. */
enum {
    EXIT_WRONG = 1, /* what was tried does not hold, or went wrong */
    EXIT_USAGE = 2, /* the command line or the environment */
    EXIT_FILE = 3   /* a file cannot be read or written, or is not what it should be */
};

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

/* A command and what it takes; names are words between spaces. */
typedef struct AuCommand {
    const char *name;
    int (*run)(AuOptions *options);
    const char *flags;  /* options without a value */
    const char *values; /* options with a value */
    bool named; /* any other option has a value and names an input or a param of the artifact */
    const char *help;
} AuCommand;

/* 0, or EXIT_USAGE after a message. */
int options_parse(AuOptions *options, const AuCommand *command, int count, char **arguments);
const char *options_take(AuOptions *options,
                         const char *name); /* its value, marked as used; NULL: not given */
bool options_flag(AuOptions *options, const char *name);
/* A whole number of decimal digits in [least, most]; *value stays where it is not given. */
int options_number(AuOptions *options, const char *name, uint64_t least, uint64_t most,
                   uint64_t *value);
bool option_is(const AuOption *option, const char *name); /* '-' for '_' is as good */

/* "aule: ..." on stderr; returns [status]. */
int command_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the error and frees it; returns the exit status that it means. */
int command_error(aule_error *error);

/* [length] decimal digits, and nothing else, that make at most [most]. */
bool parse_whole(const char *text, size_t length, uint64_t most, uint64_t *value);
/* "1e-3", "-5", "0x10", "true"; false: not a number, or one that no double holds. */
bool parse_value(const char *text, aule_value *value);

/* What "forward", "backward" and "step" do with a tensor of a role (aule_role): aule/operations.def. */
bool operation_takes(const char *operation, uint32_t role);
bool operation_writes(const char *operation, uint32_t role);

int command_devices(AuOptions *options);
int command_inspect(AuOptions *options);
int command_run(AuOptions *options);
int command_bench(AuOptions *options);
int command_check(AuOptions *options);
int command_cache(AuOptions *options);

#endif
