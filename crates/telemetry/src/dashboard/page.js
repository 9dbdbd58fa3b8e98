"use strict";
// Every text goes into the page as text: nothing that comes from the network is taken for markup.
const byId = (id) => document.getElementById(id);
const make = (name, text, kind) => {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};
const KEPT = 120, SERIES_MAX = 2000;
const series = new Map();
let last = null, rates = null, chosen = null;

const digits = (value, units, step = 1000) => {
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) { value /= step; unit += 1; }
  return (Math.abs(value) >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3)) + " " + units[unit];
};
const rate = (bps) => bps === null || bps === undefined ? "–" : digits(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
const bytes = (n) => digits(n, ["B", "kB", "MB", "GB"]);
const ms = (value) => value === null || value === undefined ? "–" : value.toFixed(1) + " ms";

const note = (name, value) => {
  const all = series.get(name) || [];
  all.push(value);
  if (all.length > KEPT) all.shift();
  series.set(name, all);
  // Subscribers come and go: what was noted first goes first.
  if (series.size > SERIES_MAX) series.delete(series.keys().next().value);
};
const chart = (name) => {
  const values = (series.get(name) || []).map((value) => value ?? 0);
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg"), path = document.createElementNS(ns, "path");
  svg.setAttribute("viewBox", `0 0 ${KEPT} 40`);
  svg.setAttribute("preserveAspectRatio", "none");
  const most = Math.max(...values, 1e-9);
  path.setAttribute("d", values.map((value, at) => `${at ? "L" : "M"}${KEPT - values.length + at} ${(39 - 38 * value / most).toFixed(2)}`).join(""));
  svg.append(path);
  return svg;
};
const tile = (name, value, noted) => {
  const node = make("div", undefined, "tile");
  node.append(make("div", name, "name"), make("div", value, "value"));
  if (noted) node.append(chart(noted));
  return node;
};
const table = (headings, rows) => {
  const node = make("table"), head = make("tr");
  headings.forEach((text) => head.append(make("th", text)));
  node.append(head);
  rows.forEach((cells) => {
    const row = make("tr");
    cells.forEach((cell) => {
      const td = make("td");
      td.append(cell);
      row.append(td);
    });
    node.append(row);
  });
  return node;
};

const measure = (before, now) => {
  const seconds = (now.uptime_ms - before.uptime_ms) / 1000;
  if (!(seconds > 0)) return null;
  const grown = (name) => (now.downlink.counters[name] || 0) - (before.downlink.counters[name] || 0);
  const mean = (name) => {
    const count = (of) => of.downlink[name].counts.reduce((sum, n) => sum + n, 0);
    const samples = count(now) - count(before);
    return samples > 0 ? (now.downlink[name].sum - before.downlink[name].sum) / samples / 1000 : null;
  };
  return { goodput: grown("bytes_delivered") * 8 / seconds, queueing: mean("queueing"), rtt: mean("round_trip"), resent: grown("bytes_retransmitted") * 8 / seconds };
};
const interval = (estimate, show) => {
  if (!estimate) return "–";
  const range = estimate.low === null ? "" : ` [${show(estimate.low)}, ${show(estimate.high)}]`;
  return show(estimate.value) + range;
};
const showAb = (report) => {
  const into = byId("ab");
  if (!report) {
    into.replaceChildren(make("p", "No A/B phase since it started. cellerator ab start --for '30 min' passes half of the subscribers for half an hour, and compares.", "note"));
    return;
  }
  const state = report.is_running ? `under way: ${Math.round(report.elapsed_ms / 1000)} of ${report.planned_ms / 1000} s` : `ended (${report.ended_by})`;
  const who = `${report.control[0].subscribers} subscribers were passed, ${report.accelerated[0].subscribers} accelerated`;
  const rows = report.metrics.map((metric) => {
    const show = metric.unit === "bit/s" ? rate : (value) => value.toFixed(1) + " " + metric.unit;
    const change = metric.unit === "bit/s" ? (value) => "× " + value.toFixed(2) : (value) => (value > 0 ? "+" : "") + value.toFixed(1) + " " + metric.unit;
    return [`${metric.name} (${metric.direction})`, make("span", interval(metric.control, show), "slow"), make("span", interval(metric.accelerated, show), "fast"), interval(metric.change, change)];
  });
  const wide = make("div", undefined, "wide");
  wide.append(table(["", "passed", "accelerated", "change"], rows));
  into.replaceChildren(make("p", `A/B phase ${state}; ${who}. Brackets: 95 % confidence.`, "note"), wide);
};
const showSubscribers = (all) => {
  const rows = all.map((one) => {
    const link = make("a", one.address);
    link.href = "#" + one.address;
    return [link, String(one.flows), one.control_flows ? "passed" : "", rate(one.rate_bps), one.srtt_us === null ? "–" : ms(one.srtt_us / 1000), bytes(one.in_flight_bytes), bytes(one.debt_bytes)];
  });
  byId("subscribers").replaceChildren(rows.length ? table(["subscriber", "flows", "group", "rate at most", "round trip", "in flight", "owed"], rows) : make("p", "No flows.", "note"));
};
const showOne = (all) => {
  const address = decodeURIComponent(location.hash.slice(1));
  byId("one").hidden = !address;
  byId("all").hidden = Boolean(address);
  if (!address) return;
  byId("one-title").textContent = "Subscriber " + address;
  const one = all.find((other) => other.address === address);
  byId("one-charts").replaceChildren(
    tile("rate at most", rate(one?.rate_bps), "rate " + address),
    tile("round trip", ms(one?.srtt_us == null ? null : one.srtt_us / 1000), "rtt " + address),
    tile("in flight", one ? bytes(one.in_flight_bytes) : "–", "flight " + address));
  const rows = (one?.some_flows || []).map((flow) => [flow.server, flow.direction, flow.state, bytes(flow.in_flight_bytes), flow.srtt_us === null ? "–" : ms(flow.srtt_us / 1000)]);
  byId("one-flows").replaceChildren(rows.length ? table(["server", "data", "state", "in flight", "round trip"], rows) : make("p", "No flows at the moment.", "note"));
};
const show = () => {
  const it = last?.find((other) => other.name === chosen) || last?.[0];
  const snapshot = it?.snapshot;
  byId("state").textContent = !it ? "no accelerator runs" : snapshot ? (snapshot.is_draining ? "draining" : "live") : "does not answer";
  const flows = snapshot?.downlink.flows || {};
  byId("totals").replaceChildren(
    tile("goodput to subscribers", rate(rates?.goodput), "goodput"),
    tile("queueing delay", ms(rates?.queueing), "queueing"),
    tile("round trip", ms(rates?.rtt), "rtt"),
    tile("sent again", rate(rates?.resent), "resent"),
    tile("accelerated flows", String(flows.accelerated || 0), "flows"),
    tile("subscribers", String(snapshot?.subscribers || 0)));
  showAb(it?.ab);
  showSubscribers(it?.subscribers || []);
  showOne(it?.subscribers || []);
};
const take = (all) => {
  const names = all.map((it) => it.name);
  if (!names.includes(chosen)) { chosen = names[0] ?? null; series.clear(); }
  const which = byId("which");
  if (which.dataset.names !== names.join("\n")) {
    which.replaceChildren(...names.map((name) => make("option", name)));
    which.dataset.names = names.join("\n");
    which.hidden = names.length < 2;
  }
  which.value = chosen ?? "";
  const of = (list) => list?.find((it) => it.name === chosen)?.snapshot;
  rates = of(last) && of(all) ? measure(of(last), of(all)) : null;
  last = all;
  if (rates) Object.entries(rates).forEach(([name, value]) => note(name, value));
  if (of(all)) note("flows", of(all).downlink.flows.accelerated || 0);
  for (const one of all.find((it) => it.name === chosen)?.subscribers || []) {
    note("rate " + one.address, one.rate_bps);
    note("rtt " + one.address, one.srtt_us === null ? null : one.srtt_us / 1000);
    note("flight " + one.address, one.in_flight_bytes);
  }
  show();
};
addEventListener("DOMContentLoaded", () => {
  byId("which").addEventListener("change", (event) => { chosen = event.target.value; series.clear(); rates = null; show(); });
  addEventListener("hashchange", show);
  const events = new EventSource("events");
  events.onmessage = (event) => take(JSON.parse(event.data));
  events.onerror = () => { byId("state").textContent = "not connected"; };
});
