// The table of a population's members: how far each is, and its answer to the last command.

import {count, el, number, say} from './dom.js';
import {statusOf} from './population.js';

const COLUMNS = ['member', 'status', 'env step', 'update', 'mean return', 'last answer'];

export class Members {
  /** pick(run) steers one member alone. */
  constructor(pick) {
    this.pick = pick;
    this.rows = new Map();
    this.body = el('tbody');
    this.node = el('section', {class: 'members', hidden: true, 'aria-label': 'members'},
      el('h2', {}, 'Members'),
      el('div', {class: 'scrolled', tabindex: '0'}, el('table', {},
        el('thead', {}, el('tr', {}, ...COLUMNS.map((name) => el('th', {scope: 'col'}, name)))), this.body)));
  }

  /** Shows a population; null if a single run is steered. */
  show(population) {
    this.node.hidden = !population;
    if (population !== this.population) {
      this.rows.clear();
      this.body.replaceChildren();
      this.population = population;
    }
    if (!population) return;
    const known = new Set(population.members.map(({member}) => member));
    for (const name of [...this.rows.keys()].filter((one) => !known.has(one))) {
      this.rows.get(name).node.remove();
      this.rows.delete(name);
    }
    population.members.forEach((member, i) => this.showMember(member, i));
  }

  showMember(member, i) {
    if (!this.rows.has(member.member)) this.rows.set(member.member, this.newRow(member));
    const {node, cells, answers} = this.rows.get(member.member), status = statusOf(member);
    if (this.body.children[i] !== node) this.body.insertBefore(node, this.body.children[i] ?? null);
    const mean = member.mean_return ?? null;
    say(cells[0], status);
    cells[0].className = `status ${status}`;
    cells[0].title = member.problem ?? '';
    say(cells[1], member.problem ? '' : count(member.env_step));
    say(cells[2], member.problem ? '' : count(member.update));
    say(cells[3], mean === null ? '' : number(Number(mean.toFixed(1))));
    const replies = this.population.last?.replies.get(member.member) ?? [];
    const lines = member.problem && !replies.length ? [{text: member.problem, kind: 'refused'}] : replies;
    const key = JSON.stringify(lines);
    if (answers.dataset.key === key) return;
    answers.dataset.key = key;
    answers.replaceChildren(...lines.map(({text, kind}) => el('p', {class: `note ${kind}`}, text)));
  }

  newRow({member, run}) {
    const cells = Array.from({length: 4}, (_, i) => (i ? el('td', {class: 'count'}) : el('span')));
    const answers = el('td', {class: 'answers'});
    const name = el('button', {
      type: 'button', class: 'link', title: `Steer ${run} alone`, onclick: () => this.pick(run),
    }, member);
    const node = el('tr', {'data-member': member}, el('th', {scope: 'row'}, name),
      el('td', {}, cells[0]), ...cells.slice(1), answers);
    return {node, cells, answers};
  }
}
