// Promises of the run's answers to commands.

export class Answers {
  constructor() {
    this.waiting = new Map();
    this.seen = new Map();
  }

  /** Returns a promise of the log entry for each id; it is rejected if no answer can come. */
  to(ids) {
    return ids.map((id) => new Promise((resolve, reject) => {
      // The log entry may have arrived before the server's response to the command.
      if (this.seen.has(id)) resolve(this.seen.get(id));
      else this.waiting.set(id, {resolve, reject});
    }));
  }

  came(entry) {
    this.seen.set(entry.id, entry);
    this.waiting.get(entry.id)?.resolve(entry);
    this.waiting.delete(entry.id);
  }

  /** Rejects all open promises. */
  giveUp(reason) {
    for (const {reject} of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
  }
}
