// A canvas with axes that zooms and moves; several can share one view of time.

class View {
  constructor(low, high) {
    const margin = (high - low || 1e-3) * 0.01;
    this.all = [low - margin, high + margin];
    this.range = [...this.all];
    this.plots = [];
    this.waiting = false;
  }
  show(low, high) {
    const [first, last] = this.all, whole = last - first;
    let width = Math.min(Math.max(high - low, whole * 1e-7, 1e-7), whole);
    let from = (low + high - width) / 2;
    from = Math.min(Math.max(from, first), last - width);
    this.range = [from, from + width];
    this.changed();
  }
  zoom(factor, around = (this.range[0] + this.range[1]) / 2) {
    const [low, high] = this.range;
    this.show(around - (around - low) * factor, around + (high - around) * factor);
  }
  move(share) {
    const width = this.range[1] - this.range[0];
    this.show(this.range[0] + width * share, this.range[1] + width * share);
  }
  reset() { for (const plot of this.plots) plot.fixedY = null; this.show(...this.all); }
  changed() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; for (const plot of this.plots) plot.draw(); });
  }
}

const plots = new Set();
const EDGE = { left: 92, right: 14, top: 8, bottom: 24 };

class Plot {
  // `options`: title, keys [[text, colour]], height, view, extent(x0, x1) -> [low, high], paint(frame), unit(y),
  // time (last of a stack shows it), hover(frame, x, y) -> { x, y, text }, read(x0, x1) -> text, boxZoom.
  constructor(host, options) {
    Object.assign(this, options);
    this.fixedY = null;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": `${this.title}. Plus and minus zoom, arrows move, 0 shows all, Enter reads out.`, style: `height: ${this.height}px; touch-action: pan-y` });
    this.over = el("canvas", { class: "over", "aria-hidden": "true", style: `height: ${this.height}px` });
    this.tip = el("div", { class: "tip", hidden: true });
    this.said = el("div", { class: "quiet", role: "status" });
    const keys = (this.keys ?? []).map(([name, tone]) => el("span", { class: "key" }, el("i", { style: `--c: var(--${tone})` }), name));
    const name = el("div", { class: "name" }, el("b", {}, this.title), ...keys, this.buttons ?? null);
    this.box = el("div", { style: "position: relative" }, this.canvas, this.over, this.tip, this.said);
    host.append(el("div", { class: "plot" }, name, this.box));
    this.view.plots.push(this);
    plots.add(this);
    new ResizeObserver(() => this.view.changed()).observe(this.canvas);
    this.listen();
  }

  size() {
    const ratio = Math.max(this.ratio ?? 0, window.devicePixelRatio || 1);
    const width = this.canvas.clientWidth, height = this.height;
    for (const canvas of [this.canvas, this.over]) {
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
      }
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    return [width, height];
  }

  draw() {
    const [width, height] = this.size();
    if (width < 100) return;
    const [x0, x1] = this.view.range;
    let [y0, y1] = this.fixedY ?? this.extent(x0, x1);
    if (!(y1 > y0)) y1 = y0 + 1;
    const g = this.canvas.getContext("2d");
    const inner = { left: EDGE.left, right: width - EDGE.right, top: EDGE.top, bottom: height - (this.time ? EDGE.bottom : 8) };
    const kx = (inner.right - inner.left) / (x1 - x0), ky = (inner.bottom - inner.top) / (y1 - y0);
    const frame = { g, x0, x1, y0, y1, kx, ky, ...inner, X: x => inner.left + (x - x0) * kx, Y: y => inner.bottom - (y - y0) * ky };
    frame.toX = px => x0 + (px - inner.left) / kx;
    frame.toY = py => y0 + (inner.bottom - py) / ky;
    this.frame = frame;
    g.clearRect(0, 0, width, height);
    this.grid(frame);
    g.save();
    g.beginPath();
    g.rect(inner.left, inner.top, inner.right - inner.left, inner.bottom - inner.top);
    g.clip();
    this.paint(frame);
    g.restore();
    this.over.getContext("2d").clearRect(0, 0, width, height);
    this.tip.hidden = true;
  }

  grid(f) {
    const { g } = f;
    g.fillStyle = colour("plot");
    g.fillRect(f.left, f.top, f.right - f.left, f.bottom - f.top);
    g.strokeStyle = colour("rule");
    g.fillStyle = colour("soft");
    g.lineWidth = 1;
    g.font = "11.5px system-ui, sans-serif";
    g.textAlign = "right";
    g.textBaseline = "middle";
    g.beginPath();
    for (const y of this.yTicks?.(f) ?? ticks(f.y0, f.y1, (f.bottom - f.top) / 46)) {
      const py = Math.round(f.Y(y)) + 0.5;
      g.moveTo(f.left, py); g.lineTo(f.right, py);
      g.fillText(this.unit(y, f), f.left - 7, py);
    }
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const x of ticks(f.x0, f.x1, (f.right - f.left) / 105)) {
      const px = Math.round(f.X(x)) + 0.5;
      g.moveTo(px, f.top); g.lineTo(px, f.bottom);
      if (this.time) g.fillText(this.time(x, f), px, f.bottom + 7);
    }
    g.stroke();
  }

  listen() {
    const at = event => { const box = this.canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const { canvas, view } = this;
    const fingers = new Map();
    let from = null, pinch = null;
    canvas.addEventListener("wheel", event => {
      if (!this.frame) return;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return view.move((event.deltaX || event.deltaY) / 1500);
      view.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004), this.frame.toX(at(event)[0]));
    }, { passive: false });
    canvas.addEventListener("pointerdown", event => {
      if (event.button !== 0 || !this.frame) return;
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, at(event));
      from = fingers.size === 1 ? { at: at(event), moves: event.shiftKey, range: [...view.range] } : null;
      if (fingers.size === 2) pinch = { points: [...fingers.values()], range: [...view.range] };
    });
    canvas.addEventListener("pointermove", event => {
      const [x, y] = at(event);
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, [x, y]);
      if (pinch && fingers.size === 2) return this.pinch(pinch, [...fingers.values()]);
      if (!from) return this.point(x, y);
      if (from.moves || event.pointerType === "touch") {
        const passed = (from.at[0] - x) / this.frame.kx;
        return view.show(from.range[0] + passed, from.range[1] + passed);
      }
      this.select(from.at, [x, y]);
    });
    const end = event => {
      fingers.delete(event.pointerId);
      if (pinch) { if (fingers.size === 0) pinch = null; from = null; return; }
      if (from && event.type === "pointerup" && !from.moves && event.pointerType !== "touch") this.zoomTo(from.at, at(event));
      from = null;
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => { if (!from) this.clear(); });
    canvas.addEventListener("dblclick", () => view.reset());
    canvas.addEventListener("keydown", event => this.key(event));
  }

  pinch(start, [a, b]) {
    const width = points => Math.max(20, Math.abs(points[0][0] - points[1][0]));
    const factor = width(start.points) / width([a, b]);
    const middle = (start.points[0][0] + start.points[1][0]) / 2;
    const [low, high] = start.range, k = (high - low) / (this.frame.right - this.frame.left);
    const around = low + (middle - this.frame.left) * k;
    this.view.show(around - (around - low) * factor, around + (high - around) * factor);
  }

  key(event) {
    const step = { "+": () => this.view.zoom(0.6), "=": () => this.view.zoom(0.6), "-": () => this.view.zoom(1 / 0.6), ArrowLeft: () => this.view.move(-0.15), ArrowRight: () => this.view.move(0.15), Home: () => this.view.move(-1e9), End: () => this.view.move(1e9),
      0: () => this.view.reset(), Escape: () => this.view.reset(), Enter: () => this.say(this.read?.(...this.view.range)), n: () => this.jump(1), p: () => this.jump(-1) }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    step();
  }

  // To the next or previous event, keeping the width of the view.
  jump(way) {
    const found = this.next?.((this.view.range[0] + this.view.range[1]) / 2, way);
    if (!found) return this.say(way > 0 ? "No later event." : "No earlier event.");
    const half = (this.view.range[1] - this.view.range[0]) / 2;
    this.view.show(found.x - half, found.x + half);
    requestAnimationFrame(() => { this.mark(found); this.say(found.text); });
  }

  say(text) { if (text) this.said.textContent = text; }

  select([ax, ay], [bx, by]) {
    const g = this.over.getContext("2d"), f = this.frame;
    g.clearRect(0, 0, this.over.width, this.over.height);
    g.fillStyle = colour("accent");
    g.globalAlpha = 0.16;
    const tall = this.boxZoom && Math.abs(by - ay) > 12;
    g.fillRect(Math.min(ax, bx), tall ? Math.min(ay, by) : f.top, Math.abs(bx - ax), tall ? Math.abs(by - ay) : f.bottom - f.top);
    g.globalAlpha = 1;
  }

  zoomTo([ax, ay], [bx, by]) {
    const f = this.frame;
    this.clear();
    if (Math.abs(bx - ax) < 5) return;
    if (this.boxZoom && Math.abs(by - ay) > 12) this.fixedY = [f.toY(Math.max(ay, by)), f.toY(Math.min(ay, by))];
    this.view.show(f.toX(Math.min(ax, bx)), f.toX(Math.max(ax, bx)));
  }

  clear() {
    this.tip.hidden = true;
    for (const plot of this.view.plots) plot.over.getContext("2d").clearRect(0, 0, plot.over.width, plot.over.height);
  }

  point(x, y) {
    const f = this.frame;
    if (!f || x < f.left || x > f.right) return this.clear();
    const found = this.hover?.(f, x, y);
    this.clear();
    for (const plot of this.view.plots) plot.line(found ? f.X(found.x) : x);
    if (found) this.mark(found);
  }

  line(x) {
    const g = this.over.getContext("2d"), f = this.frame;
    if (!f) return;
    g.strokeStyle = colour("quiet");
    g.lineWidth = 1;
    g.setLineDash([3, 3]);
    g.beginPath();
    g.moveTo(Math.round(x) + 0.5, f.top); g.lineTo(Math.round(x) + 0.5, f.bottom);
    g.stroke();
    g.setLineDash([]);
  }

  mark(found) {
    const f = this.frame, g = this.over.getContext("2d"), x = f.X(found.x), y = f.Y(found.y);
    if (is(found.y)) {
      g.strokeStyle = colour("accent");
      g.lineWidth = 2;
      g.beginPath();
      g.arc(x, y, 6, 0, 7);
      g.stroke();
    }
    this.tip.textContent = found.text;
    this.tip.hidden = false;
    const width = this.tip.offsetWidth, left = x + 16 + width > f.right + EDGE.right ? x - 16 - width : x + 16;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${Math.max(0, Math.min((is(y) ? y : f.top) - 12, f.bottom - this.tip.offsetHeight))}px`;
  }
}

// Draws vertical bars; bars of one pixel column that touch become one.
class Bars {
  constructor(g, width) { this.g = g; this.width = width; this.x = NaN; }
  add(x, top, bottom) {
    const column = Math.round(x * 2) / 2;
    if (column === this.x && top <= this.bottom + 1 && bottom >= this.top - 1) {
      this.top = Math.min(this.top, top);
      this.bottom = Math.max(this.bottom, bottom);
      return;
    }
    this.flush();
    this.x = column; this.top = top; this.bottom = bottom;
  }
  flush() {
    if (!Number.isNaN(this.x)) this.g.fillRect(this.x - this.width / 2, this.top, this.width, Math.max(2.2, this.bottom - this.top));
    this.x = NaN;
  }
}

// A line of steps through points that come in the order of x; points closer than a pixel become one.
class Steps {
  constructor(g) { this.g = g; this.open = false; g.beginPath(); }
  add(x, y) {
    if (Number.isNaN(y)) { this.flush(); this.open = false; return; }
    if (!this.open) { this.g.moveTo(x, y); this.open = true; this.x = x; this.y = this.last = y; this.low = this.high = y; return; }
    if (x - this.x < 0.7) { this.last = y; this.low = Math.min(this.low, y); this.high = Math.max(this.high, y); return; }
    this.flush();
    this.g.lineTo(x, this.last);
    this.g.lineTo(x, y);
    this.x = x; this.last = this.low = this.high = y;
  }
  flush() {
    if (this.open && this.high - this.low > 0.5) { this.g.lineTo(this.x, this.low); this.g.lineTo(this.x, this.high); this.g.lineTo(this.x, this.last); }
  }
  stroke(to) {
    this.flush();
    if (this.open && to !== undefined) this.g.lineTo(to, this.last);
    this.g.stroke();
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
function redraw() { theme.clear(); for (const plot of plots) plot.canvas.isConnected ? plot.draw() : plots.delete(plot); }
// On paper: light colours and twice the pixels.
addEventListener("beforeprint", () => { document.documentElement.classList.add("paper"); for (const plot of plots) plot.ratio = 2.5; redraw(); });
addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); for (const plot of plots) plot.ratio = 0; redraw(); });
