/* test_viz.c: what pictures are made of: colours, clean text, numbers, scales, pooled maps. */
#include "src/viz/colour.h"
#include "src/viz/drawing.h"
#include "src/viz/edges.h"
#include "src/viz/page_data.h"
#include "tests/expect.h"
#include "tests/pictures.h"

#include <math.h>
#include <string.h>
#include <zlib.h>

/* --- Colours ---------------------------------------------------------------------------------- */

static void lightness_rises_steadily(void **state)
{
    (void)state;
    for (int c = ATTN_COLOURS_VIRIDIS; c <= ATTN_COLOURS_GREY; c++) {
        attn__rgb t[ATTN__COLOURS];
        double least = 1, most = 0;

        attn__colour_table((attn_colours)c, t);
        for (int i = 1; i < ATTN__COLOURS; i++) {
            double step = attn__lightness(t[i]) - attn__lightness(t[i - 1]);

            least = fmin(least, step);
            most = fmax(most, step);
        }
        CHECK_MSG(least >= -0.0005, "map %d falls by %g", c, -least);
        CHECK_MSG(most < 0.02, "map %d leaps by %g", c, most);
        CHECK_MSG(attn__lightness(t[255]) - attn__lightness(t[0]) > 0.55, "map %d is flat", c);
    }
}

static void diverging_is_lightest_in_the_middle(void **state)
{
    attn__rgb t[ATTN__COLOURS];

    (void)state;
    attn__colour_table(ATTN_COLOURS_DIVERGING, t);
    for (int i = 1; i < ATTN__COLOURS; i++) {
        double step = attn__lightness(t[i]) - attn__lightness(t[i - 1]);

        CHECK_MSG(i < 128 ? step > -0.002 : step < 0.002, "at %d: %g", i, step);
        CHECK(fabs(attn__lightness(t[i]) - attn__lightness(t[255 - i])) < 0.03);
    }
    CHECK(t[0].b > t[0].r + 60 && t[255].r > t[255].b + 60);
}

/* Cells without a value cannot be taken for one: no colour of a map is near. */
static void other_cells_are_no_value(void **state)
{
    (void)state;
    for (int dark = 0; dark < 2; dark++)
        for (int c = 0; c <= ATTN_COLOURS_DIVERGING; c++) {
            const attn__theme theme = attn__theme_of((attn_colours)c, dark);
            const attn__rgb others[] = {theme.masked, theme.odd};
            attn__rgb t[ATTN__COLOURS];

            attn__colour_table((attn_colours)c, t);
            for (size_t k = 0; k < 2; k++)
                for (int i = 0; i < ATTN__COLOURS; i++) {
                    int r = t[i].r - others[k].r, g = t[i].g - others[k].g,
                        b = t[i].b - others[k].b;

                    CHECK_MSG(r * r + g * g + b * b > 18 * 18, "dark %d, map %d, colour %d of %zu",
                              dark, c, i, k);
                }
        }
}

/* --- Text ------------------------------------------------------------------------------------- */

static const char *clean(attn__out *out, const char *bytes, size_t size, size_t columns,
                         attn__label_form form, size_t *used)
{
    attn__out_clear(out);
    *used = attn__label_clean(out, bytes, size, columns, form);
    return attn__out_string(out);
}

static void text_is_cleaned(void **state)
{
#define B(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t size, columns;
        attn__label_form form;
        const char *expected;
    } cases[] = {
        {B("cat"), 20, ATTN__TOKEN, "cat"},
        {B(" cat"), 20, ATTN__TOKEN,
         "\xc2\xb7"
         "cat"},
        {B("a b"), 20, ATTN__TOKEN, "a b"},
        {B("a  b "), 20, ATTN__TOKEN,
         "a\xc2\xb7\xc2\xb7"
         "b\xc2\xb7"},
        {B("a\tb\n\r"), 20, ATTN__TOKEN,
         "a\xe2\x87\xa5"
         "b\xe2\x86\xb5\\r"},
        {B(" a\t b\n"), 20, ATTN__PROSE, "a b "},
        {B("\0\x1b[0m\x7f"), 20, ATTN__TOKEN, "\\x00\\x1b[0m\\x7f"},
        {B("\xc2\x9b"
           "x"),
         20, ATTN__TOKEN, "\\u{9b}x"},
        {B("\xff\xc0\xaf"), 20, ATTN__TOKEN, "\\xff\\xc0\\xaf"},
        {B("\xed\xa0\x80"), 20, ATTN__TOKEN, "\\xed\\xa0\\x80"},
        {B("\xf4\x90\x80\x80"), 20, ATTN__TOKEN, "\\xf4\\x90\\x80\\x80"},
        {B("\xe2\x82"), 20, ATTN__TOKEN, "\\xe2\\x82"},
        {B("\xe2\x80\xae"
           "abc"),
         20, ATTN__TOKEN, "\\u{202e}abc"},
        {B("a\xe2\x81\xa9"
           "b"),
         20, ATTN__TOKEN, "a\\u{2069}b"},
        {B("a\xe2\x80\x8b"
           "b"),
         20, ATTN__TOKEN, "a\\u{200b}b"},
        {B("\xf3\xa0\x81\x81"), 20, ATTN__TOKEN, "\\u{e0041}"},
        {B("\xef\xbf\xbf\xef\xb7\x90"), 30, ATTN__TOKEN, "\\u{ffff}\\u{fdd0}"},
        {B("\xc2\xa0"), 20, ATTN__TOKEN, "\\u{a0}"},
        {B("\xe3\x85\xa4"), 20, ATTN__TOKEN, "\\u{3164}"},
        {B("e\xcc\x81"), 20, ATTN__TOKEN, "e\xcc\x81"},
        {B("\xcc\x81"), 20, ATTN__TOKEN, "\xe2\x97\x8c\xcc\x81"},
        {B("e\xcc\x81\xcc\x81\xcc\x81\xcc\x81"), 20, ATTN__TOKEN,
         "e\xcc\x81\xcc\x81\xcc\x81\\u{301}"},
        {B("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7"), 20, ATTN__TOKEN,
         "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7"},
        {B("\xe2\x80\x8d"), 20, ATTN__TOKEN, "\\u{200d}"},
        {B("abcdef"), 6, ATTN__TOKEN, "abcdef"},
        {B("abcdefg"), 6, ATTN__TOKEN, "abcde\xe2\x80\xa6"},
        {B("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"), 6, ATTN__TOKEN,
         "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"},
        {B("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"), 5, ATTN__TOKEN,
         "\xe6\x97\xa5\xe6\x9c\xac\xe2\x80\xa6"},
        {B("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"), 4, ATTN__TOKEN, "\xe6\x97\xa5\xe2\x80\xa6"},
        {B("ab"), 1, ATTN__TOKEN, "\xe2\x80\xa6"},
        {B(" na\xc3\xafve\n"), 20, ATTN__PLAIN, "_naive\\n"},
        {B("\xc3\x9c"
           "berma\xc3\x9f \xce\xb1\xe2\x80\xae"),
         20, ATTN__PLAIN, "Ubermass_??"},
        {B("abcdefg"), 6, ATTN__PLAIN, "abcde~"},
        {B("cafe\xcc\x81s"), 20, ATTN__PLAIN, "cafes"},
        {B(""), 6, ATTN__TOKEN, ""},
    };
#undef B
    attn__out out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t used;
        const char *got =
            clean(&out, cases[i].bytes, cases[i].size, cases[i].columns, cases[i].form, &used);

        CHECK_MSG(strcmp(got, cases[i].expected) == 0, "case %zu: '%s'", i, got);
        CHECK_MSG(used <= cases[i].columns && used == attn__label_columns(got), "case %zu: %zu", i,
                  used);
    }
    attn__out_reset(&out);
}

/* Any bytes: valid UTF-8 comes out, nothing below a blank, never more than asked for, and cleaning
 * what is clean changes nothing but spaces. */
static void any_bytes_become_clean(void **state)
{
    rng r = rng_make(test_seed(), 1);
    attn__out out = {0}, again = {0};

    (void)state;
    for (int n = 0; n < 20000; n++) {
        unsigned char bytes[24];
        size_t size = (size_t)rng_int(&r, 0, sizeof bytes), used, columns;
        const char *got;

        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)(rng_chance(&r, 30) ? 0xcc + rng_int(&r, 0, 0x2b)
                                                          : rng_int(&r, 0, 255));
        columns = (size_t)rng_int(&r, 1, 40);
        got = clean(&out, (const char *)bytes, size, columns, ATTN__TOKEN, &used);
        CHECK(used <= columns && used == attn__label_columns(got) && out.size == strlen(got));
        for (size_t i = 0; i < out.size; i++)
            CHECK(out.bytes[i] >= 0x20 && out.bytes[i] != 0x7f);
        CHECK_MSG(strcmp(clean(&again, got, out.size, 1000, ATTN__TOKEN, &used), got) == 0, "'%s'",
                  got);
    }
    attn__out_reset(&out);
    attn__out_reset(&again);
}

static void long_tokens_are_not_read(void **state)
{
    const size_t size = 10000000;
    arena a = {0};
    char *token = arena_get(&a, size);
    attn__out out = {0};
    size_t used;

    (void)state;
    memset(token, 'x', size);
    for (int n = 0; n < 10000; n++)
        CHECK(strlen(clean(&out, token, size, 18, ATTN__TOKEN, &used)) == 17 + 3 && used == 18);
    attn__out_reset(&out);
    arena_reset(&a);
}

/* --- Numbers ---------------------------------------------------------------------------------- */

static void numbers_are_written(void **state)
{
    static const struct {
        double value;
        int digits;
        const char *expected;
    } cases[] = {
        {0, 3, "0"},
        {1, 3, "1"},
        {0.1, 3, "0.1"},
        {-0.25, 3, "-0.25"},
        {1234.5, 3, "1230"},
        {123456, 3, "123000"},
        {1.5e9, 3, "1.5e9"},
        {0.00012, 3, "0.00012"},
        {1.5e-5, 3, "1.5e-5"},
        {1e-300, 3, "1e-300"},
        {9.999, 3, "10"},
        {1e22, 17, "1e22"},
        {(double)NAN, 3, "nan"},
        {HUGE_VAL, 3, "inf"},
        {-HUGE_VAL, 3, "-inf"},
        {0.1, 17, "0.10000000000000001"},
    };
    attn__out out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn__out_clear(&out);
        attn__out_value(&out, cases[i].value, cases[i].digits);
        CHECK_MSG(strcmp(attn__out_string(&out), cases[i].expected) == 0, "%s, not %s",
                  attn__out_string(&out), cases[i].expected);
    }
    attn__out_clear(&out);
    attn__out_length(&out, 12.5);
    attn__out_char(&out, ' ');
    attn__out_length(&out, -0.004);
    attn__out_char(&out, ' ');
    attn__out_length(&out, -3.999);
    attn__out_char(&out, ' ');
    attn__out_fixed(&out, 0.05, 2);
    CHECK_MSG(strcmp(attn__out_string(&out), "12.5 0 -4 0.05") == 0, "%s", attn__out_string(&out));
    attn__out_reset(&out);
}

static void base64_and_xml(void **state)
{
    attn__out out = {0};

    (void)state;
    attn__out_base64(&out, "Man", 3);
    attn__out_base64(&out, "Ma", 2);
    attn__out_base64(&out, "M", 1);
    attn__out_base64(&out, "\xff\xff\xfe", 3);
    CHECK_MSG(strcmp(attn__out_string(&out), "TWFuTWE=TQ==///+") == 0, "%s",
              attn__out_string(&out));
    attn__out_clear(&out);
    attn__out_xml(&out, "a<b>&\"'`c");
    CHECK(strcmp(attn__out_string(&out), "a&lt;b&gt;&amp;&quot;&#39;&#96;c") == 0);
    attn__out_reset(&out);
}

/* --- Maps and scales -------------------------------------------------------------------------- */

static const float quad[4][4] = {
    {0.5f, 0.1f, 0.2f, 0.2f}, {0.4f, 0.3f, 0.2f, 0.1f}, {0, 0, 1, 0}, {0.25f, 0.25f, 0.25f, 0.25f}};

static attn_panel quad_panel(void)
{
    attn_panel p = ATTN_PANEL_INIT;

    p.cells = attn_view_bhsd(quad, ATTN_F32, 1, 1, 4, 4);
    return p;
}

static attn__map map_at(const attn_figure *f, const attn_panel *p, size_t rows, size_t cols)
{
    attn__map map;

    CHECK(attn__map_make(NULL, f, p, rows, cols, &map, NULL) == ATTN_OK);
    return map;
}

static void check_values(const attn__map *map, const double *expected)
{
    for (size_t i = 0; i < map->rows * map->cols; i++)
        CHECK_MSG(map->kind[i] == ATTN__CELL_VALUE && fabs(map->value[i] - expected[i]) < 1e-6,
                  "cell %zu: kind %d, %g instead of %g", i, map->kind[i], map->value[i],
                  expected[i]);
}

static void maps_are_pooled(void **state)
{
    static const double expected[3][4] = {
        {0.5, 0.2, 0.25, 1}, {0.325, 0.175, 0.125, 0.375}, {1.3, 0.7, 0.5, 1.5}};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = quad_panel();

    (void)state;
    f.panels = &p;
    f.panel_count = 1;
    for (int how = 0; how < 3; how++) {
        attn__map map;

        f.reduction = (attn_reduction)how;
        map = map_at(&f, &p, 2, 2);
        CHECK(map.rows == 2 && map.cols == 2 && map.step_rows == 2 && map.step_cols == 2);
        check_values(&map, expected[how]);
        attn__map_reset(&map);
    }
    /* A last block that is short. */
    f.reduction = ATTN_REDUCE_MEAN;
    {
        attn__map map = map_at(&f, &p, 4, 3);

        CHECK(map.rows == 4 && map.cols == 2);
        attn__map_reset(&map);
    }
}

/* A row of the page's cells is of as many rows as the page says, where that is far from even: 1025
 * rows by 64 are 17, which 61 would be too. */
static void pages_pool_as_they_say(void **state)
{
    enum { ROWS = 1025, MOST = 1 << 16 };
    static unsigned char raw[MOST];
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = ATTN_PANEL_INIT;
    attn__page_data data;
    attn__drawing d;
    attn_error err;
    arena a = {0};
    uLongf size = MOST;

    (void)state;
    p.cells = view_plain(&a, ATTN_F32, 1, 1, ROWS, ROWS);
    for (int64_t i = 0; i < ROWS * (int64_t)ROWS; i++) /* from row 62 on all is 1 */
        ((float *)p.cells.data)[i] = i / ROWS < 62 ? 1e-3f : 1;
    f.panels = &p;
    f.panel_count = 1;
    CHECK(attn__drawing_make(NULL, &f, 0, &d, &err) == ATTN_OK);
    CHECK(attn__page_data_make(&d, 0, &data, &err) == ATTN_OK);
    CHECK(data.factor == 64 && data.rows == 17 && data.cols == 17);
    CHECK(uncompress(raw, &size, (unsigned char *)data.panels[0].bytes, data.panels[0].size) ==
          Z_OK);
    CHECK(size >= 17 * 17 && raw[0] == raw[17]); /* rows 0 .. 63 reach to row 62 */
    attn__page_data_reset(&data);
    arena_reset(&a);
}

static void masked_cells_are_not_zeros(void **state)
{
    static const int32_t allowed[4][4] = {{1, 0, 0, 0}, {1, 2, 0, 0}, {1, 1, 1, 0}, {1, 1, 1, 1}};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = quad_panel();
    attn__map map;
    float odd[4][4];

    (void)state;
    p.allowed = attn_view_bhsd(allowed, ATTN_I32, 1, 1, 4, 4);
    f.panels = &p;
    f.panel_count = 1;
    map = map_at(&f, &p, 4, 4);
    for (size_t i = 0; i < 16; i++)
        CHECK(map.kind[i] == (i % 4 > i / 4 ? ATTN__CELL_MASKED : ATTN__CELL_VALUE));
    CHECK(map.has[ATTN__CELL_MASKED] && !map.has[ATTN__CELL_ODD]);
    attn__map_reset(&map);
    f.reduction = ATTN_REDUCE_MEAN; /* weighted by the pairs allowed */
    map = map_at(&f, &p, 2, 2);
    CHECK(map.kind[1] == ATTN__CELL_MASKED);
    CHECK(fabs(map.value[0] - (0.5 + 0.4 + 2 * 0.3) / 4) < 1e-6);
    CHECK(fabs(map.value[3] - 1.5 / 3) < 1e-6);
    attn__map_reset(&map);
    memcpy(odd, quad, sizeof odd);
    odd[0][0] = NAN;
    odd[3][3] = INFINITY;
    odd[0][3] = NAN; /* masked: does not show */
    p.cells.data = odd;
    map = map_at(&f, &p, 2, 2);
    CHECK(map.kind[0] == ATTN__CELL_ODD && map.kind[1] == ATTN__CELL_MASKED &&
          map.kind[3] == ATTN__CELL_ODD && map.kind[2] == ATTN__CELL_VALUE);
    attn__map_reset(&map);
}

static void dropping_the_sink_renormalises(void **state)
{
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = quad_panel();
    attn__map map;

    (void)state;
    f.panels = &p;
    f.panel_count = 1;
    f.drop_keys = 1;
    map = map_at(&f, &p, 4, 4);
    for (size_t i = 0; i < 4; i++) {
        double sum = 0;

        CHECK(map.kind[4 * i] == ATTN__CELL_DROPPED);
        for (size_t j = 1; j < 4; j++)
            sum += map.value[4 * i + j];
        CHECK(fabs(sum - 1) < 1e-12);
    }
    CHECK(fabs(map.value[1] - 0.2) < 1e-6);
    attn__map_reset(&map);
}

static void every_type_is_read(void **state)
{
    static const attn_type types[] = {ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16};
    arena a = {0};
    rng r = rng_make(1, 1);
    attn_figure f = ATTN_FIGURE_INIT;

    (void)state;
    for (size_t t = 0; t < 4; t++)
        for (int kind = 0; kind < LAYOUT_COUNT; kind++) {
            attn_view from = attn_view_bhsd(quad, ATTN_F32, 1, 1, 4, 4);
            attn_panel p = ATTN_PANEL_INIT;
            attn__map map;

            p.cells = view_copy(&a, &r, &from, types[t], (layout)kind);
            f.panels = &p;
            map = map_at(&f, &p, 4, 4);
            for (size_t i = 0; i < 16; i++)
                CHECK(fabs(map.value[i] - (double)quad[i / 4][i % 4]) < 2e-3);
            attn__map_reset(&map);
        }
    arena_reset(&a);
}

static void scales_rise_and_turn_back(void **state)
{
    arena a = {0};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = ATTN_PANEL_INIT;

    (void)state;
    p.cells = pattern_weights(&a, PATTERN_STRIPES, 64, 3);
    p.allowed = causal_mask(&a, 64);
    f.panels = &p;
    for (int colours = 0; colours <= ATTN_COLOURS_DIVERGING; colours += ATTN_COLOURS_DIVERGING)
        for (int kind = 0; kind <= ATTN_SCALE_PERCENTILE; kind++) {
            attn__scale s;
            attn__map map = map_at(&f, &p, 64, 64);
            double before = -1;

            f.scale = (attn_scale)kind;
            f.colours = (attn_colours)colours;
            if (colours && kind == ATTN_SCALE_LOG) {
                attn__map_reset(&map);
                continue;
            }
            CHECK(attn__scale_make(NULL, &f, &map, 1, &s, NULL) == ATTN_OK);
            for (int i = 0; i <= 100; i++) {
                double v = attn__scale_value(&s, i / 100.0), t = attn__scale_at(&s, v);

                CHECK_MSG(t >= before - 1e-9 && t >= 0 && t <= 1, "scale %d at %d", kind, i);
                if (kind != ATTN_SCALE_PERCENTILE)
                    CHECK_MSG(fabs(t - i / 100.0) < 1e-6, "scale %d at %d: %g", kind, i, t);
                before = t;
            }
            CHECK(attn__scale_at(&s, -1e300) == 0 && attn__scale_at(&s, 1e300) == 1);
            if (colours)
                CHECK(kind == ATTN_SCALE_PERCENTILE || fabs(attn__scale_at(&s, 0) - 0.5) < 1e-9);
            attn__scale_reset(&s);
            attn__map_reset(&map);
        }
    arena_reset(&a);
}

static void limits_are_chosen(void **state)
{
    float cells[100];
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = ATTN_PANEL_INIT;
    attn__scale s;
    attn__map map;

    (void)state;
    for (int i = 0; i < 100; i++)
        cells[i] = (float)(i + 1) / 100;
    cells[99] = 50; /* one that stands out */
    p.cells = attn_view_bhsd(cells, ATTN_F32, 1, 1, 10, 10);
    f.panels = &p;
    map = map_at(&f, &p, 10, 10);
    CHECK(attn__scale_make(NULL, &f, &map, 1, &s, NULL) == ATTN_OK);
    CHECK(s.low == 0 && s.high == 50 && !s.below && !s.above);
    f.robust = 2;
    CHECK(attn__scale_make(NULL, &f, &map, 1, &s, NULL) == ATTN_OK);
    CHECK(s.low > 0.01 && s.high < 1.1 && s.below && s.above);
    f.robust = 0;
    f.has_limits = 1;
    f.low = 0.5;
    f.high = 0.6;
    CHECK(attn__scale_make(NULL, &f, &map, 1, &s, NULL) == ATTN_OK);
    CHECK(s.low == 0.5 && s.high == 0.6 && attn__scale_at(&s, 0.55) > 0.49);
    f.has_limits = 0;
    f.scale = ATTN_SCALE_LOG;
    cells[0] = 0;
    attn__map_reset(&map);
    map = map_at(&f, &p, 10, 10);
    CHECK(attn__scale_make(NULL, &f, &map, 1, &s, NULL) == ATTN_OK);
    CHECK(fabs(s.low - 0.02) < 1e-6 && s.below && attn__scale_at(&s, 0) == 0);
    attn__map_reset(&map);
}

static void edges_hold_the_share(void **state)
{
    arena a = {0};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel p = ATTN_PANEL_INIT;
    double held[40] = {0};
    attn__edges e;

    (void)state;
    p.cells = pattern_weights(&a, PATTERN_BLOCKS, 40, 3);
    f.panels = &p;
    f.queries = f.keys = 40;
    f.query_block = f.key_block = 1;
    f.share = 0.7;
    CHECK(attn__edges_make(NULL, &f, &p, 10000, &e, NULL) == ATTN_OK);
    CHECK(e.left_out == 0 && e.count >= 40 && e.heaviest == e.at[0].weight);
    for (size_t i = 0; i < e.count; i++) {
        held[e.at[i].query] += e.at[i].weight;
        CHECK(i == 0 || e.at[i].weight <= e.at[i - 1].weight);
    }
    for (int i = 0; i < 40; i++)
        CHECK_MSG(held[i] >= 0.7 - 1e-6, "row %d: %g", i, held[i]);
    attn__edges_reset(NULL, &e);
    CHECK(attn__edges_make(NULL, &f, &p, 10, &e, NULL) == ATTN_OK);
    CHECK(e.count == 10 && e.left_out > 30 && e.at[0].weight == e.heaviest);
    attn__edges_reset(NULL, &e);
    arena_reset(&a);
}

static void nice_steps(void **state)
{
    (void)state;
    CHECK(attn__nice_step(1) == 1 && attn__nice_step(1.01) == 2 && attn__nice_step(3) == 5);
    CHECK(attn__nice_step(7) == 10 && fabs(attn__nice_step(0.03) - 0.05) < 1e-15);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"lightness_rises_steadily", lightness_rises_steadily, 0},
        {"diverging_is_lightest_in_the_middle", diverging_is_lightest_in_the_middle, 0},
        {"other_cells_are_no_value", other_cells_are_no_value, 0},
        {"text_is_cleaned", text_is_cleaned, 0},
        {"any_bytes_become_clean", any_bytes_become_clean, 0},
        {"long_tokens_are_not_read", long_tokens_are_not_read, 0},
        {"numbers_are_written", numbers_are_written, 0},
        {"base64_and_xml", base64_and_xml, 0},
        {"maps_are_pooled", maps_are_pooled, 0},
        {"pages_pool_as_they_say", pages_pool_as_they_say, 0},
        {"masked_cells_are_not_zeros", masked_cells_are_not_zeros, 0},
        {"dropping_the_sink_renormalises", dropping_the_sink_renormalises, 0},
        {"every_type_is_read", every_type_is_read, 0},
        {"scales_rise_and_turn_back", scales_rise_and_turn_back, 0},
        {"limits_are_chosen", limits_are_chosen, 0},
        {"edges_hold_the_share", edges_hold_the_share, 0},
        {"nice_steps", nice_steps, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
