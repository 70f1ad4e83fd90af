// Choice of what to steer, a run or all members of a population, and of up to eight runs to compare.

import {el, say} from './dom.js';
import {Population, titleOf} from './population.js';
import {isAtWork, Run, word} from './run.js';
import {recall, remember} from './surroundings.js';

const MOST_RUNS = 8; // as many as there are colours
const MANY = 8; // from here on the list has a filter
const inOrder = new Intl.Collator('en', {numeric: true}).compare;

export class Chooser {
  /** changed() is called after another choice, redraw() when commands may be sent again or may not. */
  constructor(changed, redraw) {
    this.changed = changed;
    this.redraw = redraw;
    this.runs = []; // the chosen ones
    this.main = null; // the one whose curves are in front
    this.population = null; // the one whose members are all steered; null if `main` is steered
    this.rows = new Map();
    this.picker = el('select', {id: 'run', onchange: () => this.picked(this.picker.selectedOptions[0])});
    this.button = el('button', {
      type: 'button', class: 'compare', 'aria-expanded': 'false', hidden: true, onclick: () => this.open(this.panel.hidden),
    }, 'Compare runs');
    this.filter = el('input', {
      type: 'text', placeholder: 'part of a name', 'aria-label': 'show runs with this in their name', hidden: true,
      oninput: () => this.showRows(),
    });
    this.howMany = el('span', {class: 'unit', role: 'status'});
    this.list = el('ul', {class: 'runs'});
    this.panel = el('div', {class: 'choice', hidden: true},
      el('div', {class: 'tools'}, this.howMany, this.filter), this.list);
    this.legend = el('ul', {class: 'legend', 'aria-label': 'chosen runs'});
  }

  open(on) {
    this.panel.hidden = !on;
    this.button.setAttribute('aria-expanded', String(on));
  }

  /** The run or the population that is steered. */
  get steered() {
    return this.population ?? this.main;
  }

  /**
   * Shows the runs that the server found: [{name, status, alive, problem, ...}, ...], and the
   * populations: [{name, path, members}, ...], where members are names of runs.
   */
  offer(found, populations = []) {
    this.found = new Map(found.map((run) => [run.name, run]));
    this.populations = new Map(populations.map((population) => [population.name, population]));
    const options = optionsOf(found, populations), key = JSON.stringify(options);
    if (key !== this.options) { // a replacement would close an open list
      this.options = key;
      this.picker.replaceChildren(...options.map(({text, ...attributes}) => el('option', attributes, text)));
    }
    this.button.hidden = found.length < 2;
    this.filter.hidden = found.length <= MANY;
    if (!this.main && found.length) this.begin(found);
    this.showRows();
    this.show();
  }

  /** Chooses what was chosen before in this browser tab, or the newest run; of a population its first. */
  begin(found) {
    const before = recall('runs', []);
    const known = [...new Set(Array.isArray(before) ? before : [])].filter((name) => this.found.has(name));
    for (const name of known.slice(0, MOST_RUNS)) this.add(name);
    if (!this.runs.length) {
      const newest = found[0].name;
      const population = [...this.populations.values()].find(({members}) => members.includes(newest));
      this.add(population ? this.atWorkOrAll(population.members)[0] : newest);
    }
    const whole = recall('population', null);
    if (this.populations.has(whole)) this.pickAll(whole);
    else this.steer(this.runs[0]);
  }

  run(name) {
    return this.runs.find((run) => run.name === name);
  }

  add(name) {
    const used = this.runs.map((run) => run.slot);
    const slot = [...Array(MOST_RUNS).keys()].find((i) => !used.includes(i));
    this.runs.push(new Run(name, slot));
  }

  picked({value, dataset}) {
    if (dataset.population === undefined) this.pick(value);
    else this.pickAll(dataset.population);
  }

  /** Steers all members of a population; the curves are those of up to eight of them. */
  pickAll(name) {
    const {members, ...population} = this.populations.get(name);
    // Several members that were chosen to be compared stay.
    if (this.runs.length < 2 || !this.runs.every((run) => members.includes(run.name))) {
      this.runs = [];
      for (const member of this.atWorkOrAll(members).slice(0, MOST_RUNS)) this.add(member);
    }
    this.main = this.runs[0];
    this.population = new Population(population, this.redraw);
    this.keep();
  }

  /** Returns those of a population's members that are at work, in order; all of them if none is. */
  atWorkOrAll(members) {
    const known = members.filter((member) => this.found.has(member)).sort(inOrder);
    const atWork = known.filter((member) => isAtWork(this.statusOf(member)));
    return atWork.length ? atWork : known;
  }

  statusOf(name) {
    const {status, alive} = this.found.get(name);
    return word(status, alive);
  }

  /** Steers a run; one that is not chosen takes the place of the one that was steered. */
  pick(name) {
    if (!this.run(name)) this.runs[this.runs.indexOf(this.main)] = new Run(name, this.main.slot);
    this.steer(this.run(name));
  }

  steer(run) {
    this.main = run;
    this.population = null;
    this.keep();
  }

  toggle(name, on) {
    if (on) {
      if (!this.run(name) && this.runs.length < MOST_RUNS) this.add(name);
    } else if (this.runs.length > 1) {
      this.runs = this.runs.filter((run) => run.name !== name);
      if (!this.runs.includes(this.main)) this.main = this.runs[0];
      if (this.runs.length === 1) this.main.slot = 0;
    }
    this.keep();
  }

  keep() {
    remember('population', this.population?.name ?? null);
    remember('runs', [this.main, ...this.runs.filter((run) => run !== this.main)].map((run) => run.name));
    this.showRows();
    this.show();
    this.changed();
  }

  /** Shows the list, in which every run can be chosen. */
  showRows() {
    for (const name of [...this.rows.keys()].filter((name) => !this.found.has(name))) {
      this.rows.get(name).node.remove();
      this.rows.delete(name);
    }
    const names = [...this.found.keys()].sort(inOrder);
    names.forEach((name, i) => {
      if (!this.rows.has(name)) this.rows.set(name, this.newRow(name));
      const {node} = this.rows.get(name);
      if (this.list.children[i] !== node) this.list.insertBefore(node, this.list.children[i] ?? null);
      this.showRow(name);
    });
    const full = this.runs.length >= MOST_RUNS;
    say(this.howMany, `${this.runs.length} of ${names.length} chosen${full ? '; at most 8' : ''}`);
  }

  newRow(name) {
    const box = el('input', {type: 'checkbox', value: name, onchange: () => this.toggle(name, box.checked)});
    const swatch = el('i', {class: 'swatch'}), status = el('span', {class: 'unit'});
    return {box, swatch, status, node: el('li', {}, el('label', {}, box, swatch, el('span', {class: 'name'}, name), status))};
  }

  showRow(name) {
    const {box, swatch, status, node} = this.rows.get(name), run = this.run(name), found = this.found.get(name);
    box.checked = Boolean(run);
    box.disabled = run ? this.runs.length === 1 : this.runs.length >= MOST_RUNS;
    swatch.className = run ? `swatch slot-${run.slot}` : 'swatch none';
    say(status, word(found.status, found.alive));
    node.title = found.problem ?? name;
    node.hidden = !this.filter.hidden && !name.toLowerCase().includes(this.filter.value.trim().toLowerCase());
  }

  /** Shows the chosen runs with their colours, if there are several. */
  show() {
    const steered = [...this.picker.options].find((option) => (this.population
      ? option.dataset.population === this.population.name
      : option.dataset.population === undefined && option.value === this.main?.name));
    if (steered) steered.selected = true;
    this.legend.hidden = this.runs.length < 2;
    const key = JSON.stringify(this.runs.map((run) => [run.name, run.slot, run === this.steered, run.status, run.problem]));
    if (key === this.shown) return;
    this.shown = key;
    const focused = this.legend.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.legend.replaceChildren(...this.runs.map((run) => this.chip(run)));
    if (focused) [...this.legend.querySelectorAll('button')].find((b) => b.dataset.key === focused)?.focus();
  }

  chip(run) {
    const main = run === this.steered;
    return el('li', {class: `chip slot-${run.slot} ${main ? 'main' : ''}`},
      el('button', {
        type: 'button', class: 'name', 'data-key': `steer ${run.name}`, 'aria-pressed': String(main),
        title: run.problem || (main ? 'Its live values are shown' : `Show the live values of ${run.name}`),
        onclick: () => this.steer(run),
      }, el('i', {class: 'swatch'}), run.name, el('span', {class: 'unit'}, run.problem ? 'no answer' : run.status)),
      el('button', {
        type: 'button', class: 'away', 'data-key': `away ${run.name}`, 'aria-label': `Do not compare ${run.name}`,
        onclick: () => this.toggle(run.name, false),
      }, '×'));
  }
}

/** Returns the attributes and texts of the options: each population stands before its first member. */
function optionsOf(found, populations) {
  const words = new Map(found.map((run) => [run.name, word(run.status, run.alive)])), placed = new Set();
  const above = new Map(populations.flatMap((one) => one.members.map((member) => [member, one])));
  return found.flatMap(({name, problem: title}) => {
    const option = {value: name, title, text: `${name} (${words.get(name)})`}, population = above.get(name);
    if (!population || placed.has(population)) return [option];
    placed.add(population);
    return [optionOfAll(population, words), option];
  });
}

function optionOfAll(population, words) {
  const {name, members} = population, atWork = members.filter((member) => isAtWork(words.get(member)));
  return {
    value: `${name}/*`, 'data-population': name,
    text: `${titleOf(population)}: all ${members.length} members (${atWork.length} at work)`,
  };
}
