// The live values: present value and source of each, and setting of one or several.

import {count, el, say, valueText} from './dom.js';
import {Blocks, NumberField} from './input.js';

/** All live values. ask(commands) sends commands and resolves to one promise of an entry each. */
export class Knobs {
  constructor(ask) {
    this.ask = ask;
    this.byName = new Map();
    this.list = el('div', {class: 'knobs'});
    this.howMany = el('span', {role: 'status'});
    this.all = el('button', {type: 'button', class: 'apply', onclick: () => this.apply(this.drafts())}, 'Apply all');
    this.bar = el('div', {class: 'bar', hidden: true}, this.howMany, this.all,
      el('button', {type: 'button', onclick: () => this.drafts().forEach((knob) => knob.forget())}, 'Discard'));
    this.node = el('section', {class: 'left', 'aria-label': 'live values'},
      el('h2', {}, 'Live values'), this.list, this.bar);
  }

  clear() {
    this.byName.clear();
    this.list.replaceChildren();
    this.count();
  }

  show(values, enabled) {
    this.enabled = enabled;
    for (const live of values) {
      if (!this.byName.has(live.name)) {
        const knob = new Knob(live, this);
        this.byName.set(live.name, knob);
        this.list.append(knob.node);
      }
      this.byName.get(live.name).update(live, enabled);
    }
    this.count();
  }

  drafts() {
    return [...this.byName.values()].filter((knob) => knob.isDraft());
  }

  /** Shows the bar "Apply all" for two or more changes; a single change has its own button. */
  count() {
    const drafts = this.drafts();
    this.bar.hidden = drafts.length < 2;
    this.all.disabled = !this.enabled;
    say(this.howMany, `${drafts.length} values changed, not applied yet`);
  }

  /** Sends the inputs of these knobs in order; sends nothing if an input is not a number. */
  async apply(knobs) {
    const bad = knobs.filter((knob) => knob.input.get() === null);
    for (const knob of bad) knob.tell('this is no number', 'refused');
    if (bad.length) return;
    await this.send(knobs, (knob) => knob.input.get());
  }

  async send(knobs, valueOf) {
    for (const knob of knobs) knob.tell('pending …', 'pending');
    try {
      const entries = await this.ask(knobs.map((knob) => ({set: knob.name, value: valueOf(knob)})));
      await Promise.all(knobs.map(async (knob, i) => knob.answered(await entries[i])));
    } catch (error) {
      for (const knob of knobs) knob.unanswered(error.message);
    }
    this.count();
  }
}

/** One live value. */
class Knob {
  constructor(live, knobs) {
    this.name = live.name;
    this.knobs = knobs;
    this.now = el('output', {class: 'now'});
    this.badge = el('span', {class: 'badge'});
    this.configured = el('span', {class: 'configured'});
    this.note = el('p', {class: 'note', role: 'status'});
    this.button = el('button', {type: 'submit', class: 'apply', 'aria-label': `Apply ${live.name}`}, 'Apply');
    this.auto = el('button', {
      type: 'button', class: 'auto', 'aria-label': `Auto ${live.name}`,
      onclick: () => knobs.send([this], () => 'auto'),
    }, 'Auto');
    this.input = live.blocks.length ? new Blocks(live) : new NumberField(live);
    this.input.onchange = () => { this.show(); knobs.count(); };
    const range = live.blocks.length ? '' : ` ${live.bounds}`;
    this.node = el('form', {
      class: 'knob', autocomplete: 'off', 'data-name': live.name,
      onsubmit: (event) => { event.preventDefault(); if (this.enabled) knobs.apply([this]); },
      onkeydown: (event) => { if (event.key === 'Escape') this.forget(); },
    },
      el('div', {class: 'head'},
        el('label', {for: `knob-${live.name}`}, live.name),
        el('span', {class: 'unit'}, `${live.unit === '1' ? '' : live.unit}${range}`),
        this.now, this.badge),
      el('p', {class: 'meaning', title: `A change takes effect at the ${live.effect}.`},
        live.meaning, this.configured),
      el('div', {class: 'set'}, this.input.node, this.button, this.auto),
      this.note);
  }

  /** Shows the run's present value and source. */
  update(live, enabled) {
    this.live = live;
    this.enabled = enabled;
    say(this.now, valueText(live.value));
    this.now.title = String(live.value);
    say(this.badge, live.source);
    this.badge.className = `badge ${live.source}`;
    say(this.configured, {
      config: '', schedule: ` · ${live.configured}`, override: ` · auto is ${live.configured}`,
    }[live.source]);
    this.auto.title = `Back to ${live.configured}`;
    if (!this.input.touched) this.input.put(live.value);
    this.show();
  }

  /** Returns true if the user's input differs from the run's value. */
  isDraft() {
    return this.input.touched && JSON.stringify(this.input.get()) !== JSON.stringify(this.live.value);
  }

  show() {
    const draft = this.isDraft();
    // Enabled even for text that is not a number: a disabled button would ignore Enter silently.
    this.button.disabled = !this.enabled || !draft;
    this.auto.disabled = !this.enabled || this.live.source !== 'override';
    this.input.enable(this.enabled);
    this.node.classList.toggle('draft', draft);
  }

  forget() {
    this.input.touched = false;
    this.input.put(this.live.value);
    this.tell('', '');
    this.show();
    this.knobs.count();
  }

  answered(entry) {
    this.waiting = false;
    if (entry.taken) {
      this.input.touched = false;
      this.live = {...this.live, value: entry.new};
      this.input.put(entry.new);
      this.tell(`applied at update ${count(entry.update)} (env step ${count(entry.env_step)})`, 'applied');
    } else {
      this.tell(entry.reason, 'refused');
    }
    this.show();
  }

  /** Shows a failure, unless this knob's command was already answered. */
  unanswered(reason) {
    if (this.waiting) this.tell(reason, 'refused');
    this.waiting = false;
  }

  tell(text, kind) {
    this.waiting = kind === 'pending';
    say(this.note, text);
    this.note.className = `note ${kind}`;
  }
}
