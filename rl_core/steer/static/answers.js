// Who waits for the run's answer to which command.

export class Answers {
  constructor() {
    this.forget('');
  }

  /** A promise of the log entry for each id; refused if none can come any more. */
  to(ids) {
    return ids.map((id) => new Promise((resolve, reject) => {
      // The log may have been quicker than the server's answer to the command itself.
      if (this.seen.has(id)) resolve(this.seen.get(id));
      else this.waiting.set(id, {resolve, reject});
    }));
  }

  came(entry) {
    this.seen.set(entry.id, entry);
    this.waiting.get(entry.id)?.resolve(entry);
    this.waiting.delete(entry.id);
  }

  /** Nobody needs to wait any longer. */
  giveUp(reason) {
    for (const {reject} of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
  }

  /** Begins anew, with another run. */
  forget(reason) {
    if (this.waiting) this.giveUp(reason);
    this.waiting = new Map();
    this.seen = new Map();
  }
}
