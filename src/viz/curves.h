/* curves.h: what drawings of curves share; private to src/viz. */
#ifndef ATTN_VIZ_CURVES_H
#define ATTN_VIZ_CURVES_H

#include "src/viz/drawing.h"

/* One direction of the plot. */
typedef struct attn__range {
    double low, high;
    bool log;
    double from, to; /* where low and high stand in the picture */
} attn__range;

double attn__range_place(const attn__range *r, double v);

typedef struct attn__survey {
    attn__range x, y; /* all points lie inside */
    size_t left_out;  /* points that no plot can show */
    size_t longest;   /* points of the longest curve */
    bool named;
} attn__survey;

attn__survey attn__curves_survey(const attn__drawing *d);

/* Point i of a curve; false if it is left out. */
bool attn__curve_point(const attn__drawing *d, const attn_series *s, size_t i, double *x,
                       double *y);

/* Notes, and the points left out. */
void attn__curves_facts(const attn__drawing *d, const attn__survey *s, attn__out *out);

/* Few curves have a colour each; many run through the colour map. */
attn__pen attn__curve_pen(const attn__drawing *d, size_t i);

#endif
