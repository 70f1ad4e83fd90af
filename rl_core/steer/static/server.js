// What the page asks of the server. Paths are relative to the plugin, so any prefix works.

/** An answer that is no success; its message is for people. */
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

/** Gets this page its token. */
export async function openSession() {
  const session = await answered(await post('session', {}));
  token = session.token;
  return session;
}

export async function get(path, parameters = {}) {
  return answered(await asked(`${path}?${new URLSearchParams(parameters)}`));
}

/** Sends commands, gives their ids; a page whose token the server forgot gets a new one, once. */
export async function command(run, commands, runToken) {
  const body = {run, commands, run_token: runToken};
  let response = await post('command', body);
  if (response.status === 401) {
    await openSession();
    response = await post('command', body);
  }
  return (await answered(response)).ids;
}
