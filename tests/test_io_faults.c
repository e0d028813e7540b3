/* test_io_faults.c: src/io when memory, disk and system calls fail.
 *
 * This program defines write, fsync, close, rename and the allocator itself; the linker then takes
 * ours for the library, jansson and libzip too. */
#define _GNU_SOURCE

#include "include/attn/io.h"
#include "tests/expect.h"
#include "tests/io_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* libzip 1.7.3 loses a few hundred bytes when an allocation fails while it opens a member. Ours are
 * watched by a test of their own; here the leak checker looks away from libzip. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS_SEEN 1
#elif __has_feature(thread_sanitizer)
#define THREADS_SEEN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define LEAKS_SEEN 1
#elif defined(__SANITIZE_THREAD__)
#define THREADS_SEEN 1
#endif
#ifdef LEAKS_SEEN
#include <sanitizer/lsan_interface.h>
#endif

/* Where the memory comes from behind our own malloc: the address sanitizer's, so that it still sees
 * what is freed twice or used after, or the C library's. The thread sanitizer allows neither. */
#if defined(LEAKS_SEEN)
#define REAL(name) __interceptor_##name
#elif defined(__GLIBC__) && !defined(THREADS_SEEN)
#define REAL(name) __libc_##name
#endif

#define SEEDS "tests/fuzz/corpus/"

/* --- Calls that fail on demand -------------------------------------------------------------- */

typedef enum call { CALL_NONE, CALL_WRITE, CALL_FSYNC, CALL_CLOSE, CALL_RENAME } call;

static struct {
    int armed;  /* count calls, and fail one */
    call which; /* of this kind */
    int at;     /* from 1; 0: none */
    int code;   /* errno */
    int seen;
    size_t most; /* write() takes no more than this; 0: all */
    int hiccup;  /* every second write() is interrupted first */
    int writes;
} faults;

static int fails(call which)
{
    if (!faults.armed || faults.which != which || ++faults.seen != faults.at)
        return 0;
    errno = faults.code;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (fails(CALL_WRITE))
        return -1;
    if (faults.armed && faults.hiccup && faults.writes++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    if (faults.armed && faults.most && n > faults.most)
        n = faults.most;
    return syscall(SYS_write, fd, bytes, n);
}

int fsync(int fd)
{
    return fails(CALL_FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int close(int fd)
{
    int code = (int)syscall(SYS_close, fd); /* closed, whatever it says */

    return fails(CALL_CLOSE) ? -1 : code;
}

int rename(const char *from, const char *to)
{
    return fails(CALL_RENAME) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* --- An allocator that fails on demand ------------------------------------------------------ */

#ifdef REAL
void *REAL(malloc)(size_t);
void *REAL(calloc)(size_t, size_t);
void *REAL(realloc)(void *, size_t);
void *REAL(memalign)(size_t, size_t);

static struct {
    int armed;
    size_t calls, fail_at;
    int sticky;
} heap;

/* The four are visible to the shared libraries, whatever the visibility of the rest. */
static int heap_fails(void)
{
    if (!heap.armed)
        return 0;
    heap.calls++;
    return heap.calls == heap.fail_at || (heap.sticky && heap.calls > heap.fail_at);
}

ATTN_API void *malloc(size_t n)
{
    return heap_fails() ? NULL : REAL(malloc)(n);
}

ATTN_API void *calloc(size_t n, size_t size)
{
    return heap_fails() ? NULL : REAL(calloc)(n, size);
}

ATTN_API void *realloc(void *p, size_t n)
{
    return heap_fails() ? NULL : REAL(realloc)(p, n);
}

ATTN_API void *aligned_alloc(size_t align, size_t n)
{
    return heap_fails() ? NULL : REAL(memalign)(align, n);
}

static void ignore_leaks(int on)
{
#ifdef LEAKS_SEEN
    (on ? __lsan_disable : __lsan_enable)();
#else
    (void)on;
#endif
}
#endif

/* --- Failing memory ------------------------------------------------------------------------- */

/* What is tried under each failure: opening a file, sound or not, or writing one. */
typedef struct task {
    const char *name;
    attn_status expected; /* when nothing fails */
    const char *seed;     /* to open, or NULL */
    const char *ending;   /* to write, or NULL */
} task;

static const task tasks[] = {
    {"open npy", ATTN_OK, SEEDS "npy/rank_3_fortran.npy", NULL},
    {"open stored npz", ATTN_OK, SEEDS "npz/stored.npz", NULL},
    {"open deflated npz", ATTN_OK, SEEDS "npz/deflated.npz", NULL},
    {"open safetensors", ATTN_OK, SEEDS "safetensors/shapes.safetensors", NULL},
    {"open object npy", ATTN_E_FORMAT, SEEDS "npy/refused_object.npy", NULL},
    {"open npz from a pipe", ATTN_E_FORMAT, SEEDS "npz/refused_pipe.npz", NULL},
    {"open bzip2 npz", ATTN_E_FORMAT, SEEDS "npz/refused_bzip2.npz", NULL},
    {"write npy", ATTN_OK, NULL, "x.npy"},
    {"write npz", ATTN_OK, NULL, "x.npz"},
    {"write safetensors", ATTN_OK, NULL, "x.safetensors"},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

static const uint8_t old_bytes[2] = {'o', 'l'}, new_bytes[6] = {1, 2, 3, 4, 5, 6};
static const attn_tensor old_tensor = {"old", ATTN_U8, 1, {2}, {1}, old_bytes};
static const attn_tensor new_tensor = {"new", ATTN_U8, 2, {3, 2}, {1, 3}, new_bytes};

static attn_status run_task(const attn_ctx *ctx, const task *t, const char *path, int copy,
                            attn_error *err)
{
    static const char *const keys[] = {"key"}, *const values[] = {"value"};
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    attn_file *file = NULL;
    attn_status st;

    options.copy = copy;
    if (!t->seed)
        return attn_file_write(ctx, path, ATTN_FORMAT_AUTO, &new_tensor, 1, keys, values,
                               strstr(path, ".safetensors") != NULL, err);
    st = attn_file_open(ctx, t->seed, &options, &file, err);
    CHECK((st == ATTN_OK) == (file != NULL));
    attn_file_close(file);
    return st;
}

/* The one tensor in the file at path is `want`. */
static void check_holds(const char *path, const attn_tensor *want)
{
    attn_file *file = NULL;
    attn_error err = {ATTN_OK, 0, ""};

    CHECK_MSG(attn_file_open(NULL, path, NULL, &file, &err) == ATTN_OK, "%s", err.text);
    CHECK(attn_file_count(file) == 1);
    CHECK_MSG(tensor_equal(attn_file_tensor(file, 0), want), "%s holds the wrong tensor", path);
    attn_file_close(file);
}

static void write_old(const char *path)
{
    CHECK(attn_file_write(NULL, path, ATTN_FORMAT_AUTO, &old_tensor, 1, NULL, NULL, 0, NULL) ==
          ATTN_OK);
}

/* Fails allocation 1, 2, ... through the context until the task gets by without the failing one. */
static size_t sweep(const task *t, const char *path, int sticky, int copy)
{
    for (size_t at = 1;; at++) {
        attn_error err = {ATTN_OK, 0, ""};
        attn_status st;
        meter m;

        if (t->ending)
            write_old(path);
        meter_init(&m);
        m.fail_at = at;
        m.sticky = sticky;
        st = run_task(&m.ctx, t, path, copy, &err);
        CHECK_MSG(m.live == 0, "%s: %zu blocks leaked at allocation %zu", t->name, m.live, at);
        if (m.calls < at) {
            CHECK(st == t->expected);
            return at - 1;
        }
        CHECK_MSG(st == ATTN_E_MEMORY, "%s: allocation %zu failed, status %d", t->name, at,
                  (int)st);
        CHECK(err.status == st && err.text[0]);
        if (t->ending)
            check_holds(path, &old_tensor);
        m.fail_at = 0; /* the next try works */
        CHECK(run_task(&m.ctx, t, path, copy, &err) == t->expected && m.live == 0);
        CHECK(at < 1000);
    }
}

static void every_allocation_of_ours_may_fail(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a);
    size_t points = 0;

    (void)state;
    for (size_t i = 0; i < TASKS; i++) {
        const char *path = path_in(&a, folder, tasks[i].ending ? tasks[i].ending : "none");
        size_t n = 0;

        for (int mode = 0; mode < 4; mode++)
            n += sweep(&tasks[i], path, mode & 1, mode >> 1);
        CHECK(n > 0);
        points += n;
    }
    CHECK(folder_count(folder) == 3); /* no temporary file stays */
    print_message("%zu failures\n", points);
    folder_remove(folder);
    arena_reset(&a);
}

/* The same for all memory of the process: jansson's and libzip's. Here a status other than memory
 * may come out where a library hides the reason, but never success, a crash or a spoiled file. */
static void every_allocation_of_the_libraries_may_fail(void **state)
{
#ifdef REAL
    arena a = {0};
    const char *folder = folder_new(&a);
    size_t points = 0;

    (void)state;
    for (size_t i = 0; i < TASKS; i++)
        for (int sticky = 0; sticky < 2; sticky++) {
            const task *t = &tasks[i];
            const char *path = path_in(&a, folder, t->ending ? t->ending : "none");
            int zip = t->seed && strstr(t->seed, ".npz") != NULL;
            attn_status st;

            for (size_t at = 1;; at++, points++) {
                attn_error err = {ATTN_OK, 0, ""};

                if (t->ending)
                    write_old(path);
                heap.calls = 0;
                heap.fail_at = at;
                heap.sticky = sticky;
                if (zip)
                    ignore_leaks(1);
                heap.armed = 1;
                st = run_task(NULL, t, path, 0, &err);
                heap.armed = 0;
                if (zip)
                    ignore_leaks(0);
                if (heap.calls < at)
                    break;
                /* The C library's sort falls back to sorting in place. */
                CHECK_MSG(st != ATTN_OK || t->expected == ATTN_OK, "%s", t->name);
                CHECK_MSG(st == ATTN_OK || st == ATTN_E_MEMORY || st == ATTN_E_FORMAT,
                          "%s: allocation %zu failed, status %d", t->name, at, (int)st);
                if (t->ending)
                    check_holds(path, st == ATTN_OK ? &new_tensor : &old_tensor);
                CHECK(run_task(NULL, t, path, 0, &err) == t->expected);
                CHECK(at < 5000);
            }
            CHECK(st == t->expected);
        }
    CHECK(folder_count(folder) == 3);
    CHECK_MSG(points > 1000, "%zu failures: those of the libraries are not among them", points);
    print_message("%zu failures\n", points);
    folder_remove(folder);
    arena_reset(&a);
#else
    (void)state;
    print_message("skipped: no way to the allocator behind malloc\n");
    skip();
#endif
}

/* --- Failing system calls ------------------------------------------------------------------- */

/* A tensor that needs several write() calls. */
enum { BIG = 1 << 20 };

static void check_fault(const char *path, call which, int at, int code, const attn_tensor *big)
{
    const char *slash = strrchr(path, '/');
    arena a = {0};
    char *folder = arena_get(&a, strlen(path) + 1);
    attn_error err = {ATTN_OK, 0, ""};
    attn_status st;

    memcpy(folder, path, strlen(path) + 1);
    folder[slash - path] = '\0';
    write_old(path);
    memset(&faults, 0, sizeof faults);
    faults.which = which;
    faults.at = at;
    faults.code = code;
    faults.armed = 1;
    st = attn_file_write(NULL, path, ATTN_FORMAT_AUTO, big, 1, NULL, NULL, 0, &err);
    faults.armed = 0;
    CHECK_MSG(st == ATTN_E_IO, "call %d of kind %d failed, status %d", at, (int)which, (int)st);
    CHECK_MSG(strstr(err.text, path), "%s", err.text);
    check_holds(path, &old_tensor);
    CHECK_MSG(folder_count(folder) == 1, "a temporary file stays after call %d of kind %d", at,
              (int)which);
    arena_reset(&a);
}

static void every_system_call_may_fail(void **state)
{
    static const char *const endings[] = {"x.npy", "x.npz", "x.safetensors"};
    static const struct {
        call which;
        int code;
    } kinds[] = {
        {CALL_WRITE, ENOSPC}, {CALL_WRITE, EIO},    {CALL_WRITE, EFBIG},  {CALL_FSYNC, EIO},
        {CALL_CLOSE, EIO},    {CALL_CLOSE, EDQUOT}, {CALL_RENAME, EXDEV}, {CALL_RENAME, EACCES},
    };
    arena a = {0};
    unsigned char *data = arena_get(&a, BIG);
    attn_tensor big = {"new", ATTN_U8, 2, {2, BIG / 2}, {1, 2}, data};

    (void)state;
    memset(data, 7, BIG);
    for (size_t e = 0; e < 3; e++) {
        const char *folder = folder_new(&a), *path = path_in(&a, folder, endings[e]);

        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (int at = 1; at <= (kinds[k].which == CALL_WRITE ? BIG >> 18 : 1); at++)
                check_fault(path, kinds[k].which, at, kinds[k].code, &big);
        folder_remove(folder);
    }
    arena_reset(&a);
}

/* After the rename the new file is there; the error says so. */
static void a_folder_that_cannot_be_synced(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a), *path = path_in(&a, folder, "x.npy");
    attn_error err = {ATTN_OK, 0, ""};
    attn_status st;

    (void)state;
    write_old(path);
    memset(&faults, 0, sizeof faults);
    faults.which = CALL_FSYNC;
    faults.at = 2;
    faults.code = EIO;
    faults.armed = 1;
    st = attn_file_write(NULL, path, ATTN_FORMAT_AUTO, &new_tensor, 1, NULL, NULL, 0, &err);
    CHECK(st == ATTN_E_IO && strstr(err.text, "written, but"));
    check_holds(path, &new_tensor);
    faults.seen = 0;
    faults.code = EINVAL; /* a file system that does not sync folders */
    st = attn_file_write(NULL, path, ATTN_FORMAT_AUTO, &old_tensor, 1, NULL, NULL, 0, &err);
    faults.armed = 0;
    CHECK(st == ATTN_OK);
    check_holds(path, &old_tensor);
    folder_remove(folder);
    arena_reset(&a);
}

static void short_and_interrupted_writes_are_continued(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a);
    unsigned char *data = arena_get(&a, BIG);
    attn_tensor big = {"new", ATTN_U8, 1, {BIG}, {1}, data};

    (void)state;
    for (size_t i = 0; i < BIG; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    for (int format = ATTN_FORMAT_NPY; format <= ATTN_FORMAT_SAFETENSORS; format++) {
        const char *path = path_in(&a, folder, "x");
        attn_status st;

        memset(&faults, 0, sizeof faults);
        faults.most = 12345;
        faults.hiccup = 1;
        faults.armed = 1;
        st = attn_file_write(NULL, path, (attn_format)format, &big, 1, NULL, NULL, 0, NULL);
        faults.armed = 0;
        CHECK(st == ATTN_OK && faults.writes > BIG / 12345);
        check_holds(path, &big);
    }
    folder_remove(folder);
    arena_reset(&a);
}

/* The real thing: the system stops the file at every limit up to `last`. In a child, whose limit it
 * is; `size` bytes are needed. */
static int write_under_limits(const char *path, size_t last, size_t size)
{
    for (size_t limit = 0; limit <= last; limit++) {
        struct rlimit r = {limit, RLIM_INFINITY};
        attn_status st;

        if (setrlimit(RLIMIT_FSIZE, &r) != 0)
            return 2;
        st = attn_file_write(NULL, path, ATTN_FORMAT_AUTO, &new_tensor, 1, NULL, NULL, 0, NULL);
        if (st != (limit < size ? ATTN_E_IO : ATTN_OK))
            return 3;
    }
    return 0;
}

static void a_full_disk_keeps_the_old_file(void **state)
{
    static const char *const endings[] = {"x.npy", "x.npz", "x.safetensors"};

    (void)state;
    for (size_t e = 0; e < 3; e++) {
        arena a = {0};
        const char *folder = folder_new(&a), *path = path_in(&a, folder, endings[e]);
        struct stat st;
        int status;
        pid_t child;

        CHECK(attn_file_write(NULL, path, ATTN_FORMAT_AUTO, &new_tensor, 1, NULL, NULL, 0, NULL) ==
              ATTN_OK);
        CHECK(stat(path, &st) == 0);
        for (int enough = 0; enough < 2; enough++) { /* the last limit suffices, or is short by 1 */
            write_old(path);
            child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                signal(SIGXFSZ, SIG_IGN);
                _exit(write_under_limits(path, (size_t)st.st_size - !enough, (size_t)st.st_size));
            }
            CHECK(waitpid(child, &status, 0) == child);
            CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: child %d", endings[e],
                      status);
            check_holds(path, enough ? &new_tensor : &old_tensor);
            CHECK(folder_count(folder) == 1);
        }
        folder_remove(folder);
        arena_reset(&a);
    }
}

/* --- Odd things in the place of a file ------------------------------------------------------ */

static void check_open_fails(const char *path, attn_status want, const char *says)
{
    attn_error err = {ATTN_OK, 0, ""};

    for (int copy = 0; copy < 2; copy++) {
        attn_file_options options = ATTN_FILE_OPTIONS_INIT;
        attn_file *file = (attn_file *)(uintptr_t)1;

        options.copy = copy;
        alarm(5); /* a hang is a failure */
        CHECK_MSG(attn_file_open(NULL, path, &options, &file, &err) == want && !file, "%s: %s",
                  path, err.text);
        alarm(0);
        CHECK_MSG(strstr(err.text, says), "'%s' is not in '%s'", says, err.text);
    }
}

static void only_regular_files_are_opened(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a), *fifo = path_in(&a, folder, "fifo"),
               *loop = path_in(&a, folder, "loop"), *empty = path_in(&a, folder, "empty"),
               *link = path_in(&a, folder, "link"), *file = path_in(&a, folder, "x.npy");
    char *long_path = arena_get(&a, 10001);
    FILE *f = fopen(empty, "w");

    (void)state;
    CHECK(f && fclose(f) == 0);
    CHECK(mkfifo(fifo, 0600) == 0 && symlink(loop, loop) == 0 && symlink(file, link) == 0);
    memset(long_path, 'p', 10000);
    long_path[10000] = '\0';
    check_open_fails(fifo, ATTN_E_IO, "regular");
    check_open_fails(folder, ATTN_E_IO, "regular");
    check_open_fails("/dev/zero", ATTN_E_IO, "regular");
    check_open_fails(loop, ATTN_E_IO, "open");
    check_open_fails(link, ATTN_E_IO, "open"); /* leads nowhere yet */
    check_open_fails(path_in(&a, folder, "missing"), ATTN_E_IO, "open");
    check_open_fails("", ATTN_E_IO, "open");
    check_open_fails(long_path, ATTN_E_IO, "open");
    check_open_fails(empty, ATTN_E_FORMAT, "empty");
    write_old(file);
    check_holds(link, &old_tensor);
    folder_remove(folder);
    arena_reset(&a);
}

static attn_status write_new(const char *path, attn_error *err)
{
    return attn_file_write(NULL, path, ATTN_FORMAT_NPY, &new_tensor, 1, NULL, NULL, 0, err);
}

static void only_regular_files_are_replaced(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a), *fifo = path_in(&a, folder, "fifo"),
               *link = path_in(&a, folder, "link"), *file = path_in(&a, folder, "file");
    char name[256];
    attn_error err;
    struct stat st;

    (void)state;
    CHECK(mkfifo(fifo, 0600) == 0 && symlink(file, link) == 0);
    CHECK(write_new(fifo, &err) == ATTN_E_IO && strstr(err.text, "regular"));
    CHECK(write_new(folder, &err) == ATTN_E_IO && strstr(err.text, "regular"));
    CHECK(write_new("/dev/null", &err) == ATTN_E_IO && strstr(err.text, "regular"));
    CHECK(write_new(path_in(&a, folder, "missing/x"), &err) == ATTN_E_IO);
    CHECK(write_new("", &err) == ATTN_E_IO);
    CHECK(folder_count(folder) == 2);

    /* A link is replaced, what it points to is not touched; permissions of an old file stay. */
    write_new(file, NULL);
    CHECK(chmod(file, 0640) == 0 && write_new(file, &err) == ATTN_OK);
    CHECK(stat(file, &st) == 0 && (st.st_mode & 0777) == 0640);
    CHECK(write_new(link, &err) == ATTN_OK && lstat(link, &st) == 0 && S_ISREG(st.st_mode));

    /* The longest name the system takes. */
    memset(name, 'n', 255);
    name[255] = '\0';
    CHECK_MSG(write_new(path_in(&a, folder, name), &err) == ATTN_OK, "%s", err.text);
    check_holds(path_in(&a, folder, name), &new_tensor);
    folder_remove(folder);
    arena_reset(&a);
}

static void a_path_without_folder_is_here(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a);
    char here[4096];

    (void)state;
    CHECK(getcwd(here, sizeof here) != NULL && chdir(folder) == 0);
    CHECK(write_new("x.npy", NULL) == ATTN_OK);
    check_holds("x.npy", &new_tensor);
    CHECK(folder_count(".") == 1 && chdir(here) == 0);
    folder_remove(folder);
    arena_reset(&a);
}

/* Temporary files of killed processes are in the way, and stay what they are. */
static void left_overs_are_stepped_over(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a), *path = path_in(&a, folder, "x.npy");
    char name[64];

    (void)state;
    for (int i = 0; i < 3; i++) {
        FILE *f;

        snprintf(name, sizeof name, ".attn-%ld-%d.tmp", (long)getpid(), i);
        f = fopen(path_in(&a, folder, name), "w");
        CHECK(f && fputs("left", f) >= 0 && fclose(f) == 0);
    }
    CHECK(write_new(path, NULL) == ATTN_OK);
    check_holds(path, &new_tensor);
    CHECK(folder_count(folder) == 4);
    folder_remove(folder);
    arena_reset(&a);
}

/* A map keeps the old file when it is replaced. A copy does not even mind when the file is cut
 * short. */
static void open_files_do_not_mind_what_becomes_of_the_path(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a), *path = path_in(&a, folder, "x.npy");
    attn_file_options options = ATTN_FILE_OPTIONS_INIT;
    attn_file *mapped, *copied;

    (void)state;
    write_old(path);
    CHECK(attn_file_open(NULL, path, NULL, &mapped, NULL) == ATTN_OK);
    CHECK(write_new(path, NULL) == ATTN_OK);
    CHECK(tensor_equal(attn_file_tensor(mapped, 0), &old_tensor));
    attn_file_close(mapped);

    options.copy = 1;
    CHECK(attn_file_open(NULL, path, &options, &copied, NULL) == ATTN_OK);
    CHECK(truncate(path, 130) == 0 && truncate(path, 134) == 0); /* zeros where the data was */
    CHECK(tensor_equal(attn_file_tensor(copied, 0), &new_tensor));
    attn_file_close(copied);
    folder_remove(folder);
    arena_reset(&a);
}

/* 1 TB of zeros that the disk does not hold: mapped, it opens at once and without memory. */
static void a_huge_file_is_mapped(void **state)
{
    arena a = {0};
    const char *folder = folder_new(&a), *path = path_in(&a, folder, "x.npy");
    const int64_t size = (int64_t)1 << 40;
    blob header = npy_of(&a, "'|u1'", "False", "(1099511627776,)", 0);
    FILE *f = fopen(path, "wb");
    attn_status st = ATTN_E_MEMORY;
    attn_file *file;
    meter m;

    (void)state;
    CHECK(f && fwrite(header.data, 1, header.size, f) == header.size && fclose(f) == 0);
    meter_init(&m);
    if (truncate(path, size + (int64_t)header.size) == 0)
        st = attn_file_open(&m.ctx, path, NULL, &file, NULL);
    if (st == ATTN_OK) {
        const attn_tensor *t = attn_file_tensor(file, 0);

        CHECK(t->size[0] == size && ((const unsigned char *)t->data)[size - 1] == 0);
        attn_file_close(file);
    }
    CHECK(m.live == 0 && m.peak_bytes < 65536);
    folder_remove(folder);
    arena_reset(&a);
    if (st != ATTN_OK) {
        CHECK(st == ATTN_E_MEMORY);
        print_message("skipped: no sparse file of 1 TB, or no room to map it\n");
        skip();
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        {"every_allocation_of_ours_may_fail", every_allocation_of_ours_may_fail, 0},
        {"every_allocation_of_the_libraries_may_fail", every_allocation_of_the_libraries_may_fail,
         0},
        {"every_system_call_may_fail", every_system_call_may_fail, 0},
        {"a_folder_that_cannot_be_synced", a_folder_that_cannot_be_synced, 0},
        {"short_and_interrupted_writes_are_continued", short_and_interrupted_writes_are_continued,
         0},
        {"a_full_disk_keeps_the_old_file", a_full_disk_keeps_the_old_file, 0},
        {"only_regular_files_are_opened", only_regular_files_are_opened, 0},
        {"only_regular_files_are_replaced", only_regular_files_are_replaced, 0},
        {"a_path_without_folder_is_here", a_path_without_folder_is_here, 0},
        {"left_overs_are_stepped_over", left_overs_are_stepped_over, 0},
        {"open_files_do_not_mind_what_becomes_of_the_path",
         open_files_do_not_mind_what_becomes_of_the_path, 0},
        {"a_huge_file_is_mapped", a_huge_file_is_mapped, 0},
    };

    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
