// Curves of counters over time.

import { el, svg, bytes, number, time } from "./dom.js";
import { store } from "./state.js";

const [WIDTH, HEIGHT] = [600, 120];

function curve(values, max, width, height) {
  if (values.length < 2) return "";
  const step = width / (values.length - 1);
  return values.map((value, at) => `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(height - value / max * (height - 4)).toFixed(1)}`).join("");
}

// A small picture of both directions of a cable.
export function spark(past) {
  const max = Math.max(1, ...past.map(([ab, ba]) => Math.max(ab, ba)));
  const path = (at) => curve(past.map((row) => row[at]), max, 240, 48);
  return svg("svg.spark", { viewBox: "0 0 240 48", preserveAspectRatio: "none", role: "img", "aria-label": `load over ${past.length} seconds, at most ${bytes(max)}` },
    svg("path.ab", { d: path(0) }), svg("path.ba", { d: path(1) }));
}

class Chart {
  constructor(name, field, text, isBad) {
    this.field = field;
    this.text = text;
    this.now = el("b");
    this.most = el("span.quiet");
    this.area = svg("path.area");
    this.line = svg("path.curve");
    const grid = [0.25, 0.5, 0.75].map((share) => svg("path.grid", { d: `M0 ${HEIGHT * share}H${WIDTH}` }));
    this.picture = svg(isBad ? "svg.chart.bad" : "svg.chart", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, ...grid, this.area, this.line);
    this.span = el("span.quiet");
    this.element = el("div.card", {}, el("div.row", {}, el("h3", {}, name), this.now, this.most), this.picture, this.span);
  }

  show(samples) {
    const values = samples.map((sample) => sample[this.field]);
    const max = Math.max(1, ...values);
    const last = values.length ? values[values.length - 1] : 0;
    this.now.textContent = this.text(last);
    this.most.textContent = `at most ${this.text(Math.max(0, ...values))}`;
    const d = curve(values, max, WIDTH, HEIGHT);
    this.line.setAttribute("d", d);
    this.area.setAttribute("d", d ? `${d}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z` : "");
    this.picture.setAttribute("aria-label", `now ${this.text(last)}, ${this.most.textContent}`);
    this.span.textContent = samples.length > 1 ? `${time(samples[0].at)} to ${time(samples[samples.length - 1].at)}` : "no samples yet";
  }
}

export class Counters {
  constructor() {
    this.long = false;
    this.charts = [
      new Chart("Bytes", "bytes", bytes), new Chart("Packets", "packets", (value) => `${number(value)}/s`),
      new Chart("Errors", "errors", (value) => `${number(value)}/s`, true), new Chart("Links without data", "dead", (value) => value.toFixed(0), true),
    ];
    const choice = (text, long) => el("label", {}, el("input", { type: "radio", name: "span", checked: !long, onchange: () => { this.long = long; this.show(); } }), text);
    this.element = el("div", {}, el("div.row", { role: "radiogroup", "aria-label": "Time" }, choice("10 minutes", false), choice("24 hours, by minutes", true)),
      el("div.cards", {}, ...this.charts.map((chart) => chart.element)));
  }

  show() {
    const samples = this.long ? store.minutes.concat(store.fine.slice(-1)) : store.fine;
    this.charts[3].element.hidden = !store.fabric;
    for (const chart of this.charts) chart.show(samples);
  }
}
