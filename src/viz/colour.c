/* colour.c: the colour maps, from a few colours each.
 *
 * viridis and magma were designed by Stefan van der Walt and Nathaniel Smith (2015, CC0), cividis
 * by Jamie Nunez, Christopher Anderton and Ryan Renslow (2018), for readers with and without colour
 * deficiency alike. Ten colours of each are given; between them we go through OKLab (Bjorn
 * Ottosson, 2020), where equal steps look equal, along a cubic that never overshoots (Fritsch and
 * Carlson, 1980), so that lightness rises steadily, as it does in the originals. The grey map is
 * even in OKLab lightness. The diverging map is our own: two hues that differ for every kind of
 * colour blindness (blue at 255 degrees, orange at 55), darkening evenly away from the middle. */
#include "src/viz/colour.h"

#include <math.h>
#include <stddef.h>

enum { STOPS = 10 };

static const uint32_t stops[][STOPS] = {
    [ATTN_COLOURS_VIRIDIS] = {0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e, 0x1f9e89, 0x35b779,
                              0x6dcd59, 0xb4de2c, 0xfde725},
    [ATTN_COLOURS_CIVIDIS] = {0x00204d, 0x00336f, 0x39486b, 0x575c6d, 0x707173, 0x8a8779, 0xa69d75,
                              0xc4b56c, 0xe4cf5b, 0xffea46},
    [ATTN_COLOURS_MAGMA] = {0x000004, 0x180f3e, 0x451077, 0x721f81, 0x9f2f7f, 0xcd4071, 0xf1605d,
                            0xfd9567, 0xfec98d, 0xfcfdbf},
};

/* --- OKLab ------------------------------------------------------------------------------------ */

typedef struct lab {
    double v[3]; /* lightness, green-red, blue-yellow */
} lab;

static double to_linear(uint8_t c)
{
    double x = c / 255.0;

    return x <= 0.04045 ? x / 12.92 : pow((x + 0.055) / 1.055, 2.4);
}

static uint8_t from_linear(double x)
{
    double c = x <= 0.0031308 ? 12.92 * x : 1.055 * pow(x, 1 / 2.4) - 0.055;

    return (uint8_t)(c <= 0 ? 0 : c >= 1 ? 255 : c * 255 + 0.5);
}

static lab to_lab(attn__rgb c)
{
    double r = to_linear(c.r), g = to_linear(c.g), b = to_linear(c.b);
    double l = cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    double m = cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    double s = cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);

    return (lab){{0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
                  1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
                  0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s}};
}

static attn__rgb from_lab(lab c)
{
    double l = c.v[0] + 0.3963377774 * c.v[1] + 0.2158037573 * c.v[2];
    double m = c.v[0] - 0.1055613458 * c.v[1] - 0.0638541728 * c.v[2];
    double s = c.v[0] - 0.0894841775 * c.v[1] - 1.2914855480 * c.v[2];

    l = l * l * l;
    m = m * m * m;
    s = s * s * s;
    return (attn__rgb){from_linear(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                       from_linear(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                       from_linear(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

double attn__lightness(attn__rgb c)
{
    return to_lab(c).v[0];
}

/* --- Tables ----------------------------------------------------------------------------------- */

/* Slope at a stop: the harmonic mean of those beside it, 0 where they differ in sign. */
static double slope_at(const double y[STOPS], int i)
{
    double before, after;

    if (i == 0 || i == STOPS - 1)
        return i == 0 ? y[1] - y[0] : y[STOPS - 1] - y[STOPS - 2];
    before = y[i] - y[i - 1];
    after = y[i + 1] - y[i];
    return before * after <= 0 ? 0 : 2 * before * after / (before + after);
}

static double between_stops(const double y[STOPS], double x)
{
    int i = x >= STOPS - 1 ? STOPS - 2 : (int)x;
    double t = x - i, u = 1 - t;

    return u * u * (1 + 2 * t) * y[i] + t * t * (1 + 2 * u) * y[i + 1] +
           t * u * (u * slope_at(y, i) - t * slope_at(y, i + 1));
}

static attn__rgb rgb_of(uint32_t hex)
{
    return (attn__rgb){(uint8_t)(hex >> 16), (uint8_t)(hex >> 8), (uint8_t)hex};
}

static void table_of_stops(const uint32_t hex[STOPS], attn__rgb table[ATTN__COLOURS])
{
    double y[3][STOPS];

    for (int i = 0; i < STOPS; i++) {
        lab c = to_lab(rgb_of(hex[i]));

        for (int k = 0; k < 3; k++)
            y[k][i] = c.v[k];
    }
    for (int i = 0; i < ATTN__COLOURS; i++) {
        double x = i * (STOPS - 1) / (ATTN__COLOURS - 1.0);
        lab c = {{between_stops(y[0], x), between_stops(y[1], x), between_stops(y[2], x)}};

        table[i] = from_lab(c);
    }
}

static attn__rgb diverging_at(double t)
{
    const double degree = 3.14159265358979323846 / 180, hue = (t < 0 ? 255 : 55) * degree;
    double away = fabs(t), lightness = 0.97 - 0.52 * away;
    /* Colourful in the middle of each arm, within what sRGB can show at its dark end. */
    double chroma = (t < 0 ? 0.26 : 0.24) * away * (1 - 0.48 * away);

    return from_lab((lab){{lightness, chroma * cos(hue), chroma * sin(hue)}});
}

void attn__colour_table(attn_colours colours, attn__rgb table[ATTN__COLOURS])
{
    if (colours < ATTN_COLOURS_GREY) {
        table_of_stops(stops[colours], table);
        return;
    }
    for (int i = 0; i < ATTN__COLOURS; i++) {
        double t = i / (ATTN__COLOURS - 1.0);

        table[i] = colours == ATTN_COLOURS_DIVERGING ? diverging_at(2 * t - 1)
                                                     : from_lab((lab){{0.06 + 0.94 * t, 0, 0}});
    }
}

/* Category colours: those of Okabe and Ito (2008) that stand out on both papers, then again; lines
 * that share a colour differ in their dashes. */
#define CATEGORIES(grey)                                                                           \
    {                                                                                              \
        {0x00, 0x72, 0xb2}, {0xd5, 0x5e, 0x00}, {0x00, 0x9e, 0x73}, {0xcc, 0x79, 0xa7},            \
            {grey, grey, grey}, {0x00, 0x72, 0xb2}, {0xd5, 0x5e, 0x00}, {0x00, 0x9e, 0x73},        \
            {0xcc, 0x79, 0xa7},                                                                    \
        {                                                                                          \
            grey, grey, grey                                                                       \
        }                                                                                          \
    }

attn__theme attn__theme_of(attn_colours colours, int dark)
{
    static const attn__theme themes[2] = {
        {.paper = {0xff, 0xff, 0xff},
         .ink = {0x1c, 0x1f, 0x24},
         .faint = {0x6b, 0x72, 0x80},
         .masked = {0xd3, 0xde, 0xf7},
         .dropped = {0xa9, 0xb8, 0xd6},
         .odd = {0xff, 0x2f, 0xd0},
         .category = CATEGORIES(0x60)},
        {.paper = {0x16, 0x18, 0x1d},
         .ink = {0xe8, 0xea, 0xee},
         .faint = {0x9a, 0xa1, 0xad},
         .masked = {0x32, 0x3c, 0x54},
         .dropped = {0x55, 0x66, 0x90},
         .odd = {0xff, 0x2f, 0xd0},
         .category = CATEGORIES(0xa8)},
    };

    /* The usual bluish masked cells would pass for small negative values. */
    static const attn__rgb green[2] = {{0xcd, 0xe9, 0xd9}, {0x24, 0x42, 0x36}};
    attn__theme theme = themes[dark ? 1 : 0];

    if (colours == ATTN_COLOURS_DIVERGING)
        theme.masked = green[dark ? 1 : 0];
    return theme;
}
