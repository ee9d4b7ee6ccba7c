"use strict";
// Fits text on slides of 1280 x 720: the largest letters that fit, and where not even letters of 28 pixels do, what is
// too long goes on on the next slide. It is measured here, because letters are as wide as this browser's.
const LARGE = {formula: 48, printed: 40, answer: 40, guess: 40, summary: 34, exercise: 32, text: 32}, SMALL = 28;
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
  for (let size = LARGE[slide.classList[0]]; size >= SMALL; size -= 2) {
    body.style.fontSize = `${size}px`;
    if (!high(body) && !wide(body)) return;
  }
  body.classList.add("tight");
  if (wide(body)) body.classList.add("wrapped");  // printed lines that are too long go on below
  go_on(slide);
}

function go_on(slide) {
  const next = slide.cloneNode(true), here = pieces(slide), there = pieces(next);
  let kept = here.length;
  while (kept > 1 && (high(slide.querySelector(".body")) || leads(here[kept - 1]))) remove(here[--kept]);
  if (kept === here.length) return;
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

// reveal.js has a window for the speaker, but a browser keeps it empty where slides are opened from disk.
let speaker = null;
const began = Date.now();
function speak() {
  if (!speaker || speaker.closed) return;
  const at = Reveal.getCurrentSlide(), next = at.nextElementSibling, page = speaker.document;
  const title = (slide) => slide ? slide.querySelector("h1, h2").textContent : "the end";
  page.getElementById("now").textContent = title(at);
  page.getElementById("next").textContent = title(next);
  page.getElementById("said").innerHTML = at.querySelector(".notes").innerHTML || "<p>Nothing to add.</p>";
  page.getElementById("place").textContent = `${Reveal.getIndices().h + 1} of ${Reveal.getTotalSlides()}`;
  speaker.scrollTo(0, 0);
}
function open_speaker() {
  speaker = window.open("", "speaker", "width=900,height=700");
  if (!speaker) return;
  speaker.document.title = `Notes: ${document.title}`;
  speaker.document.body.innerHTML = `<style>
    body { font: 22px/1.5 system-ui, sans-serif; margin: 24px; max-width: 42em; }
    h1 { font-size: 28px; margin: 0; } header { color: #667; } code, pre { font-size: 18px; } table { font-size: 18px; }
    </style><header><span id="place"></span> · <span id="clock"></span> · next: <span id="next"></span></header>
    <h1 id="now"></h1><div id="said"></div>`;
  speaker.document.addEventListener("keydown", (key) => {
    if (["ArrowRight", " ", "PageDown"].includes(key.key)) Reveal.next();
    if (["ArrowLeft", "PageUp"].includes(key.key)) Reveal.prev();
  });
  speak();
}
setInterval(() => {
  if (!speaker || speaker.closed) return;
  const seconds = Math.floor((Date.now() - began) / 1000), two = (number) => String(number).padStart(2, "0");
  speaker.document.getElementById("clock").textContent = `${two(Math.floor(seconds / 60))}:${two(seconds % 60)}`;
}, 1000);

document.fonts.load('30px "STIX Two Math"').then(() => {
  document.querySelectorAll(Object.keys(LARGE).map((kind) => `section.${kind}`).join()).forEach(fit);
  Reveal.initialize({width: 1280, height: 720, margin: 0, center: false, hash: true, slideNumber: "c/t",
                     controls: false, transition: "none", pdfMaxPagesPerSlide: 1});
  Reveal.on("slidechanged", speak);
  Reveal.addKeyBinding({keyCode: 83, key: "S", description: "Speaker's notes"}, open_speaker);
});
