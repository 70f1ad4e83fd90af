// All members of a population, shown and steered as if they were one run.

import {count, duration, rangeText} from './dom.js';
import {Request} from './request.js';
import {isAtWork, word} from './run.js';
import {command, get} from './server.js';

const SECOND_CLICK = 700; // ms; a click that soon after another one belongs to it

export class Population {
  /** changed() is called when commands may be sent again, or may not. */
  constructor({name, path}, changed) {
    this.name = name;
    this.path = path;
    this.changed = changed;
    this.isMany = true;
    this.slot = 0;
    this.answer = null; // the server's last answer
    this.problem = '';
    this.token = '';
    this.turns = this.shown = 0; // number of the last question, and of the one whose answer is shown
    this.isSending = false;
    this.last = null; // the last request, whose answers are shown
    this.open = new Set(); // requests that not all members have answered
    this.positions = new Map(); // member -> byte of its log after which an answer will come
  }

  /** Name for people; of the log directory itself TensorBoard's name is only a dot. */
  get title() {
    return titleOf(this);
  }

  get state() {
    return this.answer;
  }

  get members() {
    return this.answer?.members ?? [];
  }

  get atWork() {
    return this.members.filter((member) => isAtWork(statusOf(member)));
  }

  get status() {
    return statusText(this.members.map(statusOf));
  }

  get going() {
    return !this.problem && this.atWork.length > 0;
  }

  get ready() {
    return this.going && !this.isSending;
  }

  get excuse() {
    if (this.problem || !this.answer || this.going) return this.problem;
    return `No member of ${this.title} is at work: they take no commands.`;
  }

  get heartbeat() {
    return '';
  }

  get progress() {
    const read = this.members.filter((member) => member.env_steps);
    return read.length ? read.reduce((sum, {env_step: step, env_steps: all}) => sum + step / all, 0) / read.length : 0;
  }

  get facts() {
    const read = this.members.filter((member) => !member.problem), {atWork} = this;
    const of = (field) => read.map((member) => member[field]);
    const speed = atWork.reduce((sum, member) => sum + member.env_steps_per_second, 0);
    const left = Math.max(...atWork.map((member) => member.eta_seconds ?? NaN));
    return [
      ['env', [...new Set(of('env_id'))].join(', ')],
      ['env step', `${rangeText(of('env_step'))} of ${rangeText(of('env_steps'))}`],
      ['update', rangeText(of('update'))],
      ['mean return', rangeText(of('mean_return').map((mean) => (mean === null ? null : Number(mean.toFixed(1)))))],
      ['speed', atWork.length ? `${count(speed)} env steps/s in sum` : '–'],
      ['time left', duration(Number.isFinite(left) ? left : null)],
    ];
  }

  live(name) {
    return this.state?.values.find((value) => value.name === name);
  }

  /** True if some member at work is paused, or is not. */
  has(paused) {
    return this.atWork.some((member) => (member.status === 'paused') === paused);
  }

  /** Loads the members' progress, and the answers that have come. */
  async refresh() {
    const open = [...this.open], asked = new Map(this.positions), turn = ++this.turns;
    let answer = null, problem = '';
    try {
      const of = [...asked].map(([member, position]) => ['of', `${member}:${position}`]);
      answer = await get('members', [['name', this.name], ...of]);
    } catch (error) {
      problem = error.message;
    }
    if (turn > this.shown) { // else the answer to a later question has come before
      this.shown = turn;
      this.problem = problem;
      this.answer = answer ?? this.answer;
    }
    if (!answer) return {entries: [], moved: false};
    const found = new Map(answer.members.map((member) => [member.member, member]));
    for (const [name, position] of asked) this.take(name, found.get(name), position, open);
    this.close();
    return {entries: [], moved: false};
  }

  take(name, member, asked, open) {
    for (const request of open) {
      if (member?.log) request.came(name, member.log);
      if (!member || member.problem) request.giveUp(name, member?.problem ?? 'the member is gone');
      else if (!isAtWork(statusOf(member))) request.giveUp(name, `no answer came: it is ${statusOf(member)}`);
    }
    // Another request may have set it back meanwhile.
    if (member?.log && this.positions.get(name) === asked) this.positions.set(name, member.position);
  }

  /** Forgets the requests that are answered, and the members from which nothing is awaited. */
  close() {
    for (const request of [...this.open].filter((one) => !one.isOpen)) this.open.delete(request);
    const awaited = new Set([...this.open].flatMap((one) => [...one.waiting.values()].map(({member}) => member)));
    for (const name of [...this.positions.keys()].filter((one) => !awaited.has(one))) this.positions.delete(name);
  }

  /** Sends commands to the members at work, once to each; resolves to one promise for each command. */
  async send(commands) {
    if (this.isSending) throw new Error('the last command is still on its way');
    const request = new Request(commands), targets = this.choose(request, commands);
    this.hold();
    this.last = request;
    try {
      const {asked, problems} = await command('command_members', {
        population: this.name, members: targets, commands, run_token: this.token,
      });
      for (const [name, {position}] of Object.entries(asked)) {
        this.positions.set(name, Math.min(position, this.positions.get(name) ?? position));
      }
      request.sent(asked, problems);
      if (request.isOpen) this.open.add(request);
    } catch (error) {
      for (const name of targets) request.replies.set(name, [{text: error.message, kind: 'refused'}]);
      throw error;
    } finally {
      this.release();
    }
    return request.outcomes;
  }

  /** Returns the names of the members to which commands go; says of the others why not. */
  choose(request, commands) {
    const wanted = {pause: false, resume: true}[commands[0].do];
    const targets = [];
    for (const member of this.members) {
      const status = statusOf(member), paused = status === 'paused';
      if (!isAtWork(status)) request.leaveOut(member.member, `not running: ${status}`);
      else if (wanted !== undefined && paused !== wanted) request.leaveOut(member.member, paused ? 'already paused' : 'not paused');
      else targets.push(member.member);
    }
    return targets;
  }

  hold() {
    this.isSending = true;
    this.heldUntil = Date.now() + SECOND_CLICK;
    this.changed();
  }

  release() {
    setTimeout(() => {
      this.isSending = false;
      this.changed();
    }, Math.max(0, this.heldUntil - Date.now()));
  }
}

/** Returns the status of a member to show. */
export function statusOf({status, alive}) {
  return word(status, alive);
}

/** Returns a population's name for people. */
export function titleOf({name, path}) {
  return name === '.' ? path.split('/').at(-1) : name;
}

/** Returns text such as "3 running, 1 finished". */
export function statusText(words) {
  const counts = new Map();
  for (const one of words) counts.set(one, (counts.get(one) ?? 0) + 1);
  return [...counts].map(([one, times]) => `${times} ${one}`).join(', ');
}
