/* label.h: text from anywhere made fit to be seen; private to src/viz. */
#ifndef ATTN_VIZ_LABEL_H
#define ATTN_VIZ_LABEL_H

#include "src/viz/out.h"

typedef enum attn__label_form {
    ATTN__TOKEN, /* spaces at the ends, and beside another, get a sign */
    ATTN__PROSE, /* a title: white space is one space */
    ATTN__PLAIN  /* a token in bytes 33 .. 126 */
} attn__label_form;

/* Appends text as valid UTF-8 without control, bidirectional, unassigned or invisible characters,
 * which is also valid XML once escaped: see viz.h. Longer text than `columns` of a terminal is cut
 * between grapheme clusters and ends in an ellipsis. Reads no more of `bytes` than it shows.
 * Returns the columns used. */
size_t attn__label_clean(attn__out *out, const char *bytes, size_t size, size_t columns,
                         attn__label_form form);

/* Columns of a terminal that clean text takes. */
size_t attn__label_columns(const char *text);

/* Appends the n-th cluster of clean text, if there is one. Returns its columns. */
size_t attn__label_nth(attn__out *out, const char *text, size_t n);

/* Whether clean text has letters that run from right to left. */
bool attn__label_is_rtl(const char *text);

#endif
