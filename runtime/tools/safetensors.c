/* safetensors.c - one tensor of a .safetensors file: 8 bytes with the header's length, a JSON header, the data. See array.h; the format is
 * described at https://github.com/huggingface/safetensors. */
#include <stdlib.h>
#include <string.h>

#include "array.h"

enum { DEPTH = 32, NAME = 512 };

typedef struct Json {
    const char *at, *end;
} Json;

/* ---- as much of JSON as the header needs: read what is wanted, skip the rest */

static char next(Json *j) /* skips space; 0 at the end */
{
    while (j->at < j->end && strchr(" \t\r\n", *j->at) && *j->at) j->at++;
    return j->at < j->end ? *j->at : 0;
}

static bool eat(Json *j, char wanted)
{
    if (next(j) != wanted) return false;
    j->at++;
    return true;
}

static bool read_hex(Json *j, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        if (j->at == j->end) return false;
        char c = *j->at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16) return false;
        *code = *code * 16 + digit;
    }
    return true;
}

/* UTF-8 of a code of the basic plane; names beyond it are written as they are, not escaped. */
static size_t put_code(char *out, unsigned code)
{
    if (code < 0x80) return out[0] = (char)code, 1;
    if (code < 0x800)
        return out[0] = (char)(0xc0 | code >> 6), out[1] = (char)(0x80 | (code & 63)), 2;
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 63));
    out[2] = (char)(0x80 | (code & 63));
    return 3;
}

/* Longer strings are cut: none that matters is that long. */
static bool read_string(Json *j, char out[NAME])
{
    size_t length = 0;
    if (!eat(j, '"')) return false;
    while (j->at < j->end && *j->at != '"') {
        char piece[4] = {*j->at++};
        size_t bytes = 1;
        if ((unsigned char)piece[0] < 32) return false;
        if (piece[0] == '\\') {
            static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
            if (j->at == j->end) return false;
            const char *found = strchr(from, *j->at);
            unsigned code;
            if (*j->at == 'u') {
                j->at++;
                if (!read_hex(j, &code)) return false;
                bytes = put_code(piece, code);
            } else if (*j->at && found) {
                piece[0] = to[found - from];
                j->at++;
            } else {
                return false;
            }
        }
        if (length + bytes < NAME) {
            memcpy(out + length, piece, bytes);
            length += bytes;
        }
    }
    out[length] = 0;
    return eat(j, '"');
}

static bool read_whole(Json *j, int64_t *value)
{
    char c = next(j);
    if (c < '0' || c > '9') return false;
    *value = 0;
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, *j->at - '0', value))
            return false;
    return true;
}

static bool skip(Json *j, int depth)
{
    char text[NAME], c = next(j);
    if (depth == 0) return false;
    if (c == '"') return read_string(j, text);
    if (c == '{' || c == '[') {
        char close = c == '{' ? '}' : ']';
        j->at++;
        if (eat(j, close)) return true;
        do {
            if (c == '{' && (!read_string(j, text) || !eat(j, ':'))) return false;
            if (!skip(j, depth - 1)) return false;
        } while (eat(j, ','));
        return eat(j, close);
    }
    const char *begin = j->at;
    while (j->at < j->end && *j->at && strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *j->at))
        j->at++;
    return j->at > begin;
}

/* At most [room] whole numbers; -1: something else. */
static int read_wholes(Json *j, int64_t *values, int room)
{
    int count = 0;
    if (!eat(j, '[')) return -1;
    if (eat(j, ']')) return 0;
    do {
        if (count == room || !read_whole(j, &values[count++])) return -1;
    } while (eat(j, ','));
    return eat(j, ']') ? count : -1;
}

/* ---- tensors */

typedef struct Entry {
    char dtype[NAME];
    int64_t shape[ARRAY_RANK], offsets[2];
    int rank;
} Entry;

static bool read_entry(Json *j, Entry *entry)
{
    bool dtype = false, shape = false, offsets = false;
    char key[NAME];
    if (!eat(j, '{') || eat(j, '}')) return false;
    do {
        if (!read_string(j, key) || !eat(j, ':')) return false;
        if (strcmp(key, "dtype") == 0)
            dtype = read_string(j, entry->dtype);
        else if (strcmp(key, "shape") == 0)
            shape = (entry->rank = read_wholes(j, entry->shape, ARRAY_RANK)) >= 0;
        else if (strcmp(key, "data_offsets") == 0)
            offsets = read_wholes(j, entry->offsets, 2) == 2;
        else if (!skip(j, DEPTH))
            return false;
    } while (eat(j, ','));
    return eat(j, '}') && dtype && shape && offsets;
}

static uint32_t dtype_of(const char *text)
{
    // clang-format off
    static const struct { const char *text; uint32_t dtype; } types[] = {
        {"F32", AULE_F32}, {"F16", AULE_F16}, {"BF16", AULE_BF16}, {"I32", AULE_I32}, {"I64", AULE_I64},
        {"U8", AULE_U8}, {"BOOL", AULE_BOOL}, {"F64", ARRAY_F64},
        {"F8_E4M3", AULE_E4M3}, {"F8_E5M2", AULE_E5M2}, {"I8", AULE_I8},
    };
    // clang-format on
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].text, text) == 0) return types[i].dtype;
    return AULE_OPERAND;
}

static bool take_entry(AuArray *array, const Entry *entry, const unsigned char *data, size_t length,
                       const char *where, AuWhy *why)
{
    *array = (AuArray){.dtype = dtype_of(entry->dtype), .rank = entry->rank};
    memcpy(array->shape, entry->shape, sizeof entry->shape);
    if (array->dtype == AULE_OPERAND)
        return array_wrong(why,
                           "%s: dtype is %.40s, expected F64, F32, F16, BF16, I32, I64, U8 or BOOL",
                           where, entry->dtype);
    if (entry->offsets[1] < entry->offsets[0])
        return array_wrong(why, "%s: its data end before they begin", where);
    if ((uint64_t)entry->offsets[1] > length)
        return array_wrong(why, "%s: truncated: its data end at byte %lld, the file's at %zu",
                           where, (long long)entry->offsets[1], length);
    return array_take(array, false, data + entry->offsets[0],
                      (size_t)(entry->offsets[1] - entry->offsets[0]), where, why);
}

static bool read_tensors(Json *j, const char *name, Entry *entry, bool *found, char *names,
                         size_t room)
{
    char key[NAME];
    size_t used = 0;
    *found = false;
    if (!eat(j, '{')) return false;
    if (eat(j, '}')) return true;
    do {
        if (!read_string(j, key) || !eat(j, ':')) return false;
        if (strcmp(key, name) == 0 && !*found) {
            if (!read_entry(j, entry)) return false;
            *found = true;
            continue;
        }
        if (strcmp(key, "__metadata__") != 0 && used + strlen(key) + 3 < room)
            used += (size_t)snprintf(names + used, room - used, "%s%s", used ? ", " : "", key);
        if (!skip(j, DEPTH)) return false;
    } while (eat(j, ','));
    return eat(j, '}');
}

bool safetensors_parse(AuArray *array, const AuFile *file, const char *path, const char *name,
                       AuWhy *why)
{
    *array = (AuArray){0};
    uint64_t length = 0;
    if (file->length < 8)
        return array_wrong(why, "%s: truncated: %zu bytes, not a .safetensors file", path,
                           file->length);
    for (int i = 0; i < 8; i++) length |= (uint64_t)file->bytes[i] << 8 * i;
    if (length > file->length - 8)
        return array_wrong(why, "%s: truncated: its header alone has %llu bytes, the file has %zu",
                           path, (unsigned long long)length, file->length);
    const unsigned char *data = file->bytes + 8 + length;
    Json j = {(const char *)file->bytes + 8, (const char *)data};
    Entry entry = {.rank = 0};
    bool found;
    char names[256] = "";
    if (!read_tensors(&j, name, &entry, &found, names, sizeof names) || next(&j) != 0)
        return array_wrong(why, "%s: damaged .safetensors header", path);
    if (!found)
        return array_wrong(why, "%s: no tensor '%s', it has %s", path, name,
                           names[0] ? names : "none");
    char where[4096];
    snprintf(where, sizeof where, "%s:%s", path, name);
    return take_entry(array, &entry, data, file->length - 8 - (size_t)length, where, why);
}
