/* folder.h: a run's folder: which checkpoints lie in it, and the calls to the system it needs. */
#ifndef ATTN_TRAIN_FOLDER_H
#define ATTN_TRAIN_FOLDER_H

#include "include/attn/attn.h"

#include <stdbool.h>

#define ATTN__MANIFEST "manifest.safetensors"

/* A folder "step-000000001000" (again 0) or "step-000000001000.2" (again 2). */
typedef struct attn__saved {
    int64_t step;
    int64_t again;
    bool manifest;
} attn__saved;

/* "a/b" + ending in memory of attn__alloc, or NULL. */
char *attn__join(const attn_ctx *ctx, const char *a, const char *b, const char *ending);

/* Bytes that a folder's own name takes, and the name. */
enum { attn__saved_name_size = 64 };
void attn__saved_name(char name[attn__saved_name_size], const attn__saved *saved);

/* All of them, oldest first; *out is from attn__alloc. A folder that is missing has none. */
attn_status attn__list_saved(const attn_ctx *ctx, const char *folder, attn__saved **out,
                             size_t *count, attn_error *err);

/* Makes a folder; one that is there already is fine if `again`. */
attn_status attn__make_folder(const char *path, bool again, attn_error *err);

attn_status attn__sync_folder(const char *path, attn_error *err);

/* Removes a checkpoint: first its manifest, then the files that only checkpoints have, then the
 * folder. Others' files make it stay. */
attn_status attn__remove_saved(const attn_ctx *ctx, const char *path, attn_error *err);

#endif
