"""The sources: each is a function from the folder of unpacked packages to (group, English, German).
A group is held out as a whole: a help page, a dialog, a program's messages, a source package, an
entry of the dictionary."""

import re
import struct
from html.parser import HTMLParser

from lines import sentences


# --- LibreOffice help -----------------------------------------------------------------------------

class _Page(HTMLParser):
    """Texts of paragraphs and headings by id. Of a switchinline (one key on Macs, another
    elsewhere) the default is taken; what has no default is dropped."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.texts = {}
        self.id = None      # of the paragraph we are in
        self.spans = []     # what each open span is: "", "switch", "default" or "other"

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag in ("p", "h1", "h2", "h3", "h4", "h5"):
            self.id, self.text, self.spans, self.whole = a.get("id") or "", [], [], True
            if not self.id.startswith(("par_", "hd_")) or "code" in (a.get("class") or ""):
                self.id = None
        elif self.id and tag == "span":
            self.open_span(a)
        elif self.id and tag in ("pre", "code", "img", "input"):
            self.whole = self.whole and tag == "img"
        elif self.id and tag == "br":
            self.text.append(" ")

    def open_span(self, a):
        kind = ""
        if self.spans and self.spans[-1] == "switch":
            kind = "default" if (a.get("id") or "").startswith("default") else "other"
            if kind == "default":
                self.found = True
        elif "switch" in (a.get("class") or ""):
            kind, self.found = "switch", False
        self.spans.append(kind)

    def handle_data(self, data):
        if self.id and "other" not in self.spans:
            self.text.append(data)

    def handle_endtag(self, tag):
        if not self.id:
            return
        if tag == "span" and self.spans:
            if self.spans.pop() == "switch" and not self.found:
                self.whole = False
        elif tag in ("p", "h1", "h2", "h3", "h4", "h5"):
            if self.whole:
                self.texts.setdefault(self.id, "".join(self.text))
            self.id = None


def page_texts(html):
    page = _Page()
    page.feed(html)
    page.close()
    return page.texts


def help_pages(root):
    """Paragraph ids are unique within a page only, so pages are joined by name."""
    base = root / "usr/share/libreoffice/help"
    for path in sorted((base / "en-US").rglob("*.html")):
        name = path.relative_to(base / "en-US").as_posix()
        other = base / "de" / name
        if not other.exists():
            continue
        german = page_texts(other.read_text(encoding="utf-8"))
        for key, text in page_texts(path.read_text(encoding="utf-8")).items():
            if key in german:
                yield "help/" + name, text, german[key]


# --- gettext --------------------------------------------------------------------------------------

def messages(data):
    """(context, English, translation) of a .mo file; of plurals the first form."""
    magic, = struct.unpack_from("<I", data)
    order = {0x950412de: "<", 0xde120495: ">"}[magic]
    count, ids, texts = struct.unpack_from(order + "3I", data, 8)

    def string(table, i):
        size, at = struct.unpack_from(order + "2I", data, table + 8 * i)
        return data[at:at + size].decode("utf-8").split("\0")[0]

    for i in range(count):
        context, _, text = string(ids, i).rpartition("\4")
        if text:
            yield context, text, string(texts, i)


def interface(root):
    """LibreOffice's menus and dialogs; the group is the dialog. '_' marks keys there."""
    base = root / "usr/lib/libreoffice/program/resource/de/LC_MESSAGES"
    for path in sorted(base.glob("*.mo")):
        for context, en, de in messages(path.read_bytes()):
            dialog = re.split(r"[|]", context)[0]
            yield f"ui/{path.stem}/{dialog}", en.replace("_", ""), de.replace("_", "")


_FORMAT = re.compile(r"%|\w\(|[<>{}|\\]|^\W*-")


def program_messages(root):
    """Messages of programs: without format codes, options and code. The group is the program."""
    for path in sorted((root / "usr/share/locale/de/LC_MESSAGES").glob("*.mo")):
        for _, en, de in messages(path.read_bytes()):
            en, de = en.replace("&", ""), de.replace("&", "")
            if not _FORMAT.search(en) and not _FORMAT.search(de) and "\n\n" not in en:
                yield "mo/" + path.stem, en, de


# --- Package descriptions -------------------------------------------------------------------------

def stanzas(path):
    """Control files: fields of each stanza; lines of a value that goes on keep one space less."""
    fields, key = {}, None
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            line = line.rstrip("\n")
            if not line:
                if fields:
                    yield fields
                fields, key = {}, None
            elif line[0] in " \t" and key:
                fields[key].append(line[1:])
            else:
                key, _, value = line.partition(":")
                fields[key] = [value.strip()]
    if fields:
        yield fields


_BULLET = re.compile(r"\s*(?:[-*+o•·]|\d+[.)])\s+")


def joined(lines):
    """Lines of a paragraph. A hyphen at the end of a line joins without a space, unless the word
    is short for a longer one: "Vorder- und Rückseite"."""
    text = lines[0]
    for line in lines[1:]:
        follows = re.match(r"(?:und|oder|bzw\.|and|or)\b", line)
        text += ("" if re.search(r"\w-$", text) and not follows else " ") + line
    return text


def units(lines):
    """The summary, then paragraphs and list items of a description."""
    out, part, item = [[lines[0]]], None, False
    for line in lines[1:]:
        bullet = _BULLET.match(line)
        if line.strip() == ".":
            part = None
        elif bullet:
            part, item = [line[bullet.end():].strip()], True
            out.append(part)
        elif part is None or (line[:1] == " ") != item:
            part, item = [line.strip()], False
            out.append(part)
            if line[:1] == " ":     # verbatim
                part = None
        else:
            part.append(line.strip())
    return [joined(part) for part in out]


def descriptions(root):
    """Translated descriptions, joined by the checksum of the English one. The group is the source
    package; paragraphs and sentences must be as many on both sides."""
    source = {}
    for s in stanzas(root / "available"):
        source[s["Package"][0]] = s.get("Source", s["Package"])[0].split()[0]
    german = {s["Description-md5"][0]: s["Description-de"]
              for s in stanzas(root / "Translation-de") if "Description-de" in s}
    for s in stanzas(root / "Translation-en"):
        md5, package = s["Description-md5"][0], s["Package"][0]
        if md5 not in german:
            continue
        en, de = units(s["Description-en"]), units(german.pop(md5))
        if len(en) != len(de):
            continue
        for a, b in zip(en, de):
            a, b = sentences(a), sentences(b)
            if len(a) == len(b):
                for x, y in zip(a, b):
                    yield "ddtp/" + source.get(package, package), x, y


# --- Ding dictionary ------------------------------------------------------------------------------

_NOTE = re.compile(r"\s*(?:\{[^}]*\}|\[[^\]]*\])")
_SENTENCE = re.compile(r"[A-ZÄÖÜ\"'].*[.!?][\"']?$")
_SHORTHAND = re.compile(r"[/()+<>;]|\b(?:sb|sth|jd|jdn|jdm|jds|etw)\b\.?")


def dictionary(root):
    """Its example sentences: alternatives of a row that are sentences on both sides, one each."""
    with (root / "usr/share/trans/de-en").open(encoding="utf-8") as rows:
        for row in rows:
            if row.startswith("#") or "::" not in row:
                continue
            de, _, en = (part.strip() for part in row.partition("::"))
            ens, des = en.split(" | "), de.split(" | ")
            if len(ens) != len(des):
                continue
            for a, b in zip(ens, des):
                a, b = _NOTE.sub("", a).strip(), _NOTE.sub("", b).strip()
                a, b = a.split(";")[0].strip(), b.split(";")[0].strip()
                if _SENTENCE.match(a) and _SENTENCE.match(b) and \
                        not _SHORTHAND.search(a) and not _SHORTHAND.search(b):
                    yield "ding/" + _NOTE.sub("", des[0]).split(";")[0].strip(), a, b
