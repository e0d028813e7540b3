/* generate.c: attn_generate: which sources are decoded when, and what their rows of logits become.
 *
 * Sources are sorted by the room they need. A round has hypotheses of one length; within it sources
 * come in as others leave. An iteration:
 *
 *     some have left   the hypotheses that live move; sources are added, a first pass each few
 *     step             one row of logits for each hypothesis
 *     choose           each row's candidates, all workers
 *     advance          each source, in order: what lives on, what has ended
 *
 * Of many sources each worker takes a share and does all of this alone, in a lane of its own: that
 * is a crew. */
#include "src/nn/generator.h"
#include "src/nn/search.h"

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/pool.h"
#include "src/kernels/cpu.h"
#include "src/nn/call_args.h"
#include "src/nn/cut.h"
#include "src/nn/draw.h"
#include "src/core/each.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MORE_THAN_SOURCE = 50,
    WITHOUT_SOURCE = 256,
    FIRST_ROWS = 2048, /* of sources, or of what is given, in a first pass: they stay in caches */
    PART_FREE = 4,     /* sources are added when such a part of the room is free */
    LANE_ROWS = 8      /* hypotheses for which a lane is worth while */
};

/* A source and the room it needs. */
typedef struct entry {
    int64_t source, rows, keys, longest;
} entry;

/* What the lanes of a call share. */
typedef struct crew {
    const attn_ctx *ctx;  /* the generator's */
    pthread_mutex_t lock; /* of the caller's callbacks */
    atomic_bool stopped;  /* a lane has failed, the others shall end */
    atomic_size_t failed; /* the first that did; SIZE_MAX: none */
    atomic_size_t next;   /* lane that nobody has taken */
    struct member *member;
    size_t count;
} crew;

typedef struct job {
    attn_generator *g;
    crew *crew;  /* NULL: alone */
    size_t lane; /* of the crew */
    attn_batch batch;
    attn_generate_options o;
    attn__search_rules rules;
    bool has_encoder;

    entry *queue; /* sources, longest first */
    size_t queue_count;
    size_t next, end;            /* of this round those from next on */
    attn__search *active;        /* in the order of their hypotheses */
    size_t active_count, places; /* at most */
    void *sayings;
    attn__search *spare; /* those that are not active */
    size_t spare_count;
    size_t tokens;   /* room for keys of sources */
    attn__room room; /* of this round; the generator may have more */

    /* Of hypotheses: of which search; candidates; what they become. */
    int32_t *search_of, *within;
    attn__candidate *candidates;
    size_t each; /* candidates of a row */
    size_t *count;
    bool *fine;
    int32_t *masked;
    double *saved;
    size_t mask_room;
    int32_t *parents, *says;
    size_t lives;
    double *uniform;
    attn__drawing drawing;
    attn_hypothesis *found;
    double *of_given; /* log-probabilities of forced prefixes */
    int64_t *which;
} job;

/* --- Options -------------------------------------------------------------------------------- */

static attn_status check_tokens(const attn_generator *g, const int32_t *tokens, size_t *count,
                                const char *what, attn_error *err)
{
    if (!tokens)
        *count = 0;
    for (size_t i = 0; i < *count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= g->vocabulary)
            return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s[%zu]: %ld, expected 0 to %zu", what, i,
                              (long)tokens[i], g->vocabulary - 1);
    return ATTN_OK;
}

static attn_status check_number(int64_t x, int64_t low, int64_t high, const char *what,
                                attn_error *err)
{
    if (x < low || x > high)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: %lld, expected %lld to %lld", what,
                          (long long)x, (long long)low, (long long)high);
    return ATTN_OK;
}

static attn_status check_sampling(const attn_generator *g, attn_generate_options *o,
                                  attn_error *err)
{
    if (!o->sample && (o->temperature != 0 || o->top_k || o->top_p != 0))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "sample: 0, but temperature, top_k or top_p is given");
    o->temperature = o->temperature == 0 ? 1 : o->temperature;
    o->top_p = o->top_p == 0 ? 1 : o->top_p;
    if (!(o->temperature > 0 && isfinite(o->temperature)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "temperature: %g, expected more than 0",
                          o->temperature);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "top_p: %g, expected 0 < p <= 1", o->top_p);
    return check_number(o->top_k, 0, (int64_t)g->vocabulary, "top_k", err);
}

static attn_status check_options(const attn_generator *g, const attn_generate_options *from,
                                 attn_generate_options *o, attn_error *err)
{
    TRY(attn__take_struct(o, sizeof *o, from, "options", err));
    o->beam = o->beam ? o->beam : 1;
    TRY(check_number(o->beam, 1, g->options.hypotheses, "beam", err));
    o->best = o->sample ? o->beam : o->best ? o->best : 1;
    TRY(check_number(o->best, 1, o->beam, "best", err));
    TRY(check_number(o->penalty, ATTN_LENGTH_NONE, ATTN_LENGTH_POWER, "penalty", err));
    TRY(check_number(o->stop, ATTN_STOP_BOUND, ATTN_STOP_COUNT, "stop", err));
    if (!(o->alpha >= 0 && isfinite(o->alpha)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "alpha: %g, expected 0 or more", o->alpha);
    TRY(check_tokens(g, o->ends, &o->end_count, "ends", err));
    TRY(check_tokens(g, o->banned, &o->banned_count, "banned", err));
    TRY(check_number(o->longest, 0, INT32_MAX / 2, "longest", err));
    TRY(check_number(o->shortest, 0, INT32_MAX / 2, "shortest", err));
    TRY(check_number(o->no_repeat, 0, INT32_MAX / 2, "no_repeat", err));
    TRY(check_sampling(g, o, err));
    if (!o->done)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "done: NULL");
    if (o->token && o->beam > 1 && !o->sample)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "token: hypotheses of a beam of %lld change while they are made",
                          (long long)o->beam);
    return ATTN_OK;
}

/* --- The queue ------------------------------------------------------------------------------ */

/* The most tokens that a hypothesis of source i may have, of those that count. */
static attn_status set_longest(const job *j, int64_t i, entry *e, attn_error *err)
{
    const attn_model_config *c = &j->g->model->config;
    int64_t given = attn__given(&j->batch, i), before = j->has_encoder ? 0 : given, most;

    e->longest = j->o.longest;
    if (c->positions == ATTN_POSITIONS_LEARNED) {
        most = c->max_positions - c->position_offset - attn__rows_of(j->g, before);
        if (e->longest > most)
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "longest: %lld, the positions of sequence %lld end at %lld",
                              (long long)e->longest, (long long)i, (long long)most);
    } else {
        most = INT32_MAX / 2;
    }
    if (e->longest == 0) {
        e->longest = j->has_encoder ? e->keys + MORE_THAN_SOURCE : WITHOUT_SOURCE;
        if (j->has_encoder && e->longest < given)
            e->longest = given;
        if (e->longest > most)
            e->longest = most;
    }
    if (j->has_encoder && given > e->longest)
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "target: sequence %lld has %lld tokens, longest is %lld", (long long)i,
                          (long long)given, (long long)e->longest);
    e->rows = attn__rows_of(j->g, before + e->longest);
    return ATTN_OK;
}

static int longer_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    if (x->keys != y->keys)
        return x->keys > y->keys ? -1 : 1;
    return x->source < y->source ? -1 : x->source > y->source;
}

static attn_status make_queue(job *j, attn_error *err)
{
    size_t n = (size_t)j->batch.segments;

    j->queue = attn__alloc(j->g->ctx, n * sizeof *j->queue);
    if (!j->queue)
        return attn__fail(err, ATTN_E_MEMORY, 0, "batch: list of sources");
    for (size_t i = 0; i < n; i++) {
        entry *e = &j->queue[i];

        e->source = (int64_t)i;
        e->keys =
            j->batch.source_starts ? j->batch.source_starts[i + 1] - j->batch.source_starts[i] : 0;
        TRY(set_longest(j, (int64_t)i, e, err));
    }
    qsort(j->queue, n, sizeof *j->queue, longer_first);
    j->queue_count = n;
    return ATTN_OK;
}

/* --- Rounds --------------------------------------------------------------------------------- */

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Sources at a time, if each has the room that this one needs. */
static size_t places_of(const job *j, const entry *e)
{
    const attn_generator_options *o = &j->g->options;
    int64_t rows = o->positions / (e->rows > 0 ? e->rows : 1);

    return max((size_t)(rows < o->hypotheses ? rows : o->hypotheses) / j->rules.beam, 1);
}

/* The sources of a round: as many as go at a time, and more until one comes of which twice as many
 * would. (The end of a round is slow: few are left, and each step reads all weights for them.) */
static void choose_round(job *j)
{
    attn__room *room = &j->room;
    const entry *first = &j->queue[j->next];
    size_t n = j->queue_count, beam = j->rules.beam, sources = 0, rows = 0, wide = 0;
    size_t limit = (size_t)j->g->options.positions, places = places_of(j, first);

    *room = (attn__room){.length = (size_t)first->rows};
    for (j->end = j->next; j->end < n; j->end++) {
        const entry *e = &j->queue[j->end];
        size_t given = (size_t)attn__rows_of(j->g, attn__given(&j->batch, e->source));

        if (j->end - j->next >= places && places_of(j, e) >= 2 * places)
            break;
        sources += (size_t)e->keys;
        rows += given;
        room->longest_source = max(room->longest_source, (size_t)e->keys);
        room->longest_target = max(room->longest_target, given);
        wide = max(wide, (size_t)e->longest);
    }
    j->rules.room = (int64_t)wide;
    j->places = attn__min(places, j->end - j->next);
    j->tokens = attn__min(sources, max(limit, room->longest_source));
    room->hypotheses = j->places * beam;
    room->tokens = j->tokens;
    room->segments = j->places;
    room->source_tokens = attn__min(sources, max(FIRST_ROWS, room->longest_source));
    room->target_rows = attn__min(rows, max(FIRST_ROWS, room->longest_target));
}

/* Memory of a round; its bytes. */
static size_t lay_out(job *j, void *memory)
{
    attn__cursor c = {memory, 0};
    size_t rows = j->room.hypotheses, beam = j->rules.beam;
    size_t one = attn__search_size(&j->rules, NULL, NULL);
    char *sayings;

    j->active = attn__take(&c, j->places, 1, sizeof *j->active);
    j->spare = attn__take(&c, j->places, 1, sizeof *j->spare);
    j->rules.merged = attn__take(&c, 2, beam, sizeof *j->rules.merged);
    j->rules.by = attn__take(&c, 2, beam, sizeof *j->rules.by);
    j->search_of = attn__take(&c, rows, 1, sizeof *j->search_of);
    j->within = attn__take(&c, rows, 1, sizeof *j->within);
    j->candidates = attn__take(&c, rows, j->each, sizeof *j->candidates);
    j->count = attn__take(&c, rows, 1, sizeof *j->count);
    j->fine = attn__take(&c, rows, 1, sizeof *j->fine);
    j->mask_room =
        j->o.banned_count + j->o.end_count + (j->o.no_repeat ? (size_t)j->rules.room : 0);
    j->masked = attn__take(&c, rows, j->mask_room, sizeof *j->masked);
    j->saved = attn__take(&c, rows, j->mask_room, sizeof *j->saved);
    j->parents = attn__take(&c, rows, 1, sizeof *j->parents);
    j->says = attn__take(&c, rows, 1, sizeof *j->says);
    j->uniform = attn__take(&c, beam, 1, sizeof *j->uniform);
    j->drawing.list =
        attn__take(&c, j->o.sample ? j->g->vocabulary : 0, 1, sizeof *j->drawing.list);
    j->found = attn__take(&c, j->rules.best, 1, sizeof *j->found);
    j->of_given = attn__take(&c, j->room.target_rows, 1, sizeof *j->of_given);
    j->which = attn__take(&c, j->places, 1, sizeof *j->which);
    sayings = attn__take(&c, j->places, one, 1);
    for (size_t i = 0; memory && i < j->places; i++)
        attn__search_size(&j->rules, &j->spare[i], sayings + i * one);
    return c.at;
}

static attn_status open_round(job *j, attn_error *err)
{
    size_t size;

    choose_round(j);
    TRY(attn__generator_room(j->g, &j->room, err));
    size = lay_out(j, NULL);
    attn__free(j->g->ctx, j->sayings);
    j->sayings = size == SIZE_MAX ? NULL : attn__alloc(j->g->ctx, size);
    if (!j->sayings)
        return attn__fail(err, ATTN_E_MEMORY, 0, "search: no memory for %zu hypotheses",
                          j->room.hypotheses);
    lay_out(j, j->sayings);
    j->active_count = j->lives = 0;
    j->spare_count = j->places;
    return ATTN_OK;
}

/* --- Choosing ------------------------------------------------------------------------------- */

/* Tokens that would make n tokens in a row a second time. */
static size_t mask_repeats(const attn__saying *s, size_t n, int32_t *masked)
{
    size_t count = 0, said = (size_t)s->count;

    for (size_t i = 0; said >= n && i + n <= said; i++)
        if (memcmp(s->tokens + i, s->tokens + said - (n - 1), (n - 1) * sizeof *s->tokens) == 0)
            masked[count++] = s->tokens[i + n - 1];
    return count;
}

static attn__row row_of(const job *j, size_t i, const attn__search *s, const attn__saying *said)
{
    int32_t *masked = j->masked + i * j->mask_room;
    size_t count = j->o.banned_count;
    attn__row r = {.ctx = j->g->ctx,
                   .f64 = j->g->step.f64,
                   .x = attn__logit_row(j->g, i),
                   .n = j->g->vocabulary,
                   .masked = masked,
                   .saved = j->saved + i * j->mask_room};

    if (count > 0)
        memcpy(masked, j->o.banned, count * sizeof *masked);
    for (size_t e = 0; attn__search_early(&j->rules, s) && e < j->o.end_count; e++)
        masked[count++] = j->o.ends[e];
    if (j->o.no_repeat)
        count += mask_repeats(said, (size_t)j->o.no_repeat, masked + count);
    r.masked_count = count;
    return r;
}

/* Row i of the logits: the candidates of a hypothesis. */
static void choose_row(const void *arg, size_t i)
{
    const job *j = arg;
    const attn__search *s = &j->active[j->search_of[i]];
    attn__row r = row_of(j, i, s, &s->live[j->within[i]]);
    attn__candidate *best = j->candidates + i * j->each;

    if (!attn__search_full(s)) {
        j->fine[i] = attn__choose_best(&r, j->each, best, &j->count[i]);
        return;
    }
    j->count[i] = j->o.end_count > 0; /* it can only end */
    j->fine[i] = true;
    if (j->count[i]) {
        best->token = j->o.ends[0];
        j->fine[i] = attn__choose_given(&r, best->token, &best->log_probability);
    }
}

/* 53 bits. */
static double uniform(const job *j, int64_t source, const attn__saying *said, int64_t number)
{
    uint64_t of = (uint64_t)(j->batch.first_segment + source);
    uint32_t word[4] = {(uint32_t)said->count, (uint32_t)number, (uint32_t)of,
                        0x73616d70u ^ (uint32_t)(of >> 32)};

    attn__philox(word, j->o.seed);
    return (double)((uint64_t)word[0] << 21 | word[1] >> 11) * 0x1p-53;
}

static void draw_row(const job *j, size_t i)
{
    const attn__search *s = &j->active[j->search_of[i]];
    const attn__saying *said = &s->live[j->within[i]];
    attn__row r = row_of(j, i, s, said);
    attn__candidate *drawn = j->candidates + i * j->each;
    size_t n = s->fresh ? j->rules.beam : 1;

    j->fine[i] = true;
    j->count[i] = 0;
    for (size_t k = 0; k < n; k++)
        drawn[k].token = -1;
    if (attn__search_full(s))
        return;
    j->count[i] = n;
    for (size_t k = 0; k < n; k++)
        j->uniform[k] = uniform(j, s->source, said, s->fresh ? (int64_t)k : said->number);
    j->fine[i] = attn__choose_drawn(&r, &j->drawing, j->uniform, drawn, &j->count[i]);
}

/* The candidates of the first n rows of logits, those of the searches from `first` on. */
static attn_status choose(job *j, size_t first, attn_error *err)
{
    size_t n = 0;

    for (size_t a = first; a < j->active_count; a++)
        for (size_t b = 0; b < j->active[a].live_count; b++) {
            j->search_of[n] = (int32_t)a;
            j->within[n++] = (int32_t)b;
        }
    if (!j->o.sample)
        attn__each(j->g->ctx, n, 4 * n * j->g->vocabulary, choose_row, j);
    for (size_t i = 0; i < n; i++) {
        if (j->o.sample)
            draw_row(j, i);
        if (!j->fine[i])
            return attn__fail(err, ATTN_E_ARGUMENT, 0,
                              "model: logits of sequence %lld are not numbers",
                              (long long)j->active[j->search_of[i]].source);
    }
    return ATTN_OK;
}

/* --- Advancing ------------------------------------------------------------------------------ */

/* Lane i has failed, or was told to stop; of several the first is what the call fails with. */
static void stop_crew(crew *c, size_t i)
{
    size_t none = SIZE_MAX;

    atomic_compare_exchange_strong(&c->failed, &none, i);
    atomic_store(&c->stopped, true);
}

/* Callbacks of a crew come one at a time, and none once it is stopped. */
static bool begin_callback(crew *c)
{
    if (!c)
        return true;
    pthread_mutex_lock(&c->lock);
    if (!atomic_load(&c->stopped))
        return true;
    pthread_mutex_unlock(&c->lock);
    return false;
}

static void end_callback(crew *c, size_t lane, int stops)
{
    if (c && stops)
        stop_crew(c, lane);
    if (c)
        pthread_mutex_unlock(&c->lock);
}

static attn_status cancelled(const char *callback, attn_error *err)
{
    return attn__fail(err, ATTN_E_CANCELLED, 0, "%s: the callback asked to stop", callback);
}

static attn_status hand_out(job *j, const attn__search *s, attn_error *err)
{
    int stops;

    for (size_t i = 0; i < s->ended_count; i++) {
        const attn__saying *e = &s->ended[i];
        j->found[i] = (attn_hypothesis){.tokens = e->tokens,
                                        .count = e->count,
                                        .end = e->end,
                                        .score = e->score,
                                        .log_probability = e->sum,
                                        .of_tokens = e->of_tokens};
    }
    if (!begin_callback(j->crew))
        return ATTN_E_CANCELLED;
    stops = j->o.done(j->o.user, s->source, j->found, s->ended_count);
    end_callback(j->crew, j->lane, stops);
    return stops ? cancelled("done", err) : ATTN_OK;
}

/* What hypotheses say, where nothing of it will change. */
static attn_status tell(const job *j, const attn__search *s, const attn__candidate *from,
                        const size_t *count, attn_error *err)
{
    size_t n = s->fresh ? j->rules.beam : s->live_count;

    for (size_t i = 0; j->o.token && i < n; i++) {
        const attn__candidate *x = &from[s->fresh ? i : i * j->each];
        int64_t number = s->fresh ? (int64_t)i : s->live[i].number;
        int stops;

        if (count[s->fresh ? 0 : i] == 0)
            continue;
        if (!begin_callback(j->crew))
            return ATTN_E_CANCELLED;
        stops = j->o.token(j->o.user, s->source, number, x->token);
        end_callback(j->crew, j->lane, stops);
        if (stops)
            return cancelled("token", err);
    }
    return ATTN_OK;
}

/* One search takes its candidates, of rows from `row` on, whose hypotheses are numbers from
 * `hypothesis` on. */
static attn_status advance_one(job *j, attn__search *s, size_t row, size_t hypothesis,
                               attn_error *err)
{
    const attn__candidate *from = j->candidates + row * j->each;
    int32_t *parents = j->parents + j->lives, *says = j->says + j->lives;

    TRY(tell(j, s, from, j->count + row, err));
    if (j->o.sample)
        attn__search_draw(&j->rules, s, from, j->each, parents, says);
    else
        attn__search_advance(&j->rules, s, from, j->each, j->count + row, parents, says);
    for (size_t i = 0; i < s->live_count; i++)
        parents[i] += (int32_t)hypothesis;
    j->lives += s->live_count;
    return s->done ? hand_out(j, s, err) : ATTN_OK;
}

/* All searches from `first` on, whose hypotheses are numbers from `hypothesis` on; those that are
 * done leave. */
static attn_status advance(job *j, size_t first, size_t hypothesis, attn_error *err)
{
    size_t kept = first, row = 0;

    for (size_t a = first; a < j->active_count; a++) {
        attn__search s = j->active[a];
        size_t rows = s.live_count;

        TRY(advance_one(j, &s, row, hypothesis + row, err));
        row += rows;
        if (s.done)
            j->spare[j->spare_count++] = s;
        else
            j->active[kept++] = s;
    }
    j->active_count = kept;
    return ATTN_OK;
}

/* --- Coming in ------------------------------------------------------------------------------ */

/* How many of the queue fit into the next first pass. */
static size_t fitting(const job *j, size_t held)
{
    const attn__room *room = &j->room;
    size_t n = 0, keys = 0, rows = 0;

    size_t free =
        j->g->memory.hypotheses - j->g->memory.count; /* some may be of sources that left */

    for (; j->next + n < j->end && n < attn__min(attn__min(free, j->spare_count), room->segments);
         n++) {
        const entry *e = &j->queue[j->next + n];
        keys += (size_t)e->keys;
        rows += (size_t)attn__rows_of(j->g, attn__given(&j->batch, e->source));
        if (held + keys > j->tokens || keys > room->source_tokens || rows > room->target_rows)
            break;
    }
    return n;
}

static size_t keys_held(const job *j)
{
    size_t keys = 0;

    for (size_t a = 0; j->has_encoder && a < j->active_count; a++) {
        int64_t s = j->active[a].source;
        keys += (size_t)(j->batch.source_starts[s + 1] - j->batch.source_starts[s]);
    }
    return keys;
}

/* The next n sources: a first pass, and what they begin with. */
static attn_status add(job *j, size_t n, attn_error *err)
{
    size_t first = j->active_count, hypothesis = j->g->memory.count;
    double *of_given = j->has_encoder && j->batch.target_starts ? j->of_given : NULL;

    for (size_t i = 0; i < n; i++)
        j->which[i] = j->queue[j->next + i].source;
    TRY(attn__generator_add(j->g, &j->batch, j->which, n, of_given, err));
    for (size_t i = 0; i < n; i++) {
        const entry *e = &j->queue[j->next++];
        int64_t given = of_given ? attn__given(&j->batch, e->source) : 0;
        attn__search *s = &j->active[j->active_count++];

        *s = j->spare[--j->spare_count];
        attn__search_open(&j->rules, s, e->source, e->longest,
                          given ? j->batch.target + j->batch.target_starts[e->source] : NULL,
                          of_given, given);
        of_given = of_given ? of_given + given : NULL;
    }
    TRY(choose(j, first, err));
    return advance(j, first, hypothesis, err);
}

/* Sources come in while there is room for them. */
static attn_status refill(job *j, attn_error *err)
{
    size_t n, held = keys_held(j);

    if (j->next == j->end || (j->active_count > 0 && j->spare_count * PART_FREE < j->places))
        return ATTN_OK;
    attn__generator_move(j->g, j->parents, j->lives);
    for (size_t i = 0; i < j->lives; i++)
        j->parents[i] = (int32_t)i;
    while ((n = fitting(j, held)) > 0) {
        TRY(add(j, n, err));
        held = keys_held(j);
    }
    return ATTN_OK;
}

static attn_status run_round(job *j, attn_error *err)
{
    for (;;) {
        size_t n;

        if (j->crew && atomic_load(&j->crew->stopped))
            return ATTN_E_CANCELLED;
        TRY(refill(j, err));
        if (j->lives == 0 && j->next == j->end)
            return ATTN_OK;
        n = j->lives;
        j->lives = 0;
        TRY(attn__generator_advance(j->g, j->parents, j->says, n, err));
        TRY(choose(j, 0, err));
        TRY(advance(j, 0, 0, err));
    }
}

static attn_status run(job *j, attn_error *err)
{
    attn_status st = ATTN_OK;

    while (st == ATTN_OK && j->next < j->queue_count) {
        st = open_round(j, err);
        if (st == ATTN_OK)
            st = run_round(j, err);
    }
    if (j->g->memory.block)
        attn__memory_clear(&j->g->memory);
    attn__free(j->g->ctx, j->sayings);
    return st;
}

/* --- A crew --------------------------------------------------------------------------------- */

typedef struct member {
    job job;
    attn_status status;
    attn_error err;
} member;

/* Lanes for a call: one, or as many as there are workers. The lanes share the generator's room, in
 * which each has some hypotheses and at least the longest source. */
static size_t lanes_for(const job *j)
{
    const attn_generator_options *o = &j->g->options;
    size_t threads = (size_t)j->g->ctx->threads, beam = j->rules.beam;
    size_t longest = beam * max((size_t)j->queue->rows, 1);

    if ((size_t)o->hypotheses / max(beam, LANE_ROWS) < threads ||
        (size_t)o->positions / longest < threads || j->queue_count < threads ||
        j->queue_count * beam / LANE_ROWS < threads)
        return 1;
    return threads;
}

static int crew_progress(void *user, uint64_t done, uint64_t total)
{
    member *m = user;
    crew *c = m->job.crew;
    int stops = 1;

    if (begin_callback(c)) {
        stops = c->ctx->progress(c->ctx->progress_user, done, total);
        end_callback(c, m->job.lane, stops);
    }
    return stops;
}

/* Lane i of n: of the sorted sources every n-th. */
static void prepare_member(const job *j, crew *c, size_t i, size_t n, entry *queue)
{
    attn__lane *lane = &j->g->lanes[i];
    job *mine = &c->member[i].job;

    lane->ctx.progress = c->ctx->progress ? crew_progress : NULL;
    lane->ctx.progress_user = &c->member[i];
    lane->generator.options.hypotheses = j->g->options.hypotheses / (int64_t)n;
    lane->generator.options.positions = j->g->options.positions / (int64_t)n;
    *mine = *j;
    mine->g = &lane->generator;
    mine->crew = c;
    mine->lane = i;
    mine->queue = queue;
    mine->queue_count = 0;
    for (size_t k = i; k < j->queue_count; k += n)
        queue[mine->queue_count++] = j->queue[k];
}

static void work(void *arg, size_t worker)
{
    crew *c = arg;
    size_t i;

    (void)worker;
    while ((i = atomic_fetch_add(&c->next, 1)) < c->count) {
        member *m = &c->member[i];
        uint64_t word = attn__fp_default();

        m->status = run(&m->job, &m->err);
        attn__fp_restore(word);
        if (m->status != ATTN_OK)
            stop_crew(c, i); /* of no effect if another lane's failure ended this one */
    }
}

static attn_status run_crew(job *j, size_t lanes, attn_error *err)
{
    crew c = {.ctx = j->g->ctx, .lock = PTHREAD_MUTEX_INITIALIZER, .count = lanes};
    entry *queue = attn__alloc(c.ctx, j->queue_count * sizeof *queue), *at = queue;
    attn_status st = ATTN_OK;
    size_t failed;

    c.member = attn__new(c.ctx, lanes * sizeof *c.member);
    atomic_init(&c.failed, SIZE_MAX);
    if (!queue || !c.member) {
        attn__free(c.ctx, queue);
        attn__free(c.ctx, c.member);
        return attn__fail(err, ATTN_E_MEMORY, 0, "batch: shares of sources");
    }
    for (size_t i = 0; i < lanes; i++) {
        prepare_member(j, &c, i, lanes, at);
        at += c.member[i].job.queue_count;
    }
    attn__parallel(c.ctx, lanes, work, &c);
    for (size_t i = 0; i < lanes; i++)
        j->g->lanes[i].ctx.progress = NULL;
    pthread_mutex_destroy(&c.lock);
    failed = atomic_load(&c.failed);
    if (failed != SIZE_MAX)
        st = c.member[failed].status;
    if (failed != SIZE_MAX && err)
        *err = c.member[failed].err;
    attn__free(c.ctx, queue);
    attn__free(c.ctx, c.member);
    return st;
}

attn_status attn_generate(attn_generator *g, const attn_batch *batch,
                          const attn_generate_options *options, attn_error *err)
{
    job j = {.g = g};
    int64_t longest_source, longest_target;
    uint64_t word;
    attn_status st;
    size_t lanes;

    if (!g)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "generator: NULL");
    TRY(check_options(g, options, &j.o, err));
    TRY(attn__generator_batch(g, batch, &j.batch, &longest_source, &longest_target, err));
    TRY(attn__generator_begins(g, &j.batch, err));
    j.has_encoder = g->model->encoder.present;
    j.rules.o = &j.o;
    j.rules.beam = (size_t)j.o.beam;
    j.rules.best = (size_t)j.o.best;
    j.each = j.o.sample ? j.rules.beam : attn__min(2 * j.rules.beam, g->vocabulary);
    j.drawing.temperature = j.o.temperature;
    j.drawing.top_p = j.o.top_p;
    j.drawing.top_k = (size_t)j.o.top_k;
    g->limit = -1;
    word = attn__fp_default();
    st = make_queue(&j, err);
    lanes = st == ATTN_OK ? lanes_for(&j) : 1;
    if (lanes > 1)
        st = attn__generator_lanes(g, lanes, err);
    if (st == ATTN_OK)
        st = lanes > 1 ? run_crew(&j, lanes, err) : run(&j, err);
    attn__fp_restore(word);
    attn__free(g->ctx, j.queue);
    return st;
}
