"""Compares attn's BLEU, chrF2 and chrF2++ with sacreBLEU's, to the last bit, on random hostile texts.

    scores.py BUILD [--seed N] [--cases N]

A case is a corpus of 1 to 8 segments with 1 to 4 references: its scores and counts, and those of each
segment alone; every tenth also goes through both programs, as files. Prints the first differences and
ends with a totals line.
"""
import argparse
import ctypes as C
import logging
import os
import random
import subprocess
import sys
import tempfile

from sacrebleu.metrics import BLEU, CHRF

import segments


class Scores(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("segments", C.c_int64), ("malformed", C.c_int64), ("bleu", C.c_double),
                ("chrf", C.c_double), ("chrf_words", C.c_double), ("brevity", C.c_double), ("precisions", C.c_double * 4),
                ("matches", C.c_int64 * 4), ("totals", C.c_int64 * 4), ("words", C.c_int64), ("ref_words", C.c_int64)]


def scorer(lib, pairs):
    """Results of each segment and of all."""
    s, out = C.c_void_p(), []
    assert lib.attn_scorer_create(None, C.byref(s), None) == 0
    for hyp, refs in pairs:
        texts, sizes = (C.c_char_p * len(refs))(*refs), (C.c_size_t * len(refs))(*map(len, refs))
        one = Scores(C.sizeof(Scores))
        assert lib.attn_scorer_add(s, hyp, C.c_size_t(len(hyp)), texts, sizes, C.c_size_t(len(refs)), C.byref(one), None) == 0
        out.append(one)
    total = Scores(C.sizeof(Scores))
    assert lib.attn_scorer_total(s, C.byref(total), None) == 0
    lib.attn_scorer_destroy(s)
    return out, total


def decoded(pairs):
    return [(h.decode(errors="replace"), [t.decode(errors="replace") for t in refs]) for h, refs in pairs]


def library(lib, pairs):
    alone, total = scorer(lib, pairs)
    texts = decoded(pairs)
    for (hyp, refs), mine in zip(texts, alone):
        theirs = [m.sentence_score(hyp, refs).score for m in (BLEU(effective_order=True), CHRF(), CHRF(word_order=2))]
        yield "segment", [mine.bleu, mine.chrf, mine.chrf_words], theirs
    hyps, streams = [h for h, _ in texts], list(zip(*(refs for _, refs in texts)))
    b, c, p = (m.corpus_score(hyps, streams) for m in (BLEU(), CHRF(), CHRF(word_order=2)))
    yield "corpus", [total.bleu, total.chrf, total.chrf_words, total.brevity], [b.score, c.score, p.score, b.bp]
    yield "counts", [[*total.matches], [*total.totals], total.words, total.ref_words], [b.counts, b.totals, b.sys_len, b.ref_len]
    yield "precisions", [*total.precisions], b.precisions


def without_version(out):
    return [line.split("|version:")[0].strip() + line.split("|version:")[1].split(" = ", 1)[1] for line in out.splitlines()]


def programs(build, pairs):
    """Lines of files: no \\n within them, and UTF-8, as sacreBLEU's program wants it."""
    with tempfile.TemporaryDirectory() as folder:
        columns = list(zip(*((h, *refs) for h, refs in pairs)))
        paths = [os.path.join(folder, str(i)) for i in range(len(columns))]
        for path, column in zip(paths, columns):
            with open(path, "wb") as f:
                f.writelines(t.decode(errors="replace").encode().replace(b"\n", b" ") + b"\n" for t in column)
        mine = subprocess.run([os.path.join(build, "attn"), "score", *paths, "--chrf++", "-w4"], capture_output=True, text=True, check=True)
        theirs = ""
        for args in (["-m", "bleu"], ["-m", "chrf"], ["-m", "chrf", "--chrf-word-order", "2"]):
            theirs += subprocess.run([sys.executable, "-m", "sacrebleu", *paths[1:], "-i", paths[0], "-f", "text", "-w4", *args],
                                     capture_output=True, text=True, check=True).stdout
        yield "programs", without_version(mine.stdout), without_version(theirs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--cases", type=int, default=3000)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"seed {args.seed}")
    C.CDLL(os.path.join(args.build, "libattn.so"), mode=C.RTLD_GLOBAL)
    lib = C.CDLL(os.path.join(args.build, "libattn_text.so"))
    r, compared, failed = random.Random(args.seed), 0, 0
    for case in range(args.cases):
        references = r.choice((1, 1, 1, 2, 3, 4))
        pairs = [segments.segment(r, references) for _ in range(r.randrange(1, 9))]
        for kind in (library(lib, pairs), programs(args.build, pairs) if case % 10 == 0 else ()):
            for what, mine, theirs in kind:
                compared += 1
                if mine != theirs:
                    failed += 1
                    if failed <= 5:
                        print(f"{what}\n  attn      {mine}\n  sacreBLEU {theirs}\n  {pairs}")
    print(f"{compared - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
