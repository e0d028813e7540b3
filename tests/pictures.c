/* pictures.c: see pictures.h. */
#include "tests/pictures.h"

#include "tests/expect.h"

#include <math.h>
#include <string.h>

static double raw_weight(pattern kind, int64_t i, int64_t j, rng *r)
{
    double noise = rng_range(r, 0.5, 1.5);

    switch (kind) {
    case PATTERN_SINK:
        return j == 0 ? 60 * noise : j == i ? 4 * noise : 0.2 * noise;
    case PATTERN_PREVIOUS:
        return j == i - 1 ? 80 : j == i ? 6 * noise : 0.05 * noise;
    case PATTERN_BROAD:
        return noise;
    case PATTERN_STRIPES:
        return (i - j) % 12 == 11 ? 30 * noise : exp(-0.5 * (double)(i - j)) * 5 * noise + 0.02;
    default:
        return i / 10 == j / 10 ? 10 * noise : 0.1 * noise;
    }
}

attn_view pattern_weights(arena *a, pattern kind, int64_t n, uint64_t seed)
{
    float *w = arena_get(a, (size_t)(n * n) * sizeof *w);
    rng r = rng_make(seed, (uint64_t)kind);

    for (int64_t i = 0; i < n; i++) {
        double sum = 0;

        for (int64_t j = 0; j <= i; j++)
            sum += (double)(w[i * n + j] = (float)raw_weight(kind, i, j, &r));
        for (int64_t j = 0; j < n; j++)
            w[i * n + j] = j <= i ? (float)((double)w[i * n + j] / sum) : 0;
    }
    return attn_view_bhsd(w, ATTN_F32, 1, 1, n, n);
}

attn_view causal_mask(arena *a, int64_t n)
{
    uint8_t *m = arena_get(a, (size_t)(n * n));

    for (int64_t i = 0; i < n * n; i++)
        m[i] = i % n <= i / n;
    return attn_view_bhsd(m, ATTN_U8, 1, 1, n, n);
}

attn_label *words_of(arena *a, const char *text, int64_t *count)
{
    attn_label *labels = arena_get(a, (strlen(text) + 1) * sizeof *labels);
    int64_t n = 0;

    while (*text) {
        size_t size = 1 + strcspn(text + 1, " ");

        labels[n++] = (attn_label){text, size};
        text += size;
    }
    *count = n;
    return labels;
}

attn_label *hostile_tokens(arena *a, int64_t count)
{
#define T(text)                                                                                    \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
    static const attn_label all[] = {
        T("</script><script>alert(1)</script>"),
        T("\"><img src=x onerror=alert(1)>"),
        T("' onload='alert(1)"),
        T("-->"),
        T("]]>"),
        T("<![CDATA["),
        T("&lt;&#x3c;&amp"),
        T("javascript:alert(1)"),
        T("`${alert(1)}`"),
        T("\0null\0"),
        T("\xff\xfe\x80"),
        T("\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80"),
        T("\xe2\x80\xae"
          "desrever"),
        T("\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d"),
        T("\xd8\xa7\xd9\x84\xd8\xb3\xd9\x84\xd8\xa7\xd9\x85 12 \xd8\xb9\xd9\x84"),
        T("\x1b[31mred\x1b]52;c;AAAA\x07"),
        T("\r\n\t "),
        T("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7"),
        T("\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa\xf0\x9f\x98\x80"),
        T("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"),
        T("e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc"
          "\x81"
          "\xcc\x81\xcc\x81\xcc\x81\xcc\x81"),
        T("\xcc\x88 lone mark"),
        T("\xe2\x80\x8b\xef\xbb\xbf\xe2\x81\xa6\xf3\xa0\x80\x81"),
        T("\xef\xbf\xbf\xef\xb7\x90\xee\x80\x80"),
        T("{{constructor}}<%= 7*7 %>"),
        T("a very long token that goes on and on and never seems to come to an end"),
        T("\\u003cscript\\u003e"),
        T("%n%s%s%n"),
        T(""),
        T(" "),
        T("&"),
        T("<"),
    };
#undef T
    attn_label *labels = arena_get(a, (size_t)count * sizeof *labels);

    for (int64_t i = 0; i < count; i++)
        labels[i] = all[(size_t)i % (sizeof all / sizeof *all)];
    return labels;
}

/* --- Figures ---------------------------------------------------------------------------------- */

static const char sentence[] =
    "The animal didn't cross the street because it was too tired to walk any further today .";

static attn_panel *panels_of(arena *a, int64_t layers, int64_t heads, int64_t n)
{
    attn_panel *p = arena_get(a, (size_t)(layers * heads) * sizeof *p);
    attn_view mask = causal_mask(a, n);

    for (int64_t i = 0; i < layers * heads; i++) {
        p[i] = (attn_panel)ATTN_PANEL_INIT;
        p[i].layer = i / heads;
        p[i].head = i % heads;
        p[i].cells = pattern_weights(a, (pattern)((uint64_t)i * 7 % PATTERN_COUNT), n, (uint64_t)i);
        p[i].allowed = mask;
    }
    return p;
}

static void tokens_of(arena *a, attn_figure *f, const char *text)
{
    f->query_tokens = f->key_tokens = words_of(a, text, &f->queries);
    f->keys = f->queries;
}

static attn_figure map_of(arena *a, int64_t n, pattern kind)
{
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel *p = panels_of(a, 1, 1, n);

    p->cells = pattern_weights(a, kind, n, 1);
    f.panels = p;
    f.panel_count = 1;
    return f;
}

static attn_figure map_sentence(arena *a)
{
    attn_figure f = ATTN_FIGURE_INIT;

    tokens_of(a, &f, sentence);
    f.panels = panels_of(a, 1, 1, f.queries);
    f.panel_count = 1;
    f.title = "Layer 0, head 0";
    f.notes = "made-up weights";
    return f;
}

static attn_figure map_large(arena *a)
{
    attn_figure f = map_of(a, 1500, PATTERN_STRIPES);

    f.scale = ATTN_SCALE_LOG;
    f.title = "Stripes at a distance of eleven";
    return f;
}

static attn_figure map_drop(arena *a)
{
    attn_figure f = map_of(a, 200, PATTERN_SINK);

    f.drop_keys = 1;
    f.scale = ATTN_SCALE_SQRT;
    f.robust = 1;
    f.colours = ATTN_COLOURS_MAGMA;
    f.width = 900;
    f.height = 700;
    f.title = "Without the sink";
    return f;
}

static attn_figure map_signed(arena *a)
{
    attn_figure f = map_of(a, 40, PATTERN_BLOCKS);
    attn_panel *p = arena_get(a, sizeof *p);
    float *w = f.panels->cells.data;
    attn_view other = pattern_weights(a, PATTERN_BROAD, 40, 3);

    for (int64_t i = 0; i < 1600; i++)
        w[i] -= ((const float *)other.data)[i];
    w[5 * 40 + 2] = NAN;
    w[9 * 40 + 2] = INFINITY;
    *p = *f.panels;
    f.panels = p;
    f.colours = ATTN_COLOURS_DIVERGING;
    f.value_title = "difference of weights";
    f.title = "Blocks minus broad";
    f.dark = 1;
    return f;
}

static attn_figure map_cross(arena *a)
{
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel *p = arena_get(a, sizeof *p);
    float *w;

    f.query_tokens = words_of(a,
                              "Das Tier \xc3\xbc"
                              "berquerte die Stra\xc3\x9f"
                              "e nicht .",
                              &f.queries);
    f.key_tokens = words_of(a, "The animal didn't cross the street .", &f.keys);
    w = arena_get(a, (size_t)(f.queries * f.keys) * sizeof *w);
    for (int64_t i = 0; i < f.queries * f.keys; i++) {
        int64_t apart = i / f.keys - i % f.keys;

        w[i] = (float)(0.8 * exp(-1.5 * (double)(apart * apart)) + 0.01);
    }
    *p = (attn_panel)ATTN_PANEL_INIT;
    p->cells = attn_view_bhsd(w, ATTN_F32, 1, 1, f.queries, f.keys);
    f.panels = p;
    f.panel_count = 1;
    f.query_title = "German";
    f.key_title = "English";
    f.title = "Cross attention";
    f.colours = ATTN_COLOURS_CIVIDIS;
    f.scale = ATTN_SCALE_PERCENTILE;
    return f;
}

static attn_figure map_hostile(arena *a)
{
    attn_figure f = map_of(a, 32, PATTERN_STRIPES);

    f.query_tokens = f.key_tokens = hostile_tokens(a, 32);
    f.title = "</title><script>alert(1)</script> \xe2\x80\xae \"'& \x01";
    f.notes = "]]> --> \x1b[0m <b>";
    f.colours = ATTN_COLOURS_GREY;
    return f;
}

static attn_figure grid_model(arena *a)
{
    attn_figure f = ATTN_FIGURE_INIT;

    f.kind = ATTN_FIGURE_GRID;
    f.panels = panels_of(a, 6, 8, 96);
    f.panel_count = 48;
    f.scale = ATTN_SCALE_SQRT;
    f.title = "All heads";
    return f;
}

attn_figure picture_model(arena *a)
{
    attn_figure f = ATTN_FIGURE_INIT;

    f.kind = ATTN_FIGURE_GRID;
    f.panels = panels_of(a, 12, 12, 512);
    f.panel_count = 144;
    f.scale = ATTN_SCALE_LOG;
    f.title = "A model of 12 layers and 12 heads";
    return f;
}

static attn_figure lines_heads(arena *a)
{
    attn_figure f = ATTN_FIGURE_INIT;

    tokens_of(a, &f, sentence);
    f.kind = ATTN_FIGURE_LINES;
    f.panels = panels_of(a, 1, 3, f.queries);
    f.panel_count = 3;
    f.title = "Three heads";
    return f;
}

static attn_figure curves_entropy(arena *a)
{
    attn_figure f = ATTN_FIGURE_INIT;
    attn_series *s = arena_get(a, 12 * sizeof *s);
    char *names = arena_get(a, 12 * 16);

    for (size_t h = 0; h < 12; h++) {
        double *y = arena_get(a, 12 * sizeof *y);

        for (size_t l = 0; l < 12; l++)
            y[l] = 3 + 2 * sin((double)(l * (h + 2)) / 9) - 0.1 * (double)h;
        snprintf(names + 16 * h, 16, "head %zu", h);
        s[h] = (attn_series){names + 16 * h, NULL, y, 12};
    }
    f.kind = ATTN_FIGURE_CURVES;
    f.series = s;
    f.series_count = 12;
    f.key_title = "layer";
    f.value_title = "entropy, nats";
    f.title = "Entropy by layer and head";
    return f;
}

static attn_figure curves_loss(arena *a)
{
    attn_figure f = ATTN_FIGURE_INIT;
    attn_series *s = arena_get(a, 2 * sizeof *s);
    rng r = rng_make(5, 5);

    for (size_t k = 0; k < 2; k++) {
        size_t n = k == 0 ? 2000 : 20;
        double *x = arena_get(a, n * sizeof *x), *y = arena_get(a, n * sizeof *y);

        for (size_t i = 0; i < n; i++) {
            x[i] = (double)((i + 1) * (k == 0 ? 10 : 1000));
            y[i] = 1.5 + 8 * pow(x[i], -0.3) + (k == 0 ? 0.1 * rng_bell(&r) : 0.1);
        }
        s[k] = (attn_series){k == 0 ? "training" : "validation", x, y, n};
    }
    f.kind = ATTN_FIGURE_CURVES;
    f.series = s;
    f.series_count = 2;
    f.key_title = "step";
    f.value_title = "loss";
    f.log_x = 1;
    f.title = "Loss";
    return f;
}

static attn_figure overlay_patches(arena *a)
{
    enum { SIDE = 224, GRID = 14 };
    attn_figure f = ATTN_FIGURE_INIT;
    attn_image *m = arena_get(a, sizeof *m);
    attn_panel *p = arena_get(a, sizeof *p);
    float *w = arena_get(a, GRID * GRID * sizeof *w);
    uint8_t *rgba = arena_get(a, 4 * SIDE * SIDE);

    /* A disc before a sky over a field. */
    for (int i = 0; i < SIDE * SIDE; i++) {
        int x = i % SIDE, y = i / SIDE, dx = x - 140, dy = y - 90;
        int disc = dx * dx + dy * dy < 45 * 45;

        rgba[4 * i] = (uint8_t)(disc ? 230 : y < 150 ? 90 + y / 3 : 60 + (x * 7 % 40));
        rgba[4 * i + 1] = (uint8_t)(disc      ? 120 + y / 2
                                    : y < 150 ? 150 + y / 3
                                              : 120 + (y * 5 % 30));
        rgba[4 * i + 2] = (uint8_t)(disc ? 40 : y < 150 ? 235 : 50);
        rgba[4 * i + 3] = 255;
    }
    for (int i = 0; i < GRID * GRID; i++) {
        double dx = i % GRID * 16 + 8 - 140, dy = i / GRID * 16 + 8 - 90;

        w[i] = (float)(0.03 * exp(-(dx * dx + dy * dy) / 2500));
    }
    *m = (attn_image){rgba, SIDE, SIDE, 0};
    *p = (attn_panel)ATTN_PANEL_INIT;
    p->cells = attn_view_bhsd(w, ATTN_F32, 1, 1, GRID, GRID);
    f.kind = ATTN_FIGURE_OVERLAY;
    f.image = m;
    f.panels = p;
    f.panel_count = 1;
    f.title = "What the class token looks at";
    return f;
}

static attn_figure map_pooled(arena *a)
{
    enum { N = 4096, BLOCK = 32, CELLS = N / BLOCK, K = 4 };
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel *p = arena_get(a, sizeof *p);
    attn_view full = pattern_weights(a, PATTERN_STRIPES, N, 9);
    const float *w = full.data;
    float *max = arena_get(a, CELLS * CELLS * sizeof *max),
          *top = arena_get(a, N * K * sizeof *top);
    int32_t *pairs = arena_get(a, CELLS * CELLS * sizeof *pairs);
    int32_t *keys = arena_get(a, N * K * sizeof *keys);
    int64_t *rows = arena_get(a, 2 * sizeof *rows);

    memset(max, 0, CELLS * CELLS * sizeof *max);
    memset(pairs, 0, CELLS * CELLS * sizeof *pairs);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j <= i; j++) {
            int64_t at = i / BLOCK * CELLS + j / BLOCK;

            pairs[at]++;
            max[at] = w[i * N + j] > max[at] ? w[i * N + j] : max[at];
        }
        for (int64_t k = 0; k < K; k++) { /* stripes: at distances 0, 11, 23, ... */
            int64_t key = k == 0 ? i : i - 12 * k + 1;

            keys[i * K + k] = (int32_t)(key >= 0 ? key : -1);
            top[i * K + k] = key >= 0 ? w[i * N + key] : 0;
        }
    }
    rows[0] = 1000;
    rows[1] = N - 1;
    *p = (attn_panel)ATTN_PANEL_INIT;
    p->cells = attn_view_bhsd(max, ATTN_F32, 1, 1, CELLS, CELLS);
    p->allowed = attn_view_bhsd(pairs, ATTN_I32, 1, 1, CELLS, CELLS);
    p->rows = attn_view_bhsd(w + 1000 * N, ATTN_F32, 1, 1, 2, N);
    p->rows.stride[2] = (N - 1 - 1000) * N;
    p->row_index = rows;
    p->top_keys = attn_view_bhsd(keys, ATTN_I32, 1, 1, N, K);
    p->top_weights = attn_view_bhsd(top, ATTN_F32, 1, 1, N, K);
    f.panels = p;
    f.panel_count = 1;
    f.query_block = f.key_block = BLOCK;
    f.queries = f.keys = N;
    f.scale = ATTN_SCALE_LOG;
    f.title = "Pooled by the caller";
    return f;
}

picture picture_at(arena *a, size_t i)
{
    static const struct {
        const char *name;
        attn_figure (*make)(arena *a);
    } all[] = {
        {"map_sentence", map_sentence}, {"map_large", map_large},
        {"map_drop", map_drop},         {"map_signed", map_signed},
        {"map_cross", map_cross},       {"map_hostile", map_hostile},
        {"map_pooled", map_pooled},     {"grid_model", grid_model},
        {"lines_heads", lines_heads},   {"curves_entropy", curves_entropy},
        {"curves_loss", curves_loss},   {"overlay_patches", overlay_patches},
    };
    picture p = {NULL, ATTN_FIGURE_INIT};

    if (i < sizeof all / sizeof *all) {
        p.name = all[i].name;
        p.figure = all[i].make(a);
    }
    return p;
}

typedef struct taker {
    arena *a;
    picture_bytes got;
} taker;

static int take(void *user, const void *bytes, size_t size)
{
    taker *t = user;
    char *grown = arena_get(t->a, t->got.size + size + 1);

    memcpy(grown, t->got.data, t->got.size);
    memcpy(grown + t->got.size, bytes, size);
    t->got.data = grown;
    t->got.size += size;
    grown[t->got.size] = '\0';
    return 0;
}

picture_bytes picture_emit(arena *a, const attn_figure *figure, attn_picture format)
{
    static char none[1] = "";
    attn_error err = {ATTN_OK, 0, ""};
    taker t = {a, {none, 0}};

    CHECK_MSG(attn_figure_emit(NULL, figure, format, take, &t, &err) == ATTN_OK, "%s", err.text);
    return t.got;
}

int picture_is_utf8(const picture_bytes *b)
{
    const unsigned char *p = (const unsigned char *)b->data, *end = p + b->size;

    while (p < end) {
        int more = *p < 0x80                 ? 0
                   : *p >= 0xc2 && *p < 0xe0 ? 1
                   : *p >= 0xe0 && *p < 0xf0 ? 2
                   : *p >= 0xf0 && *p < 0xf5 ? 3
                                             : -1;

        if (more < 0 || (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f))
            return 0;
        for (p++; more > 0; more--, p++)
            if ((*p & 0xc0) != 0x80)
                return 0;
    }
    return 1;
}
