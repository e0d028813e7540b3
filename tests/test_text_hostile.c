/* test_text_hostile.c: tokenizer.json files that break a rule each, damaged files, and patterns
 * that run away. */
#include "include/attn/text.h"
#include "tests/expect.h"
#include "tests/io_files.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A file from its parts: model, then further fields. */
#define MODEL(inside) "{\"model\":{\"type\":\"BPE\"," inside "}"
#define AB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"
#define GOOD MODEL(AB)
#define PRE(inside) GOOD ",\"pre_tokenizer\":" inside "}"
#define NORM(inside) GOOD ",\"normalizer\":" inside "}"
#define DECODER(inside) GOOD ",\"decoder\":" inside "}"
#define POST(inside) GOOD ",\"post_processor\":" inside "}"
#define ADDED(inside) GOOD ",\"added_tokens\":[" inside "]}"
#define REGEX(text)                                                                                \
    PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" text "\"},\"behavior\":\"Isolated\"}")

typedef struct bad_file {
    const char *name, *json;
    const char *says; /* part of the error text; NULL: must open */
} bad_file;

static const bad_file files[] = {
    {"sound", GOOD "}", NULL},
    {"empty", "", "JSON"},
    {"no object", "[]", "not an object"},
    {"a scalar", "1", "JSON"},
    {"trailing bytes", GOOD "} x", "JSON"},
    {"twice the same key", GOOD ",\"model\":{}}", "JSON"},
    {"escaped twice", MODEL("\"vocab\":{\"a\":0,\"\\u0061\":1},\"merges\":[]") "}", "JSON"},
    {"zero byte", MODEL("\"vocab\":{\"\\u0000\":0},\"merges\":[]") "}", "JSON"},
    {"lone surrogate", MODEL("\"vocab\":{\"\\ud800\":0},\"merges\":[]") "}", "JSON"},
    {"not UTF-8", MODEL("\"vocab\":{\"\xff\":0},\"merges\":[]") "}", "JSON"},
    {"unknown field", GOOD ",\"extra\":1}", "unknown field 'extra'"},
    {"field without a name", GOOD ",\"\":1}", "unknown field ''"},
    {"no model", "{}", "'model' is missing"},
    {"model null", "{\"model\":null}", "'model' is missing"},
    {"unknown model", "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "unknown kind 'Unigram'"},
    {"old file without type", "{\"model\":{" AB "}}", NULL},
    {"no vocab", MODEL("\"merges\":[]") "}", "'vocab' is missing"},
    {"no merges", MODEL("\"vocab\":{}") "}", "'merges' is missing"},
    {"merges no array", MODEL("\"vocab\":{},\"merges\":{}") "}", "not an array"},
    {"empty vocab", MODEL("\"vocab\":{},\"merges\":[]") "}", NULL},
    {"dropout", MODEL(AB ",\"dropout\":0.1") "}", "dropout"},
    {"dropout of zero", MODEL(AB ",\"dropout\":0.0") "}", NULL},
    {"unknown option", MODEL(AB ",\"cache\":1") "}", "unknown field 'cache'"},
    {"unk_token outside", MODEL(AB ",\"unk_token\":\"u\"") "}", "'u' is not in the vocabulary"},
    {"unk_token no text", MODEL(AB ",\"unk_token\":1") "}", "'unk_token' is not a string"},
    {"fuse_unk no bool", MODEL(AB ",\"fuse_unk\":1") "}", "'fuse_unk' is neither"},
    {"id negative", MODEL("\"vocab\":{\"a\":-1},\"merges\":[]") "}", "no whole number"},
    {"id real", MODEL("\"vocab\":{\"a\":1.0},\"merges\":[]") "}", "no whole number"},
    {"id text", MODEL("\"vocab\":{\"a\":\"0\"},\"merges\":[]") "}", "no whole number"},
    {"id sparse", MODEL("\"vocab\":{\"a\":2147483648},\"merges\":[]") "}", "no whole number"},
    {"id a little sparse", MODEL("\"vocab\":{\"a\":60000},\"merges\":[]") "}", NULL},
    {"id beyond 64 bits", MODEL("\"vocab\":{\"a\":18446744073709551616},\"merges\":[]") "}",
     "JSON"},
    {"id twice", MODEL("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]") "}", "have the same id"},
    {"merge of unknown", MODEL("\"vocab\":{\"a\":0},\"merges\":[\"a b\"]") "}",
     "'b' is not in the"},
    {"merge into unknown", MODEL("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]") "}",
     "'ab' is made but not in"},
    {"merge twice",
     MODEL("\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\",[\"a\",\"b\"]]") "}", "twice"},
    {"merge of one", MODEL("\"vocab\":{\"a\":0},\"merges\":[\"a\"]") "}", "entry 0 is not a pair"},
    {"merge of three", MODEL("\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]") "}", "not a pair"},
    {"merge of numbers", MODEL("\"vocab\":{\"a\":0},\"merges\":[[0,0]]") "}", "not a pair"},
    {"merge of null", MODEL("\"vocab\":{\"a\":0},\"merges\":[null]") "}", "not a pair"},
    {"merge without prefix", MODEL(AB ",\"continuing_subword_prefix\":\"##\"") "}",
     "does not begin with"},
    {"version line", MODEL("\"vocab\":{\"a\":0},\"merges\":[\"#version: 0.2\"]") "}", NULL},
    {"normalizer of unknown kind", NORM("{\"type\":\"Nmt\"}"), "normalizer: unknown kind 'Nmt'"},
    {"normalizer without type", NORM("{}"), "'type' is missing"},
    {"normalizer text", NORM("\"NFC\""), "'type' is missing"},
    {"normalizer null", NORM("null"), NULL},
    {"normalizer unknown field", NORM("{\"type\":\"NFC\",\"x\":1}"), "NFC: unknown field 'x'"},
    {"sequence without list", NORM("{\"type\":\"Sequence\"}"), "'normalizers' is missing"},
    {"sequence in sequence",
     NORM("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Sequence\",\"normalizers\":[]}]}"),
     NULL},
    {"replace without pattern", NORM("{\"type\":\"Replace\",\"content\":\"\"}"), "not an object"},
    {"replace with two patterns",
     NORM("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\",\"Regex\":\"a\"},\"content\":\"\"}"),
     "neither a String"},
    {"replace with empty string",
     NORM("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"),
     "neither a String"},
    {"pre_tokenizer of unknown kind", PRE("{\"type\":\"UnicodeScripts\"}"), "'UnicodeScripts'"},
    {"metaspace of two characters", PRE("{\"type\":\"Metaspace\",\"replacement\":\"__\"}"),
     "not one character"},
    {"metaspace of no character", PRE("{\"type\":\"Metaspace\",\"replacement\":\"\"}"),
     "not one character"},
    {"metaspace scheme",
     PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"),
     "unknown prepend_scheme 'last'"},
    {"metaspace contradicts",
     PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\","
         "\"add_prefix_space\":false}"),
     "contradicts"},
    {"split behaviour",
     PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Kept\"}"),
     "unknown behavior 'Kept'"},
    {"pattern that does not close", REGEX("a("), "missing closing parenthesis"},
    {"pattern with a set in a set", REGEX("[a[b]]"), "a set or class inside"},
    {"pattern with an intersection", REGEX("[a&&b]"), "an intersection"},
    {"pattern with a verb", REGEX("(*ACCEPT)a"), "a verb"},
    {"pattern with a counted plus", REGEX("a{1,3}+"), "a count followed by +"},
    {"pattern with one byte", REGEX("\\\\C"), "an unknown escape"},
    {"pattern that ends in a backslash", REGEX("a\\\\"), "a backslash at the end"},
    {"pattern with a broken set", REGEX("[a"), "missing terminating ]"},
    {"pattern with a broken escape", REGEX("\\\\u12"), "four hexadecimal"},
    {"pattern with an unknown property", REGEX("\\\\p{Nothing}"), "unknown property"},
    {"decoder of unknown kind", DECODER("{\"type\":\"CTC\"}"), "decoder: unknown kind 'CTC'"},
    {"strip without numbers", DECODER("{\"type\":\"Strip\",\"content\":\" \"}"),
     "'start' is no whole"},
    {"strip negative", DECODER("{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}"),
     "no whole number"},
    {"empty suffix", DECODER("{\"type\":\"BPEDecoder\",\"suffix\":\"\"}"), "'suffix' is empty"},
    {"post_processor of unknown kind", POST("{\"type\":\"Own\"}"), "unknown kind 'Own'"},
    {"template without text", POST("{\"type\":\"TemplateProcessing\",\"single\":[]}"),
     "text A once"},
    {"template with two texts",
     POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}},"
          "{\"Sequence\":{\"id\":\"A\"}}]}"),
     "text A once"},
    {"template with unknown token",
     POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},"
          "{\"Sequence\":{\"id\":\"A\"}}]}"),
     "'ids' is missing"},
    {"template with id outside",
     POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},"
          "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"x\":{\"ids\":[3]}}}"),
     "no token's"},
    {"frame with a negative id",
     POST("{\"type\":\"BertProcessing\",\"cls\":[\"a\",-1],\"sep\":[\"a\",0]}"), "no token's"},
    {"frame without id", POST("{\"type\":\"BertProcessing\",\"cls\":\"a\"}"), "no token's"},
    {"added no array", GOOD ",\"added_tokens\":{}}", "not an array"},
    {"added no object", ADDED("1"), "'id' is no whole number"},
    {"added without text", ADDED("{\"id\":3}"), "'content' is missing"},
    {"added with empty text", ADDED("{\"id\":3,\"content\":\"\"}"), "of 0 or over"},
    {"added with another's id", ADDED("{\"id\":0,\"content\":\"x\"}"), "have the same id"},
    {"added with another id", ADDED("{\"id\":3,\"content\":\"a\"}"), "'a' has two ids"},
    {"added twice", ADDED("{\"id\":3,\"content\":\"x\"},{\"id\":3,\"content\":\"x\"}"),
     "two tokens"},
    {"added far away", ADDED("{\"id\":4000000000,\"content\":\"x\"}"), "no whole number"},
    {"added unknown field", ADDED("{\"id\":3,\"content\":\"x\",\"y\":1}"), "unknown field 'y'"},
};
enum { FILES = sizeof files / sizeof *files };

static attn_status open_text(const char *json, size_t size, attn_tokenizer **t, attn_error *err)
{
    *err = (attn_error){ATTN_OK, 0, ""};
    return attn_tokenizer_open_memory(NULL, json, size, NULL, t, err);
}

static void each_broken_rule_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        const bad_file *f = &files[i];
        attn_tokenizer *t = NULL;
        attn_error err;
        attn_status st = open_text(f->json, strlen(f->json), &t, &err);
        CHECK_MSG(st == (f->says ? ATTN_E_FORMAT : ATTN_OK), "%s: status %d, '%s'", f->name,
                  (int)st, err.text);
        CHECK_MSG(!f->says || (strstr(err.text, f->says) && err.status == st), "%s: '%s'", f->name,
                  err.text);
        CHECK((st == ATTN_OK) == (t != NULL));
        attn_tokenizer_close(t);
    }
}

/* n times `unit` between two texts. */
static blob repeated(arena *a, const char *before, const char *unit, size_t n, const char *after)
{
    blob b = blob_new(a);

    blob_text(&b, before);
    for (size_t i = 0; i < n; i++)
        blob_text(&b, unit);
    blob_text(&b, after);
    return b;
}

static void check_refused(const blob *b, const char *says)
{
    attn_tokenizer *t = NULL;
    attn_error err;

    CHECK(open_text((const char *)b->data, b->size, &t, &err) == ATTN_E_FORMAT && !t);
    CHECK_MSG(strstr(err.text, says), "'%s', not '%s'", err.text, says);
}

static void sizes_are_limited(void **state)
{
    attn_tokenizer_options o = ATTN_TOKENIZER_OPTIONS_INIT;
    arena a = {NULL};
    attn_tokenizer *t = NULL;
    blob b = repeated(&a, "", "[", 100000, "");

    (void)state;
    check_refused(&b, "nested deeper");
    b = repeated(&a, "[", "{},", 1100000, "{}]");
    check_refused(&b, "more than 2000000 values");
    b = repeated(&a, "{\"x\":\"", "0123456789abcdef", (32 << 16), "\"}");
    check_refused(&b, "over the limit");
    b = repeated(&a, GOOD ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[",
                 "{\"type\":\"Digits\"},", 32, "{\"type\":\"Digits\"}]}}");
    check_refused(&b, "more than 32 steps");
    b = repeated(&a, GOOD ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"", "a",
                 10001, "\"}}}");
    check_refused(&b, "over 10000 bytes");
    b = repeated(&a, GOOD ",\"added_tokens\":[{\"id\":3,\"content\":\"", "a", 1025, "\"}]}");
    check_refused(&b, "of 0 or over 1024");
    o.max_bytes = 10;
    CHECK(attn_tokenizer_open_memory(NULL, GOOD "}", sizeof GOOD, &o, &t, NULL) == ATTN_E_FORMAT);
    o.max_bytes = 0;
    o.max_values = 3;
    CHECK(attn_tokenizer_open_memory(NULL, GOOD "}", sizeof GOOD, &o, &t, NULL) == ATTN_E_FORMAT);
    o.max_values = 100;
    CHECK(attn_tokenizer_open_memory(NULL, GOOD "}", sizeof GOOD, &o, &t, NULL) == ATTN_OK);
    attn_tokenizer_close(t);
    o.struct_size = 1;
    CHECK(attn_tokenizer_open_memory(NULL, GOOD "}", sizeof GOOD, &o, &t, NULL) == ATTN_E_ARGUMENT);
    arena_reset(&a);
}

/* What opens must also work. */
static void use(const attn_tokenizer *t)
{
    static const char text[] = "ab <s>a\xff caf\xc3\xa9 123 word";
    attn_text_encoder *e = NULL;
    attn_text_decoder *d = NULL;
    const int32_t *ids;
    const char *out;
    size_t count, size;

    CHECK(attn_text_encoder_create(t, &e, NULL) == ATTN_OK);
    CHECK(attn_text_decoder_create(t, 0, &d, NULL) == ATTN_OK);
    CHECK(attn_text_encode(e, text, sizeof text - 1, 3, &ids, &count, NULL) == ATTN_OK);
    for (size_t i = 0; i < count; i++)
        CHECK(attn_tokenizer_piece(t, ids[i], NULL));
    CHECK(attn_text_decode(d, ids, count, 1, &out, &size, NULL) == ATTN_OK);
    attn_text_encoder_destroy(e);
    attn_text_decoder_destroy(d);
}

static void check_damaged(const unsigned char *bytes, size_t size)
{
    attn_tokenizer *t = NULL;
    attn_error err;
    attn_status st = open_text((const char *)bytes, size, &t, &err);

    CHECK_MSG(st == ATTN_OK || (st == ATTN_E_FORMAT && err.text[0]), "status %d", (int)st);
    if (t)
        use(t);
    attn_tokenizer_close(t);
}

static void damaged_files_are_refused_or_work(void **state)
{
    static const char *const seeds[] = {"gpt2", "llama3", "llama2", "metaspace", "suffix"};
    rng r = rng_make(test_seed(), 1);
    arena a = {NULL};

    (void)state;
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++) {
        char path[64];
        blob file;
        snprintf(path, sizeof path, "tests/golden/text/%s.json", seeds[k]);
        file = blob_load(&a, path);
        for (size_t cut = 0; cut < file.size; cut += 1 + cut % 17)
            check_damaged(file.data, cut);
        for (int n = 0; n < 400; n++) {
            size_t at = (size_t)rng_int(&r, 0, (int64_t)file.size - 1);
            unsigned char old = file.data[at];
            file.data[at] ^= (unsigned char)(1u << rng_int(&r, 0, 7));
            check_damaged(file.data, file.size);
            file.data[at] = old;
        }
    }
    arena_reset(&a);
}

static void patterns_that_run_away_are_stopped(void **state)
{
    static const char *const patterns[] = {"^(a+)+$", "^(a|aa)+$",  "^(a|a?)+$",
                                           "(a*)*b",  "(?=(a+)+b)", "(.*)*x"};
    char text[62];

    (void)state;
    memset(text, 'a', sizeof text);
    text[61] = '!';
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char json[512];
        attn_tokenizer *t = NULL;
        attn_text_encoder *e = NULL;
        attn_error err;
        const int32_t *ids;
        size_t count;
        clock_t start = clock();
        attn_status st;
        snprintf(json, sizeof json, REGEX("%s"), patterns[i]);
        CHECK_MSG(open_text(json, strlen(json), &t, &err) == ATTN_OK, "%s", err.text);
        CHECK(attn_text_encoder_create(t, &e, NULL) == ATTN_OK);
        st = attn_text_encode(e, text, sizeof text, 0, &ids, &count, &err);
        CHECK(st == ATTN_OK || (st == ATTN_E_FORMAT && strstr(err.text, "too many steps")));
        CHECK(i > 0 || st == ATTN_E_FORMAT);
        CHECK_MSG((double)(clock() - start) / CLOCKS_PER_SEC < 2, "%s", patterns[i]);
        /* The encoder still works. */
        CHECK(attn_text_encode(e, "b", 1, 0, &ids, &count, &err) == ATTN_OK && count == 1);
        attn_text_encoder_destroy(e);
        attn_tokenizer_close(t);
    }
}

/* A token of a space that takes the spaces behind it: each match would walk all of them. */
static void tokens_of_spaces_take_no_longer(void **state)
{
    static const char json[] = ADDED("{\"id\":3,\"content\":\" \",\"rstrip\":true}");
    const size_t size = 400000;
    char *text = malloc(size);
    attn_text_encoder *e = NULL;
    attn_tokenizer *t = NULL;
    attn_error err;
    const int32_t *ids;
    size_t count;
    clock_t start = clock();

    (void)state;
    assert_non_null(text);
    memset(text, ' ', size);
    CHECK_MSG(open_text(json, sizeof json - 1, &t, &err) == ATTN_OK, "%s", err.text);
    CHECK(attn_text_encoder_create(t, &e, NULL) == ATTN_OK);
    text[size - 1] = 'a';
    CHECK(attn_text_encode(e, text, size, 0, &ids, &count, NULL) == ATTN_OK && count > 2);
    text[size - 2] = text[0] = 'a'; /* an odd number of spaces: the last is alone */
    CHECK(attn_text_encode(e, text, size, 0, &ids, &count, NULL) == ATTN_OK && count > 2);
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 5);
    attn_text_encoder_destroy(e);
    attn_tokenizer_close(t);
    free(text);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"each_broken_rule_is_named", each_broken_rule_is_named, 0},
        {"sizes_are_limited", sizes_are_limited, 0},
        {"damaged_files_are_refused_or_work", damaged_files_are_refused_or_work, 0},
        {"tokens_of_spaces_take_no_longer", tokens_of_spaces_take_no_longer, 0},
        {"patterns_that_run_away_are_stopped", patterns_that_run_away_are_stopped, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
