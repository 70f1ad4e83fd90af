// The question before an action on the weights: which block, and by which number.

import {el, say} from './dom.js';

const ALL = 'all';
const FORMS = {
  reset: {
    number: null, block: '',
    text: 'The block’s weights are drawn anew, and so are those of the target and of the averaged weights; its optimizer '
      + 'begins anew. The target’s age goes on.',
  },
  perturb: {
    number: 'factor', unit: 'above 0, below 1', start: '0.8', block: ALL, fits: (n) => n > 0 && n < 1,
    text: 'Shrink and perturb: each weight becomes the factor times itself plus the rest times a newly drawn one, in the '
      + 'target and in the averaged weights too. The optimizer stays as it is.',
  },
  recycle: {
    number: 'threshold', unit: 'at least 0', start: '0.1', block: ALL, fits: (n) => n >= 0,
    text: 'ReDo: hidden units whose score in the next batch is at most the threshold get newly drawn incoming weights; '
      + 'their outgoing weights become 0. The target stays as it is.',
  },
};

export class WeightsForm {
  /** act(action, value) sends it. */
  constructor(act) {
    this.field = el('input', {
      id: 'weights-number', type: 'text', inputmode: 'decimal', autocomplete: 'off',
      oninput: () => say(this.problem, ''),
    });
    this.label = el('label', {for: 'weights-number'});
    this.unit = el('span', {class: 'unit'});
    this.block = el('select', {id: 'weights-block', onchange: () => say(this.problem, '')});
    this.problem = el('p', {class: 'note refused', role: 'alert'});
    this.text = el('p', {class: 'unit'});
    this.go = el('button', {type: 'submit', class: 'apply'});
    this.blocks = [];
    this.node = el('form', {
      class: 'rewind', hidden: true, autocomplete: 'off', 'aria-label': 'action on the weights',
      onsubmit: (event) => { event.preventDefault(); this.submit(act); },
      onkeydown: (event) => { if (event.key === 'Escape') this.close(); },
    },
      el('div', {class: 'set'},
        this.label, this.field, this.unit, el('label', {for: 'weights-block'}, 'Block'), this.block,
        this.go, el('button', {type: 'button', onclick: () => this.close()}, 'Cancel')),
      this.problem, this.text,
      el('p', {class: 'unit'}, 'The run takes a snapshot first: Rewind 1 takes it back.'));
  }

  open(action) {
    const form = FORMS[action];
    this.action = action;
    this.node.hidden = false;
    for (const part of [this.label, this.field, this.unit]) part.hidden = form.number === null;
    say(this.label, form.number ?? '');
    say(this.unit, form.unit ?? '');
    this.field.value = form.start ?? '';
    say(this.text, form.text);
    say(this.problem, '');
    say(this.go, action[0].toUpperCase() + action.slice(1));
    this.list();
    this.block.value = form.block;
    (form.number === null ? this.block : this.field).focus();
  }

  close() {
    this.node.hidden = true;
  }

  /** Takes in the blocks of the network, which the live value `exempt` names. */
  update(values) {
    const blocks = values.find((live) => live.name === 'exempt')?.blocks ?? [];
    if (blocks.join() === this.blocks.join()) return;
    this.blocks = blocks;
    const chosen = this.block.value;
    this.list();
    this.block.value = chosen;
  }

  list() {
    const first = this.action === 'reset' ? [el('option', {value: ''}, 'choose …')] : [];
    const names = [...this.blocks, ALL].map((name) => el('option', {value: name}, name));
    this.block.replaceChildren(...first, ...names);
  }

  submit(act) {
    const {number, unit, fits} = FORMS[this.action], text = this.field.value.trim();
    if (number !== null && !(text !== '' && Number.isFinite(Number(text)) && fits(Number(text)))) {
      say(this.problem, `the ${number} must be a number ${unit}`);
      return;
    }
    if (!this.block.value) {
      say(this.problem, 'choose a block');
      return;
    }
    const words = number === null ? [this.block.value] : [String(Number(text)), this.block.value];
    this.close();
    act(this.action, words.join(' '));
  }
}
