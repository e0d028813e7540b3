/* test_viz_faults.c: src/viz when memory and disk run out. */
#include "include/attn/io.h" /* the meter of io_files.h is built with attn_io */
#include "include/attn/viz.h"
#include "tests/expect.h"
#include "tests/io_files.h"
#include "tests/pictures.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int swallow(void *user, const void *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
    return 0;
}

/* Small figures of every kind, so that each has few allocations. */
static attn_figure small_figure(arena *a, int kind)
{
    static const double y[] = {1, 2, 3};
    static const attn_series series = {"curve", NULL, y, 3};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_panel *p = arena_get(a, sizeof *p);
    attn_image *m = arena_get(a, sizeof *m);
    uint8_t *rgba = arena_get(a, 16);

    memset(rgba, 128, 16);
    *p = (attn_panel)ATTN_PANEL_INIT;
    p->cells = pattern_weights(a, PATTERN_BROAD, kind == ATTN_FIGURE_MAP ? 70 : 5, 1);
    *m = (attn_image){rgba, 2, 2, 0};
    f.kind = (attn_figure_kind)kind;
    f.panels = p;
    f.panel_count = 1;
    f.series = &series;
    f.series_count = 1;
    f.image = m;
    f.scale = ATTN_SCALE_PERCENTILE;
    f.title = "title";
    f.notes = "some notes";
    if (kind != ATTN_FIGURE_MAP)
        f.query_tokens = f.key_tokens = hostile_tokens(a, 5);
    return f;
}

static void every_allocation_may_fail(void **state)
{
    static const attn_picture formats[] = {ATTN_PICTURE_PNG, ATTN_PICTURE_SVG, ATTN_PICTURE_HTML,
                                           ATTN_PICTURE_ANSI_24BIT, ATTN_PICTURE_ASCII};
    arena a = {0};
    size_t points = 0;

    (void)state;
    for (int kind = 0; kind <= ATTN_FIGURE_OVERLAY; kind++)
        for (size_t k = 0; k < 5; k++)
            for (int sticky = 0; sticky < 2; sticky++) {
                attn_figure f = small_figure(&a, kind);

                for (size_t at = 1;; at++, points++) {
                    attn_error err = {ATTN_OK, 0, ""};
                    attn_status st;
                    meter m;

                    meter_init(&m);
                    m.fail_at = at;
                    m.sticky = sticky;
                    st = attn_figure_emit(&m.ctx, &f, formats[k], swallow, NULL, &err);
                    CHECK_MSG(m.live == 0, "kind %d, format %zu: %zu blocks leaked at %zu", kind, k,
                              m.live, at);
                    if (m.calls < at) {
                        CHECK(st == ATTN_OK);
                        break;
                    }
                    CHECK_MSG(st == ATTN_E_MEMORY && err.status == st && err.text[0],
                              "kind %d, format %zu: allocation %zu failed, status %d", kind, k, at,
                              (int)st);
                    CHECK(at < 20000);
                }
            }
    print_message("%zu failures\n", points);
    arena_reset(&a);
}

static void reading_images_may_fail(void **state)
{
    arena a = {0};
    attn_figure f = small_figure(&a, ATTN_FIGURE_MAP);
    picture_bytes png = picture_emit(&a, &f, ATTN_PICTURE_PNG);

    (void)state;
    for (size_t at = 1;; at++) {
        attn_error err = {ATTN_OK, 0, ""};
        attn_image image;
        attn_status st;
        meter m;

        meter_init(&m);
        m.fail_at = at;
        st = attn_image_read_memory(&m.ctx, png.data, png.size, &image, &err);
        if (m.calls < at) {
            CHECK(st == ATTN_OK && image.width > 0);
            attn_image_reset(&m.ctx, &image);
            CHECK(m.live == 0 && at > 3);
            break;
        }
        CHECK_MSG(st == ATTN_E_MEMORY && !image.rgba && m.live == 0, "allocation %zu: status %d",
                  at, (int)st);
    }
    arena_reset(&a);
}

static int holds(arena *a, const char *path, const char *text)
{
    blob b = blob_load(a, path);

    return b.size == strlen(text) && memcmp(b.data, text, b.size) == 0;
}

/* A full disk, by way of the largest size that a file of this process may have; in a child, whose
 * limit it is. */
static int write_under_limit(const attn_figure *f, const char *path, size_t limit)
{
    struct rlimit r = {limit, RLIM_INFINITY};
    attn_error err = {ATTN_OK, 0, ""};

    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &r) != 0)
        return 2;
    return attn_figure_write(NULL, f, ATTN_PICTURE_AUTO, path, &err) == ATTN_E_IO &&
                   strstr(err.text, path)
               ? 0
               : 1;
}

static void a_full_disk_keeps_the_old_file(void **state)
{
    static const char *const names[] = {"x.png", "x.svg", "x.html", "x.txt"};
    arena a = {0};
    const char *folder = folder_new(&a);
    attn_figure f = small_figure(&a, ATTN_FIGURE_MAP);

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const char *path = path_in(&a, folder, names[i]);
        FILE *old = fopen(path, "wb");
        int status = -1;
        pid_t child;

        CHECK(old && fputs("old", old) >= 0 && fclose(old) == 0);
        child = fork();
        if (child == 0)
            _exit(write_under_limit(&f, path, 1000));
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: %d", names[i], status);
        CHECK(holds(&a, path, "old"));
        CHECK(folder_count(folder) == i + 1);
        CHECK(attn_figure_write(NULL, &f, ATTN_PICTURE_AUTO, path, NULL) == ATTN_OK);
        CHECK(!holds(&a, path, "old"));
    }
    folder_remove(folder);
    arena_reset(&a);
}

/* A figure that is refused leaves the file alone, too. */
static void a_mistake_keeps_the_old_file(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a), *path = path_in(&a, folder, "x.svg");
    attn_figure f = small_figure(&a, ATTN_FIGURE_MAP);
    FILE *old = fopen(path, "wb");
    attn_error err = {ATTN_OK, 0, ""};

    (void)state;
    CHECK(old && fputs("old", old) >= 0 && fclose(old) == 0);
    f.robust = 99;
    CHECK(attn_figure_write(NULL, &f, ATTN_PICTURE_AUTO, path, &err) == ATTN_E_ARGUMENT);
    CHECK_MSG(strstr(err.text, path) && strstr(err.text, "robust"), "%s", err.text);
    CHECK(holds(&a, path, "old") && folder_count(folder) == 1);
    folder_remove(folder);
    arena_reset(&a);
}

/* Blocks that end in bytes which nobody may write. */
enum { BESIDE = 2048 };

static void *alloc_beside(void *user, size_t size, size_t align)
{
    size_t room = (size + BESIDE + align + sizeof size - 1) / align * align;
    char *p = aligned_alloc(align, align + room);

    (void)user;
    CHECK(p != NULL);
    memcpy(p, &size, sizeof size);
    memset(p + align + size, 0x5a, BESIDE);
    return p + align; /* every block of the library is aligned to 64 */
}

static void free_beside(void *user, void *memory)
{
    char *p = (char *)memory - 64;
    size_t size;

    (void)user;
    memcpy(&size, p, sizeof size);
    for (size_t i = 0; i < BESIDE; i++)
        CHECK_MSG(p[64 + size + i] == 0x5a, "byte %zu past a block of %zu is written", i, size);
    free(p);
}

/* More heaviest keys than there are keys, and not as many in every panel. */
static void heaviest_keys_may_be_many(void **state)
{
    struct attn_ctx ctx = {.alloc = alloc_beside, .free = free_beside};
    attn_picture formats[] = {ATTN_PICTURE_HTML, ATTN_PICTURE_SVG, ATTN_PICTURE_ASCII};
    attn_panel p[2] = {ATTN_PANEL_INIT, ATTN_PANEL_INIT};
    attn_figure f = ATTN_FIGURE_INIT;
    attn_error err = {ATTN_OK, 0, ""};
    arena a = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t k = i ? 64 : 2;

        p[i].cells = pattern_weights(&a, PATTERN_BROAD, 2, 1);
        p[i].top_keys = view_plain(&a, ATTN_I32, 1, 1, 5, k);
        p[i].top_weights = view_plain(&a, ATTN_F32, 1, 1, 5, k);
        view_fill(&p[i].top_weights, 0.5);
        for (int64_t n = 0; n < 5 * k; n++)
            ((int32_t *)p[i].top_keys.data)[n] = n % k < 5 ? (int32_t)(n % k) : -1;
    }
    f.panels = p;
    f.panel_count = 2;
    f.queries = f.keys = 5;
    f.query_block = f.key_block = 3;
    for (int kind = ATTN_FIGURE_MAP; kind <= ATTN_FIGURE_LINES; kind++)
        for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
            f.kind = (attn_figure_kind)kind;
            CHECK_MSG(attn_figure_emit(&ctx, &f, formats[k], swallow, NULL, &err) == ATTN_OK, "%s",
                      err.text);
        }
    arena_reset(&a);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"every_allocation_may_fail", every_allocation_may_fail, 0},
        {"reading_images_may_fail", reading_images_may_fail, 0},
        {"a_full_disk_keeps_the_old_file", a_full_disk_keeps_the_old_file, 0},
        {"heaviest_keys_may_be_many", heaviest_keys_may_be_many, 0},
        {"a_mistake_keeps_the_old_file", a_mistake_keeps_the_old_file, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
