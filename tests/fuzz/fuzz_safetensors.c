/* fuzz_safetensors.c: the .safetensors reader over any bytes. Seeds: tests/fuzz/corpus/safetensors,
 * and what `test_io_hostile --write FOLDER` makes. */
#include "include/attn/io.h"
#include "tests/fuzz/open.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_open(data, size, ATTN_FORMAT_SAFETENSORS);
}
