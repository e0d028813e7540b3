/* speaker_show.c: what a model looked at while it said a text: maps of attention by words or
 * pieces, as pictures. */
#include <ctype.h>
#include <string.h>

#include "cli/picture.h"
#include "cli/speaker.h"

/* --- Words ---------------------------------------------------------------------------------- */

/* Pieces of a text put into groups, which are words, or one for each piece. */
typedef struct grouping {
    int64_t pieces, groups;
    int64_t *of; /* [pieces] group of each */
    attn_label *labels;
    int64_t last_ends; /* 1 if the last group is the end of the text */
} grouping;

enum { START = -1 }; /* what a decoder reads before its first token, in place of an id */

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

static attn_label copy_label(const char *text, size_t size)
{
    char *copy = cli_take(size + 1);

    memcpy(copy, text, size);
    return (attn_label){copy, size};
}

static int is_mark(const speaker *s, int32_t id)
{
    return id == START || attn_tokenizer_is_special(s->tokenizer, id);
}

/* Start and end in words, other special tokens by their spelling. */
static attn_label mark_label(const speaker *s, int32_t id)
{
    const char *text = id == START    ? "(start)"
                       : id == s->end ? "(end)"
                                      : attn_tokenizer_piece(s->tokenizer, id, NULL);

    return copy_label(text ? text : "", text ? strlen(text) : 0);
}

/* What a piece adds to the text; bytes that wait for others come with the last of them. */
static const char *piece_text(speaker *s, int32_t id, size_t *size)
{
    const char *text = "";

    *size = 0;
    if (attn_text_decode(s->decoder, &id, 1, 0, &text, size, NULL) != ATTN_OK)
        *size = 0;
    return text;
}

static void end_text(speaker *s)
{
    const char *text;
    size_t size;

    attn_text_decode(s->decoder, NULL, 0, 1, &text, &size, NULL);
}

static void group_pieces(speaker *s, const int32_t *ids, grouping *g)
{
    for (int64_t i = 0; i < g->pieces; i++) {
        size_t size = 0;
        const char *text = is_mark(s, ids[i]) ? NULL : piece_text(s, ids[i], &size);

        g->of[i] = i;
        if (text && size == 0) {
            text = attn_tokenizer_piece(s->tokenizer, ids[i], NULL);
            size = text ? strlen(text) : 0;
        }
        g->labels[i] = text ? copy_label(text, size) : mark_label(s, ids[i]);
    }
    g->groups = g->pieces;
    end_text(s);
}

/* Letters of words as they come. */
typedef struct word_maker {
    grouping *g;
    char *letters; /* of the word at hand, and of those before */
    size_t start, end;
    int inside;
    int64_t waiting; /* pieces since the last word that had no letter */
} word_maker;

static void close_word(word_maker *m)
{
    if (m->inside)
        m->g->labels[m->g->groups - 1] = (attn_label){m->letters + m->start, m->end - m->start};
    m->inside = 0;
}

/* Blanks and bytes that wait belong to the word that follows; without one, to the one before. */
static void settle(word_maker *m, int64_t piece, int64_t group)
{
    for (; m->waiting > 0; m->waiting--)
        m->g->of[piece - m->waiting] = group;
}

/* Only signs: of ASCII, of U+2010..U+205E, or guillemets; blanks aside. */
static int is_sign(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    int signs = 0;

    for (size_t k = 0; k < size;) {
        if (k + 2 < size && s[k] == 0xe2 &&
            ((s[k + 1] == 0x80 && s[k + 2] >= 0x90) || (s[k + 1] == 0x81 && s[k + 2] <= 0x9e))) {
            k += 3;
        } else if (k + 1 < size && s[k] == 0xc2 && (s[k + 1] == 0xab || s[k + 1] == 0xbb)) {
            k += 2;
        } else if (is_blank(text[k])) {
            k++;
            continue;
        } else if (s[k] < 0x80 && ispunct(s[k])) {
            k++;
        } else {
            return 0;
        }
        signs = 1;
    }
    return signs;
}

static void add_letters(word_maker *m, int64_t piece, const char *text, size_t size)
{
    int64_t group = START;

    for (size_t k = 0; k < size; k++) {
        if (is_blank(text[k])) {
            close_word(m);
            continue;
        }
        if (!m->inside) {
            m->g->groups++;
            m->start = m->end;
            m->inside = 1;
        }
        if (group == START)
            group = m->g->groups - 1;
        m->letters[m->end++] = text[k];
    }
    if (group == START) {
        m->waiting++;
        return;
    }
    settle(m, piece, group);
    m->g->of[piece] = group;
}

/* A group for pieces without letters where there is no word at all. */
static int64_t word_before(word_maker *m)
{
    close_word(m);
    if (m->g->groups == 0)
        m->g->labels[m->g->groups++] = copy_label(" ", 1);
    return m->g->groups - 1;
}

static void group_words(speaker *s, const int32_t *ids, int signs_apart, grouping *g)
{
    word_maker m = {.g = g};
    size_t room = 1;

    for (int64_t i = 0; i < g->pieces; i++) {
        size_t size = 0;
        if (!is_mark(s, ids[i]))
            piece_text(s, ids[i], &size);
        room += size;
    }
    end_text(s);
    m.letters = cli_take(room);
    for (int64_t i = 0; i < g->pieces; i++) {
        size_t size;
        const char *text;
        if (!is_mark(s, ids[i])) {
            int sign;
            text = piece_text(s, ids[i], &size);
            sign = signs_apart && is_sign(text, size);
            if (sign)
                close_word(&m);
            add_letters(&m, i, text, size);
            if (sign)
                close_word(&m);
            continue;
        }
        if (m.waiting > 0)
            settle(&m, i, word_before(&m));
        close_word(&m);
        g->of[i] = g->groups;
        g->labels[g->groups++] = mark_label(s, ids[i]);
    }
    if (m.waiting > 0)
        settle(&m, g->pieces, word_before(&m));
    close_word(&m);
    end_text(s);
}

static grouping group(speaker *s, const int32_t *ids, int64_t count, speaker_by by)
{
    grouping g = {.pieces = count};

    g.of = cli_take(((size_t)count + 1) * sizeof *g.of);
    g.labels = cli_take(((size_t)count + 1) * sizeof *g.labels);
    if (by == SPEAKER_PIECES)
        group_pieces(s, ids, &g);
    else
        group_words(s, ids, by == SPEAKER_WORDS, &g);
    g.last_ends = count > 0 && ids[count - 1] == s->end;
    return g;
}

/* --- Heads ---------------------------------------------------------------------------------- */

/* Adds the heads that one word of --heads names; 0 if there are none such. */
static int add_heads(const speaker *s, const char *word, unsigned char *chosen)
{
    int64_t layers = s->config->decoder_layers, heads = s->config->heads, layer, head = -1;
    const char *dot = strchr(word, '.');
    char first[24] = "";

    snprintf(first, sizeof first, "%.*s", dot ? (int)(dot - word) : (int)strlen(word), word);
    if (!cli_read_integer(first, &layer) || layer < 0 || layer >= layers)
        return 0;
    if (dot && (!cli_read_integer(dot + 1, &head) || head < 0 || head >= heads))
        return 0;
    for (int64_t h = 0; h < heads; h++)
        if (!dot || h == head)
            chosen[layer * heads + h] = 1;
    return 1;
}

/* Which of all heads --heads names; NULL after a message. */
static unsigned char *choose_heads(const speaker *s)
{
    size_t all = (size_t)(s->config->decoder_layers * s->config->heads);
    unsigned char *chosen = cli_take(all + 1);
    const char *at = s->o[SPEAKER_HEADS].text;

    if (!s->o[SPEAKER_HEADS].given)
        return memset(chosen, 1, all);
    for (;;) {
        size_t n = strcspn(at, ",");
        char word[48];
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : 0, at);
        if (!add_heads(s, word, chosen)) {
            cli_usage("--heads: '%.*s' is no LAYER.HEAD or LAYER; layers are 0..%lld, heads "
                      "0..%lld",
                      (int)n, at, (long long)s->config->decoder_layers - 1,
                      (long long)s->config->heads - 1);
            return NULL;
        }
        if (at[n] == '\0')
            return chosen;
        at += n + 1;
    }
}

/* --- Looking -------------------------------------------------------------------------------- */

/* Pieces that rows and columns stand for, and the raw maps. */
typedef struct raw_maps {
    const int32_t *rows, *columns;
    int64_t row_count, column_count, layers, heads;
    float *cells; /* [layers][heads][rows][columns] */
} raw_maps;

/* Row i of a decoder reads token i - 1 (a start before the first), or, without a shift, token i. */
static int32_t *what_is_read(const speaker *s, const int32_t *target, int64_t count)
{
    int32_t *read = cli_take(((size_t)count + 1) * sizeof *read);
    int shift = s->config->start != ATTN_START_NONE;

    for (int64_t i = 0; i < count; i++)
        read[i] = !shift ? target[i] : i > 0 ? target[i - 1] : START;
    return read;
}

static int64_t *starts_of(int64_t count)
{
    int64_t *starts = cli_take(2 * sizeof *starts);

    starts[1] = count;
    return starts;
}

static int look_at_all(speaker *s, const int32_t *source, int64_t source_count,
                       const int32_t *target, int64_t target_count, raw_maps *m)
{
    attn_batch batch = ATTN_BATCH_INIT;
    attn_score_args args = ATTN_SCORE_ARGS_INIT;
    attn_look *looks = cli_take((size_t)m->layers * sizeof *looks);
    int64_t plane = m->heads * m->row_count * m->column_count;
    int64_t size[] = {m->layers, m->heads, m->row_count, m->column_count};
    attn_error err = {0};
    size_t bytes;

    if (!cli_bytes(size, 4, sizeof *m->cells, &bytes) || !(m->cells = cli_try(bytes)))
        return cli_error("no memory for %lld maps of %lld x %lld weights",
                         (long long)(m->layers * m->heads), (long long)m->row_count,
                         (long long)m->column_count);
    batch.segments = 1;
    batch.target = target;
    batch.target_starts = starts_of(target_count);
    if (source) {
        batch.source = source;
        batch.source_starts = starts_of(source_count);
    }
    for (int64_t l = 0; l < m->layers; l++) {
        looks[l].decoder = 1;
        looks[l].cross = source != NULL;
        looks[l].layer = l;
        looks[l].weights = attn_view_bhsd(m->cells + l * plane, ATTN_F32, 1, m->heads, m->row_count,
                                          m->column_count);
    }
    args.batch = &batch;
    args.looks = looks;
    args.look_count = (size_t)m->layers;
    if (attn_generate_score(s->generator, &args, &err) != ATTN_OK)
        return cli_failed(NULL, err.status, &err);
    return CLI_OK;
}

/* Adds a raw map to one of groups: sums over columns, means over rows. */
static void add_map(const raw_maps *m, int64_t map, const grouping *rows, const grouping *columns,
                    const float *share, float factor, float *out)
{
    const float *cells = m->cells + map * m->row_count * m->column_count;

    for (int64_t r = 0; r < m->row_count; r++) {
        float *row = out + rows->of[r] * columns->groups;
        for (int64_t c = 0; c < m->column_count; c++)
            row[columns->of[c]] += factor * share[rows->of[r]] * cells[r * m->column_count + c];
    }
}

/* Of self-attention: row i sees columns up to i. */
static uint8_t *allowed_pairs(const raw_maps *m, const grouping *rows, const grouping *columns)
{
    uint8_t *allowed = cli_take((size_t)(rows->groups * columns->groups) + 1);

    for (int64_t r = 0; r < m->row_count; r++)
        for (int64_t c = 0; c <= r; c++) {
            uint8_t *pairs = &allowed[rows->of[r] * columns->groups + columns->of[c]];
            *pairs += *pairs < UINT8_MAX;
        }
    return allowed;
}

static void group_maps(const raw_maps *m, const unsigned char *chosen, speaker_mean mean,
                       const grouping *rows, const grouping *columns, speaker_maps *out)
{
    int64_t all = m->layers * m->heads, plane = rows->groups * columns->groups, count = 0, at = 0;
    float *share = cli_take(((size_t)rows->groups + 1) * sizeof *share), *total;

    for (int64_t i = 0; i < all; i++)
        count += chosen[i];
    if (count == 1)
        mean = SPEAKER_NO_MEAN;
    out->layer = cli_take((size_t)(count + 1) * sizeof *out->layer);
    out->head = cli_take((size_t)(count + 1) * sizeof *out->head);
    out->cells = total = cli_take((size_t)((count + 1) * plane) * sizeof *out->cells);
    for (int64_t r = 0; r < m->row_count; r++)
        share[rows->of[r]] += 1;
    for (int64_t g = 0; g < rows->groups; g++)
        share[g] = share[g] > 0 ? 1 / share[g] : 0;
    if (mean != SPEAKER_NO_MEAN) {
        out->layer[at] = out->head[at] = -1;
        at++;
    }
    for (int64_t i = 0; i < all; i++) {
        if (!chosen[i])
            continue;
        if (mean != SPEAKER_NO_MEAN)
            add_map(m, i, rows, columns, share, 1 / (float)count, total);
        if (mean == SPEAKER_ONLY_MEAN)
            continue;
        out->layer[at] = i / m->heads;
        out->head[at] = i % m->heads;
        add_map(m, i, rows, columns, share, 1, out->cells + at++ * plane);
    }
    out->count = at;
}

int speaker_look(speaker *s, const int32_t *source, int64_t source_count, const int32_t *target,
                 int64_t target_count, speaker_by by, speaker_mean mean, speaker_maps *out)
{
    raw_maps m = {.rows = target,
                  .columns = source ? source : what_is_read(s, target, target_count),
                  .row_count = target_count,
                  .column_count = source ? source_count : target_count,
                  .layers = s->config->decoder_layers,
                  .heads = s->config->heads};
    unsigned char *chosen = choose_heads(s);
    grouping rows, columns;
    int code;

    *out = (speaker_maps){0};
    if (!chosen)
        return CLI_USAGE;
    code = look_at_all(s, source, source_count, target, target_count, &m);
    if (code != CLI_OK)
        return code;
    rows = group(s, m.rows, m.row_count, by);
    columns = group(s, m.columns, m.column_count, by);
    group_maps(&m, chosen, mean, &rows, &columns, out);
    if (!source)
        out->allowed = allowed_pairs(&m, &rows, &columns);
    out->rows = rows.groups;
    out->columns = columns.groups;
    out->row_labels = rows.labels;
    out->column_labels = columns.labels;
    out->row_ends = rows.last_ends;
    out->column_ends = columns.last_ends;
    return CLI_OK;
}

/* --- Drawing -------------------------------------------------------------------------------- */

int speaker_shows_below(const speaker *s)
{
    return s->o[SPEAKER_SHOW].given && strcmp(s->o[SPEAKER_SHOW].text, "-") == 0;
}

int speaker_check_show(const speaker *s)
{
    static const int of_show[] = {SPEAKER_KIND, SPEAKER_MEAN, SPEAKER_DARK};
    static const char *const names[] = {"kind", "mean", "dark"};
    static const char *const endings[] = {".png", ".svg", ".html", ".htm", ".txt"};
    const char *ending = s->o[SPEAKER_SHOW].given ? strrchr(s->o[SPEAKER_SHOW].text, '.') : NULL;
    int known = 0;

    for (size_t i = 0; i < sizeof of_show / sizeof *of_show; i++)
        if (s->o[of_show[i]].given && !s->o[SPEAKER_SHOW].given)
            return cli_usage("--%s needs --show", names[i]);
    for (size_t i = 0; ending && i < sizeof endings / sizeof *endings; i++)
        known |= strcmp(ending, endings[i]) == 0;
    if (s->o[SPEAKER_SHOW].given && !speaker_shows_below(s) && !known)
        return cli_usage("--show %s: the ending is none of .png, .svg, .html, .txt",
                         s->o[SPEAKER_SHOW].text);
    return choose_heads(s) ? CLI_OK : CLI_USAGE;
}

static int is_page(const speaker *s)
{
    const char *ending = strrchr(s->o[SPEAKER_SHOW].text, '.');

    return ending && strncmp(ending, ".htm", 4) == 0;
}

static attn_figure_kind kind_of(const speaker *s, int64_t maps)
{
    static const attn_figure_kind kinds[] = {ATTN_FIGURE_MAP, ATTN_FIGURE_GRID, ATTN_FIGURE_LINES};

    if (s->o[SPEAKER_KIND].given)
        return kinds[s->o[SPEAKER_KIND].integer];
    return maps > 1 && !is_page(s) && !speaker_shows_below(s) ? ATTN_FIGURE_GRID : ATTN_FIGURE_MAP;
}

speaker_mean speaker_mean_of(const speaker *s)
{
    if (s->o[SPEAKER_MEAN].given || (speaker_shows_below(s) && !s->o[SPEAKER_KIND].given))
        return SPEAKER_ONLY_MEAN;
    return is_page(s) && kind_of(s, 1) == ATTN_FIGURE_MAP ? SPEAKER_MEAN_FIRST : SPEAKER_NO_MEAN;
}

/* "cat 81 %, red 12 %": the heaviest of a row, and the next ones of at least a tenth that fit. */
static attn_label reading(const speaker_maps *m, int64_t row, int64_t room)
{
    enum { MOST = 3, SIZE = 64 };
    const float *cells = m->cells + row * m->columns;
    int64_t taken[MOST];
    char *text = cli_take(MOST * SIZE);
    size_t size = 0;

    for (int k = 0; k < MOST && k < m->columns; k++) {
        char part[SIZE];
        int64_t best = -1;
        const attn_label *word;
        int n, most = 24;
        for (int64_t c = 0; c < m->columns; c++) {
            int used = 0;
            for (int i = 0; i < k; i++)
                used |= taken[i] == c;
            best = !used && (best < 0 || cells[c] > cells[best]) ? c : best;
        }
        taken[k] = best;
        word = &m->column_labels[best];
        most = word->size < 24 ? (int)word->size : most;
        while (most > 0 && most < (int)word->size && (word->text[most] & 0xc0) == 0x80)
            most--; /* whole characters */
        n = snprintf(part, SIZE, "%s%.*s %.0f %%", k ? ", " : "", most, word->text,
                     100 * (double)cells[best]);
        if (k > 0 && (cells[best] < 0.1F || (int64_t)size + n > room))
            break;
        memcpy(text + size, part, (size_t)n);
        size += (size_t)n;
    }
    return (attn_label){text, size};
}

/* Below a text: the map with a reading beside each row, or, where it is too large for the terminal,
 * the readings alone. */
static int draw_below(const speaker_maps *m, attn_figure *f)
{
    enum { LABELS = 18, READING = 22 };
    attn_label *beside = cli_take((size_t)m->rows * sizeof *beside);
    int64_t columns = cli_columns(), room = columns - LABELS - 2 * m->columns;
    int wide = room >= READING && m->rows <= 64;

    for (int64_t r = 0; r < m->rows; r++)
        beside[r] = reading(m, r, wide ? room - 2 : columns - LABELS);
    f->title = f->notes = NULL;
    f->width = LABELS + 2 * m->columns;
    if (wide)
        return cli_draw_beside(f, beside, (size_t)m->rows);
    for (int64_t r = 0; r < m->rows; r++) {
        cli_put(stdout, m->row_labels[r].text, m->row_labels[r].size);
        printf(" <- ");
        cli_put(stdout, beside[r].text, beside[r].size);
        putchar('\n');
    }
    return CLI_OK;
}

/* Which heads one map is of; nothing where there are several, which have their names. */
static const char *of_heads(const speaker *s, const speaker_maps *m)
{
    const char *heads = s->o[SPEAKER_HEADS].given ? s->o[SPEAKER_HEADS].text : "";
    const char *what = !*heads                              ? "all heads"
                       : heads[strspn(heads, "0123456789")] ? "heads "
                                                            : "the heads of layer ";
    size_t size = strlen(heads) + 80;
    char *text = cli_take(size);

    if (m->count == 1 && m->layer[0] < 0)
        snprintf(text, size, "  \xc2\xb7  mean of %s%s", what, heads);
    else if (m->count == 1)
        snprintf(text, size, "  \xc2\xb7  layer %lld, head %lld", (long long)m->layer[0],
                 (long long)m->head[0]);
    return text;
}

int speaker_draw(const speaker *s, const speaker_maps *m, const char *texts)
{
    static const char words[] = "pieces of words: rows averaged, columns added";
    const char *how =
        s->o[SPEAKER_BY].integer == SPEAKER_PIECES ? "by the model's own pieces" : words;
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel *panels = cli_take((size_t)m->count * sizeof *panels);
    int cross = s->config->stack == ATTN_STACK_ENCODER_DECODER, below = speaker_shows_below(s);
    const char *heads = of_heads(s, m);
    size_t size = strlen(texts) + strlen(heads) + 120;
    char *notes = cli_take(size);

    for (int64_t i = 0; i < m->count; i++) {
        panels[i] = (attn_panel)ATTN_PANEL_INIT;
        panels[i].layer = m->layer[i];
        panels[i].head = m->head[i];
        panels[i].name = m->layer[i] < 0 ? "mean of the heads" : NULL;
        panels[i].cells = attn_view_bhsd(m->cells + i * m->rows * m->columns, ATTN_F32, 1, 1,
                                         m->rows, m->columns);
        if (m->allowed)
            panels[i].allowed = attn_view_bhsd(m->allowed, ATTN_U8, 1, 1, m->rows, m->columns);
    }
    f.kind = kind_of(s, m->count);
    snprintf(notes, size, "%s%s  \xc2\xb7  %s", texts, heads, how);
    f.title = cross ? "What each word of the translation looked at" : "What each word looked at";
    f.notes = notes;
    f.panels = panels;
    f.panel_count = (size_t)m->count;
    f.query_tokens = m->row_labels;
    f.key_tokens = m->column_labels;
    f.query_title = cross ? "translation" : "said";
    f.key_title = cross ? "source" : "read before";
    f.dark = s->o[SPEAKER_DARK].given;
    if (below && f.kind == ATTN_FIGURE_MAP)
        return draw_below(m, &f);
    return cli_draw(&f, ATTN_PICTURE_AUTO, below ? NULL : s->o[SPEAKER_SHOW].text);
}
