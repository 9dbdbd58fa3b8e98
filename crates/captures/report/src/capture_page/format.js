// Numbers as people read them, and elements.

const missing = "–";
const is = x => x !== null && x !== undefined && !Number.isNaN(x);
// Without the sign of a negative zero.
const fixed = (x, digits) => is(x) ? (Number(x.toFixed(digits)) || 0).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : missing;
const count = n => is(n) ? n.toLocaleString("en") : missing;
function digits(x, most = 3) {
  if (!is(x)) return missing;
  if (x === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(x)));
  return x.toLocaleString("en", { maximumFractionDigits: Math.max(0, Math.min(6, most - 1 - size)) });
}
function scaled(x, units, step = 1000) {
  if (!is(x)) return missing;
  let i = 0;
  while (Math.abs(x) >= step && i < units.length - 1) { x /= step; i++; }
  return `${digits(x)} ${units[i]}`;
}
const bytes = n => scaled(n, ["B", "kB", "MB", "GB", "TB"]);
const rate = bps => scaled(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
const duration = s => !is(s) ? missing : s === 0 ? "0 s" : s < 1e-3 ? `${digits(s * 1e6)} µs` : s < 1 ? `${digits(s * 1e3)} ms` : s < 120 ? `${digits(s)} s` : s < 7200 ? `${digits(s / 60)} min` : `${digits(s / 3600)} h`;
const ms = x => is(x) ? `${digits(x)} ms` : missing;
const percent = x => is(x) ? `${digits(x * 100)} %` : missing;
const spaced = name => name.replaceAll("_", " ");

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Round values between low and high, about `n` of them.
function ticks(low, high, n) {
  const raw = (high - low) / Math.max(1, n);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

const theme = new Map();
function colour(name) {
  if (!theme.has(name)) theme.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return theme.get(name);
}

// The tone of each finding.
const TONE = { refused: "rto", no_answer: "rto", receive_window_limited: "window", zero_window: "window", bufferbloat: "sack", application_limited: "quiet", needless_retransmissions: "spurious", time_outs: "rto", loss: "fast", reordering: "late", capture_gaps: "quiet", loss_without_rate_change: "tlp", split_connection: "tlp", both_sides: "quiet" };
const tag = kind => el("span", { class: "tag", style: `--tone: var(--${TONE[kind] ?? "quiet"})` }, spaced(kind));
