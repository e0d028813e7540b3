/* choose_real.h: choose.c for one kind of number. */

/* NaN is passed over. */
static REAL C(largest)(const REAL *x, size_t n)
{
    REAL lane[LANES], top;
    size_t c = 0;

    for (size_t l = 0; l < LANES; l++)
        lane[l] = -(REAL)INFINITY;
    for (; c + LANES <= n; c += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = x[c + l] > lane[l] ? x[c + l] : lane[l];
    top = lane[0];
    for (size_t l = 1; l < LANES; l++)
        top = lane[l] > top ? lane[l] : top;
    for (; c < n; c++)
        top = x[c] > top ? x[c] : top;
    return top;
}

static void C(mask)(const attn__row *r)
{
    REAL *x = r->x;

    for (size_t i = 0; i < r->masked_count; i++) {
        r->saved[i] = (double)x[r->masked[i]];
        x[r->masked[i]] = -(REAL)INFINITY;
    }
}

/* From the last to the first: a token may be there twice. */
static void C(unmask)(const attn__row *r)
{
    REAL *x = r->x;

    for (size_t i = r->masked_count; i > 0; i--)
        x[r->masked[i - 1]] = (REAL)r->saved[i - 1];
}

/* ln of the sum of e^(x - top), top the largest; uses the row up. */
static double C(log_sum)(const attn__row *r)
{
    attn__row_goal goal = {1, 0, 0};
    attn__row_loss loss;

    r->ctx->kernels->TRAIN.cross_entropy(r->x, r->n, 0, &goal, false, &loss);
    return loss.sum >= 1 && isfinite(loss.sum) ? log(loss.sum) : (double)NAN;
}

/* The k largest logits, best first, as candidates whose log_probability is the logit. Few at a time
 * pass the last one: mostly a comparison for each word is all. */
static size_t C(select)(const attn__row *r, size_t k, attn__candidate *best)
{
    const REAL *x = r->x;
    REAL floor = -(REAL)INFINITY;
    size_t count = 0;

    for (size_t c = 0; k > 0 && c < r->n; c += TILE) {
        size_t n = attn__min(r->n - c, TILE);
        uint64_t allow = ~(uint64_t)0 >> (TILE - n);
        uint64_t above =
            r->ctx->kernels->STATS.find_above(x + c, 0, (n + 15) / 16 * 16, allow, floor);

        for (; above; above &= above - 1) {
            size_t at = c + lowest(above), i = count < k ? count++ : k - 1;

            if (count == k && !(x[at] > floor)) /* the floor has risen since */
                continue;
            for (; i > 0 && (double)x[at] > best[i - 1].log_probability; i--)
                best[i] = best[i - 1];
            best[i] = (attn__candidate){(double)x[at], (int32_t)at};
            if (count == k)
                floor = (REAL)best[k - 1].log_probability;
        }
    }
    return count;
}

/* All of them, sorted: for many. */
static size_t C(sort)(const attn__row *r, attn__candidate *list)
{
    const REAL *x = r->x;
    size_t count = 0;

    for (size_t c = 0; c < r->n; c++)
        if (x[c] > -(REAL)INFINITY)
            list[count++] = (attn__candidate){(double)x[c], (int32_t)c};
    qsort(list, count, sizeof *list, better_first);
    return count;
}

/* e^((x - top) / temperature) of a tile's words; returns how many words. */
static size_t C(tempered)(const attn__row *r, size_t c, REAL top, REAL factor, REAL *weight)
{
    const REAL *x = (const REAL *)r->x + c;
    size_t n = attn__min(r->n - c, TILE);

    for (size_t i = 0; i < n; i++)
        weight[i] = (x[i] - top) * factor;
    for (size_t i = n; i < TILE; i++)
        weight[i] = 0;
    r->ctx->kernels->CORE.weights(weight, 0, TILE, ~(uint64_t)0 >> (TILE - n), 0, 1);
    return n;
}

static double C(total)(const attn__row *r, REAL top, REAL factor)
{
    REAL weight[TILE];
    double sum = 0;

    for (size_t c = 0; c < r->n; c += TILE)
        for (size_t i = 0, n = C(tempered)(r, c, top, factor, weight); i < n; i++)
            sum += (double)weight[i];
    return sum;
}

/* The first word at which the weights reach `share`. */
static int32_t C(walk)(const attn__row *r, REAL top, REAL factor, double share)
{
    REAL weight[TILE];
    double sum = 0;
    size_t last = 0;

    for (size_t c = 0; c < r->n; c += TILE)
        for (size_t i = 0, n = C(tempered)(r, c, top, factor, weight); i < n; i++) {
            sum += (double)weight[i];
            last = weight[i] > 0 ? c + i : last;
            if (sum > share)
                return (int32_t)(c + i);
        }
    return (int32_t)last;
}

/* The words of which one is drawn, best first: top_k of them, then top_p of their mass. *mass is
 * that of those that are left. */
static size_t C(narrow)(const attn__row *r, const attn__drawing *d, REAL top, double *mass)
{
    size_t k = d->top_k ? attn__min(d->top_k, r->n) : r->n, count, least;
    double all = 0, sum = 0;

    if (k <= FEW || d->top_k == 0) {
        size_t n = attn__min(k, FEW);
        count = C(select)(r, n, d->list);
        if (d->top_k == 0)
            all = C(total)(r, top, (REAL)(1 / d->temperature));
    } else {
        count = attn__min(C(sort)(r, d->list), k);
    }
    for (size_t i = 0; d->top_k && i < count; i++)
        all += exp((d->list[i].log_probability - (double)top) / d->temperature);
    for (least = 0; least < count && (least == 0 || sum < d->top_p * all); least++)
        sum += exp((d->list[least].log_probability - (double)top) / d->temperature);
    if (d->top_k == 0 && least == count && count < r->n && sum < d->top_p * all) {
        count = C(sort)(r, d->list); /* a flat row: more than a few */
        for (sum = 0, least = 0; least < count && (least == 0 || sum < d->top_p * all); least++)
            sum += exp((d->list[least].log_probability - (double)top) / d->temperature);
    }
    *mass = sum;
    return least;
}

static int32_t C(pick)(const attn__drawing *d, size_t count, REAL top, double share)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        sum += exp((d->list[i].log_probability - (double)top) / d->temperature);
        if (sum > share)
            return d->list[i].token;
    }
    return d->list[count - 1].token;
}

/* The largest of all is the best, or one that is masked. */
static bool C(choose_best)(const attn__row *r, size_t k, attn__candidate *best, size_t *count)
{
    double top = -(double)INFINITY, norm;

    C(mask)(r);
    *count = C(select)(r, k, best);
    C(unmask)(r);
    for (size_t i = 0; i < r->masked_count; i++)
        top = r->saved[i] > top ? r->saved[i] : top;
    if (*count > 0 && best[0].log_probability > top)
        top = best[0].log_probability;
    norm = C(log_sum)(r);
    for (size_t i = 0; i < *count; i++)
        best[i].log_probability = best[i].log_probability - top - norm;
    return norm == norm;
}

static bool C(choose_drawn)(const attn__row *r, const attn__drawing *d, const double *uniform,
                            attn__candidate *drawn, size_t *count)
{
    const REAL *x = r->x;
    double whole = (double)C(largest)(r->x, r->n), norm, mass = 0;
    REAL top;
    size_t few = 0;

    C(mask)(r);
    top = C(largest)(r->x, r->n);
    if (!(top > -(REAL)INFINITY && top < (REAL)INFINITY)) {
        *count = 0;
        C(unmask)(r);
    } else if (d->top_k || d->top_p < 1) {
        few = C(narrow)(r, d, top, &mass);
    } else {
        mass = C(total)(r, top, (REAL)(1 / d->temperature));
    }
    for (size_t i = 0; i < *count; i++) {
        drawn[i].token = few ? C(pick)(d, few, top, uniform[i] * mass)
                             : C(walk)(r, top, (REAL)(1 / d->temperature), uniform[i] * mass);
        drawn[i].log_probability = (double)x[drawn[i].token];
    }
    if (*count > 0)
        C(unmask)(r);
    norm = C(log_sum)(r);
    for (size_t i = 0; i < *count; i++)
        drawn[i].log_probability = drawn[i].log_probability - whole - norm;
    return norm == norm;
}

static bool C(choose_given)(const attn__row *r, int32_t token, double *log_probability)
{
    double top = (double)C(largest)(r->x, r->n), x = (double)((const REAL *)r->x)[token];
    double norm = C(log_sum)(r);

    *log_probability = x - top - norm;
    return norm == norm;
}

#undef REAL
#undef C
#undef CORE
#undef STATS
#undef TRAIN
