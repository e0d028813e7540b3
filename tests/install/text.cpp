// text.cpp: text.h from C++17: trains a small vocabulary, goes to ids and back.
#include <attn/text.h>

#include <cstdio>
#include <string>

int main()
{
    const std::string text = "the cat and the hat and the cat\n";
    attn_vocab_options options = ATTN_VOCAB_OPTIONS_INIT;
    options.size = 300;
    attn_vocab *vocab = nullptr;
    attn_tokenizer *tokenizer = nullptr;
    attn_text_encoder *encoder = nullptr;
    attn_text_decoder *decoder = nullptr;
    attn_error err = {};
    const int32_t *ids = nullptr;
    const char *back = nullptr;
    size_t count = 0, size = 0;

    attn_status status = attn_vocab_create(nullptr, &options, &vocab, &err);
    if (status == ATTN_OK)
        status = attn_vocab_add(vocab, text.data(), text.size(), &err);
    if (status == ATTN_OK)
        status = attn_vocab_train(vocab, &tokenizer, &err);
    if (status == ATTN_OK)
        status = attn_text_encoder_create(tokenizer, &encoder, &err);
    if (status == ATTN_OK)
        status = attn_text_encode(encoder, text.data(), text.size(), 0, &ids, &count, &err);
    if (status == ATTN_OK)
        status = attn_text_decoder_create(tokenizer, 0, &decoder, &err);
    if (status == ATTN_OK)
        status = attn_text_decode(decoder, ids, count, 1, &back, &size, &err);
    const bool right = status == ATTN_OK && std::string(back, size) == text && count < text.size();
    if (status != ATTN_OK)
        std::fprintf(stderr, "%s: %s\n", attn_status_text(status), err.text);
    attn_text_decoder_destroy(decoder);
    attn_text_encoder_destroy(encoder);
    attn_tokenizer_close(tokenizer);
    attn_vocab_destroy(vocab);
    return right ? 0 : 1;
}
