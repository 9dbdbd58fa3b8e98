"use strict";
// Lines over time on a canvas, drawn as often as values come and at most once a frame.
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A round number at or above `most`, of which quarters are round enough.
const roundUp = (most) => {
  if (!(most > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 8, 10].map((n) => n * ten).find((n) => n >= most);
};

class Chart {
  // curves: {name, of: (point) => number or null, colour: name of a property, isDashed}.
  constructor(place, title, curves, write) {
    Object.assign(this, { curves, write, points: [], seconds: 60, cursor: null, isDue: false });
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.legend = make("figcaption", null, make("strong", null, title));
    this.values = curves.map((curve) => {
      const value = make("span", "value");
      this.legend.append(make("span", "key " + curve.colour + (curve.isDashed ? " dashed" : ""), curve.name, " ", value));
      return value;
    });
    this.title = title;
    place.append(make("figure", null, this.legend, this.canvas));
    const at = (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.cursor = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      this.draw();
    };
    this.canvas.addEventListener("pointermove", at);
    this.canvas.addEventListener("pointerleave", () => { this.cursor = null; this.draw(); });
    this.canvas.addEventListener("blur", () => { this.cursor = null; this.draw(); });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.cursor = Math.min(1, Math.max(0, (this.cursor ?? 1) + step / this.seconds));
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(points) {
    this.points = points;
    this.draw();
  }

  draw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => { this.isDue = false; this.drawNow(); });
  }

  drawNow() {
    const { canvas, points, curves } = this, scale = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const to = canvas.getContext("2d");
    to.setTransform(scale, 0, 0, scale, 0, 0);
    to.clearRect(0, 0, width, height);
    const newest = points.length ? points[points.length - 1].at_ms : 0, oldest = newest - this.seconds * 1000;
    const mostOf = (wanted) => points.reduce((most, point) => point.at_ms < oldest ? most
      : wanted.reduce((sum, curve) => Math.max(sum, curve.of(point) ?? 0), most), 0);
    // A limit far above what there is would make that a line at the bottom: it is above the picture then.
    const most = mostOf(curves.filter((curve) => !curve.isDashed)), limit = mostOf(curves);
    const top = roundUp(most > 0 && limit > 4 * most ? most : limit);
    const [left, right, above, below] = [4, 4, 14, 18];
    const x = (ms) => left + (ms - oldest) / (this.seconds * 1000) * (width - left - right);
    const y = (value) => height - below - value / top * (height - above - below);
    to.font = "11px system-ui, sans-serif";
    to.lineWidth = 1;
    to.strokeStyle = style("--line");
    to.fillStyle = style("--dim");
    to.textBaseline = "bottom";
    for (const part of [0, 0.5, 1]) {
      const at = Math.round(y(top * part)) + 0.5;
      to.beginPath();
      to.moveTo(left, at);
      to.lineTo(width - right, at);
      to.stroke();
      to.fillText(this.write(top * part), left + 2, at - 1);
    }
    to.textBaseline = "top";
    for (const [back, align] of [[60, "left"], [40, "center"], [20, "center"], [0, "right"]]) {
      to.textAlign = align;
      to.fillText(back ? `−${back} s` : "now", x(newest - back * 1000), height - below + 4);
    }
    to.textAlign = "left";
    to.save();
    to.beginPath();
    to.rect(0, above - 2, width, height);
    to.clip();
    for (const curve of curves) this.drawCurve(to, curve, x, y, oldest);
    to.restore();
    const shown = this.pointAt(oldest, to, height - below, x);
    curves.forEach((curve, n) => setText(this.values[n], shown ? this.write(curve.of(shown)) : "–"));
    const last = points[points.length - 1];
    const said = curves.map((curve) => `${curve.name} ${last ? this.write(curve.of(last)) : "–"}`).join(", ");
    canvas.setAttribute("aria-label", `${this.title}, last minute: ${said}`);
  }

  drawCurve(to, curve, x, y, oldest) {
    to.strokeStyle = style("--" + curve.colour);
    to.lineWidth = curve.isDashed ? 1.25 : 1.75;
    to.setLineDash(curve.isDashed ? [5, 3] : []);
    to.beginPath();
    let before = null;
    for (const point of this.points) {
      const value = curve.of(point);
      if (point.at_ms < oldest || none(value)) { before = null; continue; }
      // A gap in time is a gap.
      if (before !== null && point.at_ms - before < 2000) to.lineTo(x(point.at_ms), y(value));
      else to.moveTo(x(point.at_ms), y(value));
      before = point.at_ms;
    }
    to.stroke();
    to.setLineDash([]);
  }

  // The point that is pointed at, or the newest.
  pointAt(oldest, to, bottom, x) {
    const { points } = this;
    if (this.cursor === null || !points.length) return points[points.length - 1];
    const wanted = oldest + this.cursor * this.seconds * 1000;
    const nearest = points.reduce((a, b) => Math.abs(b.at_ms - wanted) < Math.abs(a.at_ms - wanted) ? b : a);
    to.strokeStyle = style("--dim");
    to.beginPath();
    to.moveTo(x(nearest.at_ms), 14);
    to.lineTo(x(nearest.at_ms), bottom);
    to.stroke();
    return nearest;
  }
}

// A small line from zero to the most of `values`, which are [ms, value], over so many seconds up to now.
const sparkline = (values, seconds, most, now = Date.now()) => {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg"), path = document.createElementNS(ns, "path");
  let before = null;
  const line = values.map(([at, value]) => {
    if (none(value)) { before = null; return ""; }
    // A gap in time is a gap.
    const isNext = before !== null && at - before < 3000;
    before = at;
    return `${isNext ? "L" : "M"}${(seconds - (now - at) / 1000).toFixed(2)} ${(39 - 38 * value / Math.max(most, 1e-9)).toFixed(2)}`;
  });
  svg.setAttribute("viewBox", `0 0 ${seconds} 40`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", line.join(""));
  svg.append(path);
  return svg;
};
