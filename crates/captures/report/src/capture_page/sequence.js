// The time-sequence graph of one direction, in the visual language of tcptrace and xplot, with the kinds of
// retransmission told apart.

// By the codes of packets.rs: letter, colour, name.
const KINDS = [null, ["Y", "unclear", "SYN again"], ["R", "rto", "retransmission time-out"], ["R", "rto", "retransmission after a time-out"], ["F", "fast", "fast retransmission"], ["T", "tlp", "tail loss probe"],
  ["U", "unclear", "retransmission of no clear cause"], ["P", "window", "probe of a zero window"], ["K", "quiet", "keep-alive"], ["L", "rto", "repairs a loss before the capture point"], ["O", "late", "came late"]];
const SPURIOUS = [null, "D-SACK", "its timestamp's echo", "an earlier acknowledgement"];
const isAgain = kind => kind >= 1 && kind <= 6;

function flagNames(flags) {
  return [[SYN, "SYN"], [FIN, "FIN"], [RST, "RST"], [PSH, "PSH"], [32, "URG"], [64, "ECE"], [128, "CWR"]].filter(([bit]) => flags & bit).map(([, name]) => name).join(" ");
}

function describePacket(side, k, arrow) {
  const kind = KINDS[side.kind[k]], flags = flagNames(side.flags[k]);
  const lines = [`#${side.number[k] + 1}  ${arrow}  ${fixed(side.t[k], 6)} s${flags ? `  ${flags}` : ""}`];
  if (side.len[k] > 0) lines.push(`bytes ${count(side.pos[k])} – ${count(side.pos[k] + side.len[k])}  (${count(side.len[k])} B)`);
  if (is(side.ack[k])) lines.push(`acknowledges ${count(side.ack[k])}${is(side.win[k]) ? `, window ${bytes(side.win[k])}` : ""}`);
  for (let s = side.sackAt[k]; s < side.sackAt[k + 1]; s += 2) lines.push(`SACK ${count(side.sacks[s])} – ${count(side.sacks[s + 1])}`);
  if (kind) lines.push(kind[2]);
  if (side.spurious[k]) lines.push(`not needed: known by ${SPURIOUS[side.spurious[k]]}`);
  if (side.marks[k] & DUPLICATE) lines.push("duplicate acknowledgement");
  if (side.marks[k] & MARKED) lines.push("congestion experienced");
  if (is(side.karn[k])) lines.push(`RTT ${ms(side.karn[k])}`);
  return lines.join("\n");
}

// What was acknowledged before it was seen, and still unseen then: [time, from, to].
function captureGaps(data, acks) {
  const gaps = [];
  let edge = -1, i = 0;
  for (let k = 0; k < acks.n; k++) {
    while (i < data.n && data.number[i] < acks.number[k]) { if (!(data.flags[i] & RST)) edge = Math.max(edge, data.pos[i] + data.len[i] + (data.flags[i] & (SYN | FIN) ? 1 : 0)); i++; }
    if (edge >= 0 && acks.ack[k] > edge && acks.ack[k] < edge + 2 ** 30) { gaps.push([acks.t[k], edge, acks.ack[k]]); edge = acks.ack[k]; }
  }
  return gaps;
}

function sequencePlot(host, flow, d, view, layers) {
  const data = flow.sides[d], acks = flow.sides[1 - d];
  const arrows = d === 0 ? ["1→2", "2→1"] : ["2→1", "1→2"];
  const gaps = captureGaps(data, acks);
  const range = (side, x0, x1) => [lowerBound(side.clock, x0), Math.min(side.n, lowerBound(side.clock, x1) + 1)];

  function extent(x0, x1) {
    let low = Infinity, high = -Infinity, window = -Infinity;
    let [from, to] = range(data, x0, x1);
    for (let k = from; k < to; k++) {
      if (data.flags[k] & RST || (data.len[k] === 0 && !(data.flags[k] & (SYN | FIN)))) continue;
      low = Math.min(low, data.pos[k]);
      high = Math.max(high, data.pos[k] + data.len[k]);
    }
    [from, to] = range(acks, x0, x1);
    for (let k = Math.max(0, from - 1); k < to; k++) {
      if (!is(acks.ack[k])) continue;
      low = Math.min(low, acks.ack[k]);
      high = Math.max(high, acks.ack[k]);
      window = Math.max(window, acks.ack[k] + (acks.win[k] || 0));
    }
    if (low > high) return [0, 1];
    const whole = Math.max(high - low, 100);
    // The window's edge is shown unless it would make everything else small.
    if (layers.window) high = Math.max(high, Math.min(window, high + whole * 0.25));
    return [low - whole * 0.04, high + whole * 0.07];
  }

  function paint(f) {
    const { g } = f;
    paintZero(f);
    const [af, at] = range(acks, f.x0, f.x1), first = Math.max(0, af - 1);
    if (layers.window) {
      g.strokeStyle = colour("window");
      g.lineWidth = 1.4;
      const steps = new Steps(g);
      for (let k = first; k < at; k++) if (is(acks.ack[k])) steps.add(f.X(acks.t[k]), f.Y(acks.ack[k] + acks.win[k]));
      steps.stroke(f.right);
    }
    if (layers.sack) {
      g.fillStyle = colour("sack");
      const bars = new Bars(g, 1.6);
      for (let k = af; k < at; k++) for (let s = acks.sackAt[k]; s < acks.sackAt[k + 1]; s += 2) bars.add(f.X(acks.t[k]), f.Y(acks.sacks[s + 1]), f.Y(acks.sacks[s]));
      bars.flush();
    }
    if (layers.ack) paintAcks(f, first, at);
    paintGaps(f);
    if (layers.data) paintData(f);
    paintMarks(f, ...range(data, f.x0, f.x1), first, at);
  }

  function paintZero(f) {
    const { g } = f;
    let since = null, lastLetter = -99;
    for (let k = 0; k <= acks.n; k++) {
      const isZero = k < acks.n && acks.win[k] === 0 && !(acks.flags[k] & (SYN | RST));
      if (isZero && since === null) since = acks.t[k];
      if (since !== null && (!isZero && (k === acks.n || is(acks.win[k])))) {
        const from = Math.max(f.left, f.X(since)), to = Math.min(f.right, k < acks.n ? f.X(acks.t[k]) : f.right);
        if (to > f.left && from < f.right) {
          g.fillStyle = colour("zero");
          g.fillRect(from, f.top, Math.max(1, to - from), f.bottom - f.top);
          if (from - lastLetter > 14) { letter(f, "Z", from + 7, f.top + 9, "rto"); lastLetter = from; }
        }
        since = null;
      }
    }
  }

  function paintAcks(f, first, to) {
    const { g } = f;
    g.strokeStyle = colour("ack");
    g.lineWidth = 1.5;
    const steps = new Steps(g);
    for (let k = first; k < to; k++) if (is(acks.ack[k])) steps.add(f.X(acks.t[k]), f.Y(acks.ack[k]));
    steps.stroke(f.right);
    let last = -9;
    g.fillStyle = colour("ack");
    for (let k = first; k < to; k++) {
      if (!(acks.marks[k] & DUPLICATE)) continue;
      const x = f.X(acks.t[k]);
      if (x - last < 1) continue;
      g.fillRect(x - 0.5, f.Y(acks.ack[k]), 1, 5);
      last = x;
    }
  }

  // Congestion as ECN tells it: marks on data, their echo in acknowledgements, the sender's answer.
  function paintMarks(f, from, to, first, last) {
    const signs = [];
    for (let k = from; k < to; k++) {
      if (data.flags[k] & SYN) continue;
      if (data.marks[k] & MARKED) signs.push([data.t[k], data.pos[k] + data.len[k], "CE", "window"]);
      if (data.flags[k] & 128) signs.push([data.t[k], data.pos[k] + data.len[k], "CWR", "sack"]);
    }
    for (let k = first; k < last; k++) if (acks.flags[k] & 64 && !(acks.flags[k] & SYN) && is(acks.ack[k])) signs.push([acks.t[k], acks.ack[k], "ECE", "window"]);
    let lastLetter = [-99, 0];
    for (const [t, position, name, tone] of signs) {
      const x = f.X(t), y = f.Y(position);
      f.g.fillStyle = colour(tone);
      diamond(f.g, x, y);
      if (Math.hypot(x - lastLetter[0], y - lastLetter[1]) > 30) { letter(f, name, x, y + (name === "ECE" ? 11 : -10), tone); lastLetter = [x, y]; }
    }
  }

  function paintGaps(f) {
    const { g } = f;
    g.strokeStyle = colour("quiet");
    g.lineWidth = 1;
    g.beginPath();
    for (const [t, from, to] of gaps) {
      const x = f.X(t), top = f.Y(to), bottom = f.Y(from);
      if (x < f.left || x > f.right || bottom < f.top || top > f.bottom) continue;
      for (let y = Math.max(top, f.top); y < Math.min(bottom, f.bottom); y += 4) { g.moveTo(x - 4, y + 3); g.lineTo(x + 4, y - 3); }
    }
    g.stroke();
  }

  function paintData(f) {
    const { g } = f;
    const [from, to] = range(data, f.x0, f.x1);
    g.fillStyle = colour("data");
    const bars = new Bars(g, 2);
    const unusual = [];
    // With few segments in view their ends show, as in xplot.
    const hasCaps = f.ky * 1448 > 9;
    for (let k = from; k < to; k++) {
      const flags = data.flags[k];
      if (data.kind[k] || data.spurious[k] || flags & (SYN | FIN | RST)) { unusual.push(k); if (data.kind[k] || !(data.len[k] > 0)) continue; }
      if (data.len[k] === 0) continue;
      const x = f.X(data.t[k]), top = f.Y(data.pos[k] + data.len[k]), bottom = f.Y(data.pos[k]);
      bars.add(x, top, bottom);
      if (hasCaps) { g.fillRect(x - 3, top, 6, 1); g.fillRect(x - 3, bottom - 1, 6, 1); }
    }
    bars.flush();
    let lastLetter = [-99, 0];
    for (const k of unusual) {
      const kind = KINDS[data.kind[k]], flags = data.flags[k];
      const x = f.X(data.t[k]);
      if (flags & RST) { g.fillStyle = colour("rto"); g.fillRect(x - 1, f.top, 2, f.bottom - f.top); letter(f, "RST", x + 14, f.top + 9, "rto"); continue; }
      const top = f.Y(data.pos[k] + data.len[k]), bottom = f.Y(data.pos[k]);
      const tone = data.spurious[k] ? "spurious" : kind ? kind[1] : "unclear";
      g.fillStyle = colour(tone);
      if (kind || data.spurious[k]) g.fillRect(x - 1.25, top, 2.5, Math.max(3, bottom - top));
      if (flags & (SYN | FIN)) diamond(g, x, top);
      const name = data.spurious[k] ? `${kind?.[0] ?? ""}S` : kind ? kind[0] : flags & SYN ? "SYN" : "FIN";
      if (Math.hypot(x - lastLetter[0], top - lastLetter[1]) > 9 + name.length * 4) { letter(f, name, x, top - 8, tone); lastLetter = [x, top]; }
    }
  }

  function hover(f, x, y) {
    let best = null, distance = 400;
    for (const side of [data, acks]) {
      let from = lowerBound(side.clock, f.toX(x - 20)), to = lowerBound(side.clock, f.toX(x + 20));
      const stride = Math.max(1, Math.floor((to - from) / 4000));
      for (let k = from; k < to; k += stride) {
        const low = side === data ? side.pos[k] : side.ack[k], high = side === data ? low + side.len[k] : low;
        if (!is(low) || (side === data && side.len[k] === 0 && !(side.flags[k] & (SYN | FIN | RST)))) continue;
        const top = f.Y(high), bottom = f.Y(low), dx = f.X(side.t[k]) - x, dy = y < top ? top - y : y > bottom ? y - bottom : 0;
        const far = dx * dx + dy * dy - (side.kind[k] ? 9 : 0);
        if (far < distance) { distance = far; best = { x: side.t[k], y: high, text: describePacket(side, k, arrows[side === data ? 0 : 1]) }; }
      }
    }
    return best;
  }

  function read(x0, x1) {
    const [from, to] = range(data, x0, x1);
    let segments = 0, volume = 0;
    const again = new Map();
    for (let k = from; k < to; k++) {
      if (data.len[k] > 0) { segments++; volume += data.len[k]; }
      if (data.kind[k]) again.set(KINDS[data.kind[k]][2], (again.get(KINDS[data.kind[k]][2]) ?? 0) + 1);
    }
    const events = [...again].map(([name, n]) => `${n} ${name}`).join(", ") || "nothing unusual";
    return `From ${fixed(x0, 3)} to ${fixed(x1, 3)} seconds: ${segments} segments with ${bytes(volume)}; ${events}.`;
  }

  function next(x, way) {
    const tiny = (view.range[1] - view.range[0]) * 1e-4;
    for (let k = way > 0 ? lowerBound(data.clock, x + tiny) : lowerBound(data.clock, x - tiny) - 1; k >= 0 && k < data.n; k += way) {
      if (data.kind[k] || data.marks[k] & MARKED || data.flags[k] & (SYN | FIN | RST | 128)) return { x: data.t[k], y: data.pos[k] + data.len[k], text: describePacket(data, k, arrows[0]) };
    }
    return null;
  }

  return new Plot(host, { title: `Time-sequence graph, ${arrows[0]}`, height: 430, view, extent, paint, hover, read, next, boxZoom: true, unit: y => bytes(y), buttons: layerButtons(layers, view), time: null });
}

function letter(f, text, x, y, tone) {
  f.g.font = "bold 11px system-ui, sans-serif";
  f.g.textAlign = "center";
  f.g.textBaseline = "middle";
  f.g.fillStyle = colour(tone);
  f.g.fillText(text, x, Math.max(y, f.top + 7));
}

function diamond(g, x, y) {
  g.beginPath();
  g.moveTo(x, y - 4); g.lineTo(x + 4, y); g.lineTo(x, y + 4); g.lineTo(x - 4, y);
  g.fill();
}

// Buttons that are the legend too.
function layerButtons(layers, view) {
  const keys = [["data", "segments", "data"], ["ack", "acknowledged", "ack"], ["window", "window", "window"], ["sack", "SACK", "sack"]];
  const buttons = keys.map(([layer, name, tone]) => el("span", { class: "key" }, el("button", { type: "button", "aria-pressed": String(layers[layer]), onclick: event => {
    layers[layer] = !layers[layer];
    event.currentTarget.setAttribute("aria-pressed", String(layers[layer]));
    view.changed();
  } }, el("i", { style: `--c: var(--${tone})` }), name)));
  const letters = [["F", "fast", "fast"], ["R", "rto", "time-out"], ["T", "tlp", "probe"], ["U", "unclear", "unclear"], ["S", "spurious", "not needed"]].map(([sign, tone, name]) => el("span", { class: "key" }, el("b", { style: `color: var(--${tone})` }, sign), ` ${name}`));
  return el("span", { style: "display: contents" }, ...buttons, ...letters);
}
