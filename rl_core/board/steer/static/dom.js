// Elements and text. All content from a run is set as text, never as markup.

/** Makes an element with attributes, listeners (onclick, ...) and children (elements or text). */
export function el(tag, attributes = {}, ...children) {
  const node = tag.startsWith('svg:')
    ? document.createElementNS('http://www.w3.org/2000/svg', tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets a node's text only if it changed, so that the user's selection in it survives. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Copies a text to the clipboard; resolves to false if the browser does not allow it. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // not a secure context: an older way
    const area = el('textarea', {class: 'clipboard', 'aria-hidden': 'true'}, text);
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}

/** Returns true for equal live values: numbers, or sets of blocks. */
export function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

const whole = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0});

/** Returns text such as "12,431". */
export function count(value) {
  return whole.format(value);
}

/** Returns a number with at most six digits: "0.0005", "143.05", "1e-7". */
export function number(value) {
  if (value === null || value === undefined) return '–';
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return count(value);
  return String(Number(value.toPrecision(6)));
}

/** Returns the text of a live value: a number or a set of blocks. */
export function valueText(value) {
  return Array.isArray(value) ? value.join('+') || 'none' : number(value);
}

/** Returns the text of a live value of one run, or of many: "50", "25 to 100", "differs". */
export function liveText({value, least, most}) {
  if (value !== null) return valueText(value);
  return Number.isFinite(least) && Number.isFinite(most) ? rangeText([least, most]) : 'differs';
}

/** Returns text such as "12 to 40", or "12" if all are the same; "–" if there are none. */
export function rangeText(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  const [low, high] = [number(least(known)), number(most(known))];
  return low === high ? low : `${low} to ${high}`;
}

// Not Math.min(...values): a population may have thousands of members.
const least = (values) => values.reduce((a, b) => (b < a ? b : a), values[0]);
const most = (values) => values.reduce((a, b) => (b > a ? b : a), values[0]);

/** Returns text such as "1:02:03". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  const s = Math.round(seconds);
  const two = (n) => String(n).padStart(2, '0');
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** Returns text such as "3 s ago". */
export function ago(seconds) {
  const s = Math.max(0, seconds);
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (s >= 2 * size) return `${Math.floor(s / size)} ${unit} ago`;
  }
  return `${Math.round(s)} s ago`;
}
