/* law.c: see law.h. */
#include "tests/law.h"

enum { TRIALS = 40 };

static const law_entry *all_laws;

result law_run(law *x, const attn_forward_args *call)
{
    attn_forward_args args = *call;
    arena *a = &x->t.memory;
    attn_type wide = args.q.type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    const int64_t *n = args.q.size;
    attn_error err = {0};
    result r;

    r.out = view_plain(a, x->t.args.out.type, n[0], n[1], n[2], args.v.size[3]);
    r.lse = view_plain(a, wide, n[0], n[1], n[2], 1);
    args.out = r.out;
    args.lse = r.lse;
    if (attn_forward(x->ctx, &args, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return r;
}

void law_same(const law *x, const result *a, const result *b)
{
    char text[600];

    if (view_same_bits(&a->out, &b->out) && view_same_bits(&a->lse, &b->lse))
        return;
    trial_describe(&x->t, text, sizeof text);
    fail_msg("%s differs: %s", view_same_bits(&a->lse, &b->lse) ? "out" : "lse", text);
}

attn_view law_turned(attn_view v, int dimension)
{
    if (v.data && v.size[dimension] > 1)
        v.data = ref_at(&v, dimension == 0 ? v.size[0] - 1 : 0, dimension == 1 ? v.size[1] - 1 : 0,
                        dimension == 2 ? v.size[2] - 1 : 0, 0);
    v.stride[dimension] = -v.stride[dimension];
    return v;
}

static void check_law(void **state)
{
    size_t which = test_index(state);

    for (uint64_t index = 0; index < TRIALS; index++) {
        uint64_t number = which * 1000 + index;
        rng r = rng_make(test_seed() ^ UINT64_C(0x6C617773), number);
        uint32_t draw = (uint32_t)rng_next(&r) & (uint32_t)rng_next(&r);
        law x;

        /* The first trial has nothing but the law needs; in the others an option is there in one of
         * four. */
        draw = index ? all_laws[which].may & draw : 0;
        trial_make(&x.t, test_seed(), number, draw | all_laws[which].always,
                   index % 4 == 3 ? GEN_LOGITS_20 : GEN_BELL);
        x.ctx = ctx_for(test_set(state), 1 + (int)(index % 3));
        all_laws[which].check(&x);
        trial_free(&x.t);
    }
}

int law_main(int argc, char **argv, const law_entry *laws, size_t n)
{
    test_case tests[64];

    assert_true(n <= sizeof tests / sizeof *tests);
    all_laws = laws;
    for (size_t i = 0; i < n; i++)
        tests[i] = (test_case){laws[i].name, check_law, 1};
    return test_main(argc, argv, tests, n);
}
