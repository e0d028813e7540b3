/* nn_bits.h: dropout bits (see nn_kernels.h); part of kernels_impl.h. */

#ifndef DROP_VECTOR
enum { DROP_LANES = 16 };

/* Sixteen blocks of Philox4x32-10 side by side: loops that compilers turn into vectors, though not
 * into the best (on Zen 3 an element takes 3.0 ns that way). */
static void drop_words(uint32_t w[4][DROP_LANES], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < DROP_LANES; i++) {
            uint64_t a = (uint64_t)0xd2511f53u * w[0][i], b = (uint64_t)0xcd9e8d57u * w[2][i];

            w[0][i] = (uint32_t)(b >> 32) ^ w[1][i] ^ key0;
            w[1][i] = (uint32_t)b;
            w[2][i] = (uint32_t)(a >> 32) ^ w[3][i] ^ key1;
            w[3][i] = (uint32_t)a;
        }
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
}

/* The 64 columns of the blocks `first` .. first + 15. Numbers of 24 bits are exact as floats, which
 * every set can compare. */
static uint64_t vec_kept(uint32_t first, const uint32_t at[3], uint32_t key0, uint32_t key1,
                         uint32_t below)
{
    const vf limit = vf_set1((float)below);
    uint32_t w[4][DROP_LANES];
    float number[64];
    uint64_t dropped = 0;

    for (uint32_t i = 0; i < DROP_LANES; i++) {
        w[0][i] = first + i;
        w[1][i] = at[0];
        w[2][i] = at[1];
        w[3][i] = at[2];
    }
    drop_words(w, key0, key1);
    for (int i = 0; i < 64; i++)
        number[i] = (float)(int32_t)(w[i / DROP_LANES][i % DROP_LANES] >> 8);
    for (size_t i = 0; i < 64; i += VF_LANES)
        dropped |= vf_gt(limit, vf_load(number + i)) << i;
    return ~dropped;
}
#endif

static void drop_bits(uint64_t *bits, size_t n, const uint32_t at[3], uint64_t seed, uint32_t below)
{
    for (size_t c = 0; c < n; c += 64)
        bits[c / 64] =
            vec_kept((uint32_t)(c / 64) * 16, at, (uint32_t)seed, (uint32_t)(seed >> 32), below);
}
