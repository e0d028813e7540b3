/* gemm.h: a checked matrix product and how it is cut; shared by gemm.c and its template. */
#ifndef ATTN_CORE_GEMM_H
#define ATTN_CORE_GEMM_H

#include "src/core/problem.h"
#include "src/core/schedule.h"
#include "src/kernels/kernels.h"

struct attn_packed {
    const attn_ctx *ctx;
    attn_kernel_set set;
    attn_type type;
    int64_t n, k;
    size_t tile_size; /* bytes */
    char *tiles;      /* tiles of 64 columns over all of k: wide if the type is f32 or f64 */
};

/* A matrix per (batch, head), rows and columns counted in elements from `data`. */
typedef struct attn__matrix {
    char *data; /* NULL: absent */
    attn_type type;
    ptrdiff_t batch, head, row, col;
} attn__matrix;

typedef struct attn__gemm {
    attn_gemm_args args;
    bool f64;
    size_t batch, heads, m, n, k; /* heads and batch that could be were made rows */
    attn__matrix a, w, residual, out;
    attn__epilogue epilogue;

    /* An item is a block of rows and a run of tiles of 64 columns. It goes through k in blocks; per
     * block it makes its tiles ready, then takes six rows after six, each past all tiles. The sums
     * wait in memory between blocks. */
    size_t item_rows, item_tiles, k_block;
    size_t row_blocks, column_blocks;
    size_t copied_rows, left_stride; /* copies of a: rows at a time, elements from one to the next
                                      */
    bool copies_whole;               /* an item's rows with all of k, once for all its columns */
    bool thin;                       /* few rows: weights are used as they lie */
    bool copies_a, makes_tiles;  /* a is not f32 (f64) with adjacent steps; tiles are not ready */
    bool sums_in_out, only_sums; /* sums can wait in out itself; nothing is done to them after */
    size_t threads, scratch_size, workspace_size;
    const char *path, *why;

    attn__schedule schedule;
    char *scratch; /* scratch_size bytes a worker */
} attn__gemm;

/* Bytes a worker needs. */
size_t attn__gemm_scratch_f32(const attn__gemm *g);
size_t attn__gemm_scratch_f64(const attn__gemm *g);

/* Works on the items until none is left. */
void attn__gemm_work_f32(attn__gemm *g, size_t worker);
void attn__gemm_work_f64(attn__gemm *g, size_t worker);

#endif
