"""Chooses the lines of models/en-de/demo.*: by rule, before any output was seen.

    demo.py CORPUS OUT

Of the test part's lines that are sentences, in the order of the SHA-256 of the English side: the
first four of 5 to 8 words, of 9 to 13 and of 14 to 18, no two of one page or dialog."""

import hashlib
import sys
from pathlib import Path

LENGTHS = ((5, 8), (9, 13), (14, 18))
EACH = 4


def choose(rows):
    """Of rows (group, en, de), as described above."""
    rows = sorted(rows, key=lambda row: hashlib.sha256(row[1].encode()).digest())
    chosen, groups = [], set()
    for low, high in LENGTHS:
        left = EACH
        for group, en, de in rows:
            if left and low <= len(en.split()) <= high and group not in groups and \
                    en[0].isupper() and en.endswith(".") and de.endswith("."):
                chosen.append((en, de))
                groups.add(group)
                left -= 1
    return chosen


def main(corpus, out):
    def read(ending):
        return (corpus / f"test.{ending}").read_text(encoding="utf-8").splitlines()

    chosen = choose(zip(read("from"), read("en"), read("de")))
    for side, ending in ((0, "en"), (1, "de")):
        text = "".join(pair[side] + "\n" for pair in chosen)
        (out / f"demo.{ending}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
