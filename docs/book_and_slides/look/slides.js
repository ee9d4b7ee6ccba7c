"use strict";
// Fits text on slides of 1280 x 720: all letters have one size, a smaller one where that does not fit, and where not even
// that does, what is too long goes on on the next slide. It is measured here, because letters are as wide as this
// browser's. Printed lines get smaller than that before they break, because a column that breaks cannot be read at all.
const SIZES = [40, 34, 28], CODE = [46, 40, 36, 32, 28, 26], BROKEN = [28, 26, 24, 22, 20],
    WHOLE = 50, FOUND = [128, 112, 96, 84, 72, 60];
const SMALL = SIZES.at(-1), PRINTED = 20, PHONE = [36, 32, 28];
const phone = innerWidth < 600 && innerHeight > innerWidth && !location.search.includes("print");
const across = phone ? 640 : 1280, down = phone ? Math.round(across * innerHeight / innerWidth) : 720;
document.documentElement.classList.toggle("phone", phone);
document.documentElement.style.cssText = `--wide: ${across}px; --high: ${down}px`;
const PIECES = ":scope > :not(ul, ol, table, .lines, .signature, img, .fragment, .hint), :scope > :is(ul, ol) > li, :scope > table > tbody > tr, "
    + ":scope > .lines > span";
const high = (body) => body.scrollHeight > body.clientHeight + 2;
const wide = (body) => body.scrollWidth > body.clientWidth + 1;
const pieces = (slide) => [...slide.querySelector(".body").querySelectorAll(PIECES)];
const leads = (piece) => piece.matches("p") && /[:a-z]$/.test(piece.textContent.trim());

function fit(slide) {
  const body = slide.querySelector(".body"), found = slide.querySelector(".answer .found");
  const hint = slide.querySelector(".hint");
  if (hint) body.style.setProperty("--below", `${Math.max(98, hint.offsetHeight + 12)}px`);
  if (found) FOUND.find((size) => {
    found.style.fontSize = `${size}px`;
    return found.scrollHeight < 1.5 * size && !wide(found);
  });
  for (const cell of body.querySelectorAll("tr > :first-child")) {
    cell.classList.toggle("short", cell.textContent.length < 24);  // a line of its own for one more word is a waste
  }
  for (const code of body.querySelectorAll(":is(p, li) code")) {
    code.classList.toggle("short", code.textContent.length <= WHOLE);
  }
  const few = [...body.querySelectorAll(".lines")].every((lines) => lines.children.length <= 2);
  const lines = few && body.querySelector(".lines");
  for (const printed of slide.matches(".debrief") ? [] : body.querySelectorAll(".lines")) {
    [34, 30, 28, 26, 24, 22, PRINTED].find((size) => {  // the words beside it keep theirs
      printed.style.fontSize = `${size}px`;
      return !wide(body) && !high(body);
    });
    if (wide(body)) printed.style.fontSize = "";
  }
  if (sized(slide)) return;
  if (slide.matches(".debrief")) {  // its lines break before the last row cannot read them
    body.classList.add("wrapped");
    if (sized(slide)) return;
    body.classList.remove("wrapped");
  }
  const code = body.querySelector("pre:not(.signature, .lines)");
  if (code) for (let size = SMALL; size >= PRINTED && wide(body); size -= 1) code.style.fontSize = `${size}px`;
  if (code && !wide(body) && !high(body)) return;
  if (lines || slide.matches(".debrief")) {
    if (sized(slide, BROKEN)) return;
    body.classList.add("tight");
    if (sized(slide, [PRINTED])) return;
    body.classList.add("wrapped");  // one line or two, and code, break last
    if (sized(slide, BROKEN)) return;
  }
  if (!lines) body.classList.add("wrapped");
  if (sized(slide)) return;
  body.classList.add("tight");
  for (const lines of body.querySelectorAll("pre:not(.signature), math[display]")) {
    for (let size = SMALL; size >= PRINTED && wide(lines.parentElement); size -= 1) lines.style.fontSize = `${size}px`;
  }
  if (wide(body)) body.classList.add("wrapped");  // printed lines that are still too long go on below
  if (high(body)) go_on(slide);
}

function sized(slide, code_sizes = CODE) {
  const body = slide.querySelector(".body");
  const code = slide.matches(".debrief") && body.querySelector(".lines");  // needs its columns
  return (phone ? PHONE : code ? code_sizes : SIZES).some((size) => {
    body.style.fontSize = `${size}px`;
    return !high(body) && !wide(body);
  });
}

// Puts what is too long on the next slide, and if that is the last, as much there as here: no row is left alone.
function go_on(slide) {
  const next = slide.cloneNode(true), here = pieces(slide), there = pieces(next);
  const tall = here.map((piece) => piece.getBoundingClientRect().height), all = tall.reduce((sum, one) => sum + one, 0);
  let kept = here.length, rest = 0;
  const take = () => { rest += tall[--kept]; remove(here[kept]); };
  while (kept > 1 && (high(slide.querySelector(".body")) || leads(here[kept - 1]))) take();
  if (kept === here.length) return;
  while (kept > 1 && (rest + tall[kept - 1] <= all / 2 || leads(here[kept - 1]))) take();
  there.slice(0, kept).forEach(remove);
  next.dataset.minutes = 0;
  next.querySelector("h2").append(slide.matches(".goes-on") ? "" : " (continued)");
  next.classList.add("goes-on");
  slide.after(next);
  go_on(next);
}

function remove(piece) {
  const list = piece.parentElement;
  if (list.matches("ol") && piece === list.firstElementChild) list.start += 1;
  piece.remove();
  if (!list.matches(".body") && !list.children.length) list.closest("table, ul, ol, pre").remove();
}

// Plays the frames of a step that has come, once; a step to which one goes back stands still.
let film = 0;
function play({fragments}) {
  clearInterval(film);
  document.querySelectorAll(".playing").forEach((one) => one.classList.remove("playing"));
  const step = fragments.find((one) => one.querySelector(".frame")), frames = [...step?.querySelectorAll(".frame") ?? []];
  if (!frames.length || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  let at = 0;
  const show = () => {
    frames.forEach((frame, place) => frame.classList.toggle("now", place === at));
    at += 1;
    if (at < frames.length) return;
    clearInterval(film);
    step.classList.remove("playing");
    frames.forEach((frame) => frame.classList.remove("now"));
  };
  step.classList.add("playing");
  show();
  film = setInterval(show, 66);
}

const STEP = ":is(.body, .beside) > div.fragment:not(.hint)";
const timer = () => Reveal.getCurrentSlide().querySelector(".countdown");
const KEYS = {"\u2192 \u2190": "On, and back: also the steps of a picture", S: "Speaker's notes",
              T: "The countdown of an exercise or a guess: start, pause, go on; Shift+T begins it anew", O: "All slides by section",
              Q: "The short path: question, terms, pictures, guesses, results", D: "Dark, for a dark room", B: "Black screen",
              F: "Full screen, and Esc leaves it", G: "Go to a number"};

// Shows the keys, or hides them.
function keys() {
  const shown = document.getElementById("keys");
  if (shown) return shown.remove();
  const rows = Object.entries(KEYS).map(([key, does]) => `<dt>${key}</dt><dd>${does}</dd>`).join("");
  document.body.insertAdjacentHTML("beforeend", `<aside id="keys"><dl>${rows}</dl></aside>`);
}

// Shows the titles of all slides under those of their sections, or hides them.
function overview() {
  const shown = document.getElementById("overview");
  if (shown) return shown.remove();
  const nav = document.body.appendChild(document.createElement("nav")), all = document.createElement("div");
  nav.id = "overview";
  nav.tabIndex = -1;  // arrow keys move what has the focus
  const slides = [...document.querySelectorAll(".slides > section")], full = every.length ? every : slides;
  all.insertAdjacentHTML("beforeend", `<p>${full.length} slides, ${minutes(full)} min with the exercises; `
      + `the short path (key Q, marked \u2022): ${full.filter(brief).length} slides, ${minutes(full.filter(brief))} min</p>`);
  slides.forEach((slide, place) => {
    const part = slide.matches(".title, .section, .summary") || !place ? document.createElement("div") : all.lastChild;
    const link = document.createElement("a");
    link.href = "#";
    link.innerHTML = `<span>${place + 1}</span> ${(slide.querySelector(".found, .late") ?? slide.querySelector("h1, h2")).innerHTML}`;
    link.dataset.kind = slide.classList[0];
    link.classList.toggle("brief", brief(slide));
    if (slide === Reveal.getCurrentSlide()) link.id = "here";
    link.addEventListener("click", (click) => {
      click.preventDefault();
      Reveal.slide(place, 0, -1);
      overview();
    });
    part.append(link);
    all.append(part);
  });
  nav.append(all);
  nav.focus();
  document.getElementById("here").scrollIntoView({block: "center"});
}

// While all slides are listed, keys move the list and not the slides; a key takes away the card of keys.
function first_to_hear(key) {
  const listed = document.getElementById("overview");
  if (listed) {
    key.stopImmediatePropagation();
    if (["o", "O", "Escape"].includes(key.key)) overview();
  } else if (!["?", "Shift"].includes(key.key) && document.getElementById("keys")) {
    keys();
    if (key.key === "Escape") key.stopImmediatePropagation();
  }
}

// Shows the first step of a slide to which one has jumped: reveal.js shows the last one of those before.
function at_its_first_step({currentSlide: now, previousSlide: before}) {
  const near = [now.nextElementSibling, now.previousElementSibling];
  if (before && !near.includes(before)) Reveal.navigateFragment(-1);
}

// reveal.js has a window for the speaker, but a browser keeps it empty where slides are opened from disk.
let speaker = null;
const began = Date.now();
function speak() {
  if (!speaker || speaker.closed) return;
  const at = Reveal.getCurrentSlide(), page = speaker.document;
  const steps = at.querySelectorAll(STEP), shown = [...steps].filter((one) => one.matches(".visible")).length;
  const next = shown < steps.length ? steps[shown] : at.nextElementSibling;
  const title = (slide) => slide ? (slide.querySelector(".found, .late.visible") ?? slide.querySelector(".asks") ?? slide.querySelector("h1, h2")).textContent : "the end";
  page.getElementById("now").textContent = title(at);
  page.getElementById("next").textContent = shown < steps.length ? `step ${shown + 2}` : title(next);
  const notes = at.querySelector(".notes");
  page.getElementById("said").innerHTML = notes.innerHTML
      + (notes.matches(".bare") ? `<p><em>On the slide:</em></p>${read(at)}` : "");
  page.getElementById("place").textContent = `${Reveal.getIndices().h + 1} of ${Reveal.getTotalSlides()}`
      + (steps.length ? `, step ${shown + 1} of ${steps.length + 1}` : "");
  const here = [at.querySelector(".beside > div, .picture > .body") ?? at.querySelector(".body"), ...[...steps].filter((one) => one.matches(".visible"))].at(-1);
  show(page.getElementById("seen"), here.querySelector(":scope > img"));
  show(page.getElementById("ahead"), next?.querySelector("img"));
  speaker.scrollTo(0, 0);
}
function show(place, picture) {
  place.innerHTML = picture ? picture.outerHTML : "";
}
// Returns the words that a slide without notes shows.
function read(slide) {
  const body = slide.querySelector(".body").cloneNode(true);
  body.querySelectorAll("img, .fragment").forEach((one) => one.remove());
  return body.innerHTML;
}

// The minutes of the timetable until a slide, on the path that is shown.
const minutes = (slides) => Math.round(slides.reduce((sum, slide) => sum + Number(slide.dataset.minutes || 0), 0));
function planned(slide) {
  const all = [...document.querySelectorAll(".slides > section")];
  return minutes(all.slice(0, all.indexOf(slide)));
}

// Shows only the short path, or all slides again.
let every = [];
const brief = (slide) => slide.matches(".brief");
function shorten() {
  const at = Reveal.getCurrentSlide(), slides = document.querySelector(".slides");
  const short = document.documentElement.classList.toggle("short-path");
  if (short) every = [...slides.querySelectorAll(":scope > section")];
  const shown = short ? every.filter(brief) : every;
  const near = short ? every.slice(0, every.indexOf(at) + 1).reverse().find(brief) : at;
  slides.replaceChildren(...shown);
  Reveal.sync();
  Reveal.slide(Math.max(0, shown.indexOf(near)));
}

// Counts down the minutes of an exercise, or the one of a guess (less where it has less). A click starts it, pauses it and lets it go on; a double click begins anew.
function count_down(button) {
  const section = button.closest("section"), facts = section.querySelector(".body").textContent.match(/(\d+) min\b/);
  const guess = Math.min(1, Math.floor(12 * section.dataset.minutes) / 12 || 1);
  const full = 1000 * 60 * (section.matches(".guess") ? guess : facts ? Number(facts[1]) : 0), two = (number) => String(number).padStart(2, "0");
  let left = full, ends = 0;  // ends is 0 while it stands still
  const show = () => {
    const seconds = Math.round((ends ? ends - Date.now() : left) / 1000), over = seconds <= 0 && full > 0;
    const told = `${Math.floor(Math.abs(seconds) / 60)}:${two(Math.abs(seconds) % 60)}`;
    button.textContent = `${ends ? "" : "\u25b6 "}${over ? "+" : ""}${told}`;
    button.classList.toggle("over-time", over);
  };
  button.addEventListener("click", () => {
    if (ends) left = ends - Date.now();
    ends = ends ? 0 : Date.now() + left;
    show();
  });
  button.addEventListener("dblclick", () => {
    left = full;
    ends = 0;
    show();
  });
  setInterval(show, 250);
  show();
}

function open_speaker() {
  speaker = window.open("", "speaker", "width=900,height=700");
  if (!speaker) return;
  speaker.document.title = `Notes: ${document.title}`;
  speaker.document.head.replaceChildren(document.getElementById("letters").cloneNode(true));
  speaker.document.body.innerHTML = `<style>
    body { font: 22px/1.5 "Source Sans Pro", sans-serif; margin: 24px; }
    h1 { font-size: 28px; margin: 0; } header { color: #667; } code, pre { font-size: 18px; } table { font-size: 18px; }
    main { display: flex; gap: 24px; align-items: flex-start; } #said { flex: 1; min-width: 0; } p { margin: 0 0 .6em; }
    aside { flex: none; width: min(440px, 42vw); position: sticky; top: 8px; font-size: 15px; color: #667; }
    aside img { width: 100%; height: auto; border: 1px solid #ccd; } .rest { font-size: 17px; color: #445; }
    aside div:empty { display: none; } #ahead::before { content: "next"; display: block; margin-top: 12px; }
    </style><header><span id="place"></span> · <span id="clock"></span> · next: <span id="next"></span></header>
    <h1 id="now"></h1><main><div id="said"></div><aside><div id="seen"></div><div id="ahead"></div></aside></main>`;
  speaker.document.addEventListener("keydown", (key) => {
    if (["ArrowRight", " ", "PageDown"].includes(key.key)) Reveal.next();
    if (["ArrowLeft", "PageUp"].includes(key.key)) Reveal.prev();
  });
  speak();
}
setInterval(() => {
  if (!speaker || speaker.closed) return;
  const seconds = Math.floor((Date.now() - began) / 1000), two = (number) => String(number).padStart(2, "0");
  speaker.document.getElementById("clock").textContent = `${two(Math.floor(seconds / 60))}:${two(seconds % 60)}`
      + ` (planned ${planned(Reveal.getCurrentSlide())} min)`;
}, 1000);

Promise.all(['30px "STIX Two Math"', ...["400", "600", "italic 400"].map((one) => `${one} 30px "Source Sans Pro"`)]
    .map((font) => document.fonts.load(font))).then(() => {
  document.querySelectorAll(".slides > section:not(.title, .picture)").forEach(fit);
  document.querySelectorAll("button.countdown").forEach(count_down);
  Reveal.initialize({width: across, height: down, scrollActivationWidth: null,
                     margin: 0, center: false, hash: true, slideNumber: "c/t",
                     overview: false, help: false, controls: false, transition: "none", pdfMaxPagesPerSlide: 1,
                     pdfSeparateFragments: false});
  ["slidechanged", "fragmentshown", "fragmenthidden"].forEach((event) => Reveal.on(event, speak));
  Reveal.on("slidechanged", at_its_first_step);
  Reveal.on("fragmentshown", play);
  Reveal.on("slidechanged", ({previousSlide: left}) => left?.querySelector("details.code[open]")?.removeAttribute("open"));
  Reveal.on("slidechanged", ({previousSlide: left}) =>  // an exercise's goes on
    left?.querySelector(".guess .countdown")?.dispatchEvent(new Event("dblclick")));
  addEventListener("keydown", first_to_hear, true);
  const bound = {79: overview, 83: open_speaker, 81: shorten, 27: overview,
                 68: () => document.documentElement.classList.toggle("dark"), 84: () => timer()?.click()};
  for (const [code, does] of Object.entries(bound)) Reveal.addKeyBinding(Number(code), does);
  document.addEventListener("keydown", (key) => {  // reveal.js hears no key together with Shift
    if (key.key === "?") keys();
    if (key.key === "T") timer()?.dispatchEvent(new Event("dblclick"));
  });
});
