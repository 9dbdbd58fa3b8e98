// UDP: the QUIC flows with what is known without keys, and what else there is.

const SPIN = { constant: "not spinning (constant)", random: "not spinning (random)", unclear: "too few or too sparse packets" };

function udp(head) {
  const host = document.getElementById("quic"), all = head.udp;
  if (!all.datagrams) return;
  host.append(el("h2", { id: "quic-title" }, "QUIC and other UDP"));
  if (head.quic.length) {
    host.append(el("p", { class: "soft" }, `${count(all.quic_flows)} QUIC flow${all.quic_flows === 1 ? "" : "s"}${head.quic.length < all.quic_flows ? `, the ${count(head.quic.length)} with most data listed` : ""}. Nothing is decrypted. Columns that say “inferred” follow from when packets came; the others are read from headers, and counted.`), quicTable(head));
  }
  if (all.ended_early) host.append(el("p", { class: "finding" }, `${count(all.ended_early)} flows were ended early, because there were too many at a time.`));
  if (all.other.datagrams) host.append(otherTable(all.other));
}

// An end's part of a round trip, by role if it is known who the client is.
function parts(flow, answers, of) {
  const [first, second] = answers.map(a => a ? ms(of(a)) : missing);
  const client = flow.inferred.client;
  return client === 0 ? `server ${second}, client ${first}` : client === 1 ? `server ${first}, client ${second}` : `first end ${first}, second end ${second}`;
}

const versionOf = flow => (flow.version ?? flow.version_offered) ? (flow.version ?? flow.version_offered).name ?? (flow.version ?? flow.version_offered).number : "not known";
const quicBytes = flow => flow.directions[0].payload_bytes + flow.directions[1].payload_bytes;

// A value and, smaller, what it is made of.
const cell = (value, note) => el("td", { class: "t" }, value, note ? el("br") : null, note ? el("small", { class: "soft" }, note) : null);

function handshakeCell(flow) {
  const h = flow.inferred.handshake;
  return is(h.to_server_ms) || is(h.to_client_ms) ? cell(ms(h.total_ms), `server ${ms(h.to_server_ms)}, client ${ms(h.to_client_ms)}`) : cell(missing);
}

function spinCell(flow) {
  const spin = flow.inferred.spin;
  if (!spin) return cell(missing, `${count(flow.inferred.connections)} connections`);
  return spin.rtt ? cell(`${ms(spin.rtt.p50_ms)} (${count(spin.rtt.n)})`, parts(flow, spin.answers, a => a.p50_ms)) : cell(missing, SPIN[spin.state]);
}

function flowletCell(flow) {
  const flowlets = flow.inferred.flowlets;
  if (!flowlets?.answers.some(is)) return cell(missing);
  const n = flowlets.answers.reduce((sum, a) => sum + (a?.n ?? 0), 0);
  return cell(`${is(flowlets.rtt_min_ms) ? `≤ ${ms(flowlets.rtt_min_ms)}` : "one side"} (${count(n)})`, parts(flow, flowlets.answers, a => a.min_ms));
}

function quicTable(head) {
  const flows = head.quic.toSorted((a, b) => quicBytes(b) - quicBytes(a)), graphs = el("div", {}), body = el("tbody", {});
  const choose = flow => {
    for (const row of body.rows) row.setAttribute("aria-selected", String(row.dataset.flow === String(flow.id)));
    graphs.replaceChildren();
    quicFlow(graphs, flow);
  };
  const row = flow => {
    const arrow = ["→", "←"][flow.inferred.client] ?? "–";
    const guess = flow.recognized_by === "port" ? "a guess by port and shape" : flow.recognized_by === "connection_ids" ? "by connection IDs" : null;
    const changed = flow.version && flow.version_offered && flow.version.number !== flow.version_offered.number ? `${flow.version_offered.name ?? flow.version_offered.number} was offered` : guess;
    const moves = flow.inferred.moves.length + flow.inferred.moves_left_out;
    return el("tr", { "data-flow": flow.id, onclick: () => choose(flow) },
      el("td", {}, el("button", { type: "button", onclick: event => { event.stopPropagation(); choose(flow); } }, String(flow.id))),
      cell(`${flow.first} ${arrow} ${flow.second}`), cell(`version ${versionOf(flow)}`, changed), el("td", {}, duration(flow.duration_s)),
      ...flow.directions.map(way => cell(bytes(way.payload_bytes), is(way.active_bps) ? rate(way.active_bps) : null)),
      cell(count(flow.pauses.count), flow.pauses.count ? `longest ${duration(flow.pauses.longest_ms / 1e3)}` : null),
      handshakeCell(flow), spinCell(flow), flowletCell(flow), el("td", {}, moves ? count(moves) : "0"));
  };
  body.append(...flows.map(row));
  const names = [["Flow"], ["Ends", "arrow: from the client"], ["QUIC"], ["Duration"], ["1 > 2", "payload, rate"], ["2 > 1", "payload, rate"], ["Pauses", "of both ends"], ["Handshake", "inferred: round trip"], ["Spin bit", "inferred: median (n)"], ["Flowlets", "inferred: shortest (n)"], ["Moves", "inferred"]];
  const table = el("table", { class: "flows" }, el("thead", {}, el("tr", {}, ...names.map(([name, note], i) => el("th", { scope: "col", class: i === 0 || i === 3 || i === 10 ? "plain" : "t plain" }, name, note ? el("small", {}, note) : null)))), body);
  choose(flows[0]);
  return el("div", {}, el("div", { class: "scroll rows" }, table), graphs);
}

// Packets by type, and what else headers say.
function packetTable(flow) {
  const types = [["initial", "Initial"], ["zero_rtt", "0-RTT"], ["handshake", "Handshake"], ["retry", "Retry"], ["version_negotiation", "Version Negotiation"], ["other_long", "other long headers"], ["short", "1-RTT"], ["unrecognized", "not QUIC"]].filter(([name]) => flow.directions.some(way => way.packets[name]));
  const columns = [["Datagrams", way => way.datagrams], ...types.map(([name, words]) => [words, way => way.packets[name]]), ["duplicates", way => way.duplicates], ["ECT", way => way.ect], ["CE", way => way.ce], ["longest payload", way => bytes(way.payload_max)]];
  const own = flow.connection_id_bytes, changes = flow.inferred.connection_id_changes;
  const rows = flow.directions.map((way, d) => el("tr", {}, el("td", { class: "t" }, d ? "2 > 1" : "1 > 2"), ...columns.map(([, of]) => el("td", {}, typeof of(way) === "number" ? count(of(way)) : of(way))), el("td", {}, is(own[d]) ? `${own[d]} B` : missing), el("td", {}, is(changes[d]) ? count(changes[d]) : missing)));
  const names = [...columns.map(([name]) => [name]), ["own connection ID"], ["new IDs used", "inferred"]];
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "t" }, "Direction"), ...names.map(([name, note]) => el("th", {}, name, note ? el("small", {}, note) : null)))), el("tbody", {}, ...rows)));
}

// The round trips that are inferred, each divided at the capture point.
function roundTrips(flow) {
  const client = flow.inferred.client ?? 0, names = flow.inferred.client === null ? ["first end", "second end"] : ["client", "server"];
  const of = (answers, read) => [answers[client], answers[1 - client]].map(a => a ? read(a) : null);
  const h = flow.inferred.handshake, { spin, flowlets } = flow.inferred;
  const rows = [["Handshake", [h.to_client_ms, h.to_server_ms]], ["Spin bit, medians", spin ? of(spin.answers, a => a.p50_ms) : [null, null]], ["Flowlets, shortest", flowlets ? of(flowlets.answers, a => a.min_ms) : [null, null]]].filter(([, both]) => both.some(is));
  if (!rows.length) return [];
  const width = 760, left = 130, right = 250, row = 24, most = Math.max(...rows.map(([, both]) => (both[0] ?? 0) + (both[1] ?? 0))) || 1;
  const W = x => (x ?? 0) / most * (width - left - right);
  const parts = rows.map(([name, both], i) => {
    const y = i * row + 3, split = left + W(both[0]);
    const said = both.map((x, k) => `${names[k]} ${ms(x)}`).join(", ");
    return svg("g", {}, svg("text", { x: left - 8, y: y + 13, "text-anchor": "end" }, name), svg("rect", { x: left, y, width: W(both[0]).toFixed(1), height: 17, class: "c" }), svg("rect", { x: split.toFixed(1), y, width: W(both[1]).toFixed(1), height: 17, class: "b" }), svg("text", { x: split + W(both[1]) + 6, y: y + 13 }, said));
  });
  return [el("h3", {}, "Inferred round trips, divided at the capture point"), svg("svg", { class: "boxes", style: "max-width: 760px", viewBox: `0 0 ${width} ${rows.length * row + 2}`, role: "img", "aria-label": rows.map(([name, both]) => `${name}: ${both.map((x, k) => `${names[k]} ${ms(x)}`).join(", ")}`).join("; ") }, ...parts)];
}

// Payload over time in both directions, and where the client moved.
function quicFlow(host, flow) {
  const { bin_ms: width, bytes: carried } = flow.course, wide = width / 1e3, n = Math.max(carried[0].length, carried[1].length);
  host.append(el("h3", {}, `QUIC flow ${flow.id}: ${flow.first} and ${flow.second}`));
  for (const move of flow.inferred.moves) host.append(el("p", { class: "finding" }, `Inferred: the client moved from ${move.from} to ${move.to} after ${duration((move.time_ns - flow.start_ns) / 1e9)}, by the same connection ID.`));
  if (flow.inferred.connections > 1) host.append(el("p", { class: "finding" }, `Inferred: ${count(flow.inferred.connections)} connections on these ports, whose round trips are not told apart.`));
  host.append(packetTable(flow), ...roundTrips(flow));
  if (n < 2) return;
  const more = carried[1].reduce((a, b) => a + b, 0) > carried[0].reduce((a, b) => a + b, 0) ? 1 : 0, names = ["1 > 2", "2 > 1"];
  const rates = carried.map(values => values.map(x => x * 8 / wide)), view = new View(0, n * wide);
  const moved = flow.inferred.moves.map(move => (move.time_ns - flow.start_ns) / 1e9);
  const range = (x0, x1) => [Math.max(0, Math.floor(x0 / wide)), Math.min(n, Math.ceil(x1 / wide))];
  new Plot(host, {
    title: "Payload over time", keys: [[names[more], "area"], [names[1 - more], "fast"], ...(moved.length ? [["client moved", "sack"]] : [])], height: 170, view, time: seconds, unit: y => y === 0 ? "0" : rate(y),
    extent: (x0, x1) => { const [from, to] = range(x0, x1); return [0, Math.max(1, ...rates[0].slice(from, to), ...rates[1].slice(from, to)) * 1.06]; },
    paint: f => {
      const [from, to] = range(f.x0, f.x1), w = wide * f.kx;
      f.g.fillStyle = colour("area");
      for (let i = from; i < to; i++) if (rates[more][i]) f.g.fillRect(f.X(i * wide), f.Y(rates[more][i]), w > 3 ? w - 0.6 : w, f.bottom - f.Y(rates[more][i]));
      f.g.strokeStyle = colour("fast");
      f.g.lineWidth = 1.6;
      f.g.beginPath();
      for (let i = from; i < to; i++) { const y = f.Y(rates[1 - more][i] ?? 0); f.g.lineTo(f.X(i * wide), y); f.g.lineTo(f.X((i + 1) * wide), y); }
      f.g.stroke();
      f.g.fillStyle = colour("sack");
      for (const at of moved) f.g.fillRect(f.X(at) - 1, f.top, 2, f.bottom - f.top);
    },
    hover: (f, x) => {
      const i = Math.floor(f.toX(x) / wide);
      return i < 0 || i >= n ? null : { x: (i + 0.5) * wide, y: rates[more][i] ?? 0, text: `${fixed(i * wide, 3)} s, ${duration(wide)} wide\n${names.map((name, d) => `${name}: ${rate(rates[d][i] ?? 0)}`).join("\n")}` };
    },
    read: (x0, x1) => { const [from, to] = range(x0, x1); return names.map((name, d) => `${name}: ${bytes(carried[d].slice(from, to).reduce((a, b) => a + b, 0))}`).join("; "); },
  });
  view.changed();
}

function otherTable(other) {
  const rows = other.ports.map(of => el("tr", {}, el("td", {}, String(of.port)), ...[of.conversations, of.datagrams].map(n => el("td", {}, count(n))), el("td", {}, bytes(of.ip_bytes))));
  const names = ["Lower port", "Conversations", "Datagrams", "IP bytes"];
  return el("div", {}, el("h3", {}, "Other UDP"), el("p", { class: "soft" }, `${count(other.conversations)} conversations, ${count(other.datagrams)} datagrams, ${bytes(other.ip_bytes)}; the ports with most:`), el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...names.map(name => el("th", {}, name)))), el("tbody", {}, ...rows))));
}
