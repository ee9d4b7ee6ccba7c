// A guess that is written down is answered beside what was measured, once that is unfolded; a box that is wider than
// its place is marked, a picture that is clicked fills the window, and a term shows what it means.
"use strict";

const BOXES = ".map, figure.picture, .course-picture, .formula, .table-wrapper, .columns";

const number = (said) => /\d/.test(said)  // 1,000, 0.3 and 50 µs are numbers, abc is none
  ? Number(said.replace(/,(?=\d{3})/g, "").replace(/[^\d.]*$/, "")) : NaN;
const stored = {  // in this browser, until a reader takes it away; some allow nothing to be kept
  name: (what) => `${location.pathname.split("/").pop()} ${what}`,
  get(what) { try { return localStorage.getItem(this.name(what)) || ""; } catch { return ""; } },
  set(what, said) { try { localStorage.setItem(this.name(what), said); } catch { /* it is not kept */ } },
};

// Why a guess cannot be taken, or nothing where it can.
function refusal(said, known) {
  if (/^[A-Z]+$/.test(known)) return "";
  const guess = number(said), point = said.replace(",", ".");
  if (Number.isNaN(guess)) {
    return `“${said}” is not a number${Number.isNaN(number(point)) ? "" : ` here: write ${point}`}.`;
  }
  return guess < 0 && known >= 0 ? `“${said}” is less than nothing, and this can only be more.` : "";
}
const letters = (said) => said.toUpperCase().replace(/[^A-Z]/g, "");

function distance(guess, known) {
  if (Math.abs(guess - known) <= 5e-4 * Math.abs(known)) return "exact";  // known has four digits
  const way = guess < known ? "low" : "high", ratio = Math.max(guess / known, known / guess);
  if (guess * known <= 0) return `too ${way}`;
  return ratio < 1.5 ? `${(100 * Math.abs(guess / known - 1)).toPrecision(2) * 1} % too ${way}`
    : `${Number(ratio.toPrecision(3)).toLocaleString("en")} times too ${way}`;
}

// What compare() says in the notebook: how far off a guess is and, of a tempting one, why one would think so.
function verdict(said, {known, reasons = "{}", choice}) {
  if (known === undefined) return [];
  if (/^[A-Z]+$/.test(known)) return [letters(said) === known ? "right" : "not all of them are right"];
  const guess = number(said), right = Number(known);
  const judged = choice ? (guess === right ? "right" : "not that one") : distance(guess, right);
  if (["exact", "right"].includes(judged)) return [judged];
  const off = ([one]) => Math.abs(guess - one);
  const [why] = Object.entries(JSON.parse(reasons)).filter(([one]) => Math.abs(guess - one) <= (choice ? 0 : .02 * guess))
    .sort((one, other) => off(one) - off(other));
  return [judged, why?.[1]];
}

function guesses() {
  const names = [...document.querySelectorAll(".guess input")];
  for (const fold of document.querySelectorAll("details.measured")) {
    const code = fold.previousElementSibling;
    const asked = names.filter((field) => code.textContent.includes(field.name));
    const taken = (field) => {
      const box = field.closest(".guess"), said = field.value.trim();
      const refused = said && refusal(said, fold.dataset.known);
      box.querySelector(".refused")?.remove();
      if (refused) {
        const line = box.appendChild(document.createElement("span"));
        line.className = "refused";
        line.setAttribute("role", "status");
        line.textContent = refused;
      }
      return said && !refused;
    };
    const tell = () => {
      fold.querySelectorAll(".guessed").forEach((line) => line.remove());
      for (const field of asked.filter(taken)) {
        const line = document.createElement("p"), first = document.createElement("b"), said = field.value.trim();
        const [judged, why] = verdict(said, fold.dataset);
        line.className = "guessed";
        first.textContent = `Your guess: ${said}${judged ? `, ${judged}` : ""}.`;
        line.append(first, why ? ` ${why}` : "");
        fold.querySelector("summary").after(line);
      }
    };
    for (const field of asked) field.value = stored.get(field.name);
    fold.open = asked.some((field) => stored.get(`${field.name} opened`));
    fold.addEventListener("toggle", () => {
      for (const field of asked) stored.set(`${field.name} opened`, fold.open ? "yes" : "");
      tell();
    });
    for (const field of asked) {
      field.addEventListener("change", () => stored.set(field.name, field.value));
      field.addEventListener("change", tell);
      field.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && taken(field)) fold.open = true;
      });
    }
  }
}

// Output in columns is not wrapped.
function columns() {
  for (const output of document.querySelectorAll(".cell_output pre")) {
    const rows = output.textContent.split("\n").filter((line) => /\S {2,}\S/.test(line));
    output.classList.toggle("columns", rows.length > 1);
  }
}

function wider() {
  const mark = (box) => {
    box.classList.remove("wider");  // the mark itself changes how wide some boxes are
    box.classList.toggle("wider", box.scrollWidth > box.clientWidth + 1);
  };
  const watch = new ResizeObserver((seen) => {
    for (const box of new Set(seen.map(({target}) => target.closest(BOXES)))) {
      if (box) mark(box);
    }
  });
  const boxes = document.querySelectorAll(BOXES);
  boxes.forEach(mark);  // before the page is at the place that its address names: a mark has a height
  for (const box of boxes) {
    for (const one of [box, ...box.children]) watch.observe(one);
  }
}

// A picture that is clicked fills the window, until it is clicked again.
function whole() {
  const dialog = document.body.appendChild(document.createElement("dialog"));
  dialog.className = "whole";
  dialog.setAttribute("aria-label", "The picture, as large as the window");
  dialog.innerHTML = '<button aria-label="Close">✕</button>';
  dialog.addEventListener("click", () => dialog.close());
  const large = document.createElement("img");
  const show = ({src, alt, naturalWidth, naturalHeight}) => {
    Object.assign(large, {src, alt});
    large.classList.toggle("lying", naturalWidth > naturalHeight);
    dialog.append(large);
    dialog.showModal();
  };
  for (const picture of document.querySelectorAll(".cell_output img")) picture.tabIndex = 0;
  document.addEventListener("click", ({target}) => target.matches(".cell_output img") && show(target));
  document.addEventListener("keydown", ({key, target}) => {
    if (key === "Enter" && target.matches(".cell_output img")) show(target);
  });
}

// What a term means stands beside it while the mouse or the keyboard is on it. A finger has to tap for that: a second
// tap, as a click does, follows the link.
function terms() {
  const note = document.body.appendChild(document.createElement("div"));
  Object.assign(note, {id: "meaning", className: "meaning", popover: "manual"});
  note.setAttribute("role", "tooltip");
  let of = null;
  const hide = () => { note.hidePopover(); of?.removeAttribute("aria-describedby"); of = null; };
  const show = (link) => {
    const said = courseTerms[link.hash.slice(1)];
    if (!said || of === link) return;
    if (of) hide();
    of = link;
    link.setAttribute("aria-describedby", note.id);
    note.innerHTML = said;
    note.showPopover();
    const at = link.getBoundingClientRect(), room = document.documentElement.clientWidth - note.offsetWidth - 8;
    const below = at.bottom + note.offsetHeight + 8 < innerHeight;
    note.style.left = `${Math.max(8, Math.min(at.left, room))}px`;
    note.style.top = `${below ? at.bottom + 4 : at.top - note.offsetHeight - 4}px`;
  };
  for (const link of document.querySelectorAll("article a:has(> .std-term)")) {
    let touched = false;
    link.addEventListener("pointerdown", ({pointerType}) => { touched = pointerType === "touch" && of !== link; });
    link.addEventListener("mouseenter", () => touched || show(link));
    link.addEventListener("mouseleave", () => touched || hide());
    link.addEventListener("focus", () => touched || show(link));
    link.addEventListener("blur", hide);
    link.addEventListener("click", (event) => {
      if (!touched) return;
      event.preventDefault();
      show(link);
    });
  }
  document.addEventListener("keydown", ({key}) => key === "Escape" && hide());
  document.addEventListener("pointerdown", ({target}) => target.closest(".meaning") || target.closest("a") === of || hide());
  document.addEventListener("scroll", hide, {passive: true});
}

guesses();
columns();
wider();
whole();
terms();
