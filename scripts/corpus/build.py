"""Builds train, valid and test parts of English-German pairs from unpacked packages.

    build.py mpl|all PACKAGES OUT

Writes OUT/{train,valid,test}.{en,de}; OUT/*.from, the source and group of each line; OUT/LICENCES,
what the text is and how it is licensed. Fails where a count is over 2 % from what the recipe gave
on bookworm, which is how a change of the packages or of the recipe shows."""

import sys
from collections import Counter
from pathlib import Path

import sources
from lines import pairs_of
from split import split

# Source: reader, licence.
SOURCES = {
    "help": (sources.help_pages, "LibreOffice's help, MPL-2.0"),
    "interface": (sources.interface, "LibreOffice's interface texts, MPL-2.0"),
    "ddtp": (sources.descriptions, "descriptions of Debian's packages and their translations by "
                                   "the DDTP; no licence is stated for each text"),
    "messages": (sources.program_messages, "messages of programs, licensed as the programs: mostly "
                                           "GPL-2+ and GPL-3+, some LGPL, PostgreSQL's own"),
    "ding": (sources.dictionary, "example sentences of the dictionary of TU Chemnitz (Ding), "
                                 "GPL-2+"),
}
SETS = {"mpl": ("help", "interface"), "all": tuple(SOURCES)}

# Of 1,000 groups, in the valid and in the test part.
VALID, TEST = 15, 30

# Lines on bookworm, 12.14: train, valid, test.
COUNTS = {
    "mpl": {"help": (26950, 228, 645), "interface": (5078, 107, 116)},
    "all": {"help": (26950, 228, 645), "interface": (5078, 103, 116),
            "ddtp": (34760, 413, 852), "messages": (15569, 6, 162), "ding": (15460, 225, 431)},
}
TOLERANCE = 0.02


def read(names, root):
    for source in names:
        for group, en, de in SOURCES[source][0](root):
            for a, b in pairs_of(en, de):
                yield source, group, a, b


def write(parts, out):
    for name, rows in parts.items():
        for column, ending in ((2, "en"), (3, "de")):
            text = "".join(row[column] + "\n" for row in rows)
            (out / f"{name}.{ending}").write_text(text, encoding="utf-8")
        text = "".join(f"{row[0]}\t{row[1]}\n" for row in rows)
        (out / f"{name}.from").write_text(text, encoding="utf-8")


def write_licences(names, root, out):
    text = "Where the lines come from (.from files name the source of each), and their licences.\n"
    for source in names:
        text += f"\n{source}: {SOURCES[source][1]}"
    text += "\n\nPackage, version, SHA-256; each package's own copyright file follows.\n\n"
    packages = [line.split("\t") for line in (root / "packages").read_text().splitlines()]
    text += "".join("  ".join(p) + "\n" for p in packages)
    for package, _, _ in packages:
        path = root / "usr/share/doc" / package / "copyright"
        if path.exists():
            text += f"\n{'=' * 20} {package}\n\n" + path.read_text(encoding="utf-8")
    (out / "LICENCES").write_text(text, encoding="utf-8")


def off(got, want):
    """Whether a count is out of bounds. Small ones may move by a page: five lines are allowed."""
    return abs(got - want) > max(TOLERANCE * want, 5)


def check(counts, which):
    """Prints the counts; the number of those that are out of bounds."""
    wrong = 0
    for source, want in COUNTS[which].items():
        for part, n in zip(("train", "valid", "test"), want):
            got = counts[part][source]
            mark = f"  expected {n}" if off(got, n) else ""
            wrong += bool(mark)
            print(f"{source:10} {part:6} {got:7}{mark}")
    return wrong


def main(which, root, out):
    out.mkdir(parents=True, exist_ok=True)
    parts = split(read(SETS[which], root), VALID, TEST)
    write(parts, out)
    write_licences(SETS[which], root, out)
    counts = {name: Counter(row[0] for row in rows) for name, rows in parts.items()}
    wrong = check(counts, which)
    if wrong:
        sys.exit(f"build.py: {wrong} counts are over 2 % from what was expected")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in SETS:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
