"use strict";
// Fits text on slides of 1280 x 720: the largest letters that fit, and where not even letters of 28 pixels do, what is
// too long goes on on the next slide. It is measured here, because letters are as wide as this browser's. Printed lines
// get smaller than that before they break, because a column that breaks cannot be read at all. A task does, too, or
// stands in two columns, because half of a task is of no use to those who work on it.
const LARGE = {formula: 44, printed: 40, answer: 40, guess: 40, said: 40, summary: 34, exercise: 32, text: 40};
const SPOKEN = 130;  // words a minute
const SMALL = 28, PRINTED = 20, TASK = 20, PHONE = 36;
const phone = innerWidth < 600 && innerHeight > innerWidth && !location.search.includes("print");
const across = phone ? 640 : 1280, down = phone ? Math.round(across * innerHeight / innerWidth) : 720;
document.documentElement.classList.toggle("phone", phone);
document.documentElement.style.cssText = `--wide: ${across}px; --high: ${down}px`;
const PIECES = ":scope > :not(ul, ol, table, .lines, .signature), :scope > :is(ul, ol) > li, :scope > table > tbody > tr, "
    + ":scope > .lines > span";
const high = (body) => body.scrollHeight > body.clientHeight + 1;
const wide = (body) => body.scrollWidth > body.clientWidth + 1;
const pieces = (slide) => [...slide.querySelector(".body").querySelectorAll(PIECES)];
const leads = (piece) => piece.matches("p") && /[:a-z]$/.test(piece.textContent.trim());

function fit(slide) {
  const body = slide.querySelector(".body");
  for (const cell of body.querySelectorAll("tr > :first-child")) {
    cell.classList.toggle("short", cell.textContent.length < 24);  // a line of its own for one more word is a waste
  }
  if (sized(slide)) return;
  body.classList.add("tight");
  if (slide.matches(".exercise") && !phone) {
    if (sized(slide, TASK, ["", "columns"])) return;
    body.style.fontSize = `${SMALL}px`;
  }
  for (const lines of body.querySelectorAll("pre:not(.signature), math[display]")) {
    for (let size = SMALL; size >= PRINTED && wide(lines.parentElement); size -= 1) lines.style.fontSize = `${size}px`;
  }
  if (wide(body)) body.classList.add("wrapped");  // printed lines that are still too long go on below
  if (high(body)) go_on(slide);
}

function sized(slide, least = SMALL, layouts = [""]) {
  const body = slide.querySelector(".body"), kind = slide.classList[0];
  for (let size = phone ? Math.min(PHONE, LARGE[kind]) : LARGE[kind]; size >= least; size -= 2) {
    body.style.fontSize = `${size}px`;
    for (const layout of layouts) {
      body.classList.toggle("columns", layout === "columns");
      if (!high(body) && !wide(body)) return true;
    }
  }
  body.classList.remove("columns");
  return false;
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

// Shows the titles of all slides under those of their sections, or hides them.
function overview() {
  const shown = document.getElementById("overview");
  if (shown) return shown.remove();
  const all = document.body.appendChild(document.createElement("nav"));
  all.id = "overview";
  document.querySelectorAll(".slides > section").forEach((slide, place) => {
    const part = slide.matches(".title, .section, .summary") || !place ? document.createElement("div") : all.lastChild;
    const link = document.createElement("a");
    link.innerHTML = `<span>${place + 1}</span> ${slide.querySelector("h1, h2").innerHTML}`;
    link.dataset.kind = slide.classList[0];
    if (slide === Reveal.getCurrentSlide()) link.id = "here";
    link.addEventListener("click", () => { Reveal.slide(place); overview(); });
    part.append(link);
    all.append(part);
  });
}

// reveal.js has a window for the speaker, but a browser keeps it empty where slides are opened from disk.
let speaker = null;
const began = Date.now();
function speak() {
  if (!speaker || speaker.closed) return;
  const at = Reveal.getCurrentSlide(), page = speaker.document;
  const steps = at.querySelectorAll(".fragment"), shown = at.querySelectorAll(".fragment.visible").length;
  const next = shown < steps.length ? steps[shown] : at.nextElementSibling;
  const title = (slide) => slide ? slide.querySelector("h1, h2").textContent : "the end";
  page.getElementById("now").textContent = title(at);
  page.getElementById("next").textContent = shown < steps.length ? `step ${shown + 2}` : title(next);
  page.getElementById("said").innerHTML = at.querySelector(".notes").innerHTML.trim()
      || `<p><em>On the slide:</em></p>${read(at, shown)}`;
  page.getElementById("place").textContent = `${Reveal.getIndices().h + 1} of ${Reveal.getTotalSlides()}`
      + (steps.length ? `, step ${shown + 1} of ${steps.length + 1}` : "");
  const picture = next?.querySelector("img");
  page.getElementById("ahead").innerHTML = picture ? picture.outerHTML : "";
  speaker.scrollTo(0, 0);
}
// Returns what a slide without notes shows, its picture in words.
function read(slide, step) {
  const body = slide.querySelector(".body").cloneNode(true);
  body.querySelectorAll(".fragment").forEach((one, place) => { if (place !== step - 1) one.remove(); });
  if (step) body.querySelector("img").remove();  // it is covered
  body.querySelectorAll("img").forEach((picture) => picture.replaceWith(picture.alt));
  return body.innerHTML;
}

// The minutes that are planned until a slide: a task has its own, notes are read aloud, and a guess takes a moment.
function planned(slide) {
  let before = 0;
  for (let one = slide.previousElementSibling; one; one = one.previousElementSibling) before += minutes(one);
  return Math.round(before);
}
function minutes(slide) {
  const task = slide.matches(".exercise") && slide.querySelector(".body").textContent.match(/(\d+) min\b/);
  if (task) return slide.matches(".goes-on") ? 0 : Number(task[1]);
  return slide.querySelector(".notes").textContent.split(/\s+/).length / SPOKEN + (slide.matches(".guess") ? 1 : 0.25);
}
function open_speaker() {
  speaker = window.open("", "speaker", "width=900,height=700");
  if (!speaker) return;
  speaker.document.title = `Notes: ${document.title}`;
  speaker.document.body.innerHTML = `<style>
    body { font: 22px/1.5 system-ui, sans-serif; margin: 24px; max-width: 60em; }
    h1 { font-size: 28px; margin: 0; } header { color: #667; } code, pre { font-size: 18px; } table { font-size: 18px; }
    #ahead img { max-width: 320px; max-height: 180px; float: right; margin: 0 0 8px 16px; border: 1px solid #ccd; }
    </style><header><span id="place"></span> · <span id="clock"></span> · next: <span id="next"></span></header>
    <div id="ahead"></div><h1 id="now"></h1><div id="said"></div>`;
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

document.fonts.load('30px "STIX Two Math"').then(() => {
  document.querySelectorAll(Object.keys(LARGE).map((kind) => `section.${kind}`).join()).forEach(fit);
  document.querySelectorAll("details.code").forEach((code) => code.addEventListener("toggle", () => {
    const slide = code.closest("section");
    if (slide.matches(".printed, .answer") && !slide.querySelector(".tight")) sized(slide);
  }));
  Reveal.initialize({width: across, height: down, scrollActivationWidth: null,
                     margin: 0, center: false, hash: true, slideNumber: "c/t",
                     overview: false, controls: false, transition: "none", pdfMaxPagesPerSlide: 1});
  ["slidechanged", "fragmentshown", "fragmenthidden"].forEach((event) => Reveal.on(event, speak));
  Reveal.addKeyBinding({keyCode: 79, key: "O, Esc", description: "All slides by section"}, overview);
  Reveal.addKeyBinding(27, () => document.querySelector(".r-overlay, .overlay") ? Reveal.closeOverlay() : overview());
  Reveal.addKeyBinding({keyCode: 68, key: "D", description: "Dark, for a dark room"},
                       () => document.documentElement.classList.toggle("dark"));
  Reveal.addKeyBinding({keyCode: 83, key: "S", description: "Speaker's notes"}, open_speaker);
});
