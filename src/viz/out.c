/* out.c: growing bytes, and numbers as text that no locale changes. */
#include "src/viz/out.h"

#include "src/base/bytes.h"
#include "src/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static bool reserve(attn__out *out, size_t more)
{
    unsigned char *grown = NULL;
    size_t need, room;

    if (out->failed)
        return false;
    if (attn__add(out->size, more, &need) && need <= out->room)
        return true;
    room = need > SIZE_MAX / 2 ? need : need + need / 2 + 256;
    if (need < SIZE_MAX)
        grown = attn__alloc(out->ctx, room);
    if (!grown) {
        out->failed = true;
        return false;
    }
    if (out->size > 0)
        memcpy(grown, out->bytes, out->size);
    attn__free(out->ctx, out->bytes);
    out->bytes = grown;
    out->room = room;
    return true;
}

void attn__out_put(attn__out *out, const void *bytes, size_t size)
{
    if (size == 0 || !reserve(out, size))
        return;
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

void attn__out_char(attn__out *out, char c)
{
    attn__out_put(out, &c, 1);
}

void attn__out_text(attn__out *out, const char *text)
{
    attn__out_put(out, text, strlen(text));
}

void attn__out_int(attn__out *out, int64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)value);

    attn__out_put(out, digits, (size_t)n);
}

void attn__out_fixed(attn__out *out, double value, int decimals)
{
    static const int64_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    int64_t scaled = llround(fabs(value) * (double)power[decimals]);
    char digits[16];

    if (value < 0 && scaled > 0)
        attn__out_char(out, '-');
    attn__out_int(out, scaled / power[decimals]);
    if (decimals == 0)
        return;
    snprintf(digits, sizeof digits, ".%0*d", decimals, (int)(scaled % power[decimals]));
    attn__out_text(out, digits);
}

void attn__out_length(attn__out *out, double value)
{
    size_t start = out->size;

    attn__out_fixed(out, value, 2);
    if (out->failed)
        return;
    while (out->size > start + 1 && out->bytes[out->size - 1] == '0')
        out->size--;
    if (out->bytes[out->size - 1] == '.')
        out->size--;
}

/* The point of printf is the locale's and may be any bytes: only digits are taken from it. */
void attn__out_value(attn__out *out, double value, int digits)
{
    char raw[64], digit[24];
    int n = 0, exponent = 0;

    if (!isfinite(value)) {
        attn__out_text(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    snprintf(raw, sizeof raw, "%.*e", digits - 1, fabs(value));
    for (const char *p = raw; *p; p++) {
        if (*p >= '0' && *p <= '9' && n < (int)sizeof digit) {
            digit[n++] = *p;
        } else if (*p == 'e') {
            for (const char *e = p + 2; *e >= '0' && *e <= '9'; e++)
                exponent = 10 * exponent + (*e - '0');
            if (p[1] == '-')
                exponent = -exponent;
            break;
        }
    }
    while (n > 1 && digit[n - 1] == '0')
        n--;
    if (value < 0)
        attn__out_char(out, '-');
    if (exponent < -4 || exponent > digits + 3) {
        attn__out_put(out, digit, 1);
        if (n > 1) {
            attn__out_char(out, '.');
            attn__out_put(out, digit + 1, (size_t)n - 1);
        }
        attn__out_char(out, 'e');
        attn__out_int(out, exponent);
        return;
    }
    if (exponent < 0) {
        attn__out_put(out, "0.0000", (size_t)(1 - exponent));
        attn__out_put(out, digit, (size_t)n);
        return;
    }
    for (int i = 0; i <= exponent || i < n; i++) {
        if (i == exponent + 1)
            attn__out_char(out, '.');
        attn__out_char(out, i < n ? digit[i] : '0');
    }
}

void attn__out_xml(attn__out *out, const char *text)
{
    static const char special[] = "&<>\"'`";
    static const char *const entity[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#96;"};

    while (*text) {
        size_t plain = strcspn(text, special);

        attn__out_put(out, text, plain);
        text += plain;
        if (*text)
            attn__out_text(out, entity[strchr(special, *text++) - special]);
    }
}

void attn__out_base64(attn__out *out, const void *bytes, size_t size)
{
    static const char letter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    size_t text;

    if (!attn__mul((size + 2) / 3, 4, &text) || !reserve(out, text)) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                     (left > 2 ? p[i + 2] : 0);
        char *to = (char *)out->bytes + out->size;

        to[0] = letter[v >> 18];
        to[1] = letter[v >> 12 & 63];
        to[2] = left > 1 ? letter[v >> 6 & 63] : '=';
        to[3] = left > 2 ? letter[v & 63] : '=';
        out->size += 4;
    }
}

static void *zlib_alloc(void *ctx, unsigned count, unsigned size)
{
    return attn__alloc(ctx, (size_t)count * size);
}

static void zlib_free(void *ctx, void *memory)
{
    attn__free(ctx, memory);
}

/* zlib wants a pointer that is not const, and only hands it back. */
static void *unconst(const attn_ctx *ctx)
{
    void *p;

    memcpy(&p, &ctx, sizeof p);
    return p;
}

void attn__out_deflate(attn__out *out, const void *bytes, size_t size)
{
    enum { STEP = 1 << 16 };
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = unconst(out->ctx)};
    const unsigned char *from = bytes;
    int code = Z_OK;

    if (out->failed)
        return;
    if (deflateInit(&z, 6) != Z_OK) {
        out->failed = true;
        return;
    }
    while (code == Z_OK && reserve(out, STEP)) {
        if (z.avail_in == 0 && size > 0) {
            z.avail_in = size < STEP ? (unsigned)size : STEP;
            memcpy(&z.next_in, &from, sizeof from);
            from += z.avail_in;
            size -= z.avail_in;
        }
        z.next_out = out->bytes + out->size;
        z.avail_out = STEP;
        code = deflate(&z, size == 0 ? Z_FINISH : Z_NO_FLUSH);
        out->size += STEP - z.avail_out;
    }
    deflateEnd(&z);
    if (code != Z_STREAM_END)
        out->failed = true;
}

void attn__out_le(attn__out *out, uint64_t value, size_t n)
{
    if (!reserve(out, n))
        return;
    attn__put_le(out->bytes + out->size, value, n);
    out->size += n;
}

const char *attn__out_string(attn__out *out)
{
    if (!reserve(out, 1))
        return "";
    out->bytes[out->size] = '\0';
    return (const char *)out->bytes;
}

void attn__out_clear(attn__out *out)
{
    out->size = 0;
}

void attn__out_reset(attn__out *out)
{
    attn__free(out->ctx, out->bytes);
    *out = (attn__out){.ctx = out->ctx};
}

void attn__out_done(attn__out *scratch, attn__out *of)
{
    of->failed = of->failed || scratch->failed;
    attn__out_reset(scratch);
}
