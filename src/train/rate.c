/* rate.c: learning rates by step. */
#include "include/attn/train.h"

#include "src/base/error.h"

#include <math.h>

static double cosine(const attn_schedule *s, double t, double w)
{
    const double pi = 3.14159265358979323846;
    double whole = (double)s->steps;

    if (t < w)
        return s->rate * t / w;
    if (t >= whole)
        return s->last;
    return s->last + (s->rate - s->last) * 0.5 * (1 + cos(pi * (t - w) / (whole - w)));
}

static double rate_at(const attn_schedule *s, double t)
{
    double w = (double)s->warmup, least = w < 1 ? 1 : w;

    switch (s->kind) {
    case ATTN_SCHEDULE_NOAM:
        return s->rate / sqrt((double)s->d) * fmin(1 / sqrt(t), t / (least * sqrt(least)));
    case ATTN_SCHEDULE_INVERSE_SQRT:
        return s->rate * (t < least ? t / least : sqrt(least / t));
    case ATTN_SCHEDULE_COSINE:
        return cosine(s, t, w);
    default:
        return t < w ? s->rate * t / w : s->rate;
    }
}

attn_status attn_schedule_rate(const attn_schedule *s, int64_t step, double *rate, attn_error *err)
{
    if (!s || !rate)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "%s: NULL", s ? "rate" : "schedule");
    if ((unsigned)s->kind > ATTN_SCHEDULE_COSINE)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "schedule: kind %d", (int)s->kind);
    if (step < 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "step: %lld, expected 1 or more",
                          (long long)step);
    if (!(s->rate >= 0 && s->rate < HUGE_VAL) || s->warmup < 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "schedule: rate %g, warmup %lld", s->rate,
                          (long long)s->warmup);
    if (s->kind == ATTN_SCHEDULE_NOAM && s->d < 1)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "schedule: d is %lld", (long long)s->d);
    if (s->kind == ATTN_SCHEDULE_COSINE &&
        (s->steps <= s->warmup || !(s->last >= 0 && s->last < HUGE_VAL)))
        return attn__fail(err, ATTN_E_ARGUMENT, 0,
                          "schedule: %lld steps, warmup %lld, last rate %g", (long long)s->steps,
                          (long long)s->warmup, s->last);
    *rate = rate_at(s, (double)step);
    return ATTN_OK;
}
