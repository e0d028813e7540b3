/* passes.c: what a trainer asks of its model. */
#include "src/train/trainer.h"

static int flags_of(const attn_trainer *t, bool training)
{
    if (!training)
        return 0;
    return ATTN_PASS_BACKWARD | ATTN_PASS_DROPOUT |
           (t->options.recompute ? ATTN_PASS_RECOMPUTE : 0);
}

attn_status attn__passes_plan(attn_trainer *t, attn_error *err)
{
    attn_batch_limits limits = ATTN_BATCH_LIMITS_INIT;
    attn_status st = ATTN_OK;

    limits.segments = t->limits.sequences;
    limits.source_tokens = t->limits.source_tokens;
    limits.target_tokens = t->limits.target_tokens;
    limits.longest_source = t->limits.longest_source;
    limits.longest_target = t->limits.longest_target;
    t->arena_size = 0;
    for (int training = 0; training < 2 && st == ATTN_OK; training++) {
        size_t bytes = 0;

        st = attn_model_plan(t->model, &limits, flags_of(t, training), &bytes, err);
        if (bytes > t->arena_size)
            t->arena_size = bytes;
    }
    return st;
}

attn_status attn__passes_forward(attn_trainer *t, bool training, uint64_t seed, attn_error *err)
{
    const attn__part *p = &t->part;

    t->batch = (attn_batch)ATTN_BATCH_INIT;
    t->batch.segments = p->sequences;
    if (t->encodes) {
        t->batch.source = p->source;
        t->batch.source_starts = p->source_starts;
    }
    t->batch.target = p->target;
    t->batch.target_starts = p->target_starts;
    t->batch.first_segment = p->first;
    t->pass = (attn_pass)ATTN_PASS_INIT;
    t->pass.batch = &t->batch;
    t->pass.flags = flags_of(t, training);
    t->pass.seed = seed;
    t->pass.arena = t->arena;
    t->pass.arena_size = t->arena_size;
    return attn_model_forward(t->model, &t->pass, err);
}
