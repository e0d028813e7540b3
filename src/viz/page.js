// page.js: the viewer of attention maps. Its data stands in the page: see html.c for the layout.
// Text from the figure reaches the page by textContent only, never as markup.
"use strict";

(() => {
const $ = id => document.getElementById(id);
const MASKED = 0, DROPPED = 1, ODD = 2, FIRST = 3;
const SCALES = ["linear", "square root", "logarithmic", "percentile"];

/* --- Data ------------------------------------------------------------------------------------ */

async function unpack(id) {
    const text = atob($(id).textContent.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new DataView(await new Response(stream).arrayBuffer());
}

class Reader {
    constructor(view) { this.view = view; this.at = 0; }
    u8() { return this.view.getUint8(this.at++); }
    u16() { this.at += 2; return this.view.getUint16(this.at - 2, true); }
    u32() { this.at += 4; return this.view.getUint32(this.at - 4, true); }
    i32() { this.at += 4; return this.view.getInt32(this.at - 4, true); }
    f64() { this.at += 8; return this.view.getFloat64(this.at - 8, true); }
    bytes(n) { this.at += n; return new Uint8Array(this.view.buffer, this.at - n, n); }
    text() { return new TextDecoder().decode(this.bytes(this.u16())); }
    list(n, item) { const a = []; for (let i = 0; i < n; i++) a.push(item(this)); return a; }
    floats(n) {
        const a = new Float32Array(n);
        for (let i = 0; i < n; i++) a[i] = this.view.getFloat32(this.at + 4 * i, true);
        this.at += 4 * n;
        return a;
    }
}

function readHead(view) {
    const r = new Reader(view), d = {};
    d.exact = r.u8(); d.signed = r.u8(); d.single = r.u8(); d.scale = r.u8();
    d.reduction = ["maximum", "mean", "sum"][r.u8()];
    d.rows = r.u32(); d.cols = r.u32(); d.stepRows = r.u32(); d.stepCols = r.u32(); d.k = r.u32(); d.kStep = r.u32();
    d.queries = r.f64(); d.keys = r.f64(); d.firstQuery = r.f64(); d.firstKey = r.f64();
    d.codeLow = r.f64(); d.codeHigh = r.f64(); d.low = r.f64(); d.high = r.f64();
    d.table = r.bytes(768);
    d.queryTitle = r.text(); d.keyTitle = r.text(); d.valueTitle = r.text();
    d.panels = r.list(r.u32(), x => ({ layer: x.i32(), head: x.i32(), name: x.text() }));
    d.queryTokens = r.list(r.u32(), x => x.text());
    d.keyTokens = r.u8() ? d.queryTokens : r.list(r.u32(), x => x.text());
    d.thumbRows = r.u32(); d.thumbCols = r.u32();
    for (const p of d.panels) p.thumb = r.bytes(d.thumbRows * d.thumbCols);
    return d;
}

// Codes, then all cells as floats in four planes of bytes, or the heaviest keys of each query; then
// whole rows.
function readPanel(view, d) {
    const r = new Reader(view), n = d.rows * d.cols, p = { codes: r.bytes(n) };
    if (d.exact) {
        const planes = [0, 1, 2, 3].map(() => r.bytes(n));
        const bytes = new Uint8Array(4 * n);
        for (let i = 0; i < n; i++)
            for (let k = 0; k < 4; k++) bytes[4 * i + k] = planes[k][i];
        p.values = new Reader(new DataView(bytes.buffer)).floats(n);
    } else if (d.k > 0) {
        const m = Math.ceil(d.queries / d.kStep) * d.k;
        p.topKeys = new Int32Array(m);
        for (let i = 0; i < m; i++) p.topKeys[i] = r.i32();
        p.topWeights = r.floats(m);
    }
    p.whole = new Map(r.list(r.u32(), x => {
        const query = x.u32(), from = x.u32();
        return [query, { from, values: x.floats(x.u32()) }];
    }));
    p.levels = [{ codes: p.codes, rows: d.rows, cols: d.cols }];
    return p;
}

/* --- Values and colours ---------------------------------------------------------------------- */

let d, panel, current = 0, scale, own = false, dropping = false;

function valueOf(code) {
    if (d.signed) return d.codeLow + (d.codeHigh - d.codeLow) * (code - FIRST) / 252;
    return code === FIRST ? 0 : d.codeLow * Math.pow(d.codeHigh / d.codeLow, (code - FIRST - 1) / 251);
}

function codeOf(v) {
    if (v < d.codeLow || !(d.codeHigh > 0)) return FIRST;
    const t = Math.log(v / d.codeLow) / Math.log(d.codeHigh / d.codeLow);
    return FIRST + 1 + Math.round(251 * Math.min(1, Math.max(0, t)));
}

// The panel without its first key, the rest of each row divided by its sum.
function withoutFirst(p) {
    const codes = p.codes.slice(), values = p.values.slice();
    for (let i = 0; i < d.rows; i++) {
        let sum = 0;
        const at = i * d.cols;
        if (codes[at] !== MASKED) codes[at] = DROPPED;
        for (let j = 1; j < d.cols; j++) if (codes[at + j] >= FIRST) sum += values[at + j];
        for (let j = 1; j < d.cols && sum > 0; j++)
            if (codes[at + j] >= FIRST) codes[at + j] = codeOf(values[at + j] /= sum);
    }
    return { codes, values, whole: p.whole, levels: [{ codes, rows: d.rows, cols: d.cols }] };
}

const number = v => Number.isFinite(v) ? String(Number(v.toPrecision(7))) : String(v);
const short = v => String(Number(v.toPrecision(3)));
const approximate = code =>
    !d.signed && code === FIRST ? "< " + short(d.codeLow) : "\u2248 " + short(valueOf(code));

function histogram(codes, counts) {
    for (let i = 0; i < codes.length; i++) counts[codes[i]]++;
    return counts;
}

function limits() {
    if (!own) return [d.low, d.high];
    const h = histogram(panel.codes, new Float64Array(256));
    let low = FIRST, high = 255;
    while (low < 255 && !h[low]) low++;
    while (high > low && !h[high]) high--;
    const a = valueOf(low), b = valueOf(high);
    return d.signed ? [-Math.max(Math.abs(a), Math.abs(b)), Math.max(Math.abs(a), Math.abs(b))]
        : [scale === 2 ? Math.max(a, b * 1e-6) : 0, b];
}

// 0 .. 1 for a value; `ranks` for the percentile scale.
function place(v, low, high) {
    if (!(high > low)) return 0.5;
    if (scale === 2) {
        const floor = Math.max(low, high * 1e-6);
        return v <= floor ? 0 : Math.log(v / floor) / Math.log(high / floor);
    }
    const t = Math.min(1, Math.max(0, (v - low) / (high - low)));
    if (scale !== 1) return t;
    return d.signed && low < 0 ? 0.5 + Math.sign(t - 0.5) * Math.sqrt(Math.abs(2 * t - 1)) / 2 : Math.sqrt(t);
}

function cssColour(name) {
    const text = getComputedStyle(document.body).getPropertyValue(name).trim();
    return [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));
}

// Colour of each code, as pixels.
function lookup(codes) {
    const lut = new Uint32Array(256), bytes = new Uint8Array(lut.buffer), [low, high] = limits();
    const set = (i, c) => bytes.set([c[0], c[1], c[2], 255], 4 * i);
    let before = 0, total = 0, h = null;
    if (scale === 3) {
        h = histogram(codes, new Float64Array(256));
        for (let i = FIRST; i < 256; i++) total += h[i];
    }
    set(MASKED, cssColour("--masked"));
    set(DROPPED, cssColour("--dropped"));
    set(ODD, cssColour("--odd"));
    for (let i = FIRST; i < 256; i++) {
        let t = h ? (total ? (before + h[i] / 2) / total : 0.5) : place(valueOf(i), low, high);
        if (h) before += h[i];
        t = Math.min(255, Math.max(0, Math.round(t * 255)));
        set(i, d.table.subarray(3 * t, 3 * t + 3));
    }
    return lut;
}

function paint(canvas, codes, rows, cols, lut) {
    const c = canvas.getContext("2d"), image = new ImageData(cols, rows);
    const pixels = new Uint32Array(image.data.buffer);
    canvas.width = cols; canvas.height = rows;
    for (let i = 0; i < pixels.length; i++) pixels[i] = lut[codes[i]];
    c.putImageData(image, 0, 0);
}

/* --- Pyramid --------------------------------------------------------------------------------- */

// Half the rows and columns: the maximum of four cells, or their mean where cells are means.
function coarser(level) {
    const rows = (level.rows + 1) >> 1, cols = (level.cols + 1) >> 1;
    const codes = new Uint8Array(rows * cols), mean = d.reduction === "mean";
    for (let i = 0; i < rows; i++)
        for (let j = 0; j < cols; j++) {
            let best = 0, sum = 0, count = 0, other = MASKED;
            for (let k = 0; k < 4; k++) {
                const y = 2 * i + (k >> 1), x = 2 * j + (k & 1);
                if (y >= level.rows || x >= level.cols) continue;
                const c = level.codes[y * level.cols + x];
                if (c < FIRST) { other = Math.max(other, c); continue; }
                best = Math.max(best, c); sum += c; count++;
            }
            codes[i * cols + j] = other === ODD ? ODD : count === 0 ? other
                : mean ? Math.round(sum / count) : best;
        }
    return { codes, rows, cols };
}

function levelFor(cellPixels) {
    let n = 0;
    while (cellPixels * 2 ** n < 0.999 && n < 12) {
        n++;
        if (!panel.levels[n]) panel.levels[n] = coarser(panel.levels[n - 1]);
    }
    return n;
}

/* --- Map ------------------------------------------------------------------------------------- */

const view = { x: 0, y: 0, cell: 1 };    // the cell at the left top, pixels a cell
let size = { w: 600, h: 600 }, cursor = { row: 0, col: 0, inside: 0 }, locked = false, lut;

function fit() {
    const page = Math.min(1500, document.documentElement.clientWidth) - 40, labelled = 124;
    let room = page - labelled - $("heads").offsetWidth - 48 - 300; // heads, map, table side by side
    if (room < 360) room = page - labelled;
    room = Math.max(220, Math.min(760, room, Math.max(340, innerHeight - 290)));
    const shape = Math.min(2, Math.max(0.1, d.rows / d.cols));
    size.w = shape > 1 ? Math.round(room / shape) : room;
    size.h = Math.max(60, Math.round(size.w * shape));
    view.x = view.y = 0;
    view.cell = size.w / d.cols;
    view.stretch = (size.h / d.rows) / view.cell; // long and narrow maps are not square
}

const cellW = () => view.cell, cellH = () => view.cell * view.stretch;

function clampView() {
    view.x = Math.max(0, Math.min(view.x, d.cols - size.w / cellW()));
    view.y = Math.max(0, Math.min(view.y, d.rows - size.h / cellH()));
}

function draw() {
    const canvas = $("map"), ratio = devicePixelRatio || 1, c = canvas.getContext("2d");
    const n = levelFor(Math.min(cellW(), cellH()) * ratio), level = panel.levels[n], f = 2 ** n;
    clampView();
    if (!level.canvas) level.canvas = document.createElement("canvas");
    if (level.lut !== lut) { paint(level.canvas, level.codes, level.rows, level.cols, lut); level.lut = lut; }
    canvas.width = Math.round(size.w * ratio); canvas.height = Math.round(size.h * ratio);
    canvas.style.width = size.w + "px"; canvas.style.height = size.h + "px";
    c.imageSmoothingEnabled = false;
    c.drawImage(level.canvas, view.x / f, view.y / f, size.w / cellW() / f, size.h / cellH() / f,
        0, 0, canvas.width, canvas.height);
    $("level").textContent = n === 0 ? "" : "Zoomed out: a pixel shows the " +
        (d.reduction === "mean" ? "mean" : "maximum") + " of " + f + " \u00d7 " + f + " cells.";
    drawLabels();
    drawCursor();
}

function drawCursor() {
    const canvas = $("cross"), ratio = devicePixelRatio || 1, c = canvas.getContext("2d");
    canvas.width = Math.round(size.w * ratio); canvas.height = Math.round(size.h * ratio);
    canvas.style.width = size.w + "px"; canvas.style.height = size.h + "px";
    c.scale(ratio, ratio);
    const x = (cursor.col - view.x) * cellW(), y = (cursor.row - view.y) * cellH();
    const w = Math.max(cellW(), 3), h = Math.max(cellH(), 3);
    for (const [colour, width] of [["rgba(0,0,0,.75)", 3], [locked ? "#ff4d4d" : "#ffffff", 1.3]]) {
        c.strokeStyle = colour; c.lineWidth = width;
        c.strokeRect(x, y, w, h);
        c.globalAlpha = 0.55;
        c.beginPath();
        c.moveTo(0, y + h / 2); c.lineTo(x, y + h / 2);
        c.moveTo(x + w / 2, y + h); c.lineTo(x + w / 2, size.h);
        c.stroke();
        c.globalAlpha = 1;
    }
}

/* --- Labels ---------------------------------------------------------------------------------- */

// Tokens where each cell is one, thinned; else round numbers. Calls put(text, place in cells).
function labels(tokens, cells, step, first, all, least, put) {
    if (step === 1 && tokens.length) {
        const every = Math.max(1, Math.ceil(least));
        for (let i = 0; i < cells; i += every) put(tokens[i], i + 0.5);
        return;
    }
    const want = Math.max(1, least * step * 1.3), power = 10 ** Math.floor(Math.log10(want));
    const round = [1, 2, 5, 10].map(n => n * power).find(n => n >= want * (1 - 1e-9));
    for (let n = Math.ceil(first / round) * round; n < first + all; n += round)
        put(String(n), (n - first) / step + (step === 1 ? 0.5 : 0));
}

function crop(c, text, most) {
    if (c.measureText(text).width <= most) return text;
    const letters = [...text];
    while (letters.length && c.measureText(letters.join("") + "\u2026").width > most) letters.pop();
    return letters.join("") + "\u2026";
}

function drawLabels() {
    const ratio = devicePixelRatio || 1, ink = getComputedStyle(document.body).color;
    const side = $("rows"), foot = $("columns"), left = 96, over = 8, below = 84;
    const s = side.getContext("2d"), f = foot.getContext("2d");
    for (const [canvas, c, w, h] of [[side, s, left, size.h + 2 * over], [foot, f, size.w + left + 20, below]]) {
        canvas.width = w * ratio; canvas.height = h * ratio;
        canvas.style.width = w + "px"; canvas.style.height = h + "px";
        c.scale(ratio, ratio);
        c.fillStyle = ink;
        c.font = '11px "DejaVu Sans",Verdana,Arial,sans-serif';
        c.textBaseline = "middle"; c.textAlign = "right";
    }
    side.style.marginTop = side.style.marginBottom = -over + "px";
    labels(d.queryTokens, d.rows, d.stepRows, d.firstQuery, d.queries, 13 / cellH(), (text, place) => {
        const y = (place - view.y) * cellH();
        if (y >= 0 && y <= size.h) s.fillText(crop(s, text, left - 8), left - 5, over + y);
    });
    labels(d.keyTokens, d.cols, d.stepCols, d.firstKey, d.keys, 17 / cellW(), (text, place) => {
        const x = (place - view.x) * cellW();
        if (x < 0 || x > size.w) return;
        f.save();
        f.translate(left + x + 3, 6);
        f.rotate(-Math.PI / 4);
        f.fillText(crop(f, text, left - 8), 0, 3);
        f.restore();
    });
}

function drawBar() {
    const canvas = $("bar"), c = canvas.getContext("2d"), w = 256;
    canvas.width = w; canvas.height = 12;
    for (let i = 0; i < w; i++) {
        c.fillStyle = "rgb(" + d.table.subarray(3 * i, 3 * i + 3).join(",") + ")";
        c.fillRect(i, 0, 1, 12);
    }
    const kinds = histogram(panel.codes, new Float64Array(256));
    [["masked", MASKED], ["dropped", DROPPED], ["odd", ODD]].forEach(([id, code]) =>
        $("is" + id).classList.toggle("hidden", !kinds[code]));
    const [low, high] = limits();
    $("low").textContent = scale === 3 ? "lowest" : short(scale === 2 ? Math.max(low, high * 1e-6) : low);
    $("high").textContent = scale === 3 ? "highest" : short(high);
}

/* --- The cell and its row --------------------------------------------------------------------- */

function span(i, step, first, all) {
    const from = first + i * step, to = Math.min(first + all, from + step) - 1;
    return from === to ? String(from) : from + " \u2013 " + to;
}

function named(node, text, token) {
    node.textContent = text;
    if (token === undefined) return;
    const b = document.createElement("bdi");
    b.textContent = token;
    node.append(" ", b);
}

// The row of weights under the cursor: all of them, or the heaviest, heaviest first.
function rowOf(i) {
    const query = i * d.stepRows;
    const pairs = [];
    if (d.exact) {
        for (let j = 0; j < d.cols; j++)
            if (panel.codes[i * d.cols + j] >= FIRST) pairs.push([j, panel.values[i * d.cols + j]]);
        return { query, pairs, all: true };
    }
    // Of the several queries of a row of cells: that under the pointer, one that is whole, or the first.
    let q = Math.min(d.queries - 1, query + cursor.inside);
    if (!cursor.inside)
        for (let s = 0; s < d.stepRows; s++) if (panel.whole.has(query + s)) { q = query + s; break; }
    const whole = panel.whole.get(q);
    if (whole) {
        whole.values.forEach((v, j) => pairs.push([whole.from + j, v]));
        return { query: q, pairs, all: true };
    }
    q -= q % d.kStep;
    for (let n = 0; n < d.k; n++) {
        const at = q / d.kStep * d.k + n;
        if (panel.topKeys[at] >= 0) pairs.push([panel.topKeys[at], panel.topWeights[at]]);
    }
    return { query: q, pairs, all: false };
}

function tell() {
    const { row, col } = cursor, code = panel.codes[row * d.cols + col], r = rowOf(row);
    const single = d.stepRows === 1 && d.stepCols === 1;
    named($("query"), span(row, d.stepRows, d.firstQuery, d.queries),
        d.stepRows === 1 ? d.queryTokens[row] : undefined);
    named($("key"), span(col, d.stepCols, d.firstKey, d.keys),
        d.stepCols === 1 ? d.keyTokens[col] : undefined);
    const sorted = r.pairs.slice().sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    const own = single ? sorted.findIndex(p => p[0] === col) : -1;
    let value, rank = "";
    if (code === MASKED) value = "masked";
    else if (code === DROPPED) value = "dropped";
    else if (code === ODD) value = d.exact ? number(panel.values[row * d.cols + col]) : "not finite";
    else if (own >= 0) value = number(sorted[own][1]);
    else value = approximate(code) + (single ? "" : " (" + d.reduction + ")");
    if (code >= FIRST && single) {
        if (own >= 0) {
            const first = sorted.findIndex(p => p[1] === sorted[own][1]);
            rank = (first + 1) + (r.all ? " of " + sorted.length : "");
        } else if (!r.all && d.k) rank = "after the " + r.pairs.length + " heaviest";
    }
    $("value").textContent = value;
    $("rank").textContent = rank || "\u2013";
    $("lock").textContent = locked ? "locked: click, Enter or Esc to release" : "click or Enter to lock";
    tellRow(r, sorted, col);
    drawProfile(r);
}

function tellRow(r, sorted, col) {
    const body = $("tops"), shown = sorted.slice(0, 12), most = shown.length ? shown[0][1] : 1;
    body.textContent = "";
    named($("whose"), "Largest weights of " + d.queryTitle + " " + (d.firstQuery + r.query), d.queryTokens[r.query]);
    shown.forEach(([key, weight], i) => {
        const line = body.insertRow();
        line.dataset.key = key;
        if (Math.floor(key / d.stepCols) === col) line.className = "here";
        line.insertCell().textContent = i + 1;
        line.insertCell().textContent = d.firstKey + key;
        named(line.insertCell(), "", d.keyTokens[key] ?? "");
        line.insertCell().textContent = number(weight);
        const meter = line.insertCell(), mark = document.createElement("span");
        meter.className = "meter";
        mark.style.width = Math.max(0, 100 * weight / most) + "%";
        meter.append(mark);
    });
    if (!shown.length) body.insertRow().insertCell().textContent = r.all ? "no key" : "not kept in this file";
}

// The weights of the row along the keys, the heaviest of those that share a pixel.
function drawProfile(r) {
    const canvas = $("profile"), w = 400, h = 70, c = canvas.getContext("2d");
    const top = new Float64Array(w);
    let most = 0;
    canvas.width = w; canvas.height = h;
    c.fillStyle = cssColourText("--accent");
    for (const [key, v] of r.pairs) {
        const x = Math.min(w - 1, Math.floor(key * w / d.keys));
        top[x] = Math.max(top[x], v); most = Math.max(most, v);
    }
    const wide = Math.max(1, Math.floor(w / d.keys));
    for (let x = 0; x < w; x++)
        if (top[x] > 0) c.fillRect(x, h - Math.max(1, h * top[x] / most), wide, h);
    $("profilemost").textContent = r.pairs.length ? "highest " + short(most) : "";
}

const cssColourText = name => getComputedStyle(document.body).getPropertyValue(name).trim();

/* --- Moving ---------------------------------------------------------------------------------- */

function moveTo(row, col, show, inside = 0) {
    cursor.inside = inside;
    cursor.row = Math.max(0, Math.min(d.rows - 1, row));
    cursor.col = Math.max(0, Math.min(d.cols - 1, col));
    if (show) {
        const w = size.w / cellW(), h = size.h / cellH(), x = view.x, y = view.y;
        if (cursor.col < view.x) view.x = cursor.col;
        if (cursor.col + 1 > view.x + w) view.x = cursor.col + 1 - w;
        if (cursor.row < view.y) view.y = cursor.row;
        if (cursor.row + 1 > view.y + h) view.y = cursor.row + 1 - h;
        if (x !== view.x || y !== view.y) draw();
    }
    drawCursor();
    tell();
}

function zoom(by, px, py) {
    const least = size.w / d.cols, x = view.x + px / cellW(), y = view.y + py / cellH();
    view.cell = Math.max(least, Math.min(64, view.cell * by));
    view.x = x - px / cellW(); view.y = y - py / cellH();
    draw();
}

const atPointer = e => {
    const box = $("cross").getBoundingClientRect();
    return { px: e.clientX - box.left, py: e.clientY - box.top };
};

function onPointer(e, click) {
    const { px, py } = atPointer(e);
    const col = Math.floor(view.x + px / cellW()), y = view.y + py / cellH(), row = Math.floor(y);
    if (click) locked = !locked || row !== cursor.row || col !== cursor.col;
    else if (locked) return;
    // Where each query of the cell has a pixel, the one under the pointer.
    moveTo(row, col, false, cellH() >= d.stepRows ? Math.floor((y - row) * d.stepRows) : 0);
}

function neighbour(layerBy, headBy) {
    const key = layerBy ? "layer" : "head", fixed = layerBy ? "head" : "layer", by = layerBy || headBy;
    const here = d.panels[current];
    const all = d.panels.map((p, i) => i).filter(i => d.panels[i][fixed] === here[fixed])
        .sort((a, b) => d.panels[a][key] - d.panels[b][key]);
    const next = all[all.indexOf(current) + by];
    if (next !== undefined) choose(next);
}

function find(again) {
    const word = $("find").value.toLowerCase();
    if (!word || !d.queryTokens.length) return;
    for (let n = again ? 1 : 0; n <= d.queries; n++) {
        const q = (cursor.row * d.stepRows + n) % d.queries;
        if ((d.queryTokens[q] || "").toLowerCase().includes(word)) {
            moveTo(Math.floor(q / d.stepRows), cursor.col, true);
            return;
        }
    }
}

const keys = {
    "ArrowUp": n => moveTo(cursor.row - n, cursor.col, true),
    "ArrowDown": n => moveTo(cursor.row + n, cursor.col, true),
    "ArrowLeft": n => moveTo(cursor.row, cursor.col - n, true),
    "ArrowRight": n => moveTo(cursor.row, cursor.col + n, true),
    "Home": () => moveTo(cursor.row, 0, true),
    "End": () => moveTo(cursor.row, d.cols - 1, true),
    "Enter": () => { locked = !locked; drawCursor(); tell(); },
    "Escape": () => { locked = false; drawCursor(); tell(); },
};
const everywhere = {
    "+": () => zoom(1.5, (cursor.col - view.x) * cellW(), (cursor.row - view.y) * cellH()),
    "=": () => everywhere["+"](),
    "-": () => zoom(1 / 1.5, (cursor.col - view.x) * cellW(), (cursor.row - view.y) * cellH()),
    "[": () => neighbour(-1, 0), "]": () => neighbour(1, 0),
    "<": () => neighbour(0, -1), ">": () => neighbour(0, 1),
    ",": () => neighbour(0, -1), ".": () => neighbour(0, 1),
    "r": () => { locked = false; fit(); draw(); tell(); },
    "f": () => $("find").focus(),
    "?": () => { $("help").open = !$("help").open; },
};

/* --- Heads ----------------------------------------------------------------------------------- */

async function choose(i) {
    current = i;
    const data = d.panels[i].data ??= readPanel(await unpack("p" + i), d);
    if (current !== i) return;
    panel = dropping ? data.dropped ??= withoutFirst(data) : data;
    $("panel").value = i;
    $("which").textContent = d.panels[i].name;
    document.querySelectorAll(".grid button").forEach(b => {
        const on = Number(b.dataset.panel) === i;
        b.setAttribute("aria-pressed", on);
        b.tabIndex = on ? 0 : -1;
    });
    recolour(false);
}

function recolour(all) {
    lut = lookup(panel.codes);
    drawBar();
    draw();
    tell();
    if (all) paintThumbs();
}

function paintThumbs() {
    const shared = own || scale === 3 ? null : lookup(panel.codes);
    document.querySelectorAll(".grid button").forEach(b => {
        const p = d.panels[b.dataset.panel], kept = panel;
        let own = shared;
        if (!own) { panel = { codes: p.thumb }; own = lookup(p.thumb); panel = kept; }
        paint(b.firstChild, p.thumb, d.thumbRows, d.thumbCols, own);
    });
}

function makeGrid() {
    const layers = [...new Set(d.panels.map(p => p.layer))].sort((a, b) => a - b);
    const heads = [...new Set(d.panels.map(p => p.head))].sort((a, b) => a - b);
    const grid = $("grid"), cell = (row, column, node) => {
        node.style.gridRow = row; node.style.gridColumn = column; grid.append(node);
    };
    const label = text => {
        const s = document.createElement("span");
        s.className = "number"; s.textContent = text;
        return s;
    };
    if (d.panels.length < 2) { $("heads").classList.add("hidden"); return; }
    const room = document.documentElement.clientWidth > 1450 ? 380 : 260;
    grid.style.setProperty("--thumb", Math.max(22, Math.min(64, Math.floor(room / heads.length))) + "px");
    cell(1, 1, label("layer \u2193 head \u2192"));
    heads.forEach((h, i) => cell(1, i + 2, label(h < 0 ? "" : h)));
    layers.forEach((l, i) => cell(i + 2, 1, label(l < 0 ? "" : l)));
    d.panels.forEach((p, i) => {
        const b = document.createElement("button");
        b.type = "button"; b.dataset.panel = i; b.title = p.name; b.tabIndex = -1;
        b.setAttribute("aria-label", p.name || "panel " + i);
        b.append(document.createElement("canvas"));
        b.addEventListener("click", () => choose(i));
        cell(layers.indexOf(p.layer) + 2, heads.indexOf(p.head) + 2, b);
    });
    grid.addEventListener("keydown", e => {
        const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
        if (!by) return;
        e.preventDefault();
        neighbour(...by);
        grid.querySelector('[data-panel="' + current + '"]').focus();
    });
}

/* --- Start ----------------------------------------------------------------------------------- */

function listen() {
    const stage = $("view");
    stage.addEventListener("pointermove", e => onPointer(e, false));
    stage.addEventListener("click", e => { onPointer(e, true); stage.focus(); });
    stage.addEventListener("wheel", e => {
        const { px, py } = atPointer(e);
        e.preventDefault();
        zoom(e.deltaY < 0 ? 1.25 : 0.8, px, py);
    }, { passive: false });
    stage.addEventListener("keydown", e => {
        const action = keys[e.key];
        if (!action || e.ctrlKey || e.metaKey || e.altKey) return;
        e.preventDefault();
        action(e.shiftKey ? 10 : 1);
    });
    document.addEventListener("keydown", e => {
        if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
        const action = everywhere[e.key];
        if (action) { e.preventDefault(); action(); }
    });
    $("tops").addEventListener("click", e => {
        const line = e.target.closest("tr[data-key]");
        if (line) { locked = true; moveTo(cursor.row, Math.floor(line.dataset.key / d.stepCols), true); }
    });
    $("panel").addEventListener("change", e => choose(Number(e.target.value)));
    $("scale").addEventListener("change", e => { scale = Number(e.target.value); recolour(true); });
    $("own").addEventListener("change", e => { own = e.target.checked; recolour(true); });
    $("drop").addEventListener("change", e => { dropping = e.target.checked; choose(current); });
    $("find").addEventListener("keydown", e => { if (e.key === "Enter") find(true); });
    $("find").addEventListener("input", () => find(false));
    for (const [id, key] of [["zoomin", "+"], ["zoomout", "-"], ["reset", "r"]])
        $(id).addEventListener("click", () => everywhere[key]());
    addEventListener("resize", () => { fit(); draw(); tell(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => recolour(true));
}

function listenTheme() {
    const states = ["", "light", "dark"];
    $("theme").addEventListener("click", () => {
        const next = states[(states.indexOf(document.documentElement.dataset.theme || "") + 1) % 3];
        if (next) document.documentElement.dataset.theme = next;
        else delete document.documentElement.dataset.theme;
        $("theme").textContent = "theme: " + (next || "as the system");
        if (panel) recolour(true);
    });
}

async function start() {
    listenTheme();
    if (!$("head")) return;
    try {
        d = readHead(await unpack("head"));
        scale = d.scale;
        SCALES.forEach((name, i) => {
            if (i === 2 && d.signed) return;
            const o = document.createElement("option");
            o.value = i; o.textContent = name; o.selected = i === scale;
            $("scale").append(o);
        });
        d.panels.forEach((p, i) => {
            const o = document.createElement("option");
            o.value = i; o.textContent = p.name || "panel " + i;
            $("panel").append(o);
        });
        $("querytitle").textContent = d.queryTitle;
        $("keytitle").textContent = d.keyTitle;
        $("valuetitle").textContent = d.valueTitle;
        if (!d.queryTokens.length) $("finding").classList.add("hidden");
        if (!d.keyTokens.length) document.body.classList.add("numbers");
        if (!d.exact || d.signed) $("dropping").classList.add("hidden");
        if (d.panels.length < 2) $("choosing").classList.add("hidden");
        document.documentElement.classList.add("works");
        makeGrid();
        fit();
        listen();
        await choose(0);
        paintThumbs();
        document.documentElement.dataset.ready = Math.round(performance.now()); // ms since opening
    } catch (error) {
        document.documentElement.classList.remove("works");
        $("trouble").textContent = "The viewer cannot run here (" + error.message + "); the picture below is complete without it.";
    }
}

start();
})();
