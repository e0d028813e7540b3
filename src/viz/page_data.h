/* page_data.h: the numbers of an HTML page, packed until they fit; private to src/viz. */
#ifndef ATTN_VIZ_PAGE_DATA_H
#define ATTN_VIZ_PAGE_DATA_H

#include "src/viz/drawing.h"

typedef struct attn__page_data {
    const attn__drawing *d;
    attn__scale scale;         /* of the figure, over reduced maps */
    double low, high;          /* values of codes */
    bool is_signed, single;    /* values below 0; each cell is one weight */
    bool exact, tokens;        /* all cells as floats; the text of tokens is kept */
    size_t factor, rows, cols; /* pooled by, to */
    size_t top, top_step;      /* heaviest keys kept, of each or every top_step-th query */
    size_t whole;              /* whole rows of each panel */
    attn__out head, *panels;   /* deflated: panel_count of them */
} attn__page_data;

/* Packs all that the viewer shows into about max_bytes of base64. attn__page_data_reset in any
 * case. */
attn_status attn__page_data_make(const attn__drawing *d, size_t max_bytes, attn__page_data *p,
                                 attn_error *err);
void attn__page_data_reset(attn__page_data *p);

/* One or more sentences: how exact the numbers are, what was left out. */
void attn__page_data_words(const attn__page_data *p, attn__out *out);

#endif
