/* scorer.h: words and characters that scores of translations count. */
#ifndef ATTN_TEXT_SCORER_H
#define ATTN_TEXT_SCORER_H

#include "src/text/buffer.h"

/* Work areas of the steps below, and their results. */
typedef struct attn__segment {
    attn__buffer clean; /* UTF-8, blanks for white space but for \n */
    attn__buffer words; /* UTF-8, parted by single blanks */
    attn__buffer spare;
    bool malformed; /* set when a text is not UTF-8; whoever reads it resets it */
} attn__segment;

/* Fills `clean`. Each of these returns false when there is no memory. */
bool attn__segment_clean(attn__segment *s, const char *text, size_t size);

/* From `clean` fills `words`, as mteval-v13a cuts them. */
bool attn__segment_words(attn__segment *s);

/* From `clean` fills `words` as chrF++ does: a sign of ASCII at a word's end, else at its
 * beginning, is a word. */
bool attn__segment_plain_words(attn__segment *s);

#endif
