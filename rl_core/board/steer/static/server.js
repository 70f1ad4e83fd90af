// Requests to the server. Paths are relative to the plugin, so any prefix works.

/** A failed request; the page shows its message. */
export class Refused extends Error {}

let token = '';

async function asked(path, settings) {
  try {
    return await fetch(path, settings);
  } catch {
    throw new Refused('TensorBoard does not answer; is it still running?');
  }
}

async function answered(response) {
  let content = {};
  try {
    content = await response.json();
  } catch {
    throw new Refused(`TensorBoard answered ${response.status} without a reason`);
  }
  if (!response.ok) throw new Refused(content.error || `TensorBoard answered ${response.status}`);
  return content;
}

function post(path, body) {
  return asked(path, {
    method: 'POST',
    headers: {'Content-Type': 'application/json', 'X-Targetnet-Token': token},
    body: JSON.stringify(body),
  });
}

/** Requests this page's token. */
export async function openSession() {
  const session = await answered(await post('session', {}));
  token = session.token;
  return session;
}

export async function get(path, parameters = {}) {
  return answered(await asked(`${path}?${new URLSearchParams(parameters)}`));
}

/** Sends commands and returns the answer; if the server has dropped the token, requests a new one. */
export async function command(path, body) {
  let response = await post(path, body);
  if (response.status === 401) {
    await openSession();
    response = await post(path, body);
  }
  return answered(response);
}
