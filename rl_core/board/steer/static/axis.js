// Numbers along an axis.

const SIZES = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

/** Returns about n round numbers, the first at most `low` and the last at least `high`. */
export function ticks(low, high, n) {
  const rough = (high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough * (1 - 1e-9));
  const first = Math.floor(low / step + 1e-9), found = [];
  // A run's numbers may be beyond what floats can count, so the number of ticks is bounded.
  for (let i = 0; i <= 2 * n + 2; i++) {
    const tick = (first + i) * step;
    found.push(Number(tick.toPrecision(12)));
    if (tick >= high * (1 - 1e-12) - step * 1e-9) break;
  }
  return found;
}

/** Returns a text for each tick, such as "12k", "0.25" or "107.2k"; neighbours differ. */
export function tickTexts(values) {
  const most = Math.max(...values.map(Math.abs));
  const step = values.length > 1 ? values[1] - values[0] : most;
  if (most > 0 && (most < 1e-3 || most >= 1e12)) {
    const digits = Math.min(8, Math.max(0, Math.ceil(Math.log10(most / step))));
    return values.map((value) => (value ? exponential(value, digits) : '0'));
  }
  const [size, unit] = SIZES.find(([s]) => most >= s) ?? [1, ''];
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return values.map((value) => (value ? `${Number((value / size).toFixed(digits))}${unit}` : '0'));
}

function exponential(value, digits) {
  return Number(value.toExponential(digits)).toExponential();
}
