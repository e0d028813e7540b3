"""Writes train.safetensors: label-smoothed cross entropy with its gradients, and ten steps of Adam,
from PyTorch in float64.

    python tests/golden/train.py

Needs torch, numpy and safetensors. The mixing family is PyTorch's own label_smoothing; the other one
is spelled out. Inputs are float32 numbers. Written by torch 2.15.0.
"""
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

# tokens, classes, width, smoothing, scale, bias, mixing
LOSSES = {
    "plain": (7, 11, 5, 0.0, 1.0, False, False),
    "others": (9, 37, 8, 0.1, 1.0, True, False),
    "mix": (9, 37, 8, 0.1, 1.0, True, True),
    "wide": (20, 600, 16, 0.2, 1.0, True, False),
    "scaled": (5, 16, 16, 0.1, 0.25, True, True),
    "two": (6, 2, 3, 0.3, 1.0, False, False),
}
FACTOR = 0.375


def loss(x, targets, e, mix):
    """Sum over the tokens that count."""
    if mix:
        return F.cross_entropy(x, targets, label_smoothing=e, ignore_index=-1, reduction="sum")
    v, real = x.shape[1], targets >= 0
    q = torch.full_like(x, e / (v - 1))
    q[torch.arange(len(x)), targets.clamp(min=0)] = 1 - e
    return -(q * F.log_softmax(x, 1))[real].sum()


def main():
    torch.manual_seed(20261130)
    tensors = {}
    for name, (t, v, d, e, scale, biased, mix) in LOSSES.items():
        hidden, weight = torch.randn(t, d).double(), torch.randn(v, d).double()
        bias = torch.randn(1, v).double() if biased else torch.zeros(1, v).double()
        targets = torch.randint(0, v, (t,))
        targets[t // 2] = -1
        for x in (hidden, weight, bias):
            x.requires_grad_()
        logits = scale * hidden @ weight.T + bias
        value = loss(logits, targets, e, mix)
        nll = loss(logits, targets, 0.0, True)
        gradients = torch.autograd.grad(FACTOR * value, (hidden, weight, bias))
        right = (logits.argmax(1) == targets).sum()
        made = dict(hidden=hidden.detach().float(), weight=weight.detach().float(),
                    targets=targets.int()[None], dhidden=gradients[0], dweight=gradients[1],
                    dbias=gradients[2],
                    numbers=torch.tensor([[e, scale, float(mix), FACTOR, value.item(), nll.item(),
                                           float((targets >= 0).sum()), float(right)]],
                                         dtype=torch.float64))
        if biased:
            made["bias"] = bias.detach().float()
        tensors |= {f"{name}/{key}": x.contiguous() for key, x in made.items()}
    # Adam: the first 40 elements decay where there is decay. Steps clip to a norm of 2.
    for name, decay, clip in (("adam", 0.0, 0.0), ("adamw", 0.01, 2.0)):
        w = torch.randn(100).double()
        tensors[f"{name}/weights"] = w.clone().float()[None]
        first, rest = w[:40].clone().requires_grad_(), w[40:].clone().requires_grad_()
        groups = [{"params": [first], "weight_decay": decay}, {"params": [rest], "weight_decay": 0}]
        make = torch.optim.AdamW if decay else torch.optim.Adam
        adam = make(groups, lr=1e-2, betas=(0.9, 0.98), eps=1e-9)
        gradients, after = torch.randn(10, 100).float(), []
        for g in gradients.double():
            first.grad, rest.grad = g[:40].clone(), g[40:].clone()
            if clip:
                factor = min(1.0, clip / g.norm().item())
                first.grad, rest.grad = factor * first.grad, factor * rest.grad
            adam.step()
            after.append(torch.cat([first, rest]).detach().clone())
        tensors[f"{name}/gradients"] = gradients.contiguous()
        tensors[f"{name}/after"] = torch.stack(after)
    save_file(tensors, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
