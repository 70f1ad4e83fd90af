// The question before a rewind: how far, and what a rewind does not take back.

import {el, liveText, say} from './dom.js';
import {isOverridden} from './run.js';

export class RewindForm {
  /** rewind(k) goes back to the k-th last snapshot. */
  constructor(rewind) {
    this.field = el('input', {
      id: 'rewind-k', type: 'text', inputmode: 'numeric', autocomplete: 'off',
      oninput: () => { say(this.problem, ''); this.show(); },
    });
    this.problem = el('p', {class: 'note refused', role: 'alert'});
    this.kept = el('p');
    this.go = el('button', {type: 'submit', class: 'apply'});
    this.node = el('form', {
      class: 'rewind', hidden: true, autocomplete: 'off', 'aria-label': 'rewind',
      onsubmit: (event) => { event.preventDefault(); this.submit(rewind); },
      onkeydown: (event) => { if (event.key === 'Escape') this.close(); },
    },
      el('div', {class: 'set'},
        el('label', {for: 'rewind-k'}, 'Go back to snapshot'), this.field, el('span', {class: 'unit'}, '1 is the last one'),
        this.go, el('button', {type: 'button', onclick: () => this.close()}, 'Cancel')),
      this.problem,
      el('p', {}, 'Both networks, the averaged weights, the optimizer and the target’s age go back.'),
      this.kept,
      el('p', {class: 'unit'}, 'The counters, the replay and the envs are not changed. Before each change of a value the run '
        + 'takes a snapshot, also before an undo. The state before the rewind becomes snapshot 1, so a second rewind undoes this one.'));
  }

  open() {
    this.node.hidden = false;
    this.field.value = '1';
    say(this.problem, '');
    this.show();
    this.field.focus();
    this.field.select();
  }

  close() {
    this.node.hidden = true;
  }

  /** Says which live values stay as they are. */
  update(values) {
    const set = values.filter(isOverridden);
    const named = set.map((live) => `${live.name} = ${liveText(live)}`).join(', ');
    say(this.kept, named
      ? `Live values stay as they are now: ${named}. To take one back too, press Undo at its line of Changes.`
      : 'Live values stay as they are now.');
  }

  /** Returns K; null if the text is no whole number of at least 1. */
  get k() {
    const text = this.field.value.trim();
    return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : null;
  }

  show() {
    say(this.go, `Rewind ${this.k ?? ''}`.trim());
  }

  submit(rewind) {
    if (this.k === null) {
      say(this.problem, 'the snapshot must be a whole number >= 1');
      return;
    }
    this.close();
    rewind(this.k);
  }
}
