// The Steer tab: the chosen runs, their progress, live values, changes and curves.

import {Changes} from './changes.js';
import {Chooser} from './chooser.js';
import {Curves} from './curves.js';
import {el} from './dom.js';
import {Header} from './header.js';
import {Knobs} from './knob.js';
import {Members} from './members.js';
import {get, openSession} from './server.js';
import {followTheme, framedByAnother, unseen} from './surroundings.js';

const POLL = 1000, POLL_SOON = 200, SOON_FOR = 4000, LIST = 3000, HISTORY = 10000, FIRST_HISTORY = 2000; // ms
const OTHERS_EVERY = 3; // polls between two of the runs that are only compared
const POINTS = 4000, MOST_POINTS = 1000; // loaded for one plot, and for one curve

class Page {
  constructor(root) {
    this.soonUntil = 0;
    this.polls = 0;
    this.anyAlive = true;
    this.locked = 'Loading …';
    const ask = (run, commands) => this.ask(run, commands);
    this.chooser = new Chooser(() => this.choose(), () => this.show());
    this.header = new Header(this.chooser, ask);
    this.header.runToken.addEventListener('input', () => this.knobs.forgive());
    this.knobs = new Knobs(ask);
    this.changes = new Changes(ask);
    this.members = new Members((name) => this.chooser.pick(name));
    this.curves = new Curves(() => this.history());
    this.where = el('code');
    this.empty = el('section', {class: 'empty', hidden: true},
      el('h2', {}, 'No run here can be steered yet'),
      el('p', {}, 'This tab shows the runs below ', this.where, '. Start one there, and it appears here by itself:'),
      el('pre', {}, 'targetnet train cartpole'));
    this.trouble = el('p', {class: 'banner', role: 'alert', hidden: true});
    this.main = el('main', {hidden: true}, this.header.node, this.knobs.node,
      el('div', {class: 'right'}, this.members.node, this.curves.node, this.changes.node));
    root.replaceChildren(this.trouble, this.main, this.empty);
  }

  /** The run or the population that is steered. */
  get run() {
    return this.chooser.steered;
  }

  async start() {
    if (framedByAnother()) {
      this.locked = 'This page is shown inside another site, so it cannot steer.';
    } else {
      try {
        const session = await openSession();
        this.header.tokenRow.hidden = !session.needs_run_token;
        this.locked = '';
      } catch (error) {
        this.locked = error.message;
      }
    }
    await this.list();
    setInterval(() => this.list(), LIST);
    setInterval(() => this.history(), HISTORY);
    // TensorBoard takes a while to read a new run.
    setInterval(() => this.history(this.chooser.runs.filter((run) => !run.tags.length)), FIRST_HISTORY);
    this.poll();
  }

  /** Loads the list of runs. */
  async list() {
    if (unseen() && this.run) return;
    let runs, populations, directories;
    try {
      ({runs, populations, directories} = await get('runs'));
    } catch (error) {
      return this.lose(error.message);
    }
    this.trouble.hidden = true;
    runs.sort((a, b) => b.alive - a.alive || b.time - a.time);
    this.anyAlive = runs.some((run) => run.alive);
    this.where.textContent = directories.join(', ');
    this.empty.hidden = runs.length > 0;
    this.main.hidden = runs.length === 0;
    this.chooser.offer(runs, populations);
  }

  /** Shows other runs, or another main run. */
  async choose() {
    const {runs, main, population, steered} = this.chooser;
    const another = steered !== this.knobs.main;
    this.knobs.choose(population ? [population] : runs, steered);
    this.changes.choose(runs);
    this.curves.choose(runs, main);
    if (another) this.header.clear();
    this.show();
    const unknown = [...new Set([steered, ...runs])].filter((run) => run === steered || !run.answer);
    await Promise.all([...unknown.map((run) => this.refresh(run)), this.history()]);
  }

  async poll() {
    if (!unseen() && this.run) {
      const others = this.polls++ % OTHERS_EVERY === 0 || this.isSoon;
      const runs = this.chooser.runs.filter((run) => others || run === this.run);
      await Promise.all([...new Set([this.run, ...runs])].map((run) => this.refresh(run)));
    }
    setTimeout(() => this.poll(), this.isSoon ? POLL_SOON : POLL);
  }

  get isSoon() {
    return Date.now() < this.soonUntil;
  }

  /** Loads a run's last state and its new log entries. */
  async refresh(run) {
    const {entries, moved} = await run.refresh();
    if (run === this.chooser.population) return this.show();
    if (!this.chooser.runs.includes(run)) return; // put aside meanwhile
    this.changes.add(run, entries);
    if (moved || entries.length) this.curves.draw();
    this.show();
  }

  /** Loads the curves of runs, one run after the other: TensorBoard has one processor. */
  async history(runs = this.chooser.runs) {
    if (unseen()) return;
    const {tags} = this.curves;
    const points = Math.min(MOST_POINTS, Math.floor(POINTS / this.chooser.runs.length));
    for (const run of runs) {
      if (run.going || !run.tags.length) await run.listTags();
      await run.load(tags, points);
      this.curves.draw();
    }
  }

  show() {
    const {run} = this, open = !this.locked;
    if (run.answer && !run.problem) this.header.show(run);
    const idle = run.answer && !run.going && !this.anyAlive;
    const start = idle ? ' No run here is at work; start one with: targetnet train cartpole' : '';
    this.header.complain(this.locked || run.excuse + start);
    this.header.enable(run.ready && open);
    this.members.show(this.chooser.population);
    this.knobs.show(open);
    this.changes.show(open);
    this.chooser.show();
  }

  /** Handles a failed request: the shown data is old, so steering is disabled. */
  lose(text) {
    this.trouble.hidden = !this.main.hidden;
    this.trouble.textContent = text;
    if (!this.run) return;
    for (const run of [...this.chooser.runs, this.run]) run.problem = text;
    this.show();
  }

  async ask(run, commands) {
    if (this.locked) throw new Error(this.locked);
    const promises = await run.send(commands);
    this.soonUntil = Date.now() + SOON_FOR;
    setTimeout(() => this.refresh(run), 60);
    return promises;
  }
}

/** Builds the page; TensorBoard calls this function when the tab is opened. */
export function render() {
  document.title = 'Steer';
  document.documentElement.lang = 'en';
  const style = el('link', {rel: 'stylesheet', href: 'style.css'});
  document.head.append(style, el('meta', {name: 'viewport', content: 'width=device-width'}));
  followTheme();
  const root = el('div', {id: 'steer'});
  document.body.replaceChildren(root);
  const page = new Page(root);
  // Plots measure their size, so start after the style sheet; without it the page still works.
  for (const event of ['load', 'error']) style.addEventListener(event, () => page.start());
}
