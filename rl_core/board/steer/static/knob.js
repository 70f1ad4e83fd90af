// The live values: present value and source of each, and setting of one or several, on one or all runs.

import {count, el, liveText, same, say, valueText} from './dom.js';
import {Blocks, NumberField} from './input.js';
import {isOverridden} from './run.js';

/** All live values of the run or population that is steered, `main`. ask(run, commands) resolves to one promise of an entry each. */
export class Knobs {
  constructor(ask) {
    this.ask = ask;
    this.runs = [];
    this.main = null;
    this.byName = new Map();
    this.list = el('div', {class: 'knobs'});
    this.howMany = el('span', {role: 'status'});
    this.everything = el('button', {type: 'button', class: 'apply', onclick: () => this.apply(this.drafts())}, 'Apply all changes');
    this.bar = el('div', {class: 'bar', hidden: true}, this.howMany, this.everything,
      el('button', {type: 'button', onclick: () => this.drafts().forEach((knob) => knob.forget())}, 'Discard'));
    this.onAll = el('input', {type: 'checkbox', id: 'on-all', onchange: () => this.count()});
    this.onAllText = el('span');
    this.onAllRow = el('label', {class: 'toggle on-all', hidden: true}, this.onAll, this.onAllText);
    this.whose = el('span', {class: 'unit'});
    this.node = el('section', {class: 'left', 'aria-label': 'live values'},
      el('div', {class: 'tools'}, el('h2', {}, 'Live values'), this.whose, this.onAllRow), this.list, this.bar);
  }

  /** The runs on which a value is set. */
  get targets() {
    const going = this.runs.filter((run) => run.going);
    return this.onAll.checked && going.length ? going : [this.main];
  }

  choose(runs, main) {
    if (main !== this.main) {
      this.byName.clear();
      this.list.replaceChildren();
    }
    this.runs = runs;
    this.main = main;
    this.onAllRow.hidden = runs.length < 2;
    if (runs.length < 2) this.onAll.checked = false;
    this.count();
  }

  /** Shows the main run's values; allowed: false if nothing may be set. */
  show(allowed) {
    this.allowed = allowed;
    for (const live of this.main.state?.values ?? []) {
      if (!this.byName.has(live.name)) {
        const knob = new Knob(live, this);
        this.byName.set(live.name, knob);
        this.list.append(knob.node);
      }
      this.byName.get(live.name).update(live);
    }
    this.count();
  }

  /** True if values may be written into the fields. */
  get open() {
    return Boolean(this.allowed) && this.targets.some((run) => run.going);
  }

  /** True if they may be sent now. */
  get enabled() {
    return this.open && this.targets.some((run) => run.ready);
  }

  /** Number of runs on which a value is set, if that may be several; else null. */
  get several() {
    if (this.main.isMany) return this.main.atWork.length;
    return this.onAll.checked ? this.targets.length : null;
  }

  drafts() {
    return [...this.byName.values()].filter((knob) => knob.isDraft());
  }

  /** Shows the bar "Apply all changes" for two or more; a single change has its own button. */
  count() {
    for (const knob of this.byName.values()) knob.show();
    const {main} = this;
    say(this.whose, main.isMany ? `of all ${main.atWork.length} members at work` : this.runs.length > 1 ? `of ${main.name}` : '');
    const drafts = this.drafts();
    this.bar.hidden = drafts.length < 2;
    this.everything.disabled = !this.enabled;
    const going = this.runs.filter((run) => run.going).length, all = going === this.runs.length;
    say(this.onAllText, all ? `set on all ${going} chosen runs` : `set on the ${going} chosen runs at work`);
    say(this.howMany, `${drafts.length} values changed, not applied yet`);
  }

  /** Removes all errors. */
  forgive() {
    for (const knob of this.byName.values()) knob.forgive();
  }

  /** Sends the inputs of these knobs in order; sends nothing if an input is not a number. */
  async apply(knobs) {
    const bad = knobs.filter((knob) => knob.input.get() === null);
    for (const knob of bad) knob.tell([[this.main, 'write a number such as 0.001', 'refused']]);
    if (bad.length) return;
    await this.send(knobs, (knob) => knob.input.get());
  }

  async send(knobs, valueOf) {
    const runs = this.targets, commands = knobs.map((knob) => ({set: knob.name, value: valueOf(knob)}));
    for (const knob of knobs) knob.tell(runs.map((run) => [run, 'pending …', 'pending']));
    await Promise.all(runs.map((run) => this.sendTo(run, knobs, commands)));
    this.count();
  }

  /** Each run answers by itself: one that refuses or has gone stops none of the others. */
  async sendTo(run, knobs, commands) {
    try {
      const entries = await this.ask(run, commands);
      await Promise.all(knobs.map(async (knob, i) => knob.answered(run, await entries[i])));
    } catch (error) {
      for (const knob of knobs) knob.unanswered(run, error.message);
    }
  }
}

/** One live value. */
class Knob {
  constructor(live, knobs) {
    this.name = live.name;
    this.live = live;
    this.knobs = knobs;
    this.said = new Map(); // run -> [text, kind]
    this.applied = undefined; // the value that was set here last
    this.now = el('output', {class: 'now'});
    this.badge = el('span', {class: 'badge'});
    this.configured = el('span', {class: 'configured'});
    this.elsewhere = el('p', {class: 'elsewhere', hidden: true});
    this.notes = el('div', {class: 'notes', role: 'status'}, el('p', {class: 'note'}));
    this.button = el('button', {type: 'submit', class: 'apply', 'aria-label': `Apply ${live.name}`}, 'Apply');
    this.auto = el('button', {
      type: 'button', class: 'auto', 'aria-label': `Auto ${live.name}`,
      onclick: () => knobs.send([this], () => 'auto'),
    }, 'Auto');
    this.input = live.blocks.length ? new Blocks(live) : new NumberField(live);
    this.input.onchange = () => { this.forgive(); knobs.count(); };
    const range = live.blocks.length ? '' : ` ${live.bounds}`;
    this.node = el('form', {
      class: 'knob', autocomplete: 'off', 'data-name': live.name,
      onsubmit: (event) => { event.preventDefault(); if (knobs.enabled) knobs.apply([this]); },
      onkeydown: (event) => { if (event.key === 'Escape') this.forget(); },
    },
      el('div', {class: 'head'},
        el('label', {for: `knob-${live.name}`}, live.name),
        el('span', {class: 'unit'}, `${live.unit === '1' ? '' : live.unit}${range}`),
        this.now, this.badge),
      el('p', {class: 'meaning', title: `A change takes effect at the ${live.effect}.`},
        live.meaning, this.configured),
      this.elsewhere,
      el('div', {class: 'set'}, this.input.node, this.button, this.auto),
      this.notes);
  }

  /** Takes in the main run's present value and source. */
  update(live) {
    this.live = live;
    this.forgetApplied(live);
    say(this.now, liveText(live));
    this.now.title = live.each?.length ? eachText(live.each) : String(live.value);
    say(this.badge, live.source ?? live.sources.join(', '));
    this.badge.className = `badge ${live.source ?? ''}`;
    const {configured = null} = live;
    say(this.configured, configured === null ? '' : {
      schedule: ` · ${configured}`, override: ` · auto is ${configured}`,
    }[live.source] ?? '');
    if (!this.input.touched) this.input.put(live.value);
  }

  /** Removes the note about an applied value after another one was set elsewhere, as by an undo. */
  forgetApplied({value, source}) {
    // The state may be older than the answer: wait until it has shown the applied value.
    if (same(value, this.applied)) this.seen = true;
    else if (this.seen && source !== 'schedule') {
      this.seen = false;
      this.remove('applied');
    }
  }

  /** Returns true if the user's input differs from the value of a run on which it would be set. */
  isDraft() {
    if (!this.input.touched) return false;
    const value = this.input.get();
    return this.knobs.targets.some((run) => !same(value, run === this.knobs.main ? this.live.value : run.live(this.name)?.value));
  }

  show() {
    const {enabled, targets, several} = this.knobs, draft = this.isDraft();
    // Enabled even for text that is not a number: a disabled button would ignore Enter silently.
    this.button.disabled = !enabled || !draft;
    say(this.button, several === null ? 'Apply' : `Apply to ${several}`);
    this.auto.disabled = !enabled || !(isOverridden(this.live) || targets.some((run) => isOverridden(run.live(this.name))));
    this.auto.title = several === null ? `Back to ${this.live.configured}` : 'Back to the value of each run’s config';
    this.input.enable(this.knobs.open);
    this.node.classList.toggle('draft', draft);
    this.showElsewhere();
  }

  /** Shows the values of the other chosen runs, where they differ. */
  showElsewhere() {
    if (this.live.have < this.live.of) {
      this.elsewhere.hidden = false;
      this.shownElsewhere = null;
      say(this.elsewhere, `not a value of all members: ${this.live.have} of ${this.live.of} have it`);
      return;
    }
    const others = this.knobs.runs.filter((run) => run !== this.knobs.main && run.state)
      .map((run) => [run, run.live(this.name)])
      .filter(([, live]) => !live || this.differs(live))
      .map(([run, live]) => [run, live ? valueText(live.value) : 'has no such value']);
    const key = JSON.stringify(others.map(([run, text]) => [run.slot, run.name, text]));
    if (key === this.shownElsewhere) return;
    this.shownElsewhere = key;
    this.elsewhere.hidden = !others.length;
    this.elsewhere.replaceChildren(...others.map(([run, text]) => el('span', {class: `slot-${run.slot}`, title: run.name},
      el('i', {class: 'swatch'}), `${run.name} `, el('b', {}, text))));
  }

  differs({value, source, configured}) {
    // The same schedule gives other values at other env steps.
    const sameSchedule = source === 'schedule' && this.live.source === source && this.live.configured === configured;
    return !sameSchedule && !same(value, this.live.value);
  }

  forget() {
    this.input.touched = false;
    this.input.put(this.live.value);
    this.tell([]);
    this.knobs.count();
  }

  answered(run, entry) {
    if (!entry.taken) {
      this.say(run, entry.note ? `applied ${entry.note}` : entry.reason, 'refused');
    } else {
      if (run === this.knobs.main) {
        this.input.touched = false;
        this.live = {...this.live, value: entry.new};
        [this.applied, this.seen] = [entry.new, false];
        this.input.put(entry.new);
      }
      const where = entry.note ?? `at update ${count(entry.update)} (env step ${count(entry.env_step)})`;
      this.say(run, `applied ${where}`, 'applied');
    }
    this.show();
  }

  /** Shows a failure, unless this knob's command was already answered. */
  unanswered(run, reason) {
    if (this.said.get(run)?.[1] === 'pending') this.say(run, reason, 'refused');
  }

  /** Removes errors: the user has begun to write something else. */
  forgive() {
    this.remove('refused');
  }

  /** Removes the notes of this kind. */
  remove(kind) {
    for (const [run, [, other]] of this.said) {
      if (other === kind) this.said.delete(run);
    }
    this.showNotes();
  }

  /** Shows these notes [[run, text, kind], ...] and no others. */
  tell(notes) {
    this.said = new Map(notes.map(([run, text, kind]) => [run, [text, kind]]));
    this.showNotes();
  }

  say(run, text, kind) {
    this.said.set(run, [text, kind]);
    this.showNotes();
  }

  showNotes() {
    const named = this.said.size > 1 || [...this.said.keys()].some((run) => run !== this.knobs.main);
    const notes = [...this.said].map(([run, [text, kind]]) => el('p', {class: `note ${kind} slot-${run.slot}`},
      named ? el('i', {class: 'swatch'}) : null, named ? `${run.name}: ${text}` : text));
    this.notes.replaceChildren(...notes.length ? notes : [el('p', {class: 'note'})]);
  }
}

/** Returns text such as "m00: 25, m01: 100". */
function eachText(each) {
  return each.map(([member, value]) => `${member}: ${valueText(value)}`).join(', ');
}
