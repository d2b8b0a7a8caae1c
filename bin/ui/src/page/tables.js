// The tables below the drawing, a tab each.

import { el, by, act, bytes, micros, number, percent, plural, rate, time, Table } from "./dom.js";
import { store, load, share, cableName, isBad } from "./state.js";
import { Counters } from "./chart.js";

const ROWS_MAX = 50;
// Time between two sorts of rows whose order changes with the traffic: so they can be read, and cost less.
const SORT_MS = 3000;

function stateCell(word, text) { return el(`span.state.${word}`, {}, text); }

function link(text, onclick) { return el("button.link", { type: "button", onclick }, text); }

function more(total, shown) { return total > shown ? `${(total - shown).toLocaleString("en")} more rows: filter them` : ""; }

class Links {
  constructor(select) {
    this.sort = ["load", true];
    this.filter = el("input", { type: "search", placeholder: "name", "aria-label": "Filter links by name", oninput: () => this.show() });
    this.which = el("select", { "aria-label": "Which links", onchange: () => this.show() }, ...[["all", "all links"], ["bad", "with a fault"], ["loaded", "with load"]].map(([value, text]) => el("option", { value }, text)));
    this.note = el("p.quiet");
    this.table = new Table([
      { name: "Link", sort: "name", mark: (cable) => `${store.fabric.number} ${cable.index} ${cable.a} ${cable.pa}`, cell: (cable) => link(cableName(store.fabric, cable), () => select({ cables: [cable] })) },
      { name: "State", sort: "state", mark: (cable) => cable.cls, cell: (cable) => { const [word, text] = store.fabric.classes[cable.cls]; return stateCell(word, text); } },
      { name: "Load", sort: "load", cell: (cable) => percent(share(cable)), num: true },
      { name: "\u2192", cell: (cable) => bytes(cable.ab), num: true },
      { name: "\u2190", cell: (cable) => bytes(cable.ba), num: true },
      { name: "Rate", cell: (cable) => rate(cable.rate), num: true },
      { name: "Errors", sort: "errors", cell: (cable) => number(cable.errors), num: true },
      { name: "Times down", sort: "downed", cell: (cable) => number(cable.downed), num: true },
    ], (cable) => cable.index, { row: (cable) => (cable.cls >= 5 ? "bad" : ""), same: (c) => `${store.fabric.number} ${c.cls} ${c.rate} ${c.ab} ${c.ba} ${c.errors} ${c.downed}`, onsort: (name) => this.order(name) });
    this.element = el("div", {}, el("div.row", {}, this.filter, this.which), this.table.element, this.note);
  }

  order(name) {
    this.sort = [name, this.sort[0] === name ? !this.sort[1] : name !== "name"];
    this.show();
  }

  // After an event: new loads alone keep the rows where they are, for a while.
  update(event) {
    if (event === "load" && performance.now() - this.sortedAt < SORT_MS) this.table.show(this.rows);
    else this.show();
  }

  show() {
    const { fabric } = store;
    if (!fabric) return;
    this.sortedAt = performance.now();
    const word = this.filter.value.trim();
    const which = this.which.value;
    const [name, downwards] = this.sort;
    const fits = (cable) => !cable.hidden && (which === "all" || (which === "bad" ? isBad(cable) : load(cable) > 0)) && (!word || cableName(fabric, cable).includes(word));
    // As the column shows it: links that carry a manager's datagrams alone would change places every second.
    const keys = { load: (c) => Math.round(share(c) * 1000), state: (c) => c.cls, errors: (c) => c.errors, downed: (c) => c.downed, name: (c) => c.index };
    const key = keys[name];
    const rows = fabric.cables.filter(fits).sort((x, y) => (downwards ? key(y) - key(x) : key(x) - key(y)) || x.index - y.index);
    this.table.sorted(name, downwards);
    this.rows = rows.slice(0, ROWS_MAX);
    this.table.show(this.rows);
    this.note.textContent = rows.length ? more(rows.length, ROWS_MAX) : "no such link";
  }
}

class Programs {
  constructor(select) {
    this.filter = el("input", { type: "search", placeholder: "host or program", "aria-label": "Filter programs", oninput: () => this.show() });
    this.note = el("p.quiet");
    this.table = new Table([
      { name: "Host", mark: ([host]) => host, cell: ([host]) => (host ? link(host, () => { const node = store.fabric && store.fabric.nodes.find((other) => other.host === host); if (node) select({ node }); }) : "this machine") },
      { name: "Program", cell: (row) => row[2] },
      { name: "PID", cell: (row) => row[1] || "-", num: true },
      { name: "Queue pairs", cell: (row) => row[3], num: true },
      { name: "Traffic", cell: (row) => bytes(row[4]), num: true },
      { name: "Faults asked for", cell: (row) => row[5] || "-", wrap: true },
    ], (row) => `${row[0]} ${row[1]} ${row[2]}`);
    this.element = el("div", {}, el("div.row", {}, this.filter), this.table.element, this.note);
  }

  show() {
    const word = this.filter.value.trim();
    const rows = (store.machine ? store.machine.programs : []).filter((row) => row[0].includes(word) || row[2].includes(word));
    this.table.show(rows.slice(0, ROWS_MAX));
    this.note.textContent = rows.length ? more(rows.length, ROWS_MAX) : "no program has an adapter open";
  }
}

// Every fault that is on, and those that this page saw and that are off now: a switch for each.
class Faults {
  constructor(select) {
    this.seen = new Map();
    this.drop = el("input", { type: "number", min: 0, max: 1000000, value: 10000, "aria-label": "Datagrams dropped per million" });
    this.note = el("p.quiet");
    const all = (text, ppm) => { const made = el("button", { type: "button", disabled: store.readOnly, onclick: () => act({ kind: "drop", ppm: ppm() }, made) }, text); return made; };
    this.table = new Table([
      { name: "On", mark: (fault) => `${fault.on} ${fault.text}`, cell: (fault) => this.toggle(fault) },
      { name: "Fault", cell: (fault) => fault.text, wrap: true },
      { name: "Where", mark: (fault) => fault.where, cell: (fault) => link(fault.where, () => select(fault.selection())) },
    ], (fault) => fault.key);
    this.element = el("div", {},
      el("div.row", {}, el("label", {}, "On every cable, drop management datagrams per million", this.drop), all("Drop", () => Number(this.drop.value)), all("Stop dropping", () => 0)),
      this.table.element, this.note);
  }

  toggle(fault) {
    const made = el("input", { type: "checkbox", role: "switch", "aria-label": `${fault.text}: ${fault.where}`, disabled: store.readOnly, onchange: () => act(fault.on ? fault.off : fault.again, made) });
    made.checked = fault.on;
    return made;
  }

  // Returns the faults that are on.
  present() {
    const { fabric } = store;
    const faults = [];
    if (!fabric) return faults;
    for (const cable of fabric.cables) {
      if (cable.hidden || !(cable.cls >= 5 || cable.err || cable.drop || cable.limited)) continue;
      const ends = { a: { node: fabric.nodes[cable.a].name, port: cable.pa }, b: { node: fabric.nodes[cable.b].name, port: cable.pb } };
      const of = (to, rest) => ({ kind: "cable", ...ends, change: { to, ...rest } });
      const add = (kind, text, again, off) => faults.push({ key: `${kind} ${cable.index}`, text, where: cableName(fabric, cable), selection: () => ({ cables: [store.fabric.cables[cable.index]] }), again, off });
      const isCut = fabric.classes[cable.cls][0] === "cut";
      if (isCut) { add("cut", "unplugged", of("cut"), of("join")); continue; }
      if (cable.limited) add("limit", `limited to ${rate(cable.rate)}`, of("degrade", { lanes: 1, speed: null }), of("mend"));
      if (cable.err) add("errors", `damages ${cable.err} ppm of packets`, of("errors", { ppm: cable.err }), of("errors", { ppm: 0 }));
      if (cable.drop) add("drop", `drops ${cable.drop} ppm of management datagrams`, of("drop", { ppm: cable.drop }), of("drop", { ppm: 0 }));
    }
    for (const node of fabric.nodes) {
      const of = (to, rest) => ({ kind: "node", name: node.name, change: { to, ...rest } });
      const add = (kind, text, again, off) => faults.push({ key: `${kind} ${node.index}`, text, where: node.name, selection: () => ({ node: store.fabric.nodes[node.index] }), again, off });
      if (!node.on) add("power", "no power", of("off"), of("on"));
      if (node.fault) add("agent", "management agents answer wrongly, late or not at all", of("agent", { silent: true, ms: 0 }), of("agent", { silent: false, ms: 0 }));
    }
    return faults;
  }

  show() {
    const present = this.present();
    const keys = new Set(present.map((fault) => fault.key));
    for (const fault of present.slice(0, ROWS_MAX)) this.seen.set(fault.key, { ...fault, on: true });
    for (const [key, fault] of this.seen) if (!keys.has(key)) fault.on = false;
    // The oldest that are off make room.
    for (const [key, fault] of this.seen) if (this.seen.size > ROWS_MAX && !fault.on) this.seen.delete(key);
    const rows = [...this.seen.values()].slice(0, ROWS_MAX);
    this.table.show(rows);
    this.note.textContent = rows.length ? more(present.length, ROWS_MAX) : "no cable and no node has a fault";
  }

  count() { return this.present().length; }
}

const QUALITY = [
  ["engine", "Engine", null], ["hops_mean", "Hops on average", false], ["broken_paths", "Paths that lead nowhere", false], ["credit_loop_links", "Credit loop", false],
  ["load_max", "Paths over the busiest link", false], ["load_max_over_mean", "Busiest link over the mean", false], ["links_unused", "Links unused", false],
  ["shift_worst_mean", "Shift permutations: paths over the busiest link", false], ["shift_free_share", "Shift permutations without conflict", true],
];

function quality(value, name) {
  if (name === "credit_loop_links") return value === null ? "none" : `through ${value} links`;
  if (name === "shift_free_share") return percent(value);
  return typeof value === "number" && value % 1 ? value.toFixed(2) : String(value ?? "-");
}

class Managers {
  constructor() {
    this.cards = el("div.cards");
    this.before = el("div.scroll");
    const run = (text, kind) => { const made = el("button", { type: "button", disabled: store.readOnly, onclick: () => act({ kind }, made) }, text); return made; };
    this.element = el("div", {}, el("div.row", {}, run("Sweep now", "sweep"), run("Measure routes", "routing")), this.cards, el("h3", {}, "Quality of the routes, before and after"), this.before);
  }

  show() {
    const { managers, routings } = store.managers;
    const mark = JSON.stringify([managers, routings.length, routings.length ? routings[routings.length - 1].at : 0]);
    if (this.mark === mark) return;
    this.mark = mark;
    this.cards.replaceChildren(...(managers.length ? managers.map(managerCard) : [el("p.quiet", {}, "No subnet manager of weft answers this user here.")]));
    const shown = routings.slice(-5);
    if (!shown.length) { this.before.replaceChildren(el("p.quiet", {}, "Not measured yet: fabrics of up to 256 end ports are measured after every change, larger ones on request.")); return; }
    const head = el("tr", {}, el("th", { scope: "col" }, "Measured"), ...shown.map((row) => el("th.num", { scope: "col" }, `${time(row.at)}, ${plural(row.sweeps, "sweep")}`)));
    const rows = QUALITY.map(([name, text, isMoreBetter]) => el("tr", {}, el("th", { scope: "row" }, text), ...shown.map((row, at) => {
      const [now, past] = [row.quality[name], at ? shown[at - 1].quality[name] : row.quality[name]];
      const step = isMoreBetter === null ? 0 : (now ?? 0) - (past ?? 0);
      const better = step !== 0 && (step > 0) === isMoreBetter;
      const arrow = step > 0 ? "\u25B2 " : step < 0 ? "\u25BC " : "";
      return el(step ? (better ? "td.num.good" : "td.num.worse") : "td.num", {}, arrow + quality(now, name));
    })));
    this.before.replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
  }
}

function managerCard(status) {
  const rows = [["State", `${status.state}${status.is_up ? ", subnet up" : ""}`], ["LID, priority", `${status.lid}, ${status.priority}`], ["Engine", status.engine || "none yet"],
    ["Subnet", `${plural(status.switches, "switch")}, ${plural(status.end_ports, "end port")}, ${plural(status.links, "link")}`],
    ["Sweeps", `${status.heavy_sweeps} heavy, ${status.sweeps - status.heavy_sweeps} light; now ${status.busy}${status.left ? `, ${status.left} datagrams left` : ""}`],
    ["Datagrams", `${number(status.smps_sent)} sent, ${number(status.smps_answered)} answered, ${number(status.smps_lost)} lost`], ["Traps", number(status.traps)]];
  return el("div.card", {}, el("h3", {}, `Port ${status.guid}`), el("dl", {}, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

class EventLog {
  constructor() {
    this.topics = el("select", { "aria-label": "Topic", onchange: () => this.show() }, ...["all", "link", "node", "manager", "program", "action", "fabric"].map((word) => el("option", { value: word }, word === "all" ? "all topics" : word)));
    this.bad = el("input", { type: "checkbox", onchange: () => this.show() });
    this.table = new Table([
      { name: "Time", cell: (entry) => time(entry.at) },
      { name: "Topic", cell: (entry) => entry.topic },
      { name: "Event", cell: (entry) => entry.text, wrap: true },
    ], (entry) => entry.id, { row: (entry) => (entry.bad ? "bad" : "") });
    this.note = el("p.quiet");
    this.element = el("div", {}, el("div.row", {}, this.topics, el("label", {}, this.bad, "only what got worse")), this.table.element, this.note);
  }

  show() {
    const topic = this.topics.value;
    const rows = store.log.filter((entry) => (topic === "all" || entry.topic === topic) && (!this.bad.checked || entry.bad)).reverse();
    this.table.show(rows.slice(0, ROWS_MAX));
    this.note.textContent = rows.length ? more(rows.length, ROWS_MAX) : "nothing happened yet";
  }
}

class Adapters {
  constructor() {
    this.broken = el("div");
    this.table = new Table([
      { name: "Adapter", cell: (row) => (row.host ? `${row.host}/${row.name}` : row.name) },
      { name: "Type", cell: (row) => row.kind },
      { name: "Interface", cell: (row) => row.netdev || "-" },
      { name: "State", mark: (row) => row.up, cell: (row) => stateCell(row.up ? "active" : "down", row.up ? "active" : "down") },
      { name: "Address", cell: (row) => (row.lids.length ? `LID ${row.lids.join(", ")}` : row.gids[0] || "-") },
      { name: "Sent", cell: (row) => bytes(row.sent), num: true },
      { name: "Received", cell: (row) => bytes(row.received), num: true },
      { name: "Copied", cell: (row) => bytes(row.copied), num: true },
      { name: "Sent again", cell: (row) => `${number(row.resent)}/s`, num: true },
      { name: "Errors", cell: (row) => number(row.errors_total), num: true },
    ], (row) => `${row.host} ${row.name}`);
    this.note = el("p.quiet");
    this.element = el("div", {}, this.broken, el("h3", {}, "Adapters"), this.table.element, this.note);
  }

  show() {
    const rows = store.machine ? store.machine.adapters : [];
    this.table.show(rows.slice(0, ROWS_MAX));
    this.note.textContent = rows.length ? more(rows.length, ROWS_MAX) : "no adapter: `weft link add` makes one, a program opens one";
    const breaks = store.machine ? store.machine.breaks : [];
    const mark = JSON.stringify(breaks);
    if (mark === this.mark) return;
    this.mark = mark;
    this.broken.replaceChildren(...breaks.slice(0, 3).map((row, at) => el("div.card.bad", {}, el("h3", {}, `${at ? "Earlier" : "The last connection that broke"}: ${time(row.at)}`),
      el("p", {}, `${row.host ? `${row.host}: ` : ""}${row.comm ? `${row.comm} (${row.pid})` : "a program that ended"} on ${row.device}${row.qpn === null ? "" : `, queue pair ${row.qpn}`}${row.peer ? `, to ${row.peer}` : ""}: `, el("b", {}, row.why)))),
      breaks.length ? "" : el("p.quiet", {}, "No connection broke since this server looks on."));
  }
}

function who(row) { return `${row.host ? `${row.host}: ` : ""}${row.comm} (${row.pid || "-"})`; }

class Flows {
  constructor() {
    this.flows = new Table([
      { name: "Program", cell: who }, { name: "Adapter", cell: (row) => row.device }, { name: "Peer", cell: (row) => row.peer }, { name: "Path", cell: (row) => row.path },
      { name: "Queue pairs", cell: (row) => row.qps, num: true }, { name: "Sent", cell: (row) => bytes(row.sent), num: true }, { name: "Received", cell: (row) => bytes(row.received), num: true },
      { name: "Copied", cell: (row) => bytes(row.copied), num: true }, { name: "Sent again", cell: (row) => `${number(row.resent)}/s`, num: true }, { name: "Round trip", cell: (row) => micros(row.rtt_ns), num: true },
    ], (row) => `${row.host} ${row.pid} ${row.device} ${row.peer} ${row.path}`);
    this.qps = new Table([
      { name: "Queue pair", cell: (row) => `${row.device}/${row.qpn}` }, { name: "Program", cell: who }, { name: "Type", cell: (row) => row.type },
      { name: "State", mark: (row) => row.state, cell: (row) => stateCell(row.state === "RTS" ? "active" : row.state === "ERR" ? "cut" : "init", row.state) },
      { name: "Peer", cell: (row) => (row.peer ? `${row.peer} /${row.dest}` : "-") }, { name: "Path", cell: (row) => row.path || "-" },
      { name: "Sent", cell: (row) => bytes(row.sent), num: true }, { name: "Received", cell: (row) => bytes(row.received), num: true }, { name: "Copied", cell: (row) => bytes(row.copied), num: true },
      { name: "Sent again", cell: (row) => number(row.resent), num: true }, { name: "Timeouts", cell: (row) => number(row.timeouts), num: true }, { name: "RNR", cell: (row) => number(row.rnr), num: true },
    ], (row) => `${row.host} ${row.pid} ${row.device} ${row.qpn}`, { row: (row) => (row.state === "ERR" ? "bad" : "") });
    this.note = el("p.quiet");
    this.element = el("div", {}, el("h3", {}, "Flows"), this.flows.element, el("h3", {}, "Queue pairs"), this.qps.element, this.note);
  }

  show() {
    const machine = store.machine || { flows: [], qps: [], qps_total: 0 };
    this.flows.show(machine.flows.slice(0, ROWS_MAX));
    this.qps.show(machine.qps.slice(0, ROWS_MAX));
    this.note.textContent = machine.qps_total ? more(machine.qps_total, Math.min(machine.qps.length, ROWS_MAX)) : "no program has a queue pair";
  }
}

// The tabs: only the one that is open is brought up to date.
export class Tabs {
  constructor(select) {
    const faults = new Faults(select);
    this.faults = faults;
    this.tabs = [
      { name: "Links", events: "state load fabric", fabric: true, content: new Links(select) },
      { name: "Hosts", events: "machine", fabric: true, content: new Programs(select) },
      { name: "Faults", events: "state fabric", fabric: true, content: faults },
      { name: "Manager", events: "managers", fabric: true, content: new Managers() },
      { name: "Log", events: "log", content: new EventLog() },
      { name: "Counters", events: "sample history", content: new Counters() },
      { name: "Adapters", events: "machine", content: new Adapters() },
      { name: "Queue pairs", events: "machine", content: new Flows() },
    ];
    for (const tab of this.tabs) {
      tab.badge = el("span.count", { hidden: true });
      tab.button = el("button", { type: "button", role: "tab", id: `tab-${tab.name.toLowerCase().replace(" ", "-")}`, "aria-controls": "panel", onclick: () => this.open(tab) }, tab.name, tab.badge);
      tab.button.addEventListener("keydown", (event) => this.key(event));
    }
    by("tabs").replaceChildren(...this.tabs.map((tab) => tab.button));
    this.offer();
  }

  // Shows the tabs that fit: without a fabric, those of the machine.
  offer() {
    const isFabric = Boolean(store.fabric);
    if (this.isFabric === isFabric) return;
    this.isFabric = isFabric;
    for (const tab of this.tabs) tab.button.hidden = Boolean(tab.fabric) && !isFabric;
    this.open(this.tabs[isFabric ? 0 : 6]);
  }

  open(tab) {
    this.current = tab;
    for (const other of this.tabs) {
      other.button.setAttribute("aria-selected", String(other === tab));
      other.button.setAttribute("tabindex", other === tab ? "0" : "-1");
    }
    by("panel").setAttribute("aria-labelledby", tab.button.id);
    by("panel").replaceChildren(tab.content.element);
    tab.content.show();
  }

  key(event) {
    const shown = this.tabs.filter((tab) => !tab.button.hidden);
    const at = shown.indexOf(this.current);
    const ways = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: shown.length - 1 };
    if (!(event.key in ways)) return;
    event.preventDefault();
    this.open(shown[(ways[event.key] + shown.length) % shown.length]);
    this.current.button.focus();
  }

  // Brings the open tab up to date after an event.
  on(name) {
    const { events, content } = this.current;
    if (events.split(" ").includes(name)) {
      if (content.update) content.update(name);
      else content.show();
    }
    if (name === "state" || name === "fabric") {
      const count = this.faults.count();
      const { badge } = this.tabs[2];
      badge.hidden = count === 0;
      badge.textContent = String(count);
    }
  }
}
