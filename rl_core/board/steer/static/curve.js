// The points of one curve of one run, and how they are smoothed and searched.

const MOST_POINTS = 2000, KEPT_WHOLE = 500;
const LARGEST = 1e300; // differences of larger numbers are infinite, and an axis cannot show them

export class Curve {
  constructor() {
    this.points = new Map(); // env step -> value
    this.inOrder = null;
  }

  /** Adds points [[env step, value], ...]; returns true if any point is new. */
  add(points) {
    let fresh = false;
    for (const [step, value] of points) {
      if (!Number.isFinite(value) || Math.abs(value) > LARGEST) continue;
      if (this.points.get(step) === value) continue;
      this.points.set(step, value);
      fresh = true;
    }
    if (fresh) this.inOrder = null;
    if (this.points.size > MOST_POINTS) this.thin();
    return fresh;
  }

  /** Drops every second of the older points, because a page may stay open for weeks. */
  thin() {
    const points = this.sorted, old = points.length - KEPT_WHOLE;
    this.points = new Map(points.filter((_, i) => i % 2 === 0 || i >= old));
    this.inOrder = null;
  }

  /** All points [[env step, value], ...] in order of the env step. */
  get sorted() {
    this.inOrder ??= [...this.points].sort((a, b) => a[0] - b[0]);
    return this.inOrder;
  }
}

/**
 * Returns the points with smoothed values, as TensorBoard smooths them: an exponential moving
 * average without the bias of its beginning. weight: 0 (none) to below 1.
 */
export function smooth(points, weight) {
  let average = 0, total = 1;
  return points.map(([step, value]) => {
    average = weight * average + (1 - weight) * value;
    total *= weight;
    return [step, average / (1 - total)];
  });
}

/** Returns the points between two env steps, and one more on each side, to which lines lead. */
export function between(points, from, to) {
  const first = points.findIndex(([step]) => step >= from);
  const after = points.findIndex(([step]) => step > to);
  if (first < 0) return points.slice(-1);
  return points.slice(Math.max(0, first - 1), after < 0 ? points.length : after + 1);
}

/** Returns the item with the least distance, or null. */
export function nearest(list, distance) {
  let best = null, least = Infinity;
  for (const item of list) {
    const d = distance(item);
    if (d < least) [best, least] = [item, d];
  }
  return best;
}
