"""viz.py: pages and SVG of src/viz in a real browser: nothing is fetched, nothing fails, numbers are
right, mouse and keyboard work, both themes are drawn.

    python3 tests/browser/viz.py BUILD [--keep FOLDER]

BUILD holds tests/test_viz_pictures, which writes the pictures. --keep: where to leave screenshots.
Ends with a totals line.
"""
import math
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome  # noqa: E402

VIEWERS = ["map_sentence", "map_large", "map_drop", "map_signed", "map_cross", "map_hostile",
           "map_pooled", "grid_model", "grid_large"]
STILL = ["lines_heads", "curves_entropy", "curves_loss", "overlay_patches"]
READY = "!!document.documentElement.dataset.ready"


class Failure(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failure(what)


def clean(page, name):
    """Nothing left the page, nothing went wrong, no token became a dialog."""
    foreign = [r for r in page.requests if not r.startswith(("file://", "data:"))]
    files = [r for r in page.requests if r.startswith("file://")]
    check(not foreign, f"{name}: requests {foreign}")
    check(len(files) == 1, f"{name}: files {files}")
    check(not page.errors, f"{name}: errors {page.errors}")
    check(not page.dialogs, f"{name}: dialogs {page.dialogs}")


def text(page, name):
    return page.run(f"document.getElementById('{name}').textContent")


def box(page, name):
    return page.run("(() => { const b = document.getElementById('%s').getBoundingClientRect();"
                    "return [b.left, b.top, b.width, b.height]; })()" % name)


def cell_middle(page, row, col, rows, cols):
    left, top, width, height = box(page, "cross")
    return left + (col + 0.5) * width / cols, top + (row + 0.5) * height / rows


def every_page_opens(page, folder):
    for name in VIEWERS + STILL:
        page.open(f"{folder}/{name}.html")
        if name in VIEWERS:
            page.wait(READY)
            check(text(page, "trouble") == "", f"{name}: {text(page, 'trouble')}")
        clean(page, name)
        inside = page.run("document.querySelectorAll('script:not([type])').length")
        check(inside == 1, f"{name}: {inside} scripts")


def hover_tells_the_number(page, folder):
    page.open(f"{folder}/map_sentence.html")
    page.wait(READY)
    rows = [line.split() for line in open(f"{folder}/map_sentence.numbers", encoding="ascii")]
    n = len(rows)
    for row, col in ((0, 0), (1, 0), (10, 5), (16, 16), (16, 3), (7, 6)):
        page.move(*cell_middle(page, row, col, n, n))
        got, want = float(text(page, "value")), float(rows[row][col])
        check(math.isclose(got, want, rel_tol=1e-6), f"({row}, {col}): {got}, not {want}")
        rank = sum(float(w) > want for w in rows[row][:row + 1]) + 1
        check(text(page, "rank") == f"{rank} of {row + 1}",
              f"({row}, {col}): rank {text(page, 'rank')}, not {rank}")
        check(text(page, "query").startswith(f"{row} "), text(page, "query"))
        check(text(page, "key").startswith(f"{col} "), text(page, "key"))
    page.move(*cell_middle(page, 2, 9, n, n))
    check(text(page, "value") == "masked", text(page, "value"))
    clean(page, "hover")


def a_click_locks(page, folder):
    page.open(f"{folder}/map_sentence.html")
    page.wait(READY)
    page.click(*cell_middle(page, 10, 5, 17, 17))
    page.move(*cell_middle(page, 3, 2, 17, 17))
    check(text(page, "query").startswith("10 "), "the lock does not hold")
    page.key("Escape")
    page.move(*cell_middle(page, 3, 2, 17, 17))
    check(text(page, "query").startswith("3 "), "Escape does not release")


def keys_move(page, folder):
    page.open(f"{folder}/grid_model.html")
    page.wait(READY)
    page.run("document.getElementById('view').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.key(key)
    check((text(page, "query"), text(page, "key")) == ("2", "1"),
          f"{text(page, 'query')}, {text(page, 'key')}")
    page.key("]", "]")
    page.wait("document.getElementById('which').textContent === 'layer 1, head 0'")
    page.key(">", ">")
    page.wait("document.getElementById('which').textContent === 'layer 1, head 1'")
    page.key("[", "[")
    page.wait("document.getElementById('which').textContent === 'layer 0, head 1'")
    check((text(page, "query"), text(page, "key")) == ("2", "1"), "the cell is lost with the head")
    page.key("+", "+")
    page.key("?", "?")
    check(page.run("document.getElementById('help').open"), "? opens no help")
    for name in ("panel", "scale", "own", "drop", "zoomin", "zoomout", "reset", "view", "theme"):
        check(page.run(f"document.getElementById('{name}').tabIndex") == 0, f"{name}: no tab stop")
        check(page.run(f"(e => !!(e.ariaLabel || e.labels?.length || e.textContent.trim()))"
                       f"(document.getElementById('{name}'))"), f"{name}: no label")
    check(page.run("document.querySelectorAll('.grid button[tabindex=\"0\"]').length") == 1,
          "the grid is not one tab stop")
    clean(page, "keys")


def tab_order(page, folder):
    page.open(f"{folder}/grid_model.html")
    page.wait(READY)
    order = []
    for _ in range(12):
        page.send("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab",
                  windowsVirtualKeyCode=9)
        page.send("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab",
                  windowsVirtualKeyCode=9)
        order.append(page.run("document.activeElement.id || document.activeElement.className "
                              "|| document.activeElement.parentElement.id"))
    want = ["theme", "panel", "scale", "own", "drop", "zoomin", "zoomout", "reset", "grid", "view"]
    check(order[:len(want)] == want, f"{order}")


def the_sink_can_be_dropped(page, folder):
    page.open(f"{folder}/map_sentence.html")
    page.wait(READY)
    rows = [[float(w) for w in line.split()]
            for line in open(f"{folder}/map_sentence.numbers", encoding="ascii")]
    page.run("document.getElementById('drop').click()")
    page.move(*cell_middle(page, 10, 5, 17, 17))
    want = rows[10][5] / sum(rows[10][1:11])
    got = float(text(page, "value"))
    check(math.isclose(got, want, rel_tol=1e-5), f"{got}, not {want}")
    page.move(*cell_middle(page, 10, 0, 17, 17))
    check(text(page, "value") == "dropped", text(page, "value"))


def pooled_maps_say_so(page, folder):
    page.open(f"{folder}/map_pooled.html")
    page.wait(READY)
    page.move(*cell_middle(page, 31, 31, 128, 128))  # rows 992 to 1023; 1000 is kept whole
    check(text(page, "query").startswith("992 "), text(page, "query"))
    check("maximum" in text(page, "value"), text(page, "value"))
    check("1000" in text(page, "whose"), text(page, "whose"))
    page.move(*cell_middle(page, 80, 40, 128, 128))
    check("heaviest keys of each query" in page.run("document.body.textContent"), "no words")


def themes_differ(page, folder):
    pictures = []
    for theme in ("light", "dark"):
        page.theme(theme)
        page.open(f"{folder}/map_sentence.html")
        page.wait(READY)
        pictures.append(page.run("getComputedStyle(document.body).backgroundColor"))
        masked = page.run("[...document.getElementById('map').getContext('2d')"
                          ".getImageData(document.getElementById('map').width - 3, 3, 1, 1).data]")
        pictures.append(str(masked))
    page.theme("light")
    check(pictures[0] != pictures[2] and pictures[1] != pictures[3], f"{pictures}")
    for _ in range(2):
        page.run("document.getElementById('theme').click()")
    check(page.run("document.documentElement.dataset.theme") == "dark", "the button does nothing")


def a_model_opens_within_a_second(page, folder):
    size = os.path.getsize(f"{folder}/grid_large.html")
    best = 9
    for _ in range(3):
        page.open(f"{folder}/grid_large.html")
        page.wait(READY)
        best = min(best, float(page.run("document.documentElement.dataset.ready")) / 1000)
    print(f"  12 x 12 heads, 512 tokens: {size} bytes, {best:.2f} s")
    check(size < 6000000, f"{size} bytes")
    check(best < 1 or os.getloadavg()[0] > 2, f"{best:.2f} s")


def without_scripts_there_is_a_picture(page, folder):
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(f"{folder}/map_sentence.html")
        page.send("DOM.enable")
        root = page.send("DOM.getDocument")["root"]["nodeId"]
        svg = page.send("DOM.querySelector", nodeId=root, selector=".fixed svg")["nodeId"]
        shape = page.send("DOM.getBoxModel", nodeId=svg)["model"]
        check(shape["width"] > 300, "no picture")
        rows = page.send("DOM.querySelectorAll", nodeId=root, selector=".fixed tr")["nodeIds"]
        check(len(rows) == 17, f"{len(rows)} rows in the table")
    finally:
        page.send("Emulation.setScriptExecutionDisabled", value=False)


def svg_is_xml_and_draws(page, folder):
    for name in os.listdir(folder):
        if name.endswith(".svg"):
            xml.etree.ElementTree.parse(f"{folder}/{name}")
            page.open(f"{folder}/{name}")
            clean(page, name)


def png_decodes_elsewhere(page, folder):
    for name in os.listdir(folder):
        if name.endswith(".png"):
            page.open(f"{folder}/{name}")
            page.wait("document.images.length === 1 && document.images[0].naturalWidth > 0")
            check(not page.errors, name)


def screenshots(page, folder, keep):
    os.makedirs(keep, exist_ok=True)
    for name in VIEWERS + STILL:
        for theme in ("light", "dark"):
            page.theme(theme)
            page.open(f"{folder}/{name}.html")
            if name in VIEWERS:
                page.wait(READY)
            page.screenshot(f"{keep}/{name}_{theme}.png")


def main():
    build = sys.argv[1]
    keep = sys.argv[3] if len(sys.argv) > 3 and sys.argv[2] == "--keep" else None
    if not chrome.find():
        print("no Chromium\n0 passed, 0 failed, 1 skipped")
        return 0
    tests = [every_page_opens, hover_tells_the_number, a_click_locks, keys_move, tab_order,
             the_sink_can_be_dropped, pooled_maps_say_so, themes_differ,
             a_model_opens_within_a_second, without_scripts_there_is_a_picture,
             svg_is_xml_and_draws, png_decodes_elsewhere]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{build}/tests/test_viz_pictures", "--write", folder], check=True)
        page = chrome.Page()
        try:
            for test in tests:
                try:
                    test(page, folder)
                    print(f"ok      {test.__name__}")
                except (Failure, TimeoutError, RuntimeError) as error:
                    failed += 1
                    print(f"FAILED  {test.__name__}: {error}")
            if keep:
                screenshots(page, folder, keep)
        finally:
            page.close()
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
