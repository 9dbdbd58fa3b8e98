// Throughput, round-trip time, in flight against window, and the lane of events, over the same view of time.

const seconds = (x, f) => `${fixed(x, Math.max(0, Math.min(9, Math.ceil(-Math.log10((f.x1 - f.x0) / 8 || 1)))))} s`;

// A round bin width so that about `n` bins are in view.
function binWidth(span, n) {
  const raw = Math.max(span / n, 1e-5), power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map(m => m * power).find(w => w >= raw);
}

function throughputPlot(host, flow, d, view) {
  const data = flow.sides[d], acks = flow.sides[1 - d];
  // Acknowledged bytes by packet, so that a bin's progress is a difference.
  let cache = null;
  function bins(x0, x1) {
    const width = binWidth(x1 - x0, 160), first = Math.floor(x0 / width), n = Math.ceil(x1 / width) - first + 1;
    if (cache && cache.first === first && cache.n === n && cache.width === width) return cache;
    const sent = new Float64Array(n), again = new Float64Array(n), acked = new Float64Array(n);
    const low = lowerBound(data.clock, first * width), high = lowerBound(data.clock, (first + n) * width);
    for (let k = low; k < high; k++) {
      const bin = Math.min(n - 1, Math.max(0, Math.floor(data.t[k] / width) - first));
      sent[bin] += data.len[k];
      if (isAgain(data.kind[k])) again[bin] += data.len[k];
    }
    const from = lowerBound(acks.clock, first * width), to = lowerBound(acks.clock, (first + n) * width);
    let edge = NaN;
    for (let k = from - 1; k >= 0 && Number.isNaN(edge); k--) if (is(acks.ack[k])) edge = acks.ack[k];
    for (let k = from; k < to; k++) {
      if (!is(acks.ack[k])) continue;
      if (acks.ack[k] > edge || Number.isNaN(edge)) {
        if (!Number.isNaN(edge)) acked[Math.min(n - 1, Math.max(0, Math.floor(acks.t[k] / width) - first))] += acks.ack[k] - edge;
        edge = acks.ack[k];
      }
    }
    const k = 8 / width;
    return cache = { first, n, width, sent: sent.map(x => x * k), again: again.map(x => x * k), acked: acked.map(x => x * k) };
  }
  return new Plot(host, {
    title: "Throughput", keys: [["sent", "area"], ["of it again", "fast"], ["acknowledged", "ack"]], height: 150, view, unit: y => y === 0 ? "0" : rate(y), time: null,
    extent: (x0, x1) => { const b = bins(x0, x1); return [0, Math.max(1, ...b.sent, ...b.acked) * 1.08]; },
    paint: f => {
      const b = bins(f.x0, f.x1), { g } = f, w = b.width * f.kx;
      for (const [values, tone] of [[b.sent, "area"], [b.again, "fast"]]) {
        g.fillStyle = colour(tone);
        for (let i = 0; i < b.n; i++) if (values[i] > 0) g.fillRect(f.X((b.first + i) * b.width), f.Y(values[i]), w > 3 ? w - 0.6 : w, f.bottom - f.Y(values[i]));
      }
      g.strokeStyle = colour("ack");
      g.lineWidth = 1.5;
      const steps = new Steps(g);
      for (let i = 0; i < b.n; i++) steps.add(f.X((b.first + i) * b.width), f.Y(b.acked[i]));
      steps.stroke();
    },
    hover: (f, x) => {
      const b = bins(f.x0, f.x1), i = Math.floor(f.toX(x) / b.width) - b.first;
      if (i < 0 || i >= b.n) return null;
      return { x: (b.first + i + 0.5) * b.width, y: b.sent[i], text: `${fixed((b.first + i) * b.width, 3)} s, ${duration(b.width)} wide\nsent ${rate(b.sent[i])}\nof it again ${rate(b.again[i])}\nacknowledged ${rate(b.acked[i])}` };
    },
    read: (x0, x1) => { const b = bins(x0, x1), mean = values => values.reduce((a, v) => a + v, 0) / b.n; return `In view on average: sent ${rate(mean(b.sent))}, acknowledged ${rate(mean(b.acked))}.`; },
  });
}

function rttPlot(host, flow, d, view) {
  const acks = flow.sides[1 - d];
  const sets = [["stamps", "sack"], ["karn", "accent"]];
  const range = (x0, x1) => [lowerBound(acks.clock, x0), lowerBound(acks.clock, x1)];
  function extent(x0, x1) {
    const [from, to] = range(x0, x1);
    let high = 0;
    for (let k = from; k < to; k++) for (const [set] of sets) if (acks[set][k] > high) high = acks[set][k];
    return [0, high * 1.08 || 1];
  }
  return new Plot(host, {
    title: "Round-trip time", keys: [["segment to ACK (Karn)", "accent"], ["timestamps", "sack"]], height: 150, view, extent, unit: y => `${digits(y)} ms`, time: null,
    paint: f => {
      const [from, to] = range(f.x0, f.x1), { g } = f;
      for (const [set, tone] of sets) {
        g.fillStyle = colour(tone);
        const size = to - from > 4000 ? 1.6 : 2.6;
        let lastX = -9, lastY = -9;
        for (let k = from; k < to; k++) {
          const value = acks[set][k];
          if (Number.isNaN(value)) continue;
          const x = f.X(acks.t[k]), y = f.Y(value);
          if (Math.abs(x - lastX) < 0.5 && Math.abs(y - lastY) < 0.5) continue;
          g.fillRect(x - size / 2, y - size / 2, size, size);
          lastX = x; lastY = y;
        }
      }
    },
    hover: (f, x, y) => {
      let best = null, distance = 300;
      const from = lowerBound(acks.clock, f.toX(x - 17)), to = lowerBound(acks.clock, f.toX(x + 17));
      for (let k = from; k < to; k++) for (const [set] of sets) {
        const value = acks[set][k];
        if (Number.isNaN(value)) continue;
        const far = (f.X(acks.t[k]) - x) ** 2 + (f.Y(value) - y) ** 2;
        if (far < distance) { distance = far; best = { x: acks.t[k], y: value, text: `${fixed(acks.t[k], 6)} s\n${ms(value)} by ${set === "karn" ? "Karn's rule" : "timestamps"}` }; }
      }
      return best;
    },
    read: (x0, x1) => {
      const [from, to] = range(x0, x1), values = [];
      for (let k = from; k < to; k++) if (is(acks.karn[k])) values.push(acks.karn[k]);
      values.sort((a, b) => a - b);
      return values.length ? `${values.length} samples: ${ms(values[0])} to ${ms(values.at(-1))}, median ${ms(values[values.length >> 1])}.` : "No samples in view.";
    },
  });
}

// Outstanding bytes and the window, after each packet of either direction.
function flightSeries(flow, d) {
  const data = flow.sides[d], acks = flow.sides[1 - d], n = flow.packets;
  const t = new Float64Array(n), flight = new Float64Array(n), window = new Float64Array(n);
  const next = [0, 0];
  let edge = NaN, una = NaN, right = NaN;
  for (let i = 0; i < n; i++) {
    const way = flow.order[i], k = next[way]++;
    if (way === d) {
      if (!(data.flags[k] & RST)) {
        const end = data.pos[k] + data.len[k] + (data.flags[k] & (SYN | FIN) ? 1 : 0);
        edge = Number.isNaN(edge) ? end : Math.max(edge, end);
        if (Number.isNaN(una)) una = data.pos[k];
      }
    } else if (is(acks.ack[k])) {
      una = Number.isNaN(una) ? acks.ack[k] : Math.max(una, acks.ack[k]);
      if (is(acks.win[k]) && !(acks.flags[k] & SYN)) right = acks.ack[k] + acks.win[k];
    }
    t[i] = way === d ? data.t[k] : acks.t[k];
    flight[i] = Math.max(0, edge - una);
    window[i] = right - una;
    if (i > 0 && t[i] < t[i - 1]) t[i] = t[i - 1];
  }
  return { t, flight, window };
}

function flightPlot(host, flow, d, view) {
  const series = flightSeries(flow, d);
  const range = (x0, x1) => [Math.max(0, lowerBound(series.t, x0) - 1), Math.min(flow.packets, lowerBound(series.t, x1) + 1)];
  function extent(x0, x1) {
    const [from, to] = range(x0, x1);
    let flight = 0, window = 0;
    for (let i = from; i < to; i++) { if (series.flight[i] > flight) flight = series.flight[i]; if (series.window[i] > window) window = series.window[i]; }
    return [0, Math.max(Math.min(window, flight * 2.2), flight, 1) * 1.08];
  }
  return new Plot(host, {
    title: "In flight against window", keys: [["in flight", "accent"], ["receiver's window", "window"]], height: 150, view, extent, unit: y => bytes(y), time: null,
    paint: f => {
      const [from, to] = range(f.x0, f.x1), { g } = f;
      for (const [values, tone] of [[series.window, "window"], [series.flight, "accent"]]) {
        g.strokeStyle = colour(tone);
        g.lineWidth = 1.4;
        const steps = new Steps(g);
        for (let i = from; i < to; i++) steps.add(f.X(series.t[i]), f.Y(values[i]));
        steps.stroke(f.right);
      }
    },
    hover: (f, x) => {
      const i = Math.min(flow.packets - 1, Math.max(0, lowerBound(series.t, f.toX(x)) - 1));
      return { x: series.t[i], y: series.flight[i], text: `${fixed(series.t[i], 6)} s\nin flight ${bytes(series.flight[i])}\nwindow ${is(series.window[i]) ? bytes(series.window[i]) : "not known"}` };
    },
    read: (x0, x1) => { const [from, to] = range(x0, x1); let most = 0; for (let i = from; i < to; i++) most = Math.max(most, series.flight[i] || 0); return `Most in flight in view: ${bytes(most)}.`; },
  });
}

const LANES = [["SYN FIN RST", "unclear"], ["time-out", "rto"], ["fast", "fast"], ["probe (TLP)", "tlp"], ["not needed", "spurious"], ["lost before", "rto"], ["late", "late"], ["duplicate ACK", "ack"], ["SACK", "sack"], ["zero window", "window"], ["congestion (ECN)", "unclear"], ["of no clear cause", "unclear"]];

// All events of a direction as [lane, side, index].
function eventsOf(flow, d) {
  const lanes = LANES.map(() => []), data = flow.sides[d], acks = flow.sides[1 - d];
  const ofKind = [-1, 0, 1, 1, 2, 3, 11, 9, -1, 5, 6];
  for (let k = 0; k < data.n; k++) {
    const lane = ofKind[data.kind[k]];
    if (data.flags[k] & (SYN | FIN | RST)) lanes[0].push([data, k]);
    else if (lane >= 0) lanes[lane].push([data, k]);
    if (data.spurious[k]) lanes[4].push([data, k]);
    if (data.marks[k] & MARKED || (data.flags[k] & 128 && !(data.flags[k] & SYN))) lanes[10].push([data, k]);
  }
  for (let k = 0; k < acks.n; k++) {
    if (acks.marks[k] & DUPLICATE) lanes[7].push([acks, k]);
    if (acks.sackAt[k + 1] > acks.sackAt[k]) lanes[8].push([acks, k]);
    if (acks.win[k] === 0 && !(acks.flags[k] & (SYN | RST))) lanes[9].push([acks, k]);
    if (acks.flags[k] & RST) lanes[0].push([acks, k]);
    if (acks.flags[k] & 64 && !(acks.flags[k] & SYN)) lanes[10].push([acks, k]);
  }
  return lanes.map((found, i) => ({ name: LANES[i][0], tone: LANES[i][1], found })).filter(lane => lane.found.length);
}

function eventPlot(host, flow, d, view) {
  const lanes = eventsOf(flow, d), n = Math.max(1, lanes.length);
  return new Plot(host, {
    title: "Events", height: 34 + n * 19, view, extent: () => [0, n], time: seconds,
    yTicks: () => lanes.map((_, i) => n - i - 0.5), unit: y => lanes[Math.round(n - y - 0.5)]?.name ?? "",
    paint: f => lanes.forEach((lane, i) => {
      f.g.fillStyle = colour(lane.tone);
      let last = -9;
      const y = f.Y(n - i - 0.5);
      for (const [side, k] of lane.found) {
        const x = f.X(side.t[k]);
        if (x < f.left - 3 || x > f.right + 3 || Math.abs(x - last) < 0.8) continue;
        f.g.fillRect(x - 1, y - 6, 2, 12);
        last = x;
      }
    }),
    hover: (f, x, y) => {
      const lane = lanes[Math.floor(n - f.toY(y))];
      let best = null, distance = 12;
      for (const [side, k] of lane?.found ?? []) {
        const far = Math.abs(f.X(side.t[k]) - x);
        if (far < distance) { distance = far; best = { x: side.t[k], y: n - lanes.indexOf(lane) - 0.5, text: `${lane.name}\n${describePacket(side, k, side === flow.sides[0] ? "1→2" : "2→1")}` }; }
      }
      return best;
    },
    read: (x0, x1) => lanes.map(lane => `${lane.name}: ${lane.found.filter(([side, k]) => side.t[k] >= x0 && side.t[k] <= x1).length}`).join(", ") || "No events.",
  });
}
