/* png.c: PNG files from pixels and back. Writing is repeatable: fixed filter and level, no time.
 *
 * libpng leaves a failed call by longjmp into the function that called setjmp; what has to be given
 * back lives in a struct of its caller, which no jump can spoil. Where libpng gets by without
 * memory that it asked for, something is missing from the picture: that is a failure here. */
#define _POSIX_C_SOURCE 200809L /* fileno */

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/viz/canvas.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

typedef struct job {
    const attn_ctx *ctx;
    png_structp png;
    png_infop info;
    attn__out *out;      /* writing */
    const uint8_t *from; /* reading from memory */
    size_t left;
    FILE *file;       /* reading from a file */
    uint8_t *row;     /* scratch */
    attn_image image; /* reading */
    bool no_memory, failed_io;
    char what[128];
} job;

static png_voidp take(png_structp png, png_alloc_size_t size)
{
    job *j = png_get_mem_ptr(png);
    void *p = attn__alloc(j->ctx, size);

    j->no_memory = j->no_memory || !p;
    return p;
}

static void give(png_structp png, png_voidp memory)
{
    job *j = png_get_mem_ptr(png);

    attn__free(j->ctx, memory);
}

static void on_error(png_structp png, png_const_charp what)
{
    job *j = png_get_error_ptr(png);

    snprintf(j->what, sizeof j->what, "%s", what);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp what)
{
    (void)png;
    (void)what;
}

static attn_status failure(const job *j, const char *doing, attn_error *err)
{
    if (j->no_memory)
        return attn__fail(err, ATTN_E_MEMORY, 0, "%s a PNG", doing);
    if (j->failed_io)
        return attn__fail(err, ATTN_E_IO, 0, "cannot read");
    return attn__fail(err, ATTN_E_FORMAT, 0, "%s a PNG: %s", doing, j->what);
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void put(png_structp png, png_bytep bytes, png_size_t size)
{
    job *j = png_get_io_ptr(png);

    attn__out_put(j->out, bytes, size);
    if (j->out->failed) {
        j->no_memory = true;
        png_error(png, "memory");
    }
}

static void flush(png_structp png)
{
    (void)png;
}

static void put_title(job *j, char *title)
{
    char key[] = "Title";
    png_text text = {.compression = PNG_ITXT_COMPRESSION_NONE, .key = key, .text = title};

    png_set_text(j->png, j->info, &text, 1);
}

/* Everything between setjmp and a jump. */
static bool encode(job *j, const uint8_t *rgba, size_t width, size_t height, size_t stride,
                   bool alpha, char *title)
{
    if (setjmp(png_jmpbuf(j->png)))
        return false;
    png_set_write_fn(j->png, j, put, flush);
    png_set_user_limits(j->png, 1000000, 1000000);
    png_set_IHDR(j->png, j->info, (png_uint_32)width, (png_uint_32)height, 8,
                 alpha ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(j->png, 6);
    png_set_filter(j->png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE | PNG_FILTER_SUB | PNG_FILTER_UP);
    png_set_sRGB(j->png, j->info, PNG_sRGB_INTENT_PERCEPTUAL);
    if (title)
        put_title(j, title);
    png_write_info(j->png, j->info);
    for (size_t y = 0; y < height; y++) {
        const uint8_t *from = rgba + y * stride;

        for (size_t x = 0; x < width; x++)
            memcpy(j->row + x * (alpha ? 4 : 3), from + 4 * x, alpha ? 4 : 3);
        png_write_row(j->png, j->row);
    }
    png_write_end(j->png, j->info);
    return true;
}

attn_status attn__png_encode(const attn_ctx *ctx, const uint8_t *rgba, size_t width, size_t height,
                             size_t stride, bool alpha, const char *title, attn__out *out,
                             attn_error *err)
{
    job j = {.ctx = ctx, .out = out};
    attn__out words = {.ctx = ctx};
    attn_status st = ATTN_OK;

    if (title)
        attn__out_text(&words, title);
    j.png =
        png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning, &j, take, give);
    if (j.png)
        j.info = png_create_info_struct(j.png);
    j.row = attn__alloc(ctx, 4 * width);
    (void)attn__out_string(&words);
    if (!j.png || !j.info || !j.row || words.failed)
        st = attn__fail(err, ATTN_E_MEMORY, 0, "PNG of %zu x %zu", width, height);
    else if (!encode(&j, rgba, width, height, stride, alpha, title ? (char *)words.bytes : NULL) ||
             j.no_memory)
        st = failure(&j, "writing", err);
    png_destroy_write_struct(&j.png, &j.info);
    attn__free(ctx, j.row);
    attn__out_reset(&words);
    return st;
}

/* --- Reading ---------------------------------------------------------------------------------- */

enum { MOST_SIDE = 16384, MOST_PIXELS = 1 << 28 };

static void get(png_structp png, png_bytep bytes, png_size_t size)
{
    job *j = png_get_io_ptr(png);

    if (j->file) {
        if (fread(bytes, 1, size, j->file) == size)
            return;
        j->failed_io = ferror(j->file) != 0;
        png_error(png, "the file ends too early");
    }
    if (size > j->left)
        png_error(png, "the file ends too early");
    memcpy(bytes, j->from, size);
    j->from += size;
    j->left -= size;
}

static bool decode(job *j)
{
    size_t size;
    int passes;

    if (setjmp(png_jmpbuf(j->png)))
        return false;
    png_set_read_fn(j->png, j, get);
    png_set_user_limits(j->png, MOST_SIDE, MOST_SIDE);
    png_set_chunk_malloc_max(j->png, 8000000);
    png_set_chunk_cache_max(j->png, 100);
    png_read_info(j->png, j->info);
    j->image.width = png_get_image_width(j->png, j->info);
    j->image.height = png_get_image_height(j->png, j->info);
    j->image.stride = 4 * j->image.width;
    if (j->image.width * j->image.height > MOST_PIXELS)
        png_error(j->png, "too many pixels");
    png_set_expand(j->png);
    png_set_scale_16(j->png);
    png_set_gray_to_rgb(j->png);
    png_set_add_alpha(j->png, 0xff, PNG_FILLER_AFTER);
    passes = png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->info);
    if (png_get_rowbytes(j->png, j->info) != j->image.stride)
        png_error(j->png, "rows of another size than expected");
    size = j->image.stride * j->image.height;
    j->image.rgba = attn__alloc(j->ctx, size);
    if (!j->image.rgba) {
        j->no_memory = true;
        png_error(j->png, "memory");
    }
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < j->image.height; y++)
            png_read_row(j->png, j->image.rgba + y * j->image.stride, NULL);
    png_read_end(j->png, NULL);
    return true;
}

static attn_status read_image(job *j, attn_image *image, attn_error *err)
{
    attn_status st = ATTN_OK;

    j->png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, j, on_error, on_warning, j, take, give);
    if (j->png)
        j->info = png_create_info_struct(j->png);
    if (!j->png || !j->info)
        st = attn__fail(err, ATTN_E_MEMORY, 0, "reading a PNG");
    else if (!decode(j) || j->no_memory)
        st = failure(j, "reading", err);
    png_destroy_read_struct(&j->png, &j->info, NULL);
    if (st != ATTN_OK)
        attn__free(j->ctx, j->image.rgba);
    else
        *image = j->image;
    return st;
}

attn_status attn_image_read_memory(const attn_ctx *ctx, const void *bytes, size_t size,
                                   attn_image *image, attn_error *err)
{
    job j = {.ctx = ctx, .from = bytes, .left = size};

    if (!image)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "image is NULL");
    memset(image, 0, sizeof *image);
    if (!bytes && size > 0)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "bytes is NULL");
    return read_image(&j, image, err);
}

attn_status attn_image_read(const attn_ctx *ctx, const char *path, attn_image *image,
                            attn_error *err)
{
    attn_error inner = {ATTN_OK, 0, ""};
    job j = {.ctx = ctx};
    attn_status st;

    if (!image)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "image is NULL");
    memset(image, 0, sizeof *image);
    if (!path)
        return attn__fail(err, ATTN_E_ARGUMENT, 0, "path is NULL");
    j.file = fopen(path, "rb");
    if (!j.file) {
        attn__fail_system(&inner, 0, "cannot open", errno);
        return attn__fail_path(err, path, &inner);
    }
    st = read_image(&j, image, &inner);
    fclose(j.file);
    return st == ATTN_OK ? st : attn__fail_path(err, path, &inner);
}

void attn_image_reset(const attn_ctx *ctx, attn_image *image)
{
    if (!image)
        return;
    attn__free(ctx, image->rgba);
    memset(image, 0, sizeof *image);
}
