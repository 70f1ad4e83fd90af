// One live value: what it is now, and the control that sets it.

import {count, el, say, valueText} from './dom.js';

const NICE = [1, 2, 5];

export class Knob {
  /** live: of state.json; send(name, value): asks the run, and resolves to the command's id. */
  constructor(live, send) {
    this.name = live.name;
    this.send = send;
    this.waiting = null;
    this.now = el('output', {class: 'now'});
    this.badge = el('span', {class: 'badge'});
    this.note = el('p', {class: 'note', role: 'status'});
    this.apply = el('button', {type: 'submit', class: 'apply'}, 'Apply');
    this.auto = el('button', {
      type: 'button', class: 'auto', title: 'Back to the config or its schedule', onclick: () => this.ask('auto'),
    }, 'Auto');
    this.input = live.blocks.length ? new Blocks(live) : new NumberField(live);
    this.input.onchange = () => this.show();
    const bounds = live.blocks.length ? '' : ` ${live.bounds}`;
    this.node = el('form', {
      class: 'knob', autocomplete: 'off', 'data-name': live.name,
      onsubmit: (event) => { event.preventDefault(); this.submit(); },
      onkeydown: (event) => { if (event.key === 'Escape') this.forget(); },
    },
      el('div', {class: 'head'},
        el('label', {for: `knob-${live.name}`}, live.name),
        el('span', {class: 'unit'}, `${live.unit === '1' ? '' : live.unit}${bounds}`),
        this.now, this.badge),
      el('p', {class: 'meaning', title: `A change is felt at the ${live.effect}.`}, live.meaning),
      el('div', {class: 'set'}, this.input.node, this.apply, this.auto),
      this.note);
    this.update(live, true);
  }

  /** What the run says of it now. */
  update(live, enabled) {
    this.live = live;
    this.enabled = enabled;
    say(this.now, valueText(live.value));
    say(this.badge, live.source);
    this.badge.className = `badge ${live.source}`;
    this.badge.title = live.source === 'config' ? 'The config\'s value'
      : `auto: ${live.configured}`;
    if (!this.input.touched) this.input.put(live.value);
    this.show();
  }

  show() {
    // What is no number may be sent off too, to be told so: a disabled button swallows Enter.
    const same = JSON.stringify(this.input.get()) === JSON.stringify(this.live.value);
    this.apply.disabled = !this.enabled || same;
    this.auto.disabled = !this.enabled || this.live.source !== 'override';
    this.input.enable(this.enabled);
    this.node.classList.toggle('draft', this.input.touched && !same);
  }

  submit() {
    const value = this.input.get();
    if (value === null) this.tell('that is no number', 'refused');
    else if (this.enabled) this.ask(value);
  }

  forget() {
    this.input.touched = false;
    this.input.put(this.live.value);
    this.tell('', '');
    this.show();
  }

  async ask(value) {
    this.tell('pending …', 'pending');
    try {
      this.waiting = await this.send(this.name, value);
    } catch (error) {
      this.tell(error.message, 'refused');
    }
  }

  /** The run's answer to the command that this waits for. */
  answered(entry) {
    if (entry.id !== this.waiting) return;
    this.waiting = null;
    if (entry.taken) {
      this.input.touched = false;
      this.tell(`applied at update ${count(entry.update)} (env step ${count(entry.env_step)})`, 'applied');
    } else {
      this.tell(entry.reason, 'refused');
    }
  }

  tell(text, kind) {
    say(this.note, text);
    this.note.className = `note ${kind}`;
  }
}

class NumberField {
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

  put(value) {
    this.write(value);
    this.slide();
  }

  get() {
    const text = this.field.value.trim().replaceAll(',', '');
    if (text === '' || !Number.isFinite(Number(text))) return null;
    return Number(text);
  }

  enable(on) {
    for (const node of [this.field, this.slider, ...this.buttons]) node.disabled = !on;
  }

  write(value) {
    this.field.value = String(Number(Number(value).toPrecision(6)));
  }

  slide() {
    const value = this.get();
    if (value !== null) this.slider.value = this.toShare(value);
  }

  /** To the next number of 1, 2, 5, 10, ... on a logarithmic scale, a twentieth on a linear one. */
  step(by) {
    const value = this.get() ?? this.live.value;
    let next;
    if (this.live.scale === 'log' && value > 0) {
      next = nextNice(value, by);
    } else {
      const [low, high] = this.range;
      next = value + by * (this.live.whole ? 1 : (high - low) / 20);
    }
    this.write(this.clip(next));
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

class Blocks {
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
    for (const box of this.boxes) box.checked = value.includes(box.value);
  }

  get() {
    return this.boxes.filter((box) => box.checked).map((box) => box.value).sort();
  }

  enable(on) {
    for (const box of this.boxes) box.disabled = !on;
  }
}

function sliderRange({low, high, scale, value}) {
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
