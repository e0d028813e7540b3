/* out.h: the bytes of a picture as they grow; private to src/viz.
 *
 * Failure to allocate sticks: puts after it do nothing, and the end of each writer asks once. */
#ifndef ATTN_VIZ_OUT_H
#define ATTN_VIZ_OUT_H

#include "include/attn/attn.h"

#include <stdbool.h>

/* Zeroed but for ctx is empty. */
typedef struct attn__out {
    const attn_ctx *ctx;
    unsigned char *bytes;
    size_t size, room;
    bool failed;
} attn__out;

void attn__out_put(attn__out *out, const void *bytes, size_t size);
void attn__out_char(attn__out *out, char c);
void attn__out_text(attn__out *out, const char *text);
void attn__out_int(attn__out *out, int64_t value);

/* Exactly `decimals` (0 .. 6) digits behind a point, of |value| < 1e9. */
void attn__out_fixed(attn__out *out, double value, int decimals);

/* A coordinate: two decimals, without trailing zeros. */
void attn__out_length(attn__out *out, double value);

/* Up to `digits` (1 .. 17) significant digits, without trailing zeros; an exponent where the plain
 * form has many zeros; "nan", "inf", "-inf". Never the locale's form. */
void attn__out_value(attn__out *out, double value, int digits);

/* Text of XML and HTML, also within double or single quotes. */
void attn__out_xml(attn__out *out, const char *text);
void attn__out_base64(attn__out *out, const void *bytes, size_t size);

/* A zlib stream of these bytes. */
void attn__out_deflate(attn__out *out, const void *bytes, size_t size);

/* The low n bytes of a number, lowest first; a float's bits. */
void attn__out_le(attn__out *out, uint64_t value, size_t n);

/* What is in there as a terminated string; "" after a failure. Valid until the next put. */
const char *attn__out_string(attn__out *out);

/* Forgets the bytes, keeps the memory. */
void attn__out_clear(attn__out *out);

void attn__out_reset(attn__out *out);

/* Gives back a scratch text that `of` was made with; if it failed, `of` has failed. */
void attn__out_done(attn__out *scratch, attn__out *of);

#endif
