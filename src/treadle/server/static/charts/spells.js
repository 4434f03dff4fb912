// Who held which devices, in columns that the chart of devices draws: tens of thousands of spells.
//
// { rows, nodes: [[name, devices]], from, to, job (a place among the jobs), starts and spans (where
//   the rows of a spell begin in `spans`: their number, then first and count of each band), turn
//   and turns (a device that is shared is cut into `turns` parts) }, in order of `from`

const TURNS_MAX = 64; // of one device at one time; more are drawn over each other

/** Spells of the API: [{ job, devices, from, to }] on nodes [{ name, devices }]. */
export function columnsOf(spells, nodes) {
  const ordered = [...spells].sort((one, other) => one.from - other.from);
  const rowsOfNode = layout(ordered, nodes);
  const places = new Map();
  const jobs = [];
  const spans = [];
  const starts = new Uint32Array(ordered.length);
  const rowsOf = ordered.map(({ devices }) => [...new Set(devices.map((name) => rowOf(rowsOfNode, name)))].sort((a, b) => a - b));
  const job = ordered.map((spell, index) => {
    if (!places.has(spell.job)) {
      places.set(spell.job, jobs.length);
      jobs.push(spell.job);
    }
    const bands = bandsOf(rowsOf[index]);
    starts[index] = spans.length;
    spans.push(bands.length);
    for (const band of bands) spans.push(...band);
    return places.get(spell.job);
  });
  const columns = {
    rows: [...rowsOfNode.values()].reduce((sum, [, count]) => sum + count, 0),
    nodes: [...rowsOfNode].map(([name, [, count]]) => [name, count]),
    from: ordered.map(({ from }) => from), to: ordered.map(({ to }) => to),
    job, jobs, spells: ordered, starts, spans,
  };
  return { ...columns, ...lanes(columns, rowsOf) };
}

/** node -> its first row and its number of rows; nodes that only spells name come last. */
export function layout(spells, nodes) {
  const counts = new Map(nodes.map(({ name, devices }) => [name, devices]));
  for (const { devices } of spells) {
    for (const name of devices) {
      const [node, number] = parted(name);
      counts.set(node, Math.max(counts.get(node) ?? 0, number + 1));
    }
  }
  let row = 0;
  return new Map([...counts].map(([name, count]) => {
    row += count;
    return [name, [row - count, count]];
  }));
}

function parted(device) {
  const at = device.lastIndexOf(":");
  return [device.slice(0, at), Number(device.slice(at + 1)) || 0];
}

function rowOf(rowsOfNode, device) {
  const [node, number] = parted(device);
  return rowsOfNode.get(node)[0] + number;
}

function bandsOf(rows) {
  const bands = [];
  for (const row of rows) {
    const last = bands.at(-1);
    if (last && last[0] + last[1] === row) last[1] += 1;
    else bands.push([row, 1]);
  }
  return bands;
}

// Spells that hold a device at the same time are drawn beside each other in its row.
function lanes({ from, to, rows }, rowsOf) {
  const turn = new Array(from.length).fill(0);
  const turns = new Array(from.length).fill(1);
  const open = Array.from({ length: rows }, () => []);
  for (let index = 0; index < from.length; index += 1) {
    const beside = new Set();
    for (const row of rowsOf[index]) {
      open[row] = open[row].filter((other) => to[other] > from[index] + 1e-9);
      for (const other of open[row]) beside.add(other);
      open[row] = [...open[row].slice(1 - TURNS_MAX), index];
    }
    const taken = new Set([...beside].map((other) => turn[other]));
    while (taken.has(turn[index])) turn[index] += 1;
    let most = turn[index] + 1;
    for (const other of beside) most = Math.max(most, turns[other]);
    for (const each of [index, ...beside]) turns[each] = most;
  }
  return { turn, turns };
}

/** Bands of rows of one spell: visit(first row, rows). */
export function eachBand(columns, index, visit) {
  const start = columns.starts[index];
  const [turn, turns] = [columns.turn[index], columns.turns[index]];
  for (let at = start + 1; at < start + 1 + 2 * columns.spans[start]; at += 2) {
    const [first, rows] = [columns.spans[at], columns.spans[at + 1]];
    if (turns === 1) visit(first, rows);
    else for (let row = first; row < first + rows; row += 1) visit(row + turn / turns, 1 / turns);
  }
}

/** Devices of one spell. */
export function sizeOf({ starts, spans }, index) {
  let size = 0;
  for (let at = starts[index] + 1; at < starts[index] + 1 + 2 * spans[starts[index]]; at += 2) size += spans[at + 1];
  return size;
}
