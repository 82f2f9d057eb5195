#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int command_fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("aule: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return status;
}

static int exit_status(aule_status status)
{
    switch (status) {
    case AULE_ERROR_USAGE:
    case AULE_ERROR_NAME: return EXIT_USAGE;
    case AULE_ERROR_FILE:
    case AULE_ERROR_ARTIFACT:
    case AULE_ERROR_VERSION: return EXIT_FILE;
    case AULE_OK:
    case AULE_ERROR_MEMORY:
    case AULE_ERROR_DEVICE:
    case AULE_ERROR_UNSUPPORTED:
    case AULE_ERROR_TENSOR:
    case AULE_ERROR_PARAM:
    case AULE_ERROR_REQUIRE:
    case AULE_ERROR_WORKSPACE:
    case AULE_ERROR_BUILD:
    case AULE_ERROR_DRIVER:
    case AULE_ERROR_INDEX:
    case AULE_ERROR_WORK: break;
    }
    return EXIT_WRONG;
}

int command_error(aule_error *error)
{
    int status = exit_status(aule_error_status(error));
    command_fail(status, "%s", aule_error_message(error));
    aule_error_free(error);
    return status;
}

/* ---- options */

static bool same_name(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((a[i] == '-' ? '_' : a[i]) != (b[i] == '-' ? '_' : b[i])) return false;
    return true;
}

bool option_is(const AuOption *option, const char *name)
{
    return strlen(name) == option->name_length &&
           same_name(option->name, name, option->name_length);
}

static bool is_among(const AuOption *option, const char *words)
{
    while (*words) {
        size_t length = strcspn(words, " ");
        if (length == option->name_length && memcmp(words, option->name, length) == 0) return true;
        words += length + (words[length] == ' ');
    }
    return false;
}

static bool is_given(const AuOptions *options, const AuOption *option)
{
    for (size_t i = 0; i < options->count; i++)
        if (options->at[i].name_length == option->name_length &&
            same_name(options->at[i].name, option->name, option->name_length))
            return true;
    return false;
}

/* "-o", "--name" or "--name=value" */
static bool read_name(const char *text, AuOption *option)
{
    bool output = strcmp(text, "-o") == 0;
    *option = (AuOption){.name = output ? "output" : text + 2};
    option->name_length = strcspn(option->name, "=");
    if (option->name[option->name_length] == '=')
        option->value = option->name + option->name_length + 1;
    return output || (text[1] == '-' && option->name_length > 0);
}

/* One option, whose value may be the argument [after] it (NULL: the last one); *took says so. */
static int read_option(AuOptions *options, const AuCommand *command, const char *text,
                       const char *after, bool *took)
{
    AuOption option;
    *took = false;
    if (!read_name(text, &option))
        return command_fail(EXIT_USAGE, "%s: unknown option '%s'", command->name, text);
    int length = (int)option.name_length;
    bool flag = is_among(&option, command->flags);
    if (!flag && !is_among(&option, command->values) && (!command->named || text[1] != '-'))
        return command_fail(EXIT_USAGE, "%s: unknown option '%s'; see aule %s --help",
                            command->name, text, command->name);
    if (flag && option.value)
        return command_fail(EXIT_USAGE, "%s: --%.*s takes no value", command->name, length,
                            option.name);
    if (!flag && !option.value) {
        *took = after && strncmp(after, "--", 2) != 0;
        if (!*took) return command_fail(EXIT_USAGE, "%s: %s needs a value", command->name, text);
        option.value = after;
    }
    if (is_given(options, &option))
        return command_fail(EXIT_USAGE, "%s: --%.*s is given twice", command->name, length,
                            option.name);
    if (options->count == MAX_OPTIONS)
        return command_fail(EXIT_USAGE, "%s: more than %d options", command->name, MAX_OPTIONS);
    options->at[options->count++] = option;
    return 0;
}

int options_parse(AuOptions *options, const AuCommand *command, int count, char **arguments)
{
    *options = (AuOptions){.command = command->name};
    for (int i = 0; i < count; i++) {
        const char *text = arguments[i];
        if (text[0] == '-' && text[1] != 0) {
            bool took;
            int status =
                read_option(options, command, text, i + 1 < count ? arguments[i + 1] : NULL, &took);
            if (status) return status;
            i += took;
        } else if (options->artifact) {
            return command_fail(EXIT_USAGE, "%s: '%s' is one argument too many", command->name,
                                text);
        } else {
            options->artifact = text;
        }
    }
    return 0;
}

const char *options_take(AuOptions *options, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < options->count; i++)
        if (option_is(&options->at[i], name)) {
            options->at[i].used = true;
            value = options->at[i].value;
        }
    return value;
}

bool options_flag(AuOptions *options, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < options->count; i++)
        if (option_is(&options->at[i], name)) options->at[i].used = found = true;
    return found;
}

/* ---- numbers */

bool parse_whole(const char *text, size_t length, uint64_t most, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)text[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, digit, value))
            return false;
    }
    return length > 0 && *value <= most;
}

int options_number(AuOptions *options, const char *name, uint64_t least, uint64_t most,
                   uint64_t *value)
{
    uint64_t read;
    const char *text = options_take(options, name);
    if (!text) return 0;
    if (!parse_whole(text, strlen(text), most, &read) || read < least)
        return command_fail(EXIT_USAGE, "--%s is '%s', expected %llu to %llu", name, text,
                            (unsigned long long)least, (unsigned long long)most);
    *value = read;
    return 0;
}

bool parse_value(const char *text, aule_value *value)
{
    char *end;
    *value = (aule_value){.type = AULE_VALUE_INT};
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return value->i = text[0] == 't', true;
    if (isspace((unsigned char)*text)) return false; /* which the functions below skip */
    bool hex = strncmp(text + strspn(text, "+-"), "0x", 2) == 0;
    errno = 0;
    value->i = strtoll(text, &end, hex ? 16 : 10);
    if (end != text && *end == 0 && errno == 0) return true;
    errno = 0;
    *value = (aule_value){.type = AULE_VALUE_FLOAT, .f = strtod(text, &end)};
    return end != text && *end == 0 && !(errno == ERANGE && isinf(value->f));
}
