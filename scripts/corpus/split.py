"""Train, valid and test: by a hash of the group's name, so that a new version of a package moves
no group; duplicates go before, near-twins of training text leave the held-out parts after."""

import hashlib
import math
from collections import Counter, defaultdict

from lines import masked

TWIN = 0.75     # word Jaccard from which two lines are near-twins


def part_of(group, valid, test):
    """`valid` and `test` of 1,000 groups are held out."""
    h = int.from_bytes(hashlib.sha256(group.encode()).digest()[:8], "big") % 1000
    return "test" if h < test else "valid" if h < test + valid else "train"


def without_duplicates(rows):
    """Rows (source, group, en, de) whose English and whose German are both new, masked."""
    seen, kept = set(), []
    for row in rows:
        key = (masked(row[2]), masked(row[3]))
        if key[0] not in seen:
            seen.add(key[0])
            kept.append(row)
    return kept


class Twins:
    """Finds lines of which a given line is a near-twin."""

    def __init__(self, lines):
        self.sets = [frozenset(masked(line).split()) for line in lines]
        self.counts = Counter(w for s in self.sets for w in s)
        self.of = defaultdict(list)
        for i, s in enumerate(self.sets):
            for w in s:
                self.of[w].append(i)

    def has(self, line):
        a = frozenset(masked(line).split())
        # A twin has at least TWIN * |a| of a's words, so it has one of the rarest of them.
        some = len(a) - math.ceil(TWIN * len(a)) + 1
        rare = sorted(a, key=lambda w: (self.counts[w], w))[:some]
        near = {i for w in rare for i in self.of.get(w, ())}
        return any(len(a & self.sets[i]) >= TWIN * len(a | self.sets[i]) for i in near)


def split(rows, valid, test):
    parts = {"train": [], "valid": [], "test": []}
    for row in without_duplicates(rows):
        parts[part_of(row[1], valid, test)].append(row)
    for name in ("valid", "test"):
        for side in (2, 3):
            known = Twins(row[side] for row in parts["train"])
            parts[name] = [row for row in parts[name] if not known.has(row[side])]
    return parts
