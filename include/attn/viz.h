/* viz.h: pictures of attention, from plain arrays to PNG, SVG, one HTML file or a terminal.
 *
 * A figure is described by one struct, with every field that is left zero at its default, and then
 * written in any of the formats:
 *
 *     attn_panel panel = ATTN_PANEL_INIT;
 *     attn_figure figure = ATTN_FIGURE_INIT;
 *     panel.cells = attn_view_bhsd(weights, ATTN_F32, 1, 1, queries, keys);
 *     figure.panels = &panel;
 *     figure.panel_count = 1;
 *     attn_figure_write(NULL, &figure, ATTN_PICTURE_AUTO, "map.svg", &err);
 *
 * Nothing here computes attention: cells are weights, logits, pooled maps, differences, whatever
 * the caller has. Everything is borrowed for the length of the call. A context is only needed for
 * its allocator: NULL is fine everywhere.
 *
 * Text (tokens, names, titles) is UTF-8 from anywhere. It is never trusted: control, bidirectional
 * and invisible characters, NUL and bytes that are no UTF-8 are shown as \n-like marks (\x9c,
 * \u{202e}; space, tab and line end have signs of their own), long text is cut between characters
 * and ends in an ellipsis, and markup in it stays text in every format.
 *
 * Equal figures make equal bytes: SVG, HTML and terminal text on any machine, PNG wherever the same
 * fonts and the same cairo, Pango, FreeType and zlib are installed. Nothing depends on the locale
 * or the clock.
 *
 * Memory: our own may run out (ATTN_E_MEMORY). PNG draws text with Pango, whose GLib ends the
 * process if the system has no memory for its small blocks; the other formats do not use it.
 * fontconfig, below Pango, reads its own configuration and environment.
 */
#ifndef ATTN_VIZ_H
#define ATTN_VIZ_H

#include "attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- What is shown ---------------------------------------------------------------------------- */

/* Text that may hold anything, NUL too. This struct is frozen. */
typedef struct attn_label {
    const char *text;
    size_t size;
} attn_label;

/* One map: a head's weights, or a pooled map of them. All panels of a figure have the same number
 * of rows and columns. */
typedef struct attn_panel {
    size_t struct_size;
    const char
        *name; /* NULL: "layer 3, head 1" from the two numbers, where they are not negative */
    int64_t layer, head;

    /* [1, 1, R, C], f32, f64, f16 or bf16. Row r is queries r query_block .. (r+1) query_block - 1,
     * column c likewise keys; with blocks of 1 a cell is one weight. NaN and infinities have a
     * colour of their own. */
    attn_view cells;

    /* [1, 1, R, C], u8, bool, i32, i64, f32 or f64, strides as you like: how many pairs of the cell
     * may be attended. 0: the cell is masked, which is drawn unlike any value. Absent: all are. The
     * keep mask of attn_mask fits as it is. */
    attn_view allowed;

    /* Weights of whole rows, for maps that are pooled: query row_index[i] (ascending) has the
     * weights rows[0, 0, i, :], [1, 1, n, keys]. HTML shows them; others do not. */
    attn_view rows;
    const int64_t *row_index;

    /* The heaviest keys of each query, heaviest first, for maps that are pooled: [1, 1, queries,
     * k], keys i32 or i64 (negative: none), weights as cells. HTML and token lines use them. */
    attn_view top_keys, top_weights;
} attn_panel;
#define ATTN_PANEL_INIT ATTN_INIT(attn_panel)

/* One curve. NaN in y leaves a gap. This struct is frozen. */
typedef struct attn_series {
    const char *name;
    const double *x; /* NULL: 0, 1, 2, ... */
    const double *y;
    size_t count;
} attn_series;

/* Pixels, red green blue alpha (not premultiplied), rows from the top. This struct is frozen. */
typedef struct attn_image {
    uint8_t *rgba;
    size_t width, height;
    size_t stride; /* bytes from row to row; 0: 4 width */
} attn_image;

typedef enum attn_figure_kind {
    ATTN_FIGURE_MAP = 0, /* the first panel as a heat map: queries down, keys to the right. In HTML
                            all panels can be chosen */
    ATTN_FIGURE_GRID,    /* all panels as thumbnails, layers down, heads to the right */
    ATTN_FIGURE_LINES,   /* queries left, keys right, a line for each edge of the panels */
    ATTN_FIGURE_CURVES,  /* series */
    ATTN_FIGURE_OVERLAY  /* the first panel over `image`: its R x C cells are the image's patches */
} attn_figure_kind;

typedef enum attn_scale {
    ATTN_SCALE_LINEAR = 0,
    ATTN_SCALE_SQRT,      /* of the distance from the lower limit */
    ATTN_SCALE_LOG,       /* not below 1e-6 of the upper limit; needs positive values */
    ATTN_SCALE_PERCENTILE /* by rank among the cells shown */
} attn_scale;

typedef enum attn_colours {
    ATTN_COLOURS_VIRIDIS = 0,
    ATTN_COLOURS_CIVIDIS,
    ATTN_COLOURS_MAGMA,
    ATTN_COLOURS_GREY,
    ATTN_COLOURS_DIVERGING /* blue, light, brown; limits become -a .. a unless given */
} attn_colours;

/* How cells were pooled by the caller, and are where a picture has fewer pixels than cells. The
 * legend names it. Means are weighted by `allowed`. */
typedef enum attn_reduction {
    ATTN_REDUCE_MAX = 0, /* a needle stays visible */
    ATTN_REDUCE_MEAN,
    ATTN_REDUCE_SUM
} attn_reduction;

typedef struct attn_figure {
    size_t struct_size;
    attn_figure_kind kind;
    const char *title; /* NULL: none */
    const char *notes; /* a line below the title: model, input, what was left out */

    const attn_panel *panels; /* panels[0].struct_size is the step from one to the next */
    size_t panel_count;
    int64_t queries, keys;          /* 0: R query_block, C key_block. The last block may be short */
    int64_t query_block, key_block; /* 0: 1 */
    int64_t first_query, first_key; /* numbers of the first ones, as the axes show them */
    const attn_label *query_tokens; /* `queries` of them, or NULL: numbers */
    const attn_label *key_tokens;   /* `keys` of them */
    const char *query_title;        /* NULL: "query", "key", "weight"; CURVES: x is key_title and */
    const char *key_title;          /* y is value_title, none if NULL */
    const char *value_title;
    attn_reduction reduction;

    attn_scale scale;
    attn_colours colours;
    int has_limits; /* non-zero: low and high are given; else those of the finite cells shown, and
                       0 as the lower one if none is negative */
    double low, high;
    double robust;     /* percent of the cells to ignore at each end for the limits, 0 .. 49 */
    int panel_limits;  /* GRID: non-zero: each thumbnail has its own limits */
    int64_t drop_keys; /* columns from the first that are hidden, and the rest of each row divided
                          by its sum: "drop the sink and renormalise". The picture says so. Needs
                          blocks of 1 */
    double share;      /* LINES: the heaviest edges of each row until they hold this much of its
                          mass, 0 < share <= 1; 0: 0.7 */

    const attn_series *series; /* CURVES */
    size_t series_count;
    int log_x, log_y; /* CURVES: points that are not positive are left out, and counted in a note */

    const attn_image *image; /* OVERLAY */
    double opacity;          /* OVERLAY, of the cells: 0 < opacity <= 1; 0: 0.6 */

    int64_t width, height; /* pixels, or characters; 0: as it comes out. Up to 16384 */
    int dark;              /* PNG, SVG: light text on dark. HTML follows the reader's choice */
    size_t max_bytes;      /* HTML: how large it may become; 0: 6,000,000. Less detail is kept until
                              it fits, and the page says which */
} attn_figure;
#define ATTN_FIGURE_INIT ATTN_INIT(attn_figure)

/* --- Output ----------------------------------------------------------------------------------- */

typedef enum attn_picture {
    ATTN_PICTURE_AUTO = 0, /* by the ending of the path: .png, .svg, .html, .htm, .txt (ASCII) */
    ATTN_PICTURE_PNG,
    ATTN_PICTURE_SVG, /* real text; maps of more than 4096 cells hold one PNG for the cells */
    ATTN_PICTURE_HTML,
    ATTN_PICTURE_ANSI_24BIT, /* terminal, UTF-8; colours by escape sequences of 24 bits */
    ATTN_PICTURE_ANSI_256,   /* the same, 256 colours */
    ATTN_PICTURE_ASCII       /* bytes 32 .. 126 and line ends, nothing else */
} attn_picture;

/* The HTML page needs no network and no other file. Its viewer (for MAP and GRID; other kinds are
 * the static SVG) shows value and rank of the cell under pointer or keyboard cursor. How exact the
 * shown value is depends on what fits max_bytes, the page says which:
 *   - all cells as f32, if they fit;
 *   - else cells in 253 steps of a logarithmic scale over six decades (an error of at most 2.8 %;
 *     linear over the range if there are negative values), pooled by 2, 4, ... where even these do
 *     not fit, and of each row the heaviest keys, and the rows given, as f32. */

/* Writes a picture to a temporary file in the folder of `path`, synced, then renamed over it; as
 * attn_file_write in io.h does.
 *
 * Errors: ATTN_E_ARGUMENT (a field, format unknown), ATTN_E_SHAPE (sizes that do not fit together,
 * more pixels than 16384 a side), ATTN_E_MEMORY, ATTN_E_IO, and ATTN_E_UNSUPPORTED (PNG: no font is
 * installed); the text starts with the path. On failure `path` is as it was.
 * Threads: any number of calls at once. */
ATTN_API attn_status attn_figure_write(const attn_ctx *ctx, const attn_figure *figure,
                                       attn_picture format, const char *path, attn_error *err);

/* Takes the next bytes of a picture; non-zero stops, with ATTN_E_IO. */
typedef int (*attn_write_fn)(void *user, const void *bytes, size_t size);

/* The same into a function; `format` must not be AUTO. Errors in the figure come before the first
 * byte, later ones after some. */
ATTN_API attn_status attn_figure_emit(const attn_ctx *ctx, const attn_figure *figure,
                                      attn_picture format, attn_write_fn write, void *user,
                                      attn_error *err);

/* --- Images ----------------------------------------------------------------------------------- */

/* Reads a PNG of any kind as 8-bit RGBA, at most 16384 pixels a side and 2^28 in all. On success
 * attn_image_reset gives the pixels back; on failure *image is zeroed. The second reads from
 * memory. Errors: ATTN_E_IO, ATTN_E_FORMAT, ATTN_E_MEMORY, ATTN_E_ARGUMENT. */
ATTN_API attn_status attn_image_read(const attn_ctx *ctx, const char *path, attn_image *image,
                                     attn_error *err);
ATTN_API attn_status attn_image_read_memory(const attn_ctx *ctx, const void *bytes, size_t size,
                                            attn_image *image, attn_error *err);

/* Frees pixels that a read on the same ctx made, and zeroes *image. */
ATTN_API void attn_image_reset(const attn_ctx *ctx, attn_image *image);

#ifdef __cplusplus
}
#endif
#endif
