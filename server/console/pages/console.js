// All pages work without this file. It keeps numbers up to date while a page is open, and has keys.
// What it shows goes into text nodes alone.

const one = (selector, within = document) => within.querySelector(selector);

// Numbers. The server says a text for each name; elements have their name in data-live.
function follow(url) {
	const parts = document.querySelectorAll('[data-live]');
	const offline = one('#offline'), say = one('#say'), progress = one('[data-say]');
	let source, last, saidAt = 0, said = progress?.textContent;
	const hear = (event) => {
		last = Date.now();
		document.body.classList.remove('old');
		offline.hidden = true;
		const texts = JSON.parse(event.data);
		for (const part of parts) put(part, texts[part.dataset.live]);
		// A reader of the screen is told at most every five seconds, and at the end.
		const runs = progress?.closest('[data-state]')?.dataset.state === 'running';
		if (progress && progress.textContent !== said && (!runs || last - saidAt >= 5000)) {
			saidAt = last;
			said = progress.textContent;
			say.textContent = said;
		}
	};
	// A page that nobody sees needs no numbers, and a browser has six connections to a host.
	const listen = () => {
		source?.close();
		source = undefined;
		if (document.hidden) return;
		last = Date.now();
		source = new EventSource(url);
		source.onmessage = hear;
	};
	document.addEventListener('visibilitychange', listen);
	listen();
	setInterval(() => {
		if (!source) return;
		const refused = source.readyState === EventSource.CLOSED;
		if (!refused && Date.now() - last < 5000) return;
		const since = new Date(last).toISOString().slice(11, 19);
		const text = refused
			? 'These numbers are as of ' + since + ': reload the page for newer ones.'
			: 'The actor does not answer since ' + since + '. These numbers are the last that were known.';
		if (offline.textContent !== text) offline.textContent = text;
		offline.hidden = false;
		document.body.classList.add('old');
	}, 1000);
}

function put(part, text) {
	if (text === undefined) return; // not known now: the last that was stays
	if (part.tagName === 'PROGRESS') {
		[part.max, part.value] = text.split('/').map(Number).reverse();
		return;
	}
	if (part.dataset.state !== undefined) part.dataset.state = text;
	if (part.childElementCount === 0 && part.textContent !== text) part.textContent = text;
}

// Keys. They are off where somebody turned them off, and while somebody writes.
const keysOn = {
	get: () => { try { return localStorage.getItem('keys') !== 'off'; } catch { return true; } },
	set: (on) => { try { localStorage.setItem('keys', on ? 'on' : 'off'); } catch { /* for this page alone */ } },
};

function move(step) {
	const rows = [...document.querySelectorAll('tr[tabindex]')];
	const at = rows.indexOf(document.activeElement?.closest('tr[tabindex]'));
	rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
}

// act presses what the row has for a key; without a row, what the page has.
function act(key, row) {
	const tick = row && one('input[type=checkbox]', row);
	if (tick && !one('tbody input:checked')) tick.checked = true;
	const own = row && one(`[data-key=${key}]`, row);
	const all = [...document.querySelectorAll(`[data-key=${key}]`)].find((e) => !e.closest('tr'));
	(own ?? all)?.click();
}

function pressed(event) {
	const { key, target } = event;
	if (!keysOn.get() || event.ctrlKey || event.metaKey || event.altKey || one('dialog[open]')) return;
	if (target.matches('input:not([type=checkbox]), select, textarea')) return;
	const row = target.closest?.('tr[tabindex]');
	switch (key) {
	case 'j': move(1); break;
	case 'k': move(-1); break;
	case 'x': one('input[type=checkbox]', row ?? document.createElement('p'))?.click(); break;
	case 'r': case 'd': case 'u': case 'e': act(key, row); break;
	case 'o': location.assign('/console/operations'); break;
	case '?': one('#help').showModal(); break;
	case '/': {
		const input = one('form[role=search] input:not([type=hidden])');
		if (!input) return;
		input.focus();
		break;
	}
	case 'Enter':
		if (target !== row) return; // a link or a button knows what to do
		one('[data-open]', row)?.click();
		break;
	default: return;
	}
	event.preventDefault();
}

document.addEventListener('keydown', pressed);
const keys = one('#keys'), on = one('#keys-on');
keys.hidden = false;
keys.addEventListener('click', () => one('#help').showModal());
on.checked = keysOn.get();
on.addEventListener('change', () => keysOn.set(on.checked));
if (document.body.dataset.events) follow(document.body.dataset.events);
