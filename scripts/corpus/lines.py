"""What a line of text has to be: normal form, words, and the rules that drop a pair."""

import re
import unicodedata

# Typists and programs disagree about these; both sides and the references get the plain form.
_PLAIN = str.maketrans({
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2039\u203a\u02bc\u2032\u00b4`", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", None),
})
_CODE = re.compile(r"%(?![ .,;:)]|$)|[{}\\$@#=<>|^~]|\w\(\)|^[!*/;:.,)]|https?:|www\.")
_WORD = re.compile(r"\w+")
# Menus: "Options..." in one language is often "Optionen" in the other.
_MENU = re.compile(r"(?<=\w)(\u2026|\.\.\.)")
_DIGITS = re.compile(r"\d+")

MOST_WORDS = 45


def normal(text):
    """Quotes, dashes and blanks in one plain form (NFC, single spaces, no control characters)."""
    text = unicodedata.normalize("NFC", text.translate(_PLAIN)).replace("''", '"')
    text = _MENU.sub("", text).replace("\u2026", "...")
    text = "".join(" " if unicodedata.category(c) in ("Cc", "Zs", "Zl", "Zp") else c for c in text)
    return " ".join(text.split())


def words(text):
    return _WORD.findall(text)


def masked(text):
    """What two lines share that differ in case, digits and punctuation alone."""
    return " ".join(words(_DIGITS.sub("0", text.casefold())))


def usable(en, de, most=MOST_WORDS):
    """Whether a normal pair is prose of 3 to `most` words whose sides may be translations."""
    if not (3 <= len(en.split()) <= most and 2 <= len(de.split()) <= most):
        return False
    if _CODE.search(en) or _CODE.search(de) or masked(en) == masked(de):
        return False
    if not 0.4 <= len(de) / len(en) <= 2.2:
        return False
    letters = sum(c.isalpha() or c == " " for c in en)
    return letters >= 0.75 * len(en) and len(words(en)) >= 3


_ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|etc|vs|No|z\.B|z\. B|d\.h|bzw|usw|ggf|Nr|ca|evtl)\.$")


def sentences(text):
    """Cuts behind . ! ? where a capital, digit or quote follows, but not behind abbreviations."""
    parts, start = [], 0
    for m in re.finditer(r"[.!?][\"')]? (?=[\"'(]?[A-ZÄÖÜ0-9])", text):
        if not _ABBREVIATIONS.search(text[start:m.end() - 1]):
            parts.append(text[start:m.end() - 1])
            start = m.end()
    return parts + [text[start:]]


def pairs_of(en, de):
    """The usable pairs of two texts: whole, or sentence by sentence where they are too long."""
    en, de = normal(en), normal(de)
    if max(len(en.split()), len(de.split())) <= MOST_WORDS:
        both = [(en, de)]
    else:
        both = list(zip(sentences(en), sentences(de), strict=True)) \
            if len(sentences(en)) == len(sentences(de)) else []
    return [(a, b) for a, b in both if usable(a, b)]
