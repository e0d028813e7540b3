"""Makes tests/golden/text/: small tokenizers trained by Hugging Face's `tokenizers` 0.23.3 (an
independent source), and texts with the ids and texts it gives for them. A line of NAME.txt:

    text in hex <tab> ids, special tokens as text <tab> ids, special tokens found and framed <tab>
    text of the last ids in hex <tab> the same without special tokens
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
]


def make(r):
    words = "the license text of this work and its source code may be used with or without changes " \
        "Hello world naïve café again word don't we'll 1234 漢字 😀".split()
    lines = [" ".join(r.choice(words) for _ in range(12)) + ".\n" for _ in range(200)]

    def train(model, size=420, special=("<unk>",), alphabet=None, limit=None, affix=None, **parts):
        t = Tokenizer(model)
        for name, part in parts.items():
            setattr(t, name, part)
        options = {"initial_alphabet": alphabet or [], **(affix or {})}
        if limit:
            options["limit_alphabet"] = limit
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
        limit=40, normalizer=N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]),
        pre_tokenizer=P.Split("▁", "merged_with_next"),
        decoder=D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])))
    yield "metaspace", framed(train(
        models.BPE(unk_token="<unk>"), size=200, limit=40, normalizer=N.NFKC(), pre_tokenizer=P.Metaspace(),
        decoder=D.Metaspace()))
    yield "suffix", train(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), size=200, limit=40,
        affix={"end_of_word_suffix": "</w>"}, normalizer=N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()]),
        pre_tokenizer=P.Sequence([P.Whitespace(), P.Digits(True), P.Punctuation()]), decoder=D.BPEDecoder("</w>"))


def hexed(text):
    return text.encode().hex()


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "text")
    os.makedirs(folder, exist_ok=True)
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
