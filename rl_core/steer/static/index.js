// The Steer tab: which run, how it does, its live values, what was changed, four live plots.

import {ago, count, duration, el, number, say} from './dom.js';
import {Knob} from './knob.js';
import {Plot} from './plot.js';
import {command, get, openSession} from './server.js';

const POLL = 1000, POLL_SOON = 200, SOON_FOR = 4000, LIST = 3000, HISTORY = 10000; // ms
const PLOTS = [
  ['episode/return', 'Return', 'reward'],
  ['target/age', 'Target age', 'updates'],
  ['learn/q_mean', 'Q mean', 'reward'],
  ['learn/td_error_mean_abs', 'TD error', 'mean size, reward'],
];
const AT_WORK = ['running', 'paused', 'evaluating'];

class Page {
  constructor(root) {
    this.root = root;
    this.run = null;
    this.knobs = new Map();
    this.plots = new Map(PLOTS.map(([tag, title, unit]) => [tag, new Plot(title, unit)]));
    this.soonUntil = 0;
    this.framed = framedByAnother();
    this.build();
  }

  build() {
    this.picker = el('select', {id: 'run', onchange: () => this.pick(this.picker.value)});
    this.status = el('span', {class: 'status'});
    this.facts = el('dl', {class: 'facts'});
    this.progress = el('progress', {max: 1, value: 0, 'aria-label': 'env steps done'});
    this.banner = el('p', {class: 'banner', role: 'alert', hidden: true});
    this.actions = new Map([
      ['sync', 'Sync now', 'Copy online to target at once'],
      ['pause', 'Pause', 'Stop stepping and learning, and wait'],
      ['evaluate', 'Evaluate', 'Play the greedy policy; changes nothing that is learned'],
      ['stop', 'Stop', 'End the run here; its weights are saved'],
    ].map(([action, text, title]) => [action, el('button', {
      type: 'button', title, 'data-action': action, onclick: () => this.act(action),
    }, text)]));
    this.said = el('p', {class: 'note', role: 'status'});
    this.runToken = el('input', {
      id: 'run-token', type: 'password', autocomplete: 'off', placeholder: 'token of the run',
    });
    this.tokenHint = el('code');
    this.tokenRow = el('p', {class: 'token', hidden: true},
      el('label', {for: 'run-token'}, 'This board listens to other machines. To steer, type what is in '),
      this.tokenHint, ' ', this.runToken);
    this.knobList = el('div', {class: 'knobs'});
    this.log = el('ol', {class: 'log', tabindex: '0', 'aria-label': 'changes, newest first'});
    this.empty = el('section', {class: 'empty', hidden: true},
      el('h2', {}, 'No run here can be steered yet'),
      el('p', {}, 'Start one below this log directory, and it appears here by itself:'),
      el('pre', {}, 'targetnet train cartpole'));
    this.main = el('main', {hidden: true},
      el('header', {},
        el('div', {class: 'pick'}, el('label', {for: 'run'}, 'Run'), this.picker, this.status),
        this.progress, this.facts,
        el('div', {class: 'actions', role: 'group', 'aria-label': 'commands'}, ...this.actions.values(), this.said),
        this.tokenRow, this.banner),
      el('section', {class: 'left', 'aria-label': 'live values'}, el('h2', {}, 'Live values'), this.knobList),
      el('section', {class: 'right'},
        el('div', {class: 'plots'}, ...[...this.plots.values()].map((plot) => plot.node)),
        el('h2', {}, 'Changes'), this.log));
    this.root.replaceChildren(this.main, this.empty);
  }

  async start() {
    try {
      const session = await openSession();
      this.tokenRow.hidden = !session.needs_run_token;
      this.locked = this.framed ? 'This page is shown inside another site, so it only shows.' : '';
    } catch (error) {
      this.locked = error.message;
    }
    await this.list();
    setInterval(() => this.list(), LIST);
    setInterval(() => this.run && this.history(), HISTORY);
    this.poll();
  }

  /** Which runs there are. */
  async list() {
    let runs;
    try {
      ({runs} = await get('runs'));
    } catch (error) {
      return this.complain(error.message);
    }
    runs.sort((a, b) => b.alive - a.alive || b.time - a.time);
    this.empty.hidden = runs.length > 0;
    this.main.hidden = runs.length === 0;
    const options = runs.map((run) => [run.name, `${run.name} (${word(run.status, run.alive)})`]);
    if (JSON.stringify(options) !== this.options) {
      this.options = JSON.stringify(options);
      this.picker.replaceChildren(...options.map(([name, text]) => el('option', {value: name}, text)));
      if (this.run) this.picker.value = this.run;
    }
    if (!this.run && runs.length) this.pick(remembered(runs) ?? runs[0].name);
  }

  async pick(name) {
    this.run = name;
    sessionStorage.setItem('targetnet-run', name);
    this.picker.value = name;
    this.position = 0;
    this.changes = [];
    this.knobs.clear();
    this.knobList.replaceChildren();
    this.log.replaceChildren();
    for (const plot of this.plots.values()) plot.clear();
    await Promise.all([this.refresh(), this.history()]);
  }

  async poll() {
    await this.refresh();
    setTimeout(() => this.poll(), Date.now() < this.soonUntil ? POLL_SOON : POLL);
  }

  /** The last state and what came to the log since. */
  async refresh() {
    const name = this.run, position = this.position;
    if (!name || document.hidden) return;
    let answer;
    try {
      answer = await get('run', {name, position});
    } catch (error) {
      return this.complain(error.message);
    }
    // Another run was picked meanwhile, or another answer brought the same entries.
    if (name !== this.run || position !== this.position) return;
    this.position = answer.position;
    this.show(answer);
  }

  async history() {
    const name = this.run;
    const {curves} = await get('history', {name}).catch(() => ({curves: {}}));
    if (name !== this.run) return;
    for (const [tag, points] of Object.entries(curves)) {
      const plot = this.plots.get(tag);
      if (plot.add(points)) plot.draw();
    }
  }

  show({state, alive, log, token_file: tokenFile}) {
    const going = alive && AT_WORK.includes(state.status);
    const why = this.locked || (going ? '' : `${this.run} is ${word(state.status, alive)}; last heartbeat ${ago(state.time)}.`);
    this.complain(why);
    say(this.tokenHint, tokenFile);
    say(this.status, word(state.status, alive));
    this.status.className = `status ${word(state.status, alive)}`;
    this.progress.value = state.env_steps ? state.env_step / state.env_steps : 0;
    this.showFacts(state, going);
    const enabled = going && !this.locked;
    for (const button of this.actions.values()) button.disabled = !enabled;
    say(this.actions.get('pause'), state.status === 'paused' ? 'Resume' : 'Pause');
    this.paused = state.status === 'paused';
    for (const live of state.values) {
      const knob = this.knobs.get(live.name);
      if (knob) knob.update(live, enabled);
      else this.addKnob(live, enabled);
    }
    for (const entry of log) this.addEntry(entry);
    for (const [tag, plot] of this.plots) {
      const point = state.recent[tag];
      let fresh = point ? plot.add([point]) : false;
      if (tag === 'target/age' && state.target_age !== null) fresh = plot.add([[state.env_step, state.target_age]]) || fresh;
      if (fresh || log.length) plot.draw();
    }
  }

  showFacts(state, going) {
    const facts = [
      ['env', state.env_id],
      ['env step', `${count(state.env_step)} of ${count(state.env_steps)}`],
      ['update', count(state.update)],
      ['return', `${number(state.mean_return === null ? null : Number(state.mean_return.toFixed(1)))}`],
      ['target age', state.target_age === null ? '–' : `${count(state.target_age)} updates`],
      ['speed', going ? `${count(state.env_steps_per_second)} env steps/s` : '–'],
      ['time left', going ? duration(state.eta_seconds) : '–'],
      ['heartbeat', ago(state.time)],
    ];
    if (this.facts.childElementCount !== 2 * facts.length) {
      this.facts.replaceChildren(...facts.flatMap(([name]) => [el('dt', {}, name), el('dd')]));
    }
    facts.forEach(([, text], i) => say(this.facts.children[2 * i + 1], text));
  }

  addKnob(live, enabled) {
    const knob = new Knob(live, async (name, value) => {
      const [id] = await this.send([{set: name, value}]);
      return id;
    });
    this.knobs.set(live.name, knob);
    knob.update(live, enabled);
    this.knobList.append(knob.node);
  }

  addEntry(entry) {
    for (const knob of this.knobs.values()) knob.answered(entry);
    if (entry.id === this.asked) {
      this.asked = null;
      say(this.said, entry.taken ? `done: ${entry.text}` : entry.reason);
      this.said.className = `note ${entry.taken ? 'applied' : 'refused'}`;
    }
    const when = new Date(entry.time * 1000).toLocaleTimeString();
    this.log.prepend(el('li', {class: entry.taken ? entry.kind : 'refused'},
      el('time', {}, when), el('span', {class: 'who'}, entry.who), el('span', {}, entry.text)));
    const changes = entry.taken && (entry.kind === 'set' || entry.name === 'sync');
    if (changes) {
      for (const plot of this.plots.values()) plot.marks.push({step: entry.env_step, text: entry.text});
    }
  }

  async act(action) {
    const asked = action === 'pause' && this.paused ? 'resume' : action;
    if (asked === 'stop' && !(await this.sure())) return;
    say(this.said, `${asked}: pending …`);
    this.said.className = 'note pending';
    try {
      [this.asked] = await this.send([{do: asked}]);
    } catch (error) {
      say(this.said, error.message);
      this.said.className = 'note refused';
    }
  }

  /** A second press of Stop within three seconds; a dialog would be blocked in a frame. */
  sure() {
    const button = this.actions.get('stop');
    if (button.dataset.sure) {
      delete button.dataset.sure;
      say(button, 'Stop');
      return true;
    }
    button.dataset.sure = 'asked';
    say(button, 'Really stop?');
    setTimeout(() => {
      delete button.dataset.sure;
      say(button, 'Stop');
    }, 3000);
    return false;
  }

  async send(commands) {
    if (this.locked) throw new Error(this.locked);
    const {ids} = await command(this.run, commands, this.tokenRow.hidden ? '' : this.runToken.value);
    this.soonUntil = Date.now() + SOON_FOR;
    setTimeout(() => this.refresh(), 60);
    return ids;
  }

  complain(text) {
    say(this.banner, text);
    this.banner.hidden = !text;
  }
}

/** running, paused, finished, ...; killed where a run at work is gone. */
function word(status, alive) {
  return AT_WORK.includes(status) && !alive ? 'killed' : status;
}

function remembered(runs) {
  const name = sessionStorage.getItem('targetnet-run');
  return runs.some((run) => run.name === name) ? name : null;
}

/** Whether a page of another origin is around TensorBoard: what one clicks may not be what one sees. */
function framedByAnother() {
  try {
    return window.top.location.origin !== window.location.origin;
  } catch {
    return true;
  }
}

/** As dark as TensorBoard is; by itself, as the browser wishes. */
function followTheme() {
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  let outer = null;
  try {
    outer = window.parent === window ? null : window.parent.document.body;
  } catch { /* framed by another origin: the browser's wish it is */ }
  const set = () => {
    const isDark = outer ? outer.classList.contains('dark-mode') : dark.matches;
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
  };
  set();
  dark.addEventListener('change', set);
  if (outer) new MutationObserver(set).observe(outer, {attributes: true, attributeFilter: ['class']});
}

export function render() {
  document.title = 'Steer';
  document.documentElement.lang = 'en';
  const style = el('link', {rel: 'stylesheet', href: 'style.css'});
  document.head.append(style, el('meta', {name: 'viewport', content: 'width=device-width'}));
  followTheme();
  const root = el('div', {id: 'steer'});
  document.body.replaceChildren(root);
  const page = new Page(root);
  style.addEventListener('load', () => page.start());
}
