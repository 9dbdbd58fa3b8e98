// What the whole capture shows: its course, distributions over flows, the captures' health.

function tiles(head) {
  const sum = read => head.captures.reduce((total, capture) => total + (read(capture) ?? 0), 0);
  const carried = head.course.bytes.reduce((a, b) => a + b, 0), again = head.course.repeated.reduce((a, b) => a + b, 0);
  const found = [[count(sum(c => c.packets)), `packets in ${count(head.captures.length)} capture${head.captures.length === 1 ? "" : "s"}`], [count(head.flows), `TCP flow${head.flows === 1 ? "" : "s"}${head.captures.length > 1 ? ", one for each place where a connection was captured" : ""}`], [bytes(carried), "of payload of TCP"], [carried ? percent(again / carried) : missing, "of it sent again"], [duration(head.course.bin_s * head.course.bytes.length), "from first to last packet"]];
  if (head.udp.datagrams && !head.flows) found.splice(2);
  if (head.udp.datagrams) found.splice(2, 0, [count(head.udp.quic_flows), `QUIC flow${head.udp.quic_flows === 1 ? "" : "s"}, and ${count(head.udp.other.datagrams)} datagrams of other UDP`]);
  const dropped = sum(c => c.dropped), broken = head.captures.filter(c => c.problem).length;
  if (dropped) found.push([count(dropped), "packets lost while capturing"]);
  if (broken) found.push([count(broken), "captures not read to their end"]);
  document.getElementById("tiles").replaceChildren(...found.map(([value, name]) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, name))));
}

function coursePlot(head) {
  const { bin_s: width, bytes: carried, packets, repeated } = head.course, n = carried.length;
  if (n < 2) return;
  const view = new View(0, n * width);
  // Bins put together until about 250 are in view.
  let cache = null;
  function course(x0, x1) {
    const step = Math.max(1, Math.round((x1 - x0) / width / 250));
    const from = Math.max(0, Math.floor(x0 / width / step)), to = Math.min(Math.ceil(n / step), Math.ceil(x1 / width / step));
    if (cache?.key === `${step} ${from} ${to}`) return cache;
    const sums = values => Array.from({ length: to - from }, (_, i) => { let sum = 0; for (let j = (from + i) * step; j < Math.min(n, (from + i + 1) * step); j++) sum += values[j]; return sum; });
    const k = 8 / (width * step);
    return cache = { key: `${step} ${from} ${to}`, from, wide: width * step, sent: sums(carried).map(x => x * k), again: sums(repeated).map(x => x * k), packets: sums(packets) };
  }
  const range = (x0, x1) => [Math.max(0, Math.floor(x0 / width)), Math.min(n, Math.ceil(x1 / width))];
  new Plot(document.getElementById("course"), {
    title: "All traffic over time", keys: [["payload", "area"], ["of it again", "fast"]], height: 170, view, time: seconds, unit: y => y === 0 ? "0" : rate(y),
    extent: (x0, x1) => [0, Math.max(1, ...course(x0, x1).sent) * 1.06],
    paint: f => {
      const b = course(f.x0, f.x1), w = b.wide * f.kx;
      for (const [values, tone] of [[b.sent, "area"], [b.again, "fast"]]) {
        f.g.fillStyle = colour(tone);
        values.forEach((y, i) => y && f.g.fillRect(f.X((b.from + i) * b.wide), f.Y(y), w > 3 ? w - 0.6 : w, f.bottom - f.Y(y)));
      }
    },
    hover: (f, x) => {
      const b = course(f.x0, f.x1), i = Math.floor(f.toX(x) / b.wide) - b.from;
      return b.sent[i] === undefined ? null : { x: (b.from + i + 0.5) * b.wide, y: b.sent[i], text: `${fixed((b.from + i) * b.wide, 3)} s, ${duration(b.wide)} wide\n${rate(b.sent[i])}, ${count(b.packets[i])} packets\nagain ${rate(b.again[i])}` };
    },
    read: (x0, x1) => { const [from, to] = range(x0, x1); let total = 0; for (let i = from; i < to; i++) total += carried[i]; return `${bytes(total)} in view.`; },
  });
}

const HUES = ["accent", "fast", "ack", "sack", "window", "tlp", "late", "rto", "quiet"];

function distributions(head) {
  const host = document.getElementById("distributions"), figures = head.distributions.filter(figure => figure.curves[0]?.n >= 2);
  if (!figures.length) return;
  host.append(el("h2", { id: "across" }, "Across flows"), el("p", { class: "soft" }, `Share of flows at or below a value, over all flows and by ${head.grouped_by}. Boxes: 5, 25, 50, 75 and 95 %.`));
  const grid = el("div", { class: "grid2" });
  host.append(grid);
  for (const figure of figures) {
    const cell = el("div", {});
    grid.append(cell);
    curvePlot(cell, figure);
    cell.append(boxes(figure), quantileTable(figure, head.grouped_by));
  }
}

// The axis of a figure: logarithmic where values spread over more than a hundredfold.
function axisOf(figure) {
  const curves = figure.curves, high = Math.max(...curves.map(c => c.quantiles[6])), positive = Math.min(...curves.map(c => c.values.find(v => v > 0) ?? Infinity));
  const isLog = curves[0].quantiles[1] > 0 && high / curves[0].quantiles[1] > 100;
  return { isLog, high, positive, to: x => isLog ? Math.log10(Math.max(x, positive)) : x, back: x => isLog ? 10 ** x : x };
}

function curvePlot(host, figure) {
  const curves = figure.curves, { isLog, high, positive, to, back } = axisOf(figure);
  const view = new View(isLog ? to(positive) : 0, to(high) || 1);
  new Plot(host, {
    title: `${figure.title}, ${figure.unit}`, keys: curves.map((c, i) => [`${c.name} (${count(c.n)})`, HUES[i]]), height: 210, view, extent: () => [0, 1.02], unit: y => `${Math.round(y * 100)} %`, time: x => digits(back(x)),
    paint: f => curves.forEach((c, i) => {
      const { g } = f;
      g.strokeStyle = colour(HUES[i]);
      g.lineWidth = i ? 1.3 : 2.2;
      g.beginPath();
      g.moveTo(f.X(to(c.values[0])), f.Y(0));
      const last = Math.max(1, c.values.length - 1);
      c.values.forEach((value, k) => g.lineTo(f.X(to(value)), f.Y(c.values.length === 1 ? 1 : k / last)));
      g.lineTo(f.right, f.Y(1));
      g.stroke();
    }),
    hover: (f, x) => {
      const value = back(f.toX(x));
      return { x: f.toX(x), y: NaN, text: `≤ ${digits(value)} ${figure.unit}\n` + curves.map(c => `${c.name}: ${Math.round(100 * c.values.filter(v => v <= value).length / c.values.length)} %`).join("\n") };
    },
    read: () => curves.map(c => `${c.name}: median ${digits(c.quantiles[3])} ${figure.unit}`).join("; "),
  });
}

function boxes(figure) {
  const curves = figure.curves, width = 600, left = 150, row = 20, axis = axisOf(figure);
  const low = axis.isLog ? axis.to(axis.positive) : 0, span = axis.to(axis.high) - low || 1;
  const X = x => (left + (axis.to(x) - low) / span * (width - left - 16)).toFixed(1);
  const parts = curves.map((c, i) => {
    const y = i * row + row / 2 + 2, [, p5, p25, p50, p75, p95] = c.quantiles;
    const line = (x1, x2, y1, y2, name) => svg("line", { x1: X(x1), x2: X(x2), y1, y2, class: name });
    const name = c.name.length > 24 ? `${c.name.slice(0, 23)}…` : c.name;
    return svg("g", {}, svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, name), line(p5, p95, y, y, "w"), line(p5, p5, y - 4, y + 4, "w"), line(p95, p95, y - 4, y + 4, "w"), svg("rect", { x: X(p25), y: y - 6, width: Math.max(1, X(p75) - X(p25)), height: 12, class: "b" }), line(p50, p50, y - 6, y + 6, "m"));
  });
  return svg("svg", { class: "boxes", viewBox: `0 0 ${width} ${curves.length * row + 6}`, role: "img", "aria-label": `Boxes of ${figure.title} in ${figure.unit}; the table below has the numbers` }, ...parts);
}

function quantileTable(figure, groups) {
  const rows = figure.curves.map(c => el("tr", {}, el("td", { class: "t" }, c.name), el("td", {}, count(c.n)), ...c.quantiles.map(q => el("td", {}, digits(q)))));
  const names = ["n", "min", "5 %", "25 %", "median", "75 %", "95 %", "max"];
  return el("details", {}, el("summary", { class: "soft" }, `Numbers, ${figure.unit}`), el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "t" }, groups), ...names.map(name => el("th", {}, name)))), el("tbody", {}, ...rows))));
}

function captures(head) {
  const skipped = c => [["fragment", "fragments"], ["cut", "with headers cut"], ["unknown_link", "of unknown link type"], ["not_ip", "not IP"], ["not_tcp", "IP, not TCP (UDP is counted here, too)"]].filter(([name]) => c.skipped[name]).map(([name, words]) => `${count(c.skipped[name])} ${words}`).join(", ");
  const rows = head.captures.map(c => el("tr", {}, el("td", { class: "t" }, c.file), ...[c.packets, c.segments, c.datagrams, c.clipped, c.dropped, c.time_steps_back, c.sorted].map(n => el("td", {}, is(n) ? count(n) : "not said")), el("td", { class: "t wrap" }, skipped(c)), el("td", { class: "t wrap" }, c.problem ?? "read to its end")));
  const names = ["Packets", "of TCP", "of UDP", "clipped", "lost while capturing", "steps back in time", "put in order"];
  document.getElementById("captures").replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "t" }, "File"), ...names.map(name => el("th", {}, name)), el("th", { class: "t" }, "Without TCP"), el("th", { class: "t" }, "State"))), el("tbody", {}, ...rows)));
}
