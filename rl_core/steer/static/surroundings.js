// Where the page is shown: inside whom, how dark, and whether anybody looks.

/** Whether a page of another origin is around us: what one clicks may not be what one sees. */
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

/** As dark as TensorBoard is; by itself, as the browser wishes. */
export function followTheme() {
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  let outer = null;
  try {
    outer = window.parent === window ? null : window.parent.document.body;
  } catch { /* framed by another origin: the browser's wish it is */ }
  const set = () => {
    const isDark = outer ? outer.classList.contains('dark-mode') : dark.matches;
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
  };
  set();
  dark.addEventListener('change', set);
  if (outer) new MutationObserver(set).observe(outer, {attributes: true, attributeFilter: ['class']});
}

/** TensorBoard keeps the page when another of its tabs is chosen, without any height. */
export function unseen() {
  return document.hidden || window.innerHeight === 0;
}

const KEY = 'targetnet-run';

/** The run that was looked at before, in this tab of the browser. */
export function remembered() {
  try {
    return sessionStorage.getItem(KEY);
  } catch { // a browser may forbid it inside a frame
    return null;
  }
}

export function remember(run) {
  try {
    sessionStorage.setItem(KEY, run);
  } catch { /* then the page begins with the newest run */ }
}
