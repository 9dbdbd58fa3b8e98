// Connections of Multipath TCP: figures of the subflows, and graphs of the whole connection by subflow.

function multipath(head) {
  const host = document.getElementById("multipath");
  if (!head.mptcp.length) return;
  host.append(el("h2", { id: "mptcp" }, "Multipath TCP"), subflowTable(head.mptcp));
  const drawn = head.mptcp.filter(connection => connection.mappings.some(way => way.t.length > 1));
  if (!drawn.length) return;
  const graphs = el("div", {}), bar = el("div", { class: "bar", role: "group", "aria-label": "Connection and direction" });
  const volume = (connection, d) => connection.directions[d].bytes;
  const most = drawn.reduce((best, one) => volume(one, 0) + volume(one, 1) > volume(best, 0) + volume(best, 1) ? one : best);
  let chosen = most, way = volume(most, 1) > volume(most, 0) ? 1 : 0;
  const ways = ["From the client", "To the client"].map((name, d) => el("button", { type: "button", onclick: () => { way = d; show(); } }, name));
  if (drawn.length > 1) {
    const select = el("select", { onchange: event => { chosen = drawn[event.target.selectedIndex]; way = volume(chosen, 1) > volume(chosen, 0) ? 1 : 0; show(); } }, ...drawn.map(one => el("option", {}, `Connection ${one.id}, ${bytes(volume(one, 0) + volume(one, 1))}`)));
    select.selectedIndex = drawn.indexOf(chosen);
    bar.append(el("label", {}, "Show ", select));
  }
  bar.append(...ways);
  host.append(bar, graphs);
  function show() {
    ways.forEach((button, d) => { button.setAttribute("aria-pressed", String(d === way)); button.disabled = chosen.mappings[d].t.length < 2; });
    graphs.replaceChildren();
    connectionGraphs(graphs, chosen, way);
  }
  show();
}

function subflowTable(connections) {
  const way = d => d.bytes ? `${bytes(d.bytes)} (${percent(d.share)})` : missing, again = d => d.reinjected_bytes ? bytes(d.reinjected_bytes) : "0";
  const bar = d => el("span", { class: "share", role: "img", "aria-label": percent(d.share), style: `--share: ${(100 * (d.share ?? 0)).toFixed(1)}%` });
  const rows = connections.flatMap(connection => connection.subflows.map((subflow, i) => el("tr", {}, el("td", {}, i ? "" : String(connection.id)), el("td", {}, i ? "" : String(connection.version ?? missing)), el("td", { class: "t" }, `${subflow.client} → ${subflow.server}`), el("td", { class: "t" }, subflow.joined ? "joined" : "first"),
    ...subflow.directions.flatMap(d => [el("td", {}, way(d), bar(d)), el("td", {}, again(d))]), ...connection.directions.map(d => el("td", {}, i || !d.out_of_order_delay ? "" : `${count(d.out_of_order)}, ${ms(d.out_of_order_delay.p95_ms)}`)))));
  const names = [["Connection"], ["Version"], ["Subflow"], [""], ["From the client", "share"], ["reinjected"], ["To the client", "share"], ["reinjected"], ["Out of order", "from the client; wait, 95 %"], ["Out of order", "to the client; wait, 95 %"]];
  return el("div", { class: "scroll rows" }, el("table", {}, el("thead", {}, el("tr", {}, ...names.map(([name, note], i) => el("th", { class: i === 2 || i === 3 ? "t" : null }, name, note ? el("small", {}, note) : null)))), el("tbody", {}, ...rows)));
}

// Subflows have colours of their own, as in mptcptrace.
const PATHS = ["accent", "fast", "ack", "sack", "tlp", "window", "late", "unclear"];
const path = subflow => PATHS[subflow % PATHS.length];
const NEWS = ["", "reinjected: another subflow had carried it", "again on the same subflow"];

// The columns of multipath.rs as times, positions and subflows.
function readMappings(columns) {
  const n = columns.t.length, found = { n, t: new Float64Array(n), clock: new Float64Array(n), pos: new Float64Array(n), len: columns.n, subflow: new Uint16Array(n), news: new Uint8Array(n) };
  let time = 0, next = 0;
  for (let i = 0; i < n; i++) {
    time += columns.t[i];
    found.t[i] = time / 1e6;
    found.clock[i] = i > 0 ? Math.max(found.clock[i - 1], found.t[i]) : found.t[i];
    found.pos[i] = next + columns.p[i];
    next = found.pos[i] + columns.n[i];
    found.subflow[i] = columns.k[i] >> 2;
    found.news[i] = columns.k[i] & 3;
  }
  return found;
}

function connectionGraphs(host, connection, way) {
  const points = readMappings(connection.mappings[way]);
  if (points.n < 2) return;
  const view = new View(points.clock[0], points.clock[points.n - 1]);
  const names = connection.subflows.map((subflow, i) => `${i + 1}: ${subflow.client.replace(/:\d+$/, "")} → ${subflow.server.replace(/:\d+$/, "")}`);
  if (connection.mappings_left_out) host.append(el("p", { class: "finding" }, `${count(connection.mappings_left_out)} later packets are not drawn.`));
  dataSequencePlot(host, points, view, names);
  sharePlot(host, points, view, names);
  waitPlot(host, connection.waits[way]);
  view.changed();
}

function dataSequencePlot(host, points, view, names) {
  const range = (x0, x1) => [lowerBound(points.clock, x0), Math.min(points.n, lowerBound(points.clock, x1) + 1)];
  const tell = i => `${fixed(points.t[i], 6)} s  subflow ${names[points.subflow[i]]}\ndata ${count(points.pos[i])} – ${count(points.pos[i] + points.len[i])}  (${count(points.len[i])} B)${points.news[i] ? `\n${NEWS[points.news[i]]}` : ""}`;
  new Plot(host, {
    title: "Data sequence numbers by subflow", height: 340, view, unit: y => bytes(y), time: null, boxZoom: true,
    keys: [...names.map((name, i) => [name, path(i)]), ["R reinjected", "spurious"]],
    extent: (x0, x1) => {
      const [from, to] = range(x0, x1);
      let low = Infinity, high = -Infinity;
      for (let i = from; i < to; i++) { low = Math.min(low, points.pos[i]); high = Math.max(high, points.pos[i] + points.len[i]); }
      if (low > high) return [0, 1];
      const whole = Math.max(high - low, 100);
      return [low - whole * 0.04, high + whole * 0.07];
    },
    paint: f => {
      const [from, to] = range(f.x0, f.x1), { g } = f;
      for (let subflow = 0; subflow < names.length; subflow++) {
        g.fillStyle = colour(path(subflow));
        const bars = new Bars(g, 2);
        for (let i = from; i < to; i++) if (points.subflow[i] === subflow && !points.news[i]) bars.add(f.X(points.t[i]), f.Y(points.pos[i] + points.len[i]), f.Y(points.pos[i]));
        bars.flush();
      }
      let last = [-99, 0];
      for (let i = from; i < to; i++) {
        if (!points.news[i]) continue;
        const x = f.X(points.t[i]), top = f.Y(points.pos[i] + points.len[i]), tone = points.news[i] === 1 ? "spurious" : "quiet";
        g.fillStyle = colour(tone);
        g.fillRect(x - 1.25, top, 2.5, Math.max(3, f.Y(points.pos[i]) - top));
        if (points.news[i] === 1 && Math.hypot(x - last[0], top - last[1]) > 13) { letter(f, "R", x, top - 8, tone); last = [x, top]; }
      }
    },
    hover: (f, x, y) => {
      let best = null, distance = 400;
      const from = lowerBound(points.clock, f.toX(x - 20)), to = lowerBound(points.clock, f.toX(x + 20)), stride = Math.max(1, Math.floor((to - from) / 4000));
      for (let i = from; i < to; i += stride) {
        const top = f.Y(points.pos[i] + points.len[i]), bottom = f.Y(points.pos[i]), dx = f.X(points.t[i]) - x, dy = y < top ? top - y : y > bottom ? y - bottom : 0;
        if (dx * dx + dy * dy < distance) { distance = dx * dx + dy * dy; best = { x: points.t[i], y: points.pos[i] + points.len[i], text: tell(i) }; }
      }
      return best;
    },
    read: (x0, x1) => {
      const [from, to] = range(x0, x1), sums = names.map(() => 0);
      let again = 0;
      for (let i = from; i < to; i++) if (points.news[i] === 1) again += points.len[i]; else if (!points.news[i]) sums[points.subflow[i]] += points.len[i];
      return `In view: ${names.map((name, i) => `subflow ${name}: ${bytes(sums[i])}`).join(", ")}; reinjected ${bytes(again)}.`;
    },
    next: (x, step) => {
      const tiny = (view.range[1] - view.range[0]) * 1e-4;
      for (let i = step > 0 ? lowerBound(points.clock, x + tiny) : lowerBound(points.clock, x - tiny) - 1; i >= 0 && i < points.n; i += step) {
        if (points.news[i] || (i > 0 && points.subflow[i] !== points.subflow[i - 1])) return { x: points.t[i], y: points.pos[i] + points.len[i], text: tell(i) };
      }
      return null;
    },
  });
}

// What each subflow carried, one above the other.
function sharePlot(host, points, view, names) {
  let cache = null;
  function bins(x0, x1) {
    const width = binWidth(x1 - x0, 120), first = Math.floor(x0 / width), n = Math.ceil(x1 / width) - first + 1;
    if (cache && cache.first === first && cache.n === n && cache.width === width) return cache;
    const carried = names.map(() => new Float64Array(n)), low = lowerBound(points.clock, first * width), high = lowerBound(points.clock, (first + n) * width);
    for (let i = low; i < high; i++) if (!points.news[i]) carried[points.subflow[i]][Math.min(n - 1, Math.max(0, Math.floor(points.t[i] / width) - first))] += points.len[i] * 8 / width;
    const whole = Float64Array.from({ length: n }, (_, i) => carried.reduce((sum, one) => sum + one[i], 0));
    return cache = { first, n, width, carried, whole };
  }
  new Plot(host, {
    title: "Throughput by subflow", height: 150, view, unit: y => y === 0 ? "0" : rate(y), time: seconds,
    extent: (x0, x1) => [0, Math.max(1, ...bins(x0, x1).whole) * 1.08],
    paint: f => {
      const b = bins(f.x0, f.x1), w = b.width * f.kx, below = new Float64Array(b.n);
      b.carried.forEach((values, subflow) => {
        f.g.fillStyle = colour(path(subflow));
        for (let i = 0; i < b.n; i++) {
          if (!(values[i] > 0)) continue;
          const top = f.Y(below[i] + values[i]);
          f.g.fillRect(f.X((b.first + i) * b.width), top, w > 3 ? w - 0.6 : w, f.Y(below[i]) - top);
          below[i] += values[i];
        }
      });
    },
    hover: (f, x) => {
      const b = bins(f.x0, f.x1), i = Math.floor(f.toX(x) / b.width) - b.first;
      if (i < 0 || i >= b.n) return null;
      return { x: (b.first + i + 0.5) * b.width, y: b.whole[i], text: `${fixed((b.first + i) * b.width, 3)} s, ${duration(b.width)} wide\n` + names.map((name, k) => `${name}: ${rate(b.carried[k][i])}${b.whole[i] ? ` (${percent(b.carried[k][i] / b.whole[i])})` : ""}`).join("\n") };
    },
    read: (x0, x1) => { const b = bins(x0, x1); return names.map((name, k) => `${name}: ${rate(b.carried[k].reduce((sum, v) => sum + v, 0) / b.n)} on average`).join("; "); },
  });
}

// The share of mappings that wait longer than a time: [MP]'s curve of out-of-order delay.
function waitPlot(host, { n, late_n: late, late: sorted }) {
  if (!late) {
    if (n) host.append(el("p", { class: "soft" }, "Everything came in the order of its data sequence numbers."));
    return;
  }
  const points = sorted.length, longest = sorted[points - 1], first = Math.max(sorted[0], longest * 1e-4);
  // The share that waits longer than the i-th wait.
  const share = i => late / n * (points - 1 - i) / points;
  const view = new View(Math.log10(first), Math.log10(longest) + 0.02);
  new Plot(host, {
    title: "Wait until in order by data sequence number: share of mappings that wait longer", height: 190, view, extent: () => [0, 1.08 * late / n], unit: y => `${digits(y * 100)} %`, time: x => `${digits(10 ** x)} ms`,
    paint: f => {
      f.g.strokeStyle = colour("sack");
      f.g.lineWidth = 1.8;
      const steps = new Steps(f.g);
      steps.add(f.left, f.Y(late / n));
      for (let i = 0; i < points; i++) steps.add(f.X(Math.log10(Math.max(sorted[i], first))), f.Y(share(i)));
      steps.stroke(f.right);
    },
    hover: (f, x) => { const wait = 10 ** f.toX(x), longer = share(Math.max(0, lowerBound(sorted, wait) - 1)); return { x: f.toX(x), y: longer, text: `${percent(longer)} of ${count(n)} mappings wait longer than ${digits(wait)} ms` }; },
    read: () => `${count(late)} of ${count(n)} mappings came out of order; the longest waited ${ms(longest)}.`,
  });
  view.changed();
}
