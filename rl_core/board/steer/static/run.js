// One chosen run: its last state, its log, its curves, and the commands that are sent to it.

import {Answers} from './answers.js';
import {Curve} from './curve.js';
import {ago, count, duration, number} from './dom.js';
import {command, get} from './server.js';

const AT_WORK = ['running', 'paused', 'evaluating'];
const MOST_ENTRIES = 500; // of a log; the page may stay open for weeks

/** Returns the status to show: "killed" if a run that was at work is not alive. */
export function word(status, alive) {
  return AT_WORK.includes(status) && !alive ? 'killed' : status;
}

/** Returns true if a run with this status to show takes commands. */
export function isAtWork(shown) {
  return AT_WORK.includes(shown);
}

/** Returns true for a live value that somebody has set, on any of the runs that it is of. */
export function isOverridden(live) {
  return live?.source === 'override' || Boolean(live?.sources?.includes('override'));
}

export class Run {
  /** slot: number of its colour. */
  constructor(name, slot) {
    this.name = name;
    this.slot = slot;
    this.answer = null; // the server's last answer
    this.problem = ''; // why there is no newer one
    this.token = '';
    this.answers = new Answers();
    this.curves = new Map();
    this.tags = [];
    this.finished = new Set(); // curves of a run that has ended, which need no other request
    this.forgetLog();
  }

  forgetLog() {
    this.entries = []; // oldest first
    this.whole = true; // false if older entries exist that are not here
    this.position = 0;
  }

  get state() {
    return this.answer?.state;
  }

  get status() {
    return this.answer ? word(this.state.status, this.answer.alive) : '';
  }

  /** True if the run takes commands. */
  get going() {
    return !this.problem && isAtWork(this.status);
  }

  /** True if a command can be sent now. */
  get ready() {
    return this.going;
  }

  get heartbeat() {
    return `heartbeat ${ago(this.answer.now - this.state.time)}`;
  }

  /** Share of the env steps that are done. */
  get progress() {
    return this.state.env_steps ? this.state.env_step / this.state.env_steps : 0;
  }

  /** What the header tells: [[name, text], ...]. */
  get facts() {
    const {state, going} = this, {mean_return: mean, target_age: age} = state;
    return [
      ['env', state.env_id],
      ['env step', `${count(state.env_step)} of ${count(state.env_steps)}`],
      ['update', count(state.update)],
      ['mean return', mean === null ? '–' : number(Number(mean.toFixed(1)))],
      ['target age', age === null ? '–' : `${count(age)} updates`],
      ...(state.next_copy ? [['next copy', state.next_copy]] : []),
      ['speed', going ? `${count(state.env_steps_per_second)} env steps/s` : '–'],
      ['time left', going ? duration(state.eta_seconds) : '–'],
    ];
  }

  /** Why the run takes no commands; '' if it does. */
  get excuse() {
    if (this.problem || !this.answer) return this.problem;
    const last = ago(this.answer.now - this.state.time);
    return this.going ? '' : `${this.name} is ${this.status}, last heartbeat ${last}: it takes no commands.`;
  }

  live(name) {
    return this.state?.values.find((value) => value.name === name);
  }

  /** Loads the last state; returns the new log entries, and true if a curve has a new point. */
  async refresh() {
    const position = this.position;
    let answer;
    try {
      answer = await get('run', [['name', this.name], ['position', position]]);
    } catch (error) {
      this.problem = error.message;
      return {entries: [], moved: false};
    }
    // Another response already had these entries.
    if (position !== this.position) return {entries: [], moved: false};
    this.problem = '';
    this.answer = answer;
    this.take(answer, position);
    if (!this.going) this.answers.giveUp(`no answer came: the run is ${this.status}`);
    return {entries: answer.log, moved: this.addRecent()};
  }

  take({log, begin, position}, before) {
    if (begin < before) this.forgetLog(); // another log is in its place
    if (begin !== before) this.whole = false;
    this.position = position;
    for (const entry of log) this.answers.came(entry);
    this.entries.push(...log);
    if (this.entries.length > MOST_ENTRIES) {
      this.entries.splice(0, this.entries.length - MOST_ENTRIES);
      this.whole = false;
    }
  }

  /** Adds the last points of the state, newer than those that TensorBoard has read; true if any is new. */
  addRecent() {
    const {recent} = this.state;
    let fresh = false;
    for (const [tag, curve] of this.curves) {
      const points = Object.hasOwn(recent, tag) ? [recent[tag]] : [];
      fresh = curve.add(points) || fresh;
    }
    return fresh;
  }

  /** Loads the names of all curves. */
  async listTags() {
    const {tags} = await get('tags', [['name', this.name]]).catch(() => ({tags: this.tags}));
    this.tags = tags;
  }

  /** Loads the points of these curves. */
  async load(tags, points) {
    for (const tag of tags) {
      if (!this.curves.has(tag)) this.curves.set(tag, new Curve());
    }
    if (this.going) this.finished.clear();
    const wanted = tags.filter((tag) => !this.finished.has(tag));
    if (!wanted.length) return;
    const asked = [['name', this.name], ['points', points], ...wanted.map((tag) => ['tag', tag])];
    const {curves} = await get('history', asked).catch(() => ({curves: {}}));
    for (const tag of wanted.filter((name) => Object.hasOwn(curves, name))) {
      const fresh = this.curves.get(tag).add(curves[tag]);
      if (!fresh && this.answer && !this.going) this.finished.add(tag);
    }
  }

  /** Sends commands; resolves to a promise of a log entry for each. */
  async send(commands) {
    const {ids} = await command('command', {run: this.name, commands, run_token: this.token});
    return this.answers.to(ids);
  }
}
