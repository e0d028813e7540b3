#!/usr/bin/env python3
"""Trains the Transformer of a run of `attn train` again, in PyTorch, and compares the two.

    scripts/train_peer.py PROGRAM RUN CORPUS OUT [--seed N] [--steps N] [--average X] [--threads N]

PROGRAM: build/attn; RUN: a folder that `attn train` made with the options of scripts/train-demo.sh
mpl, but with the --steps and --average given here (or their defaults); CORPUS: what
scripts/corpus/corpus.sh mpl made. OUT gets log.csv and the weights, as a model that attn reads. Of
RUN only configuration and tokenizer are taken: layers, derivatives, Adam and random numbers are
PyTorch's. Alike are ids, the rule of batches, the distributions of first weights and dropout, the
loss, rates, clipping, the average of weights, and float32.

Before training, RUN's weights go through the model here: the held-out nll must be what RUN's log
says. At last attn translates the test part with both, beam 4. Needs PyTorch, safetensors and
sacreBLEU.
"""
import argparse, csv, json, math, os, shutil, subprocess, sys, time
from pathlib import Path

# As in other measurements: PyTorch is faster when malloc keeps big blocks, and malloc reads this at
# the start of a process.
if "MALLOC_MMAP_MAX_" not in os.environ:
    os.environ |= dict(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="20000000000",
                       MALLOC_TOP_PAD_="268435456")
    os.execv(sys.executable, [sys.executable] + sys.argv)

import sacrebleu
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

RATE, WARMUP, BATCH, SMOOTHING, CLIP = 0.0014, 400, 2048, 0.1, 1.0
EXPECTED = dict(stack=0, norm=0, place=1, final_norm=1, activation=1, gated=0, positions=0,
                tie_embeddings=1, tie_output=1, biases=31, start=0, output_bias=0, qk_norm=0,
                score=0, init=0, dropout_attention=0, dropout_ff=0)


# --- Batches -------------------------------------------------------------------------------------


class Block:
    """Sequences that lie one after the other from row `first` on, and their padded rectangle."""

    def __init__(self, first, length):
        self.first, self.count = first, int(length.sum())
        self.shape = len(length), int(length.max())
        real = torch.arange(self.shape[1]) < length[:, None]
        self.at = real.flatten().nonzero().flatten()
        self.keys = real[:, None, None]

    def pad(self, x, heads):
        x = x[self.first : self.first + self.count]
        padded = x.new_zeros(math.prod(self.shape), x.shape[1]).index_copy(0, self.at, x)
        return padded.view(*self.shape, heads, -1).transpose(1, 2)

    def unpad(self, x):
        return x.transpose(1, 2).flatten(2).flatten(0, 1).index_select(0, self.at)


class Rows:
    """Sequences one after the other without padding; attention alone pads, few at a time."""

    def __init__(self, sequences, together=24):
        self.ids = torch.cat(sequences)
        length = torch.tensor([len(s) for s in sequences])
        self.place = torch.cat([torch.arange(n) for n in length])
        self.blocks, first = [], 0
        for part in length.split(together):
            self.blocks.append(Block(first, part))
            first += self.blocks[-1].count


def read(program, tokenizer, path):
    """The ids of each line, the end's last."""
    end = json.loads(tokenizer.read_text())["model"]["vocab"]["</s>"]
    lines = subprocess.run([program, "tokenize", tokenizer], stdin=open(path), text=True,
                           stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return [torch.tensor([*map(int, line.split()), end]) for line in lines]


def cut(pairs, order):
    """Runs of `order`, each as long as neither side has more than BATCH tokens."""
    runs, run, sums = [], [], (0, 0)
    for i in order:
        sizes = [len(side) for side in pairs[i]]
        sums = [a + b for a, b in zip(sums, sizes)]
        if run and max(sums) > BATCH:
            runs.append(run)
            run, sums = [], sizes
        run.append(i)
    return runs + [run]


def gather(pairs, run):
    """A batch's two sides, the short sentences first, which saves padding."""
    run = sorted(run, key=lambda i: [len(side) for side in pairs[i]])
    return [Rows(side) for side in zip(*(pairs[i] for i in run))]


def epochs(pairs):
    """Batches without end: any sentences together, drawn anew for each epoch."""
    while True:
        runs = cut(pairs, torch.randperm(len(pairs)).tolist())
        for i in torch.randperm(len(runs)).tolist():
            yield gather(pairs, runs[i])


# --- The model; modules are named as attn names tensors ------------------------------------------


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, rows, memory, memory_rows, causal):
        q, k, v, out = self.q(x), self.k(memory), self.v(memory), []
        for block, seen in zip(rows.blocks, memory_rows.blocks):
            # Padding is behind the rows that count: a causal row never sees it.
            mask = None if causal else seen.keys
            part = F.scaled_dot_product_attention(
                block.pad(q, self.heads), seen.pad(k, self.heads), seen.pad(v, self.heads),
                mask, is_causal=causal)
            out.append(block.unpad(part))
        return self.out(torch.cat(out))


class Layer(nn.Module):
    def __init__(self, c, decodes):
        super().__init__()
        d, heads, ff = (int(c[k]) for k in ("d", "heads", "ff"))
        self.self, self.self_norm = Attention(d, heads), nn.LayerNorm(d)
        self.cross = self.cross_norm = None
        if decodes:
            self.cross, self.cross_norm = Attention(d, heads), nn.LayerNorm(d)
        self.ff = nn.ModuleDict({"up": nn.Linear(d, ff), "down": nn.Linear(ff, d)})
        self.ff_norm = nn.LayerNorm(d)
        self.drop = nn.Dropout(float(c["dropout"]))

    def forward(self, x, rows, memory, memory_rows):
        y = self.self_norm(x)
        x = x + self.drop(self.self(y, rows, y, rows, memory is not None))
        if memory is not None:
            y = self.cross_norm(x)
            x = x + self.drop(self.cross(y, rows, memory, memory_rows, False))
        return x + self.drop(self.ff.down(F.relu(self.ff.up(self.ff_norm(x)))))


class Half(nn.Module):
    def __init__(self, c, name):
        super().__init__()
        count, decodes = int(c[name + "_layers"]), name == "decoder"
        self.layers = nn.ModuleList(Layer(c, decodes) for _ in range(count))
        self.norm = nn.LayerNorm(int(c["d"]))

    def forward(self, x, rows, memory=None, memory_rows=None):
        for layer in self.layers:
            x = layer(x, rows, memory, memory_rows)
        return self.norm(x)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = int(c["d"])
        self.scale, self.drop = float(c["embedding_scale"]), nn.Dropout(float(c["dropout"]))
        self.embedding = nn.Embedding(int(c["vocabulary"]), d)
        self.encoder, self.decoder = Half(c, "encoder"), Half(c, "decoder")
        angle = torch.arange(1024.0, dtype=torch.double)[:, None] * float(c["position_base"]) ** (
            -torch.arange(0, d, 2, dtype=torch.double) / d)
        table = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        self.register_buffer("positions", table.float(), persistent=False)
        for name, p in self.named_parameters():
            if p is self.embedding.weight:
                nn.init.normal_(p, std=d ** -0.5)
            elif p.dim() == 2:
                nn.init.xavier_uniform_(p)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def embed(self, rows, shift):
        x = self.embedding(rows.ids) * self.scale
        if shift:  # each row is told the token before it, the first one zeros
            x = torch.cat([torch.zeros(1, x.shape[1]), x[:-1]]) * (rows.place > 0)[:, None]
        return self.drop(x + self.positions[rows.place])

    def forward(self, source, target):
        memory = self.encoder(self.embed(source, False), source)
        x = self.decoder(self.embed(target, True), target, memory, source)
        return F.linear(x, self.embedding.weight)


@torch.no_grad()
def held_out(model, pairs):
    model.eval()
    nll = sum(F.cross_entropy(model(s, t), t.ids, reduction="sum").item()
              for s, t in (gather(pairs, run) for run in cut(pairs, range(len(pairs)))))
    model.train()
    return nll / sum(len(target) for _, target in pairs)


# --- Learning ------------------------------------------------------------------------------------


def rate(step, steps):
    if step < WARMUP:
        return RATE * step / WARMUP
    last = RATE / 100
    half = (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP))) / 2
    return last + (RATE - last) * half


def train(model, batches, valid, steps, keep, log):
    """Ends with the average in the model."""
    parameters = list(model.parameters())
    average = [p.detach().clone() for p in parameters]
    adam = torch.optim.Adam(parameters, betas=(0.9, 0.98), eps=1e-9)
    # attn spreads what smoothing takes from a token over the V - 1 others, PyTorch over all V.
    v = model.embedding.num_embeddings
    smoothing = SMOOTHING * v / (v - 1)
    sums, tokens = [0, 0], [0, 0]  # since the last line: loss and goals; tokens, tokens of all
    start = since = time.perf_counter()
    cpu = time.process_time()
    for step in range(1, steps + 1):
        source, target = next(batches)
        loss = F.cross_entropy(model(source, target), target.ids, label_smoothing=smoothing)
        adam.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(parameters, CLIP)
        adam.param_groups[0]["lr"] = rate(step, steps)
        adam.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, parameters, 1 - keep)
        sums = [sums[0] + loss.item() * len(target.ids), sums[1] + len(target.ids)]
        tokens = [n + len(source.ids) + len(target.ids) for n in tokens]
        if step % 20 == 0 or step == steps:
            now = time.perf_counter()
            print(step, f"{sums[0] / sums[1]:.6f},{norm:.5f},{tokens[0] / (now - since):.0f}",
                  sep=",", file=log, flush=True)
            sums, tokens[0], since = [0, 0], 0, now
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{steps} steps, {tokens[1]} tokens: {seconds:.0f} s, of which {cpu:.0f} s of processor,",
          f"{tokens[1] / cpu:.0f} tokens a second of that")
    print(f"held-out nll of the weights {held_out(model, valid):.4f}", end="")
    with torch.no_grad():
        for p, a in zip(parameters, average):
            p.copy_(a)
    print(f", of the average {held_out(model, valid):.4f}")


def score(program, model, corpus):
    out = Path(model) / "test.beam"
    subprocess.run([program, "translate", "-q", "-m", model, corpus / "test.en", "-o", out,
                    "--beam", "4", "--threads", str(torch.get_num_threads())], check=True)
    lines, goal = (path.read_text().splitlines() for path in (out, corpus / "test.de"))
    print(f"{model}: sacreBLEU {sacrebleu.corpus_bleu(lines, [goal])},",
          f"chrF2 {sacrebleu.corpus_chrf(lines, [goal]).score:.2f}; attn score:", flush=True)
    subprocess.run([program, "score", out, corpus / "test.de"], check=True)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program", type=lambda x: str(Path(x).resolve()))
    for name in ("run", "corpus", "out"):
        options.add_argument(name, type=Path)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--steps", type=int, default=800)
    options.add_argument("--average", type=float, default=0.99)
    options.add_argument("--threads", type=int, default=1)
    options = options.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)

    file = options.run / "model.safetensors"
    with safe_open(file, "pt") as f:
        metadata = f.metadata()
    c = {k.removeprefix("attn."): v for k, v in metadata.items()}
    odd = {k: c[k] for k, v in EXPECTED.items() if float(c[k]) != v}
    if odd or float(c["norm_eps"]) != 1e-5 or float(c["logit_scale"]) != 1:
        sys.exit(f"{file}: not the kind of model that is trained here: {odd}")
    tokenizer = options.run / "tokenizer.json"
    text, valid = (
        list(zip(*(read(options.program, tokenizer, options.corpus / f"{part}.{language}")
                   for language in ("en", "de"))))
        for part in ("train", "valid"))

    model = Model(c)
    fresh = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict({k: v.float() for k, v in load_file(file).items()})
    log = list(csv.DictReader(open(options.run / "log.csv")))
    print(f"held-out nll of {options.run}: here {held_out(model, valid):.6f},",
          f"its log {log[-1]['held_nll']}", flush=True)
    model.load_state_dict(fresh)

    options.out.mkdir(exist_ok=True)
    shutil.copy(tokenizer, options.out)
    with open(options.out / "log.csv", "w") as log:
        print("step,loss,norm,tokens_s", file=log)
        train(model, epochs(text), valid, options.steps, options.average, log)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()},
              options.out / "model.safetensors", metadata)
    for folder in (options.run, options.out):
        score(options.program, folder, options.corpus)


if __name__ == "__main__":
    main()
