// One small live plot: a curve by env step, with a vertical mark at each change.

import {count, el, number, say} from './dom.js';

const WIDTH = 420, HEIGHT = 150, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 20;

export class Plot {
  /** title: of the plot; unit: of its values. */
  constructor(title, unit) {
    this.points = new Map(); // env step -> value
    this.marks = []; // {step, text}
    this.last = el('span', {class: 'last'});
    this.tip = el('div', {class: 'tip', 'aria-hidden': 'true'});
    this.svg = el('svg:svg', {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `${title} by env step`,
    });
    this.svg.addEventListener('pointermove', (event) => this.hover(event));
    this.svg.addEventListener('pointerleave', () => this.hover(null));
    this.node = el('figure', {class: 'plot'},
      el('figcaption', {}, el('b', {}, title), ' ', el('span', {class: 'unit'}, unit), this.last),
      this.svg, this.tip);
  }

  clear() {
    this.points.clear();
    this.marks = [];
    this.draw();
  }

  /** Adds points [[env step, value], ...]; true if there was a new one. */
  add(points) {
    const before = this.points.size;
    for (const [step, value] of points) {
      if (Number.isFinite(value)) this.points.set(step, value);
    }
    return this.points.size > before;
  }

  draw() {
    const points = [...this.points].sort((a, b) => a[0] - b[0]);
    this.sorted = points;
    this.svg.replaceChildren();
    say(this.last, points.length ? number(points[points.length - 1][1]) : 'no point yet');
    if (!points.length) return;
    const steps = points.map((p) => p[0]), values = points.map((p) => p[1]);
    const marks = this.marks.map((m) => m.step);
    this.x = scale(0, Math.max(1, ...tail(steps), ...marks), LEFT, WIDTH - RIGHT);
    let low = Math.min(...values), high = Math.max(...values);
    if (low > 0 && low < high / 2) low = 0;
    if (low === high) [low, high] = [low - 1, high + 1];
    this.y = scale(low, high, HEIGHT - BOTTOM, TOP);
    for (const value of ticks(low, high, 3)) {
      this.svg.append(
        el('svg:line', {class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: this.y(value), y2: this.y(value)}),
        el('svg:text', {class: 'tick', x: LEFT - 5, y: this.y(value) + 3.5, 'text-anchor': 'end'}, short(value)));
    }
    for (const step of ticks(0, this.x.high, 4)) {
      this.svg.append(el('svg:text', {class: 'tick', x: this.x(step), y: HEIGHT - 6, 'text-anchor': step ? 'middle' : 'start'}, short(step)));
    }
    for (const mark of this.marks) {
      const x = this.x(mark.step);
      this.svg.append(el('svg:line', {class: 'mark', x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM},
        el('svg:title', {}, mark.text)));
    }
    const path = points.map(([s, v], i) => `${i ? 'L' : 'M'}${this.x(s).toFixed(1)} ${this.y(v).toFixed(1)}`);
    this.svg.append(el('svg:path', {class: 'curve', d: path.join('')}));
    this.cross = el('svg:line', {class: 'cross', y1: TOP, y2: HEIGHT - BOTTOM, visibility: 'hidden'});
    this.svg.append(this.cross);
  }

  hover(event) {
    if (!event || !this.sorted || !this.sorted.length) {
      this.cross?.setAttribute('visibility', 'hidden');
      this.tip.classList.remove('shown');
      return;
    }
    const box = this.svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * WIDTH;
    const near = nearest(this.sorted, (p) => Math.abs(this.x(p[0]) - at));
    const mark = nearest(this.marks, (m) => Math.abs(this.x(m.step) - at));
    const marked = mark && Math.abs(this.x(mark.step) - at) < 6;
    const x = marked ? this.x(mark.step) : this.x(near[0]);
    this.cross.setAttribute('x1', x);
    this.cross.setAttribute('x2', x);
    this.cross.setAttribute('visibility', 'visible');
    say(this.tip, marked ? mark.text : `${number(near[1])} at env step ${count(near[0])}`);
    this.tip.classList.add('shown');
  }
}

function scale(low, high, from, to) {
  const map = (value) => from + (value - low) / (high - low) * (to - from);
  map.high = high;
  return map;
}

/** The last element as a list, so that Math.max need not spread a long one. */
function tail(list) {
  return list.slice(-1);
}

function nearest(list, distance) {
  let best = null, least = Infinity;
  for (const item of list) {
    const d = distance(item);
    if (d < least) [best, least] = [item, d];
  }
  return best;
}

/** About n round numbers from low to high. */
function ticks(low, high, n) {
  const rough = (high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); i++) found.push(i * step);
  return found;
}

/** 12k, 1.5M, 0.25 */
function short(value) {
  for (const [size, unit] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}
