// The page's surroundings: outer frames, TensorBoard's theme, visibility, and memory.

/** Returns true inside a page of another origin, which could hide our buttons (clickjacking). */
export function framedByAnother() {
  try {
    for (let outer = window; outer !== window.top;) {
      outer = outer.parent;
      if (outer.location.origin !== window.location.origin) return true;
    }
    return false;
  } catch {
    return true;
  }
}

/** Follows TensorBoard's theme, or the browser's if the page is not inside TensorBoard. */
export function followTheme() {
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  let outer = null;
  try {
    outer = window.parent === window ? null : window.parent.document.body;
  } catch { /* inside another origin: use the browser's theme */ }
  const set = () => {
    const isDark = outer ? outer.classList.contains('dark-mode') : dark.matches;
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
  };
  set();
  dark.addEventListener('change', set);
  if (outer) new MutationObserver(set).observe(outer, {attributes: true, attributeFilter: ['class']});
}

/** Returns true if the page is hidden; behind another tab TensorBoard gives it height 0. */
export function unseen() {
  return document.hidden || window.innerHeight === 0;
}

const KEY = 'targetnet-';

/** Returns what this browser tab has remembered under a name, or `otherwise`. */
export function recall(name, otherwise) {
  try {
    return JSON.parse(sessionStorage.getItem(KEY + name)) ?? otherwise;
  } catch { // a browser may forbid storage inside a frame
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    sessionStorage.setItem(KEY + name, JSON.stringify(value));
  } catch { /* then the page begins with the newest run */ }
}
