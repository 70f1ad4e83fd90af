// Header of the page: choice of the run, its progress, and buttons for its actions.

import {ago, count, duration, el, number, say} from './dom.js';

const ACTIONS = [
  ['sync', 'Sync now', 'Copy online to target now'],
  ['snapshot', 'Snapshot', 'Keep the networks and the optimizer in memory'],
  ['rewind', 'Rewind', 'Restore the last snapshot; a second rewind undoes the first'],
  ['checkpoint', 'Checkpoint', 'Write a checkpoint to disk'],
  ['pause', 'Pause', 'Stop stepping and learning, and wait'],
  ['evaluate', 'Evaluate', 'Play the greedy policy, without any effect on training'],
  ['stop', 'Stop', 'End the run now and save its weights'],
];
const SURE_FOR = 3000; // ms
export const AT_WORK = ['running', 'paused', 'evaluating'];

/** Returns the status to show: "killed" if a run that was at work is not alive. */
export function word(status, alive) {
  return AT_WORK.includes(status) && !alive ? 'killed' : status;
}

export class Header {
  /** pick(run) chooses a run; ask(commands) is as for Knobs. */
  constructor(pick, ask) {
    this.ask = ask;
    this.picker = el('select', {id: 'run', onchange: () => pick(this.picker.value)});
    this.status = el('span', {class: 'status'});
    this.heartbeat = el('span', {class: 'unit'});
    this.progress = el('progress', {max: 1, value: 0, 'aria-label': 'env steps done'});
    this.facts = el('dl', {class: 'facts'});
    this.buttons = new Map(ACTIONS.map(([action, text, title]) => [action, el('button', {
      type: 'button', title, 'data-action': action, onclick: () => this.act(action),
    }, text)]));
    this.said = el('p', {class: 'note', role: 'status'});
    this.runToken = el('input', {id: 'run-token', type: 'password', autocomplete: 'off'});
    this.tokenFile = el('code');
    this.tokenRow = el('form', {class: 'token', hidden: true, onsubmit: (event) => event.preventDefault()},
      el('label', {for: 'run-token'}, 'This board listens to other machines. To steer, type the token in the file '),
      this.tokenFile, ' ', this.runToken);
    this.banner = el('p', {class: 'banner', role: 'alert', hidden: true});
    this.node = el('header', {},
      el('div', {class: 'pick'}, el('label', {for: 'run'}, 'Run'), this.picker, this.status, this.heartbeat),
      this.progress, this.facts,
      el('div', {class: 'actions', role: 'group', 'aria-label': 'commands'}, ...this.buttons.values(), this.said),
      this.tokenRow, this.banner);
  }

  listRuns(runs, picked) {
    const options = runs.map((run) => [run.name, `${run.name} (${word(run.status, run.alive)})`, run.problem]);
    const key = JSON.stringify(options);
    if (key === this.options) return; // a replacement would close an open list
    this.options = key;
    this.picker.replaceChildren(...options.map(([name, text, title]) => el('option', {value: name, title}, text)));
    if (picked) this.picker.value = picked;
  }

  /** Clears all facts: a new run's state is not loaded yet, and a damaged run has none. */
  clear() {
    say(this.status, '');
    this.status.className = 'status';
    say(this.heartbeat, '');
    this.progress.value = 0;
    this.actions = [];
    this.showFacts([]);
    this.tell('', '');
  }

  show({state, alive, now, token_file: tokenFile}) {
    const status = word(state.status, alive);
    this.paused = status === 'paused';
    say(this.tokenFile, tokenFile);
    say(this.status, status);
    this.status.className = `status ${status}`;
    say(this.heartbeat, `heartbeat ${ago(now - state.time)}`);
    this.progress.value = state.env_steps ? state.env_step / state.env_steps : 0;
    say(this.buttons.get('pause'), this.paused ? 'Resume' : 'Pause');
    this.actions = state.actions;
    const {mean_return: mean, target_age: age} = state, going = AT_WORK.includes(status);
    this.showFacts([
      ['env', state.env_id],
      ['env step', `${count(state.env_step)} of ${count(state.env_steps)}`],
      ['update', count(state.update)],
      ['mean return', mean === null ? '–' : number(Number(mean.toFixed(1)))],
      ['target age', age === null ? '–' : `${count(age)} updates`],
      ['speed', going ? `${count(state.env_steps_per_second)} env steps/s` : '–'],
      ['time left', going ? duration(state.eta_seconds) : '–'],
    ]);
  }

  showFacts(facts) {
    if (this.facts.childElementCount !== facts.length) {
      this.facts.replaceChildren(...facts.map(([name]) => el('div', {}, el('dt', {}, name), el('dd'))));
    }
    facts.forEach(([, text], i) => say(this.facts.children[i].lastChild, text));
  }

  enable(on) {
    for (const [action, button] of this.buttons) {
      button.disabled = !on || !(this.actions ?? []).includes(action);
    }
  }

  complain(text) {
    say(this.banner, text);
    this.banner.hidden = !text;
  }

  async act(action) {
    const asked = action === 'pause' && this.paused ? 'resume' : action;
    if (asked === 'stop' && !this.sure()) return;
    this.tell(`${asked}: pending …`, 'pending');
    try {
      const [promised] = await this.ask([{do: asked}]);
      const entry = await promised;
      this.tell(entry.taken ? `done: ${entry.text}` : entry.reason, entry.taken ? 'applied' : 'refused');
    } catch (error) {
      this.tell(error.message, 'refused');
    }
  }

  /** True at the second press of Stop within three seconds; a frame would block a dialog. */
  sure() {
    const button = this.buttons.get('stop');
    const relax = () => {
      clearTimeout(this.relaxing);
      delete button.dataset.sure;
      say(button, 'Stop');
    };
    if (button.dataset.sure) {
      relax();
      return true;
    }
    button.dataset.sure = 'asked';
    say(button, 'Really stop?');
    this.relaxing = setTimeout(relax, SURE_FOR);
    return false;
  }

  tell(text, kind) {
    say(this.said, text);
    this.said.className = `note ${kind}`;
  }
}
