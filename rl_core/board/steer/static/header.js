// Header of the page: progress of the steered run or population, and buttons for its actions.

import {el, say} from './dom.js';
import {RewindForm} from './rewind.js';
import {WeightsForm} from './weights.js';

const ACTIONS = [
  ['sync', 'Sync now', 'Copy online to target now'],
  ['snapshot', 'Snapshot', 'Keep the networks and the optimizer in memory'],
  ['rewind', 'Rewind …', 'Go back to a snapshot; asks how far'],
  ['reset', 'Reset …', 'Draw the weights of a block anew; asks which'],
  ['perturb', 'Perturb …', 'Shrink and perturb the weights; asks how much'],
  ['recycle', 'Recycle …', 'Recycle dormant units (ReDo); asks up to which score'],
  ['checkpoint', 'Checkpoint', 'Write a checkpoint to disk'],
  ['pause', 'Pause', 'Stop stepping and learning, and wait'],
  ['resume', 'Resume', 'Go on after a pause'], // for members, of which some are paused and some not
  ['evaluate', 'Evaluate', 'Play the greedy policy, without any effect on training'],
  ['stop', 'Stop', 'End the run now and save its weights'],
];
const WEIGHTS = ['reset', 'perturb', 'recycle'];
const SURE_FOR = 3000; // ms

export class Header {
  /** chooser: of the runs; ask(run, commands) sends commands to one, or to a population. */
  constructor(chooser, ask) {
    this.chooser = chooser;
    this.ask = ask;
    this.status = el('span', {class: 'status'});
    this.heartbeat = el('span', {class: 'unit'});
    this.progress = el('progress', {max: 1, value: 0, 'aria-label': 'env steps done'});
    this.facts = el('dl', {class: 'facts'});
    this.buttons = new Map(ACTIONS.map(([action, text, title]) => [action, el('button', {
      type: 'button', title, 'data-action': action, onclick: () => this.press(action),
    }, text)]));
    this.said = el('p', {class: 'note', role: 'status'});
    this.rewind = new RewindForm((k) => this.act('rewind', k));
    this.weights = new WeightsForm((action, value) => this.act(action, value));
    this.runToken = el('input', {
      id: 'run-token', type: 'password', autocomplete: 'off', oninput: () => { this.chooser.steered.token = this.runToken.value; },
    });
    this.tokenFile = el('code');
    this.tokenLabel = el('label', {for: 'run-token'});
    this.whom = el('span', {class: 'unit', hidden: true});
    this.tokenRow = el('form', {class: 'token', hidden: true, onsubmit: (event) => event.preventDefault()},
      this.tokenLabel, this.tokenFile, ' ', this.runToken);
    this.banner = el('p', {class: 'banner', role: 'alert', hidden: true});
    this.node = el('header', {oninput: () => this.forgive()},
      el('div', {class: 'pick'}, el('label', {for: 'run'}, 'Run'), chooser.picker, this.status, this.heartbeat, chooser.button),
      chooser.panel, chooser.legend, this.progress, this.facts,
      el('div', {class: 'actions', role: 'group', 'aria-label': 'commands'}, this.whom, ...this.buttons.values(), this.said),
      this.rewind.node, this.weights.node, this.tokenRow, this.banner);
  }

  /** Clears all facts: a new run's state is not loaded yet, and a damaged run has none. */
  clear() {
    say(this.status, '');
    this.status.className = 'status';
    say(this.heartbeat, '');
    this.progress.value = 0;
    this.actions = [];
    this.runToken.value = this.chooser.steered.token;
    this.showWhom();
    this.showFacts([]);
    this.rewind.close();
    this.weights.close();
    this.relax();
    this.tell('', '');
  }

  show(run) {
    const {state, status, answer} = run;
    this.paused = status === 'paused';
    say(this.tokenFile, answer.token_file);
    say(this.status, status);
    this.status.className = `status ${run.isMany ? '' : status}`;
    say(this.heartbeat, run.heartbeat);
    this.progress.value = run.progress;
    say(this.buttons.get('pause'), this.paused ? 'Resume' : 'Pause');
    this.actions = state.actions;
    this.rewind.update(state.values);
    this.weights.update(state.values);
    this.showFacts(run.facts);
    this.showWhom();
  }

  /** Says to how many members an action goes, if a population is steered. */
  showWhom() {
    const {steered} = this.chooser;
    this.whom.hidden = !steered.isMany;
    this.buttons.get('resume').hidden = !steered.isMany;
    if (steered.isMany) say(this.whom, `To all ${steered.atWork.length} members at work:`);
    say(this.tokenLabel, `This board listens to other machines. To steer, type ${steered.isMany
      ? 'the tokens of all members, with a space between them, from the files ' : 'the token in the file '}`);
  }

  showFacts(facts) {
    if (this.facts.childElementCount !== facts.length) {
      this.facts.replaceChildren(...facts.map(([name]) => el('div', {}, el('dt', {}, name), el('dd'))));
    }
    facts.forEach(([, text], i) => say(this.facts.children[i].lastChild, text));
  }

  enable(on) {
    const {steered} = this.chooser;
    for (const [action, button] of this.buttons) {
      button.disabled = !on || !(this.actions ?? []).includes(action);
    }
    if (steered.isMany) {
      this.buttons.get('pause').disabled ||= !steered.has(false);
      this.buttons.get('resume').disabled ||= !steered.has(true);
    }
    this.rewind.go.disabled = this.buttons.get('rewind').disabled;
    this.weights.go.disabled = this.buttons.get('reset').disabled;
  }

  complain(text) {
    say(this.banner, text);
    this.banner.hidden = !text;
  }

  press(action) {
    if (action === 'rewind' || WEIGHTS.includes(action)) {
      this.rewind.close();
      this.weights.close();
      return action === 'rewind' ? this.rewind.open() : this.weights.open(action);
    }
    if (action === 'stop' && !this.sure()) return;
    this.act(action === 'pause' && this.paused ? 'resume' : action);
  }

  async act(action, value = null) {
    const run = this.chooser.steered;
    const tell = (text, kind) => { if (run === this.chooser.steered) this.tell(text, kind); };
    tell(`${action}: pending …`, 'pending');
    try {
      const [promised] = await this.ask(run, [value === null ? {do: action} : {do: action, value}]);
      const entry = await promised;
      const kept = action === 'rewind' && entry.taken ? '; live values stay as they are' : '';
      const text = entry.note ? `${action}: done ${entry.note}` : entry.taken ? `done: ${entry.text}` : entry.reason;
      tell(text + kept, entry.taken ? 'applied' : 'refused');
    } catch (error) {
      tell(error.message, 'refused');
    }
  }

  /** True at the second press of Stop within three seconds; a frame would block a dialog. */
  sure() {
    const button = this.buttons.get('stop');
    if (button.dataset.sure) {
      this.relax();
      return true;
    }
    button.dataset.sure = 'asked';
    say(button, this.chooser.steered.isMany ? `Really stop ${this.chooser.steered.atWork.length}?` : 'Really stop?');
    this.relaxing = setTimeout(() => this.relax(), SURE_FOR);
    return false;
  }

  relax() {
    clearTimeout(this.relaxing);
    delete this.buttons.get('stop').dataset.sure;
    say(this.buttons.get('stop'), 'Stop');
  }

  tell(text, kind) {
    say(this.said, text);
    this.said.className = `note ${kind}`;
  }

  /** Removes an error: the user has begun to write something else. */
  forgive() {
    if (this.said.classList.contains('refused')) this.tell('', '');
  }
}
