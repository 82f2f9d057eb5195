#include "command.h"

#include <errno.h>
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

int command_error(aule_error *error)
{
    command_fail(EXIT_WRONG, "%s", aule_error_message(error));
    aule_error_free(error);
    return EXIT_WRONG;
}

/* ---- options */

bool option_is(const AuOption *option, const char *name)
{
    return strlen(name) == option->name_length &&
           memcmp(option->name, name, option->name_length) == 0;
}

static bool is_flag(const AuOption *option)
{
    static const char *const flags[] = {"json", "backward", "forward-only", "help", "version"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (option_is(option, flags[i])) return true;
    return false;
}

int options_parse(AuOptions *options, const char *command, int count, char **arguments)
{
    *options = (AuOptions){.command = command};
    for (int i = 0; i < count; i++) {
        const char *text = arguments[i];
        if (text[0] != '-' || text[1] == 0) {
            if (options->artifact)
                return command_fail(EXIT_USAGE, "%s: '%s' is one argument too many", command, text);
            options->artifact = text;
            continue;
        }
        if (options->count == MAX_OPTIONS)
            return command_fail(EXIT_USAGE, "%s: more than %d options", command, MAX_OPTIONS);
        AuOption *option = &options->at[options->count++];
        bool output = strcmp(text, "-o") == 0;
        if (text[1] != '-' && !output)
            return command_fail(EXIT_USAGE, "%s: unknown option '%s'", command, text);
        option->name = output ? "output" : text + 2;
        option->name_length = strcspn(option->name, "=");
        if (option->name[option->name_length] == '=')
            option->value = option->name + option->name_length + 1;
        else if (!is_flag(option)) {
            if (i + 1 == count)
                return command_fail(EXIT_USAGE, "%s: %s needs a value", command, text);
            option->value = arguments[++i];
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

bool parse_value(const char *text, aule_value *value)
{
    char *end;
    *value = (aule_value){.type = AULE_VALUE_INT};
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return value->i = text[0] == 't', true;
    errno = 0;
    value->i = strtoll(text, &end, 0);
    if (end != text && *end == 0 && errno == 0) return true;
    *value = (aule_value){.type = AULE_VALUE_FLOAT, .f = strtod(text, &end)};
    return end != text && *end == 0;
}
