// One flow: what was found, its graphs, all its figures.

const END = { closed: "closed by both ends", reset_by_first: "reset by 1", reset_by_second: "reset by 2", half_closed: "closed by one end", open: "not closed in the capture" };
const AT = { first: "captured at end 1", second: "captured at end 2", middle: "captured on the way", both: "captured where both ends are near" };

async function showFlow(head, row) {
  const host = document.getElementById("flow");
  const title = el("h2", { id: "flow-title", tabindex: "-1" }, `Flow ${row.id}: ${row.a} ${row.client === 1 ? "←" : "→"} ${row.b}`);
  host.replaceChildren(title, el("p", { class: "soft" }, `Starts at ${duration(row.t)}, lasts ${duration(row.d)}; ${END[row.end]}; ${AT[row.at] ?? "capture point not known"}; handshake ${ms(row.hs)}.`));
  const budget = timeBudget(row);
  if (budget) host.append(budget);
  for (const found of row.found) host.append(el("p", {}, tag(found.kind), el("span", { class: "soft" }, found.direction === 0 ? "1→2 " : "2→1 "), found.evidence));
  if (!row.data) {
    host.append(el("p", { class: "finding" }, "This flow's packets are not in the page: it holds those of the flows with most data. Analyze this flow alone to see them."));
    return;
  }
  const flow = await readFlow(row.data);
  if (row.data[3]) host.append(el("p", { class: "finding" }, `The last ${count(row.data[3])} packets are not drawn.`));
  const graphs = el("div", {});
  const way = row.dir[1].by > row.dir[0].by ? 1 : 0;
  const ways = ["1→2", "2→1"].map((name, d) => el("button", { type: "button", "aria-pressed": String(d === way), onclick: () => choose(d) }, `Data ${name}`));
  const tool = (name, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: act }, name);
  let view = null;
  const tools = el("span", { class: "tools" }, tool("+", "Zoom in", () => view.zoom(0.5)), tool("−", "Zoom out", () => view.zoom(2)), tool("◀", "Earlier", () => view.move(-0.3)), tool("▶", "Later", () => view.move(0.3)), tool("All", "Show all", () => view.reset()));
  host.append(el("div", { class: "bar", role: "group", "aria-label": "Direction and zoom" }, ...ways, tools), graphs, figures(head, flow.report), packetList(flow, () => view));
  function choose(d) {
    ways.forEach((button, i) => button.setAttribute("aria-pressed", String(i === d)));
    graphs.replaceChildren();
    const last = Math.max(...flow.sides.map(side => side.n ? side.clock[side.n - 1] : 0));
    view = new View(0, last || 1e-3);
    flow.view = view;
    const layers = { data: true, ack: true, window: true, sack: true };
    sequencePlot(graphs, flow, d, view, layers);
    throughputPlot(graphs, flow, d, view);
    rttPlot(graphs, flow, d, view);
    flightPlot(graphs, flow, d, view);
    eventPlot(graphs, flow, d, view);
    view.changed();
  }
  choose(way);
  host.shown = { flow, get view() { return view; } };
}

// Where the time of a flow went: one bar whose parts sum to the whole.
const CAUSES = ["handshake", "slow start", "receive window", "application", "loss recovery", "outage", "path rate", "policer", "closing", "unclear"];

function timeBudget(row) {
  const whole = row.time.reduce((sum, part) => sum + part, 0);
  if (!whole) return null;
  const parts = row.time.map((part, i) => ({ part, i })).filter(({ part }) => part > 0);
  const said = ({ part, i }) => `${CAUSES[i]} ${digits(100 * part / whole, 3)} % (${duration(part / 1e9)})`;
  const bar = el("div", { class: "budget", role: "img", "aria-label": `Time: ${parts.map(said).join(", ")}` });
  const key = el("p", { class: "budget-key soft" });
  for (const one of parts) {
    const piece = el("span", { class: `cause-${one.i}`, title: said(one) });
    piece.style.flexGrow = String(one.part / whole);
    bar.append(piece);
    key.append(el("span", {}, el("i", { class: `cause-${one.i}`, "aria-hidden": "true" }), said(one)));
  }
  const way = row.time_of === 0 ? "1→2" : "2→1";
  return el("figure", { class: "time-budget" }, el("figcaption", {}, el("b", {}, `Time of ${way}: `), row.why ?? ""), bar, key);
}

// Every figure of the report with its definition.
function figures(head, report) {
  const value = x => x === null || x === undefined ? missing : typeof x === "number" ? digits(x, 6) : typeof x === "boolean" ? (x ? "yes" : "no") : String(x);
  const rows = [];
  const meaning = (object, field) => head.definitions[object]?.properties?.[field] ?? {};
  const target = schema => (schema.$ref ?? schema.anyOf?.[0]?.$ref ?? schema.items?.$ref ?? "").split("/").at(-1);
  function walk(object, path, pair) {
    for (const field of Object.keys(pair.find(x => x) ?? {})) {
      const schema = meaning(object, field), inner = target(schema), values = pair.map(x => x?.[field]);
      if (values.some(v => v && typeof v === "object" && !Array.isArray(v))) walk(inner, [...path, field], values.map(v => v ?? {}));
      else if (!values.some(Array.isArray)) rows.push(el("tr", {}, el("td", { class: "t" }, [...path, field].map(spaced).join(", ")), ...values.map(v => el("td", {}, value(v))), el("td", { class: "t wrap soft" }, schema.description ?? "")));
    }
  }
  walk("direction_report", [], report.directions);
  const top = el("tr", {}, el("th", { class: "t" }, "Figure"), el("th", {}, "1→2"), el("th", {}, "2→1"), el("th", { class: "t" }, "Definition"));
  return el("details", {}, el("summary", {}, "All figures of this flow, with their definitions"), el("div", { class: "scroll" }, el("table", {}, el("thead", {}, top), el("tbody", {}, ...rows))));
}

// The packets in view as a table: for reading exactly, and for screen readers.
function packetList(flow, view) {
  const body = el("tbody", {}), note = el("p", { class: "soft" });
  function fill() {
    const [x0, x1] = view().range, rows = [];
    const at = flow.sides.map(side => lowerBound(side.clock, x0));
    let left = 0;
    for (;;) {
      const open = [0, 1].filter(d => at[d] < flow.sides[d].n && flow.sides[d].clock[at[d]] <= x1);
      if (!open.length) break;
      const d = open.length === 2 && flow.sides[1].number[at[1]] < flow.sides[0].number[at[0]] ? 1 : open[0];
      const side = flow.sides[d], k = at[d]++;
      if (rows.length >= 500) { left++; continue; }
      const kind = KINDS[side.kind[k]]?.[2] ?? "";
      rows.push(el("tr", {}, ...[side.number[k] + 1, fixed(side.t[k], 6), d ? "2→1" : "1→2", flagNames(side.flags[k]), count(side.pos[k]), count(side.len[k]), is(side.ack[k]) ? count(side.ack[k]) : missing, is(side.win[k]) ? count(side.win[k]) : missing, kind + (side.spurious[k] ? " (not needed)" : "")].map((x, i) => el("td", { class: i === 3 || i === 8 ? "t" : null }, String(x)))));
    }
    body.replaceChildren(...rows);
    note.textContent = left ? `${count(left)} more packets are in view: zoom in to list them.` : "";
  }
  const names = ["#", "time s", "way", "flags", "position", "bytes", "acknowledges", "window", "what"];
  const list = el("details", { ontoggle: event => { if (event.currentTarget.open) fill(); } }, el("summary", {}, "Packets in view"), el("p", {}, el("button", { type: "button", onclick: fill }, "List what is in view")), el("div", { class: "scroll rows" }, el("table", {}, el("thead", {}, el("tr", {}, ...names.map(name => el("th", {}, name)))), body)), note);
  return list;
}
