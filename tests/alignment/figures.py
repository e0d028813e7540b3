#!/usr/bin/env python3
"""scripts/alignment.py without a model: the rule for its sentences, the hand-made pairs, and figures of attention
that is made up."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import alignment   # noqa: E402

failures = []


def check(got, want, what):
    if got != want:
        failures.append(f"{what}\n  got      {got!r}\n  expected {want!r}")


def refused(call, what):
    try:
        call()
    except ValueError:
        return
    failures.append(f"{what}: no ValueError")


def test_plain():
    check([alignment.is_plain(text) for text in (
        "The name of it is not known.", "Line 1, and so on: the X-Data.", "Too short a sentence.",
        "no capital at the start here.", "No dot at the end of it", "A word in \"quotes\" is not it.",
        "Choose Sheet - Insert Page Break - Break.")], [True, True] + 5 * [False], "plain sentences")


def test_choice():
    rows = [(f"page {n // 2}", f"This is the sentence of number {n}.", "Dies ist der Satz mit der Nummer.")
            for n in range(120)]
    demo = {rows[7][1]}
    chosen, checked = alignment.choose(rows, demo)
    check(alignment.choose(rows[::-1], demo), (chosen, checked), "whatever the order")
    page = {en: group for group, en, _ in rows}
    check(len({page[en] for en, _ in chosen + checked} - {"page 3"}), 40, "forty pages, none of the demo's")
    check([len(chosen), len(checked)], [20, 20], "numbers")


def test_hand_made_pairs():
    seen = set()
    for name in ("choose", "check"):
        texts = alignment.read_pairs((ROOT / f"tests/alignment/{name}.txt").read_text(encoding="utf-8"))
        check(len(texts), 20, name)
        for en, de, pairs in texts:
            sides = [alignment.words_of(en), alignment.words_of(de)]
            at = [alignment.place(word, sides[1]) for word, _ in pairs]
            check(at, sorted(set(at)), f"{de}: in order, each once")
            check(all(alignment.place(w, sides[0]) >= 0 for _, of in pairs for w in of), True, en)
            check(alignment.is_plain(en) and alignment.is_plain(de), True, f"plain: {en}")
            check(en in seen, False, f"twice: {en}")
            seen.add(en)


def test_places():
    words = ["the", "row", "of", "the", "table"]
    check([alignment.place(word, words) for word in ("row", "the#1", "the#2")], [1, 0, 3], "places")
    for word in ("the", "rows", "the#3", "row#2"):
        refused(lambda word=word: alignment.place(word, words), word)
    refused(lambda: alignment.read_pairs("a\nb\n"), "two lines")


def test_diagonal():
    check([alignment.diagonal(j, 4, 4) for j in range(4)], [0, 1, 2, 3], "equal lengths")
    check([alignment.diagonal(j, 6, 3) for j in range(6)], [0, 1, 1, 2, 2, 2], "more words said")
    check([alignment.diagonal(j, 2, 5) for j in range(2)], [0, 3], "fewer: 2.5 is rounded up")


def test_figures():
    texts = [("Save the file", "Datei bitte sichern", [("Datei", ["file"]), ("sichern", ["Save", "file"])])]
    line = {"source_words": ["Save", "the", "file"], "words": ["Datei", "bitte", "sichern"],
            "alignment": [[0, 0, 0.1], [2, 0, 0.6], [1, 2, 0.2], [0, 2, 0.1], [2, 2, 0.1]]}
    one = alignment.Said.of_line(line)
    f = alignment.Figures(texts, [one])
    # "sichern" found "the", but gave most to the end. The diagonal finds "Save" for "Datei", "file" for "sichern".
    check([f.words, f.right, f.diagonal, f.rests], [2, 1, 1, 1], "counts")
    check(f.share(f.right), "50.0 %", "share")
    other = alignment.Said(one.source, one.words, [[0.65, 0.0, 0.3], [0.0] * 3, [0.9, 0.0, 0.0]])
    f = alignment.Figures(texts, [alignment.Said.mean([one, other])])
    check([f.right, f.rests], [2, 0], "mean of two heads")
    refused(lambda: alignment.Figures(texts, []), "fewer sentences")


def main():
    tests = [(name, f) for name, f in globals().items() if name.startswith("test_")]
    failed = 0
    for name, test in tests:
        before = len(failures)
        test()
        failed += len(failures) > before
        for text in failures[before:]:
            print(f"{name}: {text}")
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
