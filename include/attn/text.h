/* text.h: text to token ids and back, by a tokenizer.json; vocabularies trained from text; scores
 * of translations.
 *
 * The file format is that of Hugging Face's tokenizers, and ids and texts are the same as theirs.
 * The order of work: tokens that were added to the vocabulary are cut out of the text, the rest is
 * normalised, cut into words, and each word is cut into pieces by the model:
 *
 *     "<s>Hello there"  ->  [<s>] "Hello there"  ->  [<s>] "Hello" " there"  ->  1, 317, 89, 1204
 *
 * What is read:
 *
 *     normalizer      NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Replace, Prepend, Strip,
 *                     ByteLevel, Sequence
 *     pre_tokenizer   ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace,
 *                     WhitespaceSplit, CharDelimiterSplit, Sequence
 *     model           BPE without dropout
 *     post_processor  TemplateProcessing (its form for one text, with that text in it once),
 *                     BertProcessing, RobertaProcessing, ByteLevel, Sequence
 *     decoder         ByteLevel, Metaspace, ByteFallback, Fuse, Strip, Replace, BPEDecoder,
 *                     Sequence
 *
 * Any other kind, and any field that is not known, is an error that names it. `truncation` and
 * `padding` are the caller's business and ignored. Patterns are Oniguruma's in the file and run by
 * PCRE2; constructs that the two read differently are translated or refused. A match that takes
 * more steps than a limit that grows with the text is an error, so that no pattern hangs.
 *
 * Text is UTF-8 of any kind, unassigned code points included. Bytes that are not UTF-8 are kept
 * where the vocabulary has bytes (ByteLevel, byte_fallback): a ByteLevel tokenizer without
 * normalizer and add_prefix_space gives back any string of bytes. Elsewhere they are unknown.
 *
 * Characters are classified as in Hugging Face's tokenizers, which for normal forms and marks know
 * Unicode 9, for punctuation Unicode 8; those that Unicode 14 does not assign may differ.
 *
 * An attn_tokenizer does not change, and any number of threads may use it. Encoders and decoders
 * are the work areas of one thread each, and end before their tokenizer. A context is only needed
 * for allocator and progress; NULL is fine; it outlives what is made with it. jansson, and
 * PCRE2 for the machine code it makes of patterns, allocate for themselves.
 */
#ifndef ATTN_TEXT_H
#define ATTN_TEXT_H

#include "attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Tokenizers ----------------------------------------------------------------------------- */

typedef struct attn_tokenizer attn_tokenizer;

typedef struct attn_tokenizer_options {
    size_t struct_size;
    size_t max_bytes;  /* size of file accepted; 0: 32 MB */
    size_t max_values; /* JSON containers and commas accepted, a bound on values; 0: 2 million */
} attn_tokenizer_options;
#define ATTN_TOKENIZER_OPTIONS_INIT ATTN_INIT(attn_tokenizer_options)

/* Reads a tokenizer.json. `options` may be NULL. On failure *out is NULL. Errors: ATTN_E_IO,
 * ATTN_E_FORMAT, ATTN_E_MEMORY, ATTN_E_ARGUMENT; the text starts with the path. */
ATTN_API attn_status attn_tokenizer_open(const attn_ctx *ctx, const char *path,
                                         const attn_tokenizer_options *options,
                                         attn_tokenizer **out, attn_error *err);

/* The same from memory, which is copied. */
ATTN_API attn_status attn_tokenizer_open_memory(const attn_ctx *ctx, const void *bytes, size_t size,
                                                const attn_tokenizer_options *options,
                                                attn_tokenizer **out, attn_error *err);
ATTN_API void attn_tokenizer_close(attn_tokenizer *tokenizer);

/* The tokenizer.json it was made from: `*size` bytes, not terminated, until the tokenizer closes.
 * Saving writes them to a file that appears whole or not at all. */
ATTN_API const char *attn_tokenizer_json(const attn_tokenizer *tokenizer, size_t *size);
ATTN_API attn_status attn_tokenizer_save(const attn_tokenizer *tokenizer, const char *path,
                                         attn_error *err);

/* The largest id plus one: rows an embedding needs. Some ids below may have no token. */
ATTN_API int32_t attn_tokenizer_size(const attn_tokenizer *tokenizer);

/* The token as the file spells it (a ByteLevel model writes a space as U+0120), terminated, until
 * the tokenizer closes; NULL if there is none. `size` may be NULL. */
ATTN_API const char *attn_tokenizer_piece(const attn_tokenizer *tokenizer, int32_t id,
                                          size_t *size);

/* The id of a token, -1 if there is none. */
ATTN_API int32_t attn_tokenizer_find(const attn_tokenizer *tokenizer, const char *piece,
                                     size_t size);

/* 1 for the special tokens of `added_tokens`. */
ATTN_API int attn_tokenizer_is_special(const attn_tokenizer *tokenizer, int32_t id);

/* --- Text to ids ---------------------------------------------------------------------------- */

typedef struct attn_text_encoder attn_text_encoder;

enum {
    /* Special tokens that are spelt out in the text become their ids. Without it they are text like
     * any other, so that a user's text cannot forge them. */
    ATTN_ENCODE_SPECIAL = 1,
    /* Adds what the file's post_processor puts around a text, for example <s> and </s>. */
    ATTN_ENCODE_FRAME = 2
};

/* A work area: buffers as large as the largest text needed, and the ids of words met before (at
 * most about 20 MB). */
ATTN_API attn_status attn_text_encoder_create(const attn_tokenizer *tokenizer,
                                              attn_text_encoder **out, attn_error *err);
ATTN_API void attn_text_encoder_destroy(attn_text_encoder *encoder);

/* Ids of `size` bytes of text, at most 1 GB. *ids belong to the encoder and stay until it is used
 * again. Time grows with size * log(size) at most (patterns apart), memory with size. Errors:
 * ATTN_E_ARGUMENT, ATTN_E_MEMORY, and ATTN_E_FORMAT when a pattern takes too many steps. */
ATTN_API attn_status attn_text_encode(attn_text_encoder *encoder, const char *text, size_t size,
                                      unsigned flags, const int32_t **ids, size_t *count,
                                      attn_error *err);

/* --- Ids to text ---------------------------------------------------------------------------- */

typedef struct attn_text_decoder attn_text_decoder;

enum {
    ATTN_DECODE_SKIP_SPECIAL = 1, /* leaves special tokens out */
    /* What is not UTF-8 becomes U+FFFD as in Hugging Face's tokenizers: one for each longest start
     * of a character with ByteLevel, one for each byte of a run with ByteFallback. Without it bytes
     * come out as they are. */
    ATTN_DECODE_LOSSY = 2
};

ATTN_API attn_status attn_text_decoder_create(const attn_tokenizer *tokenizer, unsigned flags,
                                              attn_text_decoder **out, attn_error *err);
ATTN_API void attn_text_decoder_destroy(attn_text_decoder *decoder);

/* Text of the next ids of a stream; `end` non-zero after the last of them, then the decoder is as
 * new. Bytes that may still become a character, and what the file's decoder cannot know yet, are
 * held back until the next call. The texts of a stream, one after the other, do not depend on how
 * its ids are cut. *text belongs to the decoder and stays until it is used again. Ids without a
 * token add nothing. Errors: ATTN_E_ARGUMENT, ATTN_E_MEMORY, and ATTN_E_FORMAT when a pattern takes
 * too many steps; the stream is then lost and the decoder as new. */
ATTN_API attn_status attn_text_decode(attn_text_decoder *decoder, const int32_t *ids, size_t count,
                                      int end, const char **text, size_t *size, attn_error *err);

/* --- Vocabularies from text ----------------------------------------------------------------- */

typedef enum attn_vocab_kind {
    ATTN_VOCAB_BYTES = 0, /* ByteLevel: 256 bytes, words by GPT-2's pattern or by `pattern` */
    ATTN_VOCAB_WORDS      /* Metaspace: characters, U+2581 before each word, bytes for rare ones */
} attn_vocab_kind;

typedef enum attn_text_form { ATTN_TEXT_AS_IS = 0, ATTN_TEXT_NFC, ATTN_TEXT_NFKC } attn_text_form;

typedef struct attn_vocab_options {
    size_t struct_size;
    attn_vocab_kind kind;
    int32_t size;               /* tokens in all, special ones included; 0: 16,384 */
    uint64_t min_count;         /* a pair seen less often is not merged; 0: 2 */
    const char *const *special; /* special tokens, in the order of their ids, from 0 */
    size_t special_count;
    const char *pattern;    /* BYTES: the pattern of words, in place of GPT-2's */
    attn_text_form form;    /* normal form of all text, in training and use */
    int32_t max_characters; /* WORDS: distinct characters kept, the most frequent; 0: half of the
                               room that special tokens and bytes leave */
} attn_vocab_options;
#define ATTN_VOCAB_OPTIONS_INIT ATTN_INIT(attn_vocab_options)

typedef struct attn_vocab attn_vocab;

/* Counts words of text that is added, then trains byte-pair encoding on the counts: the most
 * frequent pair of neighbours becomes a token, until there are enough; between equal counts the
 * pair with the smaller left id, then the smaller right id. Ids: special tokens in their order,
 * bytes (WORDS: then characters) by code point, then merges in their order. The same text gives the
 * same bytes of tokenizer.json, whatever the cuts between calls.
 *
 * Text is taken line by line, a line's end being part of it (WORDS: a line is cut there). A line of
 * over 16 MB is cut after each 16 MB; of a word's symbols, each 4,096 count as a word. Memory grows
 * with the number of distinct words. Errors: ATTN_E_ARGUMENT (also a size too small for the special
 * tokens and bytes), ATTN_E_MEMORY, ATTN_E_FORMAT for a pattern, ATTN_E_CANCELLED by the context's
 * progress callback. After a failure only attn_vocab_destroy may follow. */
ATTN_API attn_status attn_vocab_create(const attn_ctx *ctx, const attn_vocab_options *options,
                                       attn_vocab **out, attn_error *err);
ATTN_API attn_status attn_vocab_add(attn_vocab *vocab, const char *text, size_t size,
                                    attn_error *err);

/* Ends the current line, as between two files. */
ATTN_API attn_status attn_vocab_cut(attn_vocab *vocab, attn_error *err);

/* Trains on all that was added; once. The tokenizer has fewer tokens than asked for when no pair is
 * left. */
ATTN_API attn_status attn_vocab_train(attn_vocab *vocab, attn_tokenizer **out, attn_error *err);
ATTN_API void attn_vocab_destroy(attn_vocab *vocab);

/* --- Scores of translations ----------------------------------------------------------------- */

/* BLEU and chrF, as sacreBLEU 2 gives them by default. Each text is one segment, usually a line; a
 * segment has one reference or more. With n-grams of order n, m_n of those of all hypotheses that
 * are in a reference too (each at most as often as there), and t_n of them in all:
 *
 *     BLEU   p_n = 100 m_n / t_n, n = 1..4, of words as mteval-v13a cuts them, case kept; where
 *            m_n = 0, p_n = 100 / (2^k t_n) for the k-th such n;
 *            BP (p_1 p_2 p_3 p_4)^(1/4), BP = exp(min(0, 1 - reference words / hypothesis words));
 *            the reference closest in length counts, of two the shorter
 *     chrF2  characters without white space, n = 1..6; precision P and recall R are means over the
 *            orders that both sides have; 100 * 5 P R / (4 P + R); per segment the reference with
 *            the highest chrF2 counts
 *     chrF2++  the same with words, n = 1..2, as two further orders
 *
 * White space is that of Python's str.split, so that U+2028 or a carriage return parts words as a
 * blank does; a zero byte is a character. What is not UTF-8 counts as U+FFFD, one for each longest
 * start of a character (sacreBLEU refuses such text). */
typedef struct attn_scores {
    size_t struct_size;
    int64_t segments;
    int64_t malformed;             /* segments with text that is not UTF-8 */
    double bleu, chrf, chrf_words; /* 0..100; chrf_words is chrF2++ */
    double brevity;                /* BP */
    double precisions[4];          /* p_n */
    int64_t matches[4], totals[4]; /* m_n and t_n */
    int64_t hypothesis_words, reference_words;
} attn_scores;
#define ATTN_SCORES_INIT ATTN_INIT(attn_scores)

typedef struct attn_scorer attn_scorer;

/* Counts of segments, which are added one by one, in any order. One thread at a time. */
ATTN_API attn_status attn_scorer_create(const attn_ctx *ctx, attn_scorer **out, attn_error *err);
ATTN_API void attn_scorer_destroy(attn_scorer *scorer);

/* Adds a segment: a hypothesis and 1 to 4,096 references, each of at most 256 MB. `alone` may be
 * NULL, or gets the scores of this segment by itself, as sacreBLEU's --sentence-level does: BLEU
 * then ends at the last order that the hypothesis has (effective order). Errors: ATTN_E_ARGUMENT,
 * ATTN_E_MEMORY; nothing is added then. */
ATTN_API attn_status attn_scorer_add(attn_scorer *scorer, const char *hypothesis, size_t size,
                                     const char *const *references, const size_t *reference_sizes,
                                     size_t reference_count, attn_scores *alone, attn_error *err);

/* Scores of all segments so far; zeros when there are none. */
ATTN_API attn_status attn_scorer_total(const attn_scorer *scorer, attn_scores *out,
                                       attn_error *err);

#ifdef __cplusplus
}
#endif
#endif
