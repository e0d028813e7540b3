/* added.c: tokens that are found in the text before it is cut into words: the longest one at the
 * leftmost place, then on behind it. */
#include "src/base/error.h"
#include "src/text/tokenizer.h"

bool attn__tree_add(attn__tree *tree, const char *text, size_t size, uint32_t place, bool *taken)
{
    uint32_t node = 0, none = ATTN__NONE, *end;

    *taken = false;
    if (tree->ends.size == 0 && !attn__buffer_put(&tree->ends, &none, sizeof none))
        return false;
    for (size_t i = 0; i < size; i++) {
        uint32_t *next = attn__table_at(&tree->steps, (uint64_t)node << 8 | (unsigned char)text[i]);
        if (!next)
            return false;
        if (*next == ATTN__NONE) {
            *next = (uint32_t)(tree->ends.size / sizeof none);
            if (!attn__buffer_put(&tree->ends, &none, sizeof none))
                return false;
        }
        node = *next;
    }
    end = (uint32_t *)tree->ends.data + node;
    *taken = *end != ATTN__NONE;
    if (!*taken)
        *end = place;
    tree->starts[(unsigned char)text[0]] = true;
    tree->any = true;
    return true;
}

void attn__tree_free(attn__tree *tree)
{
    attn__table_free(&tree->steps);
    attn__buffer_free(&tree->ends);
}

/* The longest token at text[at]: its place in `added`, and where it ends. */
static uint32_t longest(const attn__tree *tree, const char *text, size_t size, size_t at,
                        size_t *end)
{
    const uint32_t *ends = tree->ends.data;
    uint32_t node = 0, best = ATTN__NONE;

    for (; at < size; at++) {
        node = attn__table_get(&tree->steps, (uint64_t)node << 8 | (unsigned char)text[at]);
        if (node == ATTN__NONE)
            break;
        if (ends[node] != ATTN__NONE) {
            best = ends[node];
            *end = at + 1;
        }
    }
    return best;
}

/* Whether the character from `at` on is one of a word. */
static attn_status is_word(const attn_tokenizer *t, attn__work *w, const char *text, size_t size,
                           size_t at, bool *yes, attn_error *err)
{
    size_t n = attn__utf8_size((unsigned char)text[at]);
    attn__search s = {text + at, n <= size - at ? n : size - at, 0, false, 0, 0};

    return attn__pattern_next(t->word, w->matcher, &s, yes, err);
}

static attn_status stands_alone(const attn_tokenizer *t, attn__work *w, const char *text,
                                size_t size, size_t start, size_t end, bool *alone, attn_error *err)
{
    bool before = false, after = false;
    size_t at = start;

    if (start > 0) {
        do
            at--;
        while ((unsigned char)text[at] >> 6 == 2);
        TRY(is_word(t, w, text, size, at, &before, err));
    }
    if (end < size)
        TRY(is_word(t, w, text, size, end, &after, err));
    *alone = !before && !after;
    return ATTN_OK;
}

/* White space around a match that belongs to it; `done`: where the last one ended. `space` is white
 * space known from earlier calls: a token of spaces shall not walk the same ones each time. */
static void widen(const attn__added *token, const char *text, size_t size, size_t done,
                  size_t space[2], size_t *start, size_t *end)
{
    const unsigned char *s = (const unsigned char *)text;
    uint32_t code;
    size_t n;

    while (token->left && *start > done) {
        for (n = 1; s[*start - n] >> 6 == 2;)
            n++;
        attn__utf8_get(s + *start - n, n, &code);
        if (!attn__is_space(code))
            break;
        *start -= n;
    }
    if (token->right && (*end < space[0] || *end > space[1]))
        space[0] = space[1] = *end;
    else if (token->right)
        *end = space[1];
    while (token->right && *end < size) {
        n = attn__utf8_get(s + *end, size - *end, &code);
        if (!attn__is_space(code))
            break;
        space[1] = *end += n;
    }
}

static attn_status add_text(attn__work *w, size_t base, size_t from, size_t to,
                            const attn__span *like, attn_error *err)
{
    attn__span span = {base + from, to - from,
                       ATTN__NONE,  like->first && from == 0,
                       like->raw,   like->joined && from == 0};

    return attn__work_span(w, &span, err);
}

attn_status attn__cut_added(const attn_tokenizer *t, const attn__tree *tree, attn__work *w,
                            const char *text, size_t size, size_t base, const attn__span *like,
                            bool specials, attn_error *err)
{
    const attn__added *added = t->added.data;
    size_t done = 0, next, end = 0, space[2] = {0, 0};

    for (size_t at = 0; tree->any && at < size; at = next) {
        attn__span span = {0, 0, ATTN__NONE, false, false, false};
        size_t start = at;
        bool taken = true;
        uint32_t place = ATTN__NONE;
        next = at + 1;
        if (tree->starts[(unsigned char)text[at]])
            place = longest(tree, text, size, at, &end);
        if (place == ATTN__NONE)
            continue;
        next = end;
        if (added[place].special && !specials)
            continue;
        if (added[place].single_word)
            TRY(stands_alone(t, w, text, size, start, end, &taken, err));
        if (!taken)
            continue;
        widen(&added[place], text, size, done, space, &start, &end);
        if (start > done)
            TRY(add_text(w, base, done, start, like, err));
        span.id = added[place].id;
        span.start = base + start;
        TRY(attn__work_span(w, &span, err));
        done = end;
    }
    return done < size ? add_text(w, base, done, size, like, err) : ATTN_OK;
}
