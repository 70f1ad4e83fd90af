// Commands that were sent to members of a population once, and what each of them answered.

export class Request {
  constructor(commands) {
    this.size = commands.length;
    this.replies = new Map(); // member -> [{text, kind}, ...], one for each command
    this.waiting = new Map(); // id -> {member, i}
    this.entries = commands.map(() => []); // the answers to each command
    this.outcomes = commands.map((_, i) => new Promise((resolve) => {
      this.entries[i].resolve = resolve;
    }));
  }

  /** True until every member has answered, or cannot any more. */
  get isOpen() {
    return this.waiting.size > 0;
  }

  /** Notes why a member is sent nothing, without any fault. */
  leaveOut(member, text) {
    this.replies.set(member, [{text, kind: 'left-out'}]);
  }

  /** Notes that members were sent commands: {member: {ids}}, and why others were not: {member: text}. */
  sent(asked, problems) {
    for (const [member, {ids}] of Object.entries(asked)) {
      this.replies.set(member, ids.map(() => ({text: 'pending …', kind: 'pending'})));
      ids.forEach((id, i) => this.waiting.set(id, {member, i}));
    }
    for (const [member, text] of Object.entries(problems)) {
      this.replies.set(member, [{text, kind: 'refused'}]);
      for (const answers of this.entries) answers.push({taken: false, reason: text});
    }
    this.settle();
  }

  /** Takes a member's log entries, of which some may be answers. */
  came(member, entries) {
    for (const entry of entries) {
      const asked = this.waiting.get(entry.id);
      if (asked?.member === member) this.answer(entry.id, entry, {text: entry.text, kind: entry.taken ? 'applied' : 'refused'});
    }
    this.settle();
  }

  /** Gives up on the answers of a member. */
  giveUp(member, text) {
    for (const [id, asked] of [...this.waiting]) {
      if (asked.member === member) this.answer(id, {taken: false, reason: text}, {text, kind: 'refused'});
    }
    this.settle();
  }

  answer(id, entry, reply) {
    const {member, i} = this.waiting.get(id);
    this.waiting.delete(id);
    this.replies.get(member)[i] = reply;
    this.entries[i].push(entry);
  }

  settle() {
    const open = new Set([...this.waiting.values()].map(({i}) => i));
    this.entries.forEach((answers, i) => { if (!open.has(i)) answers.resolve(inOne(answers)); });
  }
}

/**
 * Returns several members' answers to a command as one, with the fields of a log entry that the
 * page reads, and `note`, which says how many took it and the first reason of those that did not.
 */
function inOne(answers) {
  const refused = answers.filter((entry) => !entry.taken), all = answers.length;
  const values = new Set(answers.map((entry) => JSON.stringify(entry.new)));
  const first = refused.length > 1 ? `${refused.length} did not, the first because: ` : '1 did not: ';
  const note = refused.length ? `by ${all - refused.length} of ${all} members; ${first}${refused[0].reason}`
    : all === 1 ? 'by the one member that was asked' : `by all ${all} members that were asked`;
  return {taken: !refused.length, note, new: values.size === 1 ? answers[0].new ?? null : null};
}
