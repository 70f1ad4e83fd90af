// One plot: a curve of each chosen run by env step, with a vertical mark at each change.

import {ticks, tickTexts} from './axis.js';
import {between, nearest, smooth} from './curve.js';
import {count, el, number, say} from './dom.js';

const HEIGHT = 158, LEFT = 46, RIGHT = 10, TOP = 12, BOTTOM = 20; // pixels
const NEAR = 6, LEAST_DRAG = 6;
const TAPPED_FOR = 4000; // ms

export class Plot {
  /**
   * tag: of the curve; pick(tag) chooses another; zoom([from, to]) shows only these env steps, and
   * zoom(null) shows all.
   */
  constructor(tag, pick, zoom) {
    this.tag = tag;
    this.zoom = zoom;
    this.content = {series: [], marks: [], view: null, weight: 0};
    this.picker = el('select', {class: 'tag', 'aria-label': 'curve', onchange: () => pick(this.picker.value)});
    this.unit = el('span', {class: 'unit'});
    this.last = el('span', {class: 'last'});
    this.tip = el('div', {class: 'tip', 'aria-hidden': 'true', hidden: true});
    this.axes = el('svg:g');
    this.curves = el('svg:g');
    this.cross = el('svg:line', {class: 'cross', y1: TOP, y2: HEIGHT - BOTTOM});
    this.dots = el('svg:g');
    this.moving = el('svg:g', {visibility: 'hidden'}, this.cross, this.dots);
    this.chosen = el('svg:rect', {class: 'chosen', y: TOP, height: HEIGHT - BOTTOM - TOP, visibility: 'hidden'});
    // A nested svg cuts off what a zoomed curve has outside of the axes.
    this.window = el('svg:svg', {x: 0, y: 0, height: HEIGHT - BOTTOM + 1}, this.curves);
    this.svg = el('svg:svg', {role: 'img', height: HEIGHT}, this.axes, this.window, this.chosen, this.moving);
    this.listen();
    this.area = el('div', {class: 'area'}, this.svg);
    this.node = el('figure', {class: 'plot'},
      el('figcaption', {}, this.picker, this.unit, this.last), this.area, this.tip);
    // One unit of the SVG is one pixel, so that its text has the same size as the page's text.
    new ResizeObserver(() => this.draw()).observe(this.area);
  }

  listen() {
    const on = (name, act) => this.svg.addEventListener(name, act);
    on('pointerdown', (event) => {
      if (event.button || !this.x) return;
      this.svg.setPointerCapture(event.pointerId);
      this.from = this.place(event);
      event.preventDefault(); // no selection of text
    });
    on('pointermove', (event) => (this.from === undefined ? this.hover(event.clientX) : this.drag(this.place(event))));
    on('pointerup', (event) => {
      this.drop(this.place(event));
      if (event.pointerType !== 'mouse') this.tapped(event.clientX);
    });
    on('pointercancel', () => this.drop(this.from));
    on('pointerleave', (event) => event.pointerType === 'mouse' && this.hover(null));
    on('dblclick', () => this.zoom(null));
  }

  /** Lists the curves that can be chosen: [{tag, unit, meaning}, ...]. */
  offer(tags) {
    const known = tags.find(({tag}) => tag === this.tag);
    const names = tags.map(({tag}) => tag);
    if (!known) names.unshift(this.tag); // no run has it yet
    const key = JSON.stringify(names);
    if (key !== this.options) { // a replacement would close an open list
      this.options = key;
      this.picker.replaceChildren(...names.map((name) => el('option', {value: name}, name)));
    }
    this.picker.value = this.tag;
    this.picker.title = known?.meaning ?? '';
    say(this.unit, known && known.unit !== '1' ? known.unit : '');
    this.unit.title = this.unit.textContent;
  }

  /**
   * Draws curves.
   *
   * series: [{name, slot, points, main}, ...], the main run's last; marks: [{step, text, kind, slot,
   * name}, ...]; view: [first, last env step], or null for all; weight: of the smoothing.
   */
  show(content) {
    this.content = content;
    this.draw();
  }

  draw() {
    const {series, marks, view, weight} = this.content, width = this.area.clientWidth;
    for (const drawn of [this.axes, this.curves]) drawn.replaceChildren();
    say(this.last, '');
    this.x = null;
    this.shown = series.filter((one) => one.points.length).map((one) => ({
      ...one, smooth: weight ? smooth(one.points, weight) : one.points,
    }));
    if (!this.shown.length || !width) return this.hover(null);
    const main = this.shown.find((one) => one.main);
    if (main) say(this.last, brief(main.points.at(-1)[1]));
    this.svg.setAttribute('width', width);
    this.window.setAttribute('x', LEFT);
    this.window.setAttribute('width', Math.max(0, width - LEFT - RIGHT + 1));
    this.curves.setAttribute('transform', `translate(${-LEFT})`);
    this.scale(view, width);
    this.drawAxes(width);
    this.marks = this.visible(marks);
    for (const mark of this.marks) this.drawMark(mark);
    for (const one of this.shown) this.drawCurve(one, weight);
    this.hover(this.pointer);
  }

  scale(view, width) {
    let low = Infinity, high = -Infinity, end = 1;
    for (const {points} of this.shown) end = Math.max(end, points.at(-1)[0]);
    for (const {step} of this.content.marks) end = Math.max(end, step);
    const [first, last] = this.view = view ?? [0, end];
    for (const one of this.shown) {
      one.inView = between(one.points, first, last);
      for (const [, value] of one.inView) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
    if (!view && low > 0 && (low < high / 2 || low === high)) low = 0;
    // Widens a range that is too narrow for floats.
    const least = Math.max(Math.abs(low), Math.abs(high)) * 1e-12;
    if (high - low <= least) [low, high] = [low - Math.max(1, 2 * least), high + Math.max(1, 2 * least)];
    this.ticks = ticks(low, high, 3);
    [low, high] = [Math.min(low, this.ticks[0]), Math.max(high, this.ticks.at(-1))];
    this.x = (step) => LEFT + (step - first) / (last - first) * (width - RIGHT - LEFT);
    this.step = (x) => first + (x - LEFT) / (width - RIGHT - LEFT) * (last - first);
    this.y = (value) => HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - BOTTOM - TOP);
  }

  drawAxes(width) {
    const texts = tickTexts(this.ticks);
    this.ticks.forEach((value, i) => {
      const y = this.y(value);
      this.axes.append(
        el('svg:line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y, y2: y}),
        el('svg:text', {class: 'tick', x: LEFT - 6, y: y + 4, 'text-anchor': 'end'}, texts[i]));
    });
    const [first, last] = this.view;
    const steps = ticks(first, last, Math.max(2, Math.floor(width / 90))).filter((s) => s >= first && s <= last);
    const names = tickTexts(steps);
    steps.forEach((step, i) => {
      const x = this.x(step), anchor = x < LEFT + 12 ? 'start' : x > width - 25 ? 'end' : 'middle';
      this.axes.append(
        el('svg:line', {class: 'grid', x1: x, x2: x, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 3}),
        el('svg:text', {class: 'tick', x, y: HEIGHT - 4, 'text-anchor': anchor}, names[i]));
    });
  }

  /** Returns the marks in view, one per pixel at most: eight runs may have thousands. */
  visible(marks) {
    const [first, last] = this.view, byPixel = new Map();
    for (const mark of marks) {
      if (mark.step < first || mark.step > last) continue;
      const pixel = Math.round(this.x(mark.step));
      // A person's change is shown rather than a schedule's.
      if (mark.kind === 'person' || byPixel.get(pixel)?.kind !== 'person') byPixel.set(pixel, mark);
    }
    return [...byPixel.values()];
  }

  drawMark({step, text, kind, slot}) {
    const x = this.x(step).toFixed(1);
    const flag = kind === 'schedule'
      ? el('svg:circle', {class: 'flag', cx: x, cy: TOP - 5, r: 3})
      : el('svg:path', {class: 'flag', d: `M${x - 4} ${TOP - 9}h8l-4 7z`});
    this.curves.append(el('svg:g', {class: `change ${kind} slot-${slot}`},
      el('svg:line', {class: 'mark', x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM}, el('svg:title', {}, text)), flag));
  }

  drawCurve(one, weight) {
    const [first, last] = this.view;
    const path = (points) => points
      .map(([s, v], i) => `${i ? 'L' : 'M'}${this.x(s).toFixed(1)} ${this.y(v).toFixed(1)}`).join('');
    const main = one.main ? 'main' : '';
    if (weight) this.curves.append(el('svg:path', {class: `raw slot-${one.slot}`, d: path(one.inView)}));
    const points = weight ? between(one.smooth, first, last) : one.inView;
    this.curves.append(el('svg:path', {class: `curve slot-${one.slot} ${main}`, d: path(points)}));
    if (points.length === 1) { // a line of one point is invisible
      const [[step, value]] = points;
      this.curves.append(el('svg:circle', {class: `dot slot-${one.slot}`, cx: this.x(step), cy: this.y(value), r: 2.5}));
    }
  }

  // The pointer: values under it, and a part of the axis to zoom into.

  place(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    return Math.max(LEFT, Math.min(this.area.clientWidth - RIGHT, x));
  }

  drag(to) {
    this.hover(null);
    this.chosen.setAttribute('x', Math.min(this.from, to));
    this.chosen.setAttribute('width', Math.abs(to - this.from));
    this.chosen.setAttribute('visibility', 'visible');
  }

  drop(to) {
    const from = this.from;
    this.from = undefined;
    this.chosen.setAttribute('visibility', 'hidden');
    if (from === undefined || !this.x || Math.abs(to - from) < LEAST_DRAG) return;
    const [first, last] = [from, to].sort((a, b) => a - b).map((x) => Math.round(this.step(x)));
    if (last > first) this.zoom([first, last]);
  }

  /** Shows the values for some seconds: a finger does not hover. */
  tapped(clientX) {
    clearTimeout(this.tap);
    this.hover(clientX);
    this.tap = setTimeout(() => this.hover(null), TAPPED_FOR);
  }

  /** Shows the values at a screen position, or a mark if one is near; null shows nothing. */
  hover(clientX) {
    this.pointer = clientX;
    const off = clientX === null || clientX === undefined || !this.x;
    this.moving.setAttribute('visibility', off ? 'hidden' : 'visible');
    this.tip.hidden = off;
    if (off) return;
    const at = clientX - this.svg.getBoundingClientRect().left;
    const several = this.content.series.length > 1;
    const mark = nearest(this.marks, (m) => Math.abs(this.x(m.step) - at));
    const marked = mark && Math.abs(this.x(mark.step) - at) < NEAR;
    const rows = this.shown.map((one) => this.under(one, at)).sort((a, b) => b.value - a.value);
    const x = marked ? this.x(mark.step) : several ? at : this.x(rows[0].step);
    this.cross.setAttribute('x1', x);
    this.cross.setAttribute('x2', x);
    this.dots.replaceChildren(...marked ? [] : rows.map((row) => el('svg:circle', {
      class: `dot slot-${row.slot}`, cx: this.x(row.step), cy: this.y(row.value), r: 3,
    })));
    this.fillTip(marked ? mark : null, rows, at);
    const room = this.node.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(room, x + 8 - this.tip.offsetWidth / 2))}px`;
  }

  fillTip(mark, rows, at) {
    const several = this.content.series.length > 1;
    if (mark) return say(this.tip, several ? `${mark.name}: ${mark.text}` : mark.text);
    if (!several) return say(this.tip, `${rows[0].text} at env step ${count(rows[0].step)}`);
    const step = el('div', {}, `env step ${count(this.step(at))}`);
    this.tip.replaceChildren(step, ...rows.map((row) => this.row(row, at)));
  }

  /** Returns the point of a run that is nearest to a place, and its text. */
  under({name, slot, inView, smooth: smoothed, points}, at) {
    const [step, raw] = nearest(inView, ([s]) => Math.abs(this.x(s) - at));
    const value = smoothed === points ? raw : smoothed.find(([s]) => s === step)[1];
    return {name, slot, step, value, text: smoothed === points ? number(raw) : `${brief(value)} (raw ${brief(raw)})`};
  }

  /** Returns a line of the values under the pointer; it says so if a run has no point near it. */
  row({name, slot, step, text}, at) {
    const far = Math.abs(this.x(step) - at) > 2 * NEAR ? ` at env step ${count(step)}` : '';
    return el('div', {class: `slot-${slot}`}, el('i', {class: 'swatch'}), el('b', {}, name), ` ${text}${far}`);
  }
}

/** Returns a number with four digits, enough to see it change. */
function brief(value) {
  return Math.abs(value) >= 1000 ? number(Math.round(value)) : number(Number(value.toPrecision(4)));
}
