#!/usr/bin/env python3
"""Whether a model's attention finds the words that were translated.

    scripts/alignment.py sentences CORPUS     the lines of tests/alignment, by rule, from CORPUS/test.*

In tests/alignment/choose.txt and check.txt, content words of 20 German sentences each are paired by hand with the
English words that they render."""

import hashlib
import re
import sys
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


def sentences(corpus):
    def lines(path):
        return path.read_text(encoding="utf-8").splitlines()

    rows = zip(*(lines(corpus / f"test.{ending}") for ending in ("from", "en", "de")))
    demo = lines(ROOT / "models/en-de/demo.en")
    for name, chosen in zip(("choose", "check"), choose(rows, set(demo))):
        print(name)
        for en, de in chosen:
            print(f"{en}\n{de}\n")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "sentences":
        return sentences(Path(arguments[1]))
    return __doc__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
