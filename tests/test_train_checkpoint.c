/* test_train_checkpoint.c: checkpoints come back as they were; whatever fails, dies or rots, the
 * newest whole one is found, and damage is seen.
 *
 * This program defines the calls with which a checkpoint is written, so that each can fail, or be
 * the last thing that a process does. */
#define _GNU_SOURCE

#include "include/attn/train.h"
#include "tests/expect.h"
#include "tests/io_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- Calls that fail, or end the process, on demand ----------------------------------------- */

static struct {
    int armed;
    int at; /* the call that fails, from 1, of all kinds; 0: none */
    int code;
    int die; /* the process ends there, before the call or (2) after it */
    int seen;
} faults;

static int fails(void)
{
    if (!faults.armed || ++faults.seen != faults.at)
        return 0;
    if (faults.die == 1)
        _exit(9);
    errno = faults.code;
    return faults.die == 0;
}

static int done(int result)
{
    if (faults.armed && faults.die == 2 && faults.seen == faults.at)
        _exit(9);
    return result;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (fails())
        return -1;
    if (faults.armed && faults.die && faults.seen == faults.at && n > 1)
        n /= 2; /* torn */
    return done((int)syscall(SYS_write, fd, bytes, n));
}

int fsync(int fd) /* waits for no disk: no power is lost here */
{
    (void)fd;
    return fails() ? -1 : done(0);
}

int close(int fd)
{
    int bad = fails(), code = (int)syscall(SYS_close, fd);

    return bad ? -1 : done(code);
}

int rename(const char *from, const char *to)
{
    return fails() ? -1 : done((int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int mkdir(const char *path, mode_t mode)
{
    return fails() ? -1 : done((int)syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int unlink(const char *path)
{
    return fails() ? -1 : done((int)syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int rmdir(const char *path)
{
    return fails() ? -1 : done((int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

/* --- A checkpoint of a step ----------------------------------------------------------------- */

enum { N = 1000 };

typedef struct content {
    float w[N], m[N];
    char text[24];
} content;

static void fill(content *c, int64_t step)
{
    for (int i = 0; i < N; i++) {
        c->w[i] = (float)(step * 10007 + i);
        c->m[i] = -c->w[i];
    }
    snprintf(c->text, sizeof c->text, "state of %lld", (long long)step);
}

static attn_status save(const attn_ctx *ctx, const char *folder, int64_t step, int64_t keep,
                        attn_error *err)
{
    static content c;
    static const char *const keys[] = {"run.state", "seed"};
    const char *const values[] = {c.text, "77"};
    const attn_tensor w[2] = {{"a", ATTN_F32, 2, {10, 50}, {50, 1}, c.w},
                              {"b", ATTN_F32, 1, {500}, {1}, c.w + 500}};
    const attn_tensor m = {"flat", ATTN_F32, 1, {N}, {1}, c.m};
    const attn_checkpoint_part parts[] = {{"weights", w, 2, keys, values, 1},
                                          {"adam_m", &m, 1, NULL, NULL, 0}};
    attn_checkpoint_save_args a = ATTN_CHECKPOINT_SAVE_ARGS_INIT;

    fill(&c, step);
    a.folder = folder;
    a.step = step;
    a.parts = parts;
    a.part_count = 2;
    a.keys = keys;
    a.values = values;
    a.pair_count = 2;
    a.keep = keep;
    return attn_checkpoint_save(ctx, &a, err);
}

/* The checkpoint holds what belongs to its step. */
static void check_content(const attn_checkpoint *c)
{
    static content want;
    const attn_tensor *a = attn_file_find(attn_checkpoint_find(c, "weights"), "a");
    const attn_tensor *b = attn_file_find(attn_checkpoint_find(c, "weights"), "b");
    const attn_tensor *m = attn_file_find(attn_checkpoint_find(c, "adam_m"), "flat");

    fill(&want, attn_checkpoint_step(c));
    CHECK(a && b && m);
    CHECK(memcmp(a->data, want.w, 500 * sizeof(float)) == 0);
    CHECK(memcmp(b->data, want.w + 500, 500 * sizeof(float)) == 0);
    CHECK(memcmp(m->data, want.m, sizeof want.m) == 0);
    CHECK(strcmp(attn_checkpoint_value(c, "run.state"), want.text) == 0);
    CHECK(strcmp(attn_checkpoint_value(c, "seed"), "77") == 0);
    CHECK(!attn_checkpoint_value(c, "none") && !attn_checkpoint_find(c, "none"));
}

/* Opens the newest (or `step`), checks it and returns its step; -1 - status if none opens. */
static int64_t opened(const attn_ctx *ctx, const char *folder, int64_t step)
{
    attn_checkpoint *c;
    attn_error err = {0};
    attn_status st = attn_checkpoint_open(ctx, folder, step, &c, &err);
    int64_t found;

    if (st != ATTN_OK) {
        CHECK(!c && err.status == st && err.text[0]);
        return -1 - (int64_t)st;
    }
    check_content(c);
    found = attn_checkpoint_step(c);
    attn_checkpoint_close(c);
    return found;
}

/* --- A folder of the test ------------------------------------------------------------------- */

static char place[64];

static void in_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void in_shell(const char *format, ...)
{
    char line[600];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    CHECK_MSG(system(line) == 0, "%s", line);
}

static const char *fresh(void)
{
    snprintf(place, sizeof place, "/tmp/attn-checkpoint-XXXXXX");
    CHECK(mkdtemp(place) != NULL);
    return place;
}

static void sweep_up(void)
{
    in_shell("rm -rf %s", place);
}

static int count_entries(const char *pattern)
{
    char line[300];
    FILE *out;
    int n = -1;

    snprintf(line, sizeof line, "find %s -name '%s' | wc -l", place, pattern);
    out = popen(line, "r");
    CHECK(out && fscanf(out, "%d", &n) == 1);
    pclose(out);
    return n;
}

/* --- The usual ------------------------------------------------------------------------------ */

static void comes_back(void **state)
{
    char run[100];
    int64_t steps[4];
    size_t count;
    attn_error err = {0};

    (void)state;
    snprintf(run, sizeof run, "%s/run", fresh());
    CHECK(opened(NULL, run, -1) == -1 - (int64_t)ATTN_E_IO);
    for (int64_t step = 0; step < 5; step++)
        CHECK_MSG(save(NULL, run, step * 100, 3, &err) == ATTN_OK, "%s", err.text);
    CHECK(opened(NULL, run, -1) == 400 && opened(NULL, run, 300) == 300);
    CHECK(opened(NULL, run, 100) == -1 - (int64_t)ATTN_E_IO); /* only three stay */
    CHECK(attn_checkpoint_list(NULL, run, steps, 4, &count, NULL) == ATTN_OK && count == 3);
    CHECK(steps[0] == 200 && steps[1] == 300 && steps[2] == 400);
    CHECK(attn_checkpoint_list(NULL, run, steps, 1, &count, NULL) == ATTN_OK && count == 3);
    CHECK(steps[0] == 400);
    CHECK(count_entries("step-*") == 3 && count_entries("*.tmp") == 0);
    /* The same step again: a second folder; with `keep` 1 only the last one stays. */
    CHECK(save(NULL, run, 400, 0, NULL) == ATTN_OK && save(NULL, run, 400, 0, NULL) == ATTN_OK);
    CHECK(count_entries("step-000000000400.2") == 1 && count_entries("step-*") == 5);
    CHECK(save(NULL, run, 400, 1, NULL) == ATTN_OK);
    CHECK(opened(NULL, run, -1) == 400 && count_entries("step-*") == 1);
    sweep_up();
}

static void mistakes(void **state)
{
    const char *one[] = {"attn.x"}, *value[] = {"y"};
    float x = 1;
    const attn_tensor t = {"x", ATTN_F32, 0, {0}, {0}, &x};
    attn_checkpoint_part parts[] = {{"w", &t, 1, NULL, NULL, 0}, {"w", &t, 1, NULL, NULL, 0}};
    attn_checkpoint_save_args good = ATTN_CHECKPOINT_SAVE_ARGS_INIT, a;
    static const char *const names[] = {"", "a/b", "..", "manifest", "a.b", NULL};

    (void)state;
    good.folder = fresh();
    good.parts = parts;
    good.part_count = 1;
    a = good, a.part_count = 2, CHECK(attn_checkpoint_save(NULL, &a, NULL) == ATTN_E_ARGUMENT);
    a = good, a.step = -1, CHECK(attn_checkpoint_save(NULL, &a, NULL) == ATTN_E_ARGUMENT);
    a = good, a.folder = "", CHECK(attn_checkpoint_save(NULL, &a, NULL) == ATTN_E_ARGUMENT);
    a = good, a.keys = one, a.values = value, a.pair_count = 1;
    CHECK(attn_checkpoint_save(NULL, &a, NULL) == ATTN_E_ARGUMENT);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        parts[0].name = names[i];
        CHECK(attn_checkpoint_save(NULL, &good, NULL) == ATTN_E_ARGUMENT);
    }
    CHECK(count_entries("step-*") == 0);
    parts[0].name = "w";
    a = good, a.folder = "/dev/null", CHECK(attn_checkpoint_save(NULL, &a, NULL) == ATTN_E_IO);
    sweep_up();
}

/* Names that look like checkpoints, a manifest that is a folder, others' files. */
static void strange_folders(void **state)
{
    char run[100];

    (void)state;
    snprintf(run, sizeof run, "%s", fresh());
    in_shell("cd %s && mkdir step-1 step-000000000009.0 step-000000000009.01 step-000000000009x "
             "step-9999999999999999999 step-000000000008 && touch step-000000000007 && "
             "mkdir -p step-000000000006/manifest.safetensors",
             run);
    CHECK(opened(NULL, run, -1) == -1 - (int64_t)ATTN_E_FORMAT);
    CHECK(save(NULL, run, 5, 1, NULL) == ATTN_OK);
    CHECK(opened(NULL, run, -1) == 5);
    in_shell("touch %s/step-000000000005/mine.txt", run);
    CHECK(save(NULL, run, 10, 1, NULL) == ATTN_OK); /* what is not ours makes the folder stay */
    CHECK(count_entries("mine.txt") == 1 && opened(NULL, run, -1) == 10);
    sweep_up();
}

/* --- Damage --------------------------------------------------------------------------------- */

typedef struct damaged_file {
    char path[160];
    unsigned char *bytes;
    size_t size;
} damaged_file;

static damaged_file read_file(arena *memory, const char *run, const char *name)
{
    damaged_file f;
    FILE *in;
    struct stat st;

    snprintf(f.path, sizeof f.path, "%s/step-000000000002/%s.safetensors", run, name);
    CHECK(stat(f.path, &st) == 0);
    f.size = (size_t)st.st_size;
    f.bytes = arena_get(memory, f.size);
    in = fopen(f.path, "rb");
    CHECK(in && fread(f.bytes, 1, f.size, in) == f.size);
    fclose(in);
    return f;
}

static void write_file(const damaged_file *f)
{
    FILE *out = fopen(f->path, "wb");

    CHECK(out && fwrite(f->bytes, 1, f->size, out) == f->size && fclose(out) == 0);
}

/* In place: a file that is written anew is flushed by some file systems. */
static void flip(damaged_file *f, size_t bit)
{
    int fd = open(f->path, O_WRONLY);

    f->bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    CHECK(fd >= 0 && pwrite(fd, f->bytes + bit / 8, 1, (off_t)(bit / 8)) == 1);
    close(fd);
}

/* Every bit of the manifest and of the headers, and many of the data, and many truncations. */
static void damage_is_found(void **state)
{
    static const char *const names[] = {"manifest", "weights", "adam_m"};
    arena memory = {0};
    const char *run = fresh();
    rng r = rng_make(test_seed(), 3);
    size_t flips = 0;

    (void)state;
    CHECK(save(NULL, run, 1, 0, NULL) == ATTN_OK && save(NULL, run, 2, 0, NULL) == ATTN_OK);
    CHECK(opened(NULL, run, -1) == 2);
    for (size_t i = 0; i < 3; i++) {
        damaged_file f = read_file(&memory, run, names[i]);
        size_t header = i == 0 ? f.size : 200;

        for (size_t bit = 0; bit < 8 * f.size; bit++) {
            if (bit >= 8 * header && !rng_chance(&r, 2))
                continue;
            flip(&f, bit);
            CHECK_MSG(opened(NULL, run, -1) == 1, "%s: bit %zu", names[i], bit);
            flip(&f, bit);
            flips++;
        }
        for (size_t cut = f.size - 1; cut > 0; cut -= 1 + cut / 40) {
            CHECK(truncate(f.path, (off_t)cut) == 0);
            CHECK_MSG(opened(NULL, run, -1) == 1, "%s: cut to %zu", names[i], cut);
        }
        CHECK(remove(f.path) == 0);
        CHECK(opened(NULL, run, -1) == 1);
        CHECK(opened(NULL, run, 2) < 0);
        write_file(&f);
        CHECK(opened(NULL, run, -1) == 2);
    }
    print_message("%zu bits\n", flips);
    /* Whole files of another checkpoint. */
    in_shell("cp %s/step-000000000001/weights.safetensors %s/step-000000000002/", run, run);
    CHECK(opened(NULL, run, -1) == 1);
    in_shell("cp %s/step-000000000001/* %s/step-000000000002/", run, run);
    CHECK(opened(NULL, run, -1) == 1);
    arena_reset(&memory);
    sweep_up();
}

static void log_line(void *user, const char *text)
{
    snprintf(user, 400, "%s", text);
}

static void damage_is_told(void **state)
{
    attn_ctx_options options = ATTN_CTX_OPTIONS_INIT;
    char told[400] = "";
    attn_ctx *ctx;
    const char *run = fresh();

    (void)state;
    options.threads = 1;
    options.log = log_line;
    options.log_user = told;
    CHECK(attn_ctx_create(&options, &ctx, NULL) == ATTN_OK);
    CHECK(save(ctx, run, 1, 0, NULL) == ATTN_OK && save(ctx, run, 2, 0, NULL) == ATTN_OK);
    CHECK(opened(ctx, run, -1) == 2 && !told[0]);
    in_shell("truncate -s -1 %s/step-000000000002/adam_m.safetensors", run);
    CHECK(opened(ctx, run, -1) == 1);
    CHECK(strstr(told, "step-000000000002") && strstr(told, "adam_m"));
    attn_ctx_destroy(ctx);
    sweep_up();
}

/* --- Faults --------------------------------------------------------------------------------- */

/* Call 1, 2, ... fails until a save gets by: then step 1 is whole if the save failed, step 2 is if
 * it did not; and a second try works. */
static void every_call_may_fail(void **state)
{
    const char *run = fresh();
    int last = 0, at;

    (void)state;
    for (at = 1; !last; at++) {
        attn_error err = {0};
        attn_status st;

        in_shell("rm -rf %s/*", run);
        CHECK(save(NULL, run, 1, 1, NULL) == ATTN_OK);
        faults.armed = 1, faults.at = at, faults.seen = 0;
        faults.code = at % 2 ? ENOSPC : EIO;
        st = save(NULL, run, 2, 1, &err);
        faults.armed = 0;
        last = faults.seen < at;
        if (st == ATTN_OK) { /* also if what failed was the removal of the old one */
            CHECK(opened(NULL, run, -1) == 2);
        } else { /* whole already if only the folder could not be synced */
            CHECK_MSG(st == ATTN_E_IO && err.text[0], "call %d: status %d", at, (int)st);
            CHECK(strncmp(err.text, run, strlen(run)) == 0);
            CHECK(opened(NULL, run, 1) == 1);
        }
        CHECK(count_entries("*.tmp") == 0);
        CHECK_MSG(save(NULL, run, 3, 1, NULL) == ATTN_OK, "call %d", at);
        CHECK(opened(NULL, run, -1) == 3);
        CHECK(at < 500);
    }
    print_message("%d calls of a save\n", at - 2);
    sweep_up();
}

/* The process ends before or after (a write: in the middle of) call 1, 2, ... */
static void death_at_every_call(void **state)
{
    const char *run = fresh();
    int points = 0;

    (void)state;
    for (int how = 1; how <= 2; how++)
        for (int at = 1, last = 0; !last; at++) {
            int status = 0;
            pid_t child;
            int64_t found;

            in_shell("rm -rf %s/*", run);
            CHECK(save(NULL, run, 1, 1, NULL) == ATTN_OK);
            child = fork();
            if (child == 0) {
                faults.armed = 1, faults.at = at, faults.die = how, faults.seen = 0;
                _exit(save(NULL, run, 2, 1, NULL) == ATTN_OK ? 0 : 1);
            }
            CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
            last = WEXITSTATUS(status) == 0;
            CHECK(last || WEXITSTATUS(status) == 9);
            found = opened(NULL, run, -1);
            CHECK_MSG(found == 1 || found == 2, "call %d: %lld", at, (long long)found);
            CHECK(!last || found == 2);
            CHECK(save(NULL, run, 3, 1, NULL) == ATTN_OK && opened(NULL, run, -1) == 3);
            CHECK(count_entries("step-*") == 1 && count_entries("*.tmp") == 0);
            points++;
            CHECK(at < 500);
        }
    print_message("%d deaths\n", points - 2);
    sweep_up();
}

/* A limit on the size of files is a disk that is full. */
static void full_disk(void **state)
{
    const char *run = fresh();
    struct rlimit old, small;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(save(NULL, run, 1, 1, NULL) == ATTN_OK);
    for (rlim_t limit = 0; limit < 4200; limit += 97) {
        attn_status st;

        small = old;
        small.rlim_cur = limit;
        CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
        st = save(NULL, run, 2, 1, NULL);
        CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
        CHECK(st == ATTN_E_IO);
        CHECK(opened(NULL, run, -1) == 1 && count_entries("step-*") == 1);
    }
    sweep_up();
}

static void every_allocation_may_fail(void **state)
{
    const char *run = fresh();
    size_t at;

    (void)state;
    CHECK(save(NULL, run, 1, 1, NULL) == ATTN_OK);
    for (at = 1; at < 500; at++) {
        meter m;
        attn_checkpoint *c;
        attn_status st;

        in_shell("rm -rf %s/step-*2*", run);
        meter_init(&m);
        m.fail_at = at;
        st = save(&m.ctx, run, 2, 1, NULL);
        CHECK(st == ATTN_OK || (st == ATTN_E_MEMORY && opened(NULL, run, -1) >= 1));
        if (st == ATTN_OK)
            st = attn_checkpoint_open(&m.ctx, run, -1, &c, NULL);
        if (st == ATTN_OK)
            attn_checkpoint_close(c);
        CHECK(st == ATTN_OK || st == ATTN_E_MEMORY);
        CHECK_MSG(m.live == 0, "allocation %zu: %zu blocks lost", at, m.live);
        if (m.calls < at)
            break;
    }
    print_message("%zu allocations\n", at - 1);
    CHECK(at > 20 && at < 500);
    sweep_up();
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"comes back", comes_back, 0},
        {"mistakes", mistakes, 0},
        {"strange folders", strange_folders, 0},
        {"damage is found", damage_is_found, 0},
        {"damage is told", damage_is_told, 0},
        {"every call may fail", every_call_may_fail, 0},
        {"death at every call", death_at_every_call, 0},
        {"full disk", full_disk, 0},
        {"every allocation may fail", every_allocation_may_fail, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
