"use strict";
// An A/B phase: what subscribers had who were passed, and those who were accelerated, as means with their intervals.
const METRICS = {
  "goodput": { name: "Throughput", isMoreBetter: true, write: words.rate, change: (factor) => "× " + factor.toFixed(2), nothing: 1 },
  "queueing-delay": { name: "Time in queues", write: words.ms, nothing: 0 },
  "rtt": { name: "Round trip", write: words.ms, nothing: 0 },
  "resent": { name: "Sent again", write: words.percent, nothing: 0 },
};
const signed = (write) => (value) => (value > 0 ? "+" : "") + write(value);
// "yes" where the interval says that it is better, "worse" where it says the opposite, else "open".
const verdict = (metric, kind) => {
  const change = metric.change;
  if (!change || none(change.low)) return "open";
  if (change.low <= kind.nothing && change.high >= kind.nothing) return "open";
  return (change.value > kind.nothing) === Boolean(kind.isMoreBetter) ? "yes" : "worse";
};

const dotInterval = (estimate, most, kind) => {
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  svg.setAttribute("class", "dots " + kind);
  svg.setAttribute("aria-hidden", "true");
  const add = (name, values) => {
    const node = document.createElementNS(ns, name);
    Object.entries(values).forEach(([key, value]) => node.setAttribute(key, value));
    svg.append(node);
  };
  const percent = (value) => Math.min(100, Math.max(0, value / most * 100)).toFixed(2) + "%";
  add("line", { class: "axis", x1: "0", x2: "100%", y1: "50%", y2: "50%" });
  if (!estimate) return svg;
  if (!none(estimate.low)) {
    add("line", { class: "interval", x1: percent(estimate.low), x2: percent(estimate.high), y1: "50%", y2: "50%" });
    // An interval that goes on below zero has no end in the picture.
    for (const end of [estimate.low, estimate.high].filter((end) => end >= 0)) {
      add("line", { class: "end", x1: percent(end), x2: percent(end), y1: "22%", y2: "78%" });
    }
  }
  add("circle", { cx: percent(estimate.value), cy: "50%", r: "6" });
  return svg;
};

// A quantile of what a report has: of values in rising order the one at that share.
const quantile = (values, share) => values[Math.round(share * (values.length - 1))];
// Fewer subscribers make no curve: each would be a corner of its own.
const CURVE_OF = 5;
const drawsCurves = (metric) => metric.control_quantiles.length >= CURVE_OF && metric.accelerated_quantiles.length >= CURVE_OF;

// How many subscribers of a group, from none at the bottom to all at the top, have at most what the axis says.
const curves = (metric, most) => {
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  svg.setAttribute("class", "curves");
  svg.setAttribute("viewBox", "0 0 100 100");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const line = (kind, points) => {
    const node = document.createElementNS(ns, "polyline");
    node.setAttribute("class", kind);
    node.setAttribute("points", points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join(" "));
    svg.append(node);
  };
  for (const height of [0, 50, 100]) line("axis", [[0, height], [100, height]]);
  for (const [kind, values] of [["slow", metric.control_quantiles], ["fast", metric.accelerated_quantiles]]) {
    // What lies beyond the picture is at its edge.
    const points = values.map((value, at) => [Math.min(100, value / most * 100), 100 - at / (values.length - 1) * 100]);
    line(kind, [[0, 100], ...points, [100, 0]]);
  }
  return svg;
};

// The middle subscriber and the worst tenth of each group, in words.
const spreadWords = (metric, kind) => {
  const groups = [["slow", "passed", metric.control_quantiles], ["fast", "accelerated", metric.accelerated_quantiles]];
  const say = (what, share) => make("p", "said", what, ": ", ...groups.flatMap(([colour, who, values], at) =>
    [at ? ", " : null, make("span", colour, `${kind.write(quantile(values, share))} ${who}`)]));
  const hasTenths = groups.every(([, , values]) => values.length >= 10);
  return [say("Half of the subscribers have at most", 0.5),
    hasTenths ? kind.isMoreBetter ? say("The worst tenth has at most", 0.1) : say("The worst tenth has at least", 0.9) : null];
};

const spread = (metric, kind, most) => drawsCurves(metric) ? [
  make("div", "bar spread",
    make("span", "shares", make("span", null, "all"), make("span", null, "half"), make("span", null, "none")),
    make("div", null, curves(metric, most), make("div", "scale", make("span", null, "0"), make("span", null, kind.write(most)))),
    make("span", "figure")),
  ...spreadWords(metric, kind)] : [];

const compareRow = (metric) => {
  const kind = METRICS[metric.name];
  if (!kind) return null;
  const change = kind.change || signed(kind.write);
  const both = [metric.control, metric.accelerated].filter(Boolean);
  // The few who have very much do not press all others into a corner.
  const large = drawsCurves(metric) ? [metric.control_quantiles, metric.accelerated_quantiles].map((values) => quantile(values, 0.95)) : [];
  const most = Math.max(1e-9, ...both.map((it) => it.high ?? it.value), ...large) * 1.05;
  const judged = verdict(metric, kind);
  const range = metric.change && !none(metric.change.low)
    ? make("small", null, ` ${change(metric.change.low)} to ${change(metric.change.high)}`) : null;
  const row = make("div", "versus");
  row.dataset.metric = metric.name;
  row.dataset.direction = metric.direction;
  row.dataset.verdict = judged;
  row.append(make("div", "what",
    make("strong", null, kind.name + (metric.direction === "uplink" ? ", uploads" : "")),
    make("span", "change " + judged, metric.change ? change(metric.change.value) : "–", range,
      judged === "open" ? make("em", null, " no change shown") : null)));
  for (const [who, estimate, colour] of [["passed", metric.control, "slow"], ["accelerated", metric.accelerated, "fast"]]) {
    row.append(make("div", "bar",
      make("span", "who " + colour, who), dotInterval(estimate, most, colour),
      make("span", "figure", estimate ? kind.write(estimate.value) : "–")));
  }
  row.append(...spread(metric, kind, most).filter(Boolean));
  return row;
};

// The whole in a sentence.
const headline = (report) => {
  const of = (name) => report.metrics.find((metric) => metric.name === name && metric.direction === "downlink");
  const said = [];
  const queue = of("queueing-delay"), goodput = of("goodput");
  if (queue && verdict(queue, METRICS["queueing-delay"]) !== "open") {
    const by = Math.abs(queue.change.value), less = queue.change.value < 0 ? "less" : "more";
    const part = queue.control.value > 0 ? ` (${Math.round(by / queue.control.value * 100)} %)` : "";
    said.push(`${words.ms(by)}${part} ${less} in queues`);
  }
  if (goodput && verdict(goodput, METRICS.goodput) !== "open") {
    said.push(`${goodput.change.value.toFixed(2)} times the throughput`);
  }
  if (said.length) {
    const text = said.join(" and ");
    return text[0].toUpperCase() + text.slice(1) + " for accelerated subscribers.";
  }
  return report.is_running ? "No change is shown yet." : "No change is shown: it takes more time, or more subscribers.";
};

const showCompare = (report, totals) => {
  const into = byId("compare");
  if (!report) {
    delete into.dataset.known;
    const now = `Subscribers wait ${words.time(totals?.queueing_us)} in queues now, and get ${words.rate(totals?.downlink_goodput_bps)} together.`;
    const text = "The gain is not measured yet: passed flows bypass the accelerator. " + now;
    const how = make("p", "note", "An A/B phase measures it on these same links: half of the subscribers are passed for a time. ", make("code", null, "cellerator ab start --for '30 min'"));
    const shown = into.querySelector("p.now");
    if (shown) setText(shown, text);
    else into.replaceChildren(make("p", "now", text), how);
    return;
  }
  const state = report.is_running
    ? `A/B phase under way: ${words.span(report.elapsed_ms / 1000)} of ${words.span(report.planned_ms / 1000)}`
    : `A/B phase of ${words.span(report.elapsed_ms / 1000)}, ended (${report.ended_by})`;
  const who = `${report.control[0]?.subscribers ?? 0} subscribers passed, ${report.accelerated[0]?.subscribers ?? 0} accelerated, on the same links at the same time`;
  const known = JSON.stringify([report, totals === undefined]);
  if (into.dataset.known === known) return;
  into.dataset.known = known;
  const order = Object.keys(METRICS);
  const metrics = [...report.metrics].sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name) || (a.direction < b.direction ? -1 : 1));
  into.replaceChildren(make("p", "headline", headline(report)),
    make("p", "note", `${state}. ${who}. Dot: mean over subscribers. Bar: 95 % confidence interval.${metrics.some(drawsCurves) ? " Curve: how many of the group's subscribers have at most so much." : ""}`),
    make("div", "picture", ...metrics.map(compareRow)));
};
