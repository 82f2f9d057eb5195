/* read_scan.c - scanner of the text form: characters and words as the grammar asks for them, and the first error of a line. */
#include "read.h"

#include "scan.h"

#include <string.h>

void attn_read_error(AuReader *r, AuCode code, uint32_t begin, const char *format, ...)
{
    if (r->failed) return;
    r->failed = true;
    va_list arguments;
    va_start(arguments, format);
    const char *message = au_vformat(r->diags->arena, format, arguments);
    va_end(arguments);
    const uint32_t end = r->at > begin ? r->at : begin + 1;
    au_error(r->diags, code, (AuSpan){r->source, begin, end}, "%s", message);
}

char attn_read_at(const AuReader *r, uint32_t ahead)
{
    return au_scan_peek(&(AuScan){r->text, r->at, r->length}, ahead);
}

char attn_read_peek(AuReader *r)
{
    AuScan s = {r->text, r->at, r->length};
    au_scan_space(&s, false);
    r->at = s.at;
    return au_scan_peek(&s, 0);
}

bool attn_read_accept(AuReader *r, const char *symbol)
{
    attn_read_peek(r);
    const size_t length = strlen(symbol);
    if (r->length - r->at < length || memcmp(r->text + r->at, symbol, length) != 0) return false;
    r->at += (uint32_t)length;
    return true;
}

const char *attn_read_found(AuReader *r)
{
    const char c = attn_read_peek(r);
    if (c == 0) return r->at < r->length ? "a NUL" : "the end";
    if (c == '\n') return "the end of the line";
    return au_format(r->diags->arena, c >= ' ' && c <= '~' ? "'%c'" : "byte 0x%02x",
                     (unsigned char)c);
}

bool attn_read_expect(AuReader *r, const char *symbol)
{
    if (attn_read_accept(r, symbol)) return true;
    attn_read_error(r, AU_E0901, r->at, "expected '%s', found %s", symbol, attn_read_found(r));
    return false;
}

static uint32_t word_length(AuReader *r)
{
    const char c = attn_read_peek(r);
    return au_is_letter(c) ? au_scan_word(&(AuScan){r->text, r->at, r->length}, "") : 0;
}

bool attn_read_accept_word(AuReader *r, const char *word)
{
    const uint32_t n = word_length(r);
    if (n != strlen(word) || memcmp(r->text + r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

const char *attn_read_name(AuReader *r)
{
    const uint32_t n = word_length(r);
    if (!n) {
        attn_read_error(r, AU_E0901, r->at, "expected a name, found %s", attn_read_found(r));
        return NULL;
    }
    r->at += n;
    return au_name_n(r->names, r->text + r->at - n, n);
}

bool attn_read_int(AuReader *r, int64_t *value)
{
    const bool negative = attn_read_accept(r, "-");
    const char c = attn_read_peek(r);
    const uint32_t begin = r->at;
    if (!au_is_digit(c)) {
        attn_read_error(r, AU_E0901, begin, "expected an integer, found %s", attn_read_found(r));
        return false;
    }
    int64_t v = 0;
    for (; au_is_digit(attn_read_at(r, 0)); r->at++)
        if (v <= INT64_MAX / 16) v = v * 10 + (attn_read_at(r, 0) - '0');
    *value = negative ? -v : v;
    if (v > INT64_MAX / 16) attn_read_error(r, AU_E0905, begin, "the integer is too large");
    return !r->failed;
}
