#!/usr/bin/env python3
"""Makes the pictures of docs/gallery.md, from text that is at hand: this project's and Debian's words.

    scripts/gallery.py PROGRAM [FOLDER]     PROGRAM: build/attn; FOLDER: docs/gallery

Queries and keys are made here, without training, so that one can tell what each head must show. A word is the
normalised sum of the vectors of its pieces of one to three letters, its edges marked; a piece's vector is drawn
from its checksum. A place is a row of sines and cosines, whose products depend on distances alone.
Needs NumPy and the packages wamerican and codespell.
"""
import re, subprocess, sys, tempfile, zlib
from pathlib import Path

import numpy as np

root = Path(__file__).resolve().parent.parent
program = str(Path(sys.argv[1]).resolve())
folder = Path(sys.argv[2]) if len(sys.argv) > 2 else root / "docs/gallery"
WIDTH = 128


def word_vectors(words):
    pieces = {}

    def piece(text):
        if text not in pieces:
            pieces[text] = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(WIDTH)
        return pieces[text]

    known = {}
    for word in words:
        if word not in known:
            marked = f"<{word}>"
            parts = [marked[i : i + n] for n in (1, 2, 3) for i in range(len(marked) - n + 1)]
            total = sum(piece(p) for p in parts)
            known[word] = total / np.linalg.norm(total)
    return np.array([known[w] for w in words], np.float32)


def places(count, shift=0):
    """Rows whose products fall with the distance of their places."""
    angle = (np.arange(count) + shift)[:, None] / 3.0 ** (np.arange(WIDTH // 2) / 8)
    return np.concatenate([np.sin(angle), np.cos(angle)], 1).astype(np.float32) / np.sqrt(WIDTH / 2)


def before(rows):
    """Every row gets what the row before it had."""
    return np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])


def show(name, q, k, *options, tokens=None, key_tokens=None):
    """One picture; q and k are [heads, rows, columns]."""
    with tempfile.TemporaryDirectory() as work:
        np.save(f"{work}/q.npy", q)
        np.save(f"{work}/k.npy", k)
        command = [program, "show", f"{work}/q.npy", f"{work}/k.npy", "-o", str(folder / name), "--quiet"]
        for option, words in (("--tokens", tokens), ("--key-tokens", key_tokens)):
            if words:
                Path(work, option).write_text("".join(w + "\n" for w in words))
                command += [option, f"{work}/{option}"]
        subprocess.run(command + list(options), check=True)
    print(name)


def heads_of(words, sharpness=24):
    """Four heads: the word before, what followed this word earlier, like words, the first word."""
    rows, here = word_vectors(words), places(len(words))
    first = np.zeros_like(here)
    first[0] = 1
    q = [places(len(words), -1), rows, rows, np.full_like(here, 1 / WIDTH)]
    k = [here, before(rows), rows, first]
    return sharpness * np.stack(q), np.stack(k)


def words_of(*paths):
    return [w for p in paths for w in re.findall(r"[A-Za-z_]+|[^\sA-Za-z_]", Path(p).read_text())]


folder.mkdir(parents=True, exist_ok=True)
scale = ("--score-scale", "1", "--causal")

phrase = ("attention looks at every word and asks which word matters ; a word that came before matters , "
          "and what came after that word matters more").split()
q, k = heads_of(phrase)
show("heads.png", q, k, *scale, "--title", "Four heads over one sentence", tokens=phrase)
show("lines.svg", q[1:2], k[1:2], *scale, "--kind", "lines", "--share", "0.6",
     "--title", "What followed this word before", tokens=phrase)
show("map.png", q[2:3], k[2:3], *scale, "--title", "Like words", tokens=phrase)

sources = words_of(*sorted(root.glob("src/*/*.c")), *sorted(root.glob("docs/*.md")))[:65536]
q, k = heads_of(sources, 30)
show("long.png", q[2:3], k[2:3], *scale, "--scale", "log", "--title",
     f"Like words over {len(sources):,} words of this project: its C files, then its manual")
show("distance.png", q, k, *scale, "--kind", "distance", "--title",
     "How far four heads look: previous, what followed, like words, first")
show("entropy.png", q, k, *scale, "--kind", "entropy", "--title", "Entropy of the same heads along the text")

known = sorted({w for w in Path("/usr/share/dict/words").read_text().split() if w.isascii() and w.isalpha()},
               key=str.lower)
dictionary = Path("/usr/lib/python3/dist-packages/codespell_lib/data/dictionary.txt")
pairs = [line.split("->") for line in dictionary.read_text().splitlines() if "->" in line]
words = set(known)
wrong = sorted((p[0] for p in pairs if p[1] in words), key=str.lower)
show("misspelled.png", 40 * word_vectors(wrong)[None], word_vectors(known)[None], "--score-scale", "1",
     "--scale", "log", "--title", f"{len(wrong):,} misspellings against the {len(known):,} words of a dictionary")
