"""Hostile segments for scores of translations: bytes, of which most are UTF-8."""
SIGNS = ["'", ",", "-", ".", "!", "\"", "#", "&", "(", "+", "/", ":", "@", "[", "`", "{", "~", "\x7f", "«", "—", "…", "„", "。"]
SPACES = [" ", " ", " ", "  ", "\t", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u180e",
          "\u2003", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff", "\x00"]
PIECES = ["1.5", "1,000", "3-4", "a-b", "x.", ".x", "..", ". .", ",.", "1.", ".1", "5.,", "-1", "9-", "-", "--", "e.g.", "'s", "&quot;",
          "&amp;", "&lt;b&gt;", "&amp;lt;", "&quot", "&", "<skipped>", "<skip<skipped>ped>", "-\n", "\n", "-<skipped>\n", "a\u0301",
          "Straße", "漢字", "😀", "👩‍👩‍👧", "é.", "1é-", "½.", "٣.", "\ufffd", "\U0010ffff", "(hi)", "(", "\"", "!!", "a!", "!a", "é!", "!é"]
WORDS = ["the", "cat", "sat", "on", "mat", "der", "Hund", "bellt", "in", "42"]
BROKEN = [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe2 ", b"\xf0\x9f."]


def text(r, most=14):
    out = b""
    for _ in range(r.choice((0, 1, 2, 3, 5, most))):
        kind = r.randrange(12)
        if kind < 4:
            out += r.choice(WORDS).encode()
        elif kind < 6:
            out += r.choice(PIECES).encode()
        elif kind < 8:
            out += r.choice(SIGNS).encode()
        elif kind == 8:
            out += "".join(chr(r.randrange(128)) for _ in range(r.randrange(1, 6))).encode()
        elif kind == 9:
            out += chr(r.choice((r.randrange(0xd800), r.randrange(0xe000, 0x110000)))).encode()
        elif kind == 10 and r.random() < 0.2:
            out += r.choice(BROKEN)
        out += r.choice(SPACES).encode() if r.random() < 0.7 else b""
    return out


def changed(r, given):
    """A text with words of another one, as a translation has of its reference."""
    words = given.split(b" ")
    for _ in range(r.randrange(4)):
        i = r.randrange(len(words))
        words[i:i + 1] = r.choice(([], [text(r, 3)], [words[i], words[i]], [words[i], r.choice(WORDS).encode()]))
        words = words or [b""]
    return b" ".join(words)


def segment(r, references):
    refs = [text(r)]
    while len(refs) < references:
        refs.append(changed(r, refs[0]) if r.random() < 0.7 else text(r))
    return (changed(r, r.choice(refs)) if r.random() < 0.8 else text(r)), refs
