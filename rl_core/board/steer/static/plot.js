// One small live plot: a curve by env step, with a vertical mark at each change.

import {count, el, number, say} from './dom.js';

const HEIGHT = 142, LEFT = 42, RIGHT = 10, TOP = 10, BOTTOM = 20; // pixels
const MOST_POINTS = 2000, KEPT_WHOLE = 500, NEAR = 6;

export class Plot {
  /** title: title of the plot; unit: unit of its values. */
  constructor(title, unit) {
    this.title = title;
    this.last = el('span', {class: 'last'});
    this.tip = el('div', {class: 'tip', 'aria-hidden': 'true', hidden: true});
    this.still = el('svg:g');
    this.cross = el('svg:line', {class: 'cross', y1: TOP, y2: HEIGHT - BOTTOM});
    this.dot = el('svg:circle', {class: 'dot', r: 3});
    this.moving = el('svg:g', {visibility: 'hidden'}, this.cross, this.dot);
    this.svg = el('svg:svg', {role: 'img', height: HEIGHT}, this.still, this.moving);
    this.svg.addEventListener('pointermove', (event) => this.hover(event.clientX));
    this.svg.addEventListener('pointerleave', () => this.hover(null));
    this.area = el('div', {class: 'area'}, this.svg, this.tip);
    this.node = el('figure', {class: 'plot'},
      el('figcaption', {}, el('b', {}, title), el('span', {class: 'unit'}, unit), this.last), this.area);
    // One unit of the SVG is one pixel, so that its text has the same size as the page's text.
    new ResizeObserver(() => this.draw()).observe(this.area);
    this.clear();
  }

  clear() {
    this.points = new Map(); // env step -> value
    this.marks = []; // {step, text}
    this.draw();
  }

  /** Adds a vertical line at an env step, with a text about the change. */
  mark(step, text) {
    this.marks.push({step, text});
  }

  /** Adds points [[env step, value], ...]; returns true if any point is new. */
  add(points) {
    let fresh = false;
    for (const [step, value] of points) {
      if (!Number.isFinite(value) || this.points.get(step) === value) continue;
      this.points.set(step, value);
      fresh = true;
    }
    if (this.points.size > MOST_POINTS) this.thin();
    return fresh;
  }

  /** Drops every second of the older points, because a page may stay open for weeks. */
  thin() {
    const points = this.inOrder(), old = points.length - KEPT_WHOLE;
    this.points = new Map(points.filter((_, i) => i % 2 === 0 || i >= old));
  }

  inOrder() {
    return [...this.points].sort((a, b) => a[0] - b[0]);
  }

  draw() {
    const points = this.sorted = this.inOrder(), width = this.area.clientWidth;
    const last = points.length ? brief(points[points.length - 1][1]) : 'no point yet';
    say(this.last, last);
    this.svg.setAttribute('aria-label', `${this.title} by env step, now ${last}, ${this.marks.length} changes marked`);
    this.still.replaceChildren();
    if (!points.length || !width) return this.hover(null);
    this.svg.setAttribute('width', width);
    this.scale(points, width);
    this.drawAxes(width);
    for (const mark of this.marks) {
      const x = this.x(mark.step).toFixed(1);
      this.still.append(
        el('svg:line', {class: 'mark', x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM}, el('svg:title', {}, mark.text)),
        el('svg:path', {class: 'flag', d: `M${x - 4} ${TOP - 7}h8l-4 6z`}));
    }
    const path = points.map(([s, v], i) => `${i ? 'L' : 'M'}${this.x(s).toFixed(1)} ${this.y(v).toFixed(1)}`);
    this.still.append(el('svg:path', {class: 'curve', d: path.join('')}));
    this.hover(this.pointer);
  }

  scale(points, width) {
    let low = Infinity, high = -Infinity, end = 1;
    for (const [step, value] of points) {
      [low, high, end] = [Math.min(low, value), Math.max(high, value), Math.max(end, step)];
    }
    for (const mark of this.marks) end = Math.max(end, mark.step);
    if (low > 0 && low < high / 2) low = 0;
    if (low === high) [low, high] = [low - 1, high + 1];
    this.ticks = ticks(low, high, 3);
    [low, high] = [Math.min(low, this.ticks[0]), Math.max(high, this.ticks[this.ticks.length - 1])];
    this.end = end;
    this.x = (step) => LEFT + step / end * (width - RIGHT - LEFT);
    this.y = (value) => HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - BOTTOM - TOP);
  }

  drawAxes(width) {
    for (const value of this.ticks) {
      const y = this.y(value);
      this.still.append(
        el('svg:line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y, y2: y}),
        el('svg:text', {class: 'tick', x: LEFT - 6, y: y + 4, 'text-anchor': 'end'}, short(value)));
    }
    for (const step of ticks(0, this.end, Math.max(2, Math.floor(width / 90))).filter((s) => s <= this.end)) {
      const x = this.x(step), anchor = step === 0 ? 'start' : x > width - 25 ? 'end' : 'middle';
      this.still.append(el('svg:text', {class: 'tick', x, y: HEIGHT - 5, 'text-anchor': anchor}, short(step)));
    }
  }

  /** Shows the value at a screen position, or a mark if one is near; null shows nothing. */
  hover(clientX) {
    this.pointer = clientX;
    const off = clientX === null || clientX === undefined || !this.sorted.length || !this.x;
    this.moving.setAttribute('visibility', off ? 'hidden' : 'visible');
    this.tip.hidden = off;
    if (off) return;
    const at = clientX - this.svg.getBoundingClientRect().left;
    const point = nearest(this.sorted, (p) => Math.abs(this.x(p[0]) - at));
    const mark = nearest(this.marks, (m) => Math.abs(this.x(m.step) - at));
    const marked = mark && Math.abs(this.x(mark.step) - at) < NEAR;
    const x = this.x(marked ? mark.step : point[0]);
    this.cross.setAttribute('x1', x);
    this.cross.setAttribute('x2', x);
    this.dot.setAttribute('cx', this.x(point[0]));
    this.dot.setAttribute('cy', this.y(point[1]));
    this.dot.setAttribute('visibility', marked ? 'hidden' : 'inherit');
    say(this.tip, marked ? mark.text : `${number(point[1])} at env step ${count(point[0])}`);
    const room = this.area.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(room, x - this.tip.offsetWidth / 2))}px`;
  }
}

function nearest(list, distance) {
  let best = null, least = Infinity;
  for (const item of list) {
    const d = distance(item);
    if (d < least) [best, least] = [item, d];
  }
  return best;
}

/** Returns about n round numbers, the first at most `low` and the last at least `high`. */
function ticks(low, high, n) {
  const rough = (high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough * (1 - 1e-9));
  const found = [];
  for (let i = Math.floor(low / step + 1e-9); ; i++) {
    found.push(Number((i * step).toPrecision(12)));
    if (i * step >= high * (1 - 1e-12) - step * 1e-9) return found;
  }
}

/** Returns a number with four digits, enough to see it change. */
function brief(value) {
  return Math.abs(value) >= 1000 ? number(Math.round(value)) : number(Number(value.toPrecision(4)));
}

/** Returns text such as "12k", "1.5M" or "0.25". */
function short(value) {
  for (const [size, unit] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}
