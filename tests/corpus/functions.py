#!/usr/bin/env python3
"""The functions of scripts/corpus on small texts of our own: normal form, what is dropped, readers
of each source, splits, near-twins. Whole corpora are held to counts by build.py itself."""

import struct
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts/corpus"))

import build     # noqa: E402
import demo      # noqa: E402
import lines     # noqa: E402
import sources   # noqa: E402
import split     # noqa: E402

failures = []


def check(got, want, what):
    if got != want:
        failures.append(f"{what}\n  got      {got!r}\n  expected {want!r}")


# --- Lines ----------------------------------------------------------------------------------------

def test_normal_form():
    check(lines.normal("\u201eGut\u201c \u2013 sagt\u00a0er\u2019s\t\n"), "\"Gut\" - sagt er's",
          "quotes")
    check(lines.normal("Options\u2026 and more..."), "Options and more", "dots of menus")
    check(lines.normal("and so on ..."), "and so on ...", "other dots")
    check(lines.normal("a\u0308\u00ad"), "\u00e4", "composed, no soft hyphen")


def test_masks():
    check(lines.masked("Page 12, \"Left\"!"), lines.masked("page 7: left"), "digits, case, points")
    check(lines.masked("left page") == lines.masked("page left"), False, "order counts")


def test_usable():
    for en, de, want, what in (
        ("Opens the file now.", "\u00d6ffnet jetzt die Datei.", True, "a sentence"),
        ("Opens file.", "\u00d6ffnet die Datei.", False, "two words"),
        ("a b c " * 20, "a b d " * 20, False, "too long"),
        ("Opens %s right now", "\u00d6ffnet jetzt %s", False, "format code"),
        ("Scales the picture to 100 %.", "Skaliert das Bild auf 100 %.", True, "per cent"),
        ("Calls the function sum() here", "Ruft hier sum() auf", False, "code"),
        ("Writer Calc Impress", "Writer, Calc, Impress", False, "not translated"),
        ("Opens the file now.", "Ja, das tut es.", True, "short"),
        ("Opens the very same file again now.", "Ja, gut.", False, "too short for a translation"),
        ("Yes, it is so.", "Ja, das ist so, wie es schon immer war.", False, "too long"),
        ("1 2 3 4 5 6 7", "1 2 3 4 5 6 8 9", False, "numbers"),
    ):
        check(lines.usable(en, de), want, what)


def test_sentences():
    check(lines.sentences('One. Two "x." Three? 4 more'),
          ["One.", 'Two "x."', "Three?", "4 more"], "cuts")
    check(lines.sentences("See e.g. Word. Done"), ["See e.g. Word.", "Done"], "abbreviation")


def test_long_texts_are_cut():
    en, de = "This is it now. " * 15, "Das ist es jetzt. " * 15
    check(len(lines.pairs_of(en, de)), 15, "as many sentences")
    check(lines.pairs_of(en + "One more there.", de), [], "not as many")


# --- Sources --------------------------------------------------------------------------------------

PAGE = """<body><h1 id="hd_id1">The <a href="x">big</a> heading</h1>
<p id="par_id2" class="paragraph">Press <span class="switchinline"><span hidden="true" id="MACx"
 class="MAC"><span>Command</span></span><span hidden="true" id="defaultx"><span>Ctrl</span></span>
</span>+F &amp; go.</p><p>no id</p><p id="par_id3" class="code">x = 1</p>
<p id="par_id4">Only <span class="switchinline"><span id="MACy" class="MAC">on Macs</span>
</span></p>
<p id="par_id2">again</p><p id="bm_id5">bookmark</p></body>"""


def test_help_page():
    texts = {k: lines.normal(v) for k, v in sources.page_texts(PAGE).items()}
    check(texts, {"hd_id1": "The big heading", "par_id2": "Press Ctrl +F & go."}, "page")


def mo(pairs, order="<"):
    """A .mo file of such messages."""
    out, strings = [], b""
    at = 28 + 16 * len(pairs)
    for column in (0, 1):
        for pair in pairs:
            data = pair[column].encode()
            out.append(struct.pack(order + "2I", len(data), at + len(strings)))
            strings += data + b"\0"
    head = struct.pack(order + "7I", 0x950412de, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return head + b"".join(out) + strings


def test_messages():
    pairs = [("", "Content-Type: x"), ("dialog|button\4_Open it", "\u00d6_ffnen"),
             ("one file\0many files", "eine Datei\0viele Dateien")]
    want = [("dialog|button", "_Open it", "\u00d6_ffnen"), ("", "one file", "eine Datei")]
    for order in "<>":
        check(list(sources.messages(mo(pairs, order))), want, "messages " + order)


def test_description():
    check(sources.units(["short text", "A line that goes", "on.", ".", "Second: ", " * item one",
                         "   goes on", " * item two", "After it."]),
          ["short text", "A line that goes on.", "Second:", "item one goes on", "item two",
           "After it."], "units")
    check(sources.joined(["Netz-", "werk, Vorder-", "und R\u00fcckseite"]),
          "Netz-werk, Vorder- und R\u00fcckseite", "hyphens")


def test_package_descriptions():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "available").write_text("Package: a-tools\nSource: a (1.0)\n\nPackage: b\n\n")
        for language, text in (("en", "Tools for a\n One. Two."),
                               ("de", "Werkzeuge\n Eins. Zwei.")):
            (root / f"Translation-{language}").write_text(
                f"Package: a-tools\nDescription-md5: 1\nDescription-{language}: {text}\n\n"
                f"Package: b\nDescription-md5: 2{language}\nDescription-{language}: {text}\n")
        check(list(sources.descriptions(root)),
              [("ddtp/a", "Tools for a", "Werkzeuge"), ("ddtp/a", "One.", "Eins."),
               ("ddtp/a", "Two.", "Zwei.")], "descriptions")


def test_dictionary():
    rows = ("# a comment :: here\n"
            "Haus {n} | Das Haus ist alt.; Es ist alt. [alt] | am Haus :: "
            "house | The house is old.; It is old. | at the house\n"
            "gehen | Er geht mit jdm. heim. :: to go | He goes home with sb.\n"
            "eins | Zwei. :: one\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "usr/share/trans/de-en"
        path.parent.mkdir(parents=True)
        path.write_text(rows, encoding="utf-8")
        check(list(sources.dictionary(Path(folder))),
              [("ding/Haus", "The house is old.", "Das Haus ist alt.")], "dictionary")


# --- Parts ----------------------------------------------------------------------------------------

def test_parts():
    names = [split.part_of(f"group {i}", 15, 30) for i in range(10000)]
    check([split.part_of(f"group {i}", 15, 30) for i in range(10000)], names, "always the same")
    check(100 < names.count("valid") < 200, True, f"{names.count('valid')} of 10,000 in valid")
    check(240 < names.count("test") < 360, True, f"{names.count('test')} of 10,000 in test")
    # as they are in the corpus that models/en-de is tried on
    check([split.part_of(name, 15, 30) for name in
           ("help/text/sbasic/shared/01020500.html", "help/text/sbasic/shared/02/11160000.html")],
          ["test", "valid"], "fixed by name")


def test_twins():
    known = split.Twins(["the cat sat on the mat today", "a b c d"])
    for line, want in (("The cat sat on the mat", True), ("the cat sat on a hat", False),
                       ("A, B, C: d!", True), ("a b c d e", True), ("a b c d e f", False),
                       ("x y z", False)):
        check(known.has(line), want, "twin: " + line)


def test_no_line_is_on_both_sides():
    def word(n):    # numbers would be masked
        return "".join("abcdefghij"[int(c)] for c in str(n))

    rows = [("s", f"group {i // 30}", f"the {word(i // 3)} says {word(i + 7)} to {word(i % 7)}",
             f"Wort {word(i // 3)} sagt {word(i + 7)} und {word(i % 5)}") for i in range(3000)]
    rows += [("s", "group 5", *rows[i][2:]) for i in range(0, 3000, 10)]
    parts = split.split(rows, 100, 100)
    check(all(parts.values()), True, "no part is empty")
    for side in (2, 3):
        known = split.Twins(row[side] for row in parts["train"])
        for part in ("valid", "test"):
            check(any(known.has(row[side]) for row in parts[part]), False, f"twins in {part}")
    english = [lines.masked(row[2]) for part in parts.values() for row in part]
    check(len(english), len(set(english)), "English lines that differ")


def test_demo_lines():
    rows = [(f"page {i // 2}", f"This is line {i}" + " and so on" * (i % 6) + "." * (i % 5 > 0),
             "Zeile.") for i in range(300)]
    chosen = demo.choose(rows)
    check(demo.choose(rows[::-1]), chosen, "whatever the order")
    check([len(en.split()) for en, _ in chosen].count(4), 0, "not too short")
    check([4 * (5 <= n <= 8) + 9 * (9 <= n <= 13) + 14 * (14 <= n <= 18) for n in
           (len(en.split()) for en, _ in chosen)], [4] * 4 + [9] * 4 + [14] * 4, "lengths")
    page = {row[1]: row[0] for row in rows}
    check(len({page[en] for en, _ in chosen}), 12, "twelve pages")
    check(all(en.endswith(".") for en, _ in chosen), True, "sentences")


def test_counts():
    check([build.off(n, 1000) for n in (979, 980, 1020, 1021)], [True, False, False, True], "2 %")
    check([build.off(n, 100) for n in (94, 95, 105, 106)], [True, False, False, True], "five")


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
