// Unpacking: base64, raw deflate, then the records that packets.rs describes.

const text = id => document.getElementById(id).textContent;

async function unpack(base64) {
  const raw = atob(base64);
  const packed = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) packed[i] = raw.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Bytes {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  byte() { return this.bytes[this.at++]; }
  // Numbers up to 2^53 are exact, which no position in a stream exceeds.
  number() {
    let value = 0, unit = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * unit;
      unit *= 128;
    } while (byte > 127);
    return value;
  }
  signed() {
    const value = this.number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
  // Nanoseconds.
  time() {
    const value = this.signed();
    return value % 2 ? (value - 1) / 2 : value / 2 * 1000;
  }
}

// One direction's packets as columns; `number` is the packet's place in the flow.
function columns(n) {
  return { n: 0, number: new Uint32Array(n), t: new Float64Array(n), pos: new Float64Array(n), len: new Float64Array(n), flags: new Uint8Array(n), kind: new Uint8Array(n), marks: new Uint8Array(n),
    ack: new Float64Array(n), win: new Float64Array(n), karn: new Float64Array(n), stamps: new Float64Array(n), sackAt: new Uint32Array(n + 1), sacks: [], spurious: new Uint8Array(n) };
}

const SYN = 2, FIN = 1, RST = 4, PSH = 8, ACK = 16;
const NEEDLESS = 1, DUPLICATE = 2, MARKED = 4;

// The flow's report and both directions' packets. Times are seconds after its first packet, positions bytes after
// the first seen.
async function readFlow(place) {
  const whole = await unpack(text("data").slice(place[0], place[0] + place[1]));
  const source = new Bytes(whole);
  const reportLength = source.number(), packets = source.number();
  const report = JSON.parse(new TextDecoder().decode(whole.subarray(source.at, source.at + reportLength)));
  source.at += reportLength;
  const sides = [columns(packets), columns(packets)];
  const order = new Uint8Array(packets);
  const last = [0, 1].map(() => ({ next: 0, len: 0, ack: 0, win: 0 }));
  let clock = 0, origin = null;
  for (let i = 0; i < packets; i++) {
    const has = source.byte(), d = has & 1, side = sides[d], k = side.n++, before = last[d];
    clock += source.time();
    origin ??= clock;
    order[i] = d;
    side.number[k] = i;
    side.t[k] = (clock - origin) / 1e9;
    side.pos[k] = before.next + (has & 2 ? source.signed() : 0);
    if (has & 4) before.len = source.number();
    side.len[k] = before.len;
    if (has & 8) before.ack += source.signed();
    if (has & 16) before.win += source.signed();
    side.ack[k] = before.ack ? before.ack - 1 : NaN;
    side.win[k] = before.win ? before.win - 1 : NaN;
    if (has & 32) {
      for (let blocks = source.number(); blocks > 0; blocks--) {
        const start = side.ack[k] + source.signed();
        side.sacks.push(start, start + source.number());
      }
    }
    side.sackAt[k + 1] = side.sacks.length;
    const samples = has & 64 ? source.byte() : 0;
    side.karn[k] = samples & 1 ? source.time() / 1e6 : NaN;
    side.stamps[k] = samples & 2 ? source.time() / 1e6 : NaN;
    side.flags[k] = ACK;
    if (has & 128) {
      side.flags[k] = source.byte();
      const kind = source.byte();
      side.kind[k] = kind & 15;
      side.marks[k] = kind >> 4;
    }
    const f = side.flags[k];
    if (!(f & RST)) before.next = Math.max(before.next, side.pos[k] + side.len[k] + (f & SYN ? 1 : 0) + (f & FIN ? 1 : 0));
  }
  const spurious = new Map();
  for (let n = source.number(); n > 0; n--) { const index = source.number(); spurious.set(index, source.byte()); }
  return { report, sides: finish(sides, spurious), order, packets };
}

// Positions from zero, columns cut to length.
function finish(sides, spurious) {
  const first = sides.map((side, d) => {
    for (let k = 0; k < side.n; k++) if (!(side.flags[k] & RST)) return side.pos[k];
    const other = sides[1 - d];
    for (let k = 0; k < other.n; k++) if (other.ack[k] > 0) return other.ack[k];
    return 0;
  });
  return sides.map((side, d) => {
    const cut = { n: side.n, base: first[d], sacks: Float64Array.from(side.sacks, x => x - first[1 - d]), sackAt: side.sackAt.subarray(0, side.n + 1) };
    for (const name of ["number", "t", "pos", "len", "flags", "kind", "marks", "ack", "win", "karn", "stamps", "spurious"]) cut[name] = side[name].subarray(0, side.n);
    // For searching, time must not step back.
    cut.clock = Float64Array.from(cut.t);
    for (let k = 0; k < side.n; k++) {
      cut.pos[k] -= first[d];
      cut.ack[k] -= first[1 - d];
      if (cut.marks[k] & NEEDLESS) cut.spurious[k] = 3;
      const by = spurious.get(cut.number[k]);
      if (by !== undefined) cut.spurious[k] = by + 1;
      if (k > 0 && cut.clock[k] < cut.clock[k - 1]) cut.clock[k] = cut.clock[k - 1];
    }
    return cut;
  });
}

// First index whose value is not below `x`.
function lowerBound(values, x, n = values.length) {
  let low = 0, high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1; else high = middle;
  }
  return low;
}
