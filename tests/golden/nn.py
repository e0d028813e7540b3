#!/usr/bin/env python3
"""Makes nn.safetensors: hidden states and gradients of small Transformers, by PyTorch in float64.

    pip install torch safetensors && tests/golden/nn.py

Written from the formulas, one sequence at a time, without any Transformer module of PyTorch. A case
is a set of options (FIELDS, in the order of the C struct; zero is its default), its weights (float32
numbers), ids, dhidden, and what came out."""
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

FIELDS = """stack vocabulary source_vocabulary encoder_layers decoder_layers d ff heads kv_heads dk dv
biases norm place norm_eps norm_no_bias norm_plus_one final_norm embedding_norm activation gated
positions position_offset max_positions position_base rotary t5_buckets t5_max_distance
tie_embeddings tie_output embedding_scale output_bias output qk_norm qk_temperature
has_attention_scale attention_scale softcap score start start_token""".split()
BOTH, DECODER, ENCODER = range(3)
LAYER, RMS = range(2)
POST, PRE = range(2)
YES, NO = 1, 2
RELU, GELU, GELU_TANH, SILU = range(1, 5)
PAPER, T2T, MARIAN, LEARNED, ROTARY, PAIRS, T5, ALIBI, NONE = range(9)
QK_L2, QK_RMS, QK_LAYER = range(1, 4)
ALL = 31

SMALL = dict(vocabulary=11, encoder_layers=1, decoder_layers=1, d=8, ff=12, heads=2)
CASES = {
    "paper": dict(biases=ALL, tie_embeddings=1, tie_output=1, encoder_layers=2, decoder_layers=2),
    "pre": dict(place=PRE, activation=GELU, positions=T2T, start=1, start_token=2, norm_eps=1e-3),
    "widths": dict(dk=3, dv=5, heads=4, kv_heads=2, positions=MARIAN, position_offset=2,
                   source_vocabulary=7, biases=5, d=9, place=PRE),
    "llama": dict(stack=DECODER, norm=RMS, place=PRE, positions=ROTARY, heads=4, kv_heads=2, dk=4,
                  gated=1, activation=SILU, embedding_scale=1, start=2, decoder_layers=2),
    "gemma": dict(stack=DECODER, norm=RMS, place=PRE, positions=PAIRS, rotary=2, norm_plus_one=1,
                  gated=1, activation=GELU_TANH, qk_norm=QK_RMS, start=2, softcap=2.0),
    "t5": dict(norm=RMS, place=PRE, positions=T5, t5_buckets=8, t5_max_distance=10,
               has_attention_scale=1, attention_scale=1.0, embedding_scale=1, start=1,
               tie_embeddings=1),
    "bert": dict(stack=ENCODER, biases=ALL, positions=LEARNED, max_positions=9, position_offset=2,
                 embedding_norm=YES, activation=GELU, embedding_scale=1, encoder_layers=2),
    "alibi": dict(stack=DECODER, place=PRE, positions=ALIBI, heads=3, dk=2, norm_no_bias=1,
                  biases=24),
    "cosine": dict(positions=NONE, qk_norm=QK_L2, qk_temperature=1, final_norm=YES, biases=ALL),
    "qk_layer": dict(positions=ROTARY, qk_norm=QK_LAYER, place=PRE, final_norm=NO, biases=3,
                     gated=1, activation=RELU),
    "joined": dict(d=16, heads=4, kv_heads=2, dk=8, biases=ALL, place=PRE),
    "additive": dict(score=1, heads=4, kv_heads=2, dk=5, biases=ALL, place=PRE),
}
SOURCES, TARGETS = [4, 1, 0, 6], [3, 5, 2, 1]


def completed(given):
    c = dict.fromkeys(FIELDS, 0) | SMALL | given
    if c["stack"] == DECODER:
        c["encoder_layers"] = 0
    if c["stack"] == ENCODER:
        c["decoder_layers"] = 0
    return c, c | {
        "kv_heads": c["kv_heads"] or c["heads"],
        "dk": c["dk"] or c["d"] // c["heads"],
        "dv": c["dv"] or c["dk"] or c["d"] // c["heads"],
        "norm_eps": c["norm_eps"] or 1e-5,
        "activation": c["activation"] or RELU,
        "final": c["final_norm"] == YES or (c["final_norm"] == 0 and c["place"] == PRE),
        "position_base": c["position_base"] or 10000.0,
        "rotary": c["rotary"] or c["dk"] or c["d"] // c["heads"],
        "embedding_scale": c["embedding_scale"] or math.sqrt(c["d"]),
    }


class Model:
    def __init__(self, c):
        self.c, self.w = c, {}

    def get(self, name, *shape, scale=0.5):
        """A weight, drawn when it is first asked for."""
        if name not in self.w:
            centre = 1.0 if name.endswith("norm.weight") or "temperature" in name else 0.0
            x = (centre + scale * torch.randn(*shape)).float().double()
            self.w[name] = x.requires_grad_()
        return self.w[name]

    def linear(self, x, name, out, bias):
        y = x @ self.get(name + ".weight", out, x.shape[-1]).T
        return y + self.get(name + ".bias", out) if bias else y

    def norm(self, x, name, kind, plus=0, bias=True):
        n = x.shape[-1]
        w = self.get(name + ".weight", n) + plus
        if kind == RMS:
            return x * (x.pow(2).mean(-1, keepdim=True) + self.c["norm_eps"]).rsqrt() * w
        x = x - x.mean(-1, keepdim=True)
        y = x * (x.pow(2).mean(-1, keepdim=True) + self.c["norm_eps"]).rsqrt() * w
        return y + self.get(name + ".bias", n) if bias else y

    def block_norm(self, x, name):
        c = self.c
        return self.norm(x, name, c["norm"], c["norm_plus_one"], not c["norm_no_bias"])

    def sines(self, n):
        c, d = self.c, self.c["d"]
        p = torch.arange(n).double() + c["position_offset"]
        table = torch.zeros(n, d).double()
        for k in range((d + 1) // 2):
            if c["positions"] == T2T:
                a = p * c["position_base"] ** (-k / (d // 2 - 1))
                first, second = k, k + d // 2
            else:
                a = p * c["position_base"] ** (-2 * k / d)
                first, second = (2 * k, 2 * k + 1) if c["positions"] == PAPER else (k, k + (d + 1) // 2)
            table[:, first] = a.sin()
            if second < d:
                table[:, second] = a.cos()
        return table

    def turn(self, x):
        """x [n, heads, dk]"""
        c, r = self.c, self.c["rotary"]
        p = torch.arange(x.shape[0]).double() + c["position_offset"]
        a = p[:, None, None] * c["position_base"] ** (-2 * torch.arange(r // 2).double() / r)
        if c["positions"] == ROTARY:
            u, v = x[..., : r // 2], x[..., r // 2 : r]
            turned = torch.cat([u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()], -1)
        else:
            u, v = x[..., 0:r:2], x[..., 1:r:2]
            turned = torch.stack([u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()], -1).flatten(-2)
        return torch.cat([turned, x[..., r:]], -1)

    def bucket(self, r, both):
        buckets, far, base = self.c["t5_buckets"], self.c["t5_max_distance"], 0
        if both:
            buckets //= 2
            base, r = (buckets if r > 0 else 0), abs(r)
        else:
            r = max(-r, 0)
        exact = buckets // 2
        if r < exact:
            return base + r
        return base + min(buckets - 1, exact + int(math.log(r / exact) / math.log(far / exact) * (buckets - exact)))

    def logits(self, q, k, name, stack, cross, causal):
        """q [n, h, dk], k [m, h, dk] -> [h, n, m]"""
        c, n, m, h = self.c, q.shape[0], k.shape[0], q.shape[1]
        if c["score"]:
            w = self.get(name + ".score.weight", h, c["dk"])
            return ((q[:, None] + k[None]).tanh() * w).sum(-1).permute(2, 0, 1)
        scale = c["attention_scale"] if c["has_attention_scale"] else c["dk"] ** -0.5
        if c["qk_temperature"]:
            scale = self.get(name + ".temperature", h)[:, None, None]
        s = torch.einsum("nhd,mhd->hnm", q, k) * scale
        if c["softcap"]:
            s = c["softcap"] * (s / c["softcap"]).tanh()
        i, j = torch.arange(n)[:, None], torch.arange(m)[None]
        if c["positions"] == T5 and not cross:
            table = self.get(stack + ".relative.weight", c["t5_buckets"], h)
            rows = torch.tensor([[self.bucket(b - a, not causal) for b in range(m)] for a in range(n)]).long().view(n, m)
            s = s + table[rows].permute(2, 0, 1)
        if c["positions"] == ALIBI and not cross:
            near = 2 ** int(math.log2(h))
            slopes = [2 ** (-8 * (x + 1) / near) for x in range(near)]
            slopes += [2 ** (-8 * (2 * x + 1) / (2 * near)) for x in range(h - near)]
            s = s - torch.tensor(slopes).double()[:, None, None] * (i - j).abs()
        return s

    def attention(self, y, z, name, stack, cross, causal):
        c, h, kv, bias = self.c, self.c["heads"], self.c["kv_heads"], self.c["biases"]
        q = self.linear(y, name + ".q", h * c["dk"], bias & 1).view(-1, h, c["dk"])
        k = self.linear(z, name + ".k", kv * c["dk"], bias & 2).view(-1, kv, c["dk"])
        v = self.linear(z, name + ".v", kv * c["dv"], bias & 4).view(-1, kv, c["dv"])
        if c["qk_norm"] == QK_L2:
            q, k = q / q.norm(dim=-1, keepdim=True), k / k.norm(dim=-1, keepdim=True)
        elif c["qk_norm"]:
            kind = RMS if c["qk_norm"] == QK_RMS else LAYER
            q, k = self.norm(q, name + ".q_norm", kind), self.norm(k, name + ".k_norm", kind)
        if c["positions"] in (ROTARY, PAIRS) and not cross:
            q, k = self.turn(q), self.turn(k)
        k, v = (x.repeat_interleave(h // kv, 1) for x in (k, v))
        s = self.logits(q, k, name, stack, cross, causal)
        if causal:
            s = s.masked_fill(torch.ones(s.shape[1:]).triu(1).bool(), -math.inf)
        p = s.softmax(-1) if s.shape[-1] else s
        o = torch.einsum("hnm,mhd->nhd", p, v).reshape(-1, h * c["dv"])
        return self.linear(o, name + ".out", c["d"], bias & 8)

    def feed(self, y, name):
        c, bias = self.c, self.c["biases"] & 16
        act = {RELU: F.relu, GELU: F.gelu, SILU: F.silu,
               GELU_TANH: lambda x: F.gelu(x, approximate="tanh")}[c["activation"]]
        if c["gated"]:
            gate = act(self.linear(y, name + ".gate", c["ff"], bias))
            h = gate * self.linear(y, name + ".up", c["ff"], bias)
        else:
            h = act(self.linear(y, name + ".up", c["ff"], bias))
        return self.linear(h, name + ".down", c["d"], bias)

    def sub(self, x, name, function):
        if self.c["place"] == POST:
            return self.block_norm(x + function(x), name)
        return x + function(self.block_norm(x, name))

    def stack(self, ids, name, memory):
        """ids: -1 is a zero vector."""
        c, causal = self.c, name == "decoder"
        both = c["stack"] == BOTH
        rows = c["source_vocabulary"] or c["vocabulary"] if both and not causal else c["vocabulary"]
        table = "embedding" if c["tie_embeddings"] or not both else name + ".embedding"
        table = self.get(table + ".weight", rows, c["d"])
        x = torch.zeros(len(ids), c["d"]).double()
        if ids:
            index = torch.tensor(ids)
            x = table[index.clamp(min=0)] * c["embedding_scale"] * (index >= 0)[:, None]
        if c["positions"] <= MARIAN:
            x = x + self.sines(len(ids))
        if c["positions"] == LEARNED:
            learned = self.get(name + ".positions.weight", c["max_positions"], c["d"])
            x = x + learned[c["position_offset"] : c["position_offset"] + len(ids)]
        if c["embedding_norm"] == YES:
            x = self.block_norm(x, name + ".embedding_norm")
        for i in range(c[name + "_layers"]):
            at = f"{name}.layers.{i}."
            x = self.sub(x, at + "self_norm",
                         lambda y: self.attention(y, y, at + "self", name, False, causal))
            if memory is not None:
                x = self.sub(x, at + "cross_norm",
                             lambda y: self.attention(y, memory, at + "cross", name, True, False))
            x = self.sub(x, at + "ff_norm", lambda y: self.feed(y, at + "ff"))
        return self.block_norm(x, name + ".norm") if c["final"] else x

    def shifted(self, ids):
        start = self.c["start"]
        return ids if start == 2 else [self.c["start_token"] if start else -1][: len(ids)] + ids[:-1]


def make(name, given):
    fields, c = completed(given)
    model, tensors, hidden = Model(c), {}, []
    def draw(lengths, rows):
        return [torch.randint(0, rows, (n,)).tolist() for n in lengths]
    sources = draw(SOURCES, c["source_vocabulary"] or c["vocabulary"])
    targets = draw(TARGETS, c["vocabulary"])
    for source, target in zip(sources, targets):
        x = None
        if c["stack"] != DECODER:
            x = model.stack(source, "encoder", None)
        if c["stack"] != ENCODER:
            x = model.stack(model.shifted(target), "decoder", x)
        hidden.append(x)
    hidden = torch.cat(hidden)
    dhidden = torch.randn(hidden.shape).float().double()
    weights = {k: w for k, w in model.w.items()}
    gradients = torch.autograd.grad((hidden * dhidden).sum(), list(weights.values()), allow_unused=True)
    for key, gradient in zip(weights, gradients):
        tensors[f"{name}/w/{key}"] = weights[key].detach().float()
        tensors[f"{name}/g/{key}"] = (torch.zeros_like(weights[key]) if gradient is None else gradient).contiguous()
    tensors[f"{name}/options"] = torch.tensor([[float(fields[f]) for f in FIELDS]], dtype=torch.float64)
    tensors[f"{name}/source"] = torch.tensor([sum(sources, [])], dtype=torch.int32)
    tensors[f"{name}/target"] = torch.tensor([sum(targets, [])], dtype=torch.int32)
    tensors[f"{name}/hidden"] = hidden.detach()
    tensors[f"{name}/dhidden"] = dhidden.float()
    return tensors


def main():
    torch.manual_seed(17)
    tensors = {}
    for name, given in CASES.items():
        tensors |= make(name, given)
    save_file(tensors, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
