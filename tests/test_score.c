/* test_score.c: BLEU and chrF: sacreBLEU's numbers, laws, mistakes, memory that fails. */
#include "include/attn/text.h"
#include "tests/expect.h"
#include "tests/io_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4 };

/* A segment, its texts in an arena. */
typedef struct segment {
    const char *text[1 + MOST];
    size_t size[1 + MOST], references;
} segment;

static attn_scorer *scorer_new(const attn_ctx *ctx)
{
    attn_scorer *s = NULL;

    CHECK(attn_scorer_create(ctx, &s, NULL) == ATTN_OK);
    return s;
}

static attn_scores add(attn_scorer *s, const segment *g)
{
    attn_scores alone = ATTN_SCORES_INIT;
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_scorer_add(s, g->text[0], g->size[0], g->text + 1, g->size + 1, g->references,
                              &alone, &err) == ATTN_OK,
              "%s", err.text);
    return alone;
}

static attn_scores total_of(const attn_scorer *s)
{
    attn_scores total = ATTN_SCORES_INIT;

    CHECK(attn_scorer_total(s, &total, NULL) == ATTN_OK);
    return total;
}

static attn_scores score_of(const char *hypothesis, const char *reference)
{
    segment g = {{hypothesis, reference}, {strlen(hypothesis), strlen(reference)}, 1};
    attn_scorer *s = scorer_new(NULL);
    attn_scores alone = add(s, &g);

    attn_scorer_destroy(s);
    return alone;
}

/* --- Golden data ---------------------------------------------------------------------------- */

static const char *field(char **at)
{
    char *start = *at, *end = start + strcspn(start, "\t\n");

    CHECK(*start != '\0');
    *at = end + (*end != '\0');
    *end = '\0';
    return start;
}

static void hex_text(arena *a, const char *hex, segment *g, size_t k)
{
    size_t n = strlen(hex) / 2;
    char *text = arena_get(a, n + 1);

    for (size_t i = 0; i < n; i++) {
        char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        text[i] = (char)strtol(two, NULL, 16);
    }
    g->text[k] = text;
    g->size[k] = n;
}

static void check_real(char **at, double got, const char *what, size_t line)
{
    double want = strtod(field(at), NULL);

    /* exp and log may differ by a unit in the last place between C libraries. */
    CHECK_MSG(fabs(got - want) <= 1e-13 * want, "line %zu: %s %.17g, not %.17g", line, what, got,
              want);
}

static void check_count(char **at, int64_t got, const char *what, size_t line)
{
    const char *want = field(at);

    CHECK_MSG(got == strtoll(want, NULL, 10), "line %zu: %s %lld, not %s", line, what,
              (long long)got, want);
}

static void check_total(attn_scorer *s, char **at, size_t line)
{
    attn_scores t = total_of(s);

    check_count(at, t.hypothesis_words, "words", line);
    check_count(at, t.reference_words, "words of references", line);
    for (size_t n = 0; n < 4; n++)
        check_count(at, t.matches[n], "matches", line);
    for (size_t n = 0; n < 4; n++)
        check_count(at, t.totals[n], "totals", line);
    check_real(at, t.bleu, "BLEU", line);
    check_real(at, t.chrf, "chrF2", line);
    check_real(at, t.chrf_words, "chrF2++", line);
}

static void scores_are_those_of_sacrebleu(void **state)
{
    arena a = {NULL};
    blob lines = blob_load(&a, "tests/golden/score.txt");
    attn_scorer *s = NULL;
    segment g = {0};
    size_t line = 1, sets = 0;
    char *at;

    (void)state;
    blob_put(&lines, "", 1);
    for (at = (char *)lines.data; *at; line++) {
        const char *first = field(&at);
        attn_scores alone;
        if (strcmp(first, "set") == 0) {
            s = scorer_new(NULL);
            g.references = (size_t)strtol(field(&at), NULL, 10);
            CHECK(g.references <= MOST);
            continue;
        }
        if (strcmp(first, "total") == 0) {
            check_total(s, &at, line);
            attn_scorer_destroy(s);
            sets++;
            continue;
        }
        hex_text(&a, first, &g, 0);
        for (size_t r = 1; r <= g.references; r++)
            hex_text(&a, field(&at), &g, r);
        alone = add(s, &g);
        check_real(&at, alone.bleu, "BLEU", line);
        check_real(&at, alone.chrf, "chrF2", line);
        check_real(&at, alone.chrf_words, "chrF2++", line);
    }
    CHECK(sets == 5 && line > 190);
    arena_reset(&a);
}

/* --- Laws ----------------------------------------------------------------------------------- */

static void equal_texts_score_100(void **state)
{
    attn_scores s = score_of("Ein Hund, der bellt.", "Ein Hund, der bellt.");

    (void)state;
    CHECK(fabs(s.bleu - 100) < 1e-12 && s.chrf == 100 && s.chrf_words == 100);
    s = score_of("abc def", "xyz uvw");
    CHECK(s.bleu == 0 && s.chrf == 0 && s.chrf_words == 0);
    s = score_of("", "xyz");
    CHECK(s.bleu == 0 && s.chrf == 0 && s.brevity == 0);
    s = score_of("", "");
    CHECK(s.bleu == 0 && s.chrf == 0 && s.brevity == 1);
}

/* The form of white space is no matter, and what is not UTF-8 is U+FFFD. */
static void white_space_and_broken_bytes(void **state)
{
    attn_scores s = score_of("a\tb\r\xe2\x80\xa8"
                             "c\x1f"
                             "d\xe3\x80\x80",
                             "a b c d");

    (void)state;
    CHECK(s.hypothesis_words == 4 && s.matches[3] == 1 && s.malformed == 0);
    s = score_of("a\xe2\x82 b\xff\xff", "a\xef\xbf\xbd b\xef\xbf\xbd\xef\xbf\xbd");
    CHECK(s.matches[1] == 1 && s.chrf == 100 && s.malformed == 1);
}

/* Order of segments, further references, and long texts before short ones change no count. */
static void counts_add_up(void **state)
{
    arena a = {NULL};
    size_t many = 200000;
    char *text = arena_get(&a, many);
    segment g[3] = {{{"the cat sat", "a cat sat", "the cat"}, {11, 9, 7}, 2},
                    {{"x y", "y x", "x"}, {3, 3, 1}, 2},
                    {{text, text, "the"}, {many, many, 3}, 2}};
    attn_scorer *s = scorer_new(NULL), *back = scorer_new(NULL);
    attn_scores x, y;

    (void)state;
    for (size_t i = 0; i < many; i++)
        text[i] = i % 7 == 6 ? ' ' : (char)('a' + (i / 7 * 31 + i * i) % 23);
    for (size_t i = 0; i < 3; i++) {
        add(s, &g[i]);
        add(back, &g[2 - i]);
    }
    x = total_of(s);
    y = total_of(back);
    CHECK(memcmp(&x, &y, sizeof x) == 0);
    CHECK(x.segments == 3 && x.matches[0] == 3 + 2 + (int64_t)(many / 7 + (many % 7 > 0)));
    attn_scorer_destroy(s);
    attn_scorer_destroy(back);
    arena_reset(&a);
}

/* --- Mistakes and memory -------------------------------------------------------------------- */

static void mistakes_add_nothing(void **state)
{
    attn_scorer *s = scorer_new(NULL);
    attn_scores x = ATTN_SCORES_INIT, wrong = {0};
    attn_error err = {ATTN_OK, 0, ""};
    const char *texts[] = {"a", NULL};
    size_t sizes[] = {1, 1};

    (void)state;
    CHECK(attn_scorer_add(s, "a", 1, texts, sizes, 2, NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(strcmp(err.text, "references[1] is NULL") == 0);
    CHECK(attn_scorer_add(s, "a", 1, texts, sizes, 0, NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_scorer_add(s, NULL, 1, texts, sizes, 1, NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_scorer_add(s, "a", (size_t)1 << 29, texts, sizes, 1, NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_scorer_add(s, "a", 1, texts, sizes, 1, &wrong, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_scorer_add(NULL, "a", 1, texts, sizes, 1, NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_scorer_total(s, &wrong, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_scorer_create(NULL, NULL, &err) == ATTN_E_ARGUMENT);
    x = total_of(s);
    CHECK(x.segments == 0 && x.bleu == 0 && x.chrf == 0);
    CHECK(attn_scorer_add(s, NULL, 0, texts, sizes, 1, NULL, &err) == ATTN_OK);
    attn_scorer_destroy(s);
    attn_scorer_destroy(NULL);
}

/* Each allocation fails once; what was added before it stays as it was. */
static void every_allocation_may_fail(void **state)
{
    segment g = {{"a cat, sat on 1.5 mats", "the cat sat"}, {22, 11}, 1};
    size_t at = 1;

    (void)state;
    for (;; at++) {
        attn_scorer *s = NULL;
        attn_error err = {ATTN_OK, 0, ""};
        attn_status st;
        meter m;
        meter_init(&m);
        m.fail_at = at;
        st = attn_scorer_create(&m.ctx, &s, &err);
        CHECK((st == ATTN_OK) == (s != NULL));
        if (st == ATTN_OK)
            st = attn_scorer_add(s, g.text[0], g.size[0], g.text + 1, g.size + 1, 1, NULL, &err);
        if (s)
            CHECK(total_of(s).segments == (st == ATTN_OK));
        attn_scorer_destroy(s);
        CHECK_MSG(m.live == 0, "%zu blocks leaked at allocation %zu", m.live, at);
        if (m.calls < at) {
            CHECK(st == ATTN_OK);
            break;
        }
        CHECK(st == ATTN_E_MEMORY && err.text[0]);
    }
    CHECK(at > 10);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"scores_are_those_of_sacrebleu", scores_are_those_of_sacrebleu, 0},
        {"equal_texts_score_100", equal_texts_score_100, 0},
        {"white_space_and_broken_bytes", white_space_and_broken_bytes, 0},
        {"counts_add_up", counts_add_up, 0},
        {"mistakes_add_nothing", mistakes_add_nothing, 0},
        {"every_allocation_may_fail", every_allocation_may_fail, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
