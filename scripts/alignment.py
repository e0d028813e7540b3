#!/usr/bin/env python3
"""Whether a model's attention finds the words that were translated.

    scripts/alignment.py MODEL                measures; a folder as attn export makes it (default models/en-de)
    scripts/alignment.py MODEL --list         and prints each content word that was checked, and what it found
    scripts/alignment.py sentences CORPUS     the lines of tests/alignment, by rule, from CORPUS/test.*

In tests/alignment/choose.txt and check.txt, content words of 20 German sentences each are paired by hand with the
English words that they render. The model is made to say the German sentence; while it says a word (mean over its
pieces), the source word that was looked at most (sum over its pieces), signs as words of their own, should be one
of those. Heads, means of the heads of a layer and the mean of all are tried on choose.txt; the best of them is then
measured on check.txt, beside a diagonal: word j of m said looks at word j n / m, rounded, of n. The end of the source
is no word and cannot be the answer; how often it would have been looked at more is printed too. ATTN names the
program (default build/attn)."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EACH = 20
_PLAIN = re.compile(r"[^\W_]+(?:-[^\W_]+)*[.,:;]?")


# --- Sentences -------------------------------------------------------------------------------------

def is_plain(text):
    """A sentence of 6 to 16 words without quotes, brackets, menus and the like."""
    return 6 <= len(text.split()) <= 16 and text[0].isupper() and text.endswith(".") and \
        all(_PLAIN.fullmatch(word) for word in text.split())


def choose(rows, demo):
    """Of rows (group, en, de): those whose sides are plain, in the order of the SHA-256 of the English side, no
    two of one page or dialog and none of a page or dialog of the demo's lines. The first 20, and the next 20."""
    rows = sorted(rows, key=lambda row: hashlib.sha256(row[1].encode()).digest())
    groups = {group for group, en, _ in rows if en in demo}
    chosen = []
    for group, en, de in rows:
        if is_plain(en) and is_plain(de) and group not in groups:
            chosen.append((en, de))
            groups.add(group)
    return chosen[:EACH], chosen[EACH:2 * EACH]


def print_sentences(corpus):
    def lines(path):
        return path.read_text(encoding="utf-8").splitlines()

    rows = zip(*(lines(corpus / f"test.{ending}") for ending in ("from", "en", "de")))
    demo = lines(ROOT / "models/en-de/demo.en")
    for name, chosen in zip(("choose", "check"), choose(rows, set(demo))):
        print(name)
        for en, de in chosen:
            print(f"{en}\n{de}\n")


# --- Pairs -----------------------------------------------------------------------------------------

def read_pairs(text):
    """[(en, de, [(German word, [English words])])] of a file of tests/alignment."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if len(lines) % 3:
        raise ValueError("expected three lines for each sentence")
    return [(en, de, [(word, of.split(",")) for word, _, of in (pair.partition("=") for pair in pairs.split())])
            for en, de, pairs in zip(lines[0::3], lines[1::3], lines[2::3])]


def words_of(text):
    """Words and signs, as attn translate --by word parts the sentences of is_plain."""
    return re.findall(r"\w+|[^\w\s]", text)


def place(word, words):
    """Where `word` stands in words; "word#2" is the second such."""
    name, _, number = word.partition("#")
    at = [i for i, other in enumerate(words) if other == name]
    if len(at) < int(number or 1) or (len(at) > 1 and not number):
        raise ValueError(f"{word!r} is {'ambiguous' if at and not number else 'missing'} in {words}")
    return at[int(number or 1) - 1]


def diagonal(j, m, n):
    """What word j of m looks at, of n, if order says everything."""
    return min(n - 1, int(j * n / m + 0.5))


# --- Attention -------------------------------------------------------------------------------------

class Said:
    """A sentence that was said: words of both sides, and rows[j][i], what word j gave to word i. The rest of a row
    went to the end of the source."""

    def __init__(self, source, words, rows):
        self.source, self.words, self.rows = source, words, rows

    @classmethod
    def of_line(cls, line):
        rows = [[0.0] * len(line["source_words"]) for _ in line["words"]]
        for i, j, weight in line["alignment"]:
            rows[j][i] = weight
        return cls(line["source_words"], line["words"], rows)

    @classmethod
    def mean(cls, heads):
        """Of the same sentence by several heads."""
        rows = [[sum(cells) / len(heads) for cells in zip(*of_word)] for of_word in zip(*(s.rows for s in heads))]
        return cls(heads[0].source, heads[0].words, rows)

    def best(self, j):
        return max(range(len(self.source)), key=self.rows[j].__getitem__)

    def rests(self, j):
        """Whether word j gave more to the end of the source than to any word."""
        return 1 - sum(self.rows[j]) > max(self.rows[j])


class Model:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        info = json.loads(self.run("info", "--json", f"{folder}/model.safetensors"))["metadata"]
        heads = int(info["attn.heads"])
        layers = [[f"{layer}.{head}" for head in range(heads)] for layer in range(int(info["attn.decoder_layers"]))]
        every = [head for layer in layers for head in layer]
        # Names as --heads has them, and the heads whose mean they are.
        self.heads = {head: [head] for head in every} | \
            {str(layer): of for layer, of in enumerate(layers)} | {"all": every}

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], check=True, stdout=subprocess.PIPE).stdout

    def say(self, texts, wanted):
        """{name: [Said of each text]} for the names of `wanted`."""
        said = {}
        with tempfile.TemporaryDirectory() as folder:
            for side, name in ((0, "en"), (1, "de")):
                text = "".join(sentence[side] + "\n" for sentence in texts)
                Path(folder, name).write_text(text, encoding="utf-8")
            for head in sorted({head for name in wanted for head in self.heads[name]}):
                out = self.run("translate", "-q", "-m", self.folder, f"{folder}/en", "--score", f"{folder}/de",
                               "--json", "--by", "word", "--align", "-", "--align-least", "0", "--heads", head)
                said[head] = [Said.of_line(json.loads(line)) for line in out.splitlines()]
        return {name: [Said.mean(heads) for heads in zip(*(said[head] for head in self.heads[name]))]
                for name in wanted}


# --- Figures ---------------------------------------------------------------------------------------

class Figures:
    """Counts over the content words of some sentences."""

    def __init__(self, texts, said):
        self.words = self.right = self.diagonal = self.rests = 0
        self.lines = []
        for (en, de, pairs), s in zip(texts, said, strict=True):
            if (s.source, s.words) != (words_of(en), words_of(de)):
                raise ValueError(f"expected the words of {en!r} and {de!r}, got {s.source} and {s.words}")
            for word, of in pairs:
                j, right = place(word, s.words), {place(w, s.source) for w in of}
                found = s.best(j)
                self.words += 1
                self.right += found in right
                self.diagonal += diagonal(j, len(s.words), len(s.source)) in right
                self.rests += s.rests(j)
                self.lines.append(f"{'' if found in right else 'wrong':<6} {word:<24} {s.source[found]:<18} "
                                  f"{100 * s.rows[j][found]:3.0f} %  {','.join(of)}{'  (end)' * s.rests(j)}")

    def share(self, count):
        return f"{100 * count / self.words:.1f} %"


def measure(model, listed):
    chosen, checked = (read_pairs((ROOT / f"tests/alignment/{name}.txt").read_text(encoding="utf-8"))
                       for name in ("choose", "check"))
    tried = {name: Figures(chosen, said) for name, said in model.say(chosen, list(model.heads)).items()}
    some = next(iter(tried.values()))
    print(f"choose.txt, {some.words} content words")
    for name, f in tried.items():
        print(f"{name:>10} {f.share(f.right):>8}")
    print(f"{'diagonal':>10} {some.share(some.diagonal):>8}")
    best = max(tried, key=lambda name: tried[name].right)    # the first of equals: a head before a mean
    f = Figures(checked, model.say(checked, [best])[best])
    print(f"\ncheck.txt, {f.words} content words")
    print(f"{best:>10} {f.share(f.right):>8}   {f.right} words; more at the end of the source: {f.rests}")
    print(f"{'diagonal':>10} {f.share(f.diagonal):>8}   {f.diagonal} words")
    if listed:
        print("\n" + "\n".join(f.lines))


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "sentences":
        return print_sentences(Path(arguments[1]))
    listed = "--list" in arguments
    rest = [argument for argument in arguments if argument != "--list"]
    if len(rest) > 1 or any(argument.startswith("-") for argument in rest):
        return __doc__
    program = os.environ.get("ATTN", str(ROOT / "build/attn"))
    try:
        return measure(Model(program, rest[0] if rest else str(ROOT / "models/en-de")), listed)
    except OSError as error:
        return str(error)
    except subprocess.CalledProcessError as error:    # it has said why
        return error.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
