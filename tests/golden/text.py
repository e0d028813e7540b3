"""Makes tests/golden/text/: small tokenizers trained by Hugging Face's `tokenizers` 0.23.3 (an
independent source), and texts with the ids and texts it gives for them. A line of NAME.txt:

    text in hex <tab> ids, special tokens as text <tab> ids, special tokens found and framed <tab>
    text of the last ids in hex <tab> the same without special tokens

and probes.txt, of single steps (tests/tokenizers/differential.py has them) over the model probe.json:

    fields of the file <tab> text in hex <tab> ids
"""
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import decoders as D
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import processors

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = [
    "", " ", "a", "Hello world", "Hello  world \n\n  again", "don't we'll I'M", "naïve café cafe\u0301",
    "<s>Hello</s> there", "  [X]  word wordy [X]", "1234567 ½²③", "漢字かな交じり文", "👩‍👩‍👧 🇩🇪 😀", "İstanbul ẞ ﬃ",
    "각 \u1100\u1161\u11a8", "शब्द שָׁלוֹם العربية", "\u0000\u0001\ufffd\ue000\U0010ffff", "▁Ġ<0x41>", "a" * 70,
    "x\u0345\u0301\u0323y", "\u180e\u0085\u2028\u3000|", "the licence the license, the text.", "\r\n\r\n\t",
    "word", "swordfish word.", "HELLO Hello hello", "Å K ℵ", "\U00011938\U00011935\U00011930\u1df6\u0301",
    "aaaaaaa|aaa|abab|a", "ab" * 20 + "a" * 33 + "b" + "ba" * 9, "aab" * 30, "a" * 31 + "|" + "a" * 30, "xabc" * 10, "xabc|abc",
]


def suffixed(words):
    """Words built from the left; a trainer would number characters in the order of a hash."""
    pieces, merges = ["<unk>"], []
    for c in "abcdefghijklmnopqrstuvwxyz0123456789'.,":
        pieces += [c, c + "</w>"]
    for word in words:
        word = "".join(c for c in word.lower() if c.isascii())
        for n in range(2, len(word) + 1):
            end = "</w>" if n == len(word) else ""
            pair = (word[:n - 1], word[n - 1] + end)
            if pair not in merges:
                merges.append(pair)
                pieces.append(word[:n] + end)
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>",
                             end_of_word_suffix="</w>"))
    t.normalizer = N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()])
    t.pre_tokenizer = P.Sequence([P.Whitespace(), P.Digits(True), P.Punctuation()])
    t.decoder = D.BPEDecoder("</w>")
    t.add_special_tokens(["<s>", "</s>"])
    t.add_tokens([AddedToken("[X]", lstrip=True, rstrip=True), AddedToken("word", single_word=True)])
    return t


def overlapping():
    """Merges that compete for the same characters, and a mark for the first word only."""
    pieces = ["<unk>", "a", "b", "c", "x", "\u2581", "aa", "aaaa", "ab", "ba", "aba", "bc", "xa", "abc"]
    merges = [("b", "c"), ("a", "b"), ("x", "a"), ("a", "bc"), ("a", "a"), ("aa", "aa"), ("b", "a"),
              ("ab", "a")]
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>"))
    t.pre_tokenizer = P.Sequence([P.Split("|", "removed"), P.Metaspace(prepend_scheme="first")])
    t.decoder = D.Metaspace()
    return t


def make(r):
    words = "the license text of this work and its source code may be used with or without changes " \
        "Hello world naïve café again word don't we'll 1234 漢字 😀".split()
    lines = [" ".join(r.choice(words) for _ in range(12)) + ".\n" for _ in range(200)]

    def train(model, size=420, special=("<unk>",), alphabet=None, **parts):
        t = Tokenizer(model)
        for name, part in parts.items():
            setattr(t, name, part)
        options = {"initial_alphabet": alphabet or []}
        t.train_from_iterator(lines, trainers.BpeTrainer(
            vocab_size=size, special_tokens=list(special), show_progress=False, **options))
        t.add_special_tokens(["<s>", "</s>"])
        t.add_tokens([AddedToken("[X]", lstrip=True, rstrip=True), AddedToken("word", single_word=True)])
        return t

    def framed(t):
        t.post_processor = processors.TemplateProcessing(
            "<s> $A </s>", None, [(s, t.token_to_id(s)) for s in ("<s>", "</s>")])
        return t

    visible = sorted(P.ByteLevel.alphabet())
    bytes_256 = [f"<0x{b:02X}>" for b in range(256)]
    yield "gpt2", train(models.BPE(), alphabet=visible, pre_tokenizer=P.ByteLevel(add_prefix_space=False),
                        decoder=D.ByteLevel())
    yield "llama3", framed(train(
        models.BPE(ignore_merges=True), alphabet=visible, normalizer=N.NFC(), decoder=D.ByteLevel(),
        pre_tokenizer=P.Sequence([P.Split(Regex(GPT4), "isolated"),
                                  P.ByteLevel(add_prefix_space=False, use_regex=False)])))
    yield "llama2", framed(train(
        models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"), special=["<unk>"] + bytes_256,
        normalizer=N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]),
        pre_tokenizer=P.Split("▁", "merged_with_next"),
        decoder=D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])))
    yield "metaspace", framed(train(
        models.BPE(unk_token="<unk>"), size=200, normalizer=N.NFKC(), pre_tokenizer=P.Metaspace(),
        decoder=D.Metaspace()))
    yield "suffix", suffixed(words)
    yield "runs", overlapping()


PROBED = [
    "aB1\u00b2\u00bd e\u0301\u0323x\u00e9 'll 'LL don't  x\r\n\n\u180e\u0085\u2028\u3000\u200b\u200d_\u203f-\u2e43 ee",
    "\u0130\u1e9e\ufb03\uac01\u1100\u1161 \u32ff\U00011935\U00011930\u1df6\u0301 \u07fd\u09fe \u6f22\u3005\u3001\u24b6\u216b\u0967 "
    "\u03b1 \u0363\u1cf2\u166d kK\u212a xxyy aab [a-z]",
]


def write_probes(folder):
    sys.path.insert(0, os.path.join(folder, "..", "..", "tokenizers"))
    import differential
    with open(os.path.join(folder, "probes.txt"), "w") as f:
        makes = [(n, None) for n in differential.NORMALIZERS.values()]
        makes += [(None, s) for s in differential.SPLITTERS.values()]
        for normalizer, splitter in makes:
            t = differential.probe(normalizer, splitter)
            spec = json.loads(t.to_str())
            fields = json.dumps({k: spec[k] for k in ("normalizer", "pre_tokenizer")},
                                separators=(",", ":"))[1:-1]
            for text in PROBED:
                f.write("\t".join([fields, hexed(text), " ".join(map(str, t.encode(text).ids))])
                        + "\n")
    with open(os.path.join(folder, "probe.json"), "w") as f:
        f.write(json.dumps(spec["model"], ensure_ascii=False, separators=(",", ":")))


def hexed(text):
    return text.encode().hex()


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "text")
    os.makedirs(folder, exist_ok=True)
    write_probes(folder)
    for name, t in make(random.Random(7)):
        spec = json.loads(t.to_str())
        if name == "llama2":  # bytes are tokens of the model, not added ones
            spec["added_tokens"] = [a for a in spec["added_tokens"] if not a["content"].startswith("<0x")]
        with open(os.path.join(folder, name + ".json"), "w") as f:
            f.write(json.dumps(spec, ensure_ascii=False, separators=(",", ":")))
        t = Tokenizer.from_str(json.dumps(spec))
        with open(os.path.join(folder, name + ".txt"), "w") as f:
            for text in TEXTS:
                t.encode_special_tokens = True
                plain = t.encode(text, add_special_tokens=False).ids
                t.encode_special_tokens = False
                full = t.encode(text).ids
                shown = [t.decode(full, skip_special_tokens=skip) if full else "" for skip in (False, True)]
                f.write("\t".join([hexed(text), *(" ".join(map(str, ids)) for ids in (plain, full)),
                                   *map(hexed, shown)]) + "\n")


sys.exit(main())
