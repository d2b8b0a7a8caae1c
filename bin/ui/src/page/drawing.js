// The fabric as SVG: positions come from the server, states and loads change single lines.

import { svg, by, bytes, percent, plural } from "./dom.js";
import { load, share, cableName } from "./state.js";

const BOX = [64, 22];
const DOT = 5;
const STEP = BOX[0] + 12;
const MARGIN = 34;
const PARALLEL_MAX = 4;
const PARALLEL = 4;
const LETTERS = 12;
const ZOOM_MIN = 0.02;

// Share of the link's rate from which each thickness begins.
const LOAD_STEPS = [0, 0.0005, 0.01, 0.1, 0.5];

// A wide tree becomes taller, so that it fills the page.
const WIDTH_TO_HEIGHT = 2.1;
const STRETCH_MAX = 2.6;

function stretch(fabric) {
  if (fabric.frames.length || fabric.straightMax !== null || !fabric.items.length) return 1;
  const extent = (of) => Math.max(...fabric.items.map(of)) - Math.min(...fabric.items.map(of));
  const [width, height] = [extent((item) => item.x), extent((item) => item.y)];
  return height > 0 ? Math.min(Math.max(width / height / WIDTH_TO_HEIGHT, 1), STRETCH_MAX) : 1;
}

export class Drawing {
  constructor(select) {
    this.select = select;
    this.chosen = null;
    this.lines = [];
    this.items = [];
  }

  // Draws a fabric anew.
  build(fabric) {
    const tall = stretch(fabric);
    const view = this.fabric && this.fabric.number === fabric.number ? this.view : null;
    this.fabric = fabric;
    this.focused = null;
    this.items = fabric.items.map((item, index) => ({ ...item, y: item.y * tall, index }));
    this.itemOf = new Int32Array(fabric.nodes.length).fill(-1);
    for (const item of this.items) for (const node of item.n) this.itemOf[node] = item.index;
    this.makeLines();
    const root = svg("svg", { role: "group", "aria-label": `Drawing of the fabric ${fabric.title}`, preserveAspectRatio: "xMidYMid meet" });
    this.root = root;
    for (const [x, y, width, height, name] of fabric.frames) {
      root.append(svg("rect.frame", { x, y, width, height, rx: 6 }), svg("text", { x: x + 4, y: y - 3 }, name));
    }
    const lines = svg("g");
    for (const line of this.lines) { this.makeLine(line); lines.append(line.element); }
    const marks = svg("g");
    this.marks = marks;
    const nodes = svg("g");
    for (const item of this.items) { this.makeItem(item); nodes.append(item.element); }
    root.append(lines, marks, nodes);
    this.bounds();
    this.fit();
    if (view) { this.view = view; this.showView(); }
    this.handlers(root);
    by("stage").className = "";
    by("stage").replaceChildren(root);
    if (this.items[0]) this.items[0].element.setAttribute("tabindex", "0");
    this.paintAll();
  }

  // Few cables between two items are a line each, more are one.
  makeLines() {
    const between = new Map();
    this.lineOf = new Array(this.fabric.cables.length).fill(null);
    for (const cable of this.fabric.cables) {
      const [a, b] = [this.itemOf[cable.a], this.itemOf[cable.b]];
      if (cable.hidden || a === b || a < 0 || b < 0) continue;
      const key = Math.min(a, b) * this.items.length + Math.max(a, b);
      if (!between.has(key)) between.set(key, []);
      between.get(key).push(cable);
    }
    this.lines = [];
    for (const cables of between.values()) {
      const parts = cables.length <= PARALLEL_MAX ? cables.map((cable) => [cable]) : [cables];
      parts.forEach((part, at) => {
        const first = part[0];
        const line = { cables: part, a: this.items[this.itemOf[first.a]], b: this.items[this.itemOf[first.b]], aside: (at - (parts.length - 1) / 2) * PARALLEL };
        for (const cable of part) this.lineOf[cable.index] = line;
        this.lines.push(line);
      });
    }
  }

  makeLine(line) {
    const { a, b, aside } = line;
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const length = Math.max(Math.hypot(dx, dy), 1);
    const [ox, oy] = [-dy / length, dx / length];
    const aslant = Math.abs(dx) > Math.abs(dy) ? -0.8 : 1.25;
    const bend = this.fabric.straightMax !== null && length > this.fabric.straightMax ? STEP * aslant : 0;
    const [x1, y1, x2, y2] = [a.x + ox * aside, a.y + oy * aside, b.x + ox * aside, b.y + oy * aside];
    const [mx, my] = [(x1 + x2) / 2 + ox * bend / 2, (y1 + y2) / 2 + oy * bend / 2];
    line.middle = [mx, my];
    const d = bend ? `M${x1} ${y1}Q${mx + ox * bend / 2} ${my + oy * bend / 2} ${x2} ${y2}` : `M${x1} ${y1}L${x2} ${y2}`;
    line.path = svg("path.link", { d });
    line.title = svg("title");
    line.hit = svg("path.hit", { d, "data-cable": line.cables.length === 1 ? line.cables[0].index : null }, line.title);
    line.hit.addEventListener("click", () => this.select({ cables: line.cables }));
    line.hit.addEventListener("pointerenter", () => { line.title.textContent = lineText(this.fabric, line); });
    line.element = svg("g", {}, line.path, line.hit);
  }

  makeItem(item) {
    const { nodes } = this.fabric;
    const first = nodes[item.n[0]];
    const [w, h] = BOX;
    const shapes = [];
    if (item.l === "box") {
      const name = item.n.length > 1 && item.t.length > 10 ? plural(item.n.length, first.kind) : item.t.slice(0, LETTERS);
      shapes.push(svg("rect.shape", { x: -w / 2, y: -h / 2, width: w, height: h, rx: first.kind === "switch" ? 3 : 11 }), svg("text.name", { y: 3.5 }, name));
    } else if (item.l === "chip") {
      shapes.push(svg("rect.shape", { x: -5, y: -5, width: 10, height: 10, rx: 1.5 }));
    } else {
      shapes.push(svg("circle.shape", { r: DOT }));
      if (item.l === "named") shapes.push(svg("text", { transform: "translate(-3 12) rotate(60)" }, item.t.slice(0, LETTERS)));
    }
    item.first = first;
    item.title = svg("title");
    item.element = svg("g", { transform: `translate(${item.x} ${item.y})`, tabindex: "-1", role: "button", "data-node": item.n.length === 1 ? first.name : null }, item.title, ...shapes);
    item.element.addEventListener("click", () => this.choose(item));
    item.element.addEventListener("focus", () => this.rove(item));
  }

  choose(item) { this.select(item.n.length === 1 ? { node: this.fabric.nodes[item.n[0]] } : { item }); }

  rove(item) {
    if (this.focused) this.focused.element.setAttribute("tabindex", "-1");
    this.focused = item;
    item.element.setAttribute("tabindex", "0");
  }

  bounds() {
    const all = this.items;
    if (!all.length) { this.box = [0, 0, 400, 200]; return; }
    const extent = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
    const frames = this.fabric.frames;
    const [left, right] = extent(all.map((item) => item.x).concat(frames.flatMap((f) => [f[0] + 30, f[0] + f[2] - 30])));
    const [top, bottom] = extent(all.map((item) => item.y).concat(frames.flatMap((f) => [f[1], f[1] + f[3]])));
    const tail = all.some((item) => item.l === "named") ? 52 : 0;
    this.box = [left - MARGIN - BOX[0] / 2, top - MARGIN, right - left + 2 * MARGIN + BOX[0], bottom - top + 2 * MARGIN + tail];
  }

  fit() { this.view = [...this.box]; this.showView(); }

  showView() { this.root.setAttribute("viewBox", this.view.map((v) => v.toFixed(1)).join(" ")); }

  zoom(factor, at) {
    const [x, y, w, h] = this.view;
    const width = Math.min(Math.max(w * factor, this.box[2] * ZOOM_MIN), this.box[2] * 1.5);
    const height = h * width / w;
    const [px, py] = at || [x + w / 2, y + h / 2];
    this.view = [px - (px - x) * width / w, py - (py - y) * height / h, width, height];
    this.showView();
  }

  point(event) {
    const matrix = this.root.getScreenCTM();
    if (!matrix) return null;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    return [point.x, point.y];
  }

  handlers(root) {
    root.addEventListener("wheel", (event) => {
      // A page scrolls with the wheel; the drawing zooms with Ctrl, as maps do.
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.85 : 1 / 0.85, this.point(event));
    }, { passive: false });
    let from = null;
    root.addEventListener("pointerdown", (event) => {
      if (event.target === root || event.target.classList.contains("frame")) { from = this.point(event); root.setPointerCapture(event.pointerId); }
    });
    root.addEventListener("pointermove", (event) => {
      const at = from && this.point(event);
      if (!at) return;
      this.view[0] += from[0] - at[0];
      this.view[1] += from[1] - at[1];
      this.showView();
    });
    root.addEventListener("pointerup", () => { from = null; });
    root.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "+" || event.key === "=") this.zoom(0.8);
    else if (event.key === "-") this.zoom(1.25);
    else if (event.key === "0") this.fit();
    else if ((event.key === "Enter" || event.key === " ") && this.focused) this.choose(this.focused);
    else if (ways[event.key] && this.focused) this.step(ways[event.key]);
    else return;
    event.preventDefault();
  }

  // Moves the focus to the nearest item in a direction.
  step([wx, wy]) {
    let [best, least] = [null, Infinity];
    for (const item of this.items) {
      const [dx, dy] = [item.x - this.focused.x, item.y - this.focused.y];
      const along = dx * wx + dy * wy;
      const across = Math.abs(dx * wy) + Math.abs(dy * wx);
      if (along > 1 && along + 3 * across < least) [best, least] = [item, along + 3 * across];
    }
    if (best) { best.element.focus({ preventScroll: false }); this.reveal(best); }
  }

  reveal(item) {
    const [x, y, w, h] = this.view;
    if (item.x < x || item.x > x + w || item.y < y || item.y > y + h) { this.view = [item.x - w / 2, item.y - h / 2, w, h]; this.showView(); }
  }

  paintAll() {
    for (const line of this.lines) this.paintLine(line);
    for (const item of this.items) this.paintItem(item);
  }

  // Brings the lines of these cables up to date.
  paintCables(rows) {
    const lines = new Set();
    for (const row of rows) if (this.lineOf[row[0]]) lines.add(this.lineOf[row[0]]);
    for (const line of lines) this.paintLine(line);
  }

  paintNodes(rows) {
    const items = new Set(rows.map((row) => this.itemOf[row[0]]));
    for (const at of items) if (this.items[at]) this.paintItem(this.items[at]);
  }

  paintLine(line) {
    const words = this.fabric.classes;
    let worst = 0, bad = 0, sum = 0;
    for (const cable of line.cables) {
      worst = Math.max(worst, cable.cls);
      if (cable.cls >= 3) bad += 1;
      sum += load(cable) ? Math.max(share(cable), 1e-9) : 0;
    }
    // A line of many cables has the mean of their loads.
    const busy = sum / line.cables.length;
    // One bad cable of many is a number, not the color of all.
    const cls = bad && bad * 2 < line.cables.length ? 0 : worst;
    const step = busy ? LOAD_STEPS.filter((from) => busy >= from).length : 0;
    const name = `link ${words[cls][0]}${cls === 0 && step ? ` load${step}` : ""}`;
    if (line.name !== name) { line.name = name; line.path.setAttribute("class", name); }
    const width = line.cables.length > 1 && cls === 0 && !step ? Math.min(1.2 + Math.log2(line.cables.length) * 0.25, 3) : null;
    if (line.width !== width) { line.width = width; line.path.style.strokeWidth = width === null ? "" : width; line.path.style.strokeOpacity = width === null ? "" : 0.55; }
    this.paintMark(line, worst, bad);
  }

  paintMark(line, worst, bad) {
    const mark = bad ? `${worst} ${bad}` : "";
    if (line.mark === mark) return;
    line.mark = mark;
    if (line.sign) line.sign.remove();
    line.sign = null;
    if (!bad) return;
    const word = this.fabric.classes[worst][0];
    const [x, y] = line.middle;
    line.sign = svg("g", {}, sign(word, x, y));
    if (line.cables.length > 1) line.sign.append(svg("text.many", { x, y: y - 7 }, `${bad} of ${line.cables.length}`));
    this.marks.append(line.sign);
  }

  paintItem(item) {
    const nodes = item.n.map((at) => this.fabric.nodes[at]);
    const off = nodes.some((node) => !node.on);
    const fault = nodes.some((node) => node.fault);
    const busy = nodes.some((node) => node.programs.length);
    const name = `node ${item.first.kind}${off ? " off" : ""}${fault ? " fault" : ""}${busy ? " busy" : ""}${this.chosen === item ? " chosen" : ""}`;
    if (item.name !== name) { item.name = name; item.element.setAttribute("class", name); }
    const count = nodes.reduce((sum, node) => sum + node.programs.length, 0);
    const text = `${item.t.length > 80 ? `${item.t.slice(0, 80)}...` : item.t} (${plural(nodes.length, item.first.kind)})${off ? ", without power" : ""}${fault ? ", agents with a fault" : ""}${count ? `, ${plural(count, "program")}` : ""}`;
    if (item.text !== text) { item.text = text; item.title.textContent = text; item.element.setAttribute("aria-label", text); }
  }

  // Marks what is selected.
  mark(selection) {
    for (const line of this.marked || []) line.hit.classList.remove("chosen");
    const before = this.chosen;
    const nodes = selection && (selection.item ? selection.item.n : selection.node ? [selection.node.index] : null);
    this.chosen = nodes ? this.items[this.itemOf[nodes[0]]] : null;
    if (before && this.items[before.index] === before) this.paintItem(before);
    if (this.chosen) { this.paintItem(this.chosen); this.reveal(this.chosen); }
    const cables = selection && selection.cables ? selection.cables : [];
    this.marked = [...new Set(cables.map((cable) => this.lineOf[cable.index]).filter(Boolean))];
    for (const line of this.marked) line.hit.classList.add("chosen");
  }
}

export function sign(word, x, y) {
  const shapes = {
    slow: () => svg(`path.mark.${word}`, { d: `M${x} ${y - 5}l5 8h-10z` }),
    errors: () => svg(`circle.mark.${word}`, { cx: x, cy: y, r: 4 }),
    down: () => svg(`path.mark.${word}`, { d: `M${x - 5} ${y}h10` }),
    cut: () => svg(`path.mark.${word}`, { d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` }),
  };
  return shapes[word] ? shapes[word]() : svg("g");
}

function lineText(fabric, line) {
  const [first] = line.cables;
  if (line.cables.length === 1) {
    return `${cableName(fabric, first)}: ${fabric.classes[first.cls][1]}, ${bytes(first.ab)} and ${bytes(first.ba)}, ${percent(share(first))} of its rate`;
  }
  const sum = line.cables.reduce((all, cable) => all + cable.ab + cable.ba, 0);
  return `${line.cables.length} cables, ${bytes(sum)} together; the first is ${cableName(fabric, first)}`;
}

export function legend(fabric) {
  const row = (name, text, word) => {
    const picture = svg("svg", { viewBox: "0 0 30 12", "aria-hidden": "true" }, svg("path", { class: `link ${name}`, d: "M1 6h28" }), sign(word || "", 15, 6));
    const item = document.createElement("li");
    item.append(picture, text);
    return item;
  };
  const states = fabric.classes.map(([word, text]) => row(word, text, word));
  const names = ["little load", "from 0.05%", "1%", "10%", "50%"];
  const loads = names.map((text, at) => row(`active load${at + 1}`, text));
  by("legend").replaceChildren(...states, ...loads);
}

