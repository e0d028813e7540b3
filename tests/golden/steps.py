#!/usr/bin/env python3
"""Makes steps.safetensors: ten steps of training small Transformers, by PyTorch in float64.

    pip install torch safetensors && tests/golden/steps.py

The models are those of nn.py. A step is the mean label-smoothed loss (0.1 spread over the others) of
all target tokens, its gradient, and Adam (rate 0.01, 0.9, 0.98, 1e-9). A case has its first weights
(float32 numbers), ids, the gradient of the first step, the loss of each and the weights after the
last. How far PyTorch's own float32 gradient is off, |g32 - g64| / |g64|, varies tenfold with the
draw, so there are DRAWS more of one model, each with its weights, ids and that number. Written by
torch 2.15.0."""
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import nn

CASES = {
    "post": dict(biases=nn.ALL, tie_embeddings=1, tie_output=1, encoder_layers=2, decoder_layers=2),
    "pre": dict(biases=nn.ALL, place=nn.PRE, output_bias=1, source_vocabulary=7),
    "decoder": dict(stack=nn.DECODER, norm=nn.RMS, place=nn.PRE, positions=nn.ROTARY, gated=1,
                    activation=nn.SILU, tie_output=1, decoder_layers=2),
}
DRAWS = 15
SOURCES, TARGETS = [4, 1, 6, 3], [3, 5, 2, 1]


def loss_of(model, c, sources, targets):
    hidden = []
    for source, target in zip(sources, targets):
        x = model.stack(source, "encoder", None) if c["stack"] == nn.BOTH else None
        hidden.append(model.stack(model.shifted(target), "decoder", x))
    hidden = torch.cat(hidden)
    v, d = c["vocabulary"], c["d"]
    if c["tie_output"]:
        logits = hidden @ model.get("embedding.weight", v, d).T
    else:
        logits = hidden @ model.get("output.weight", v, d).T + model.get("output.bias", v)
    goals = torch.tensor(sum(targets, []))
    q = torch.full_like(logits, 0.1 / (v - 1))
    q[torch.arange(len(goals)), goals] = 0.9
    return -(q * F.log_softmax(logits, 1)).sum() / len(goals)


def float_gradient(weights, c, sources, targets):
    """The same in float32: whatever asks for double gets float."""
    double, torch.Tensor.double = torch.Tensor.double, torch.Tensor.float
    model = nn.Model(c)
    model.w = {k: w.detach().float().requires_grad_() for k, w in weights.items()}
    loss_of(model, c, sources, targets).backward()
    torch.Tensor.double = double
    return {k: w.grad for k, w in model.w.items()}


def begin(name, given):
    """A model with drawn weights and its ids."""
    _, c = nn.completed(given)
    model, tensors = nn.Model(c), {}
    rows = c["source_vocabulary"] or c["vocabulary"]
    sources = [torch.randint(0, rows, (n,)).tolist() for n in SOURCES]
    targets = [torch.randint(0, c["vocabulary"], (n,)).tolist() for n in TARGETS]
    loss_of(model, c, sources, targets)  # draws the weights
    for k, w in model.w.items():
        tensors[f"{name}/w/{k}"] = w.detach().float()
    tensors[f"{name}/source"] = torch.tensor([sum(sources, [])], dtype=torch.int32)
    tensors[f"{name}/target"] = torch.tensor([sum(targets, [])], dtype=torch.int32)
    return model, c, sources, targets, tensors


def make_draw(name, given):
    model, c, sources, targets, tensors = begin(name, given)
    loss_of(model, c, sources, targets).backward()
    g32 = float_gradient(model.w, c, sources, targets)
    size = sum(w.grad.square().sum() for w in model.w.values()).sqrt()
    off = sum((g32[k].double() - w.grad).square().sum() for k, w in model.w.items()).sqrt()
    return tensors | {f"{name}/off": (off / size)[None, None]}


def make(name, given):
    model, c, sources, targets, tensors = begin(name, given)
    adam = torch.optim.Adam(model.w.values(), lr=1e-2, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(10):
        adam.zero_grad(set_to_none=True)
        loss = loss_of(model, c, sources, targets)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            for k, w in model.w.items():
                tensors[f"{name}/g/{k}"] = w.grad.clone()
        adam.step()
    for k, w in model.w.items():
        tensors[f"{name}/after/{k}"] = w.detach().contiguous()
    tensors[f"{name}/losses"] = torch.tensor([losses], dtype=torch.float64)
    return tensors


def main():
    torch.manual_seed(29)
    tensors = {}
    for name, given in CASES.items():
        tensors |= make(name, given)
    for i in range(DRAWS):
        tensors |= make_draw(f"draw{i}", CASES["pre"])
    save_file(tensors, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
