/* test_io_hostile.c: files that lie. Each is refused with a reason, at once, without memory,
 * without leaving anything behind; damage of any kind never leads outside the file.
 *
 *     test_io_hostile --write FOLDER      writes the list to files, for other tools and for fuzzing
 */
#define _POSIX_C_SOURCE 200809L

#include "include/attn/io.h"
#include "tests/expect.h"
#include "tests/hostile.h"
#include "tests/io_files.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEEDS "tests/fuzz/corpus/"

/* A sound header for 8 bytes of data. */
#define E_TWO "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"

/* Processor time, so that a busy machine does not matter. */
static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Opens a copy that ends where its memory ends, so that a sanitizer sees the first byte too far. */
static attn_status open_exact(meter *m, const blob *b, const attn_file_options *options,
                              attn_file **file, attn_error *err, void **copy)
{
    *copy = malloc(b->size ? b->size : 1);
    CHECK(*copy != NULL);
    memcpy(*copy, b->data, b->size);
    memset(err, 0, sizeof *err);
    *file = (attn_file *)(uintptr_t)1;
    return attn_file_open_memory(&m->ctx, *copy, b->size, options, file, err);
}

/* Touches all that an open file hands out. */
static uint64_t read_everything(const attn_file *file)
{
    uint64_t sum = 0;
    arena a = {0};

    for (size_t i = 0; i < attn_file_count(file); i++) {
        const attn_tensor *t = attn_file_tensor(file, i);
        size_t bytes = (size_t)tensor_count(t) * attn_type_size(t->type);
        unsigned char *flat = arena_get(&a, bytes + 1);

        CHECK(t->data && (uintptr_t)t->data % attn_type_size(t->type) == 0);
        tensor_flatten(t, flat);
        for (size_t k = 0; k < bytes; k++)
            sum = sum * 31 + flat[k];
        CHECK(attn_file_find(file, t->name) == t);
    }
    for (size_t i = 0; i < attn_file_meta_count(file); i++)
        sum += strlen(attn_file_meta(file, attn_file_meta_key(file, i)));
    arena_reset(&a);
    return sum;
}

static void check_case(const hostile *h, const attn_file_options *options)
{
    enum { OVERHEAD = 1 << 20 };
    meter m;
    attn_file *file;
    attn_error err;
    void *copy;
    double start = seconds();
    attn_status st;

    meter_init(&m);
    st = open_exact(&m, &h->file, options, &file, &err, &copy);
    CHECK_MSG(seconds() - start < 2, "%s took %g s", h->name, seconds() - start);
    CHECK_MSG(m.peak_bytes <= 3 * h->file.size + OVERHEAD, "%s took %zu bytes", h->name,
              m.peak_bytes);
    if (h->says) {
        CHECK_MSG(st == ATTN_E_FORMAT, "%s: status %d, %s", h->name, (int)st, err.text);
        CHECK_MSG(!file && err.status == st && err.text[0], "%s", h->name);
        CHECK_MSG(strstr(err.text, h->says), "%s: '%s' is not in '%s'", h->name, h->says, err.text);
        CHECK_MSG(err.offset <= h->file.size, "%s: byte %llu of %zu", h->name,
                  (unsigned long long)err.offset, h->file.size);
        /* Without a place for the error it must do the same. */
        CHECK(attn_file_open_memory(&m.ctx, copy, h->file.size, options, &file, NULL) == st);
    } else {
        CHECK_MSG(st == ATTN_OK, "%s: %s", h->name, err.text);
        read_everything(file);
        attn_file_close(file);
    }
    CHECK_MSG(m.live == 0, "%s: %zu blocks leaked", h->name, m.live);
    free(copy);
}

static void check_list(void (*fill)(hostile_list *), size_t at_least)
{
    arena a = {0};
    hostile_list *list = calloc(1, sizeof *list);

    CHECK(list != NULL);
    list->home = &a;
    fill(list);
    for (size_t i = 0; i < list->count; i++) {
        attn_file_options options = ATTN_FILE_OPTIONS_INIT;

        options.format = list->items[i].format;
        check_case(&list->items[i], &options);
    }
    print_message("%zu files\n", list->count);
    CHECK(list->count >= at_least);
    free(list);
    arena_reset(&a);
}

static void npy_files_that_lie(void **state)
{
    (void)state;
    check_list(hostile_npy, 100);
}

static void safetensors_files_that_lie(void **state)
{
    (void)state;
    check_list(hostile_safetensors, 100);
}

static void npz_files_that_lie(void **state)
{
    (void)state;
    check_list(hostile_npz, 100);
}

static void files_by_others_that_are_refused(void **state)
{
    static const struct {
        const char *name, *says;
    } files[] = {
        {"npy/refused_object.npy", "Python objects"}, {"npy/refused_big_endian.npy", "big-endian"},
        {"npy/refused_complex.npy", "'<c8'"},         {"npy/refused_structured.npy", "structured"},
        {"npy/refused_unicode.npy", "'<U2'"},         {"npy/refused_datetime.npy", "not read"},
        {"npy/refused_long_double.npy", "'<f16'"},    {"npy/refused_void.npy", "'|V4'"},
        {"npz/refused_pipe.npz", "behind the data"},  {"npz/refused_bzip2.npz", "method 12"},
        {"npz/refused_lzma.npz", "method 14"},
    };
    arena a = {0};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        attn_error err = {ATTN_OK, 0, ""};
        attn_file *file;
        char path[128];

        snprintf(path, sizeof path, SEEDS "%s", files[i].name);
        CHECK(attn_file_open(NULL, path, NULL, &file, &err) == ATTN_E_FORMAT && !file);
        CHECK_MSG(strstr(err.text, files[i].says) && strstr(err.text, path), "%s", err.text);
    }
    arena_reset(&a);
}

static void content_that_is_none_of_the_formats(void **state)
{
    static const char *const texts[] = {"",       "\n",      "PK\3",     "PK\3\3",   "\x93NUMP",
                                        "GGUF\3", "\177ELF", "12345678", "12345678["};
    arena a = {0};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hostile h = {"text", ATTN_FORMAT_AUTO, blob_new(&a), i ? "not a .npy" : "empty"};

        blob_text(&h.file, texts[i]);
        check_case(&h, NULL);
    }
    arena_reset(&a);
}

/* --- Damage --------------------------------------------------------------------------------- */

static const char *const seeds[] = {"npy/rank_3_fortran.npy",
                                    "npy/type_b1.npy",
                                    "npy/version_2.npy",
                                    "npz/nested_names.npz",
                                    "npz/stored.npz",
                                    "npz/deflated.npz",
                                    "npz/no_members.npz",
                                    "safetensors/types.safetensors",
                                    "safetensors/shapes.safetensors"};
enum { SEED_FILES = sizeof seeds / sizeof *seeds };

static blob load_seed(arena *a, size_t i)
{
    char path[128];

    snprintf(path, sizeof path, SEEDS "%s", seeds[i]);
    return blob_load(a, path);
}

static void every_truncation_is_refused(void **state)
{
    size_t loads = 0;

    (void)state;
    for (size_t i = 0; i < SEED_FILES; i++) {
        arena a = {0};
        blob b = load_seed(&a, i);
        size_t whole = b.size;

        for (b.size = 0; b.size < whole; b.size++, loads++) {
            meter m;
            attn_file *file;
            attn_error err;
            void *copy;

            meter_init(&m);
            CHECK_MSG(open_exact(&m, &b, NULL, &file, &err, &copy) == ATTN_E_FORMAT && !file,
                      "%s cut to %zu bytes", seeds[i], b.size);
            CHECK(m.live == 0 && err.text[0]);
            free(copy);
        }
        arena_reset(&a);
    }
    print_message("%zu loads\n", loads);
}

/* One file with one bit flipped: refused, or everything in it can be read. Bits of .npz that
 * nothing checks (dates, versions) must leave the contents alone; its data has a checksum. */
static int check_flip(const blob *b, const char *name, size_t bit, uint64_t whole_sum)
{
    size_t n = strlen(name);
    meter m;
    attn_file *file;
    attn_error err;
    void *copy;
    attn_status st;

    meter_init(&m);
    b->data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    st = open_exact(&m, b, NULL, &file, &err, &copy);
    b->data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    CHECK_MSG(st == ATTN_OK || st == ATTN_E_FORMAT, "%s, bit %zu: status %d", name, bit, (int)st);
    if (st == ATTN_OK) {
        uint64_t sum = read_everything(file);

        CHECK_MSG(strcmp(name + n - 4, ".npz") != 0 || sum == whole_sum,
                  "%s, bit %zu: other contents", name, bit);
        attn_file_close(file);
    }
    CHECK_MSG(m.live == 0, "%s, bit %zu: leak", name, bit);
    free(copy);
    return st == ATTN_OK;
}

static void every_bit_flip_is_refused_or_harmless(void **state)
{
    size_t opened = 0, loads = 0;

    (void)state;
    for (size_t i = 0; i < SEED_FILES; i++) {
        arena a = {0};
        blob b = load_seed(&a, i);
        attn_file *file;
        uint64_t sum;

        CHECK(attn_file_open_memory(NULL, b.data, b.size, NULL, &file, NULL) == ATTN_OK);
        sum = read_everything(file);
        attn_file_close(file);
        for (size_t bit = 0; bit < 8 * b.size; bit++, loads++)
            opened += (size_t)check_flip(&b, seeds[i], bit, sum);
        arena_reset(&a);
    }
    print_message("%zu loads, %zu opened\n", loads, opened);
}

/* --- Sweeps over numbers -------------------------------------------------------------------- */

/* 0, 1, and around every power of two and every 2^64 / size: the numbers that arithmetic gets
 * wrong. */
static size_t hard_numbers(uint64_t out[512])
{
    size_t n = 0;

    out[n++] = 0;
    out[n++] = 1;
    for (int k = 1; k < 64; k++)
        for (int d = -1; d <= 1; d++)
            out[n++] = ((uint64_t)1 << k) + (uint64_t)d;
    for (uint64_t width = 2; width <= 8; width *= 2)
        for (int d = -1; d <= 1; d++)
            out[n++] = UINT64_MAX / width + 1 + (uint64_t)d;
    out[n++] = UINT64_MAX;
    return n;
}

static void every_hard_number_as_a_length(void **state)
{
    uint64_t numbers[512];
    size_t n = hard_numbers(numbers);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        arena a = {0};
        blob whole = npy_of(&a, "'<f4'", "False", "(2, 3)", 24), b = blob_new(&a);
        hostile h = {"length", ATTN_FORMAT_AUTO, b, ""};

        blob_put(&h.file, "\x93NUMPY\2\0", 8);
        blob_le(&h.file, numbers[i] & UINT32_MAX, 4);
        blob_put(&h.file, whole.data + 10, whole.size - 10);
        h.says = (numbers[i] & UINT32_MAX) == 118 ? NULL : "";
        check_case(&h, NULL);

        h.file = safetensors_of(&a, E_TWO, 8);
        for (size_t k = 0; k < 8; k++)
            h.file.data[k] = (unsigned char)(numbers[i] >> (8 * k));
        h.says = "";
        if (numbers[i] != strlen(E_TWO))
            check_case(&h, NULL);
        arena_reset(&a);
    }
}

static void every_hard_number_as_a_dimension(void **state)
{
    /* # stands for the number, twice if it is there twice. */
    static const char *const shapes[] = {"#", "#, 2", "2, #", "0, #, 3", "#, #", "#, #, 0"};
    uint64_t numbers[512];
    size_t n = hard_numbers(numbers);

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            arena a = {0};
            char inside[128] = "", text[256];
            hostile h = {"dimension", ATTN_FORMAT_AUTO, blob_new(&a), ""};

            for (const char *c = shapes[k]; *c; c++) {
                size_t used = strlen(inside);

                if (*c == '#')
                    snprintf(inside + used, sizeof inside - used, "%llu",
                             (unsigned long long)numbers[i]);
                else
                    snprintf(inside + used, sizeof inside - used, "%c", *c);
            }
            /* No data at all: only an empty tensor with dimensions in range may open. */
            if ((numbers[i] == 0 || strchr(shapes[k], '0')) && numbers[i] <= (uint64_t)1 << 48)
                h.says = NULL;
            snprintf(text, sizeof text, "(%s,)", inside);
            h.file = npy_of(&a, "'<f8'", "True", text, 0);
            check_case(&h, NULL);
            snprintf(text, sizeof text,
                     "{\"t\":{\"dtype\":\"F64\",\"shape\":[%s],\"data_offsets\":[0,0]}}", inside);
            h.file = safetensors_of(&a, text, 0);
            check_case(&h, NULL);
            arena_reset(&a);
        }
}

static void every_hard_number_as_an_offset(void **state)
{
    uint64_t numbers[512];
    size_t n = hard_numbers(numbers);

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (int which = 0; which < 2; which++) {
            unsigned long long v = numbers[i];
            arena a = {0};
            char header[256];
            hostile h = {"offset", ATTN_FORMAT_AUTO, blob_new(&a), ""};

            snprintf(header, sizeof header,
                     "{\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[%llu,%llu]}}",
                     which ? v : 0, which ? v + 8 : v);
            h.file = safetensors_of(&a, header, 8);
            h.says = v == (which ? 0 : 8) ? NULL : "";
            check_case(&h, NULL);
            arena_reset(&a);
        }
}

/* Each 16- or 32-bit field of a zip, at any place, with each hard number. */
static void every_hard_number_anywhere_in_a_zip(void **state)
{
    uint64_t numbers[512];
    size_t n = hard_numbers(numbers), loads = 0;
    arena a = {0};
    blob whole = blob_load(&a, SEEDS "npz/nested_names.npz");

    (void)state;
    for (size_t at = 0; at + 4 <= whole.size; at++)
        for (size_t i = 0; i < n; i += 3) {
            unsigned char old[4];
            meter m;
            attn_file *file;

            if (numbers[i] > UINT32_MAX)
                break;
            memcpy(old, whole.data + at, 4);
            for (size_t k = 0; k < 4; k++)
                whole.data[at + k] = (unsigned char)(numbers[i] >> (8 * k));
            meter_init(&m);
            if (attn_file_open_memory(&m.ctx, whole.data, whole.size, NULL, &file, NULL) ==
                ATTN_OK) {
                read_everything(file);
                attn_file_close(file);
            }
            CHECK(m.live == 0 && m.peak_bytes < (1 << 20));
            memcpy(whole.data + at, old, 4);
            loads++;
        }
    print_message("%zu loads\n", loads);
    arena_reset(&a);
}

/* --- Limits and options, both ways ---------------------------------------------------------- */

static void check_option(const blob *b, const attn_file_options *options, const char *says)
{
    hostile h = {"option", ATTN_FORMAT_AUTO, *b, says};

    check_case(&h, options);
}

static void trailing_bytes_only_on_request(void **state)
{
    arena a = {0};
    blob b = npy_of(&a, "'<f4'", "False", "(2, 3)", 25);
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;

    (void)state;
    check_option(&b, &options, "follow the data");
    options.allow_trailing = 1;
    check_option(&b, &options, NULL);
    b.size -= 2; /* but never fewer bytes than needed */
    check_option(&b, &options, "takes 24 bytes");
    arena_reset(&a);
}

static void limits_can_be_set(void **state)
{
    arena a = {0};
    blob st = safetensors_of(&a, E_TWO, 8), zeros = blob_new(&a), npz, member;
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    zip_file_of z;

    (void)state;
    options.max_header = strlen(E_TWO) - 1;
    check_option(&st, &options, "limit is");
    options.max_header++;
    check_option(&st, &options, NULL);
    options.max_values = 6; /* E_TWO: two objects, two arrays, three commas */
    check_option(&st, &options, "more than 6 values");
    options.max_values = 7;
    check_option(&st, &options, NULL);

    member = npy_of(&a, "'|u1'", "False", "(100000,)", 0);
    blob_fill(&zeros, 0, 100000);
    blob_put(&member, zeros.data, zeros.size);
    memset(&z, 0, sizeof z);
    zip_add(&z, "a.npy", &member, 8);
    zip_add(&z, "b.npy", &member, 8);
    npz = zip_bytes(&a, &z);
    options.max_inflate = 2 * member.size - 1;
    check_option(&npz, &options, "inflate to more than");
    options.max_inflate++;
    check_option(&npz, &options, NULL);
    options.max_members = 1;
    check_option(&npz, &options, "max_members");
    options.max_members = 2;
    check_option(&npz, &options, NULL);
    arena_reset(&a);
}

/* 100 MB of zeros in 100 KB: fits every size it claims, so only the cap stops it; lying about the
 * size stops at the lie. */
static void a_zip_bomb_meets_the_cap(void **state)
{
    enum { SIZE = 100 << 20 };
    arena a = {0};
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    char shape[32];
    zip_file_of z;
    blob member, npz;
    hostile h;

    (void)state;
    snprintf(shape, sizeof shape, "(%d,)", SIZE);
    member = npy_of(&a, "'|u1'", "False", shape, 0);
    {
        blob all = {&a, arena_get(&a, member.size + SIZE), member.size + SIZE, member.size + SIZE};

        memcpy(all.data, member.data, member.size);
        memset(all.data + member.size, 0, SIZE);
        memset(&z, 0, sizeof z);
        zip_add(&z, "a.npy", &all, 8);
    }
    npz = zip_bytes(&a, &z);
    CHECK(npz.size < 200000);
    options.max_inflate = SIZE / 2;
    h = (hostile){"bomb", ATTN_FORMAT_NPZ, npz, "inflate to more than"};
    check_case(&h, &options);
    z.members[0].local.size = z.members[0].central.size = 1000;
    npz = zip_bytes(&a, &z);
    h = (hostile){"bomb that says 1000 bytes", ATTN_FORMAT_NPZ, npz, ""};
    check_case(&h, NULL);
    arena_reset(&a);
}

static void put_fake_entry(blob *b, size_t comment)
{
    blob_put(b, "PK\1\2\24\0\24\0\0\0\0\0\0\0\x21\0", 16);
    blob_fill(b, 0, 12);
    blob_le(b, 1, 2);
    blob_le(b, 0, 2);
    blob_le(b, comment, 2);
    blob_fill(b, 0, 12);
    blob_put(b, "n", 1);
}

/* "PK\5\6" in the data is no end record, wherever it lies. Here 900 of them lie where libzip looks
 * for one, each the comment of an entry and the end of a directory of 60,000 entries and all
 * entries so far. The file has to open as what it is, at once. */
static void end_marks_in_the_data_are_data(void **state)
{
    enum { ENTRIES = 60000, MARKS = 900, ENTRY = 46 + 1, MARK = 22, HEADER = 128, NAME = 30 + 5 };
    arena a = {0};
    char shape[32];
    blob member, npz;
    zip_file_of z;

    (void)state;
    snprintf(shape, sizeof shape, "(%d,)", ENTRIES * ENTRY + MARKS * (ENTRY + MARK));
    member = npy_of(&a, "'|u1'", "False", shape, 0);
    CHECK(member.size == HEADER);
    for (int i = 0; i < ENTRIES; i++)
        put_fake_entry(&member, 0);
    for (int i = 0; i < MARKS; i++) {
        put_fake_entry(&member, MARK);
        blob_put(&member, "PK\5\6\0\0\0\0", 8);
        blob_le(&member, (uint64_t)(ENTRIES + i), 2);
        blob_le(&member, (uint64_t)(ENTRIES + i), 2);
        blob_le(&member, member.size - 12 - HEADER, 4);
        blob_le(&member, NAME + HEADER, 4);
        blob_le(&member, 0, 2);
    }
    memset(&z, 0, sizeof z);
    zip_add(&z, "a.npy", &member, 0);
    npz = zip_bytes(&a, &z);
    check_option(&npz, NULL, NULL);
    arena_reset(&a);
}

/* --- Time ----------------------------------------------------------------------------------- */

static double time_of_names(size_t count)
{
    arena a = {0};
    blob header = blob_new(&a), file;
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    attn_file *f;
    double start, best = 1e9;

    blob_text(&header, "{");
    for (size_t i = 0; i < count; i++) {
        char text[128];

        snprintf(text, sizeof text,
                 "%s\"%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                 i ? "," : "", i * 7919 % count, i, i + 1);
        blob_text(&header, text);
    }
    blob_put(&header, "}", 2);
    file = safetensors_of(&a, (const char *)header.data, count);
    options.max_values = 100 * count;
    for (int k = 0; k < 3; k++) {
        start = seconds();
        CHECK(attn_file_open_memory(NULL, file.data, file.size, &options, &f, NULL) == ATTN_OK);
        if (seconds() - start < best)
            best = seconds() - start;
        CHECK(attn_file_count(f) == count);
        attn_file_close(f);
    }
    arena_reset(&a);
    return best;
}

static void many_names_take_linear_time(void **state)
{
    double small = time_of_names(20000), large = time_of_names(80000);

    (void)state;
    print_message("20,000 names %.3f s, 80,000 names %.3f s\n", small, large);
    /* Four times the names: 4 if linear, 16 if quadratic. */
    CHECK_MSG(large < 10 * small, "ratio %g", large / small);
}

/* Names made to collide in libzip's hash (which multiplies by 33, so that "Ez" and "FY" weigh the
 * same): every pair is compared. The limit on members keeps it short. */
static void colliding_names_stay_cheap(void **state)
{
    enum { BITS = 13, COUNT = 1 << BITS, NAME = 2 * BITS + 4 };
    arena a = {0};
    blob member = npy_of(&a, "'|u1'", "False", "(0,)", 0), npz;
    double start;
    size_t directory_at;
    attn_file *f;
    attn_error err;
    char name[NAME + 1] = "";
    unsigned long crc = 0;

    (void)state;
    {
        zip_file_of z;

        memset(&z, 0, sizeof z);
        crc = zip_add(&z, "x.npy", &member, 0)->local.crc;
    }
    npz = blob_new(&a);
    for (int directory = 0; directory < 2; directory++) {
        directory_at = npz.size;
        for (int i = 0; i < COUNT; i++) {
            for (int k = 0; k < BITS; k++)
                memcpy(name + 2 * k, i >> k & 1 ? "Ez" : "FY", 2);
            memcpy(name + 2 * BITS, ".npy", 5);
            blob_put(&npz, directory ? "PK\1\2\24\0" : "PK\3\4", directory ? 6 : 4);
            blob_put(&npz, "\24\0\0\0\0\0\0\0\x21\0", 10);
            blob_le(&npz, crc, 4);
            blob_le(&npz, member.size, 4);
            blob_le(&npz, member.size, 4);
            blob_le(&npz, NAME, 4);
            if (directory) {
                blob_le(&npz, 0, 2);
                blob_le(&npz, 0, 8);
                blob_le(&npz, (30 + NAME + member.size) * (size_t)i, 4);
            }
            blob_put(&npz, name, NAME);
            if (!directory)
                blob_put(&npz, member.data, member.size);
        }
    }
    blob_put(&npz, "PK\5\6\0\0\0\0", 8);
    blob_le(&npz, COUNT, 2);
    blob_le(&npz, COUNT, 2);
    blob_le(&npz, npz.size - 12 - directory_at, 4);
    blob_le(&npz, directory_at, 4);
    blob_le(&npz, 0, 2);
    start = seconds();
    CHECK_MSG(attn_file_open_memory(NULL, npz.data, npz.size, NULL, &f, &err) == ATTN_OK, "%s",
              err.text);
    print_message("%d colliding names: %.3f s\n", COUNT, seconds() - start);
    CHECK(attn_file_count(f) == COUNT);
    attn_file_close(f);
    CHECK_MSG(seconds() - start < 30, "%g s", seconds() - start);
    arena_reset(&a);
}

/* --- Program -------------------------------------------------------------------------------- */

static int write_list(const char *folder)
{
    static void (*const fills[])(hostile_list *) = {hostile_npy, hostile_safetensors, hostile_npz};
    static const char *const endings[] = {"npy", "safetensors", "npz"};

    for (size_t k = 0; k < 3; k++) {
        arena a = {0};
        hostile_list *list = calloc(1, sizeof *list);

        if (!list)
            return 1;
        list->home = &a;
        fills[k](list);
        for (size_t i = 0; i < list->count; i++) {
            char path[512];
            FILE *f;

            snprintf(path, sizeof path, "%s/%s.%s", folder, list->items[i].name, endings[k]);
            f = fopen(path, "wb");
            if (!f || fwrite(list->items[i].file.data, 1, list->items[i].file.size, f) !=
                          list->items[i].file.size)
                return 1;
            fclose(f);
        }
        free(list);
        arena_reset(&a);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"npy_files_that_lie", npy_files_that_lie, 0},
        {"safetensors_files_that_lie", safetensors_files_that_lie, 0},
        {"npz_files_that_lie", npz_files_that_lie, 0},
        {"files_by_others_that_are_refused", files_by_others_that_are_refused, 0},
        {"content_that_is_none_of_the_formats", content_that_is_none_of_the_formats, 0},
        {"every_truncation_is_refused", every_truncation_is_refused, 0},
        {"every_bit_flip_is_refused_or_harmless", every_bit_flip_is_refused_or_harmless, 0},
        {"every_hard_number_as_a_length", every_hard_number_as_a_length, 0},
        {"every_hard_number_as_a_dimension", every_hard_number_as_a_dimension, 0},
        {"every_hard_number_as_an_offset", every_hard_number_as_an_offset, 0},
        {"every_hard_number_anywhere_in_a_zip", every_hard_number_anywhere_in_a_zip, 0},
        {"trailing_bytes_only_on_request", trailing_bytes_only_on_request, 0},
        {"limits_can_be_set", limits_can_be_set, 0},
        {"a_zip_bomb_meets_the_cap", a_zip_bomb_meets_the_cap, 0},
        {"end_marks_in_the_data_are_data", end_marks_in_the_data_are_data, 0},
        {"many_names_take_linear_time", many_names_take_linear_time, 0},
        {"colliding_names_stay_cheap", colliding_names_stay_cheap, 0},
    };

    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_list(argv[2]);
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
