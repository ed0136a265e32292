// All pages work without this file. It keeps numbers up to date while a page is open, and has keys.
// What it shows goes into text nodes alone.

const one = (selector, within = document) => within.querySelector(selector);

// away says that the actor does not answer, and has nothing sent to it meanwhile; an empty text: it
// answers. A text that is no more than a remark leaves buttons as they are.
const offline = one('#offline');
function away(text, remark) {
	if (offline.textContent !== text) offline.textContent = text;
	offline.hidden = !text;
	document.body.classList.toggle('old', !!text);
	for (const button of document.querySelectorAll('button:not([type=button], dialog *)')) button.disabled = !!text && !remark;
}
const clock = (at) => new Date(at).toISOString().slice(11, 19);
const silent = (last) => 'The actor does not answer since ' + clock(last) + '. What is here is the last that was known, and nothing can be sent now.';

// Numbers. The server says a text for each name; elements have their name in data-live.
function follow(url) {
	const parts = document.querySelectorAll('[data-live]');
	const say = one('#say'), progress = one('[data-say]');
	let source, last, saidAt = 0, said = progress?.textContent;
	const hear = (event) => {
		last = Date.now();
		away('');
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
		if (refused) away('These numbers are as of ' + clock(last) + ': reload the page for newer ones.', true);
		else if (Date.now() - last >= 5000) away(silent(last));
	}, 1000);
}

// A page without numbers asks now and then whether the actor is there, which takes none of the
// places that those with numbers have.
function watch(url) {
	let last = Date.now(), asks = false;
	const ask = async () => {
		if (document.hidden || asks) return;
		asks = true;
		try {
			const { status } = await fetch(url, { method: 'HEAD', signal: AbortSignal.timeout(5000) });
			if (status >= 500) throw status;
			last = Date.now();
			// Who sends a form now would be told no more than that.
			away(status === 401 ? 'Your session is over: log in in another tab before you send anything.' : '', true);
		} catch { away(silent(last)); }
		asks = false;
	};
	document.addEventListener('visibilitychange', ask);
	setInterval(ask, 3000);
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
	if (target.matches('input:not([type=checkbox]), select, textarea')) {
		if (key === 'Escape') target.blur();
		return;
	}
	const row = target.closest?.('tr[tabindex]');
	switch (key) {
	case 'j': move(1); break;
	case 'k': move(-1); break;
	case 'x': one('input[type=checkbox]', row ?? document.createElement('p'))?.click(); break;
	case 'r': case 'd': case 'u': case 'e': act(key, row); break;
	case 'Escape': one('[data-key=Escape]')?.click(); break;
	case 'o': location.assign('/console/operations'); break;
	case '?': one('#help').showModal(); break;
	case '/': {
		const input = one('form[role=search] input:not([type=hidden])');
		if (!input) return;
		input.closest('details').open = true; // it may be folded
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
if (keys) {
	keys.hidden = false;
	keys.addEventListener('click', () => one('#help').showModal());
}
on.checked = keysOn.get();
on.addEventListener('change', () => keysOn.set(on.checked));
// Who came by a key goes on from what the page asks.
const question = one('[data-key=Escape]') && one('main h1');
if (question) {
	question.tabIndex = -1;
	question.focus({ preventScroll: true });
}
// On narrow screens a filter hides what it found, unless something is wrong with it.
const narrow = matchMedia('(max-width: 60rem)'), fold = one('#fold');
const folds = () => { fold.open = !narrow.matches || !!one('main [role=alert]'); };
if (fold) {
	narrow.addEventListener('change', folds);
	folds();
}
const { events, asks } = document.body.dataset;
if (events) follow(events);
else if (asks) watch(asks);
