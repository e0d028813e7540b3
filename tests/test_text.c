/* test_text.c: tokenizers: ids and texts as Hugging Face's, streams, bytes, training. */
#define _POSIX_C_SOURCE 200809L

#include "include/attn/text.h"
#include "tests/expect.h"
#include "tests/io_files.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GOLDEN "tests/golden/text/"

static const char *const golden[] = {"gpt2", "llama3", "llama2", "metaspace", "suffix", "runs"};
enum { GOLDENS = sizeof golden / sizeof *golden };

/* --- Help ----------------------------------------------------------------------------------- */

static attn_tokenizer *open_golden(const char *name)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_tokenizer *t = NULL;
    char path[64];

    snprintf(path, sizeof path, GOLDEN "%s.json", name);
    CHECK_MSG(attn_tokenizer_open(NULL, path, NULL, &t, &err) == ATTN_OK, "%s", err.text);
    return t;
}

static attn_text_encoder *encoder_of(const attn_tokenizer *t)
{
    attn_text_encoder *e = NULL;

    CHECK(attn_text_encoder_create(t, &e, NULL) == ATTN_OK);
    return e;
}

static attn_text_decoder *decoder_of(const attn_tokenizer *t, unsigned flags)
{
    attn_text_decoder *d = NULL;

    CHECK(attn_text_decoder_create(t, flags, &d, NULL) == ATTN_OK);
    return d;
}

static attn_tokenizer *trained(const attn_vocab_options *options, const char *text, size_t size)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_vocab *v = NULL;
    attn_tokenizer *t = NULL;

    CHECK_MSG(attn_vocab_create(NULL, options, &v, &err) == ATTN_OK, "%s", err.text);
    CHECK(attn_vocab_add(v, text, size, &err) == ATTN_OK);
    CHECK_MSG(attn_vocab_train(v, &t, &err) == ATTN_OK, "%s", err.text);
    attn_vocab_destroy(v);
    return t;
}

static int same_json(const attn_tokenizer *a, const attn_tokenizer *b)
{
    size_t na, nb;
    const char *ja = attn_tokenizer_json(a, &na), *jb = attn_tokenizer_json(b, &nb);

    return na == nb && memcmp(ja, jb, na) == 0;
}

static const char prose[] =
    "the cat and the hat and the bat sat on the mat; that cat's hat is the mat's\n"
    "na\xc3\xafve caf\xc3\xa9 \xf0\x9f\x98\x80 na\xc3\xafve caf\xc3\xa9 \xf0\x9f\x98\x80\n";

static attn_tokenizer *trained_bytes(void)
{
    attn_vocab_options o = ATTN_VOCAB_OPTIONS_INIT;

    o.size = 300;
    return trained(&o, prose, sizeof prose - 1);
}

/* --- Golden data ---------------------------------------------------------------------------- */

typedef struct field {
    const char *at;
    size_t size;
} field;

/* The next of the fields that tabs and a line's end part. */
static field next_field(const char **at)
{
    field f = {*at, strcspn(*at, "\t\n")};

    *at += f.size + 1;
    return f;
}

static size_t from_hex(arena *a, field f, char **out)
{
    *out = arena_get(a, f.size / 2 + 1);
    for (size_t i = 0; i < f.size / 2; i++) {
        char digits[3] = {f.at[2 * i], f.at[2 * i + 1], '\0'};
        (*out)[i] = (char)strtol(digits, NULL, 16);
    }
    return f.size / 2;
}

static size_t from_list(arena *a, field f, int32_t **out)
{
    const char *at = f.at;
    size_t n = 0;

    *out = arena_get(a, (f.size + 1) * sizeof **out);
    while (at < f.at + f.size) {
        char *end;
        (*out)[n++] = (int32_t)strtol(at, &end, 10);
        at = end + 1;
    }
    return n;
}

static void check_ids(attn_text_encoder *e, const char *text, size_t size, unsigned flags,
                      const int32_t *want, size_t want_count, const char *name)
{
    const int32_t *ids;
    size_t count;

    CHECK(attn_text_encode(e, text, size, flags, &ids, &count, NULL) == ATTN_OK);
    CHECK_MSG(count == want_count, "%s: %zu ids of '%.*s', not %zu", name, count, (int)size, text,
              want_count);
    for (size_t i = 0; i < count; i++)
        CHECK_MSG(ids[i] == want[i], "%s: id %zu of '%.*s' is %d, not %d", name, i, (int)size, text,
                  (int)ids[i], (int)want[i]);
}

/* Decodes in two parts, cut at every place. */
static void check_text(attn_text_decoder *d, const int32_t *ids, size_t count, const char *want,
                       size_t want_size, const char *name)
{
    const char *part;
    char out[4096];
    size_t n, size;

    for (size_t cut = 0; cut <= count; cut++) {
        CHECK(attn_text_decode(d, ids, cut, 0, &part, &n, NULL) == ATTN_OK);
        memcpy(out, part, n);
        size = n;
        CHECK(attn_text_decode(d, ids + cut, count - cut, 1, &part, &n, NULL) == ATTN_OK);
        memcpy(out + size, part, n);
        size += n;
        CHECK_MSG(size == want_size && memcmp(out, want, size) == 0,
                  "%s: '%.*s', not '%.*s', cut at %zu", name, (int)size, out, (int)want_size, want,
                  cut);
    }
}

static void check_golden(arena *a, const char *name)
{
    attn_tokenizer *t = open_golden(name);
    attn_text_encoder *e = encoder_of(t);
    attn_text_decoder *all = decoder_of(t, ATTN_DECODE_LOSSY);
    attn_text_decoder *some = decoder_of(t, ATTN_DECODE_LOSSY | ATTN_DECODE_SKIP_SPECIAL);
    char path[64];
    blob lines;
    const char *at;
    size_t count = 0;

    snprintf(path, sizeof path, GOLDEN "%s.txt", name);
    lines = blob_load(a, path);
    blob_put(&lines, "", 1);
    for (at = (const char *)lines.data; *at; count++) {
        int32_t *plain, *full;
        char *text, *shown;
        size_t size = from_hex(a, next_field(&at), &text);
        size_t plain_count = from_list(a, next_field(&at), &plain);
        size_t full_count = from_list(a, next_field(&at), &full);
        check_ids(e, text, size, 0, plain, plain_count, name);
        check_ids(e, text, size, ATTN_ENCODE_SPECIAL | ATTN_ENCODE_FRAME, full, full_count, name);
        size = from_hex(a, next_field(&at), &shown);
        check_text(all, full, full_count, shown, size, name);
        size = from_hex(a, next_field(&at), &shown);
        check_text(some, full, full_count, shown, size, name);
    }
    CHECK(count >= 20);
    attn_text_encoder_destroy(e);
    attn_text_decoder_destroy(all);
    attn_text_decoder_destroy(some);
    attn_tokenizer_close(t);
}

static void ids_and_texts_are_those_of_hugging_face(void **state)
{
    arena a = {NULL};

    (void)state;
    for (size_t i = 0; i < GOLDENS; i++)
        check_golden(&a, golden[i]);
    arena_reset(&a);
}

/* One kind of step each, over a model that shows bytes and where words begin. */
static void each_step_is_that_of_hugging_face(void **state)
{
    arena a = {NULL};
    blob model = blob_load(&a, GOLDEN "probe.json"), lines = blob_load(&a, GOLDEN "probes.txt");
    const char *at;
    size_t count = 0;

    (void)state;
    blob_put(&lines, "", 1);
    for (at = (const char *)lines.data; *at; count++) {
        blob json = blob_new(&a);
        attn_error err = {ATTN_OK, 0, ""};
        attn_tokenizer *t = NULL;
        attn_text_encoder *e;
        int32_t *ids;
        field fields = next_field(&at);
        char name[200], *text;
        size_t size, id_count;
        blob_text(&json, "{\"model\":");
        blob_put(&json, model.data, model.size);
        blob_text(&json, ",");
        blob_put(&json, fields.at, fields.size);
        blob_text(&json, "}");
        CHECK_MSG(attn_tokenizer_open_memory(NULL, json.data, json.size, NULL, &t, &err) == ATTN_OK,
                  "%.*s: %s", (int)fields.size, fields.at, err.text);
        size = from_hex(&a, next_field(&at), &text);
        id_count = from_list(&a, next_field(&at), &ids);
        e = encoder_of(t);
        snprintf(name, sizeof name, "%.*s", (int)fields.size, fields.at);
        check_ids(e, text, size, 0, ids, id_count, name);
        attn_text_encoder_destroy(e);
        attn_tokenizer_close(t);
    }
    CHECK(count >= 100);
    arena_reset(&a);
}

/* --- Bytes and streams ---------------------------------------------------------------------- */

static void any_bytes_come_back(void **state)
{
    attn_vocab_options words = ATTN_VOCAB_OPTIONS_INIT;
    attn_tokenizer *t[2] = {trained_bytes(), NULL};
    rng r = rng_make(test_seed(), 1);

    (void)state;
    words.kind = ATTN_VOCAB_WORDS;
    words.size = 400;
    t[1] = trained(&words, prose, sizeof prose - 1);
    for (size_t k = 0; k < 2; k++) {
        attn_text_encoder *e = encoder_of(t[k]);
        attn_text_decoder *d = decoder_of(t[k], 0);
        for (int n = 0; n < 5000; n++) {
            unsigned char bytes[40];
            size_t size = (size_t)rng_int(&r, 0, sizeof bytes), count, out_size;
            const int32_t *ids;
            const char *out;
            for (size_t i = 0; i < size; i++)
                bytes[i] = (unsigned char)(rng_chance(&r, 50) ? rng_int(&r, 0, 255)
                                                              : rng_int(&r, 'a', 'z'));
            /* A word's first space is its mark, and a mark is a space. */
            for (size_t i = 0; k == 1 && i < size; i++)
                bytes[i] = bytes[i] == ' ' || bytes[i] == 0xe2 ? '_' : bytes[i];
            CHECK(attn_text_encode(e, (const char *)bytes, size, 0, &ids, &count, NULL) == ATTN_OK);
            CHECK(attn_text_decode(d, ids, count, 1, &out, &out_size, NULL) == ATTN_OK);
            CHECK_MSG(out_size == size && memcmp(out, bytes, size) == 0, "case %d of kind %zu", n,
                      k);
        }
        attn_text_encoder_destroy(e);
        attn_text_decoder_destroy(d);
        attn_tokenizer_close(t[k]);
    }
}

static void a_stream_holds_back_half_characters(void **state)
{
    static const char text[] = "a\xf0\x9f\x9a\x80 \xe2\x82\xac\xff.";
    attn_tokenizer *t = trained_bytes();
    attn_text_encoder *e = encoder_of(t);
    attn_text_decoder *d = decoder_of(t, 0);
    char out[sizeof text];
    size_t size = 0, count, n;
    const int32_t *ids;
    const char *part;

    (void)state;
    CHECK(attn_text_encode(e, text, sizeof text - 1, 0, &ids, &count, NULL) == ATTN_OK);
    for (size_t i = 0; i < count; i++) {
        CHECK(attn_text_decode(d, ids + i, 1, 0, &part, &n, NULL) == ATTN_OK);
        CHECK(n == 0 || ((unsigned char)part[0] & 0xc0) != 0x80);
        memcpy(out + size, part, n);
        size += n;
    }
    CHECK(attn_text_decode(d, NULL, 0, 1, &part, &n, NULL) == ATTN_OK && n == 0);
    CHECK(size == sizeof text - 1 && memcmp(out, text, size) == 0);
    /* A stream that ends within a character gives its bytes, and the next one begins anew. */
    CHECK(attn_text_decode(d, ids + 1, 2, 0, &part, &n, NULL) == ATTN_OK && n == 0);
    CHECK(attn_text_decode(d, NULL, 0, 1, &part, &n, NULL) == ATTN_OK && n > 0 && n < 4);
    CHECK(attn_text_decode(d, ids, 1, 1, &part, &n, NULL) == ATTN_OK && n == 1 && part[0] == 'a');
    attn_text_encoder_destroy(e);
    attn_text_decoder_destroy(d);
    attn_tokenizer_close(t);
}

/* --- Tokens --------------------------------------------------------------------------------- */

static void special_tokens_in_text_are_text_unless_asked(void **state)
{
    static const char *const special[] = {"<s>", "</s>"};
    attn_vocab_options o = ATTN_VOCAB_OPTIONS_INIT;
    attn_text_encoder *e;
    attn_tokenizer *t;
    const int32_t *ids;
    size_t count, size;

    (void)state;
    o.special = special;
    o.special_count = 2;
    o.size = 300;
    t = trained(&o, prose, sizeof prose - 1);
    e = encoder_of(t);
    CHECK(attn_text_encode(e, "<s>a</s>", 8, 0, &ids, &count, NULL) == ATTN_OK && count == 8);
    for (size_t i = 0; i < count; i++)
        CHECK(!attn_tokenizer_is_special(t, ids[i]));
    CHECK(attn_text_encode(e, "<s>a</s>", 8, ATTN_ENCODE_SPECIAL, &ids, &count, NULL) == ATTN_OK);
    CHECK(count == 3 && ids[0] == 0 && ids[2] == 1);
    CHECK(attn_tokenizer_is_special(t, 0) && !attn_tokenizer_is_special(t, 2));
    CHECK(strcmp(attn_tokenizer_piece(t, 1, &size), "</s>") == 0 && size == 4);
    CHECK(attn_tokenizer_find(t, "</s>", 4) == 1 && attn_tokenizer_find(t, "</s", 3) == -1);
    CHECK(!attn_tokenizer_piece(t, -1, NULL));
    CHECK(!attn_tokenizer_piece(t, attn_tokenizer_size(t), NULL));
    CHECK(!attn_tokenizer_is_special(t, -1));
    attn_text_encoder_destroy(e);
    attn_tokenizer_close(t);
}

static void wrong_arguments_are_refused(void **state)
{
    attn_tokenizer *t = trained_bytes(), *none = t;
    attn_text_encoder *e = encoder_of(t), *no_encoder = e;
    attn_text_decoder *d = decoder_of(t, 0), *no_decoder = d;
    attn_vocab_options o = ATTN_VOCAB_OPTIONS_INIT;
    attn_vocab *v = NULL;
    const int32_t *ids = NULL;
    const char *text;
    size_t n;

    (void)state;
    CHECK(attn_text_encode(e, NULL, 1, 0, &ids, &n, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_text_encode(e, "a", 1, 8, &ids, &n, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_text_encode(e, "a", (size_t)1 << 31, 0, &ids, &n, NULL) == ATTN_E_ARGUMENT && !ids);
    CHECK(attn_text_decode(d, NULL, 1, 0, &text, &n, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_text_decoder_create(t, 4, &no_decoder, NULL) == ATTN_E_ARGUMENT && !no_decoder);
    CHECK(attn_text_encoder_create(NULL, &no_encoder, NULL) == ATTN_E_ARGUMENT && !no_encoder);
    CHECK(attn_tokenizer_open(NULL, NULL, NULL, &none, NULL) == ATTN_E_ARGUMENT && !none);
    CHECK(attn_tokenizer_open(NULL, "/nowhere", NULL, &none, NULL) == ATTN_E_IO && !none);
    o.size = 255;
    CHECK(attn_vocab_create(NULL, &o, &v, NULL) == ATTN_E_ARGUMENT && !v);
    o.size = 300;
    o.struct_size = 1;
    CHECK(attn_vocab_create(NULL, &o, &v, NULL) == ATTN_E_ARGUMENT);
    o.struct_size = sizeof o;
    o.pattern = "a(";
    CHECK(attn_vocab_create(NULL, &o, &v, NULL) == ATTN_E_FORMAT && !v);
    o.pattern = NULL;
    CHECK(attn_vocab_create(NULL, &o, &v, NULL) == ATTN_OK);
    CHECK(attn_vocab_add(v, NULL, 1, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_vocab_train(v, &none, NULL) == ATTN_OK && attn_tokenizer_size(none) == 256);
    attn_tokenizer_close(none);
    CHECK(attn_vocab_add(v, "a", 1, NULL) == ATTN_E_ARGUMENT);
    CHECK(attn_vocab_train(v, &none, NULL) == ATTN_E_ARGUMENT && !none);
    attn_vocab_destroy(v);
    attn_vocab_destroy(NULL);
    attn_text_decoder_destroy(d);
    attn_text_decoder_destroy(NULL);
    attn_text_encoder_destroy(e);
    attn_text_encoder_destroy(NULL);
    attn_tokenizer_close(NULL);
    attn_tokenizer_close(t);
}

/* --- Training ------------------------------------------------------------------------------- */

/* The most frequent pair first; of equal ones that with the smaller ids. */
static void merges_follow_counts_then_ids(void **state)
{
    static const char text[] = "xy xy xy ab ab cd cd cd cd\n";
    static const char *const want[] = {"cd", "xy", "ab"};
    attn_vocab_options o = ATTN_VOCAB_OPTIONS_INIT;
    attn_tokenizer *t;
    size_t size;

    (void)state;
    o.size = 260;
    t = trained(&o, text, sizeof text - 1);
    /* Of four "cd" three have a space before them, of three "xy" two, both "ab" one. */
    CHECK(attn_tokenizer_size(t) == 260);
    CHECK(strcmp(attn_tokenizer_piece(t, 256, &size), want[0]) == 0);
    CHECK(strcmp(attn_tokenizer_piece(t, 257, &size), "\xc4\xa0"
                                                      "cd") == 0);
    CHECK(strcmp(attn_tokenizer_piece(t, 258, &size), want[1]) == 0);
    CHECK(strcmp(attn_tokenizer_piece(t, 259, &size), want[2]) == 0);
    attn_tokenizer_close(t);
}

static void cuts_between_calls_change_nothing(void **state)
{
    rng r = rng_make(test_seed(), 2);
    attn_vocab_options o = ATTN_VOCAB_OPTIONS_INIT;

    (void)state;
    for (int n = 0; n < 20; n++) {
        attn_tokenizer *whole, *parts = NULL;
        size_t at = 0;
        attn_vocab *v = NULL;
        o.kind = n % 2 ? ATTN_VOCAB_WORDS : ATTN_VOCAB_BYTES;
        o.size = 330;
        o.form = (attn_text_form)(n % 3);
        whole = trained(&o, prose, sizeof prose - 1);
        CHECK(attn_vocab_create(NULL, &o, &v, NULL) == ATTN_OK);
        while (at < sizeof prose - 1) {
            size_t size = (size_t)rng_int(&r, 0, 9);
            size = size < sizeof prose - 1 - at ? size : sizeof prose - 1 - at;
            CHECK(attn_vocab_add(v, prose + at, size, NULL) == ATTN_OK);
            at += size;
        }
        CHECK(attn_vocab_train(v, &parts, NULL) == ATTN_OK);
        CHECK(same_json(whole, parts));
        attn_vocab_destroy(v);
        attn_tokenizer_close(whole);
        attn_tokenizer_close(parts);
    }
}

/* What is longer than a line may be, with characters across the cut. */
static void long_lines_are_cut_alike(void **state)
{
    const size_t size = ((size_t)1 << 24) + 100;
    attn_vocab_options o = ATTN_VOCAB_OPTIONS_INIT;
    attn_tokenizer *t[2] = {NULL, NULL};
    char *text = malloc(size);

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < size; i++)
        text[i] = "a\xe2\x82\xac "[i % 5];
    o.size = 260;
    for (int k = 0; k < 2; k++) {
        attn_vocab *v = NULL;
        CHECK(attn_vocab_create(NULL, &o, &v, NULL) == ATTN_OK);
        for (size_t at = 0, step = k ? size : 1000003; at < size; at += step)
            CHECK(attn_vocab_add(v, text + at, step < size - at ? step : size - at, NULL) ==
                  ATTN_OK);
        CHECK(attn_vocab_train(v, &t[k], NULL) == ATTN_OK);
        attn_vocab_destroy(v);
    }
    CHECK(same_json(t[0], t[1]));
    attn_tokenizer_close(t[0]);
    attn_tokenizer_close(t[1]);
    free(text);
}

static int cancel(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return 1;
}

static void training_can_be_cancelled(void **state)
{
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    attn_vocab_options o = ATTN_VOCAB_OPTIONS_INIT;
    attn_tokenizer *t = NULL;
    attn_vocab *v = NULL;
    attn_ctx *ctx = NULL;

    (void)state;
    options.progress = cancel;
    CHECK(attn_ctx_create(&options, &ctx, NULL) == ATTN_OK);
    CHECK(attn_vocab_create(ctx, &o, &v, NULL) == ATTN_OK);
    CHECK(attn_vocab_add(v, prose, sizeof prose - 1, NULL) == ATTN_OK);
    CHECK(attn_vocab_train(v, &t, NULL) == ATTN_E_CANCELLED && !t);
    attn_vocab_destroy(v);
    attn_ctx_destroy(ctx);
}

static void a_saved_tokenizer_is_the_same(void **state)
{
    attn_tokenizer *t = trained_bytes(), *again = NULL;
    arena a = {NULL};
    char *folder = folder_new(&a), *path = path_in(&a, folder, "t.json");

    (void)state;
    CHECK(attn_tokenizer_save(t, path, NULL) == ATTN_OK);
    CHECK(attn_tokenizer_open(NULL, path, NULL, &again, NULL) == ATTN_OK);
    CHECK(same_json(t, again));
    CHECK(attn_tokenizer_save(t, folder, NULL) == ATTN_E_IO);
    attn_tokenizer_close(t);
    attn_tokenizer_close(again);
    folder_remove(folder);
    arena_reset(&a);
}

/* --- Time and threads ----------------------------------------------------------------------- */

static double seconds_for(attn_text_encoder *e, const char *unit, size_t size)
{
    char *text = malloc(size);
    struct timespec from, to;
    const int32_t *ids;
    size_t count;
    double best = 1e9;

    assert_non_null(text);
    for (size_t i = 0; i < size; i++)
        text[i] = unit[i % strlen(unit)];
    for (int n = 0; n < 3; n++) {
        double s;
        clock_gettime(CLOCK_MONOTONIC, &from);
        CHECK(attn_text_encode(e, text, size, 0, &ids, &count, NULL) == ATTN_OK);
        clock_gettime(CLOCK_MONOTONIC, &to);
        s = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        best = s < best ? s : best;
    }
    free(text);
    return best;
}

/* Four times the text in at most eight times the time, plus what a busy machine adds. */
static void time_grows_with_the_text(void **state)
{
    static const char *const units[] = {"a", " ", "^", "\n", "ab", "\xcc\xa3\xcc\x81", "\xff"};
    (void)state;
    for (size_t k = 0; k < GOLDENS; k++) {
        attn_tokenizer *t = open_golden(golden[k]);
        attn_text_encoder *e = encoder_of(t);
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
            double small = seconds_for(e, units[i], 20000), large = seconds_for(e, units[i], 80000);
            CHECK_MSG(large < 8 * small + 0.1, "%s, '%s': %g s, then %g s", golden[k], units[i],
                      small, large);
        }
        attn_text_encoder_destroy(e);
        attn_tokenizer_close(t);
    }
}

typedef struct task {
    const attn_tokenizer *tokenizer;
    uint64_t sum;
} task;

static void *encode_much(void *user)
{
    task *t = user;
    attn_text_encoder *e = NULL;
    const int32_t *ids;
    size_t count;

    if (attn_text_encoder_create(t->tokenizer, &e, NULL) != ATTN_OK)
        return NULL;
    for (size_t n = 0; n < 200; n++) {
        size_t from = n % (sizeof prose / 2);
        if (attn_text_encode(e, prose + from, sizeof prose - 1 - from, 0, &ids, &count, NULL) !=
            ATTN_OK)
            break;
        for (size_t i = 0; i < count; i++)
            t->sum = t->sum * 31 + (uint64_t)ids[i];
    }
    attn_text_encoder_destroy(e);
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    attn_tokenizer *t = open_golden("llama3");
    task tasks[5] = {{t, 0}, {t, 0}, {t, 0}, {t, 0}, {t, 0}};
    pthread_t threads[4];

    (void)state;
    encode_much(&tasks[4]);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, encode_much, &tasks[i]) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK(tasks[i].sum == tasks[4].sum && tasks[i].sum != 0);
    }
    attn_tokenizer_close(t);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"ids_and_texts_are_those_of_hugging_face", ids_and_texts_are_those_of_hugging_face, 0},
        {"each_step_is_that_of_hugging_face", each_step_is_that_of_hugging_face, 0},
        {"any_bytes_come_back", any_bytes_come_back, 0},
        {"a_stream_holds_back_half_characters", a_stream_holds_back_half_characters, 0},
        {"special_tokens_in_text_are_text_unless_asked",
         special_tokens_in_text_are_text_unless_asked, 0},
        {"wrong_arguments_are_refused", wrong_arguments_are_refused, 0},
        {"merges_follow_counts_then_ids", merges_follow_counts_then_ids, 0},
        {"cuts_between_calls_change_nothing", cuts_between_calls_change_nothing, 0},
        {"long_lines_are_cut_alike", long_lines_are_cut_alike, 0},
        {"training_can_be_cancelled", training_can_be_cancelled, 0},
        {"a_saved_tokenizer_is_the_same", a_saved_tokenizer_is_the_same, 0},
        {"time_grows_with_the_text", time_grows_with_the_text, 0},
        {"threads_share_a_tokenizer", threads_share_a_tokenizer, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
