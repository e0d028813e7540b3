/* folder.c: see folder.h. */
#define _POSIX_C_SOURCE 200809L

#include "src/train/folder.h"

#include "src/base/error.h"
#include "src/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *attn__join(const attn_ctx *ctx, const char *a, const char *b, const char *ending)
{
    size_t size = strlen(a) + strlen(b) + strlen(ending) + 2;
    char *path = attn__alloc(ctx, size);

    if (path)
        snprintf(path, size, "%s/%s%s", a, b, ending);
    return path;
}

/* --- Names ---------------------------------------------------------------------------------- */

enum { STEP_DIGITS = 12, MOST_DIGITS = 18 };

void attn__saved_name(char name[attn__saved_name_size], const attn__saved *saved)
{
    if (saved->again)
        snprintf(name, attn__saved_name_size, "step-%0*lld.%lld", STEP_DIGITS,
                 (long long)saved->step, (long long)saved->again);
    else
        snprintf(name, attn__saved_name_size, "step-%0*lld", STEP_DIGITS, (long long)saved->step);
}

/* Digits from *text on, at least `least` of them. */
static bool read_digits(const char **text, int least, int64_t *out)
{
    const char *at = *text;
    int64_t value = 0;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (at - *text == MOST_DIGITS)
            return false;
        value = value * 10 + (*at - '0');
    }
    if (at - *text < least)
        return false;
    *text = at;
    *out = value;
    return true;
}

/* False if the name is not one that attn__saved_name makes. */
static bool parse_name(const char *name, attn__saved *saved)
{
    const char *at = name;
    char made[attn__saved_name_size];

    *saved = (attn__saved){0};
    if (strncmp(at, "step-", 5) != 0)
        return false;
    at += 5;
    if (!read_digits(&at, STEP_DIGITS, &saved->step))
        return false;
    if (*at == '.') {
        at++;
        if (!read_digits(&at, 1, &saved->again))
            return false;
    }
    attn__saved_name(made, saved);
    return strcmp(made, name) == 0;
}

/* --- Listing -------------------------------------------------------------------------------- */

static bool older(const attn__saved *a, const attn__saved *b)
{
    return a->step != b->step ? a->step < b->step : a->again < b->again;
}

static bool has_manifest(const attn_ctx *ctx, const char *folder, const char *name, bool *memory)
{
    char *place = attn__join(ctx, folder, name, "/" ATTN__MANIFEST);
    struct stat st;
    bool there;

    if (!place) {
        *memory = false;
        return false;
    }
    there = stat(place, &st) == 0;
    attn__free(ctx, place);
    return there;
}

typedef struct saved_list {
    attn__saved *items;
    size_t count, room;
} saved_list;

/* In order of age. */
static bool insert(const attn_ctx *ctx, saved_list *list, const attn__saved *item)
{
    size_t at;

    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16, bytes;
        attn__saved *more = attn__mul(room, sizeof *more, &bytes) ? attn__alloc(ctx, bytes) : NULL;

        if (!more)
            return false;
        if (list->count > 0)
            memcpy(more, list->items, list->count * sizeof *more);
        attn__free(ctx, list->items);
        list->items = more;
        list->room = room;
    }
    for (at = list->count; at > 0 && older(item, &list->items[at - 1]); at--)
        list->items[at] = list->items[at - 1];
    list->items[at] = *item;
    list->count++;
    return true;
}

attn_status attn__list_saved(const attn_ctx *ctx, const char *folder, attn__saved **out,
                             size_t *count, attn_error *err)
{
    saved_list list = {0};
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool memory = true;

    *out = NULL;
    *count = 0;
    if (!dir && errno == ENOENT)
        return ATTN_OK;
    if (!dir)
        return attn__fail_system(err, 0, "cannot read the folder", errno);
    while (memory && (entry = readdir(dir))) {
        attn__saved item;

        if (!parse_name(entry->d_name, &item))
            continue;
        item.manifest = has_manifest(ctx, folder, entry->d_name, &memory);
        memory = memory && insert(ctx, &list, &item);
    }
    closedir(dir);
    if (!memory) {
        attn__free(ctx, list.items);
        return attn__fail(err, ATTN_E_MEMORY, 0, "list of checkpoints");
    }
    *out = list.items;
    *count = list.count;
    return ATTN_OK;
}

/* --- Changing ------------------------------------------------------------------------------- */

attn_status attn__make_folder(const char *path, bool again, attn_error *err)
{
    struct stat st;

    if (mkdir(path, 0777) == 0)
        return ATTN_OK;
    if (errno == EEXIST && again && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return ATTN_OK;
    return attn__fail_system(err, 0, "cannot make the folder", errno);
}

attn_status attn__sync_folder(const char *path, attn_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;

    if (fd < 0)
        return attn__fail_system(err, 0, "cannot open the folder to sync it", errno);
    if (fsync(fd) != 0 && errno != EINVAL) /* some file systems have nothing to sync */
        code = errno;
    close(fd);
    return code ? attn__fail_system(err, 0, "cannot sync the folder", code) : ATTN_OK;
}

/* What attn_file_write makes, under way or done. */
static bool is_ours(const char *name)
{
    static const char ending[] = ".safetensors";
    size_t n = strlen(name), tail = sizeof ending - 1;

    return strncmp(name, ".attn-", 6) == 0 || (n > tail && strcmp(name + n - tail, ending) == 0);
}

attn_status attn__remove_saved(const attn_ctx *ctx, const char *path, attn_error *err)
{
    char *manifest = attn__join(ctx, path, ATTN__MANIFEST, ""), *file;
    struct dirent *entry;
    DIR *dir;
    int code = 0;

    if (!manifest)
        return attn__fail(err, ATTN_E_MEMORY, 0, "name of a file");
    if (unlink(manifest) != 0 && errno != ENOENT)
        code = errno;
    attn__free(ctx, manifest);
    if (code)
        return attn__fail_system(err, 0, "cannot remove the manifest", code);
    if (!(dir = opendir(path)))
        return attn__fail_system(err, 0, "cannot read the folder", errno);
    while ((entry = readdir(dir))) {
        if (!is_ours(entry->d_name))
            continue;
        if (!(file = attn__join(ctx, path, entry->d_name, "")))
            break; /* the folder will not be empty */
        if (unlink(file) != 0 && errno != ENOENT)
            code = errno;
        attn__free(ctx, file);
    }
    closedir(dir);
    if (rmdir(path) != 0 && !code)
        code = errno;
    return code ? attn__fail_system(err, 0, "cannot remove all of the folder", code) : ATTN_OK;
}
