/* fuzz_tokenizer.c: the reader of tokenizer.json over any bytes, and what opens at work. The input
 * is the file, then a byte 0xff, which JSON cannot hold, then a text. Seeds:
 * tests/fuzz/corpus/tokenizer. */
#include "include/attn/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds)
{
    if (!holds)
        abort();
}

/* Whole and in parts, the same text. */
static void decode(const attn_tokenizer *t, const int32_t *ids, size_t count, unsigned flags)
{
    attn_text_decoder *d = NULL;
    const char *text;
    size_t size, first;
    char *whole;

    demand(attn_text_decoder_create(t, flags, &d, NULL) == ATTN_OK);
    if (attn_text_decode(d, ids, count, 1, &text, &size, NULL) == ATTN_OK) {
        whole = malloc(size + 1);
        demand(whole != NULL);
        memcpy(whole, text, size);
        demand(attn_text_decode(d, ids, count / 3, 0, &text, &first, NULL) == ATTN_OK);
        demand(first <= size && memcmp(whole, text, first) == 0);
        demand(attn_text_decode(d, ids + count / 3, count - count / 3, 1, &text, &size, NULL) ==
               ATTN_OK);
        demand(memcmp(whole + first, text, size) == 0);
        free(whole);
    }
    attn_text_decoder_destroy(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *mark = size ? memchr(data, 0xff, size) : NULL;
    size_t file = mark ? (size_t)(mark - data) : size, count = 0;
    const char *text = mark ? (const char *)mark + 1 : "a b";
    size_t text_size = mark ? size - file - 1 : 3;
    attn_error err = {ATTN_OK, 0, ""};
    attn_text_encoder *e = NULL;
    attn_tokenizer *t = NULL;
    const int32_t *ids = NULL;
    attn_status st = attn_tokenizer_open_memory(NULL, data, file, NULL, &t, &err);

    if (st != ATTN_OK) {
        demand(st == ATTN_E_FORMAT && err.status == st && err.text[0] && !t);
        return 0;
    }
    demand(attn_text_encoder_create(t, &e, NULL) == ATTN_OK);
    for (unsigned flags = 0; flags < 4; flags++) {
        st = attn_text_encode(e, text, text_size, flags, &ids, &count, &err);
        demand(st == ATTN_OK || st == ATTN_E_FORMAT);
        for (size_t i = 0; st == ATTN_OK && i < count; i++)
            demand(attn_tokenizer_piece(t, ids[i], NULL) != NULL);
        if (st == ATTN_OK)
            decode(t, ids, count, flags);
    }
    attn_text_encoder_destroy(e);
    attn_tokenizer_close(t);
    return 0;
}
