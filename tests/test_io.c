/* test_io.c: what goes into a file comes out of it, and files by NumPy and safetensors are read as
 * they were meant. Files that break rules are in test_io_hostile.c, failing systems in
 * test_io_faults.c. */
#define _POSIX_C_SOURCE 200809L

#include "include/attn/io.h"
#include "tests/expect.h"
#include "tests/io_files.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEEDS "tests/fuzz/corpus/"

static const attn_type all_types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64, ATTN_U8,
                                      ATTN_I8,  ATTN_U16, ATTN_I16,  ATTN_U32, ATTN_I32,
                                      ATTN_U64, ATTN_I64, ATTN_BOOL};
enum { TYPES = sizeof all_types / sizeof *all_types };

static const char *const endings[] = {"x.npy", "x.npz", "x.safetensors"};

static attn_file *must_open(const char *path, const attn_file_options *options)
{
    attn_error err = {ATTN_OK, 0, ""};
    attn_file *file = NULL;
    attn_status st = attn_file_open(NULL, path, options, &file, &err);

    CHECK_MSG(st == ATTN_OK && file, "%s", err.text);
    return file;
}

static void must_write(const char *path, const attn_tensor *t, size_t n)
{
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_file_write(NULL, path, ATTN_FORMAT_AUTO, t, n, NULL, NULL, 0, &err) == ATTN_OK,
              "%s", err.text);
}

/* A tensor of random bytes with gaps, reversed, repeated or swapped dimensions. */
static attn_tensor random_tensor(arena *a, rng *r, attn_type type, int rank)
{
    attn_tensor t = {.name = "t", .type = type, .rank = rank};
    int order[ATTN_MAX_RANK];
    int64_t span = 1;
    unsigned char *data;
    size_t width = attn_type_size(type);
    int64_t first = 0;

    for (int i = 0; i < rank; i++) {
        int j = (int)rng_int(r, 0, i);

        order[i] = order[j];
        order[j] = i;
    }
    for (int k = 0; k < rank; k++) {
        int i = order[k];

        t.size[i] = rng_int(r, 1, rank > 5 ? 3 : 5);
        t.stride[i] = rng_chance(r, 15) ? 0 : span * rng_int(r, 1, 2);
        if (t.stride[i] > 0)
            span = t.stride[i] * t.size[i];
        if (rng_chance(r, 25)) {
            first += t.stride[i] * (t.size[i] - 1);
            t.stride[i] = -t.stride[i];
        }
    }
    data = arena_get(a, (size_t)span * width);
    for (size_t i = 0; i < (size_t)span * width; i++)
        data[i] = (unsigned char)rng_next(r);
    t.data = data + (size_t)first * width;
    return t;
}

static int fits_npy(attn_type type)
{
    return type != ATTN_BF16;
}

static void check_one_round(const char *path, const attn_tensor *t, int copy)
{
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    const attn_tensor *back;
    attn_file *file;

    options.copy = copy;
    must_write(path, t, 1);
    file = must_open(path, &options);
    CHECK(attn_file_count(file) == 1);
    back = attn_file_tensor(file, 0);
    CHECK((uintptr_t)back->data % attn_type_size(back->type) == 0);
    CHECK_MSG(tensor_equal(back, t), "%s: %s of rank %d changed", path, attn_type_name(t->type),
              t->rank);
    CHECK(attn_file_find(file, attn_file_format(file) == ATTN_FORMAT_NPY ? "" : "t") == back);
    attn_file_close(file);
}

static void round_trip_of_every_type_rank_and_layout(void **state)
{
    arena a = {0};
    rng r = rng_make(test_seed(), 1);
    const char *folder = folder_new(&a);

    (void)state;
    for (size_t e = 0; e < 3; e++)
        for (size_t k = 0; k < TYPES; k++)
            for (int rank = 0; rank <= ATTN_MAX_RANK; rank++) {
                attn_tensor t = random_tensor(&a, &r, all_types[k], rank);

                if (e == 2 || fits_npy(t.type))
                    check_one_round(path_in(&a, folder, endings[e]), &t, rank % 2);
            }
    folder_remove(folder);
    arena_reset(&a);
}

static void round_trip_of_empty_tensors(void **state)
{
    static const int64_t sizes[][3] = {{0, 1, 1},
                                       {3, 0, 2},
                                       {2, 3, 0},
                                       {0, 0, 0},
                                       {0, (int64_t)1 << 48, (int64_t)1 << 48},
                                       {(int64_t)1 << 48, (int64_t)1 << 48, 0}};
    arena a = {0};
    const char *folder = folder_new(&a);

    (void)state;
    for (size_t e = 0; e < 3; e++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            attn_tensor t = {.name = "t", .type = ATTN_F64, .rank = 3, .data = NULL};

            memcpy(t.size, sizes[k], sizeof sizes[k]);
            check_one_round(path_in(&a, folder, endings[e]), &t, 0);
        }
    folder_remove(folder);
    arena_reset(&a);
}

/* More than the write buffer and the gathering chunk, with a layout that has to be gathered. */
static void round_trip_past_every_buffer(void **state)
{
    enum { ROWS = 700, COLS = 513 };
    arena a = {0};
    rng r = rng_make(test_seed(), 2);
    const char *folder = folder_new(&a);
    float *data = arena_get(&a, sizeof(float) * ROWS * COLS);

    (void)state;
    for (size_t i = 0; i < ROWS * COLS; i++)
        data[i] = (float)rng_bell(&r);
    for (size_t e = 0; e < 3; e++) {
        attn_tensor plain = {"t", ATTN_F32, 2, {ROWS, COLS}, {COLS, 1}, data};
        attn_tensor turned = {"t", ATTN_F32, 2, {COLS, ROWS}, {1, COLS}, data};

        check_one_round(path_in(&a, folder, endings[e]), &plain, 0);
        check_one_round(path_in(&a, folder, endings[e]), &turned, 1);
    }
    folder_remove(folder);
    arena_reset(&a);
}

static void many_tensors_are_found_by_name(void **state)
{
    enum { COUNT = 3000 };
    arena a = {0};
    const char *folder = folder_new(&a);
    attn_tensor *t = arena_get(&a, COUNT * sizeof *t);
    int32_t *values = arena_get(&a, COUNT * sizeof *values);

    (void)state;
    for (int32_t i = 0; i < COUNT; i++) {
        char *name = arena_get(&a, 32);

        snprintf(name, 32, "layer.%d/w\xc3\xa9ight", (int)(i * 7919 % COUNT));
        values[i] = i;
        t[i] = (attn_tensor){name, ATTN_I32, 0, {0}, {0}, &values[i]};
    }
    for (size_t e = 1; e < 3; e++) {
        const char *path = path_in(&a, folder, endings[e]);
        attn_file *file;

        must_write(path, t, COUNT);
        file = must_open(path, NULL);
        CHECK(attn_file_count(file) == COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            const attn_tensor *found = attn_file_find(file, t[i].name);

            CHECK_MSG(found && memcmp(found->data, &values[i], 4) == 0, "%s", t[i].name);
            CHECK(strcmp(attn_file_tensor(file, i)->name, t[i].name) == 0); /* file order */
        }
        CHECK(!attn_file_find(file, "layer.") && !attn_file_find(file, "") &&
              !attn_file_find(file, "~") && !attn_file_find(file, NULL));
        CHECK(!attn_file_tensor(file, COUNT) && !attn_file_tensor(file, SIZE_MAX));
        attn_file_close(file);
    }
    folder_remove(folder);
    arena_reset(&a);
}

/* Values of every kind pass through as bits. */
static void nan_and_infinity_are_values(void **state)
{
    static const uint32_t bits[] = {0x7fc00000, 0x7f800001, 0xff800000, 0x7f800000, 0x80000000, 1};
    arena a = {0};
    const char *folder = folder_new(&a);
    attn_tensor t = {"t", ATTN_F32, 1, {6}, {1}, bits};

    (void)state;
    for (size_t e = 0; e < 3; e++)
        check_one_round(path_in(&a, folder, endings[e]), &t, 0);
    folder_remove(folder);
    arena_reset(&a);
}

static void metadata_round_trip(void **state)
{
    static const char *const keys[] = {"z", "format", "", "a \"quoted\" \\ key", "\xe5\x90\x8d"};
    static const char *const values[] = {"", "pt", "empty key", "line\nbreak\x01", "{{ 1+1 }}<b>"};
    enum { PAIRS = 5 };
    arena a = {0};
    const char *folder = folder_new(&a), *path = path_in(&a, folder, "m.safetensors");
    attn_file *file;

    (void)state;
    CHECK(attn_file_write(NULL, path, ATTN_FORMAT_AUTO, NULL, 0, keys, values, PAIRS, NULL) ==
          ATTN_OK);
    file = must_open(path, NULL);
    CHECK(attn_file_count(file) == 0 && attn_file_meta_count(file) == PAIRS);
    for (size_t i = 0; i < PAIRS; i++) {
        const char *value = attn_file_meta(file, keys[i]);

        CHECK_MSG(value && strcmp(value, values[i]) == 0, "%s", keys[i]);
    }
    for (size_t i = 1; i < PAIRS; i++)
        CHECK(strcmp(attn_file_meta_key(file, i - 1), attn_file_meta_key(file, i)) < 0);
    CHECK(!attn_file_meta(file, "absent") && !attn_file_meta_key(file, PAIRS));
    attn_file_close(file);
    folder_remove(folder);
    arena_reset(&a);
}

/* Equal arguments make equal bytes; data in our files is aligned, and so lies in the caller's
 * memory. */
static void written_files_are_stable_and_mappable(void **state)
{
    static const uint8_t u8[3] = {1, 2, 3};
    static const double f64[2] = {1, 2};
    static const uint16_t bf16[1] = {0x3f80}, f16[1] = {0x3c00};
    const attn_tensor t[4] = {{"a", ATTN_U8, 1, {3}, {1}, u8},
                              {"bb", ATTN_F64, 1, {2}, {1}, f64},
                              {"ccc", ATTN_F16, 0, {0}, {0}, f16},
                              {"dddd", ATTN_BF16, 0, {0}, {0}, bf16}};
    arena a = {0};
    const char *folder = folder_new(&a);

    (void)state;
    for (size_t e = 0; e < 3; e++) {
        const char *path = path_in(&a, folder, endings[e]);
        size_t n = e == 0 ? 1 : e == 1 ? 3 : 4;
        meter m;
        attn_file *file;
        blob x, y;

        must_write(path, t, n);
        x = blob_load(&a, path);
        must_write(path, t, n);
        y = blob_load(&a, path);
        CHECK(x.size == y.size && memcmp(x.data, y.data, x.size) == 0);
        CHECK(folder_count(folder) == e + 1); /* no temporary file stays */

        meter_init(&m);
        CHECK(attn_file_open_memory(&m.ctx, x.data, x.size, NULL, &file, NULL) == ATTN_OK);
        for (size_t i = 0; i < n; i++) {
            const unsigned char *at = attn_file_tensor(file, i)->data;

            CHECK_MSG(at >= x.data && at < x.data + x.size, "%s was copied", endings[e]);
        }
        attn_file_close(file);
        CHECK(m.live == 0);
    }
    folder_remove(folder);
    arena_reset(&a);
}

/* --- Files by others ------------------------------------------------------------------------ */

/* 1, 2, 3, ... in the tensor's type, as make_seeds.py fills all arrays. */
static void check_counted(const char *path, const attn_tensor *t)
{
    size_t width = attn_type_size(t->type);
    arena a = {0};
    int64_t n = tensor_count(t);
    unsigned char *flat = arena_get(&a, (size_t)n * width + 1);
    /* f16 for 1..6 */
    static const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};

    tensor_flatten(t, flat);
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *at = flat + (size_t)i * width;
        uint64_t whole = (uint64_t)i + 1;
        float f = (float)whole;
        double d = (double)whole;
        const void *want = &whole; /* little-endian: the low bytes come first */

        if (t->type == ATTN_F32)
            want = &f;
        else if (t->type == ATTN_F64)
            want = &d;
        else if (t->type == ATTN_F16)
            want = &halves[i];
        else if (t->type == ATTN_BOOL)
            whole &= 1;
        CHECK_MSG(memcmp(at, want, width) == 0, "%s: element %d of '%s' is wrong", path, (int)i,
                  t->name);
    }
    arena_reset(&a);
}

static void numpy_scalar_types_are_read(void **state)
{
    static const struct {
        const char *path;
        attn_type type;
    } files[] = {
        {SEEDS "npy/type_f2.npy", ATTN_F16},   {SEEDS "npy/type_f4.npy", ATTN_F32},
        {SEEDS "npy/type_f8.npy", ATTN_F64},   {SEEDS "npy/type_u1.npy", ATTN_U8},
        {SEEDS "npy/type_i1.npy", ATTN_I8},    {SEEDS "npy/type_u2.npy", ATTN_U16},
        {SEEDS "npy/type_i2.npy", ATTN_I16},   {SEEDS "npy/type_u4.npy", ATTN_U32},
        {SEEDS "npy/type_i4.npy", ATTN_I32},   {SEEDS "npy/type_u8.npy", ATTN_U64},
        {SEEDS "npy/type_i8.npy", ATTN_I64},   {SEEDS "npy/type_b1.npy", ATTN_BOOL},
        {SEEDS "npy/version_2.npy", ATTN_F32}, {SEEDS "npy/version_3.npy", ATTN_F32},
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        attn_file *file = must_open(files[i].path, NULL);
        const attn_tensor *t = attn_file_find(file, "");

        CHECK(attn_file_format(file) == ATTN_FORMAT_NPY && attn_file_count(file) == 1);
        CHECK_MSG(t && t->type == files[i].type && t->rank == 2 && t->size[0] == 2 &&
                      t->size[1] == 3,
                  "%s", files[i].path);
        check_counted(files[i].path, t);
        attn_file_close(file);
    }
}

static void numpy_orders_are_read_at_every_rank(void **state)
{
    static const int64_t shape[] = {2, 3, 1, 2, 1, 2, 1, 2};

    (void)state;
    for (int rank = 0; rank <= ATTN_MAX_RANK; rank++)
        for (int fortran = 0; fortran <= (rank >= 2); fortran++) {
            char path[64];
            attn_file *file;
            const attn_tensor *t;

            snprintf(path, sizeof path, SEEDS "npy/rank_%d_%s.npy", rank,
                     fortran ? "fortran" : "c");
            file = must_open(path, NULL);
            t = attn_file_tensor(file, 0);
            CHECK_MSG(t->rank == rank, "%s", path);
            for (int i = 0; i < rank; i++)
                CHECK_MSG(t->size[i] == shape[i], "%s", path);
            if (rank >= 2)
                CHECK_MSG(t->stride[fortran ? 0 : rank - 1] == 1, "%s", path);
            check_counted(path, t);
            attn_file_close(file);
        }
}

static void numpy_archives_are_read(void **state)
{
    static const char *const paths[] = {SEEDS "npz/stored.npz", SEEDS "npz/deflated.npz"};
    static const char *const names[] = {"f2", "f4", "f8", "u1", "i1", "u2",
                                        "i2", "u4", "i4", "u8", "i8", "b1"};
    attn_file *file;

    (void)state;
    for (size_t p = 0; p < 2; p++) {
        file = must_open(paths[p], NULL);
        CHECK(attn_file_format(file) == ATTN_FORMAT_NPZ && attn_file_count(file) == 12);
        for (size_t i = 0; i < 12; i++) {
            const attn_tensor *t = attn_file_find(file, names[i]);

            CHECK_MSG(t && t == attn_file_tensor(file, i), "%s: %s", paths[p], names[i]);
            check_counted(paths[p], t);
        }
        attn_file_close(file);
    }
    file = must_open(SEEDS "npz/no_members.npz", NULL);
    CHECK(attn_file_count(file) == 0 && !attn_file_find(file, "a") && !attn_file_tensor(file, 0));
    attn_file_close(file);
    file = must_open(SEEDS "npz/nested_names.npz", NULL);
    CHECK(attn_file_find(file, "layer/0/w\xc3\xa9ight") != NULL);
    attn_file_close(file);
}

static void safetensors_by_others_are_read(void **state)
{
    static const struct {
        const char *name;
        attn_type type;
    } types[] = {{"F16", ATTN_F16}, {"F32", ATTN_F32}, {"F64", ATTN_F64}, {"U8", ATTN_U8},
                 {"I8", ATTN_I8},   {"U16", ATTN_U16}, {"I16", ATTN_I16}, {"U32", ATTN_U32},
                 {"I32", ATTN_I32}, {"U64", ATTN_U64}, {"I64", ATTN_I64}, {"BOOL", ATTN_BOOL}};
    attn_file *file = must_open(SEEDS "safetensors/types.safetensors", NULL);

    (void)state;
    CHECK(attn_file_format(file) == ATTN_FORMAT_SAFETENSORS && attn_file_count(file) == 12);
    for (size_t i = 0; i < 12; i++) {
        const attn_tensor *t = attn_file_find(file, types[i].name);

        CHECK_MSG(t && t->type == types[i].type, "%s", types[i].name);
        check_counted("types.safetensors", t);
    }
    attn_file_close(file);

    file = must_open(SEEDS "safetensors/shapes.safetensors", NULL);
    CHECK(attn_file_count(file) == 4 && attn_file_meta_count(file) == 1);
    CHECK(strcmp(attn_file_meta(file, "note"), "line\nbreak, \xe5\x90\x8d") == 0);
    CHECK(attn_file_find(file, "rank 8")->rank == 8 && attn_file_find(file, "scalar")->rank == 0);
    CHECK(attn_file_find(file, "none")->size[0] == 0 && attn_file_find(file, "none")->data != NULL);
    for (size_t i = 0; i < 4; i++)
        check_counted("shapes.safetensors", attn_file_tensor(file, i));
    attn_file_close(file);
}

/* --- Views ---------------------------------------------------------------------------------- */

static void views_of_every_rank(void **state)
{
    static const float data[120];
    static const struct {
        int rank, bshd;
        int64_t size[4], stride[4];
    } want[] = {
        {2, 0, {1, 1, 2, 3}, {0, 0, 3, 1}},   {2, 1, {1, 1, 2, 3}, {0, 0, 3, 1}},
        {3, 0, {1, 2, 3, 4}, {0, 12, 4, 1}},  {3, 1, {1, 3, 2, 4}, {0, 4, 12, 1}},
        {4, 0, {2, 3, 4, 5}, {60, 20, 5, 1}}, {4, 1, {2, 4, 3, 5}, {60, 5, 20, 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        attn_tensor t = {.name = "t", .type = ATTN_F32, .rank = want[i].rank, .data = data};
        int64_t stride = 1;
        attn_view v;

        for (int d = t.rank - 1; d >= 0; d--) {
            t.size[d] = d + 2;
            t.stride[d] = stride;
            stride *= d + 2;
        }
        CHECK(attn_tensor_view(&t, want[i].bshd, &v, NULL) == ATTN_OK);
        CHECK(v.data == data && v.type == ATTN_F32);
        CHECK_MSG(memcmp(v.size, want[i].size, sizeof v.size) == 0 &&
                      memcmp(v.stride, want[i].stride, sizeof v.stride) == 0,
                  "rank %d, bshd %d", want[i].rank, want[i].bshd);
    }
}

static void views_of_other_ranks_are_refused(void **state)
{
    static const int ranks[] = {0, 1, 5, 8};
    static const uint8_t data[2] = {0, 1};
    attn_tensor mask = {"m", ATTN_BOOL, 2, {1, 2}, {2, 1}, data};
    attn_view v, before;
    attn_error err;

    (void)state;
    memset(&v, 0x55, sizeof v);
    before = v;
    for (size_t i = 0; i < 4; i++) {
        attn_tensor t = {.name = "name", .type = ATTN_F32, .rank = ranks[i], .data = data};

        CHECK(attn_tensor_view(&t, 0, &v, &err) == ATTN_E_SHAPE && strstr(err.text, "'name'"));
        CHECK(memcmp(&v, &before, sizeof v) == 0);
    }
    CHECK(attn_tensor_view(NULL, 0, &v, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_tensor_view(&mask, 0, NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_tensor_view(&mask, 0, &v, &err) == ATTN_OK && v.type == ATTN_U8); /* a keep mask */
}

/* --- Arguments ------------------------------------------------------------------------------ */

static void check_refused_write(const char *path, const attn_tensor *t, size_t n, const char *says)
{
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_file_write(NULL, path, ATTN_FORMAT_AUTO, t, n, NULL, NULL, 0, &err) ==
                  ATTN_E_ARGUMENT,
              "%s was not refused", says);
    CHECK_MSG(err.status == ATTN_E_ARGUMENT && strstr(err.text, says), "'%s' is not in '%s'", says,
              err.text);
    CHECK(access(path, F_OK) != 0);
}

static void writing_refuses_bad_arguments(void **state)
{
    static const char *const bad[] = {"",
                                      "a\nb",
                                      "\x7f",
                                      "\xc2\x85",
                                      "\xff",
                                      "\xc0\x80",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xe2\x82",
                                      "\xe0\x80\xaf",
                                      "\xf0\x80\x80\xaf",
                                      "\xf5\x80\x80\x80"};
    static const char *const paths[] = {"/etc/x", "../x", "a/../x", "a/..", "..", "a\\b", "C:x"};
    static const float x[4] = {1, 2, 3, 4};
    const attn_tensor good = {"t", ATTN_F32, 1, {4}, {1}, x};
    attn_tensor t[2] = {good, good};
    arena a = {0};
    const char *folder = folder_new(&a), *npy = path_in(&a, folder, "x.npy"),
               *npz = path_in(&a, folder, "x.npz"), *st = path_in(&a, folder, "x.safetensors");
    char *name_too_long = arena_get(&a, 4098);

    (void)state;
    check_refused_write(path_in(&a, folder, "x.bin"), t, 1, "must end in");
    check_refused_write(npy, t, 2, "one tensor");
    check_refused_write(npy, t, 0, "one tensor");
    check_refused_write(npy, NULL, 1, "tensors is NULL");
    check_refused_write(npz, t, 2, "two tensors");
    check_refused_write(st, t, 2, "two tensors");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        t[0].name = bad[i];
        check_refused_write(st, t, 1, "name");
        check_refused_write(npz, t, 1, "name");
    }
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        t[0].name = paths[i];
        check_refused_write(npz, t, 1, "plain member name");
    }
    memset(name_too_long, 'n', 4097);
    name_too_long[4097] = '\0';
    t[0].name = name_too_long;
    check_refused_write(st, t, 1, "name");
    t[0].name = NULL;
    check_refused_write(st, t, 1, "name");
    t[0].name = "__metadata__";
    check_refused_write(st, t, 1, "__metadata__");
    t[0] = good;
    t[0].type = ATTN_BF16;
    check_refused_write(npy, t, 1, "bf16");
    check_refused_write(npz, t, 1, "bf16");
    t[0].type = (attn_type)99;
    check_refused_write(st, t, 1, "type 99");
    t[0] = good;
    t[0].rank = 9;
    check_refused_write(npy, t, 1, "rank 9");
    t[0].rank = -1;
    check_refused_write(npy, t, 1, "rank -1");
    t[0] = good;
    t[0].size[0] = -1;
    check_refused_write(npy, t, 1, "negative or too large");
    t[0].size[0] = INT64_MAX;
    check_refused_write(npy, t, 1, "negative or too large");
    t[0] = good;
    t[0].data = NULL;
    check_refused_write(npy, t, 1, "data is NULL");
    CHECK(attn_file_write(NULL, NULL, ATTN_FORMAT_NPY, &good, 1, NULL, NULL, 0, NULL) ==
          ATTN_E_ARGUMENT);
    CHECK(folder_count(folder) == 0);
    folder_remove(folder);
    arena_reset(&a);
}

static void writing_refuses_bad_metadata(void **state)
{
    static const char *const keys[] = {"k", "k"}, *const values[] = {"v", "w"},
                             *const bad[] = {"\xff"}, *const none[] = {NULL};
    static const float x = 1;
    const attn_tensor t = {"t", ATTN_F32, 0, {0}, {0}, &x};
    arena a = {0};
    const char *folder = folder_new(&a), *st = path_in(&a, folder, "x.safetensors");
    attn_error err;

    (void)state;
    CHECK(attn_file_write(NULL, path_in(&a, folder, "x.npz"), ATTN_FORMAT_AUTO, &t, 1, keys, values,
                          1, &err) == ATTN_E_ARGUMENT &&
          strstr(err.text, "metadata"));
    CHECK(attn_file_write(NULL, st, ATTN_FORMAT_AUTO, &t, 1, keys, values, 2, &err) ==
              ATTN_E_ARGUMENT &&
          strstr(err.text, "twice"));
    CHECK(attn_file_write(NULL, st, ATTN_FORMAT_AUTO, &t, 1, bad, values, 1, &err) ==
          ATTN_E_ARGUMENT);
    CHECK(attn_file_write(NULL, st, ATTN_FORMAT_AUTO, &t, 1, keys, bad, 1, &err) ==
          ATTN_E_ARGUMENT);
    CHECK(attn_file_write(NULL, st, ATTN_FORMAT_AUTO, &t, 1, none, values, 1, &err) ==
          ATTN_E_ARGUMENT);
    CHECK(attn_file_write(NULL, st, ATTN_FORMAT_AUTO, &t, 1, keys, NULL, 1, &err) ==
          ATTN_E_ARGUMENT);
    CHECK(folder_count(folder) == 0);
    folder_remove(folder);
    arena_reset(&a);
}

static void opening_checks_its_arguments(void **state)
{
    struct {
        attn_file_options known;
        int64_t later;
    } newer = {.known = ATTN_FILE_OPTIONS_INIT};
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    attn_file *file = (attn_file *)(uintptr_t)1;
    attn_error err;

    (void)state;
    CHECK(attn_file_open(NULL, NULL, NULL, &file, &err) == ATTN_E_ARGUMENT && !file);
    CHECK(attn_file_open(NULL, "x", NULL, NULL, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_file_open_memory(NULL, NULL, 1, NULL, &file, &err) == ATTN_E_ARGUMENT);
    CHECK(attn_file_open_memory(NULL, "", 0, NULL, NULL, &err) == ATTN_E_ARGUMENT);
    options.struct_size = 0;
    CHECK(attn_file_open(NULL, SEEDS "npy/type_f4.npy", &options, &file, &err) == ATTN_E_ARGUMENT);
    options.struct_size = sizeof options;
    options.format = (attn_format)17;
    CHECK(attn_file_open(NULL, SEEDS "npy/type_f4.npy", &options, &file, &err) == ATTN_E_ARGUMENT);

    /* A program compiled against a later header: fine while it leaves the new field zero. */
    newer.known.struct_size = sizeof newer;
    CHECK(attn_file_open(NULL, SEEDS "npy/type_f4.npy", &newer.known, &file, &err) == ATTN_OK);
    attn_file_close(file);
    newer.later = 1;
    CHECK(attn_file_open(NULL, SEEDS "npy/type_f4.npy", &newer.known, &file, &err) ==
          ATTN_E_ARGUMENT);

    /* A format that is asked for is not guessed. */
    options.format = ATTN_FORMAT_SAFETENSORS;
    CHECK(attn_file_open(NULL, SEEDS "npy/type_f4.npy", &options, &file, &err) == ATTN_E_FORMAT);
    attn_file_close(NULL);
}

/* A grouping locale must not print "(1234567,)" as "(1.234.567,)" or the like. Locales that are not
 * installed are compiled for the test. */
static void the_locale_does_not_matter(void **state)
{
    static const char *const locales[] = {"de_DE", "hi_IN"};
    arena a = {0};
    const char *folder = folder_new(&a), *made = folder_new(&a);
    char command[256];
    size_t tried = 0;

    (void)state;
    CHECK(setenv("LOCPATH", made, 1) == 0);
    for (size_t i = 0; i < 2; i++) {
        attn_tensor t = {"t", ATTN_U8, 1, {1234567}, {0}, "x"};

        snprintf(command, sizeof command, "localedef -c -i %s -f UTF-8 %s/%s >%s/log 2>&1",
                 locales[i], made, locales[i], made);
        if (system(command) != 0 || !setlocale(LC_ALL, locales[i]))
            continue;
        tried++;
        for (size_t e = 0; e < 3; e++)
            check_one_round(path_in(&a, folder, endings[e]), &t, 0);
    }
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", made);
    CHECK(system(command) == 0);
    folder_remove(folder);
    arena_reset(&a);
    if (tried == 0) {
        print_message("skipped: no grouping locale can be made here\n");
        skip();
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"round_trip_of_every_type_rank_and_layout", round_trip_of_every_type_rank_and_layout, 0},
        {"round_trip_of_empty_tensors", round_trip_of_empty_tensors, 0},
        {"round_trip_past_every_buffer", round_trip_past_every_buffer, 0},
        {"many_tensors_are_found_by_name", many_tensors_are_found_by_name, 0},
        {"nan_and_infinity_are_values", nan_and_infinity_are_values, 0},
        {"metadata_round_trip", metadata_round_trip, 0},
        {"written_files_are_stable_and_mappable", written_files_are_stable_and_mappable, 0},
        {"numpy_scalar_types_are_read", numpy_scalar_types_are_read, 0},
        {"numpy_orders_are_read_at_every_rank", numpy_orders_are_read_at_every_rank, 0},
        {"numpy_archives_are_read", numpy_archives_are_read, 0},
        {"safetensors_by_others_are_read", safetensors_by_others_are_read, 0},
        {"views_of_every_rank", views_of_every_rank, 0},
        {"views_of_other_ranks_are_refused", views_of_other_ranks_are_refused, 0},
        {"writing_refuses_bad_arguments", writing_refuses_bad_arguments, 0},
        {"writing_refuses_bad_metadata", writing_refuses_bad_metadata, 0},
        {"opening_checks_its_arguments", opening_checks_its_arguments, 0},
        {"the_locale_does_not_matter", the_locale_does_not_matter, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
