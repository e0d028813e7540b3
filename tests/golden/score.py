"""Makes tests/golden/score.txt with sacreBLEU 2.6.0: segments in hex and what it gives for them.

    set <tab> references a segment
    hypothesis <tab> reference ... <tab> BLEU <tab> chrF2 <tab> chrF2++      of the segment alone
    total <tab> words <tab> words of references <tab> m_1 ... m_4 <tab> t_1 ... t_4 <tab> BLEU <tab> chrF2 <tab> chrF2++

    python3 -m venv v && v/bin/pip install sacrebleu==2.6.0 && v/bin/python tests/golden/score.py
"""
import os
import random
import sys

from sacrebleu.metrics import BLEU, CHRF

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../scores"))
import segments

PLAIN = [("Der Hund bellt laut.", ["Der Hund bellt sehr laut.", "Laut bellt der Hund."]), ("", ["", ""]), ("a", ["", "b"]),
         ("", ["a", "b"]), ("The cat, the cat.", ["The cat.", "A cat, the cat."]), ("1,000.5 - 3-4", ["1,000.5 – 3-4", "1.000,5"]),
         ("\u2028x\ry\x1cz\0", ["x y z", "x\u3000y"]), ("&quot;Hi&quot; &amp;amp; so", ["\"Hi\" & so", "hi"])]


def alone(hyp, refs):
    return [m.sentence_score(hyp, refs).score for m in (BLEU(effective_order=True), CHRF(), CHRF(word_order=2))]


def write(out, pairs):
    count = len(pairs[0][1])
    out.write(f"set\t{count}\n")
    texts = []
    for hyp, refs in pairs:
        hyp_text, ref_texts = hyp.decode(errors="replace"), [r.decode(errors="replace") for r in refs]
        texts.append((hyp_text, ref_texts))
        scores = alone(hyp_text, ref_texts)
        out.write("\t".join([hyp.hex(), *(r.hex() for r in refs), *map(repr, scores)]) + "\n")
    hyps, streams = [h for h, _ in texts], list(zip(*(r for _, r in texts)))
    b = BLEU().corpus_score(hyps, streams)
    rest = [m.corpus_score(hyps, streams).score for m in (CHRF(), CHRF(word_order=2))]
    out.write("\t".join(map(str, ["total", b.sys_len, b.ref_len, *b.counts, *b.totals, repr(b.score), *map(repr, rest)])) + "\n")


r = random.Random(1)
with open(os.path.join(here, "score.txt"), "w") as out:
    write(out, [(h.encode(), [t.encode() for t in refs]) for h, refs in PLAIN])
    for count, lines in ((1, 120), (3, 60), (1, 1), (2, 1)):
        write(out, [segments.segment(r, count) for _ in range(lines)])
