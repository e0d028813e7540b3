/* colour.h: colour maps and the colours around them; private to src/viz. */
#ifndef ATTN_VIZ_COLOUR_H
#define ATTN_VIZ_COLOUR_H

#include "include/attn/viz.h"

typedef struct attn__rgb {
    uint8_t r, g, b;
} attn__rgb;

enum { ATTN__COLOURS = 256, ATTN__CATEGORIES = 10 };

/* The 256 colours of a map, lowest value first. */
void attn__colour_table(attn_colours colours, attn__rgb table[ATTN__COLOURS]);

/* OKLab lightness, 0 black to 1 white. */
double attn__lightness(attn__rgb c);

/* What surrounds the cells. The colours of cells without a value are in no map. */
typedef struct attn__theme {
    attn__rgb paper, ink, faint;    /* background, text, lines and lesser text */
    attn__rgb masked, dropped, odd; /* cells without a value: masked, hidden, not finite */
    attn__rgb category[ATTN__CATEGORIES];
} attn__theme;

attn__theme attn__theme_of(attn_colours colours, int dark);

#endif
