"""Prints src/text/unicode_old.h: where the Unicode tables inside Hugging Face's tokenizers, which are
those of Unicode 9 (normal forms, marks) and 8 (punctuation), answer differently than Unicode 14 does.
Needs the package tokenizers (0.23.3 made the committed file) and a Python of Unicode 14."""
import unicodedata as u

from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

ASSIGNED = [c for c in range(0x80, 0x110000) if u.category(chr(c)) not in ("Cn", "Cs", "Co")]
nfd, nfkd, accents, punctuation = N.NFD(), N.NFKD(), N.StripAccents(), P.Punctuation("isolated")


def decomposes_alike(c):
    return (nfd.normalize_str(chr(c)) == u.normalize("NFD", chr(c)) and
            nfkd.normalize_str(chr(c)) == u.normalize("NFKD", chr(c)))


def is_inert_mark(c):
    before, after = "x" + chr(c) + "\u0334", "x\u0345" + chr(c)  # classes 1 and 240
    return u.combining(chr(c)) > 1 and nfd.normalize_str(before) == before and \
        nfd.normalize_str(after) == after


def is_mark(c):
    return u.category(chr(c))[0] == "M"


def is_punctuation(c):
    return u.category(chr(c))[0] == "P"


def table(name, comment, points):
    ranges = []
    for c in sorted(points):
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    print(f"/* {comment} */\nstatic const uint32_t {name}[][2] = {{")
    for i in range(0, len(ranges), 5):
        print("    " + " ".join(f"{{0x{a:x}, 0x{b:x}}}," for a, b in ranges[i:i + 5]))
    print("};\n")


print("/* unicode_old.h: made by tests/tokenizers/old_unicode.py; ranges, ends included. */")
print("#ifndef ATTN_TEXT_UNICODE_OLD_H\n#define ATTN_TEXT_UNICODE_OLD_H\n\n#include <stdint.h>\n")
# U+11930 and U+11935 compose to U+11938, which is among those that do not decompose.
table("old_inert", "No decomposition, class 0, no composition.",
      {c for c in ASSIGNED if not decomposes_alike(c) or is_inert_mark(c)} | {0x11930, 0x11935})
table("old_marks", "Marks that are none, and others that are.",
      {c for c in ASSIGNED if is_mark(c) != (accents.normalize_str(chr(c)) == "")})
table("old_punctuation", "Punctuation that is none, and others that are.",
      {c for c in ASSIGNED
       if is_punctuation(c) != (len(punctuation.pre_tokenize_str("a" + chr(c) + "a")) == 3)})
print("#endif")
