// files.cpp: both headers from C++17: writes a tensor, reads it back, attends over it.
#include <attn/attn.h>
#include <attn/io.h>

#include <cstdio>
#include <string>

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const std::string path = std::string(argv[1]) + "/keys.npy";
    float keys[2][2] = {{1, 2}, {3, 4}}, out[2][2] = {};
    attn_error err = {};

    attn_tensor tensor = {};
    tensor.name = "";
    tensor.type = ATTN_F32;
    tensor.rank = 2;
    tensor.size[0] = tensor.size[1] = 2;
    tensor.stride[0] = 2;
    tensor.stride[1] = 1;
    tensor.data = keys;
    attn_status status = attn_file_write(nullptr, path.c_str(), ATTN_FORMAT_AUTO, &tensor, 1,
                                         nullptr, nullptr, 0, &err);

    attn_file *file = nullptr;
    if (status == ATTN_OK)
        status = attn_file_open(nullptr, path.c_str(), nullptr, &file, &err);
    attn_ctx *ctx = nullptr;
    if (status == ATTN_OK)
        status = attn_ctx_create(nullptr, &ctx, &err);

    attn_mask mask = ATTN_MASK_INIT;
    mask.causal = 1;
    attn_forward_args args = ATTN_FORWARD_ARGS_INIT;
    if (status == ATTN_OK)
        status = attn_tensor_view(attn_file_tensor(file, 0), 0, &args.k, &err);
    if (status == ATTN_OK) {
        args.q = args.v = args.k;
        args.out = attn_view_bhsd(out, ATTN_F32, 1, 1, 2, 2);
        args.mask = &mask;
        status = attn_forward(ctx, &args, &err);
    }
    attn_ctx_destroy(ctx);
    attn_file_close(file);
    if (status != ATTN_OK)
        std::fprintf(stderr, "%s: %s\n", attn_status_text(status), err.text);
    // The first row may see its own key only.
    const bool right = out[0][0] == 1 && out[0][1] == 2 && out[1][0] > 2 && out[1][0] < 3;
    return status == ATTN_OK && right ? 0 : 1;
}
