// The Steer tab: choice of the run, its progress, live values, changes and four live plots.

import {Answers} from './answers.js';
import {ago, el} from './dom.js';
import {AT_WORK, Header, word} from './header.js';
import {Knobs} from './knob.js';
import {Plot} from './plot.js';
import {command, get, openSession} from './server.js';
import {followTheme, framedByAnother, remember, remembered, unseen} from './surroundings.js';

const POLL = 1000, POLL_SOON = 200, SOON_FOR = 4000, LIST = 3000, HISTORY = 10000; // ms
const PLOTS = [
  ['episode/return', 'Return', 'reward'],
  ['target/age', 'Target age', 'updates'],
  ['learn/q_mean', 'Q mean', 'reward'],
  ['learn/td_error_mean_abs', 'TD error', 'mean absolute, reward'],
];

class Page {
  constructor(root) {
    this.run = null;
    this.answers = new Answers();
    this.soonUntil = 0;
    this.anyAlive = true;
    this.locked = 'Loading …';
    const ask = (commands) => this.ask(commands);
    this.header = new Header((name) => this.pick(name), ask);
    this.knobs = new Knobs(ask);
    this.plots = new Map(PLOTS.map(([tag, title, unit]) => [tag, new Plot(title, unit)]));
    this.log = el('ol', {class: 'log', tabindex: '0', 'aria-label': 'changes, newest first'});
    this.where = el('code');
    this.empty = el('section', {class: 'empty', hidden: true},
      el('h2', {}, 'No run here can be steered yet'),
      el('p', {}, 'This tab shows the runs below ', this.where, '. Start one there, and it appears here by itself:'),
      el('pre', {}, 'targetnet train cartpole'));
    this.trouble = el('p', {class: 'banner', role: 'alert', hidden: true});
    this.main = el('main', {hidden: true}, this.header.node, this.knobs.node,
      el('div', {class: 'right'},
        el('section', {class: 'plots', 'aria-label': 'curves'}, ...[...this.plots.values()].map((plot) => plot.node)),
        el('section', {class: 'changes'}, el('h2', {}, 'Changes'), this.log)));
    root.replaceChildren(this.trouble, this.main, this.empty);
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
    this.poll();
  }

  /** Loads the list of runs. */
  async list() {
    if (unseen() && this.run) return;
    let runs, directories;
    try {
      ({runs, directories} = await get('runs'));
    } catch (error) {
      return this.lose(error.message);
    }
    this.trouble.hidden = true;
    runs.sort((a, b) => b.alive - a.alive || b.time - a.time);
    this.anyAlive = runs.some((run) => run.alive);
    this.where.textContent = directories.join(', ');
    this.empty.hidden = runs.length > 0;
    this.main.hidden = runs.length === 0;
    this.header.listRuns(runs, this.run);
    if (!this.run && runs.length) {
      const before = remembered();
      await this.pick(runs.some((run) => run.name === before) ? before : runs[0].name);
    }
  }

  async pick(name) {
    this.run = name;
    remember(name);
    this.header.picker.value = name;
    this.position = 0;
    this.answers.forget('another run was chosen');
    this.knobs.clear();
    this.header.clear();
    this.log.replaceChildren();
    for (const plot of this.plots.values()) plot.clear();
    await Promise.all([this.refresh(), this.history()]);
  }

  async poll() {
    if (!unseen()) await this.refresh();
    setTimeout(() => this.poll(), Date.now() < this.soonUntil ? POLL_SOON : POLL);
  }

  /** Loads the run's last state and its new log entries. */
  async refresh() {
    const name = this.run, position = this.position;
    if (!name) return;
    let answer;
    try {
      answer = await get('run', {name, position});
    } catch (error) {
      if (name === this.run) this.lose(error.message);
      return;
    }
    // The user has picked another run, or another response already had these entries.
    if (name !== this.run || position !== this.position) return;
    this.position = answer.position;
    this.show(answer);
  }

  async history() {
    const name = this.run;
    if (!name || unseen()) return;
    const {curves} = await get('history', {name}).catch(() => ({curves: {}}));
    if (name !== this.run) return;
    for (const [tag, points] of Object.entries(curves)) {
      const plot = this.plots.get(tag);
      if (plot.add(points)) plot.draw();
    }
  }

  show(answer) {
    const {state, alive, log, now} = answer;
    const status = word(state.status, alive);
    const going = AT_WORK.includes(status);
    this.header.show(answer);
    for (const entry of log) this.addEntry(entry);
    let why = '';
    if (!going) {
      why = `${this.run} is ${status}, last heartbeat ${ago(now - state.time)}: it takes no commands.`;
      this.answers.giveUp(`no answer came: the run is ${status}`);
      if (!this.anyAlive) why += ' No run here is at work; start one with: targetnet train cartpole';
    }
    this.header.complain(this.locked || why);
    this.header.enable(going && !this.locked);
    this.knobs.show(state.values, going && !this.locked);
    for (const [tag, plot] of this.plots) {
      const point = state.recent[tag];
      let fresh = point ? plot.add([point]) : false;
      if (tag === 'target/age' && state.target_age !== null) {
        fresh = plot.add([[state.env_step, state.target_age]]) || fresh;
      }
      if (fresh || log.length) plot.draw();
    }
  }

  /** Handles a failed request: the shown data is old, so steering is disabled. */
  lose(text) {
    const here = this.main.hidden ? null : this.header;
    this.trouble.hidden = Boolean(here);
    this.trouble.textContent = text;
    here?.complain(text);
    this.header.enable(false);
    for (const knob of this.knobs.byName.values()) knob.update(knob.live, false);
  }

  addEntry(entry) {
    this.answers.came(entry);
    const when = new Date(entry.time * 1000);
    this.log.prepend(el('li', {class: entry.taken ? entry.kind : 'refused'},
      el('time', {title: when.toLocaleString()}, when.toLocaleTimeString()),
      el('span', {class: 'who'}, entry.who), el('span', {class: 'what'}, entry.text)));
    if (entry.taken && (entry.kind === 'set' || ['sync', 'rewind'].includes(entry.name))) {
      for (const plot of this.plots.values()) plot.mark(entry.env_step, entry.text);
    }
  }

  async ask(commands) {
    if (this.locked) throw new Error(this.locked);
    const {tokenRow, runToken} = this.header;
    const ids = await command(this.run, commands, tokenRow.hidden ? '' : runToken.value);
    this.soonUntil = Date.now() + SOON_FOR;
    setTimeout(() => this.refresh(), 60);
    return this.answers.to(ids);
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
