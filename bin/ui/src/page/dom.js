// Elements, numbers as people read them, tables that change only what changed.

const SVG = "http://www.w3.org/2000/svg";

// Makes an element: a name with classes ("button.main"), attributes and handlers, children or text.
export function el(spec, attributes = {}, ...children) {
  const [name, ...classes] = spec.split(".");
  return fill(document.createElement(name), classes, attributes, children);
}

export function svg(spec, attributes = {}, ...children) {
  const [name, ...classes] = spec.split(".");
  return fill(document.createElementNS(SVG, name), classes, attributes, children);
}

function fill(node, classes, attributes, children) {
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function by(id) { return document.getElementById(id); }

const PREFIXES = ["", "k", "M", "G", "T", "P"];

export function short(value) {
  let step = 0;
  while (value >= 999.5 && step < PREFIXES.length - 1) { value /= 1000; step += 1; }
  const digits = step === 0 ? (value < 10 && value % 1 ? 1 : 0) : value < 10 ? 2 : value < 100 ? 1 : 0;
  return [value.toFixed(digits), PREFIXES[step]];
}

export function number(value) { return short(value).join(""); }
export function bytes(value) { const [digits, prefix] = short(value); return `${digits}\u00a0${prefix}B/s`; }
export function rate(tenths) { return tenths ? `${number(tenths * 1e8).replace(/([kMGTP])$/, "\u00a0$1")}b/s` : "-"; }
export function percent(share) {
  const value = share * 100;
  return value === 0 ? "0%" : value < 0.1 ? "<0.1%" : value < 10 ? `${value.toFixed(1)}%` : `${Math.round(value)}%`;
}
export function time(ms) { return new Date(ms).toLocaleTimeString([], { hour12: false }); }
export function plural(count, word) { return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : word.endsWith("ch") ? "es" : "s"}`; }
export function micros(ns) { return ns ? (ns < 1e6 ? `${(ns / 1000).toFixed(1)}\u00a0\u00b5s` : `${(ns / 1e6).toFixed(1)}\u00a0ms`) : "-"; }

export function notice(text) {
  const box = by("notice");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(notice.timer);
  notice.timer = setTimeout(() => { box.hidden = true; }, 7000);
}

// Sends an action; the answer's text is for people.
export async function act(action, button) {
  if (button) button.disabled = true;
  try {
    const answer = await fetch("/api/action", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(action),
    });
    if (!answer.ok) notice((await answer.text()).trim() || `refused: ${answer.status}`);
    return answer.ok;
  } catch {
    notice("weft ui does not answer: was it ended?");
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}

// A table. Columns: {name, num, wrap, sort, cell(row)}, and mark(row) where a cell is an element: it is made anew only
// when its mark changes. Rows keep their elements by key, and are left alone while option same(row) stays the same.
export class Table {
  constructor(columns, key, options = {}) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    this.options = options;
    this.body = el("tbody");
    this.heads = columns.map((column) => {
      const content = column.sort && options.onsort
        ? el("button", { type: "button", onclick: () => options.onsort(column.sort) }, column.name) : column.name;
      return el(column.num ? "th.num" : "th", { scope: "col" }, content);
    });
    this.table = el("table", {}, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.element = el("div.scroll", {}, this.table);
  }

  show(list) {
    const keys = new Set(list.map(this.key));
    for (const [key, line] of this.rows) if (!keys.has(key)) { line.remove(); this.rows.delete(key); }
    let place = this.body.firstElementChild;
    for (const row of list) {
      const key = this.key(row);
      // A second row of one key.
      if (!keys.delete(key)) continue;
      let line = this.rows.get(key);
      if (!line) {
        line = el("tr", {}, ...this.columns.map((c) => el(c.num ? "td.num" : c.wrap ? "td.wrap" : "td")));
        this.rows.set(key, line);
      }
      const classes = this.options.row ? this.options.row(row) : "";
      if (line.className !== classes) line.className = classes;
      const same = this.options.same ? this.options.same(row) : null;
      if (same === null || line.same !== same) {
        line.same = same;
        this.columns.forEach((column, at) => this.fill(line.children[at], column, row));
      }
      // A row that fell back moves itself: all those behind it stay where they are.
      if (place && line !== place && line === place.nextElementSibling) { this.body.append(place); place = line; }
      if (line === place) place = place.nextElementSibling;
      else this.body.insertBefore(line, place);
    }
  }

  fill(cell, column, row) {
    const mark = String(column.mark ? column.mark(row) : column.cell(row));
    if (cell.mark === mark) return;
    cell.mark = mark;
    cell.replaceChildren(column.mark ? column.cell(row) : mark);
  }

  sorted(name, downwards) {
    this.columns.forEach((column, at) => {
      const order = column.sort !== name ? "none" : downwards ? "descending" : "ascending";
      if (column.sort && this.heads[at].getAttribute("aria-sort") !== order) this.heads[at].setAttribute("aria-sort", order);
    });
  }
}
