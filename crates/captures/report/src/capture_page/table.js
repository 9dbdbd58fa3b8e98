// The table of flows: sorted by any column, filtered by words and comparisons.

const main = row => row.dir[row.dir[1].by > row.dir[0].by ? 1 : 0];
const total = row => row.dir[0].by + row.dir[1].by;
const resent = row => row.dir[0].re[0] + row.dir[1].re[0];
const rttOf = (row, i) => { const values = row.dir.map(way => way.rtt?.[i]).filter(is); return values.length ? Math.max(...values) : null; };
// Name, what sorts, what shows, unit or note, what a comparison in the filter calls it.
const COLUMNS = [
  ["Flow", row => row.id, row => row.id, "", "flow"],
  ["Ends", row => row.a + row.b, row => `${row.a} ${row.client === 1 ? "←" : row.client === 0 ? "→" : "–"} ${row.b}`, "1 and 2; arrow: who opened", null],
  ["Findings", row => row.found.length, null, "", "findings"],
  ["Start", row => row.t, row => fixed(row.t, 3), "s", "start"],
  ["Duration", row => row.d, row => duration(row.d), "", "duration"],
  ["Data", total, row => bytes(total(row)), "both ways", "bytes"],
  ["Throughput", row => main(row).bps, row => rate(main(row).bps), "while data flowed", "rate"],
  ["Resent", resent, row => count(resent(row)), "packets", "resent"],
  ["Loss", row => main(row).loss, row => percent(main(row).loss), "retransmitted", "loss"],
  ["Before", row => main(row).before, row => count(main(row).before), "lost before capture", "before"],
  ["RTT", row => rttOf(row, 1), row => ms(rttOf(row, 1)), "median", "rtt"],
  ["RTT max", row => rttOf(row, 3), row => ms(rttOf(row, 3)), "", "rttmax"],
  ["Handshake", row => row.hs, row => ms(row.hs), "", "handshake"],
  ["End", row => row.end, row => spaced(row.end), "", null],
];

// `loss>1 10.0.0.1 rtt<50`: all words must fit.
function matcher(text, kind) {
  const tests = text.trim().toLowerCase().split(/\s+/).filter(Boolean).map(word => {
    const comparison = /^([a-z]+)(<=|>=|<|>|=)([\d.]+)([kmg]?)$/.exec(word);
    const column = comparison && COLUMNS.find(c => c[4] === comparison[1]);
    if (!column) return row => row.words.includes(word);
    const wanted = Number(comparison[3]) * { "": 1, k: 1e3, m: 1e6, g: 1e9 }[comparison[4]];
    const factor = column[4] === "loss" ? 100 : 1;
    return row => {
      const value = column[1](row) * factor;
      if (column[1](row) === null) return false;
      return { "<": value < wanted, ">": value > wanted, "<=": value <= wanted, ">=": value >= wanted, "=": value === wanted }[comparison[2]];
    };
  });
  return row => (!kind || row.found.some(found => found.kind === kind)) && tests.every(test => test(row));
}

class FlowTable {
  constructor(head, choose) {
    Object.assign(this, { head, choose, order: 5, falls: true, limit: 100, kind: null, chosen: null });
    for (const row of head.rows) row.words = `${row.a} ${row.b} ${row.id} ${spaced(row.end)} ${row.end} ${row.at ?? ""} ${row.found.map(found => `${spaced(found.kind)} ${found.kind}`).join(" ")}`.toLowerCase();
    this.table = document.getElementById("table");
    this.filter = document.getElementById("filter");
    this.more = document.getElementById("more");
    this.filter.addEventListener("input", () => { this.limit = 100; this.fill(); });
    this.more.addEventListener("click", () => { this.limit += 400; this.fill(); });
    this.heading();
    this.chips();
    this.body = el("tbody", {});
    this.table.append(this.body);
    this.body.addEventListener("keydown", event => this.key(event));
    this.fill();
  }

  heading() {
    this.heads = COLUMNS.map(([name, , , note], i) => {
      const th = el("th", { scope: "col", class: i === 1 || i === 2 || i === 13 ? "t" : null }, el("button", { type: "button", onclick: () => this.sort(i) }, name, note ? el("small", {}, note) : null));
      return th;
    });
    this.table.append(el("caption", { class: "quiet" }, "Flows; the headings sort, a flow's number opens it"), el("thead", {}, el("tr", {}, ...this.heads)));
  }

  chips() {
    const kinds = Object.entries(this.head.found).sort((a, b) => b[1] - a[1]);
    const host = document.getElementById("found");
    const buttons = kinds.map(([kind, n]) => el("button", { type: "button", "aria-pressed": "false", onclick: event => {
      this.kind = this.kind === kind ? null : kind;
      for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget && this.kind !== null));
      this.fill();
    } }, spaced(kind), el("span", { class: "n" }, count(n))));
    host.replaceChildren(...buttons);
  }

  sort(column) {
    this.falls = this.order === column ? !this.falls : column !== 1 && column !== 0;
    this.order = column;
    this.fill();
  }

  fill() {
    const value = COLUMNS[this.order][1], sign = this.falls ? -1 : 1;
    const rows = this.head.rows.filter(matcher(this.filter.value, this.kind));
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a.id - b.id;
      return (x < y ? -1 : x > y ? 1 : 0) * sign || a.id - b.id;
    });
    this.heads.forEach((th, i) => th.setAttribute("aria-sort", i !== this.order ? "none" : this.falls ? "descending" : "ascending"));
    this.shown = rows.slice(0, this.limit);
    this.body.replaceChildren(...this.shown.map(row => this.row(row)));
    const held = this.head.rows.length, all = this.head.flows;
    document.getElementById("count").textContent = `${count(rows.length)} of ${count(all)} flows${held < all ? ` (the ${count(held)} with most data are listed)` : ""}`;
    this.more.hidden = rows.length <= this.limit;
    this.more.textContent = `Show more (${count(rows.length - this.limit)} left)`;
    this.rows = rows;
  }

  row(row) {
    const tr = el("tr", { "aria-selected": String(row === this.chosen), onclick: () => this.open(row) });
    COLUMNS.forEach(([, , show], i) => {
      if (i === 0) tr.append(el("td", {}, el("button", { type: "button", "aria-label": `Flow ${row.id}` }, String(row.id))));
      else if (!show) tr.append(el("td", { class: "t tags" }, ...[...new Set(row.found.map(found => found.kind))].map(tag)));
      else tr.append(el("td", { class: i === 1 || i === 13 ? "t" : null }, String(show(row))));
    });
    row.element = tr;
    return tr;
  }

  open(row) {
    if (!row) return;
    this.chosen?.element?.setAttribute("aria-selected", "false");
    this.chosen = row;
    row.element?.setAttribute("aria-selected", "true");
    history.replaceState(null, "", `#flow=${row.id}`);
    return this.choose(row);
  }

  key(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const at = this.shown.findIndex(row => row.element.contains(event.target));
    if (!way || at < 0) return;
    const next = this.shown[at + way];
    if (!next) return;
    event.preventDefault();
    next.element.querySelector("button").focus();
    this.open(next);
  }
}
