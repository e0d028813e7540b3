/* tasks.c: sequences of the tasks that show that a model learns, drawn from a seed.
 *
 * Ids: 0 ends every source and target; symbols are 1 .. S; S + 1 is a blank. Whether a sequence is
 * trained on or held out is decided by its own hash, so that no held-out one was ever seen. */
#include <string.h>

#include "cli/console.h"
#include "cli/training.h"

typedef enum task { COPY, REVERSE, SORT, RECALL, COMPLETE } task;

enum { END = 0, MOST_SYMBOLS = 512 };

typedef struct draw_state {
    uint64_t state;
} draw_state;

static uint64_t next(draw_state *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* low .. high, both included. */
static int64_t pick(draw_state *r, int64_t low, int64_t high)
{
    return low + (int64_t)(next(r) % (uint64_t)(high - low + 1));
}

typedef struct example {
    int32_t source[2 * MOST_SYMBOLS + 4], target[MOST_SYMBOLS + 1];
    int64_t source_length, target_length;
} example;

static void sort_ids(int32_t *ids, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i; j > 0 && ids[j - 1] > ids[j]; j--) {
            int32_t swap = ids[j];

            ids[j] = ids[j - 1];
            ids[j - 1] = swap;
        }
}

/* Symbols in, the same in another order out. */
static void draw_sequence(example *e, task which, draw_state *r, int64_t symbols, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        e->source[i] = (int32_t)pick(r, 1, symbols);
    for (int64_t i = 0; i < n; i++)
        e->target[i] = e->source[which == REVERSE ? n - 1 - i : i];
    if (which == SORT)
        sort_ids(e->target, n);
    e->source[n] = e->target[n] = END;
    e->source_length = e->target_length = n + 1;
}

/* Hetero-associative: pairs of key and value, keys all different, then a key; out comes its value.
 */
static void draw_recall(example *e, draw_state *r, int64_t symbols, int64_t pairs)
{
    int32_t keys[MOST_SYMBOLS];
    int64_t asked = pick(r, 0, pairs - 1);

    for (int64_t i = 0; i < symbols; i++)
        keys[i] = (int32_t)(i + 1);
    for (int64_t i = 0; i < pairs; i++) {
        int64_t j = pick(r, i, symbols - 1);
        int32_t key = keys[j];

        keys[j] = keys[i];
        keys[i] = key;
        e->source[2 * i] = key;
        e->source[2 * i + 1] = (int32_t)pick(r, 1, symbols);
    }
    e->source[2 * pairs] = e->source[2 * asked];
    e->source[2 * pairs + 1] = END;
    e->source_length = 2 * pairs + 2;
    e->target[0] = e->source[2 * asked + 1];
    e->target[1] = END;
    e->target_length = 2;
}

/* Auto-associative: patterns of four symbols, then one of them with two blanks; out comes the whole
 * of it. Patterns differ in their first symbols, and in their third. */
static void draw_complete(example *e, draw_state *r, int64_t symbols, int64_t patterns)
{
    enum { WIDTH = 4 };
    int32_t blank = (int32_t)symbols + 1;
    int64_t asked = pick(r, 0, patterns - 1), side = pick(r, 0, 1), shift = pick(r, 0, symbols - 1);
    int32_t *cue = e->source + WIDTH * patterns;

    for (int64_t i = 0; i < patterns; i++) {
        e->source[WIDTH * i] = (int32_t)((i + shift) % symbols + 1);
        e->source[WIDTH * i + 1] = (int32_t)pick(r, 1, symbols);
        e->source[WIDTH * i + 2] = (int32_t)((2 * i + shift) % symbols + 1);
        e->source[WIDTH * i + 3] = (int32_t)pick(r, 1, symbols);
    }
    for (int64_t i = patterns - 1; i > 0; i--) { /* in any order */
        int64_t j = pick(r, 0, i);
        int32_t swap[WIDTH];

        memcpy(swap, e->source + WIDTH * i, sizeof swap);
        memcpy(e->source + WIDTH * i, e->source + WIDTH * j, sizeof swap);
        memcpy(e->source + WIDTH * j, swap, sizeof swap);
    }
    memcpy(e->target, e->source + WIDTH * asked, WIDTH * sizeof *cue);
    memcpy(cue, e->target, WIDTH * sizeof *cue);
    cue[2 * side] = cue[2 * side + 1] = blank;
    cue[WIDTH] = e->target[WIDTH] = END;
    e->source_length = WIDTH * patterns + WIDTH + 1;
    e->target_length = WIDTH + 1;
}

static uint64_t hash_of(const example *e)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (int64_t i = 0; i < e->source_length; i++)
        h = (h ^ (uint64_t)e->source[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

typedef struct task_numbers {
    task which;
    int64_t symbols, shortest, longest;
} task_numbers;

static void draw_example(example *e, const task_numbers *t, draw_state *r)
{
    int64_t n = pick(r, t->shortest, t->longest);

    if (t->which == RECALL)
        draw_recall(e, r, t->symbols, n);
    else if (t->which == COMPLETE)
        draw_complete(e, r, t->symbols, n);
    else
        draw_sequence(e, t->which, r, t->symbols, n);
}

/* `count` sequences, of those held out or of the others. */
static int draw_corpus(const task_numbers *t, int64_t count, int held_out, uint64_t seed,
                       attn_corpus *corpus)
{
    enum { HELD_OUT_OF = 16, TRIES = 100000 };
    example *e = cli_take(sizeof *e);
    draw_state r = {seed};
    size_t wide = (size_t)(t->which == COMPLETE ? 4 * t->longest + 5 : 2 * t->longest + 2);
    size_t room = (size_t)count * wide;
    int32_t *source = cli_take(room * sizeof *source), *target = cli_take(room * sizeof *target);
    int64_t *source_starts = cli_take(((size_t)count + 1) * sizeof *source_starts);
    int64_t *target_starts = cli_take(((size_t)count + 1) * sizeof *target_starts);

    for (int64_t i = 0; i < count; i++) {
        int64_t tries = 0;

        do {
            if (tries++ == TRIES)
                return cli_usage("these lengths and symbols leave no sequences to hold out");
            draw_example(e, t, &r);
        } while ((hash_of(e) % HELD_OUT_OF == 0) != held_out);
        memcpy(source + source_starts[i], e->source, (size_t)e->source_length * sizeof *source);
        memcpy(target + target_starts[i], e->target, (size_t)e->target_length * sizeof *target);
        source_starts[i + 1] = source_starts[i] + e->source_length;
        target_starts[i + 1] = target_starts[i] + e->target_length;
    }
    *corpus = (attn_corpus){count, source, source_starts, target, target_starts};
    return CLI_OK;
}

static int64_t integer(const cli_value *v, int64_t otherwise)
{
    return v->given ? v->integer : otherwise;
}

int train_make_task(const cli_value *o, train_data *data)
{
    static const int64_t shortest[] = {4, 4, 4, 2, 2}, longest[] = {16, 16, 16, 8, 6};
    task_numbers t = {.which = (task)o[TRAIN_TASK].integer};
    uint64_t seed = (uint64_t)integer(&o[TRAIN_SEED], 1) * 2 + 0x7a5c0000;
    int code;

    t.symbols = integer(&o[TRAIN_SYMBOLS], 20);
    t.shortest = integer(&o[TRAIN_SHORTEST], shortest[t.which]);
    t.longest =
        integer(&o[TRAIN_LONGEST], longest[t.which] > t.shortest ? longest[t.which] : t.shortest);
    if (t.shortest > t.longest)
        return cli_usage("--shortest is above --longest");
    if (t.which == RECALL && t.longest > t.symbols)
        return cli_usage("--task recall: %lld keys that differ want as many --symbols",
                         (long long)t.longest);
    if (t.which == COMPLETE && 2 * t.longest > t.symbols)
        return cli_usage("--task complete: %lld patterns want twice as many --symbols",
                         (long long)t.longest);
    data->vocabulary = t.symbols + 2;
    code = draw_corpus(&t, integer(&o[TRAIN_EXAMPLES], 50000), 0, seed, &data->corpus);
    if (code == CLI_OK)
        code = draw_corpus(&t, integer(&o[TRAIN_HELD_OUT], 500), 1, seed + 1, &data->held_out);
    return code;
}
