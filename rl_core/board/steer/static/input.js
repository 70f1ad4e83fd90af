// Inputs of a live value: a number field with step buttons and a slider, or toggles of blocks.

import {el} from './dom.js';

const NICE = [1, 2, 5];

/** A number input. It calls `onchange` when the user changes it, and sets `touched`. */
export class NumberField {
  constructor(live) {
    this.live = live;
    this.touched = false;
    const touch = () => { this.touched = true; this.onchange(); };
    this.field = el('input', {
      id: `knob-${live.name}`, type: 'text', inputmode: 'decimal', spellcheck: 'false',
      oninput: () => { this.slide(); touch(); },
      onkeydown: (event) => {
        const by = {ArrowUp: 1, ArrowDown: -1}[event.key];
        if (by) { event.preventDefault(); this.step(by); touch(); }
      },
    });
    const button = (by, text, label) => el('button', {
      type: 'button', class: 'step', 'aria-label': `${label} ${live.name}`, tabindex: '-1',
      onclick: () => { this.step(by); touch(); },
    }, text);
    this.slider = el('input', {
      type: 'range', min: 0, max: 1, step: 0.001, 'aria-label': `${live.name}, slider`,
      oninput: () => { this.write(this.fromShare(Number(this.slider.value))); touch(); },
    });
    this.buttons = [button(-1, '−', 'less'), button(1, '+', 'more')];
    this.node = el('div', {class: 'number'}, this.buttons[0], this.field, this.buttons[1], this.slider);
    this.range = sliderRange(live);
  }

  /** Shows the run's value, which may have more digits than the field shows. */
  put(value) {
    if (value === null) { // it differs between members: the field is empty until somebody writes
      this.field.value = '';
      this.field.placeholder = 'differs';
      this.exact = null;
      return;
    }
    this.write(value);
    this.exact = {text: this.field.value, value};
    this.slide();
  }

  /** Returns the number in the field; null if the text is not a number. */
  get() {
    const written = this.field.value.trim();
    // Commas between thousands are left out. A decimal comma is no number: it would be another one.
    const grouped = /^-?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/.test(written);
    const text = grouped ? written.replaceAll(',', '') : written;
    if (text === this.exact?.text) return this.exact.value;
    if (text === '' || !Number.isFinite(Number(text))) return null;
    return Number(text);
  }

  enable(on) {
    for (const node of [this.field, this.slider, ...this.buttons]) node.disabled = !on;
  }

  write(value) {
    this.field.value = Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
  }

  slide() {
    const value = this.get();
    if (value !== null) this.slider.value = this.toShare(value);
  }

  /** Steps to the next of 1, 2, 5, 10, ... on a log scale, by 1/100 of the range on a linear one. */
  step(by) {
    const value = this.get() ?? this.live.value ?? this.live.least ?? 0;
    let next;
    if (this.live.scale === 'log' && value > 0) {
      next = nextNice(value, by);
    } else {
      const [low, high] = this.range;
      next = value + by * (this.live.whole ? 1 : (high - low) / 100);
    }
    this.write(this.clip(Number(next.toPrecision(6))));
    this.slide();
  }

  clip(value) {
    const {low, high, whole} = this.live;
    if (low !== null && value < low) value = low;
    if (high !== null && value > high) value = high;
    return whole ? Math.round(value) : value;
  }

  toShare(value) {
    const [low, high] = this.range;
    const share = this.live.scale === 'log'
      ? Math.log(Math.max(value, low) / low) / Math.log(high / low)
      : (value - low) / (high - low);
    return Math.min(1, Math.max(0, share));
  }

  fromShare(share) {
    const [low, high] = this.range;
    const value = this.live.scale === 'log' ? low * (high / low) ** share : low + share * (high - low);
    const digits = this.live.scale === 'log' ? 2 : 3;
    return this.clip(Number(value.toPrecision(this.live.whole && value >= 100 ? 3 : digits)));
  }
}

/** An input for a set of blocks, with the methods of NumberField. */
export class Blocks {
  constructor(live) {
    this.touched = false;
    this.boxes = live.blocks.map((block, i) => el('input', {
      type: 'checkbox', value: block, id: i ? null : `knob-${live.name}`,
      onchange: () => { this.touched = true; this.onchange(); },
    }));
    this.node = el('div', {class: 'blocks', role: 'group', 'aria-label': live.name},
      ...this.boxes.map((box) => el('label', {class: 'toggle'}, box, el('span', {}, box.value))));
  }

  put(value) {
    // Where the members' sets differ, value is null.
    for (const box of this.boxes) box.checked = Boolean(value?.includes(box.value));
  }

  get() {
    return this.boxes.filter((box) => box.checked).map((box) => box.value).sort();
  }

  enable(on) {
    for (const box of this.boxes) box.disabled = !on;
  }
}

function sliderRange({low, high, scale, value: own, most: largest}) {
  const value = own ?? largest ?? 1;
  if (scale !== 'log') return [low ?? 0, high ?? Math.max(1, 2 * value)];
  const least = low > 0 ? low : high === null ? 1e-6 : high / 1e4;
  const most = high ?? 10 ** Math.ceil(Math.log10(Math.max(value * 100, least * 1e4)));
  return [least, Math.max(most, least * 10)];
}

function nextNice(value, by) {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  const candidates = [0.1, 1, 10].flatMap((p) => NICE.map((n) => n * p * power)).sort((a, b) => a - b);
  return by > 0 ? candidates.find((c) => c > value * (1 + 1e-6))
    : candidates.findLast((c) => c < value * (1 - 1e-6));
}
