/* word_memory.c: attention as a memory that is asked by content.
 *
 * Keys are the words of a dictionary, values their numbers in binary, queries real misspellings.
 * One attn_forward call answers all of them: every output row is the average of all values,
 * weighted by softmax(scale * similarity), and its signs spell the number of a word. There is no
 * search, no index, no training and no list of usual mistakes; nothing but O = softmax(scale * Q
 * K^T) V.
 *
 *     word_memory                      the whole study, on Debian's dictionaries if they are there
 *     word_memory recieve definately   also answers these words
 *     word_memory --all                every scale over every misspelling, not over a sample
 *     word_memory --words FILE --misspellings FILE --kernel scalar|avx2|avx512|neon
 *
 * Left out on purpose: anything that knows about spelling beyond "which letters stand near which".
 */
#define _POSIX_C_SOURCE 200809L

#include "peak.h"
#include "words.h"

#include <attn/attn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Debian packages wamerican and codespell; `make words` installs both. */
#define DEBIAN_WORDS "/usr/share/dict/american-english"
#define DEBIAN_MISSPELLINGS "/usr/lib/python3/dist-packages/codespell_lib/data/dictionary.txt"

enum {
    sample = 2000, /* misspellings asked per row of the table, unless --all */
    shown = 12,    /* misspellings shown one by one */
    heaviest = 3,  /* keys shown for each */
};

/* The memory: what attention gets to see of the dictionary. */
typedef struct memory {
    words words;
    size_t bits;   /* width of a value */
    float *keys;   /* [count][dim], centred, length 1 */
    float *values; /* [count][bits], +1 and -1 */
    float mean[dim];
} memory;

/* Answers to n questions at one scale. */
typedef struct answers {
    float *out; /* [n][bits] */
    float *lse; /* [n] */
    double seconds;
} answers;

/* Removes what all words have in common, which tells none from another. */
static void centre(float *x, const float *mean)
{
    for (size_t i = 0; i < dim; i++)
        x[i] -= mean[i];
    scale_to_length_one(x);
}

static void build_memory(memory *m, encoder *e)
{
    size_t n = m->words.count;
    double sum[dim] = {0};

    for (m->bits = 1; (n - 1) >> m->bits; m->bits++)
        ;
    m->keys = new_array(n * dim, sizeof *m->keys);
    m->values = new_array(n * m->bits, sizeof *m->values);
    for (size_t j = 0; j < n; j++) {
        float *key = m->keys + j * dim;
        encode(e, m->words.item[j], key);
        for (size_t i = 0; i < dim; i++)
            sum[i] += (double)key[i];
        for (size_t bit = 0; bit < m->bits; bit++) /* most significant first, as we write numbers */
            m->values[j * m->bits + bit] = (j >> (m->bits - 1 - bit) & 1) ? 1.0f : -1.0f;
    }
    for (size_t i = 0; i < dim; i++)
        m->mean[i] = (float)(sum[i] / (double)n);
    for (size_t j = 0; j < n; j++)
        centre(m->keys + j * dim, m->mean);
}

static float *encode_questions(const memory *m, encoder *e, const question *q, size_t n)
{
    float *x = new_array(n * dim, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        encode(e, q[i].text, x + i * dim);
        centre(x + i * dim, m->mean);
    }
    return x;
}

/* --- Attention ------------------------------------------------------------------------------ */

/* The one call. `step` asks every step-th question: a stride, no copy. */
static void ask(const attn_ctx *ctx, const memory *m, float *queries, size_t n, size_t step,
                double scale, answers *a, float *weights)
{
    int64_t rows = (int64_t)n, keys = (int64_t)m->words.count, bits = (int64_t)m->bits;
    attn_forward_args args = ATTN_FORWARD_ARGS_INIT;
    attn_error err;

    args.q = attn_view_bhsd(queries, ATTN_F32, 1, 1, rows, dim);
    args.q.stride[2] *= (int64_t)step;
    args.k = attn_view_bhsd(m->keys, ATTN_F32, 1, 1, keys, dim);
    args.v = attn_view_bhsd(m->values, ATTN_F32, 1, 1, keys, bits);
    args.out = attn_view_bhsd(a->out, ATTN_F32, 1, 1, rows, bits);
    args.lse = attn_view_bhsd(a->lse, ATTN_F32, 1, 1, rows, 1);
    if (weights)
        args.weights = attn_view_bhsd(weights, ATTN_F32, 1, 1, rows, keys);
    args.has_scale = 1;
    args.scale = scale;

    double start = seconds_now();
    if (attn_forward(ctx, &args, &err) != ATTN_OK)
        die("attn_forward: %s", err.text);
    a->seconds = seconds_now() - start;
}

static answers new_answers(const memory *m, size_t n)
{
    answers a = {0};
    a.out = new_array(n * m->bits, sizeof *a.out);
    a.lse = new_array(n, sizeof *a.lse);
    return a;
}

static void free_answers(answers *a)
{
    free(a->out);
    free(a->lse);
}

/* Reads an output row: the signs are the digits. A blend may spell a number that no word has. */
static size_t spelled(const memory *m, const float *row)
{
    size_t number = 0;
    for (size_t bit = 0; bit < m->bits; bit++)
        number = 2 * number + (row[bit] > 0);
    return number < m->words.count ? number : no_word;
}

static double similarity(const memory *m, const float *query, size_t j)
{
    double s = 0;
    for (size_t i = 0; i < dim; i++)
        s += (double)query[i] * (double)m->keys[j * dim + i];
    return s;
}

/* The share of one word in the blend, exactly, without the other 64,000: that is what the log of
 * the sum of exponentials (LSE) of a row is good for. */
static double confidence(const memory *m, const float *query, size_t j, double scale, float lse)
{
    return j == no_word ? 0 : exp(scale * similarity(m, query, j) - (double)lse);
}

/* Largest difference between the library's output and the same sums done one by one in double. */
static double check_by_hand(const memory *m, const float *queries, size_t n, double scale,
                            const answers *a)
{
    size_t keys = m->words.count;
    double *e = new_array(keys, sizeof *e), worst = 0;

    for (size_t i = 0; i < n; i++) {
        double largest = -HUGE_VAL, total = 0;
        for (size_t j = 0; j < keys; j++) {
            e[j] = scale * similarity(m, queries + i * dim, j);
            largest = fmax(largest, e[j]);
        }
        for (size_t j = 0; j < keys; j++)
            total += e[j] = exp(e[j] - largest);
        for (size_t bit = 0; bit < m->bits; bit++) {
            double o = 0;
            for (size_t j = 0; j < keys; j++)
                o += e[j] / total * (double)m->values[j * m->bits + bit];
            worst = fmax(worst, fabs(o - (double)a->out[i * m->bits + bit]));
        }
    }
    free(e);
    return worst;
}

/* --- What is printed ------------------------------------------------------------------------ */

typedef struct screen {
    int colour; /* 24-bit colour; else plain ASCII */
} screen;

static screen find_screen(void)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    screen s = {isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 &&
                !(no_colour && *no_colour)};
    return s;
}

/* From black over violet and orange to yellow, always lighter: it still reads in shades of grey. */
static void colour_of(double x, int rgb[3])
{
    static const int stop[5][3] = {
        {16, 16, 24}, {76, 18, 107}, {178, 50, 90}, {240, 125, 40}, {250, 225, 100}};
    double at = 4 * fmin(fmax(x, 0), 1);
    int low = at < 4 ? (int)at : 3;
    for (int i = 0; i < 3; i++)
        rgb[i] = (int)(stop[low][i] + (at - low) * (stop[low + 1][i] - stop[low][i]) + 0.5);
}

/* Words differ at their ends more often than in the middle, so that is where a long one is cut. */
static void fit(char *to, size_t width, const char *text)
{
    size_t n = strlen(text), tail = 4;
    if (n <= width) {
        snprintf(to, width + 1, "%s", text);
        return;
    }
    snprintf(to, width + 1, "%.*s~%s", (int)(width - tail - 1), text, text + n - tail);
}

/* One cell of a heat map, 20 columns: a key and its weight in percent on a ground of the weight's
 * colour; without colour, a bar of up to three marks goes before them. */
static void print_cell(screen s, const char *text, double weight)
{
    int percent = (int)(100 * weight + 0.5), marks = (int)(3 * weight + 0.5);
    char short_text[word_room];
    int rgb[3];

    fit(short_text, s.colour ? 13 : 10, text);
    if (!s.colour) {
        printf(" %.*s%.*s %-10s %3d%%", marks, "###", 3 - marks, "...", short_text, percent);
        return;
    }
    colour_of(weight, rgb);
    int ink = weight > 0.6 ? 0 : 235;
    printf("\033[48;2;%d;%d;%dm\033[38;2;%d;%d;%dm %-13s %3d%% \033[0m", rgb[0], rgb[1], rgb[2],
           ink, ink, ink, short_text, percent);
}

static void print_setting(const memory *m, const questions *q, const char *words_path,
                          const char *misspellings_path, size_t asked_in_part)
{
    printf("A memory made of attention\n"
           "\n"
           "  keys     %6zu words of %s,\n"
           "                  each a vector of %d numbers made from its letters and pairs\n"
           "  values   %6zu numbers 0, 1, 2, ... of these words in binary, digits +1, -1\n"
           "  queries  %6zu misspellings of\n"
           "              %s,\n"
           "                  made into vectors likewise; the intended word is not given\n"
           "\n",
           m->words.count, words_path, dim, m->words.count, q->count, misspellings_path);
    printf("Each line below is one call of attn_forward, O = softmax(scale * Q K^T) V. The\n"
           "signs of an output row spell the number of a word; recall is how often it is\n"
           "the intended one, weight the mean share of the recalled word in the blend.\n");
    if (asked_in_part)
        printf("Lines with %zu rows ask every %zu-th misspelling, the others all.\n", asked_in_part,
               q->count / asked_in_part);
    putchar('\n');
}

static const char table_head[] =
    "  scale    rows   recall                weight   seconds    GF/s   of peak\n";

/* Answers are also counted by the weight of the recalled word, from one edge to the next. */
static const double edges[] = {0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 2};
enum { bands = sizeof edges / sizeof *edges - 1 };

typedef struct result {
    double recall, weight, seconds, flops;
    size_t asked[bands], right[bands];
    double weights[bands]; /* sums */
} result;

static void print_line(double scale, size_t rows, const result *r, double peak)
{
    int bar = (int)(10 * r->recall + 0.5);
    double rate = r->flops / r->seconds / 1e9;
    printf("%7g %7zu   %6.1f %%  %.*s%*s   %6.3f   %8.3f  %6.0f    %4.0f %%\n", scale, rows,
           100 * r->recall, bar, "##########", 10 - bar, "", r->weight, r->seconds, rate,
           100 * rate / peak);
    fflush(stdout);
}

/* One line of the table: asks every step-th question and compares with what was intended. */
static result measure(const attn_ctx *ctx, const memory *m, const questions *q, float *queries,
                      size_t n, size_t step, double scale)
{
    answers a = new_answers(m, n);
    result r = {0};

    ask(ctx, m, queries, n, step, scale, &a, NULL);
    for (size_t i = 0; i < n; i++) {
        size_t got = spelled(m, a.out + i * m->bits);
        double w = confidence(m, queries + i * step * dim, got, scale, a.lse[i]);
        int right = got == q->item[i * step].intended, band = 0;
        while (w >= edges[band + 1])
            band++;
        r.recall += right;
        r.weight += w;
        r.asked[band]++;
        r.right[band] += (size_t)right;
        r.weights[band] += w;
    }
    r.recall /= (double)n;
    r.weight /= (double)n;
    r.seconds = a.seconds;
    r.flops = 2.0 * (double)n * (double)m->words.count * (double)(dim + m->bits);
    free_answers(&a);
    return r;
}

/* Three scales worth a closer look. Soft: the lowest that recalls three quarters of what the best
 * does; many words share the weight of an answer. Honest: from there on, the one whose mean weight
 * is nearest to its recall, so that a weight can be read as a probability. Sharp: the best; one
 * word has nearly all the weight. */
typedef struct scales {
    double soft, honest, sharp;
} scales;

/* Is a weight of 0.8 right 8 times out of 10? */
static void print_honesty(const result *r, double scale)
{
    printf("\nCan the weight be trusted? At scale %g, by weight of the recalled word:\n\n"
           "  weight from    to      rows   mean weight   recall\n",
           scale);
    for (int b = 0; b < bands; b++)
        if (r->asked[b])
            printf("         %4.2f  %4.2f  %8zu         %.3f    %.3f\n", edges[b],
                   fmin(edges[b + 1], 1), r->asked[b], r->weights[b] / (double)r->asked[b],
                   (double)r->right[b] / (double)r->asked[b]);
    putchar('\n');
}

static scales print_table(const attn_ctx *ctx, const memory *m, const questions *q, float *queries,
                          int all, double peak)
{
    static const double table[] = {1, 4, 8, 12, 16, 32, 64, 128, 256};
    enum { count = sizeof table / sizeof *table };
    size_t step = all || q->count <= sample ? 1 : q->count / sample;
    size_t n = step > 1 ? sample : q->count;
    result r[count];
    int soft = 0, honest, sharp = 0;

    fputs(table_head, stdout);
    for (int i = 0; i < count; i++) {
        r[i] = measure(ctx, m, q, queries, n, step, table[i]);
        print_line(table[i], n, &r[i], peak);
        sharp = r[i].recall > r[sharp].recall ? i : sharp;
    }
    while (r[soft].recall < 0.75 * r[sharp].recall)
        soft++;
    honest = soft;
    for (int i = soft; i < count; i++)
        if (fabs(r[i].weight - r[i].recall) < fabs(r[honest].weight - r[honest].recall))
            honest = i;
    for (int i = soft; step > 1 && i < count; i++)
        if (i == soft || i == honest || i == sharp) {
            r[i] = measure(ctx, m, q, queries, q->count, 1, table[i]);
            print_line(table[i], q->count, &r[i], peak);
        }
    printf("\nThe scale is an inverse temperature: a low one blends all words into mush, a\n"
           "high one picks the most similar word.\n");
    print_honesty(&r[honest], table[honest]);
    return (scales){table[soft], table[honest], table[sharp]};
}

/* An output row, digit by digit. */
static void print_reading(const memory *m, const question *q, const float *row, double scale)
{
    size_t got = spelled(m, row);

    printf("How an answer is read: output row of \"%s\" at scale %g, signs, number\n\n ", q->text,
           scale);
    for (size_t bit = 0; bit < m->bits; bit++)
        printf("%s%+.2f", bit && bit % 8 == 0 ? "\n  " : " ", (double)row[bit]);
    printf("\n  ");
    for (size_t bit = 0; bit < m->bits; bit++)
        putchar(row[bit] > 0 ? '1' : '0');
    if (got == no_word)
        printf(" = no word has this number\n\n");
    else
        printf(" = %zu = \"%s\"\n\n", got, m->words.item[got]);
}

static void print_answers(const memory *m, const question *q, const float *queries, size_t n,
                          double scale, const answers *a)
{
    printf("One by one at scale %g; weight: share of the recalled word in the blend\n\n"
           "  misspelling       recalled          weight%s\n",
           scale, q[0].intended == no_word ? "" : "   intended");
    for (size_t i = 0; i < n; i++) {
        size_t got = spelled(m, a->out + i * m->bits), intended = q[i].intended;
        const char *text = got == no_word ? "(no such number)" : m->words.item[got];
        printf("  %-16s  %-16s  %6.3f", q[i].text, text,
               confidence(m, queries + i * dim, got, scale, a->lse[i]));
        if (intended != no_word)
            printf("   %s%s", intended == got ? "yes" : "no: ",
                   intended == got ? "" : m->words.item[intended]);
        putchar('\n');
    }
    putchar('\n');
}

/* Numbers of the keys with the largest weights of a row, largest first. */
static void find_best(const float *weights, size_t n, size_t out[heaviest])
{
    size_t found = 0;
    for (size_t j = 0; j < n; j++) {
        size_t at = found;
        while (at > 0 && weights[j] > weights[out[at - 1]])
            at--;
        if (at == heaviest)
            continue;
        size_t last = found < heaviest ? found++ : heaviest - 1;
        memmove(&out[at + 1], &out[at], (last - at) * sizeof *out);
        out[at] = j;
    }
}

static void print_map(const attn_ctx *ctx, const memory *m, screen s, const question *q,
                      float *queries, size_t n, double scale)
{
    answers a = new_answers(m, n);
    float *weights = new_array(n * m->words.count, sizeof *weights);
    size_t top = m->words.count < heaviest ? m->words.count : heaviest;

    ask(ctx, m, queries, n, 1, scale, &a, weights);
    printf("Heat map at scale %g: the %zu heaviest keys of each and their weights\n\n", scale, top);
    for (size_t i = 0; i < n; i++) {
        const float *row = weights + i * m->words.count;
        size_t key[heaviest];
        find_best(row, m->words.count, key);
        printf("  %-16.16s", q[i].text);
        for (size_t j = 0; j < top; j++)
            print_cell(s, m->words.item[key[j]], (double)row[key[j]]);
        putchar('\n');
    }
    putchar('\n');
    free(weights);
    free_answers(&a);
}

/* Answers n questions in detail. */
static void show(const attn_ctx *ctx, const memory *m, encoder *e, const question *q, size_t n,
                 scales scale)
{
    screen s = find_screen();
    float *queries = encode_questions(m, e, q, n);
    answers a = new_answers(m, n);

    ask(ctx, m, queries, 1, 1, scale.soft, &a, NULL);
    print_reading(m, &q[0], a.out, scale.soft);
    ask(ctx, m, queries, n, 1, scale.honest, &a, NULL);
    print_answers(m, q, queries, n, scale.honest, &a);
    print_map(ctx, m, s, q, queries, n, scale.soft);
    print_map(ctx, m, s, q, queries, n, scale.sharp);
    printf("Check: the same answers by plain sums over all %zu keys, in double;\n"
           "largest difference of an output: %.1e.\n",
           m->words.count, check_by_hand(m, queries, n, scale.honest, &a));
    free_answers(&a);
    free(queries);
}

static void print_bytes(double bytes)
{
    if (bytes < 1e9)
        printf("%.1f MB", bytes / 1e6);
    else
        printf("%.2f GB", bytes / 1e9);
}

static void print_memory(const memory *m, size_t rows)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use); /* kilobytes */
    printf("Memory: ");
    print_bytes(1024.0 * (double)use.ru_maxrss);
    printf(" at the peak, all included; the %zu x %zu weights alone,\n"
           "which are never held together, would take ",
           rows, m->words.count);
    print_bytes((double)rows * (double)m->words.count * sizeof(float));
    printf(".\n");
}

/* --- The program ---------------------------------------------------------------------------- */

typedef struct options {
    const char *words, *misspellings;
    attn_kernel_set kernels;
    int all;
    const char *const *asked; /* words of the command line */
    size_t asked_count;
} options;

static attn_kernel_set find_set(const char *name)
{
    for (int set = ATTN_SET_AUTO; set <= ATTN_SET_AVX512; set++)
        if (strcmp(name, attn_kernel_set_name((attn_kernel_set)set)) == 0)
            return (attn_kernel_set)set;
    die("--kernel %s: expected auto, scalar, neon, avx2 or avx512", name);
    return ATTN_SET_AUTO;
}

static options read_options(int argc, char **argv)
{
    options o = {0};
    int i = 1;

    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *value = argv[i + 1]; /* argv ends with NULL */
        if (strcmp(argv[i], "--all") == 0) {
            o.all = 1;
            continue;
        }
        if (!value)
            die("%s: unknown option, or its value is missing", argv[i]);
        if (strcmp(argv[i], "--words") == 0)
            o.words = value;
        else if (strcmp(argv[i], "--misspellings") == 0)
            o.misspellings = value;
        else if (strcmp(argv[i], "--kernel") == 0)
            o.kernels = find_set(value);
        else
            die("%s: unknown option (see the head of word_memory.c)", argv[i]);
        i++;
    }
    o.asked = (const char *const *)(argv + i);
    o.asked_count = (size_t)(argc - i);
    return o;
}

/* The small list lies beside this source file, wherever that was compiled. */
static void path_beside_source(char *path, size_t room, const char *name)
{
    const char *slash = strrchr(__FILE__, '/');
    int folder = slash ? (int)(slash - __FILE__ + 1) : 0;
    snprintf(path, room, "%.*swords/%s", folder, __FILE__, name);
}

/* Both lists from Debian, or both from here: one without the other would say little. */
static void choose_lists(options *o, char *small_words, char *small_misspellings, size_t room)
{
    int debian = access(DEBIAN_WORDS, R_OK) == 0 && access(DEBIAN_MISSPELLINGS, R_OK) == 0;

    path_beside_source(small_words, room, "words.txt");
    path_beside_source(small_misspellings, room, "misspellings.txt");
    if (!debian && !o->words && !o->misspellings)
        printf("(Without the Debian packages wamerican and codespell: small lists serve.)\n\n");
    if (!o->words)
        o->words = debian ? DEBIAN_WORDS : small_words;
    if (!o->misspellings)
        o->misspellings = debian ? DEBIAN_MISSPELLINGS : small_misspellings;
}

/* Twelve questions evenly spread over the list, so that nobody can say that they were picked. */
static size_t pick_examples(const questions *q, question out[shown])
{
    size_t n = q->count < shown ? q->count : shown;
    for (size_t i = 0; i < n; i++)
        out[i] = q->item[(2 * i + 1) * q->count / (2 * n)];
    return n;
}

static void answer_command_line(const attn_ctx *ctx, const memory *m, encoder *e, const options *o)
{
    question *q = new_array(o->asked_count, sizeof *q);
    for (size_t i = 0; i < o->asked_count; i++) {
        if (!is_plain(o->asked[i]))
            die("%s: expected a word of less than %d letters a to z", o->asked[i], word_room);
        strcpy(q[i].text, o->asked[i]);
        q[i].intended = no_word;
    }
    show(ctx, m, e, q, o->asked_count, (scales){16, 32, 128});
    free(q);
}

static void study(const attn_ctx *ctx, const memory *m, encoder *e, const questions *q,
                  const options *o)
{
    attn_kernel_set set = attn_ctx_kernels(ctx);
    int threads = attn_ctx_threads(ctx), sampled = !o->all && q->count > sample;
    float *queries = encode_questions(m, e, q->item, q->count);
    double peak = peak_gflops(set, threads);
    question examples[shown];

    print_setting(m, q, o->words, o->misspellings, sampled ? sample : 0);
    printf("Kernels: %s, threads: %d; peak, measured here: %.0f GF/s of multiply-adds.\n\n",
           attn_kernel_set_name(set), threads, peak);
    scales scale = print_table(ctx, m, q, queries, o->all, peak);
    show(ctx, m, e, examples, pick_examples(q, examples), scale);
    print_memory(m, q->count);
    free(queries);
}

int main(int argc, char **argv)
{
    char small_words[line_room], small_misspellings[line_room];
    options o = read_options(argc, argv);
    attn_ctx_options ctx_options = ATTN_CTX_OPTIONS_INIT;
    attn_ctx *ctx;
    attn_error err;

    ctx_options.kernels = o.kernels;
    if (attn_ctx_create(&ctx_options, &ctx, &err) != ATTN_OK)
        die("attn_ctx_create: %s", err.text);

    choose_lists(&o, small_words, small_misspellings, sizeof small_words);
    FILE *words_file = open_or_die(o.words), *misspellings_file = open_or_die(o.misspellings);
    memory m = {.words = read_words(words_file)};
    questions q = read_misspellings(misspellings_file, &m.words);
    fclose(words_file);
    fclose(misspellings_file);

    encoder *e = new_encoder();
    build_memory(&m, e);
    if (o.asked_count)
        answer_command_line(ctx, &m, e, &o);
    else
        study(ctx, &m, e, &q, &o);

    free(e->vector);
    free(e);
    free(m.keys);
    free(m.values);
    free(m.words.item);
    free(q.item);
    attn_ctx_destroy(ctx);
    return 0;
}
