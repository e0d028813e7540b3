/* scene.c: see scene.h. */
#include "tests/scene.h"

#include "tests/ref.h"

arena scene_mem;

attn_view scene_uniform(scene *s, attn_type type, int64_t b, int64_t h, int64_t n, int64_t d)
{
    attn_view v = view_plain(&scene_mem, type, b, h, n, d);

    view_uniform(&v, &s->r, -1.5, 1.5);
    return v;
}

attn_type scene_wide(attn_type type)
{
    return type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
}

void scene_start(scene *s, void **state, attn_type type, const int64_t shape[7])
{
    int64_t b = shape[0], h = shape[1], hk = shape[2], tq = shape[3], tk = shape[4];

    arena_reset(&scene_mem);
    *s = (scene){.a = ATTN_FORWARD_ARGS_INIT, .m = ATTN_MASK_INIT};
    s->ctx = ctx_for(test_set(state), 2);
    s->r = rng_make(test_seed(), (uint64_t)(tq * 1000 + tk));
    s->a.q = scene_uniform(s, type, b, h, tq, shape[5]);
    s->a.k = scene_uniform(s, type, b, hk, tk, shape[5]);
    s->a.v = scene_uniform(s, type, b, hk, tk, shape[6]);
    s->a.out = view_plain(&scene_mem, scene_wide(type), b, h, tq, shape[6]);
    s->a.lse = view_plain(&scene_mem, scene_wide(type), b, h, tq, 1);
    s->a.mask = &s->m;
}

void scene_run(scene *s)
{
    attn_error err = {ATTN_OK, 0, ""};

    if (s->a.out.data)
        view_fill(&s->a.out, 77);
    CHECK_MSG(attn_forward(s->ctx, &s->a, &err) == ATTN_OK, "%s", err.text);
}

attn_view scene_result(scene *s)
{
    scene_run(s);
    return view_copy(&scene_mem, &s->r, &s->a.out, s->a.out.type, LAYOUT_BHSD);
}

void scene_within_bound(scene *s, const char *what)
{
    char why[300] = "";
    ref want;

    scene_run(s);
    ref_forward(&s->a, &want);
    int bad = ref_compare(&s->a, &want, NULL, why, sizeof why);
    ref_free(&want);
    CHECK_MSG(bad == 0, "%s: %d elements, %s", what, bad, why);
}

attn_view scene_keep_all(const scene *s)
{
    attn_view keep = view_plain(&scene_mem, ATTN_U8, s->a.q.size[0], s->a.q.size[1], s->a.q.size[2],
                                s->a.k.size[2]);

    view_fill(&keep, 1);
    return keep;
}

void scene_ask_for_weights(scene *s)
{
    s->a.weights = view_plain(&scene_mem, scene_wide(s->a.q.type), s->a.q.size[0], s->a.q.size[1],
                              s->a.q.size[2], s->a.k.size[2]);
}

int64_t scene_attended(const scene *s, int64_t i, int64_t *first)
{
    int64_t n = 0;

    for (int64_t j = s->a.k.size[2] - 1; j >= 0; j--)
        if (view_get(&s->a.weights, 0, 0, i, j) > 0)
            n++, *first = j;
    return n;
}

int row_is_plus_zero(const attn_view *v, int64_t h, int64_t i)
{
    attn_view row = view_part(v, 1, h, 1), zero;
    arena own = {0};

    row = view_part(&row, 2, i, 1);
    row = view_part(&row, 0, 0, 1);
    zero = view_plain(&own, v->type, 1, 1, 1, v->size[3]);
    view_fill(&zero, 0);
    int same = view_same_bits(&row, &zero);
    arena_reset(&own);
    return same;
}
