// The last state that the server sent, and the stream of events that keeps it up to date.

const SPARK_SAMPLES = 120;
const LOG_MAX = 1000;
const FINE_MAX = 600;

export const store = {
  live: false, daemon: null, readOnly: false, fabric: null, machine: null, managers: { managers: [], routings: [] },
  log: [], fine: [], minutes: [],
};

const listeners = new Map();

// Calls a handler after events of these names.
export function on(names, handler) {
  for (const name of names.split(" ")) {
    if (!listeners.has(name)) listeners.set(name, []);
    listeners.get(name).push(handler);
  }
}

function tell(name, detail) { for (const handler of listeners.get(name) || []) handler(detail); }

export function load(cable) { return Math.max(cable.ab, cable.ba); }
export function share(cable) { return cable.rate ? load(cable) * 8 / (cable.rate * 1e8) : 0; }
export function isBad(cable) { return cable.cls >= 3 || cable.drop > 0; }
export function end(fabric, cable, second) { return second ? `${fabric.nodes[cable.b].name}:${cable.pb}` : `${fabric.nodes[cable.a].name}:${cable.pa}`; }
export function cableName(fabric, cable) { return `${end(fabric, cable, false)} \u2013 ${end(fabric, cable, true)}`; }

function setCable(cable, row) {
  if (row[1] < 0) { cable.hidden = true; return; }
  [, cable.cls, cable.state, cable.rate, cable.err, cable.drop, cable.limited] = row;
}

function setLoad(cable, row) {
  [, cable.ab, cable.ba, cable.pab, cable.pba, cable.errors, cable.downed] = row;
}

function setNode(node, flags, lid) { node.on = (flags & 1) !== 0; node.fault = (flags & 2) !== 0; node.lid = lid; }

function parse(data) {
  const nodes = data.nodes.map(([name, kind, host, ports, flags, lid, description], index) => {
    const node = { index, name, kind, host, ports, description, cables: [], programs: [] };
    setNode(node, flags, lid);
    return node;
  });
  const cables = data.cables.map(([a, pa, b, pb], index) => ({
    index, a, pa, b, pb, cls: 0, state: "", rate: 0, err: 0, drop: 0, limited: 0, ab: 0, ba: 0, pab: 0, pba: 0,
    errors: 0, downed: 0, hidden: false, past: null,
  }));
  for (const row of data.states) setCable(cables[row[0]], row);
  for (const row of data.loads) setLoad(cables[row[0]], row);
  for (const cable of cables) if (!cable.hidden) { nodes[cable.a].cables.push(cable); nodes[cable.b].cables.push(cable); }
  const byName = new Map(nodes.map((node) => [node.name, node]));
  return { number: data.number, title: data.title, packets: data.packets, nodes, cables, byName, items: data.items,
    frames: data.frames, straightMax: data.straight_max, classes: data.classes };
}

function remember(fabric) {
  for (const cable of fabric.cables) {
    if (!cable.past) {
      if (load(cable) === 0) continue;
      cable.past = [];
    }
    cable.past.push([cable.ab, cable.ba]);
    if (cable.past.length > SPARK_SAMPLES) cable.past.shift();
    if (cable.past.every(([ab, ba]) => ab === 0 && ba === 0)) cable.past = null;
  }
}

function setPrograms() {
  const { fabric, machine } = store;
  if (!fabric || !machine) return;
  const hosts = new Map();
  for (const node of fabric.nodes) {
    node.programs = [];
    if (node.host) { if (!hosts.has(node.host)) hosts.set(node.host, []); hosts.get(node.host).push(node); }
  }
  for (const row of machine.programs) for (const node of hosts.get(row[0]) || []) node.programs.push(row);
}

const handlers = {
  daemon(data) { store.daemon = data.daemon; store.readOnly = data.read_only; },
  fabric(data) {
    const old = store.fabric;
    store.fabric = data ? parse(data) : null;
    // The same fabric with a new cable keeps its curves.
    if (old && store.fabric && old.number === store.fabric.number) {
      old.cables.forEach((cable, at) => { if (store.fabric.cables[at]) store.fabric.cables[at].past = cable.past; });
    }
    setPrograms();
  },
  state(data) {
    if (!store.fabric) return;
    for (const [at, flags, lid] of data.nodes) setNode(store.fabric.nodes[at], flags, lid);
    for (const row of data.cables) setCable(store.fabric.cables[row[0]], row);
  },
  load(data) {
    if (!store.fabric) return;
    for (const row of data.cables) setLoad(store.fabric.cables[row[0]], row);
    remember(store.fabric);
  },
  machine(data) { store.machine = data; setPrograms(); },
  managers(data) { store.managers = data; },
  log(data) {
    store.log = data.all ? data.entries : store.log.concat(data.entries).slice(-LOG_MAX);
  },
  history(data) { store.fine = data.fine; store.minutes = data.minutes; },
  sample(data) {
    store.fine.push(data);
    if (store.fine.length > FINE_MAX) store.fine.shift();
  },
};

export function connect() {
  const source = new EventSource("/api/events");
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => {
      const data = JSON.parse(event.data);
      handler(data);
      tell(name, data);
    });
  }
  source.onopen = () => { store.live = true; tell("live"); };
  source.onerror = () => {
    store.live = false;
    store.ended = source.readyState === EventSource.CLOSED;
    tell("live");
  };
}
