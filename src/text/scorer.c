/* scorer.c: BLEU and chrF: n-grams counted exactly, then the formulas.
 *
 * Symbols (words or characters) of a segment's texts stand one after the other, the hypothesis
 * first. Only its n-grams can match, so only they get numbers: an n-gram's number comes from the
 * pair (number of its first n - 1 symbols, last symbol). A text keeps the number of the n-gram that
 * starts at each place, NONE where the hypothesis has no such one, and each order follows from the
 * one before. */
#include "src/text/scorer.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/text/unicode.h"
#include "include/attn/text.h"

#include <math.h>
#include <string.h>

enum {
    WORD_ORDERS = 4,      /* BLEU */
    CHARACTER_ORDERS = 6, /* chrF */
    PLAIN_ORDERS = 2,     /* chrF++: words, after the characters */
    CHRF_ORDERS = CHARACTER_ORDERS + PLAIN_ORDERS,
    MAX_REFERENCES = 4096,
    MAX_SIZE = 1 << 28
};

/* Counts of one order. */
typedef struct order_counts {
    int64_t hypothesis, reference, matches;
} order_counts;

typedef struct counts {
    int64_t words, reference_words;
    int64_t totals[WORD_ORDERS], matches[WORD_ORDERS];
    order_counts chrf[CHARACTER_ORDERS]; /* of the reference best by characters */
    order_counts both[CHRF_ORDERS];      /* of the one best by characters and words */
} counts;

struct attn_scorer {
    const attn_ctx *ctx;
    int64_t segments, malformed;
    counts sum;
    attn__segment text;
    attn__strings known;  /* words of the hypothesis */
    attn__table grams;    /* n-grams of the hypothesis, of the order at hand */
    attn__buffer symbols; /* uint32_t, all texts */
    attn__buffer numbers; /* uint32_t, of the n-gram that starts there */
    attn__buffer ends;    /* size_t, of each text in `symbols` */
    attn__buffer tallies; /* uint32_t [3][n-grams]: in the hypothesis, in a reference, in any */
    attn__buffer chrf;    /* order_counts [references][CHRF_ORDERS] */
};

/* --- Symbols -------------------------------------------------------------------------------- */

typedef enum symbol_kind { WORDS, PLAIN_WORDS, CHARACTERS } symbol_kind;

static bool put_symbol(attn_scorer *s, uint32_t symbol)
{
    return attn__buffer_put(&s->symbols, &symbol, sizeof symbol);
}

static bool put_characters(attn_scorer *s)
{
    const unsigned char *text = s->text.clean.data;
    size_t size = s->text.clean.size;

    for (size_t at = 0; at < size;) {
        uint32_t code = 0;
        at += attn__utf8_get(text + at, size - at, &code);
        if (code != ' ' && code != '\n' && !put_symbol(s, code))
            return false;
    }
    return true;
}

/* Words that the hypothesis does not have are all the same here. */
static bool put_words(attn_scorer *s, bool hypothesis)
{
    const char *text = s->text.words.data;
    size_t size = s->text.words.size, n;

    for (size_t at = 0; at < size; at += n + 1) {
        uint32_t number;
        bool added;
        for (n = 0; at + n < size && text[at + n] != ' ';)
            n++;
        if (n == 0)
            continue;
        number = hypothesis ? attn__strings_add(&s->known, text + at, n, &added)
                            : attn__strings_find(&s->known, text + at, n);
        if ((hypothesis && number == ATTN__NONE) || !put_symbol(s, number))
            return false;
    }
    return true;
}

/* An empty table, as large as the next text may need, not as the largest so far. */
static void forget_words(attn__strings *known)
{
    size_t count = attn__strings_count(known);

    if (known->slot_count > 4096 && known->slot_count > 16 * count)
        attn__strings_free(known);
    attn__strings_clear(known);
}

static void forget_grams(attn__table *grams)
{
    if (grams->room > 4096 && grams->room > 16 * grams->count)
        attn__table_free(grams);
    for (size_t i = 0; i < grams->room; i++)
        grams->entries[i].value = ATTN__NONE;
    grams->count = 0;
}

/* Symbols of a text, after those of the texts before it. */
static bool take_text(attn_scorer *s, symbol_kind kind, const char *text, size_t size,
                      bool hypothesis)
{
    size_t end;

    if (!attn__segment_clean(&s->text, text, size))
        return false;
    if (kind == CHARACTERS && !put_characters(s))
        return false;
    if (kind == WORDS && !(attn__segment_words(&s->text) && put_words(s, hypothesis)))
        return false;
    if (kind == PLAIN_WORDS && !(attn__segment_plain_words(&s->text) && put_words(s, hypothesis)))
        return false;
    end = s->symbols.size / sizeof(uint32_t);
    return attn__buffer_put(&s->ends, &end, sizeof end);
}

/* --- n-grams -------------------------------------------------------------------------------- */

/* One segment as a caller gave it. */
typedef struct segment_texts {
    const char *hypothesis;
    size_t size;
    const char *const *references;
    const size_t *sizes;
    size_t count;
} segment_texts;

static size_t end_of(const attn_scorer *s, size_t text)
{
    return ((const size_t *)s->ends.data)[text];
}

static size_t start_of(const attn_scorer *s, size_t text)
{
    return text ? end_of(s, text - 1) : 0;
}

/* n-grams of order n in that many symbols. */
static size_t gram_count(size_t symbols, size_t n)
{
    return symbols < n ? 0 : symbols - n + 1;
}

static bool take_symbols(attn_scorer *s, symbol_kind kind, const segment_texts *t)
{
    size_t bytes;

    forget_words(&s->known);
    s->symbols.size = s->ends.size = s->numbers.size = s->tallies.size = 0;
    if (!take_text(s, kind, t->hypothesis, t->size, true))
        return false;
    for (size_t r = 0; r < t->count; r++)
        if (!take_text(s, kind, t->references[r], t->sizes[r], false))
            return false;
    bytes = end_of(s, 0) * sizeof(uint32_t);
    if (!attn__buffer_room(&s->numbers, s->symbols.size) ||
        !attn__buffer_room(&s->tallies, 3 * bytes))
        return false;
    memset(s->numbers.data, 0, s->symbols.size); /* of order 0 there is one */
    return true;
}

static uint64_t gram_key(uint32_t start, uint32_t symbol)
{
    return (uint64_t)start << 32 | symbol;
}

/* Numbers the hypothesis's n-grams of order n and tallies them; *distinct: how many. */
static bool number_grams(attn_scorer *s, size_t n, size_t *distinct)
{
    const uint32_t *symbols = s->symbols.data;
    uint32_t *numbers = s->numbers.data, *tally = s->tallies.data;

    forget_grams(&s->grams);
    *distinct = 0;
    for (size_t i = 0; i < gram_count(end_of(s, 0), n); i++) {
        uint32_t *number = attn__table_at(&s->grams, gram_key(numbers[i], symbols[i + n - 1]));
        if (!number)
            return false;
        if (*number == ATTN__NONE) {
            *number = (uint32_t)*distinct;
            tally[(*distinct)++] = 0;
        }
        numbers[i] = *number;
        tally[numbers[i]]++;
    }
    return true;
}

/* Tallies text r's n-grams that the hypothesis has; how many match. */
static int64_t match_grams(attn_scorer *s, size_t text, size_t n, size_t distinct)
{
    const uint32_t *symbols = s->symbols.data, *tally = s->tallies.data;
    uint32_t *numbers = s->numbers.data;
    uint32_t *here = (uint32_t *)s->tallies.data + end_of(s, 0), *most = here + end_of(s, 0);
    size_t start = start_of(s, text), end = start + gram_count(end_of(s, text) - start, n);
    int64_t matches = 0;

    memset(here, 0, distinct * sizeof *here);
    for (size_t i = start; i < end; i++) {
        if (numbers[i] != ATTN__NONE)
            numbers[i] = attn__table_get(&s->grams, gram_key(numbers[i], symbols[i + n - 1]));
        if (numbers[i] != ATTN__NONE)
            here[numbers[i]]++;
    }
    for (size_t g = 0; g < distinct; g++) {
        matches += here[g] < tally[g] ? here[g] : tally[g];
        most[g] = text == 1 || here[g] > most[g] ? here[g] : most[g];
    }
    return matches;
}

/* The reference length nearest to the hypothesis's, of two the shorter. */
static size_t nearest_length(const attn_scorer *s, size_t references)
{
    size_t length = end_of(s, 0), best = 0, best_gap = SIZE_MAX;

    for (size_t r = 1; r <= references; r++) {
        size_t l = end_of(s, r) - start_of(s, r), gap = l < length ? length - l : l - length;
        if (gap < best_gap || (gap == best_gap && l < best)) {
            best = l;
            best_gap = gap;
        }
    }
    return best;
}

static bool count_words(attn_scorer *s, const segment_texts *t, counts *c)
{
    const uint32_t *tally, *most;
    size_t distinct;

    if (!take_symbols(s, WORDS, t))
        return false;
    c->words = (int64_t)end_of(s, 0);
    c->reference_words = (int64_t)nearest_length(s, t->count);
    tally = s->tallies.data;
    most = tally + 2 * end_of(s, 0);
    for (size_t n = 1; n <= WORD_ORDERS; n++) {
        if (!number_grams(s, n, &distinct))
            return false;
        for (size_t r = 1; r <= t->count; r++)
            match_grams(s, r, n, distinct);
        c->totals[n - 1] = (int64_t)gram_count(end_of(s, 0), n);
        for (size_t g = 0; g < distinct; g++)
            c->matches[n - 1] += most[g] < tally[g] ? most[g] : tally[g];
    }
    return true;
}

/* Counts of `orders` orders for each reference, from place `first` of its row on. */
static bool count_rows(attn_scorer *s, const segment_texts *t, symbol_kind kind, size_t first,
                       size_t orders)
{
    order_counts *rows = s->chrf.data;
    size_t distinct;

    if (!take_symbols(s, kind, t))
        return false;
    for (size_t n = 1; n <= orders; n++) {
        if (!number_grams(s, n, &distinct))
            return false;
        for (size_t r = 0; r < t->count; r++) {
            order_counts *o = &rows[r * CHRF_ORDERS + first + n - 1];
            size_t length = end_of(s, r + 1) - start_of(s, r + 1);
            o->reference = (int64_t)gram_count(length, n);
            o->hypothesis = o->reference ? (int64_t)gram_count(end_of(s, 0), n) : 0;
            o->matches = match_grams(s, r + 1, n, distinct);
        }
    }
    return true;
}

/* --- Formulas ------------------------------------------------------------------------------- */

/* 0..100. The steps are those of sacreBLEU one by one, so that the last bit is the same too. */
static double chrf(const order_counts *o, size_t orders)
{
    double precision = 0, recall = 0, used = 0;

    for (size_t n = 0; n < orders; n++)
        if (o[n].hypothesis > 0 && o[n].reference > 0) {
            precision += (double)o[n].matches / (double)o[n].hypothesis;
            recall += (double)o[n].matches / (double)o[n].reference;
            used += 1;
        }
    if (used > 0) {
        precision /= used;
        recall /= used;
    }
    if (precision + recall == 0)
        return 0;
    return 100 * (5 * precision * recall / (4 * precision + recall));
}

/* Adds the row of the reference with the best score, the first of equal ones. */
static void take_best(const order_counts *rows, size_t references, size_t orders, order_counts *out)
{
    const order_counts *best = rows;
    double best_score = -1;

    for (size_t r = 0; r < references; r++) {
        double score = chrf(rows + r * CHRF_ORDERS, orders);
        if (score > best_score) {
            best_score = score;
            best = rows + r * CHRF_ORDERS;
        }
    }
    memcpy(out, best, orders * sizeof *out);
}

static double bleu(const counts *c, int effective, double *precisions, double *brevity)
{
    double halvings = 1, sum = 0;
    int orders = effective ? 0 : WORD_ORDERS;

    *brevity = 1;
    if (c->words < c->reference_words)
        *brevity = c->words ? exp(1 - (double)c->reference_words / (double)c->words) : 0;
    /* With no word in common there is nothing to smooth. */
    if (c->matches[0] == 0)
        return 0;
    for (int n = 0; n < WORD_ORDERS && c->totals[n] > 0; n++) {
        if (effective)
            orders = n + 1;
        if (c->matches[n] == 0)
            halvings *= 2;
        precisions[n] = c->matches[n] ? 100. * (double)c->matches[n] / (double)c->totals[n]
                                      : 100. / (halvings * (double)c->totals[n]);
    }
    for (int n = 0; n < orders; n++) {
        if (precisions[n] == 0)
            return 0;
        sum += log(precisions[n]);
    }
    return *brevity * exp(sum / orders);
}

static void give(const counts *c, int effective, attn_scores *out)
{
    memset(out->precisions, 0, sizeof out->precisions);
    out->bleu = bleu(c, effective, out->precisions, &out->brevity);
    out->chrf = chrf(c->chrf, CHARACTER_ORDERS);
    out->chrf_words = chrf(c->both, CHRF_ORDERS);
    out->hypothesis_words = c->words;
    out->reference_words = c->reference_words;
    memcpy(out->matches, c->matches, sizeof out->matches);
    memcpy(out->totals, c->totals, sizeof out->totals);
}

/* --- Scorers -------------------------------------------------------------------------------- */

attn_status attn_scorer_create(const attn_ctx *ctx, attn_scorer **out, attn_error *err)
{
    attn_scorer *s;

    if (!out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "out is NULL");
    *out = s = attn__new(ctx, sizeof *s);
    if (!s)
        return attn__fail(err, ATTN_E_MEMORY, 0, "scorer");
    s->ctx = s->grams.ctx = ctx;
    s->text.clean.ctx = s->text.words.ctx = s->text.spare.ctx = ctx;
    s->symbols.ctx = s->numbers.ctx = s->ends.ctx = s->tallies.ctx = s->chrf.ctx = ctx;
    attn__strings_init(&s->known, ctx);
    return ATTN_OK;
}

void attn_scorer_destroy(attn_scorer *s)
{
    if (!s)
        return;
    attn__buffer_free(&s->text.clean);
    attn__buffer_free(&s->text.words);
    attn__buffer_free(&s->text.spare);
    attn__strings_free(&s->known);
    attn__table_free(&s->grams);
    attn__buffer_free(&s->symbols);
    attn__buffer_free(&s->numbers);
    attn__buffer_free(&s->ends);
    attn__buffer_free(&s->tallies);
    attn__buffer_free(&s->chrf);
    attn__free(s->ctx, s);
}

static attn_status check_segment(const attn_scorer *s, const segment_texts *t,
                                 const attn_scores *alone, attn_error *err)
{
    if (!s)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "scorer is NULL");
    if (alone && alone->struct_size != sizeof *alone)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "alone: struct_size is %zu, expected %zu",
                          alone->struct_size, sizeof *alone);
    if (!t->hypothesis && t->size)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "hypothesis is NULL");
    if (t->count < 1 || t->count > MAX_REFERENCES || !t->references || !t->sizes)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%zu references, expected 1 to %d", t->count,
                          MAX_REFERENCES);
    if (t->size > MAX_SIZE)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "hypothesis: %zu bytes, expected at most %d",
                          t->size, MAX_SIZE);
    for (size_t r = 0; r < t->count; r++) {
        if (!t->references[r] && t->sizes[r])
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "references[%zu] is NULL", r);
        if (t->sizes[r] > MAX_SIZE)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "references[%zu]: %zu bytes, expected at most %d", r, t->sizes[r],
                              MAX_SIZE);
    }
    return ATTN_OK;
}

static void add_orders(order_counts *sum, const order_counts *o, size_t orders)
{
    for (size_t n = 0; n < orders; n++) {
        sum[n].hypothesis += o[n].hypothesis;
        sum[n].reference += o[n].reference;
        sum[n].matches += o[n].matches;
    }
}

static void add_counts(counts *sum, const counts *c)
{
    sum->words += c->words;
    sum->reference_words += c->reference_words;
    for (size_t n = 0; n < WORD_ORDERS; n++) {
        sum->totals[n] += c->totals[n];
        sum->matches[n] += c->matches[n];
    }
    add_orders(sum->chrf, c->chrf, CHARACTER_ORDERS);
    add_orders(sum->both, c->both, CHRF_ORDERS);
}

attn_status attn_scorer_add(attn_scorer *s, const char *hypothesis, size_t size,
                            const char *const *references, const size_t *reference_sizes,
                            size_t reference_count, attn_scores *alone, attn_error *err)
{
    segment_texts t = {hypothesis, size, references, reference_sizes, reference_count};
    counts c = {0};

    TRY(check_segment(s, &t, alone, err));
    s->text.malformed = false;
    if (!attn__buffer_room(&s->chrf, t.count * CHRF_ORDERS * sizeof(order_counts)) ||
        !count_words(s, &t, &c) || !count_rows(s, &t, CHARACTERS, 0, CHARACTER_ORDERS) ||
        !count_rows(s, &t, PLAIN_WORDS, CHARACTER_ORDERS, PLAIN_ORDERS))
        return attn__fail(err, ATTN_E_MEMORY, 0, "segment");
    take_best(s->chrf.data, t.count, CHARACTER_ORDERS, c.chrf);
    take_best(s->chrf.data, t.count, CHRF_ORDERS, c.both);
    s->segments++;
    s->malformed += s->text.malformed;
    add_counts(&s->sum, &c);
    if (alone) {
        alone->segments = 1;
        alone->malformed = s->text.malformed;
        give(&c, 1, alone);
    }
    return ATTN_OK;
}

attn_status attn_scorer_total(const attn_scorer *s, attn_scores *out, attn_error *err)
{
    if (!s || !out || out->struct_size != sizeof *out)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s",
                          !s ? "scorer is NULL" : "out: NULL, or not ATTN_SCORES_INIT");
    out->segments = s->segments;
    out->malformed = s->malformed;
    give(&s->sum, 0, out);
    return ATTN_OK;
}
