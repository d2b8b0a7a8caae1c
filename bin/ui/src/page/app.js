// The page: joins the stream of events with the drawing, the selection and the tables.

import { el, by, bytes, plural } from "./dom.js";
import { store, on, connect } from "./state.js";
import { Drawing, legend } from "./drawing.js";
import { Detail } from "./detail.js";
import { Tabs } from "./tables.js";
import { drawFlows } from "./flows.js";

// The token has become a cookie: the address need not keep it.
history.replaceState(null, "", "/");

let selection = null;
const drawing = new Drawing(select);
const detail = new Detail(select);
const tabs = new Tabs(select);

function select(wanted) {
  selection = wanted;
  drawing.mark(selection);
  detail.show(selection);
}

// Finds the selection again in a fabric that was sent anew.
function again() {
  const { fabric } = store;
  if (!fabric || !selection) return null;
  if (selection.node) { const node = fabric.byName.get(selection.node.name); return node ? { node } : null; }
  if (selection.cables) {
    const cables = selection.cables.map((cable) => fabric.cables[cable.index]).filter((cable, at) => cable && cable.a === selection.cables[at].a && cable.pa === selection.cables[at].pa);
    return cables.length ? { cables } : null;
  }
  return null;
}

function fact(value, name, isBad) { return el(isBad ? "li.bad" : "li", {}, el("b", {}, value), ` ${name}`); }

function facts() {
  const { fabric, machine, fine } = store;
  const last = fine.length ? fine[fine.length - 1] : null;
  const list = [];
  if (fabric) {
    const count = (kind) => fabric.nodes.filter((node) => node.kind === kind).length;
    const cables = fabric.cables.filter((cable) => !cable.hidden);
    const bad = cables.filter((cable) => cable.cls >= 3).length;
    const waiting = cables.filter((cable) => cable.cls === 1 || cable.cls === 2).length;
    const off = fabric.nodes.filter((node) => !node.on).length;
    list.push(fact(count("host").toLocaleString("en"), count("host") === 1 ? "adapter" : "adapters"), fact(count("switch").toLocaleString("en"), count("switch") === 1 ? "switch" : "switches"),
      fact((cables.length - bad - waiting).toLocaleString("en"), "links well"));
    if (waiting) list.push(fact(waiting.toLocaleString("en"), "not managed"));
    if (bad) list.push(fact(bad.toLocaleString("en"), "links with a fault", true));
    if (off) list.push(fact(off.toLocaleString("en"), off === 1 ? "node without power" : "nodes without power", true));
  } else if (machine) {
    const own = machine.adapters.filter((row) => !row.host);
    list.push(fact(own.length, own.length === 1 ? "adapter" : "adapters"), fact(machine.programs.length, machine.programs.length === 1 ? "program" : "programs"), fact(machine.qps_total, "queue pairs"));
  }
  if (last) list.push(fact(bytes(last.bytes), "sent"));
  const text = list.map((item) => item.textContent).join();
  if (facts.text !== text) by("facts").replaceChildren(...list);
  facts.text = text;
}

function scene() {
  const { fabric, machine } = store;
  tabs.offer();
  document.title = fabric ? `${fabric.title} - Weft` : "Weft";
  by("title").textContent = fabric ? fabric.title : store.daemon ? "this machine" : "";
  for (const id of ["find", "zoom-in", "zoom-out", "zoom-fit"]) by(id).hidden = !fabric;
  by("hint").hidden = !fabric;
  by("legend").hidden = !fabric;
  by("detail").hidden = !fabric;
  document.querySelector("main").classList.toggle("alone", !fabric);
  if (fabric) {
    drawing.build(fabric);
    legend(fabric);
    by("find-names").replaceChildren(...fabric.nodes.slice(0, 3000).map((node) => el("option", { value: node.name })));
    select(again());
  } else if (store.daemon && machine) {
    drawFlows(machine);
  } else {
    by("stage").className = "flows";
    by("stage").replaceChildren(el("p.quiet.empty", {}, "No daemon runs in this network namespace. It starts with the first program: weft run -- PROGRAM, or with a fabric: weft up --fat-tree 4,2"));
  }
  facts();
}

on("fabric", scene);
on("daemon", () => { if (!store.fabric) scene(); });
on("state", (data) => {
  drawing.paintCables(data.cables);
  drawing.paintNodes(data.nodes);
  detail.live && detail.live();
  facts();
});
on("load", (data) => { drawing.paintCables(data.cables); if (detail.live) detail.live(); });
on("sample history", facts);
on("machine", () => {
  if (!store.fabric) { if (store.daemon && !document.hidden) drawFlows(store.machine); return; }
  for (const item of drawing.items) drawing.paintItem(item);
  if (detail.live) detail.live();
});
for (const name of ["fabric", "state", "load", "machine", "managers", "log", "history", "sample"]) on(name, () => tabs.on(name));
on("live", () => {
  const box = by("live");
  box.classList.toggle("lost", !store.live);
  box.textContent = store.live ? (store.readOnly ? "live, read-only" : "live") : store.ended ? "ended: start weft ui again, and open its new address" : "connection lost, trying again";
});

by("zoom-in").addEventListener("click", () => drawing.zoom(0.8));
by("zoom-out").addEventListener("click", () => drawing.zoom(1.25));
by("zoom-fit").addEventListener("click", () => drawing.fit());
by("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const node = store.fabric && store.fabric.byName.get(by("find-name").value.trim());
  if (node) select({ node });
});
by("find-name").addEventListener("change", () => by("find").requestSubmit());

connect();
