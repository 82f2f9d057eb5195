/* text.c - see text.h. */
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(AuText *text, size_t more)
{
    const size_t need = text->length + more + 1;
    if (need <= text->capacity) return;
    size_t capacity = text->capacity ? text->capacity : 256;
    while (capacity < need) capacity *= 2;
    char *moved = au_alloc(text->arena, capacity);
    if (text->length) memcpy(moved, text->at, text->length);
    text->at = moved;
    text->capacity = capacity;
}

void au_text_bytes(AuText *text, const void *bytes, size_t length)
{
    reserve(text, length);
    if (length) memcpy(text->at + text->length, bytes, length);
    text->length += length;
    text->at[text->length] = 0;
}

void au_text_vadd(AuText *text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    if (length > 0) {
        reserve(text, (size_t)length);
        vsnprintf(text->at + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void au_text_add(AuText *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    au_text_vadd(text, format, arguments);
    va_end(arguments);
}

const char *au_text_str(const AuText *text) { return text->at ? text->at : ""; }

static void add_finite(AuText *text, const char *digits)
{
    au_text_add(text, strpbrk(digits, ".e") ? "%s" : "%s.0", digits);
}

void au_text_number(AuText *text, double value)
{
    char digits[40];
    if (isnan(value)) {
        au_text_add(text, "nan");
        return;
    }
    if (isinf(value)) {
        au_text_add(text, value < 0 ? "-inf" : "inf");
        return;
    }
    for (int n = 1; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, value);
        if (strtod(digits, NULL) == value) break;
    }
    add_finite(text, digits);
}

void au_text_float(AuText *text, float value)
{
    char digits[40];
    if (isnan(value) || isinf(value)) {
        au_text_number(text, (double)value);
        return;
    }
    for (int n = 1; n <= 9; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, (double)value);
        if (strtof(digits, NULL) == value) break;
    }
    add_finite(text, digits);
}

uint32_t au_utf8_length(const char *s, const char *end)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = (unsigned char)*s;
    if (first < 0x80) return 1;
    const uint32_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || (size_t)(end - s) < length) return 0;
    uint32_t c = first & (0x7Fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if (((unsigned char)s[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | ((unsigned char)s[i] & 0x3F);
    }
    return c < smallest[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) ? 0 : length;
}
