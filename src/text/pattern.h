/* pattern.h: patterns of a tokenizer.json: fixed strings, and Oniguruma's regular expressions. */
#ifndef ATTN_TEXT_PATTERN_H
#define ATTN_TEXT_PATTERN_H

#include "include/attn/attn.h"

#include <stdbool.h>

/* Characters of words as Rust's \w has them; \w in a pattern is Oniguruma's. */
#define ATTN__WORD "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]"

typedef struct attn__pattern attn__pattern; /* does not change; for any number of threads */
typedef struct attn__matcher attn__matcher; /* the work area of one thread */

/* A regular expression. Refused: longer than 10,000 bytes, and what PCRE2 does not know. `where`
 * comes first in the error text. */
attn_status attn__pattern_regex(const attn_ctx *ctx, const char *where, const char *regex,
                                size_t size, attn__pattern **out, attn_error *err);

/* A string that is searched as it is. */
attn_status attn__pattern_string(const attn_ctx *ctx, const char *text, size_t size,
                                 attn__pattern **out, attn_error *err);
void attn__pattern_free(attn__pattern *pattern);

attn_status attn__matcher_create(const attn_ctx *ctx, attn__matcher **out, attn_error *err);
void attn__matcher_free(attn__matcher *matcher);

/* Where a search in valid UTF-8 stands. Zeroed, then text and size set, it is at the beginning. */
typedef struct attn__search {
    const char *text;
    size_t size;
    size_t at;         /* the next match begins here or later */
    bool matched;      /* there was one, */
    size_t start, end; /* namely this */
} attn__search;

/* Steps to the next match, which may be empty but not directly behind the last; *found says whether
 * there is one. ATTN_E_FORMAT when it takes too many steps. */
attn_status attn__pattern_next(const attn__pattern *pattern, attn__matcher *matcher,
                               attn__search *search, bool *found, attn_error *err);

#endif
