/* fuzz_png.c: the reader of images over any bytes. Seeds: tests/fuzz/corpus/png. */
#include "include/attn/viz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    attn_error err = {ATTN_OK, 0, ""};
    volatile unsigned sum = 0;
    attn_image image;
    attn_status st;

    /* Sides above 1023 only cost time here: bytes 16 to 23 are width and height. */
    if (size >= 24 && (data[16] | data[17] | data[18] >> 2 | data[20] | data[21] | data[22] >> 2))
        return 0;
    st = attn_image_read_memory(NULL, data, size, &image, &err);
    if (st != ATTN_OK) {
        if (image.rgba || !err.text[0] || (st != ATTN_E_FORMAT && st != ATTN_E_MEMORY))
            abort();
        return 0;
    }
    for (size_t i = 0; i < image.stride * image.height; i++)
        sum += image.rgba[i];
    (void)sum;
    attn_image_reset(NULL, &image);
    return 0;
}
