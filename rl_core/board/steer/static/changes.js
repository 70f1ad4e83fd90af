// The list of changes of all chosen runs, newest first, with undo and copy.

import {copyText, el, say, valueText} from './dom.js';

const MOST_LINES = 500;
const COPIED_FOR = 2000; // ms

export class Changes {
  /** ask(run, commands) sends commands to a run. */
  constructor(ask) {
    this.ask = ask;
    this.lines = []; // newest first: {run, entry, node, undo, copy}
    this.list = el('ol', {class: 'log', tabindex: '0', 'aria-label': 'changes, newest first'});
    this.node = el('section', {class: 'changes'}, el('h2', {}, 'Changes'), this.list);
  }

  /** Keeps the lines of these runs only. */
  choose(runs) {
    for (const line of this.lines) {
      if (!runs.includes(line.run)) line.node.remove();
      else line.node.className = kindOf(line.entry, line.run);
    }
    this.lines = this.lines.filter((line) => runs.includes(line.run));
    this.list.classList.toggle('several', runs.length > 1);
    for (const run of runs) {
      if (!this.lines.some((line) => line.run === run)) this.add(run, run.entries);
    }
  }

  add(run, entries) {
    for (const entry of entries) {
      const line = this.line(run, entry);
      const at = this.lines.findIndex((other) => other.entry.time <= entry.time);
      const i = at < 0 ? this.lines.length : at;
      this.list.insertBefore(line.node, this.list.children[i] ?? null);
      this.lines.splice(i, 0, line);
    }
    for (const line of this.lines.splice(MOST_LINES)) line.node.remove();
  }

  /** Allows undo where the run takes commands, unless nothing is allowed. */
  show(allowed) {
    for (const {run, undo, copy} of this.lines) {
      if (undo) undo.disabled = !allowed || !run.going;
      if (copy) copy.disabled = !allowed;
    }
  }

  line(run, entry) {
    const when = new Date(entry.time * 1000);
    const note = el('p', {class: 'note', role: 'status'});
    const undo = this.undoButton(run, entry, note);
    const copy = entry.command && el('button', {
      type: 'button', class: 'copy', title: entry.command, 'aria-label': `Copy as command: ${entry.command}`,
      onclick: () => this.copy(entry.command, copy, note),
    }, 'Copy as command');
    const node = el('li', {class: kindOf(entry, run)},
      el('i', {class: 'flag', 'aria-hidden': 'true'}),
      el('time', {title: when.toLocaleString()}, when.toLocaleTimeString()),
      el('span', {class: 'who', title: entry.who}, entry.who),
      el('div', {class: 'what'}, el('b', {class: 'run'}, run.name, ' '), entry.text, note),
      el('span', {class: 'buttons'}, undo, copy));
    return {run, entry, node, undo, copy};
  }

  undoButton(run, entry, note) {
    if (!entry.taken || entry.kind !== 'set' || entry.who === 'schedule') return null;
    const before = valueBefore(entry, run.entries, run.whole);
    const text = `Set ${entry.name} to ${before.value === 'auto' ? 'auto' : valueText(before.value)}`;
    const unsure = before.sure ? '' : '; it may have been auto: older changes are not loaded';
    return el('button', {
      type: 'button', class: 'undo', disabled: true, title: `${text}${unsure}`, 'aria-label': `Undo: ${text}`,
      onclick: () => this.undo(run, entry.name, before.value, note),
    }, 'Undo');
  }

  async undo(run, name, value, note) {
    const tell = (text, kind) => { say(note, text); note.className = `note ${kind}`; };
    tell('pending …', 'pending');
    try {
      const [promised] = await this.ask(run, [{set: name, value}]);
      const answer = await promised;
      tell(answer.taken ? 'undone' : answer.reason, answer.taken ? 'applied' : 'refused');
    } catch (error) {
      tell(error.message, 'refused');
    }
  }

  async copy(command, button, note) {
    if (await copyText(command)) {
      say(button, 'Copied');
      setTimeout(() => say(button, 'Copy as command'), COPIED_FOR);
    } else { // the browser does not allow it: show the command, to be selected by hand
      say(note, command);
    }
  }
}

/**
 * Returns what undoes a change: the value before it, or "auto" if the config or its schedule ruled.
 *
 * entries: of the run's log, oldest first; whole: false if older ones are missing, so that it may
 * be unknown who ruled. Returns {value, sure}.
 */
export function valueBefore(entry, entries, whole) {
  const earlier = entries.slice(0, entries.findIndex((other) => other.id === entry.id))
    .findLast((other) => other.taken && other.kind === 'set' && other.name === entry.name);
  // A schedule's own changes are logged as "auto", and only while the schedule rules.
  const auto = earlier ? earlier.value === 'auto' : whole;
  return {value: auto ? 'auto' : entry.old, sure: Boolean(earlier) || whole};
}

function kindOf(entry, run) {
  const kind = !entry.taken ? 'refused' : entry.who === 'schedule' ? 'schedule' : 'person';
  return `${kind} ${entry.kind} slot-${run.slot}`;
}
