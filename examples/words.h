/* words.h: the part of word_memory.c that has nothing to do with attention: reading lists of words,
 * and making vectors of words so that words written alike point the same way.
 */
#ifndef ATTN_EXAMPLES_WORDS_H
#define ATTN_EXAMPLES_WORDS_H

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    dim = 256,      /* width of a vector */
    word_room = 32, /* bytes of a word with its final 0; longer ones are left out */
    line_room = 1024
};

typedef char word[word_room];

typedef struct words {
    word *item;
    size_t count, room;
} words;

typedef struct question {
    word text;
    size_t intended; /* number of the correct word, or no_word */
} question;

static const size_t no_word = SIZE_MAX;

typedef struct questions {
    question *item;
    size_t count, room;
} questions;

static void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("word_memory: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

static void *need(void *block)
{
    if (!block)
        die("out of memory");
    return block;
}

static void *new_array(size_t count, size_t size)
{
    return need(calloc(count ? count : 1, size));
}

/* --- Reading -------------------------------------------------------------------------------- */

/* Plain: a to z only, and short enough. */
static int is_plain(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    return n > 0 && n < word_room && text[n] == 0;
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(a, b);
}

static size_t find_word(const words *w, const char *text)
{
    word *hit = bsearch(text, w->item, w->count, sizeof(word), compare_words);
    return hit ? (size_t)(hit - w->item) : no_word;
}

/* One word a line; lines that are not plain words (names, "don't") are left out. */
static words read_words(FILE *file)
{
    words w = {0};
    char line[line_room];

    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!is_plain(line))
            continue;
        if (w.count == w.room) {
            w.room = w.room ? 2 * w.room : 1024;
            w.item = need(realloc(w.item, w.room * sizeof *w.item));
        }
        strcpy(w.item[w.count++], line);
    }
    if (w.count < 2)
        die("the word list holds fewer than two plain words");
    qsort(w.item, w.count, sizeof(word), compare_words);

    size_t kept = 1;
    for (size_t i = 1; i < w.count; i++)
        if (strcmp(w.item[i], w.item[kept - 1]) != 0)
            memmove(w.item[kept++], w.item[i], sizeof(word));
    w.count = kept;
    return w;
}

/* Lines "wrong->right" or "wrong->right, other, ...": the first correction counts, and only if the
 * memory holds it. */
static questions read_misspellings(FILE *file, const words *w)
{
    questions q = {0};
    char line[line_room];

    while (fgets(line, sizeof line, file)) {
        char *arrow = strstr(line, "->");
        if (!arrow)
            continue;
        *arrow = 0;
        char *right = arrow + 2;
        right[strcspn(right, ",\r\n")] = 0;
        if (!is_plain(line) || !is_plain(right))
            continue;
        size_t intended = find_word(w, right);
        if (intended == no_word)
            continue;
        if (q.count == q.room) {
            q.room = q.room ? 2 * q.room : 1024;
            q.item = need(realloc(q.item, q.room * sizeof *q.item));
        }
        strcpy(q.item[q.count].text, line);
        q.item[q.count++].intended = intended;
    }
    if (q.count == 0)
        die("the list of misspellings holds none whose correction is among the words");
    return q;
}

static FILE *open_or_die(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        die("%s: cannot be opened", path);
    return file;
}

/* --- Words as vectors ----------------------------------------------------------------------- */

/* What a word is made of: its letters, its pairs of letters up to three places apart, its triples
 * of neighbours. The ends count as a 27th letter, so that pairs and triples know first and last
 * letters. A pair weighs less the wider it is. Pairs at an end weigh more, since typists seldom get
 * first and last letters wrong. A transposed, doubled, lost or wrong letter leaves most of them in
 * place. */
enum { letters = 27, pairs_at = letters, triples_at = pairs_at + letters * letters };
enum { grams = triples_at + letters * letters * letters, grams_a_word = 6 * word_room };

static const float weight_letter = 0.5f, weight_pair[3] = {1.0f, 0.5f, 0.25f};
static const float weight_end_pair = 3.0f, weight_triple = 0.125f;

typedef struct encoder {
    float (*vector)[dim]; /* [grams] of +1 and -1, drawn once */
    float weight[grams];  /* of the word at hand; zero between words */
    int used[grams_a_word];
    size_t count;
} encoder;

/* splitmix64, Steele, Lea and Flood (2014): a hash that turns 0, 1, 2, ... into random bits. */
static uint64_t hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Random vectors of +1 and -1 are nearly at right angles, so 20,000 grams fit into 256 dimensions
 * at the price of some noise: the angle between two words is right within about 1 / 16. */
static encoder *new_encoder(void)
{
    encoder *e = new_array(1, sizeof *e);
    e->vector = new_array(grams, sizeof *e->vector);
    for (uint64_t g = 0; g < grams; g++)
        for (uint64_t i = 0; i < dim; i += 64) {
            uint64_t bits = hash(g * (dim / 64) + i / 64);
            for (uint64_t j = 0; j < 64; j++)
                e->vector[g][i + j] = (bits >> j & 1) ? 1.0f : -1.0f;
        }
    return e;
}

static void add_gram(encoder *e, int gram, float weight)
{
    if (e->weight[gram] == 0)
        e->used[e->count++] = gram;
    e->weight[gram] += weight;
}

static void scale_to_length_one(float *x)
{
    double square = 0;
    for (size_t i = 0; i < dim; i++)
        square += (double)x[i] * (double)x[i];
    float factor = square > 0 ? (float)(1 / sqrt(square)) : 0.0f;
    for (size_t i = 0; i < dim; i++)
        x[i] *= factor;
}

/* The sum of the vectors of a word's grams, each weighted by the root of its total weight (so that
 * a gram that comes twice does not count twice), at length 1. */
static void encode(encoder *e, const char *text, float *x)
{
    int c[word_room + 1] = {0}; /* edge, letters, edge */
    int n = 1;

    for (; text[n - 1]; n++)
        c[n] = text[n - 1] - 'a' + 1;
    for (int i = 1; i < n; i++)
        add_gram(e, c[i], weight_letter);
    for (int i = 0; i < n; i++)
        for (int d = 1; d <= 3 && i + d <= n; d++) {
            int at_end = d == 1 && (i == 0 || i + d == n);
            add_gram(e, pairs_at + c[i] * letters + c[i + d],
                     at_end ? weight_end_pair : weight_pair[d - 1]);
        }
    for (int i = 0; i + 2 <= n; i++)
        add_gram(e, triples_at + (c[i] * letters + c[i + 1]) * letters + c[i + 2], weight_triple);

    memset(x, 0, dim * sizeof *x);
    for (size_t g = 0; g < e->count; g++) {
        const float *vector = e->vector[e->used[g]];
        float w = sqrtf(e->weight[e->used[g]]);
        for (size_t i = 0; i < dim; i++)
            x[i] += w * vector[i];
        e->weight[e->used[g]] = 0;
    }
    e->count = 0;
    scale_to_length_one(x);
}

#endif
