/* test_text_faults.c: src/text when memory fails: each allocation of ours, each of jansson's. */
#include "include/attn/text.h"
#include "tests/expect.h"
#include "tests/io_files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS "tests/golden/text/"

static const char text[] = "the licence\nthe caf\xc3\xa9 \xff word <s> caf\x65\xcc\x81\n1234 [X]";

/* What is tried under each failure. */
typedef struct task {
    const char *name;
    const char *seed;     /* to open and use, or NULL */
    attn_vocab_kind kind; /* else to train */
    const char *path;     /* to save to, or NULL */
} task;

static const task tasks[] = {
    {"gpt2", SEEDS "gpt2.json", ATTN_VOCAB_BYTES, NULL},
    {"llama3", SEEDS "llama3.json", ATTN_VOCAB_BYTES, NULL},
    {"llama2", SEEDS "llama2.json", ATTN_VOCAB_BYTES, NULL},
    {"metaspace", SEEDS "metaspace.json", ATTN_VOCAB_BYTES, NULL},
    {"suffix", SEEDS "suffix.json", ATTN_VOCAB_BYTES, NULL},
    {"train bytes", NULL, ATTN_VOCAB_BYTES, NULL},
    {"train words", NULL, ATTN_VOCAB_WORDS, NULL},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

static attn_status use(const attn_tokenizer *t, uint64_t *sum, attn_error *err)
{
    attn_text_encoder *e = NULL;
    attn_text_decoder *d = NULL;
    const int32_t *ids;
    size_t count, size;
    const char *out;
    attn_status st = attn_text_encoder_create(t, &e, err);

    if (st == ATTN_OK)
        st = attn_text_decoder_create(t, ATTN_DECODE_LOSSY, &d, err);
    if (st == ATTN_OK)
        st = attn_text_encode(e, text, sizeof text - 1, 3, &ids, &count, err);
    if (st == ATTN_OK)
        st = attn_text_decode(d, ids, count / 2, 0, &out, &size, err);
    for (size_t i = 0; st == ATTN_OK && i < count; i++)
        *sum = *sum * 31 + (uint64_t)ids[i];
    if (st == ATTN_OK)
        st = attn_text_decode(d, ids + count / 2, count - count / 2, 1, &out, &size, err);
    attn_text_decoder_destroy(d);
    attn_text_encoder_destroy(e);
    return st;
}

static attn_status train(const attn_ctx *ctx, attn_vocab_kind kind, attn_tokenizer **t,
                         attn_error *err)
{
    static const char *const special[] = {"<s>"};
    attn_vocab_options o = ATTN_VOCAB_OPTIONS_INIT;
    attn_vocab *v = NULL;
    attn_status st;

    o.kind = kind;
    o.size = 290;
    o.special = special;
    o.special_count = 1;
    o.form = ATTN_TEXT_NFC;
    o.pattern = kind == ATTN_VOCAB_BYTES ? "\\p{Han}+|\\s|\\S+" : NULL;
    st = attn_vocab_create(ctx, &o, &v, err);
    if (st == ATTN_OK)
        st = attn_vocab_add(v, text, 20, err);
    if (st == ATTN_OK)
        st = attn_vocab_add(v, text + 20, sizeof text - 21, err);
    if (st == ATTN_OK)
        st = attn_vocab_train(v, t, err);
    attn_vocab_destroy(v);
    return st;
}

static attn_status run(const attn_ctx *ctx, const task *job, uint64_t *sum, attn_error *err)
{
    attn_tokenizer *t = NULL;
    attn_status st = job->seed ? attn_tokenizer_open(ctx, job->seed, NULL, &t, err)
                               : train(ctx, job->kind, &t, err);

    CHECK((st == ATTN_OK) == (t != NULL));
    if (st == ATTN_OK && job->path)
        st = attn_tokenizer_save(t, job->path, err);
    if (st == ATTN_OK)
        st = use(t, sum, err);
    attn_tokenizer_close(t);
    return st;
}

/* Fails allocation 1, 2, ... until the task gets by without the failing one. PCRE2 gets by without
 * its machine code; then the ids must be the same. */
static size_t sweep(const task *job, int sticky)
{
    uint64_t want = 0;
    size_t got_by = 0;

    CHECK(run(NULL, job, &want, NULL) == ATTN_OK);
    for (size_t at = 1;; at++) {
        attn_error err = {ATTN_OK, 0, ""};
        uint64_t sum = 0;
        attn_status st;
        meter m;

        meter_init(&m);
        m.fail_at = at;
        m.sticky = sticky;
        st = run(&m.ctx, job, &sum, &err);
        CHECK_MSG(m.live == 0, "%s: %zu blocks leaked at allocation %zu", job->name, m.live, at);
        if (m.calls < at) {
            CHECK_MSG(st == ATTN_OK, "%s: %s", job->name, err.text);
            CHECK(got_by < at / 2);
            return at - 1;
        }
        CHECK_MSG(st == ATTN_OK ? sum == want
                                : st == ATTN_E_MEMORY && err.status == st && err.text[0],
                  "%s: allocation %zu failed, status %d, '%s'", job->name, at, (int)st, err.text);
        got_by += st == ATTN_OK;
        CHECK(at < 20000);
    }
}

static void every_allocation_of_ours_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < TASKS; i++)
        for (int sticky = 0; sticky < 2; sticky++)
            CHECK(sweep(&tasks[i], sticky) > 20);
}

static void saving_may_fail(void **state)
{
    arena a = {NULL};
    char *folder = folder_new(&a);
    task job = {"save", SEEDS "suffix.json", ATTN_VOCAB_BYTES, path_in(&a, folder, "t.json")};

    (void)state;
    CHECK(sweep(&job, 0) > 20);
    CHECK(folder_count(folder) == 1);
    folder_remove(folder);
    arena_reset(&a);
}

/* jansson allocates for itself. */
static size_t json_calls, json_fail_at;

static void *json_alloc(size_t size)
{
    return ++json_calls == json_fail_at ? NULL : malloc(size);
}

static void jansson_may_run_out(void **state)
{
    (void)state;
    json_set_alloc_funcs(json_alloc, free);
    for (size_t at = 1;; at += 1 + at / 50) {
        attn_error err = {ATTN_OK, 0, ""};
        attn_tokenizer *t = NULL;
        attn_status st;
        json_calls = 0;
        json_fail_at = at;
        st = attn_tokenizer_open(NULL, SEEDS "llama3.json", NULL, &t, &err);
        CHECK((st == ATTN_OK) == (t != NULL));
        attn_tokenizer_close(t);
        if (json_calls < at)
            break;
        /* jansson 2.14 tells some of its failures as wrong input */
        CHECK_MSG(st == ATTN_E_MEMORY || st == ATTN_E_FORMAT || st == ATTN_OK, "status %d",
                  (int)st);
    }
    json_set_alloc_funcs(malloc, free);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"every_allocation_of_ours_may_fail", every_allocation_of_ours_may_fail, 0},
        {"saving_may_fail", saving_may_fail, 0},
        {"jansson_may_run_out", jansson_may_run_out, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
