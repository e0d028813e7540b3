"""Compares attn's tokenizers with Hugging Face's `tokenizers`: ids, texts and trained vocabularies.

    differential.py BUILD [--seed N] [--cases N]

Every kind of step is probed with every code point that Unicode 14 assigns; tokenizers of many makes
are run over hostile strings; vocabularies are trained by both. Differences are printed, the first of
each kind. Ends with a totals line.
"""
import argparse
import json
import random
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import decoders as D
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import processors

import attn_text

assert unicodedata.unidata_version.startswith("14."), "needs a Python of Unicode 14 (3.11)"

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ODD = [r"\w+|[^\w\s]+", r"\s", r"\S+", r"\d", r"[\w']+", r"\b", r"(?m:a.b)", r"a.b", r"^.", r".$",
       r"[^\S\n]+", r"\h+", r"[[:space:]]+", r"\p{Han}+", r"\P{Greek}", r"\p{^Latin}", r"(?=[A-Z])", r"x*", r"\p{P}", r"[\p{S}\d]",
       r"\u00e9|\x41", r"a{,2}b", r"(\w)\1", r"\v", r"(?i)STRASSE|k", r"[^a-zA-Z]", r"\n+$"]


# --- Text that hurts ---------------------------------------------------------------------------

ASSIGNED = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
MARKS = [c for c in ASSIGNED if unicodedata.combining(chr(c))]
SPACES = [0x9, 0xa, 0xb, 0xc, 0xd, 0x1c, 0x20, 0x20, 0x20, 0x85, 0xa0, 0x1680, 0x180e, 0x2003, 0x200b,
          0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff]
PIECES = ["the ", "Hello", "'s", "'LL", "don't", "  ", "\r\n", "\n\n", "123456", "½²③", "naïve", "café",
          "e\u0301", "İstanbul", "ß", "ẞ", "ſ", "ŉ", "ﬃ", "각", "\u1100\u1161\u11a8", "हिन्दी", "ไทย",
          "שָׁלוֹם", "العربية", "𝕳𝖊", "👩‍👩‍👧", "🇩🇪", "▁", "Ġ", "Ċ", "<0x41>", "<0xFF>", "<s>", "</s>", "[X]",
          "<|end|>", "\u0000", "\u200d", "\ufffd", "\U0010ffff", "\ue000", "漢字", "かな", "ﷺ", "Ǆ", "ᾳ",
          "ΑΣ", "a" * 40, "...", "!?", "==>", "_x_", "C:\\dir", "\u0345\u0301\u0323", "K", "Å", "word"]


def hostile(r, pieces=None):
    pieces, out = pieces or r.randrange(1, 12), []
    for _ in range(pieces):
        kind = r.randrange(8)
        if kind < 4:
            out.append(r.choice(PIECES))
        elif kind == 4:
            out.append(chr(r.choice(ASSIGNED)))
        elif kind == 5:
            out.append(chr(r.choice(SPACES)))
        elif kind == 6:
            out.append("".join(chr(r.choice(MARKS)) for _ in range(r.randrange(1, 6))))
        else:
            out.append("".join(chr(r.randrange(32, 127)) for _ in range(r.randrange(1, 8))))
    return "".join(out)


def corpus(r, lines):
    words = [hostile(r, r.randrange(1, 3)).replace("\n", " ") for _ in range(400)]
    return "".join(" ".join(r.choice(words[:1 + int(400 * r.random() ** 3)])
                            for _ in range(r.randrange(1, 15))) + "\n" for _ in range(lines))


# --- Counting ----------------------------------------------------------------------------------

class Score:
    def __init__(self):
        self.compared, self.failures = 0, {}

    def same(self, what, mine, theirs, about):
        self.compared += 1
        if mine != theirs:
            first = self.failures.setdefault(what, [0, about, mine, theirs])
            first[0] += 1

    def report(self):
        for what, (count, about, mine, theirs) in self.failures.items():
            print(f"DIFFERENT {what}, {count} times; first {about!r}:")
            print(f"  attn {mine!r:.300}\n  hf   {theirs!r:.300}")


# --- Steps, one by one -------------------------------------------------------------------------

def probe(normalizer, splitter):
    """Shows normalised bytes, and where words begin: U+2581 before each, then a token a byte."""
    vocab = {f"<0x{b:02X}>": b for b in range(256)}
    vocab["\u2581"] = 256
    t = Tokenizer(models.BPE(vocab, [], byte_fallback=True))
    if normalizer:
        t.normalizer = normalizer
    shown = P.Metaspace(prepend_scheme="always", split=False)
    t.pre_tokenizer = P.Sequence([splitter, shown]) if splitter else shown
    return t


NORMALIZERS = {
    "NFC": N.NFC(), "NFD": N.NFD(), "NFKC": N.NFKC(), "NFKD": N.NFKD(), "Lowercase": N.Lowercase(),
    "StripAccents": N.StripAccents(), "NFD, StripAccents, Lowercase":
    N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]), "Strip": N.Strip(), "Strip left":
    N.Strip(right=False), "Strip right": N.Strip(left=False), "Prepend": N.Prepend("x "),
    "Replace": N.Replace("e", "éé"), "Replace Regex": N.Replace(Regex(r"\s+"), " "),
    "Replace empty matches": N.Replace(Regex("x*"), "-"), "ByteLevel": N.ByteLevel(),
    "Strip, NFKC": N.Sequence([N.Strip(), N.NFKC()]),
}
SPLITTERS = {
    "Whitespace": P.Whitespace(), "WhitespaceSplit": P.WhitespaceSplit(), "Digits": P.Digits(False),
    "Digits alone": P.Digits(True), "CharDelimiterSplit": P.CharDelimiterSplit("e"),
    "ByteLevel": P.ByteLevel(add_prefix_space=False), "ByteLevel prefix": P.ByteLevel(),
    "ByteLevel whole": P.ByteLevel(add_prefix_space=True, use_regex=False),
    "Metaspace": P.Metaspace(), "Metaspace first": P.Metaspace(prepend_scheme="first"),
    "Metaspace never": P.Metaspace(prepend_scheme="never"), "GPT-4": P.Split(Regex(GPT4), "isolated"),
    "o200k": P.Split(Regex(O200K), "isolated"),
    "Digits, Punctuation, first": P.Sequence([P.Digits(True), P.Punctuation(),
                                              P.Metaspace(prepend_scheme="first")]),
}
for _behaviour in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
    SPLITTERS["Punctuation " + _behaviour] = P.Punctuation(_behaviour)
    for _invert in (False, True):
        SPLITTERS[f"Split String {_behaviour} {_invert}"] = P.Split("e", _behaviour, _invert)
        SPLITTERS[f"Split Regex {_behaviour} {_invert}"] = P.Split(Regex(r"\s|\p{L}{2}"), _behaviour,
                                                                  _invert)
for _pattern in ODD:
    SPLITTERS["Split " + _pattern] = P.Split(Regex(_pattern), "isolated")


def probes(r, score, cases):
    points = [chr(c) for c in ASSIGNED]
    texts = ["".join("a" + c + "B1" + c + c for c in points[i:i + 20]) for i in range(0, len(points), 20)]
    makes = [(n, probe(s, None)) for n, s in NORMALIZERS.items()]
    makes += [(n, probe(None, s)) for n, s in SPLITTERS.items()]
    for name, theirs in makes:
        mine = attn_text.Tokenizer(theirs.to_str().encode())
        for text in texts + [hostile(r) for _ in range(cases)]:
            score.same("probe " + name, mine.encode(text.encode()), theirs.encode(text).ids, text)
        mine.close()


# --- Whole tokenizers --------------------------------------------------------------------------

def trained(r, text, model, trainer, **parts):
    t = Tokenizer(model)
    for name, part in parts.items():
        setattr(t, name, part)
    t.train_from_iterator(text.splitlines(keepends=True), trainer)
    t.add_special_tokens(["<s>", "</s>", "<|end|>"])
    t.add_tokens([AddedToken("[X]", lstrip=True, rstrip=True), AddedToken("word", single_word=True),
                  AddedToken("Hello", normalized=True), AddedToken("the ", normalized=False)])
    return t


def whole(r):
    text = corpus(r, 300)

    def trainer(**options):
        return trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=["<unk>"], **options)
    alphabet = P.ByteLevel.alphabet()
    bytes_256 = [f"<0x{b:02X}>" for b in range(256)]
    makes = {}
    makes["GPT-2"] = trained(r, text, models.BPE(), trainer(initial_alphabet=alphabet),
                             pre_tokenizer=P.ByteLevel(add_prefix_space=False), decoder=D.ByteLevel())
    makes["RoBERTa"] = trained(r, text, models.BPE(), trainer(initial_alphabet=alphabet),
                               pre_tokenizer=P.ByteLevel(add_prefix_space=True), decoder=D.ByteLevel())
    makes["RoBERTa"].post_processor = processors.RobertaProcessing(
        ("</s>", makes["RoBERTa"].token_to_id("</s>")), ("<s>", makes["RoBERTa"].token_to_id("<s>")))
    makes["LLaMA-3"] = trained(
        r, text, models.BPE(ignore_merges=True), trainer(initial_alphabet=alphabet),
        pre_tokenizer=P.Sequence([P.Split(Regex(GPT4), "isolated"),
                                  P.ByteLevel(add_prefix_space=False, use_regex=False)]),
        decoder=D.ByteLevel(), normalizer=N.NFC())
    makes["LLaMA-3"].post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing("<s> $A </s> <|end|>", None, [
            (s, makes["LLaMA-3"].token_to_id(s)) for s in ("<s>", "</s>", "<|end|>")])])
    llama = trainers.BpeTrainer(vocab_size=900, show_progress=False,
                                special_tokens=["<unk>"] + bytes_256, limit_alphabet=60)
    t = trained(r, text, models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"), llama,
                normalizer=N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]),
                pre_tokenizer=P.Split("\u2581", "merged_with_next"),
                decoder=D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(),
                                    D.Strip(" ", 1, 0)]))
    spec = json.loads(t.to_str())
    spec["pre_tokenizer"] = None
    spec["added_tokens"] = [a for a in spec["added_tokens"] if not a["content"].startswith("<0x")]
    makes["LLaMA-2"] = Tokenizer.from_str(json.dumps(spec))
    for scheme in ("always", "first", "never"):
        makes["Metaspace " + scheme] = trained(
            r, text, models.BPE(unk_token="<unk>", fuse_unk=scheme == "first"),
            trainer(limit_alphabet=60), normalizer=N.NFKC(),
            pre_tokenizer=P.Metaspace(prepend_scheme=scheme), decoder=D.Metaspace(prepend_scheme=scheme))
    makes["suffix"] = trained(
        r, text, models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainer(limit_alphabet=60, end_of_word_suffix="</w>"), normalizer=N.Lowercase(),
        pre_tokenizer=P.Whitespace(), decoder=D.BPEDecoder("</w>"))
    makes["prefix"] = trained(
        r, text, models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
        trainer(limit_alphabet=60, continuing_subword_prefix="##"),
        normalizer=N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()]), pre_tokenizer=P.WhitespaceSplit())
    return makes


def tokenizers_alike(r, score, cases):
    for name, theirs in whole(r).items():
        mine = attn_text.Tokenizer(theirs.to_str().encode())
        size = theirs.get_vocab_size()
        for _ in range(cases):
            text = hostile(r)
            for specials in (0, attn_text.SPECIAL):
                theirs.encode_special_tokens = not specials
                for frame in (0, attn_text.FRAME):
                    ids = theirs.encode(text, add_special_tokens=bool(frame)).ids
                    score.same(f"{name}: ids, flags {specials | frame}",
                               mine.encode(text.encode(), specials | frame), ids, text)
            for source in (ids, [r.randrange(size + 5) for _ in range(r.randrange(1, 12))]):
                if name == "suffix" and not source:
                    continue  # its decoder fails there
                for skip in (0, attn_text.SKIP_SPECIAL):
                    flags = skip | attn_text.LOSSY
                    text = theirs.decode(source, skip_special_tokens=bool(skip)) if source else ""
                    out = mine.decode(source, flags)
                    score.same(f"{name}: text, flags {flags}", out.decode("utf-8", "replace"), text, source)
                    cuts = sorted(r.randrange(len(source) + 1) for _ in range(3))
                    score.same(f"{name}: text in parts", mine.decode(source, flags, cuts), out, source)
                    whole_bytes = mine.decode(source, skip)
                    score.same(f"{name}: bytes in parts", mine.decode(source, skip, cuts), whole_bytes,
                               source)
        mine.close()


# --- Training ----------------------------------------------------------------------------------

def training(r, score, cases):
    for _ in range(cases):
        text = corpus(r, 200)
        data, size = text.encode(), r.randrange(300, 1200)
        for pattern in (None, GPT4):
            t = Tokenizer(models.BPE())
            level = P.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
            t.pre_tokenizer = P.Sequence([P.Split(Regex(pattern), "isolated"), level]) if pattern else level
            t.train_from_iterator(text.splitlines(keepends=True) if "\r" not in text else
                                  [line + "\n" for line in text.split("\n")[:-1]],
                                  trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False,
                                                      special_tokens=["<s>"],
                                                      initial_alphabet=P.ByteLevel.alphabet()))
            mine = attn_text.train([data], attn_text.BYTES, size, 2, ["<s>"], pattern)
            back = Tokenizer.from_str(mine.json().decode())
            score.same("vocabulary of bytes", back.get_vocab(), t.get_vocab(), text[:60])
            cuts = sorted(r.randrange(len(data)) for _ in range(20))
            again = attn_text.train([data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])],
                                    attn_text.BYTES, size, 2, ["<s>"], pattern)
            score.same("vocabulary of text in parts", again.json(), mine.json(), text[:60])
            own(r, score, mine, back, "bytes")
            again.close()
        for form in range(3):
            mine = attn_text.train([data], attn_text.WORDS, size, 2, ["<s>", "</s>"], form=form)
            own(r, score, mine, Tokenizer.from_str(mine.json().decode()), f"words, form {form}")


def own(r, score, mine, theirs, name):
    """A tokenizer that attn wrote, read by both."""
    for _ in range(100):
        text = hostile(r)
        for flags in (0, attn_text.SPECIAL):
            theirs.encode_special_tokens = not flags
            ids = mine.encode(text.encode(), flags)
            score.same(f"own {name}: ids", ids, theirs.encode(text).ids, text)
            score.same(f"own {name}: text", mine.decode(ids, attn_text.LOSSY).decode(),
                       theirs.decode(ids, skip_special_tokens=False), text)
        noise = bytes(r.randrange(256) for _ in range(r.randrange(40)))
        if name == "bytes":
            score.same("own bytes: any bytes come back", mine.decode(mine.encode(noise)), noise, noise)
    mine.close()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("build")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--cases", type=int, default=1000)
    a = arguments.parse_args()
    attn_text.load(a.build)
    passed = failed = 0
    print(f"tokenizers {tokenizers.__version__}, Unicode {unicodedata.unidata_version}, seed {a.seed}")
    for part, cases in ((probes, a.cases), (tokenizers_alike, a.cases), (training, max(1, a.cases // 200))):
        score = Score()
        part(random.Random(f"{part.__name__} {a.seed}"), score, cases)
        score.report()
        print(f"{part.__name__}: {score.compared} comparisons, {len(score.failures)} kinds of difference")
        passed += not score.failures
        failed += bool(score.failures)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
