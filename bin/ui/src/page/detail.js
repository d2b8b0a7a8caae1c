// The selection: a cable, several of them, a node, or several nodes that are drawn as one; and what to do with it.

import { el, by, act, bytes, number, percent, plural, rate } from "./dom.js";
import { store, load, share, cableName, isBad } from "./state.js";
import { spark } from "./chart.js";

const ROWS_MAX = 60;
const WIDTHS = ["1x", "2x", "4x", "8x", "12x"];
const SPEEDS = ["SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"];

function pair(name, value) { return [el("dt", {}, name), el("dd", {}, value)]; }

function button(text, action, main) {
  const made = el(main ? "button.main" : "button", { type: "button", disabled: store.readOnly, "data-do": text.toLowerCase(), onclick: () => act(action(), made) }, text);
  return made;
}

export class Detail {
  constructor(select) {
    this.select = select;
    this.box = by("detail");
  }

  // Shows a selection anew.
  show(selection) {
    this.selection = selection;
    this.live = () => {};
    if (!store.fabric) { this.box.replaceChildren(); return; }
    if (!selection) this.nothing();
    else if (selection.node) this.node(selection.node);
    else if (selection.item) this.item(selection.item);
    else if (selection.cables.length === 1) this.cable(selection.cables[0]);
    else this.cables(selection.cables);
    this.live();
  }

  nothing() {
    const { fabric } = store;
    this.box.replaceChildren(
      el("h2", {}, "Nothing selected"),
      el("p", {}, "Select a link or a node in the drawing or in the tables: its state, load and faults appear here, with buttons that cut, join, degrade and power."),
      el("p.quiet", {}, fabric.packets ? "Packet mode: every packet goes hop by hop." : "Verdict mode: data passes directly between processes; ports count the packets that it stands for."));
  }

  links(cables, title) {
    const list = el("tbody");
    const rows = cables.slice(0, ROWS_MAX).map((cable) => {
      const [state, traffic] = [el("td"), el("td.num")];
      list.append(el("tr", {}, el("td", {}, el("button.link", { type: "button", onclick: () => this.select({ cables: [cable] }) }, cableName(store.fabric, cable))), state, traffic));
      return { cable, state, traffic };
    });
    const live = () => {
      for (const { cable, state, traffic } of rows) {
        const word = store.fabric.classes[cable.cls][0];
        if (state.dataset.word !== word) { state.dataset.word = word; state.replaceChildren(el(`span.state.${word}`, {}, word)); }
        const text = bytes(cable.ab + cable.ba);
        if (traffic.textContent !== text) traffic.textContent = text;
      }
    };
    const more = cables.length > ROWS_MAX ? el("p.quiet", {}, `and ${cables.length - ROWS_MAX} more: filter the table of links`) : null;
    return [el("div", {}, el("h3", {}, title), el("div.scroll", {}, el("table", {}, list)), more || ""), live];
  }

  cables(cables) {
    const sorted = [...cables].sort((x, y) => y.cls - x.cls || load(y) - load(x));
    const [list, live] = this.links(sorted, "The worst and the busiest first");
    this.box.replaceChildren(el("h2", {}, plural(cables.length, "cable")), list);
    this.live = live;
  }

  cable(cable) {
    const { fabric } = store;
    const [a, b] = [fabric.nodes[cable.a], fabric.nodes[cable.b]];
    const ends = { a: { node: a.name, port: cable.pa }, b: { node: b.name, port: cable.pb } };
    const change = (to, more) => ({ kind: "cable", ...ends, change: { to, ...more } });
    const open = (node) => el("button.link", { type: "button", onclick: () => this.select({ node }) }, node.name);
    const values = ["State", "Rate", `${a.name} sends`, `${b.name} sends`, "Share of rate", "Errors", "Times down", "Faults"].map((name) => ({ name, cell: el("dd") }));
    const list = el("dl", {}, ...pair("Ends", el("span", {}, open(a), `:${cable.pa} \u2013 `, open(b), `:${cable.pb}`)), ...values.flatMap(({ name, cell }) => [el("dt", {}, name), cell]));
    const curve = el("div");
    const width = el("select", { "aria-label": "Width" }, ...WIDTHS.map((word) => el("option", { selected: word === "1x" }, word)));
    const speed = el("select", { "aria-label": "Speed" }, el("option", { value: "" }, "any speed"), ...SPEEDS.map((word) => el("option", {}, word)));
    const errors = el("input", { type: "number", min: 0, max: 1000000, value: 10000, "aria-label": "Damaged packets per million" });
    const drop = el("input", { type: "number", min: 0, max: 1000000, value: 100000, "aria-label": "Dropped datagrams per million" });
    const cut = button("Cut", () => change("cut"), true);
    const join = button("Join", () => change("join"), true);
    const plugged = [
      button("Flap", () => change("flap", { ms: 1000 })),
      button("Degrade", () => change("degrade", { lanes: parseInt(width.value, 10), speed: speed.value || null })),
      button("Damage", () => change("errors", { ppm: Number(errors.value) })),
      button("Drop", () => change("drop", { ppm: Number(drop.value) })),
      button("Repair", () => change("mend")),
    ];
    const [flap, degrade, damage, lose, mend] = plugged;
    this.box.replaceChildren(
      el("h2", {}, cableName(fabric, cable)), list, curve,
      el("fieldset", {}, el("legend", {}, "Cable"), el("div.buttons", {}, cut, join, flap, mend)),
      el("fieldset", {}, el("legend", {}, "Limit it to"), el("div.buttons", {}, width, speed, degrade)),
      el("fieldset", {}, el("legend", {}, "Damage packets, per million"), el("div.buttons", {}, errors, damage)),
      el("fieldset", {}, el("legend", {}, "Drop management datagrams, per million"), el("div.buttons", {}, drop, lose)));
    this.live = () => {
      const word = fabric.classes[cable.cls];
      const isCut = word[0] === "cut";
      const faults = [cable.limited ? "limited" : "", cable.err ? `damages ${cable.err} ppm` : "", cable.drop ? `drops ${cable.drop} ppm` : ""].filter(Boolean);
      const texts = [word[1], rate(cable.rate), bytes(cable.ab), bytes(cable.ba), percent(share(cable)), number(cable.errors), number(cable.downed), faults.join(", ") || "none"];
      values.forEach(({ cell }, at) => { if (cell.textContent !== texts[at]) cell.textContent = texts[at]; });
      values[0].cell.className = `state ${word[0]}`;
      cut.hidden = isCut;
      join.hidden = !isCut;
      for (const made of plugged) made.disabled = isCut || store.readOnly;
      curve.replaceChildren(cable.past ? spark(cable.past) : "");
    };
  }

  node(node) {
    const change = (to, more) => ({ kind: "node", name: node.name, change: { to, ...more } });
    const values = ["Power", "LID", "Agents", "Programs"].map((name) => ({ name, cell: el("dd") }));
    const list = el("dl", {}, ...pair("Kind", node.kind), ...pair("Description", node.description || "-"), ...(node.host ? pair("Host", node.host) : []), ...pair("Ports", String(node.ports)), ...values.flatMap(({ name, cell }) => [el("dt", {}, name), cell]));
    const delay = el("input", { type: "number", min: 0, max: 3600000, value: 3000, "aria-label": "Delay in milliseconds" });
    const off = button("Power off", () => change("off"), true);
    const onAgain = button("Power on", () => change("on"), true);
    const reboot = button("Reboot", () => change("reboot", { ms: 1000 }));
    const agents = [button("Silence", () => change("agent", { silent: true, ms: 0 })), button("Delay", () => change("agent", { silent: false, ms: Number(delay.value) })), button("Restore", () => change("agent", { silent: false, ms: 0 }))];
    const cables = node.cables.filter((cable) => !cable.hidden);
    const [links, live] = this.links(cables, plural(cables.length, "cable"));
    this.box.replaceChildren(
      el("h2", {}, node.name), list,
      el("fieldset", {}, el("legend", {}, "Power"), el("div.buttons", {}, off, onAgain, reboot)),
      el("fieldset", {}, el("legend", {}, "Management agents (delay in ms)"), el("div.buttons", {}, agents[0], delay, agents[1], agents[2])),
      links);
    this.live = () => {
      const programs = node.programs.map(([, pid, comm]) => `${comm} (${pid})`).join(", ");
      const texts = [node.on ? "on" : "off", node.lid ? String(node.lid) : "none yet", node.fault ? "answer wrongly, late or not at all" : "correct", programs || "none"];
      values.forEach(({ cell }, at) => { if (cell.textContent !== texts[at]) cell.textContent = texts[at]; });
      off.hidden = !node.on;
      onAgain.hidden = node.on;
      reboot.disabled = !node.on || store.readOnly;
      live();
    };
  }

  item(item) {
    const nodes = item.n.map((at) => store.fabric.nodes[at]);
    const list = el("tbody");
    const rows = [];
    const fill = (word) => {
      list.replaceChildren();
      rows.length = 0;
      for (const node of nodes.filter((other) => other.name.includes(word)).slice(0, ROWS_MAX)) {
        const state = el("td");
        list.append(el("tr", {}, el("td", {}, el("button.link", { type: "button", onclick: () => this.select({ node }) }, node.name)), state));
        rows.push({ node, state });
      }
      this.live();
    };
    const filter = el("input", { type: "search", "aria-label": "Filter names", placeholder: "filter names", oninput: () => fill(filter.value) });
    const more = nodes.length > ROWS_MAX ? el("p.quiet", {}, `at most ${ROWS_MAX} of ${nodes.length} are listed: filter them`) : null;
    this.box.replaceChildren(el("h2", {}, plural(nodes.length, nodes[0].kind)), el("p.quiet", {}, item.t.slice(0, 300)), filter, el("table", {}, list), more || "");
    this.live = () => {
      for (const { node, state } of rows) {
        const bad = node.cables.filter(isBad).length;
        const text = [node.on ? "" : "off", bad ? `${plural(bad, "bad link")}` : "", node.programs.length ? plural(node.programs.length, "program") : ""].filter(Boolean).join(", ") || "well";
        if (state.textContent !== text) state.textContent = text;
      }
    };
    fill("");
  }
}
