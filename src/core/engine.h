/* engine.h: the computation itself, for float and for double. */
#ifndef ATTN_CORE_ENGINE_H
#define ATTN_CORE_ENGINE_H

#include "src/core/layout.h"
#include "src/core/schedule.h"

#include <math.h>

typedef struct attn__job {
    const attn__problem *problem;
    const attn__layout *layout;
    attn__schedule schedule;
    char *scratch;                /* layout->scratch_size bytes for each worker */
    void *kept_max, *kept_factor; /* of each row, REAL, for a second sweep; or NULL */
} attn__job;

/* Bytes of a worker's scratch memory, and of the records of `splits` splits of `rows` rows. */
size_t attn__scratch_size(const attn__problem *p, const attn__layout *l);
size_t attn__record_size(const attn__problem *p, size_t splits, size_t rows);

/* Bytes a worker of the second sweep needs. */
size_t attn__stats_scratch(const attn__problem *p, const attn__layout *l);

/* Prepares a slot for a new head; an attn__schedule's open_slot. */
void attn__open_slot(const void *job, attn__slot *slot);

/* Works on the items of a job until none is left. */
void attn__engine_f32(attn__job *job, size_t worker);
void attn__engine_f64(attn__job *job, size_t worker);

/* From the final reference and sum of a row: what its output is multiplied by, and its log-sum-exp.
 * Sum 0: the row saw no key. max = -inf with a sum: only keys whose logits overflowed to -inf,
 * which no softmax can weigh: NaN. */
static inline float row_factor_f32(float max, float sum)
{
    return sum == 0 ? 0 : max == -INFINITY ? NAN : 1 / sum;
}

static inline double row_factor_f64(double max, double sum)
{
    return sum == 0 ? 0 : max == -(double)INFINITY ? (double)NAN : 1 / sum;
}

double attn__row_lse(double max, double sum);

/* ln x for x >= 0 (0 gives -inf, NaN gives NaN), within two units in the last place of a double. */
double attn__log(double x);

#endif
