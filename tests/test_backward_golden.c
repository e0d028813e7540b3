/* test_backward_golden.c: gradients that PyTorch computed in float64 (tests/golden/backward.py),
 * against the reference, and the library against them, in f64 and in f32 on every kernel set. */
#include "include/attn/io.h"
#include "tests/expect.h"
#include "tests/ref_backward.h"

#include <math.h>
#include <string.h>

#define FILE_NAME "tests/golden/backward.safetensors"

/* A call as the file has it, its arrays copied to one type. */
typedef struct golden {
    arena memory;
    const char *name;
    attn_forward_args f;
    attn_mask m;
    attn_backward_args a;
    attn_view dq, dk, dv, dbias; /* PyTorch's, f64 */
} golden;

static attn_view find(const attn_file *file, const char *name, const char *what)
{
    attn_view v = {0};
    char full[100];
    const attn_tensor *t;

    snprintf(full, sizeof full, "%s/%s", name, what);
    t = attn_file_find(file, full);
    if (t)
        CHECK(attn_tensor_view(t, 0, &v, NULL) == ATTN_OK);
    return v;
}

static attn_view take(golden *g, const attn_file *file, const char *what, attn_type type)
{
    attn_view v = find(file, g->name, what);
    rng r = rng_make(1, 1);

    return v.data ? view_copy(&g->memory, &r, &v, type, LAYOUT_BHSD) : v;
}

/* An option that is one number; 0 if the case does not have it. */
static int option(const attn_file *file, const char *name, const char *what, double *value)
{
    attn_view v = find(file, name, what);

    if (v.data)
        *value = view_get(&v, 0, 0, 0, 0);
    return v.data != NULL;
}

static attn_view like(golden *g, const attn_view *v, attn_type type)
{
    const int64_t *n = v->size;

    return v->data ? view_plain(&g->memory, type, n[0], n[1], n[2], n[3]) : *v;
}

static void load(golden *g, const attn_file *file, const char *name, attn_type type)
{
    double offset = 0;

    *g = (golden){.f = ATTN_FORWARD_ARGS_INIT, .m = ATTN_MASK_INIT, .a = ATTN_BACKWARD_ARGS_INIT};
    g->name = name;
    g->f.q = take(g, file, "q", type);
    g->f.k = take(g, file, "k", type);
    g->f.v = take(g, file, "v", type);
    g->m.bias = take(g, file, "bias", type);
    g->f.has_scale = option(file, name, "scale", &g->f.scale);
    g->m.causal = option(file, name, "causal", &offset);
    g->m.q_offset = (int64_t)offset;
    g->f.mask = &g->m;
    g->f.out = view_plain(&g->memory, type, g->f.q.size[0], g->f.q.size[1], g->f.q.size[2],
                          g->f.v.size[3]);
    g->f.lse = view_plain(&g->memory, type, g->f.q.size[0], g->f.q.size[1], g->f.q.size[2], 1);
    g->a.forward = &g->f;
    g->a.dout = take(g, file, "dout", type);
    g->a.dlse = take(g, file, "dlse", type);
    g->dq = find(file, g->name, "dq");
    g->dk = find(file, g->name, "dk");
    g->dv = find(file, g->name, "dv");
    g->dbias = find(file, g->name, "dbias");
    g->a.dq = like(g, &g->f.q, type);
    g->a.dk = like(g, &g->f.k, type);
    g->a.dv = like(g, &g->f.v, type);
    g->a.dbias = like(g, &g->m.bias, type);
}

/* PyTorch's numbers take the place of the reference's, which must be the same to double precision;
 * the bounds stay. */
static void replace(const golden *g, const char *what, const attn_view *theirs, ref_array *ours)
{
    const double *value = theirs->data;
    int64_t n = ours->want ? view_count(theirs) : 0;
    double largest = 0;

    CHECK(memcmp(theirs->size, ours->size, sizeof ours->size) == 0);
    for (int64_t e = 0; e < n; e++)
        largest = fmax(largest, fabs(value[e]));
    for (int64_t e = 0; e < n; e++) {
        CHECK_MSG(fabs(ours->want[e] - value[e]) <= 1e-13 * largest,
                  "%s, %s[%lld]: PyTorch %.17g, reference %.17g", g->name, what, (long long)e,
                  value[e], ours->want[e]);
        ours->want[e] = value[e];
        ours->bound[e] += 1e-13 * largest;
    }
}

static void expect_golden(const golden *g, ref_gradients *r)
{
    replace(g, "dq", &g->dq, &r->dq);
    replace(g, "dk", &g->dk, &r->dk);
    replace(g, "dv", &g->dv, &r->dv);
    replace(g, "dbias", &g->dbias, &r->dbias);
}

/* Without a context only the reference is held to PyTorch. */
static void run_case(const attn_ctx *ctx, const attn_file *file, const char *name, attn_type type)
{
    ref_options options = {0};
    attn_error err = {0};
    char why[300] = "";
    ref_gradients r;
    golden g;

    load(&g, file, name, type);
    ref_backward(&g.a, &options, &r);
    expect_golden(&g, &r);
    if (ctx) {
        CHECK_MSG(attn_forward(ctx, &g.f, &err) == ATTN_OK, "%s: %s", name, err.text);
        CHECK_MSG(attn_backward(ctx, &g.a, &err) == ATTN_OK, "%s: %s", name, err.text);
        CHECK_MSG(ref_compare_gradients(&g.a, NULL, &r, NULL, why, sizeof why) == 0, "%s: %s", name,
                  why);
    }
    ref_gradients_free(&r);
    arena_reset(&g.memory);
}

/* A case for every tensor called NAME/q. */
static void each_case(const attn_ctx *ctx, attn_type type)
{
    attn_file *file;
    attn_error err = {0};
    int cases = 0;

    CHECK_MSG(attn_file_open(NULL, FILE_NAME, NULL, &file, &err) == ATTN_OK, "%s", err.text);
    for (size_t i = 0; i < attn_file_count(file); i++) {
        const char *full = attn_file_tensor(file, i)->name, *end = strrchr(full, '/');
        char name[50];

        if (strcmp(end, "/q") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(end - full), full);
        run_case(ctx, file, name, type);
        cases++;
    }
    attn_file_close(file);
    CHECK(cases == 15);
}

static void reference_agrees(void **state)
{
    (void)state;
    each_case(NULL, ATTN_F64);
}

static void double_agrees(void **state)
{
    each_case(ctx_for(test_set(state), 2), ATTN_F64);
}

static void single_agrees(void **state)
{
    each_case(ctx_for(test_set(state), 2), ATTN_F32);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"reference agrees with PyTorch", reference_agrees, 0},
        {"f64 agrees with PyTorch", double_agrees, 1},
        {"f32 agrees with PyTorch", single_agrees, 1},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
