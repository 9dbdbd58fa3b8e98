"use strict";
// Every text goes into the page as text: nothing that comes from the network is taken for markup.
const byId = (id) => document.getElementById(id);
const make = (name, kind, ...inside) => {
  const node = document.createElement(name);
  if (kind) node.className = kind;
  node.append(...inside.filter((part) => part !== undefined && part !== null));
  return node;
};
// Changes nothing that is as it should be: what the user has selected or focused stays so.
const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };

const none = (value) => value === null || value === undefined;
const digits = (value, units, step = 1000) => {
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) { value /= step; unit += 1; }
  const places = Math.abs(value) >= 100 || value === 0 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(places).replace(/^-/, "−") + " " + units[unit];
};
const words = {
  rate: (bps) => none(bps) ? "–" : digits(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]),
  bytes: (n) => none(n) ? "–" : digits(n, ["B", "kB", "MB", "GB"]),
  time: (us) => none(us) ? "–" : digits(us / 1000, ["ms", "s"]),
  ms: (ms) => none(ms) ? "–" : digits(ms, ["ms", "s"]),
  percent: (value) => none(value) ? "–" : value.toFixed(Math.abs(value) < 10 ? 2 : 1).replace(/^-/, "−") + " %",
  span: (seconds) => {
    const [d, h, m] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
    if (d) return `${d} d ${h} h`;
    if (h) return `${h} h ${m} min`;
    return m ? `${m} min` : `${Math.round(seconds)} s`;
  },
};

// Values of some seconds, by name. They stay when the page is loaded again, but not longer than a tab.
class Kept {
  constructor(seconds) {
    Object.assign(this, { seconds, all: new Map() });
    try { this.all = new Map(JSON.parse(sessionStorage.getItem("kept") || "[]")); } catch { /* Then it begins anew. */ }
  }

  add(name, value, at = Date.now()) {
    const values = this.of(name, at);
    values.push([at, none(value) ? null : value]);
    this.all.set(name, values);
  }

  of(name, now = Date.now()) {
    return (this.all.get(name) || []).filter(([at]) => at > now - this.seconds * 1000 && at <= now);
  }

  save() {
    try { sessionStorage.setItem("kept", JSON.stringify([...this.all])); } catch { /* Nothing is kept then. */ }
  }
}

// A table whose rows stay what they are while their figures change. In a narrow page each row is a block of its own.
// Columns: {name, of: (row) => text or node, link: (row) => address of a link, kind: class}.
const tableInto = (place, columns, rows, keyOf, empty) => {
  if (!rows.length) {
    if (place.dataset.empty !== empty) place.replaceChildren(make("p", "note", empty));
    place.dataset.empty = empty;
    return;
  }
  delete place.dataset.empty;
  let body = place.querySelector("tbody");
  if (!body) {
    const head = make("tr");
    columns.forEach((column) => { const th = make("th", column.kind, column.name); th.scope = "col"; head.append(th); });
    body = make("tbody");
    place.replaceChildren(make("table", null, make("thead", null, head), body));
  }
  const focused = document.activeElement, known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  rows.forEach((row, at) => {
    const key = keyOf(row);
    let line = known.get(key);
    known.delete(key);
    if (!line) {
      line = make("tr");
      line.dataset.key = key;
      columns.forEach((column) => {
        const td = make("td", column.kind, column.link ? make("a") : undefined);
        td.dataset.name = column.name;
        line.append(td);
      });
    }
    columns.forEach((column, n) => {
      const cell = line.cells[n], inner = column.link ? cell.firstChild : cell;
      if (column.link && inner.getAttribute("href") !== column.link(row)) inner.href = column.link(row);
      setText(inner, column.of(row));
    });
    if (body.rows[at] !== line) body.insertBefore(line, body.rows[at] || null);
  });
  known.forEach((line) => line.remove());
  if (focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
};
