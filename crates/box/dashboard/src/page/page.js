"use strict";
const KEPT_S = 120;
let last = null, chosen = null, events = null, one = null;
const kept = new Kept(KEPT_S);

const addressed = () => decodeURIComponent(location.hash.slice(1));
const chosenOne = () => last?.accelerators.find((it) => it.name === chosen);

const TILES = [
  ["Goodput to subscribers", (it) => it.downlink_goodput_bps, words.rate],
  ["Time in queues", (it) => it.queueing_us, words.time],
  ["Round trip", (it) => it.round_trip_us, words.time],
  ["Sent again", (it) => it.retransmitted_bps, words.rate],
  ["Accelerated flows", (it) => it.flows.accelerated || 0, String],
  ["Subscribers", (it) => it.subscribers, String],
];
const showTotals = (totals) => {
  const place = byId("totals");
  if (!place.children.length) {
    TILES.forEach(([name]) => place.append(make("div", "tile", make("div", "name", name), make("div", "value", "–"),
      make("div", "most"), sparkline([], KEPT_S, 1), make("div", "span", make("span", null, `−${KEPT_S / 60} min`), make("span", null, "now")))));
  }
  TILES.forEach(([name, of, write], at) => {
    const tile = place.children[at], values = kept.of(chosen + " " + name);
    const most = Math.max(...values.map(([, value]) => value ?? 0), 0);
    setText(tile.children[1], totals ? write(of(totals)) : "–");
    setText(tile.children[2], most > 0 ? "most " + write(most) : "most –");
    tile.replaceChild(sparkline(values, KEPT_S, most), tile.children[3]);
  });
};

// What was carried since the start: accelerated, in turns with that, and passed by the reason.
const showCarried = (totals) => {
  const kinds = Object.entries(totals?.carried_bytes ?? {}).sort(([, a], [, b]) => b - a);
  const names = { accelerated: "of accelerated TCP", QUIC: "of QUIC in turns with it", "UDP and else": "of other UDP and else in turns" };
  const text = kinds.map(([kind, count]) => `${words.bytes(count)} ${names[kind] ?? `of TCP that passed (${kind})`}`).join(", ");
  setText(byId("carried"), text ? `Carried since the start: ${text}.` : "");
};

const SUBSCRIBERS = [
  { name: "Subscriber", of: (it) => it.address, link: (it) => "#" + encodeURIComponent(it.address) },
  { name: "Gets", of: (it) => words.rate(it.delivered_bps) },
  { name: "In queues", of: (it) => words.time(it.queueing_us) },
  { name: "Round trip", of: (it) => words.time(it.srtt_us) },
  { name: "Sent again", of: (it) => words.rate(it.retransmitted_bps) },
  { name: "Held", of: (it) => words.bytes(it.held_bytes) },
  { name: "Flows", of: (it) => String(it.flows) },
  { name: "A/B group", of: (it) => it.is_control ? "passed" : "" },
];
const showOverview = () => {
  const it = chosenOne();
  showTotals(it?.totals);
  showCarried(it?.totals);
  showCompare(it?.ab, it?.totals);
  const empty = it ? "No subscriber has flows." : "No accelerator runs, or this user may not see it.";
  tableInto(byId("subscribers"), SUBSCRIBERS, it?.subscribers || [], (row) => row.address + " " + (row.port ?? ""), empty);
};
const showState = () => {
  const it = chosenOne();
  const what = !last ? "connecting" : !it ? "no accelerator runs" : it.trouble ? it.trouble : it.is_draining ? "draining" : `live, up ${words.span(it.uptime_s ?? 0)}`;
  setText(byId("state"), what);
  const ways = it?.interfaces ? `: ${it.interfaces[0]} to servers, ${it.interfaces[1]} to subscribers` : "";
  setText(byId("about"), it ? (it.name + ways) : "");
};

const FLOWS = [
  { name: "Server", of: (it) => it.server },
  { name: "Client's port", of: (it) => it.client.slice(it.client.lastIndexOf(":") + 1) },
  { name: "Data", of: (it) => it.direction },
  { name: "State", of: (it) => it.state === "control" ? "passed (A/B)" : it.state },
  { name: "In flight", of: (it) => words.bytes(it.in_flight_bytes) },
  { name: "Owed", of: (it) => words.bytes(it.debt_bytes) },
  { name: "Round trip", of: (it) => words.time(it.srtt_us) },
];
const PASSED = [
  { name: "Server", of: (it) => it.server },
  { name: "Client's port", of: (it) => it.client.slice(it.client.lastIndexOf(":") + 1) },
  { name: "Why", of: (it) => it.reason, kind: "wide" },
];

// Flows with something under way, then those that are accelerated, then others, and those that have ended last.
const liveness = (flow) => (flow.in_flight_bytes > 0 || flow.debt_bytes > 0 ? 0 : flow.state === "accelerated" ? 1 : flow.state === "closed" ? 3 : 2);
const liveFirst = (flows) => [...flows].sort((a, b) => liveness(a) - liveness(b) || (b.in_flight_bytes || 0) - (a.in_flight_bytes || 0));

// A subscriber's page: its charts begin with the last minute that the server knows.
class Subscriber {
  constructor(name, address) {
    Object.assign(this, { name, address, points: [], source: null });
    byId("charts").replaceChildren();
    ["flows", "passed"].forEach((id) => { byId(id).replaceChildren(); delete byId(id).dataset.empty; });
    setText(byId("one-title"), "Subscriber " + address);
    setText(byId("one-note"), "waiting for the first sample");
    const place = byId("charts");
    this.charts = [
      new Chart(place, "Rate", [
        { name: "gets", of: (it) => it.delivered_bps, colour: "fast" },
        { name: "may get", of: (it) => it.rate_bps, colour: "slow", isDashed: true }], words.rate),
      new Chart(place, "In flight", [
        { name: "in flight", of: (it) => it.in_flight_bytes, colour: "fast" },
        { name: "window", of: (it) => it.window_bytes, colour: "slow", isDashed: true }], words.bytes),
      new Chart(place, "Round trip", [{ name: "smoothed", of: (it) => it.srtt_us, colour: "fast" }], words.time),
      new Chart(place, "Time in queues", [{ name: "estimate", of: (it) => it.queueing_us, colour: "fast" }], words.time),
    ];
    this.open();
  }

  open() {
    if (this.source) return;
    const query = new URLSearchParams({ name: this.name, address: this.address });
    this.source = new EventSource("subscriber?" + query);
    this.source.onmessage = (event) => this.take(JSON.parse(event.data));
    this.source.onerror = () => {
      if (this.source?.readyState === EventSource.CLOSED) setText(byId("one-note"), "Not shown live: as many subscribers are looked at already as may, or the session has ended. Reload the page.");
    };
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  take(event) {
    // After a break the server begins again with its last minute.
    const newest = this.points.length ? this.points[this.points.length - 1].at_ms : -1;
    this.points.push(...event.points.filter((point) => point.at_ms > newest));
    const end = this.points.length ? this.points[this.points.length - 1].at_ms : 0;
    while (this.points.length && this.points[0].at_ms < end - 62000) this.points.shift();
    this.charts.forEach((chart) => chart.show(this.points));
    byId("charts").dataset.points = this.points.length;
    if (event.detail) this.showDetail(event.detail);
  }

  showDetail(detail) {
    const isControl = chosenOne()?.subscribers.some((it) => it.address === this.address && it.is_control);
    const group = isControl ? "In the control group of the A/B phase: its new flows pass, and nothing limits them. " : "";
    const found = detail.is_whole || detail.flows.length === detail.flow_count ? "" : `, ${detail.flows.length} of them found`;
    const what = detail.is_known ? `${detail.flow_count} ${detail.flow_count === 1 ? "flow" : "flows"}${found}, ${words.bytes(detail.held_bytes)} held` : "It has had no flow for a while.";
    setText(byId("one-note"), group + what + passes(detail.opaque));
    const key = (row) => row.client + " " + row.server + " " + row.direction;
    tableInto(byId("flows"), FLOWS, liveFirst(detail.flows), key, "No flows at the moment.");
    tableInto(byId("passed"), PASSED, detail.passed, (row) => row.client + " " + row.server + " " + row.reason, "None of late.");
  }
}

// What passes to a subscriber, and what says how much of it has left.
const KNOWN_BY = {
  accelerated: "what has arrived is known by accelerated flows",
  "passed-tcp": "what has arrived is known by TCP that passes",
  echo: "what has arrived is known by echo requests",
  none: "nothing tells what has arrived, so nothing waits",
  contradicted: "answers contradict each other, so nothing waits",
};
const passes = (opaque) => {
  if (!opaque) return "";
  const kinds = [["of TCP", opaque.tcp_bytes], ["of QUIC", opaque.quic_bytes], ["of other UDP", opaque.udp_bytes], ["of something else", opaque.other_bytes]];
  const text = kinds.filter(([, count]) => count > 0).map(([name, count]) => `${words.bytes(count)} ${name}`).join(", ");
  const versions = { 1: "1", [0x6b3343cf]: "2" };
  const version = versions[opaque.quic_version] ?? `0x${(opaque.quic_version ?? 0).toString(16)}`;
  const quic = opaque.quic_version ? `; last handshake of QUIC (version ${version}) in ${words.time(opaque.quic_handshake_us)}` : "";
  return text ? `. Passed beside them: ${text}${quic}; ${KNOWN_BY[opaque.evidence] ?? opaque.evidence}` : "";
};

const showPlace = () => {
  const address = addressed();
  // Back from a subscriber's page; not when another accelerator was chosen there.
  const before = !address && one?.name === chosen ? one?.address : undefined;
  byId("overview").hidden = Boolean(address);
  byId("one").hidden = !address;
  if (one && (one.address !== address || one.name !== chosen)) { one.close(); one = null; }
  if (address && !one && chosen !== null) {
    one = new Subscriber(chosen, address);
    byId("one-title").focus();
    scrollTo(0, 0);
  }
  if (!address) showOverview();
  if (before) document.querySelector(`#subscribers a[href="#${CSS.escape(encodeURIComponent(before))}"]`)?.focus();
};
const choose = (name) => { chosen = name; };
const take = (overview) => {
  last = overview;
  const names = overview.accelerators.map((it) => it.name);
  if (!names.includes(chosen)) choose(names[0] ?? null);
  const which = byId("which");
  if (which.dataset.names !== names.join("\n")) {
    which.replaceChildren(...names.map((name) => { const option = make("option", null, name); option.value = name; return option; }));
    which.dataset.names = names.join("\n");
    which.hidden = names.length < 2;
  }
  which.value = chosen ?? "";
  // Of each, whichever is shown, and on whatever page.
  for (const it of overview.accelerators) {
    if (it.totals) TILES.forEach(([name, of]) => kept.add(it.name + " " + name, of(it.totals)));
  }
  kept.save();
  showState();
  showPlace();
};

const open = () => {
  if (events) return;
  events = new EventSource("events");
  events.onmessage = (event) => take(JSON.parse(event.data));
  events.onerror = () => setText(byId("state"), events?.readyState === EventSource.CLOSED ? "the session has ended: reload the page" : "not connected");
  one?.open();
};
const close = () => {
  events?.close();
  events = null;
  one?.close();
};
addEventListener("DOMContentLoaded", () => {
  byId("which").addEventListener("change", (event) => { choose(event.target.value); location.hash = ""; showState(); showPlace(); });
  addEventListener("hashchange", showPlace);
  addEventListener("keydown", (event) => { if (event.key === "Escape" && addressed()) location.hash = ""; });
  // Nothing is asked for what nobody sees.
  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  fetch("access").then((answer) => answer.text()).then((text) => { byId("leave").hidden = text.trim() !== "token"; }, () => {});
  showTotals();
  open();
});
