/* test_viz_pictures.c: whole pictures: pixels, markup that stays closed, text of terminals, errors.
 *
 *     test_viz_pictures --write FOLDER    all pictures in all formats, to be looked at */
#include "src/viz/colour.h"
#include "src/viz/out.h"
#include "tests/expect.h"
#include "tests/pictures.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const attn_picture formats[] = {ATTN_PICTURE_PNG,      ATTN_PICTURE_SVG,
                                       ATTN_PICTURE_HTML,     ATTN_PICTURE_ANSI_24BIT,
                                       ATTN_PICTURE_ANSI_256, ATTN_PICTURE_ASCII};
enum { FORMATS = sizeof formats / sizeof *formats };

/* --- Pixels ----------------------------------------------------------------------------------- */

static size_t count_pixels(const attn_image *m, attn__rgb c)
{
    size_t n = 0;

    for (size_t i = 0; i < m->width * m->height; i++)
        n += m->rgba[4 * i] == c.r && m->rgba[4 * i + 1] == c.g && m->rgba[4 * i + 2] == c.b &&
             m->rgba[4 * i + 3] == 255;
    return n;
}

static attn_image decode(const picture_bytes *png)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_image m;

    CHECK_MSG(attn_image_read_memory(NULL, png->data, png->size, &m, &err) == ATTN_OK, "%s",
              err.text);
    return m;
}

/* Each cell has the colour of its value; masked ones and those that are not finite their own. */
static void cells_have_their_colours(void **state)
{
    static const float w[3][3] = {{1, 7, 7}, {0.25f, 0.75f, 7}, {NAN, 0.5f, 0}};
    static const uint8_t keep[3][3] = {{1, 0, 0}, {1, 1, 0}, {1, 1, 1}};
    arena a = {0};

    (void)state;
    for (int dark = 0; dark < 2; dark++)
        for (int colours = 0; colours < ATTN_COLOURS_DIVERGING; colours++) {
            attn_figure f = ATTN_FIGURE_INIT;
            attn_panel p = ATTN_PANEL_INIT;
            attn__theme theme = attn__theme_of((attn_colours)colours, dark);
            const double values[] = {1, 0.25, 0.75, 0.5, 0};
            attn__rgb t[ATTN__COLOURS];
            picture_bytes png;
            attn_image m;

            p.cells = attn_view_bhsd(w, ATTN_F32, 1, 1, 3, 3);
            p.allowed = attn_view_bhsd(keep, ATTN_U8, 1, 1, 3, 3);
            f.panels = &p;
            f.panel_count = 1;
            f.dark = dark;
            f.colours = (attn_colours)colours;
            png = picture_emit(&a, &f, ATTN_PICTURE_PNG);
            m = decode(&png);
            attn__colour_table(f.colours, t);
            /* 34 x 34 pixels a cell, some of them under the number. */
            for (size_t i = 0; i < 5; i++)
                CHECK_MSG(count_pixels(&m, t[(int)(values[i] * 255 + 0.5)]) > 34 * 34 / 2,
                          "dark %d, map %d, value %g", dark, colours, values[i]);
            CHECK(count_pixels(&m, theme.masked) >= 3 * 34 * 34);
            CHECK(count_pixels(&m, theme.odd) >= 34 * 34);
            CHECK(count_pixels(&m, theme.dropped) == 0);
            CHECK(count_pixels(&m, theme.paper) > m.width * m.height / 4);
            attn_image_reset(NULL, &m);
        }
    arena_reset(&a);
}

static void a_needle_stays_visible(void **state)
{
    enum { N = 3000 };
    arena a = {0};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = ATTN_PANEL_INIT;
    attn__rgb t[ATTN__COLOURS];
    float *w = arena_get(&a, (size_t)N * N * sizeof *w);
    picture_bytes png;
    attn_image m;

    (void)state;
    memset(w, 0, (size_t)N * N * sizeof *w);
    w[1234 * N + 567] = 1;
    p.cells = attn_view_bhsd(w, ATTN_F32, 1, 1, N, N);
    f.panels = &p;
    f.panel_count = 1;
    f.width = f.height = 1024;
    png = picture_emit(&a, &f, ATTN_PICTURE_PNG);
    m = decode(&png);
    CHECK(m.width == 1024 && m.height == 1024);
    attn__colour_table(ATTN_COLOURS_VIRIDIS, t);
    CHECK(count_pixels(&m, t[0]) > 600 * 600);
    attn_image_reset(NULL, &m);
    /* Without a bar, whose end has the colour too, the only such pixel is the needle. */
    f.kind = ATTN_FIGURE_GRID;
    f.panel_limits = 1;
    f.width = f.height = 0;
    png = picture_emit(&a, &f, ATTN_PICTURE_PNG);
    m = decode(&png);
    CHECK_MSG(count_pixels(&m, t[255]) > 0, "the needle is lost");
    attn_image_reset(NULL, &m);
    arena_reset(&a);
}

static void sizes_are_kept(void **state)
{
    static const int64_t sizes[][2] = {{0, 0}, {400, 300}, {64, 64}, {1, 1}, {1500, 200}};
    arena a = {0};

    (void)state;
    for (size_t i = 0;; i++) {
        picture p = picture_at(&a, i);

        if (!p.name)
            break;
        for (size_t k = 1; k < 5; k++) {
            picture_bytes png;
            attn_image m;

            p.figure.width = sizes[k][0];
            p.figure.height = sizes[k][1];
            png = picture_emit(&a, &p.figure, ATTN_PICTURE_PNG);
            m = decode(&png);
            CHECK((int64_t)m.width == sizes[k][0] && (int64_t)m.height == sizes[k][1]);
            attn_image_reset(NULL, &m);
            picture_emit(&a, &p.figure, ATTN_PICTURE_SVG);
            picture_emit(&a, &p.figure, ATTN_PICTURE_ASCII);
        }
    }
    arena_reset(&a);
}

static void equal_figures_make_equal_bytes(void **state)
{
    arena a = {0};

    (void)state;
    for (size_t i = 0;; i++) {
        picture p = picture_at(&a, i);

        if (!p.name)
            break;
        for (size_t k = 0; k < FORMATS; k++) {
            picture_bytes x = picture_emit(&a, &p.figure, formats[k]);
            picture_bytes y = picture_emit(&a, &p.figure, formats[k]);

            CHECK_MSG(x.size == y.size && memcmp(x.data, y.data, x.size) == 0, "%s, format %d",
                      p.name, (int)formats[k]);
        }
        arena_reset(&a);
    }
}

/* --- Terminals -------------------------------------------------------------------------------- */

static void terminals_get_colours_and_nothing_else(void **state)
{
    arena a = {0};

    (void)state;
    for (size_t i = 0;; i++) {
        picture p = picture_at(&a, i);

        if (!p.name)
            break;
        for (size_t k = 3; k < FORMATS; k++) {
            picture_bytes b = picture_emit(&a, &p.figure, formats[k]);

            CHECK(strlen(b.data) == b.size && picture_is_utf8(&b));
            for (const char *c = b.data; *c; c++) {
                unsigned char u = (unsigned char)*c;

                if (u == 0x1b) {
                    size_t n = strspn(c + 2, "0123456789;");

                    CHECK(k < 5 && c[1] == '[' && c[2 + n] == 'm');
                    c += 2 + n;
                    continue;
                }
                CHECK((u >= 0x20 && u != 0x7f) || u == '\n');
                CHECK(k < 5 || u < 0x7f);
            }
        }
        arena_reset(&a);
    }
}

static void check_text(arena *a, const attn_figure *f, const char *expected)
{
    picture_bytes b = picture_emit(a, f, ATTN_PICTURE_ASCII);

    CHECK_MSG(strcmp(b.data, expected) == 0, "\n%s", b.data);
}

static void plain_text_is_as_expected(void **state)
{
    static const float w[3][3] = {{1, 0, 0}, {0.25f, 0.75f, 0}, {0.1f, 0.3f, 0.6f}};
    static const uint8_t keep[3][3] = {{1, 0, 0}, {1, 1, 0}, {1, 1, 1}};
    static const double y[] = {3, 1, 2, (double)NAN, 0};
    static const attn_series series = {"loss", NULL, y, 5};
    arena a = {0};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = ATTN_PANEL_INIT;

    (void)state;
    p.cells = attn_view_bhsd(w, ATTN_F32, 1, 1, 3, 3);
    p.allowed = attn_view_bhsd(keep, ATTN_U8, 1, 1, 3, 3);
    f.panels = &p;
    f.panel_count = 1;
    f.query_tokens = f.key_tokens = words_of(&a, "The caf\xc3\xa9 sat", &f.queries);
    f.keys = 3;
    f.title = "Title";
    check_text(&a, &f,
               "Title\n"
               "  The @@    \n"
               "_cafe --##  \n"
               " _sat ..--**\n"
               "      T c s\n"
               "      h a a\n"
               "      e f t\n"
               "        e\n"
               "weight 0 .:-=+*#%@ 1  ' ' masked\n");
    f.kind = ATTN_FIGURE_LINES;
    check_text(&a, &f,
               "Title\n"
               "layer 0, head 0\n"
               "             The -> The 1.00\n"
               "           _cafe -> _cafe 0.75\n"
               "            _sat -> _sat 0.60, _cafe 0.30\n");
    f = (attn_figure)ATTN_FIGURE_INIT;
    f.kind = ATTN_FIGURE_CURVES;
    f.series = &series;
    f.series_count = 1;
    f.width = 32;
    f.height = 11;
    check_text(&a, &f,
               "        3 +a                   \n"
               "          | aa                 \n"
               "          |   a    aaa         \n"
               "          |    aaaa            \n"
               "          |                    \n"
               "        0 +                   a\n"
               "           0                  4\n"
               "           a loss\n");
    arena_reset(&a);
}

/* --- Errors ----------------------------------------------------------------------------------- */

static int count_calls(void *user, const void *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    ++*(int *)user;
    return 0;
}

static int refuse(void *user, const void *bytes, size_t size)
{
    return count_calls(user, bytes, size) + 1;
}

static attn_figure good_figure(attn_panel *p)
{
    static const float w[2][3] = {{1, 0, 0}, {0, 0.5f, 0.5f}};
    attn_figure f = ATTN_FIGURE_INIT;

    *p = (attn_panel)ATTN_PANEL_INIT;
    p->cells = attn_view_bhsd(w, ATTN_F32, 1, 1, 2, 3);
    f.panels = p;
    f.panel_count = 1;
    return f;
}

static void check_refused(const attn_figure *f, attn_status expected, const char *word)
{
    for (size_t k = 0; k < FORMATS; k++) {
        attn_error err = {ATTN_OK, 0, ""};
        int calls = 0;

        CHECK_MSG(attn_figure_emit(NULL, f, formats[k], count_calls, &calls, &err) == expected,
                  "%s: %s", word, err.text);
        CHECK_MSG(err.status == expected && strstr(err.text, word), "%s: %s", word, err.text);
        CHECK(calls == 0);
    }
}

static void mistakes_are_named(void **state)
{
    static const attn_label broken[3] = {{"a", 1}, {NULL, 1}, {"c", 1}};
    static const int64_t index[2] = {1, 1};
    attn_panel p;
    attn_figure f;

    (void)state;
#define REFUSED(change, status, word)                                                              \
    do {                                                                                           \
        f = good_figure(&p);                                                                       \
        change;                                                                                    \
        check_refused(&f, status, word);                                                           \
    } while (0)
    REFUSED(f.struct_size = 0, ATTN_E_ARGUMENT, "struct_size");
    REFUSED(f.kind = (attn_figure_kind)9, ATTN_E_ARGUMENT, "kind");
    REFUSED(f.scale = (attn_scale)-1, ATTN_E_ARGUMENT, "scale");
    REFUSED(f.colours = (attn_colours)5, ATTN_E_ARGUMENT, "colours");
    REFUSED(f.reduction = (attn_reduction)3, ATTN_E_ARGUMENT, "reduction");
    REFUSED(f.panels = NULL, ATTN_E_ARGUMENT, "panels");
    REFUSED(f.panel_count = 0, ATTN_E_ARGUMENT, "panels");
    REFUSED(p.struct_size = 0, ATTN_E_ARGUMENT, "struct_size");
    REFUSED(p.cells.type = ATTN_U8, ATTN_E_ARGUMENT, "cells");
    REFUSED(p.cells.data = NULL, ATTN_E_ARGUMENT, "cells");
    REFUSED(p.cells.size[2] = 0, ATTN_E_SHAPE, "cells");
    REFUSED(p.cells.size[0] = 2, ATTN_E_SHAPE, "cells");
    REFUSED(p.cells.data = (char *)p.cells.data + 1, ATTN_E_ARGUMENT, "aligned");
    REFUSED(p.allowed = p.cells; p.allowed.size[3] = 2, ATTN_E_SHAPE, "allowed");
    REFUSED(p.allowed = p.cells; p.allowed.type = ATTN_F16, ATTN_E_ARGUMENT, "allowed");
    REFUSED(p.rows = p.cells, ATTN_E_ARGUMENT, "row_index");
    REFUSED(p.rows = p.cells; p.row_index = index, ATTN_E_ARGUMENT, "row_index");
    REFUSED(p.top_keys = p.cells, ATTN_E_ARGUMENT, "top_keys");
    REFUSED(f.queries = 3, ATTN_E_SHAPE, "queries");
    REFUSED(f.key_block = -1, ATTN_E_ARGUMENT, "key_block");
    REFUSED(f.key_block = 4; f.drop_keys = 1, ATTN_E_ARGUMENT, "drop_keys");
    REFUSED(f.drop_keys = -1, ATTN_E_ARGUMENT, "drop_keys");
    REFUSED(f.queries = INT64_MAX; f.query_block = 2, ATTN_E_ARGUMENT, "queries");
    REFUSED(f.first_key = INT64_MAX, ATTN_E_ARGUMENT, "first_key");
    REFUSED(f.first_query = -1, ATTN_E_ARGUMENT, "first_query");
    REFUSED(f.key_tokens = broken, ATTN_E_ARGUMENT, "key_tokens[1]");
    REFUSED(f.has_limits = 1; f.low = 1, ATTN_E_ARGUMENT, "limits");
    REFUSED(f.has_limits = 1; f.high = (double)NAN, ATTN_E_ARGUMENT, "limits");
    REFUSED(f.robust = 50, ATTN_E_ARGUMENT, "robust");
    REFUSED(f.robust = (double)NAN, ATTN_E_ARGUMENT, "robust");
    REFUSED(f.share = 1.5, ATTN_E_ARGUMENT, "share");
    REFUSED(f.opacity = -1, ATTN_E_ARGUMENT, "opacity");
    REFUSED(f.width = -1, ATTN_E_ARGUMENT, "width");
    REFUSED(f.height = 20000, ATTN_E_ARGUMENT, "height");
    REFUSED(f.kind = ATTN_FIGURE_GRID; p.layer = -1, ATTN_E_ARGUMENT, "layer");
    REFUSED(f.kind = ATTN_FIGURE_CURVES, ATTN_E_ARGUMENT, "series");
    REFUSED(f.kind = ATTN_FIGURE_OVERLAY, ATTN_E_ARGUMENT, "image");
    REFUSED(f.kind = ATTN_FIGURE_LINES; f.key_block = 4, ATTN_E_ARGUMENT, "lines");
    REFUSED(f.colours = ATTN_COLOURS_DIVERGING;
            f.scale = ATTN_SCALE_LOG, ATTN_E_ARGUMENT, "diverging");
#undef REFUSED
}

static void formats_and_writers_are_checked(void **state)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_panel p;
    attn_figure f = good_figure(&p);
    int calls = 0;

    (void)state;
    CHECK(attn_figure_emit(NULL, &f, ATTN_PICTURE_AUTO, count_calls, &calls, &err) ==
          ATTN_E_ARGUMENT);
    CHECK(attn_figure_emit(NULL, &f, (attn_picture)7, count_calls, &calls, &err) ==
          ATTN_E_ARGUMENT);
    CHECK(attn_figure_emit(NULL, &f, ATTN_PICTURE_SVG, NULL, NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_figure_emit(NULL, NULL, ATTN_PICTURE_SVG, count_calls, &calls, &err) ==
          ATTN_E_ARGUMENT);
    CHECK(calls == 0);
    CHECK(attn_figure_emit(NULL, &f, ATTN_PICTURE_SVG, refuse, &calls, &err) == ATTN_E_IO);
    CHECK(attn_figure_write(NULL, &f, ATTN_PICTURE_AUTO, "x.gif", &err) == ATTN_E_ARGUMENT);
    CHECK_MSG(strstr(err.text, "x.gif") && strstr(err.text, ".png"), "%s", err.text);
    CHECK(attn_figure_write(NULL, &f, ATTN_PICTURE_AUTO, "/none/such/x.png", &err) == ATTN_E_IO);
    CHECK(attn_figure_write(NULL, &f, ATTN_PICTURE_AUTO, NULL, &err) == ATTN_E_ARGUMENT);
}

/* What is odd but no mistake draws: no value at all, all the same, one cell, one long row. */
static void odd_figures_draw(void **state)
{
    arena a = {0};
    float *w = arena_get(&a, 20000 * sizeof *w);
    uint8_t none[16] = {0};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = ATTN_PANEL_INIT;

    (void)state;
    f.panels = &p;
    f.panel_count = 1;
    for (int scale = 0; scale <= ATTN_SCALE_PERCENTILE; scale++)
        for (int odd = 0; odd < 7; odd++)
            for (size_t k = 0; k < FORMATS; k++) {
                static const int64_t sizes[7][2] = {{4, 4},     {4, 4},     {4, 4}, {1, 1},
                                                    {1, 20000}, {20000, 1}, {4, 4}};
                float value = odd == 1 ? 0 : odd == 2 ? NAN : 0.5f;

                for (size_t i = 0; i < 20000; i++)
                    w[i] = odd != 6 ? value : i % 2 ? 3e38f : 1e-45f;
                f.scale = (attn_scale)scale;
                p.cells = attn_view_bhsd(w, ATTN_F32, 1, 1, sizes[odd][0], sizes[odd][1]);
                p.allowed = odd == 0 ? attn_view_bhsd(none, ATTN_U8, 1, 1, 4, 4) : (attn_view){0};
                picture_emit(&a, &f, formats[k]);
            }
    arena_reset(&a);
}

/* --- Size and time ---------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec t;

    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void a_model_fits_a_page(void **state)
{
    arena a = {0};
    attn_figure f = picture_model(&a);
    double start = seconds();
    picture_bytes b = picture_emit(&a, &f, ATTN_PICTURE_HTML);

    (void)state;
    print_message("%zu bytes, %.1f s\n", b.size, seconds() - start);
    CHECK_MSG(b.size < 6000000, "%zu bytes", b.size);
    CHECK(strstr(b.data, "heaviest keys of each query are kept"));
    f.max_bytes = 1000000;
    b = picture_emit(&a, &f, ATTN_PICTURE_HTML);
    CHECK_MSG(b.size < 1400000, "%zu bytes", b.size);
    arena_reset(&a);
}

static void a_huge_token_costs_nothing(void **state)
{
    const size_t size = 10000000;
    arena a = {0};
    char *token = arena_get(&a, size);
    attn_label labels[3] = {{token, size}, {token, size}, {token, size}};
    attn_panel p;
    attn_figure f = good_figure(&p);

    (void)state;
    memset(token, '<', size);
    f.query_tokens = f.key_tokens = labels;
    for (size_t k = 0; k < FORMATS; k++) {
        double start = seconds();
        picture_bytes b = picture_emit(&a, &f, formats[k]);

        CHECK_MSG(b.size < 200000 && seconds() - start < 5, "format %zu: %zu bytes", k, b.size);
    }
    arena_reset(&a);
}

/* --- Images ----------------------------------------------------------------------------------- */

static void images_are_read(void **state)
{
    arena a = {0};
    attn_panel p;
    attn_figure f = good_figure(&p);
    picture_bytes png = picture_emit(&a, &f, ATTN_PICTURE_PNG);
    attn_error err = {ATTN_OK, 0, ""};
    attn_image m;

    (void)state;
    for (size_t n = 0; n < png.size; n++) {
        CHECK(attn_image_read_memory(NULL, png.data, n, &m, &err) == ATTN_E_FORMAT);
        CHECK(!m.rgba && m.width == 0 && err.text[0]);
    }
    for (size_t n = 0; n < png.size; n += 7) { /* a damaged byte: refused, or another picture */
        png.data[n] ^= 0x40;
        if (attn_image_read_memory(NULL, png.data, png.size, &m, &err) == ATTN_OK)
            attn_image_reset(NULL, &m);
        png.data[n] ^= 0x40;
    }
    CHECK(attn_image_read(NULL, "/none/such.png", &m, &err) == ATTN_E_IO);
    CHECK(attn_image_read(NULL, "/dev/null", &m, &err) == ATTN_E_FORMAT);
    CHECK(attn_image_read(NULL, NULL, &m, &err) == ATTN_E_ARGUMENT);
    attn_image_reset(NULL, NULL);
    arena_reset(&a);
}

/* Every kind of PNG becomes the same four bytes a pixel. */
static void images_of_every_kind(void **state)
{
    static const struct {
        const char *name;
        size_t width, height;
        uint8_t first[4], last[4];
    } cases[] = {
        {"grey_1", 8, 2, {255, 255, 255, 255}, {255, 255, 255, 255}},
        {"grey_8", 2, 2, {0, 0, 0, 255}, {0x40, 0x40, 0x40, 255}},
        {"grey_16", 2, 1, {0x12, 0x12, 0x12, 255}, {255, 255, 255, 255}},
        {"grey_alpha", 2, 1, {0x10, 0x10, 0x10, 0x80}, {255, 255, 255, 255}},
        {"rgb", 2, 1, {1, 2, 3, 255}, {255, 0x80, 0, 255}},
        {"rgb_transparent", 2, 1, {1, 2, 3, 0}, {255, 0x80, 0, 255}},
        {"palette", 2, 1, {0x10, 0x20, 0x30, 0x80}, {255, 0x80, 0x40, 255}},
        {"palette_2", 4, 1, {0, 1, 2, 255}, {9, 10, 11, 255}},
        {"rgba", 1, 2, {1, 2, 3, 4}, {255, 254, 253, 252}},
        {"rgba_16", 1, 1, {1, 2, 3, 4}, {1, 2, 3, 4}},
        {"interlaced", 3, 2, {1, 1, 1, 255}, {6, 6, 6, 255}},
        {"text_chunk", 1, 1, {7, 7, 7, 255}, {7, 7, 7, 255}},
    };
    static const char *const refused[] = {"huge", "bomb"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn_error err = {ATTN_OK, 0, ""};
        attn_image m;
        char path[100];

        snprintf(path, sizeof path, "tests/fuzz/corpus/png/%s.png", cases[i].name);
        CHECK_MSG(attn_image_read(NULL, path, &m, &err) == ATTN_OK, "%s", err.text);
        CHECK_MSG(m.width == cases[i].width && m.height == cases[i].height, "%s", path);
        CHECK_MSG(memcmp(m.rgba, cases[i].first, 4) == 0, "%s: first %d %d %d %d", path, m.rgba[0],
                  m.rgba[1], m.rgba[2], m.rgba[3]);
        CHECK_MSG(memcmp(m.rgba + 4 * (m.width * m.height - 1), cases[i].last, 4) == 0, "%s", path);
        attn_image_reset(NULL, &m);
    }
    for (size_t i = 0; i < 2; i++) {
        attn_image m;
        char path[100];

        snprintf(path, sizeof path, "tests/fuzz/corpus/png/%s.png", refused[i]);
        CHECK_MSG(attn_image_read(NULL, path, &m, NULL) == ATTN_E_FORMAT && !m.rgba, "%s", path);
    }
}

/* --- Looking ---------------------------------------------------------------------------------- */

static int write_one(const attn_figure *f, attn_picture format, const char *folder,
                     const char *name, const char *ending)
{
    attn_error err = {ATTN_OK, 0, ""};
    char path[500];

    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    if (attn_figure_write(NULL, f, format, path, &err) == ATTN_OK)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

/* The weights of a map, for those who check what a page says of them. */
static int write_numbers(const attn_figure *f, const char *folder, const char *name)
{
    const attn_view *v = &f->panels->cells;
    char path[500];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s.numbers", folder, name);
    file = fopen(path, "w");
    if (!file)
        return 1;
    for (int64_t i = 0; i < v->size[2]; i++)
        for (int64_t j = 0; j < v->size[3]; j++)
            fprintf(file, "%.9g%c", view_get(v, 0, 0, i, j), j + 1 < v->size[3] ? ' ' : '\n');
    return fclose(file) != 0;
}

static int write_all(const char *folder)
{
    static const char *const endings[FORMATS] = {"png", "svg", "html", "24", "256", "txt"};
    arena a = {0};
    attn_figure model = picture_model(&a);
    int failed = write_one(&model, ATTN_PICTURE_HTML, folder, "grid_large", "html");

    arena_reset(&a);
    for (size_t i = 0; !failed; i++) {
        picture p = picture_at(&a, i);

        if (!p.name)
            break;
        for (size_t k = 0; k < FORMATS; k++)
            failed |= write_one(&p.figure, formats[k], folder, p.name, endings[k]);
        if (strcmp(p.name, "map_sentence") == 0)
            failed |= write_numbers(&p.figure, folder, p.name);
        arena_reset(&a);
    }
    arena_reset(&a);
    return failed;
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"cells_have_their_colours", cells_have_their_colours, 0},
        {"a_needle_stays_visible", a_needle_stays_visible, 0},
        {"sizes_are_kept", sizes_are_kept, 0},
        {"equal_figures_make_equal_bytes", equal_figures_make_equal_bytes, 0},
        {"terminals_get_colours_and_nothing_else", terminals_get_colours_and_nothing_else, 0},
        {"plain_text_is_as_expected", plain_text_is_as_expected, 0},
        {"mistakes_are_named", mistakes_are_named, 0},
        {"formats_and_writers_are_checked", formats_and_writers_are_checked, 0},
        {"odd_figures_draw", odd_figures_draw, 0},
        {"a_model_fits_a_page", a_model_fits_a_page, 0},
        {"a_huge_token_costs_nothing", a_huge_token_costs_nothing, 0},
        {"images_are_read", images_are_read, 0},
        {"images_of_every_kind", images_of_every_kind, 0},
    };

    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_all(argv[2]);
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
