"""Writes backward.safetensors: attention and its gradients from PyTorch in float64.

    python tests/golden/backward.py

Needs torch, numpy and safetensors. Softmax and products are spelled out, so that autograd, not a
fused kernel, makes the gradients. The loss is sum(dout * O) + sum(dlse * LSE). Inputs are
float32 numbers: single precision is held to the same results. Each case is a set of tensors
"case/q", "case/k", ..., its options "case/scale" and "case/causal" too. Written by torch 2.15.0.
"""
import math
import pathlib

import torch
from safetensors.torch import save_file

# B, H, Hk, Tq, Tk, D, Dv; options: scale, causal (with the offset of query 0), bias (its shape).
CASES = {
    "plain": ((2, 2, 2, 9, 11, 8, 8), {}),
    "causal": ((1, 2, 2, 13, 13, 16, 16), {"causal": 0}),
    "causal_bottom_right": ((1, 2, 2, 5, 12, 7, 7), {"causal": 7}),
    "bias": ((2, 2, 2, 6, 10, 8, 8), {"bias": (2, 2, 6, 10)}),
    "bias_of_heads": ((2, 3, 3, 6, 10, 8, 8), {"bias": (1, 3, 6, 10)}),
    "bias_of_keys": ((2, 2, 2, 6, 10, 8, 8), {"bias": (2, 1, 1, 10)}),
    "bias_of_rows": ((2, 2, 2, 6, 10, 8, 8), {"bias": (1, 1, 6, 1)}),
    "groups": ((1, 6, 2, 7, 9, 8, 8), {"causal": 2}),
    "one_key_head": ((2, 4, 1, 5, 9, 8, 8), {"bias": (1, 4, 5, 9)}),
    "scale": ((1, 2, 2, 8, 8, 8, 8), {"scale": 0.75}),
    "negative_scale": ((1, 2, 2, 8, 8, 8, 8), {"scale": -0.5}),
    "dv": ((1, 2, 2, 8, 10, 12, 5), {"causal": 2}),
    "wide_dv": ((1, 2, 1, 8, 10, 3, 20), {}),
    "many_keys": ((1, 2, 1, 3, 700, 4, 4), {}),
    "all": ((2, 4, 2, 9, 14, 10, 6), {"causal": 5, "bias": (2, 4, 9, 14), "scale": 0.3}),
}


def attention(q, k, v, bias, scale, offset):
    """Output and log-sum-exp; every query of an offset sees at least one key."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    t = scale * q @ k.transpose(-1, -2)
    if bias is not None:
        t = t + bias
    if offset is not None:
        above = torch.arange(k.shape[2]) > torch.arange(q.shape[2])[:, None] + offset
        t = t.masked_fill(above, -math.inf)
    return torch.softmax(t, -1) @ v, torch.logsumexp(t, -1, keepdim=True)


def main():
    torch.manual_seed(20261130)
    tensors = {}
    for name, (shape, options) in CASES.items():
        b, h, hk, tq, tk, d, dv = shape

        def draw(*size):
            return torch.randn(*size).double()

        inputs = {"q": draw(b, h, tq, d), "k": draw(b, hk, tk, d), "v": draw(b, hk, tk, dv)}
        if "bias" in options:
            inputs["bias"] = draw(*options["bias"])
        for x in inputs.values():
            x.requires_grad_()
        dout, dlse = draw(b, h, tq, dv), draw(b, h, tq, 1)
        out, lse = attention(inputs["q"], inputs["k"], inputs["v"], inputs.get("bias"),
                             options.get("scale", 1 / math.sqrt(d)), options.get("causal"))
        gradients = torch.autograd.grad((dout * out).sum() + (dlse * lse).sum(),
                                        list(inputs.values()))
        made = {"dout": dout.float(), "dlse": dlse.float(), "out": out.detach(),
                "lse": lse.detach()}
        for key, gradient in zip(inputs, gradients):
            made[key] = inputs[key].detach().float()
            made["d" + key] = gradient
        tensors |= {f"{name}/{key}": x.contiguous() for key, x in made.items()}
        for key in options.keys() - {"bias"}:
            tensors[f"{name}/{key}"] = torch.tensor([[options[key]]], dtype=torch.float64)
    save_file(tensors, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
