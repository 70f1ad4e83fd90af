// The four plots of the chosen runs, and what they share: smoothing and the part that is shown.

import {el, say} from './dom.js';
import {Plot} from './plot.js';
import {recall, remember} from './surroundings.js';

const STANDARD = ['episode/return', 'target/age', 'learn/q_mean', 'learn/td_error_mean_abs'];
const MARKED = ['sync', 'rewind', 'copy', 'reset', 'perturb', 'recycle']; // actions that bend a curve

export class Curves {
  /** load() is called when a plot needs another curve. */
  constructor(load) {
    this.load = load;
    this.runs = [];
    this.main = null;
    this.view = null; // [first, last env step] that all plots show; null shows all
    this.smoothing = el('input', {
      id: 'smoothing', type: 'range', min: 0, max: 0.99, step: 0.01, value: recall('smoothing', 0),
      oninput: () => { remember('smoothing', this.weight); this.draw(); },
    });
    this.amount = el('output', {for: 'smoothing'});
    this.reset = el('button', {type: 'button', class: 'reset', hidden: true, onclick: () => this.zoom(null)}, 'Show all');
    this.part = el('span', {class: 'unit'});
    this.plots = recalledTags().map((tag, i) => new Plot(tag, (other) => this.pick(i, other), (view) => this.zoom(view)));
    this.node = el('section', {class: 'curves', 'aria-label': 'curves'},
      el('div', {class: 'tools'}, el('h2', {}, 'Curves'), this.part, this.reset,
        el('label', {class: 'smoothing'}, 'smoothing ', this.smoothing, this.amount)),
      el('div', {class: 'plots'}, ...this.plots.map((plot) => plot.node)));
  }

  get weight() {
    return Number(this.smoothing.value);
  }

  get tags() {
    return [...new Set(this.plots.map((plot) => plot.tag))];
  }

  pick(i, tag) {
    this.plots[i].tag = tag;
    remember('tags', this.plots.map((plot) => plot.tag));
    this.draw();
    this.load();
  }

  zoom(view) {
    this.view = view;
    this.draw();
  }

  /** Shows other runs; `main` is the one whose live values are shown. */
  choose(runs, main) {
    this.runs = runs;
    this.main = main;
    this.draw();
  }

  /** Draws once in the next frame, however often it is called until then. */
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawNow();
    });
  }

  drawNow() {
    // The main run is drawn last, above the others.
    const runs = [...this.runs].sort((a, b) => (a === this.main) - (b === this.main));
    const marks = runs.flatMap(marksOf), tags = allTags(runs);
    say(this.amount, this.weight ? this.weight.toFixed(2) : 'off');
    say(this.part, this.view ? `env steps ${this.view.map((s) => s.toLocaleString('en-US')).join(' to ')}`
      : 'over env steps; drag to zoom');
    this.reset.hidden = !this.view;
    this.node.classList.toggle('several', runs.length > 1);
    for (const plot of this.plots) {
      plot.offer(tags);
      plot.show({
        series: runs.map((run) => ({
          name: run.name, slot: run.slot, main: run === this.main, points: run.curves.get(plot.tag)?.sorted ?? [],
        })),
        marks, view: this.view, weight: this.weight,
      });
    }
  }
}

/** Returns a mark for each change of a run that may bend its curves. */
function marksOf(run) {
  return run.entries
    .filter((entry) => entry.taken && (entry.kind === 'set' || MARKED.includes(entry.name)))
    .map((entry) => ({
      step: entry.env_step, text: entry.text, slot: run.slot, name: run.name,
      kind: entry.who === 'schedule' ? 'schedule' : 'person',
    }));
}

/** Returns the curves of all runs, each once, in order of the tag. */
function allTags(runs) {
  const found = new Map(runs.flatMap((run) => run.tags).map((tag) => [tag.tag, tag]));
  return [...found.values()].sort((a, b) => (a.tag < b.tag ? -1 : 1));
}

function recalledTags() {
  const tags = recall('tags', STANDARD);
  const valid = Array.isArray(tags) && tags.length === STANDARD.length && tags.every((tag) => typeof tag === 'string');
  return valid ? tags : STANDARD;
}
