// The machine without a fabric, as a drawing: programs, their adapters, and the peers at the other ends.

import { svg, by, bytes } from "./dom.js";

const ROW = 46;
const BOX = [190, 32];
const COLUMNS = [110, 430, 750];
const ENDS_MAX = 24;

function sum(flow) { return flow.sent + flow.received + flow.copied; }

// Flows of a machine as three columns of ends and lines between them.
export function drawFlows(machine) {
  const ends = [new Map(), new Map(), new Map()];
  const broken = machine.breaks.length ? machine.breaks[0] : null;
  const add = (column, key, name, small) => {
    if (!ends[column].has(key) && ends[column].size < ENDS_MAX) ends[column].set(key, { name, small, column, at: ends[column].size, key });
    return ends[column].get(key);
  };
  for (const adapter of machine.adapters) {
    if (!adapter.host) add(1, adapter.name, adapter.name, `${adapter.kind} on ${adapter.netdev || "no interface"}${adapter.up ? "" : ", down"}`);
  }
  const lines = new Map();
  const join = (a, b, value) => {
    if (!a || !b) return;
    const key = `${a.column} ${a.key} ${b.key}`;
    const line = lines.get(key) || { a, b, value: 0 };
    line.value += value;
    lines.set(key, line);
  };
  for (const flow of machine.flows) {
    if (flow.host) continue;
    const program = add(0, String(flow.pid) + flow.comm, flow.comm, `pid ${flow.pid}`);
    const peer = add(2, flow.peer, flow.peer, flow.path);
    join(program, add(1, flow.device, flow.device, ""), sum(flow));
    join(add(1, flow.device, flow.device, ""), peer, sum(flow));
  }
  const rows = Math.max(...ends.map((column) => column.size), 1);
  const height = rows * ROW + 46;
  const place = (end) => [COLUMNS[end.column], 46 + ROW * (end.at + 0.5) + ROW * (rows - ends[end.column].size) / 2];
  const root = svg("svg", { viewBox: `0 0 860 ${height}`, role: "img", "aria-label": `${ends[0].size} programs, ${ends[1].size} adapters, ${ends[2].size} peers` });
  ["Programs", "Adapters", "Peers"].forEach((text, at) => root.append(svg("text", { x: COLUMNS[at], y: 22, "text-anchor": "middle" }, text)));
  for (const { a, b, value } of lines.values()) {
    const [[x1, y1], [x2, y2]] = [place(a), place(b)];
    const [from, to] = [x1 + BOX[0] / 2, x2 - BOX[0] / 2];
    const width = value ? Math.min(1.5 + Math.log10(1 + value / 1000), 9) : 1.5;
    const path = svg(value ? "path.flow" : "path.flow.still", { d: `M${from} ${y1}C${from + 50} ${y1} ${to - 50} ${y2} ${to} ${y2}` }, svg("title", {}, bytes(value)));
    path.style.strokeWidth = width;
    root.append(path, svg("text.value", { x: (from + to) / 2, y: (y1 + y2) / 2 - width / 2 - 4, "text-anchor": "middle" }, value ? bytes(value) : "no traffic"));
  }
  const kinds = ["program", "adapter", "peer"];
  for (const column of ends) {
    for (const end of column.values()) {
      const [x, y] = place(end);
      const isBroken = broken && ((end.column === 2 && end.key === broken.peer) || (end.column === 1 && end.key === broken.device));
      root.append(svg(`g.end.${kinds[end.column]}${isBroken ? ".broken" : ""}`, { transform: `translate(${x} ${y})` },
        svg("rect", { x: -BOX[0] / 2, y: -BOX[1] / 2, width: BOX[0], height: BOX[1], rx: 5 }),
        svg("text", { "text-anchor": "middle", y: end.small ? -2 : 4 }, end.name.slice(0, 26)),
        svg("text.small", { "text-anchor": "middle", y: 11 }, (end.small || "").slice(0, 32))));
    }
  }
  by("stage").className = "flows";
  by("stage").replaceChildren(root);
}
