"use strict";
// Fits text on slides of 1280 x 720: the largest letters that fit, and where not even letters of 28 pixels do, what is
// too long goes on on the next slide. It is measured here, because letters are as wide as this browser's. Printed lines
// get smaller than that before they break, because a column that breaks cannot be read at all. A picture is above the
// words of its slide or left of them, wherever it is larger.
const LARGE = {formula: 44, printed: 40, answer: 40, guess: 40, said: 48, part: 44, summary: 40, exercise: 40, text: 40,
               picture: 32, rule: 36};
const SMALL = 28, PRINTED = 20, PHONE = 36, WITH_A_PICTURE = 34;
const LEAST = 560, ENOUGH = 720;  // pixels across: with less room a picture is left out, or words get smaller for it
const phone = innerWidth < 600 && innerHeight > innerWidth && !location.search.includes("print");
const across = phone ? 640 : 1280, down = phone ? Math.round(across * innerHeight / innerWidth) : 720;
document.documentElement.classList.toggle("phone", phone);
document.documentElement.style.cssText = `--wide: ${across}px; --high: ${down}px`;
const PIECES = ":scope > :not(ul, ol, table, .lines, .signature, img, .fragment), :scope > :is(ul, ol) > li, :scope > table > tbody > tr, "
    + ":scope > .lines > span";
const high = (body) => body.scrollHeight > body.clientHeight + 8;  // a formula's ink reaches a little below its line
const wide = (body) => body.scrollWidth > body.clientWidth + 1;
const pieces = (slide) => [...slide.querySelector(".body").querySelectorAll(PIECES)];
const leads = (piece) => piece.matches("p") && /[:a-z]$/.test(piece.textContent.trim());

function fit(slide) {
  const body = slide.querySelector(".body");
  for (const cell of body.querySelectorAll("tr > :first-child")) {
    cell.classList.toggle("short", cell.textContent.length < 24);  // a line of its own for one more word is a waste
  }
  const few = [...body.querySelectorAll(".lines")].every((lines) => lines.children.length <= 2);
  if (few) body.classList.add("wrapped");  // no columns
  if (pictured(slide) || sized(slide)) return;
  body.classList.add("tight");
  for (const lines of body.querySelectorAll("pre:not(.signature), math[display]")) {
    for (let size = SMALL; size >= PRINTED && wide(lines.parentElement); size -= 1) lines.style.fontSize = `${size}px`;
  }
  if (wide(body)) body.classList.add("wrapped");  // printed lines that are still too long go on below
  if (high(body)) go_on(slide);
}

// Keeps the picture of the slides before beside what is said of it. Returns whether a picture stands with the words.
function pictured(slide) {
  const body = slide.querySelector(".body");
  if (slide.matches(".beside") && !phone) {
    let from = slide.previousElementSibling;
    while (from && !from.matches(".picture")) from = from.previousElementSibling;
    const steps = from ? [from.querySelector(".body"), ...from.querySelectorAll(".fragment")] : [];
    const images = steps.length ? [...steps.at(-1).querySelectorAll(":scope > img")] : [];
    body.prepend(...images.map((image) => image.cloneNode()));
  }
  const image = body.querySelector(":scope > img");
  if (!image || phone) return slide.matches(".picture");
  if (pieces(slide).length === 0) return true;
  const shape = (image.getAttribute("width") || 2) / (image.getAttribute("height") || 1);
  const across = ([layout, large]) => {
    body.classList.toggle("left", layout === "left");
    const fits = sized(slide, large), room = image.getBoundingClientRect();
    return fits ? Math.min(room.width, room.height * shape) : 0;
  };
  const ways = [["above", WITH_A_PICTURE], ["left", WITH_A_PICTURE], ["above", SMALL], ["left", SMALL]];
  const widths = ways.map(across), widest = Math.max(...widths);
  if (widest >= LEAST || slide.matches(".picture")) {
    across(ways[widths.findIndex((width) => width >= Math.min(widest, ENOUGH))]);
    return true;
  }
  body.classList.remove("left");
  body.querySelectorAll(":scope > img").forEach((one) => one.remove());
  slide.classList.remove("beside");
  return false;
}

function sized(slide, large = LARGE[slide.classList[0]]) {
  const body = slide.querySelector(".body");
  for (let size = phone ? Math.min(PHONE, large) : large; size >= SMALL; size -= 2) {
    body.style.fontSize = `${size}px`;
    if (!high(body) && !wide(body)) return true;
  }
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

// Shows the titles of all slides under those of their sections, or hides them.
function overview() {
  const shown = document.getElementById("overview");
  if (shown) return shown.remove();
  const all = document.body.appendChild(document.createElement("nav"));
  all.id = "overview";
  const slides = [...document.querySelectorAll(".slides > section")], full = every.length ? every : slides;
  all.insertAdjacentHTML("beforeend", `<p>${full.length} slides, ${minutes(full)} min with the exercises; `
      + `the short path (key Q, marked \u2022): ${full.filter(brief).length} slides, ${minutes(full.filter(brief))} min</p>`);
  slides.forEach((slide, place) => {
    const part = slide.matches(".title, .section, .summary") || !place ? document.createElement("div") : all.lastChild;
    const link = document.createElement("a");
    link.innerHTML = `<span>${place + 1}</span> ${slide.querySelector("h1, h2").innerHTML}`;
    link.dataset.kind = slide.classList[0];
    link.classList.toggle("brief", brief(slide));
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
  if (step) body.querySelectorAll(":scope > img").forEach((image) => image.remove());  // it is covered
  body.querySelectorAll("img").forEach((picture) => picture.replaceWith(picture.alt));
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

// Counts down the minutes of an exercise, beginning at a click.
function count_down(button) {
  const section = button.closest("section"), facts = section.querySelector(".body").textContent.match(/(\d+) min\b/);
  const full = 60 * (facts ? Number(facts[1]) : 0), two = (number) => String(number).padStart(2, "0");
  let ends = 0, ticker = null;
  const show = () => {
    const left = ends ? Math.max(0, Math.round((ends - Date.now()) / 1000)) : full;
    button.textContent = `${ends ? "" : "\u25b6 "}${Math.floor(left / 60)}:${two(left % 60)}`;
    button.classList.toggle("over-time", Boolean(ends) && !left);
  };
  button.addEventListener("click", () => {
    ends = ends ? 0 : Date.now() + 1000 * full;
    clearInterval(ticker);
    if (ends) ticker = setInterval(show, 250);
    show();
  });
  show();
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
  document.querySelectorAll("button.countdown").forEach(count_down);
  document.querySelectorAll("details.code").forEach((code) => code.addEventListener("toggle", () => {
    const slide = code.closest("section");
    if (slide.matches(".printed, .answer") && !slide.querySelector(".tight")) sized(slide);
  }));
  Reveal.initialize({width: across, height: down, scrollActivationWidth: null,
                     margin: 0, center: false, hash: true, slideNumber: "c/t",
                     overview: false, controls: false, transition: "none", pdfMaxPagesPerSlide: 1});
  ["slidechanged", "fragmentshown", "fragmenthidden"].forEach((event) => Reveal.on(event, speak));
  Reveal.addKeyBinding({keyCode: 79, key: "O, Esc", description: "All slides by section"}, overview);
  Reveal.addKeyBinding(27, () => document.querySelector(".r-overlay, .overlay") ? Reveal.toggleHelp(false) : overview());
  Reveal.addKeyBinding({keyCode: 68, key: "D", description: "Dark, for a dark room"},
                       () => document.documentElement.classList.toggle("dark"));
  Reveal.addKeyBinding({keyCode: 81, key: "Q", description: "The short path: question, pictures, guesses, results"}, shorten);
  Reveal.addKeyBinding({keyCode: 84, key: "T", description: "Begin an exercise's countdown, or begin it anew"},
                       () => Reveal.getCurrentSlide().querySelector(".countdown")?.click());
  Reveal.addKeyBinding({keyCode: 83, key: "S", description: "Speaker's notes"}, open_speaker);
});
