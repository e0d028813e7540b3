#!/usr/bin/env python3
"""Translates a text by `attn translate` and by CTranslate2 with the same weights, and compares time and lines.

    scripts/translate_peer.py PROGRAM MODEL TEXT [--threads N] [--rounds N]

PROGRAM: build/attn; MODEL: a folder with model.safetensors and tokenizer.json; TEXT: a sentence a line. Both search
with a beam of 4, divide by the length, end counted, and stop at 4 ended hypotheses, in float32, on the first N
processors. For CTranslate2 the fastest of some sizes of batches, and of ways to share out its threads, is taken
before the rounds, in which the two alternate. Times are without opening the model: CTranslate2's is of one call, that
of attn is the program's less that of one word, so that it pays for tokens, start and output. Needs NumPy and
ctranslate2.
"""
import argparse, json, os, subprocess, sys, tempfile, time
from pathlib import Path
from statistics import median

import numpy as np

SEARCH = ["--beam", "4", "--length-penalty", "power", "--stop", "count", "--end-counted"]
BATCHES = [1024, 2048, 4096, 8192]  # tokens of sources

options = argparse.ArgumentParser()
options.add_argument("program", type=lambda x: str(Path(x).resolve()))
options.add_argument("model", type=Path)
options.add_argument("text", type=Path)
options.add_argument("--threads", type=int, default=1)
options.add_argument("--rounds", type=int, default=5)
options = options.parse_args()

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
import ctranslate2  # makes threads, which inherit it
from ctranslate2.converters import utils
from ctranslate2.specs import common_spec, transformer_spec


# --- The same weights --------------------------------------------------------------------------------------------


def read_model(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    config = {k.removeprefix("attn."): v for k, v in header.pop("__metadata__").items()}
    kinds = {"F32": np.float32, "F16": np.float16}
    tensors = {}
    for name, t in header.items():
        from_, to = t["data_offsets"]
        tensors[name] = np.frombuffer(data[from_:to], kinds[t["dtype"]]).astype(np.float32).reshape(t["shape"])
    return config, tensors


def convert(model, folder):
    """The paper's layers, normalised before each sublayer, biases everywhere, one matrix for all embeddings."""
    c, t = read_model(model / "model.safetensors")
    expected = dict(stack=0, norm=0, place=1, final_norm=1, activation=1, gated=0, positions=0, tie_embeddings=1,
                    tie_output=1, biases=31, start=0, output_bias=0, qk_norm=0, score=0)
    odd = {k: c[k] for k, v in expected.items() if c[k] != str(v)}
    d, layers = int(c["d"]), [int(c[half + "_layers"]) for half in ("encoder", "decoder")]
    if odd or float(c["embedding_scale"]) != d**0.5 or float(c["logit_scale"]) != 1:
        sys.exit(f"{model}: not the kind of model this converts: {odd}")

    def linear(to, *names):
        parts = []
        for name in names:
            parts.append(common_spec.LinearSpec())
            parts[-1].weight, parts[-1].bias = t[name + ".weight"], t[name + ".bias"]
        utils.fuse_linear(to, parts)

    def norm(to, name):
        to.gamma, to.beta = t[name + ".weight"], t[name + ".bias"]

    def attention(to, name, joined):
        norm(to.layer_norm, name + "_norm")
        for spec, letters in zip(to.linear, joined):
            linear(spec, *(f"{name}.{x}" for x in letters))

    def half(to, name, n):
        for embeddings in to.embeddings if name == "encoder" else [to.embeddings]:
            embeddings.weight = t["embedding.weight"]
        to.position_encodings.encodings = sines(d, float(c["position_base"]))
        norm(to.layer_norm, name + ".norm")
        for i in range(n):
            at, layer = f"{name}.layers.{i}.", to.layer[i]
            attention(layer.self_attention, at + "self", [["q", "k", "v"], ["out"]])
            if name == "decoder":
                attention(layer.attention, at + "cross", [["q"], ["k", "v"], ["out"]])
            norm(layer.ffn.layer_norm, at + "ff_norm")
            linear(layer.ffn.linear_0, at + "ff.up")
            linear(layer.ffn.linear_1, at + "ff.down")

    spec = transformer_spec.TransformerSpec.from_config(tuple(layers), int(c["heads"]), pre_norm=True)
    half(spec.encoder, "encoder", layers[0])
    half(spec.decoder, "decoder", layers[1])
    spec.decoder.start_from_zero_embedding = True
    spec.decoder.projection.weight = t["embedding.weight"]
    words = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    words = sorted(words, key=words.get)
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.layer_norm_epsilon = float(c["norm_eps"])
    spec.config.add_source_eos = True
    spec.config.unk_token = "<s>"
    spec.validate()
    spec.optimize()
    spec.save(folder)
    return {word: i for i, word in enumerate(words)}


def sines(d, base, rows=2048):
    angle = np.arange(rows)[:, None] * base ** (-np.arange(0, d, 2) / d)
    table = np.empty((rows, d), np.float32)
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table


# --- The two -----------------------------------------------------------------------------------------------------


def attn(*words, text):
    done = subprocess.run([options.program, *words], input=text, stdout=subprocess.PIPE, check=True)
    return done.stdout


def ours(text, more=SEARCH):
    start = time.perf_counter()
    out = attn("translate", "-m", str(options.model), "--threads", str(options.threads), "-q", *more, text=text)
    return time.perf_counter() - start, out


def theirs(translator, sources, batch):
    start = time.perf_counter()
    results = translator.translate_batch(
        sources, beam_size=4, length_penalty=1, max_batch_size=batch, batch_type="tokens", return_scores=False)
    return time.perf_counter() - start, [r.hypotheses[0] for r in results]


def pieces(text):
    tokenizer = str(options.model / "tokenizer.json")
    return [json.loads(line)["pieces"] for line in attn("tokenize", tokenizer, "--json", text=text).splitlines()]


text = options.text.read_bytes()
sources = pieces(text)
with tempfile.TemporaryDirectory() as folder:
    number = convert(options.model, folder)
    shares = [(1, options.threads)] + ([(options.threads, 1)] if options.threads > 1 else [])
    ways = [
        (ctranslate2.Translator(folder, compute_type="float32", inter_threads=inter, intra_threads=intra),
         f"{inter} x {intra} threads", batch)
        for inter, intra in shares for batch in BATCHES
    ]

for way in ways[:: len(BATCHES)]:
    theirs(way[0], sources[:100], 1024)
speed = [theirs(way[0], sources, way[2])[0] for way in ways]
translator, share, batch = ways[speed.index(min(speed))]
print(f"CTranslate2 {ctranslate2.__version__}: {share}, {batch} tokens a batch; seconds of all:",
      *(f"{s:.2f}" for s in speed))

times = []
for _ in range(options.rounds):
    opening = ours(b"Word\n")[0]
    ours_time, ours_out = ours(text)
    default_time, default_out = ours(text, [])
    theirs_time, theirs_out = theirs(translator, sources, batch)
    times.append((ours_time - opening, theirs_time, default_time - opening, opening))

ids = "".join(" ".join(str(number[w]) for w in line) + "\n" for line in theirs_out).encode()
lines = attn("tokenize", str(options.model / "tokenizer.json"), "--decode", "--lossy", text=ids).splitlines()
same = sum(a == b for a, b in zip(ours_out.splitlines(), lines, strict=True))
counts = [sum(map(len, pieces(ours_out))), sum(map(len, theirs_out)), sum(map(len, pieces(default_out)))]
for name, n, column in zip(("attn", "CTranslate2", "attn, its own search"), counts, zip(*times)):
    rates = sorted(n / x for x in column)
    print(f"{name}: {n} tokens, {median(column):.3f} s, {median(rates):.0f} tokens/s "
          f"({rates[0]:.0f} to {rates[-1]:.0f})")
ratios = [counts[0] / a / (counts[1] / b) for a, b, *_ in times]
print(f"attn : CTranslate2 = {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); "
      f"opening of attn {median(x[3] for x in times):.3f} s; identical lines {same} of {len(lines)}")
