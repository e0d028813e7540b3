/* search.c: see search.h; the rules are in generate.h. */
#include "src/nn/search.h"

#include "src/nn/cut.h"

#include <math.h>
#include <string.h>

/* --- Memory --------------------------------------------------------------------------------- */

size_t attn__search_size(const attn__search_rules *r, attn__search *s, void *memory)
{
    size_t ended = r->o->sample ? r->beam : r->best, all = 2 * r->beam + ended;
    size_t room = (size_t)r->room;
    attn__cursor c = {memory, 0};
    attn__saying *said = attn__take(&c, all, 1, sizeof *said);

    for (size_t i = 0; i < all && c.at != SIZE_MAX; i++) {
        int32_t *tokens = attn__take(&c, room, 1, sizeof *tokens);
        double *of_tokens = attn__take(&c, room + 1, 1, sizeof *of_tokens);
        if (memory)
            said[i] = (attn__saying){.tokens = tokens, .of_tokens = of_tokens};
    }
    if (memory) {
        s->live = said;
        s->next = said + r->beam;
        s->ended = said + 2 * r->beam;
    }
    return c.at;
}

static void copy_saying(attn__saying *to, const attn__saying *from)
{
    to->count = from->count;
    to->end = from->end;
    to->sum = from->sum;
    to->score = from->score;
    to->number = from->number;
    memcpy(to->tokens, from->tokens, (size_t)from->count * sizeof *to->tokens);
    memcpy(to->of_tokens, from->of_tokens, (size_t)from->count * sizeof *to->of_tokens);
}

void attn__search_open(const attn__search_rules *r, attn__search *s, int64_t source,
                       int64_t longest, const int32_t *given, const double *of_given, int64_t count)
{
    attn__saying *first = &s->live[0];

    s->source = source;
    s->longest = longest;
    s->live_count = 1;
    s->ended_count = s->ended_ever = 0;
    s->fresh = r->o->sample;
    s->done = false;
    first->count = count;
    first->end = -1;
    first->sum = first->score = 0;
    first->number = 0;
    for (int64_t i = 0; i < count; i++) {
        first->tokens[i] = given[i];
        first->of_tokens[i] = of_given[i];
        first->sum += of_given[i];
    }
}

/* --- Rules ---------------------------------------------------------------------------------- */

bool attn__search_full(const attn__search *s)
{
    return s->live[0].count >= s->longest;
}

bool attn__search_early(const attn__search_rules *r, const attn__search *s)
{
    return s->live[0].count < r->o->shortest;
}

bool attn__is_end(const attn_generate_options *o, int32_t token)
{
    for (size_t i = 0; i < o->end_count; i++)
        if (o->ends[i] == token)
            return true;
    return false;
}

/* What the log-probability of a hypothesis of so many tokens is divided by. */
static double penalty(const attn_generate_options *o, int64_t tokens, bool ended)
{
    double length = (double)(tokens + (ended && o->end_counted));

    if (o->penalty == ATTN_LENGTH_GNMT)
        return pow((5 + length) / 6, o->alpha);
    if (o->penalty == ATTN_LENGTH_POWER && length > 0)
        return pow(length, o->alpha);
    return 1;
}

/* --- Endings -------------------------------------------------------------------------------- */

/* Places a saying among those that have ended, if it is good enough: after its equals. */
static void keep(const attn__search_rules *r, attn__search *s, const attn__saying *from,
                 const attn__candidate *end)
{
    double sum = from->sum + (end ? end->log_probability : 0);
    double score = sum / penalty(r->o, from->count, end);
    size_t i = s->ended_count;
    attn__saying last;

    s->ended_ever++;
    if (i == r->best && !(score > s->ended[i - 1].score))
        return;
    if (i == r->best)
        i--;
    else
        s->ended_count++;
    last = s->ended[i];
    for (; i > 0 && score > s->ended[i - 1].score; i--)
        s->ended[i] = s->ended[i - 1];
    s->ended[i] = last;
    copy_saying(&s->ended[i], from);
    s->ended[i].end = end ? end->token : -1;
    s->ended[i].sum = sum;
    s->ended[i].score = score;
    if (end)
        s->ended[i].of_tokens[from->count] = end->log_probability;
}

/* Drops the hypotheses that cannot come to beat the last that is kept, which are the last ones.
 * They would take no place from others: what follows from them has a lower sum than all that
 * matters. */
static void drop_hopeless(const attn__search_rules *r, attn__search *s)
{
    double most = penalty(r->o, s->longest, r->o->end_count > 0);

    while (s->live_count > 0 && s->ended_count == r->best &&
           s->live[s->live_count - 1].sum / most <= s->ended[r->best - 1].score)
        s->live_count--;
}

/* --- Beam search ---------------------------------------------------------------------------- */

/* Whether a candidate of hypothesis b comes before number i of the merged. */
static bool comes_before(const attn__search_rules *r, double sum, size_t b, int32_t token, size_t i)
{
    const attn__candidate *other = &r->merged[i];

    if (sum != other->log_probability)
        return sum > other->log_probability;
    return (size_t)r->by[i] == b && token < other->token;
}

/* The best 2 beam of all candidates, best first; of equals the first hypothesis, then token. Those
 * of a hypothesis come in this order. */
static size_t merge(const attn__search_rules *r, const attn__search *s, const attn__candidate *from,
                    size_t each, const size_t *count)
{
    size_t n = 0, most = 2 * r->beam;

    for (size_t b = 0; b < s->live_count; b++)
        for (size_t c = 0; c < count[b]; c++) {
            const attn__candidate *x = &from[b * each + c];
            double sum = s->live[b].sum + x->log_probability;
            size_t i;

            if (n == most && !comes_before(r, sum, b, x->token, most - 1))
                break;
            i = n < most ? n++ : most - 1;
            for (; i > 0 && comes_before(r, sum, b, x->token, i - 1); i--) {
                r->merged[i] = r->merged[i - 1];
                r->by[i] = r->by[i - 1];
            }
            r->merged[i] = (attn__candidate){sum, x->token};
            r->by[i] = (int32_t)b;
        }
    return n;
}

/* The log-probability of a merged candidate: the sum hides it. */
static attn__candidate original(const attn__candidate *from, size_t each, size_t b, int32_t token)
{
    const attn__candidate *x = from + b * each;

    while (x->token != token)
        x++;
    return *x;
}

static void say(attn__saying *to, const attn__saying *from, const attn__candidate *next)
{
    copy_saying(to, from);
    to->tokens[to->count] = next->token;
    to->of_tokens[to->count++] = next->log_probability;
    to->sum += next->log_probability;
}

static void swap_live(attn__search *s, size_t count)
{
    attn__saying *old = s->live;

    s->live = s->next;
    s->next = old;
    s->live_count = count;
}

/* At the longest, where no token ends, or where none is left: everything is cut off. */
static void cut_off(const attn__search_rules *r, attn__search *s)
{
    for (size_t b = 0; b < s->live_count; b++)
        keep(r, s, &s->live[b], NULL);
    s->live_count = 0;
    s->done = true;
}

void attn__search_advance(const attn__search_rules *r, attn__search *s, const attn__candidate *from,
                          size_t each, const size_t *count, int32_t *parents, int32_t *tokens)
{
    size_t n, lives = 0;

    if (attn__search_full(s) && r->o->end_count == 0) {
        cut_off(r, s);
        return;
    }
    n = merge(r, s, from, each, count);
    if (n == 0) {
        cut_off(r, s);
        return;
    }
    for (size_t i = 0; i < n && (i < r->beam || lives < r->beam); i++) {
        size_t b = (size_t)r->by[i];
        attn__candidate x = original(from, each, b, r->merged[i].token);

        if (attn__is_end(r->o, x.token)) {
            if (i < r->beam)
                keep(r, s, &s->live[b], &x);
        } else if (lives < r->beam) {
            parents[lives] = (int32_t)b;
            tokens[lives] = x.token;
            say(&s->next[lives++], &s->live[b], &x);
        }
    }
    swap_live(s, lives);
    if (r->beam > 1 && r->o->stop == ATTN_STOP_BOUND)
        drop_hopeless(r, s);
    else if (s->ended_ever >= r->beam)
        s->live_count = 0;
    s->done = s->live_count == 0;
}

/* --- Samples -------------------------------------------------------------------------------- */

static void keep_sample(const attn__search_rules *r, attn__search *s, const attn__saying *from,
                        const attn__candidate *end)
{
    attn__saying *to = &s->ended[from->number];

    copy_saying(to, from);
    if (end) {
        to->end = end->token;
        to->of_tokens[to->count] = end->log_probability;
        to->sum += end->log_probability;
    }
    to->score = to->sum / penalty(r->o, to->count, end);
    s->ended_count++;
}

void attn__search_draw(const attn__search_rules *r, attn__search *s, const attn__candidate *from,
                       size_t each, int32_t *parents, int32_t *tokens)
{
    size_t n = s->fresh ? r->beam : s->live_count, lives = 0;

    for (size_t i = 0; i < n; i++) {
        attn__saying *said = &s->live[s->fresh ? 0 : i];
        const attn__candidate *x = &from[s->fresh ? i : i * each];

        if (s->fresh)
            said->number = (int64_t)i;
        if (x->token < 0 || attn__is_end(r->o, x->token)) {
            keep_sample(r, s, said, x->token < 0 ? NULL : x);
            continue;
        }
        parents[lives] = s->fresh ? 0 : (int32_t)i;
        tokens[lives] = x->token;
        say(&s->next[lives++], said, x);
    }
    s->fresh = false;
    swap_live(s, lives);
    s->done = lives == 0;
}
