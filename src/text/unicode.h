/* unicode.h: UTF-8, and what is known of characters. */
#ifndef ATTN_TEXT_UNICODE_H
#define ATTN_TEXT_UNICODE_H

#include "src/text/buffer.h"

/* The character at s (size > 0 bytes follow): its length, 0 if it is malformed. Surrogates, long
 * forms and codes above U+10FFFF are malformed. */
size_t attn__utf8_get(const unsigned char *s, size_t size, uint32_t *code);

/* Bytes of a character's beginning at s that its further bytes could complete: 0 if none are
 * missing or none would do. */
size_t attn__utf8_partial(const unsigned char *s, size_t size);

/* Length of the longest run from s on that is UTF-8. */
size_t attn__utf8_run(const unsigned char *s, size_t size);

/* Length of the character whose first byte, of valid UTF-8, this is. */
static inline size_t attn__utf8_size(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Writes a code point and returns its length. */
size_t attn__utf8_put(unsigned char out[4], uint32_t code);

/* Rust's char::is_whitespace and is_numeric, Unicode's White_Space and N. */
bool attn__is_space(uint32_t code);
bool attn__is_number(uint32_t code);

/* P, and ASCII's other signs; as of Unicode 8. */
bool attn__is_punctuation(uint32_t code);

/* M, as of Unicode 9. */
bool attn__is_mark(uint32_t code);

uint32_t attn__lower(uint32_t code); /* of U+0130 only the first of its two */

/* As of Unicode 9. */
typedef enum attn__form { ATTN__NFC, ATTN__NFD, ATTN__NFKC, ATTN__NFKD } attn__form;

/* Appends the normal form of valid UTF-8. `codes` and `originals` are working memory. False: no
 * memory. */
bool attn__normal_form(attn__form form, const unsigned char *s, size_t size, attn__buffer *codes,
                       attn__buffer *originals, attn__buffer *out);

/* GPT-2's visible characters for bytes: those that print stand for themselves, the others are from
 * U+0100 on. The byte of a character is -1 if it is none of them. */
uint32_t attn__byte_code(unsigned char byte);
int attn__code_byte(uint32_t code);

#endif
