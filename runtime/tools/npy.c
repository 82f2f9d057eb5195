/* npy.c - NumPy's format for one array: a magic, a version, a header that is a Python dict, the data. See array.h; the format is
 * described in NumPy's numpy.lib.format. */
#include <stdlib.h>
#include <string.h>

#include "array.h"

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

typedef struct Reader {
    const char *at, *end;
    const char *path;
    AuWhy *why;
} Reader;

static bool malformed(const Reader *r, const char *what)
{
    return array_wrong(r->why, "%s: damaged .npy header: %s", r->path, what);
}

static char next(Reader *r) /* skips space; 0 at the end */
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
    return r->at < r->end ? *r->at : 0;
}

static bool eat(Reader *r, char wanted)
{
    if (next(r) != wanted) return false;
    r->at++;
    return true;
}

static bool read_string(Reader *r, char *out, size_t room)
{
    char quote = next(r);
    if (quote != '\'' && quote != '"') return false;
    const char *begin = ++r->at;
    while (r->at < r->end && *r->at != quote) r->at++;
    size_t length = (size_t)(r->at - begin);
    if (r->at == r->end || length >= room) return false;
    r->at++;
    memcpy(out, begin, length);
    out[length] = 0;
    return true;
}

static bool read_word(Reader *r, const char *word)
{
    size_t length = strlen(word);
    next(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
    r->at += length;
    return true;
}

static bool read_extent(Reader *r, int64_t *extent)
{
    char c = next(r);
    if (c < '0' || c > '9') return false;
    *extent = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(*extent, 10, extent) ||
            __builtin_add_overflow(*extent, *r->at - '0', extent))
            return false;
    if (r->at < r->end && *r->at == 'L') r->at++; /* Python 2 */
    return true;
}

static bool read_shape(Reader *r, AuArray *array)
{
    if (!eat(r, '(')) return malformed(r, "the shape is not a tuple");
    while (!eat(r, ')')) {
        if (array->rank == ARRAY_RANK)
            return array_wrong(r->why, "%s: more than %d axes", r->path, ARRAY_RANK);
        if (!read_extent(r, &array->shape[array->rank]))
            return malformed(r, "the shape is not of whole numbers");
        array->rank++;
        if (!eat(r, ',') && next(r) != ')') return malformed(r, "the shape does not end");
    }
    return true;
}

static bool read_descr(Reader *r, AuArray *array)
{
    // clang-format off
    static const struct { const char *text; uint32_t dtype; } types[] = {
        {"f4", AULE_F32}, {"f2", AULE_F16}, {"i4", AULE_I32}, {"i8", AULE_I64}, {"u1", AULE_U8}, {"b1", AULE_BOOL},
        {"i1", AULE_I8}, {"V1", AULE_U8},
        {"V2", AULE_BF16}, {"u2", AULE_BF16}, {"f8", ARRAY_F64},
    };
    // clang-format on
    char text[32];
    if (!read_string(r, text, sizeof text)) return malformed(r, "the dtype is not a simple one");
    const char *type = text + (strchr("<>|=", text[0]) && text[0] != 0);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].text) == 0) array->dtype = types[i].dtype;
    if (array->dtype == AULE_OPERAND)
        return array_wrong(
            r->why, "%s: dtype is '%s', expected f8, f4, f2, V2 (bf16), i4, i8, u1, i1 or b1",
            r->path, text);
    if (text[0] == '>' && array_dtype_bytes(array->dtype) > 1)
        return array_wrong(r->why, "%s: dtype is '%s', big-endian, expected '<%s'", r->path, text,
                           type);
    return true;
}

static bool read_header(Reader *r, AuArray *array, bool *fortran)
{
    bool descr = false, order = false, shape = false;
    if (!eat(r, '{')) return malformed(r, "it is not a dict");
    while (!eat(r, '}')) {
        char key[32];
        if (!read_string(r, key, sizeof key) || !eat(r, ':'))
            return malformed(r, "a key is missing");
        if (strcmp(key, "descr") == 0 && !descr) {
            if (!read_descr(r, array)) return false;
            descr = true;
        } else if (strcmp(key, "fortran_order") == 0 && !order) {
            *fortran = read_word(r, "True");
            if (!*fortran && !read_word(r, "False"))
                return malformed(r, "fortran_order is neither True nor False");
            order = true;
        } else if (strcmp(key, "shape") == 0 && !shape) {
            if (!read_shape(r, array)) return false;
            shape = true;
        } else {
            return malformed(r, "an unknown key");
        }
        if (!eat(r, ',') && next(r) != '}') return malformed(r, "it does not end");
    }
    return descr && order && shape ? true
                                   : malformed(r, "descr, fortran_order or shape is missing");
}

bool npy_parse(AuArray *array, const AuFile *file, const char *path, AuWhy *why)
{
    *array = (AuArray){0};
    const unsigned char *bytes = file->bytes;
    if (file->length < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return array_wrong(why, "%s: not a .npy file: its magic is wrong", path);
    if (file->length < 10) return array_wrong(why, "%s: truncated: %zu bytes", path, file->length);
    bool wide = bytes[6] >= 2;
    if (bytes[6] < 1 || bytes[6] > 3)
        return array_wrong(why, "%s: .npy version %u, expected 1 to 3", path, bytes[6]);
    size_t head = wide ? 12 : 10, length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (wide && file->length >= head) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (file->length < head || length > file->length - head)
        return array_wrong(why, "%s: truncated: its header alone has %zu bytes, the file has %zu",
                           path, head + length, file->length);
    Reader r = {(const char *)bytes + head, (const char *)bytes + head + length, path, why};
    bool fortran = false;
    if (!read_header(&r, array, &fortran)) return false;
    return array_take(array, fortran, bytes + head + length, file->length - head - length, path,
                      why);
}

/* ---- writing */

static const char *descr_of(uint32_t dtype)
{
    static const char *const texts[] = {"",    "<f4", "<f2", "|V2", "<i4", "<i8",
                                        "|u1", "|b1", "|V1", "|V1", "|i1"};
    return texts[dtype < sizeof texts / sizeof *texts ? dtype : 0];
}

/* Version 1 header, padded so that the data begin at a multiple of 64. */
static size_t make_header(const AuArray *array, char *out, size_t room)
{
    char dict[512];
    int length = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                          descr_of(array->dtype));
    for (int32_t i = 0; i < array->rank; i++)
        length += snprintf(dict + length, sizeof dict - (size_t)length, "%s%lld", i ? ", " : "",
                           (long long)array->shape[i]);
    length += snprintf(dict + length, sizeof dict - (size_t)length, "%s), }",
                       array->rank == 1 ? "," : "");
    size_t total = ((size_t)length + 11 + 63) / 64 * 64, body = total - 10;
    if (total > room) return 0;
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)(body & 255);
    out[9] = (char)(body >> 8);
    memset(out + 10, ' ', body);
    memcpy(out + 10, dict, (size_t)length);
    out[total - 1] = '\n';
    return total;
}

static bool write_array(FILE *stream, const void *what)
{
    const AuArray *array = what;
    char header[1024];
    size_t length = make_header(array, header, sizeof header);
    return length > 0 && fwrite(header, 1, length, stream) == length &&
           (array->bytes == 0 || fwrite(array->data, 1, array->bytes, stream) == array->bytes);
}

bool array_write(const AuArray *array, const char *path, AuWhy *why)
{
    return file_write(path, write_array, array, why);
}
