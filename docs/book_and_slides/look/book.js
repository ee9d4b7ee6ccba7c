// What follows a guess is folded until there is one, which is then answered; a box that is wider than
// its place is marked, a picture that is clicked fills the window, and a term shows what it means.
"use strict";

const PHONE = matchMedia("(max-width: 46rem)").matches;
const BOXES = ".map, .formula, .table-wrapper, div.highlight > pre";

const stored = {  // in this browser, until a reader takes it away; some allow nothing to be kept
  get(name) { try { return localStorage.getItem(name) || ""; } catch { return ""; } },
  set(name, said) { try { localStorage.setItem(name, said); } catch { /* it is not kept */ } },
};
const PAGE = location.pathname.split("/").pop(), EVERYWHERE = "course answers are shown", CODE = "course code is shown", PLACE = "course last chapter";

// The place that the address names, and where a link has led instead of to a place that waits behind a guess.
const addressed = () => location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
let stop = null;

// Why a guess cannot be taken, or nothing where it can.
function refusal(said, known, asked) {
  if (/^[A-Z]+$/.test(known)) return "";
  const {value, refused = ""} = readGuess(said, asked);
  return value < 0 && known >= 0 ? `“${said}” is less than nothing, and this can only be more.` : refused;
}
const letters = (said) => said.toUpperCase().replace(/[^A-Z]/g, "");

const CLOSE = 1.25, NEAR = 2;  // times as much, or as little
const farther = (guess, known) => guess * known > 0 ? Math.max(guess / known, known / guess) : Infinity;

const EXACT = "exact";
const NOTHING = {time: "That would take no time at all", size: "That would be not one byte", rate: "Then nothing would move",
  count: "That would be none at all"};

// How far off a guess is, in words that follow "is".
function distance(guess, known) {
  if (Math.abs(guess - known) <= 5e-4 * Math.abs(known)) return EXACT;  // known has four digits
  const way = guess < known ? "low" : "high", ratio = farther(guess, known);
  if (guess * known <= 0) return `too ${way}`;
  if (ratio < 1.5) {
    return `${ratio <= CLOSE ? "close: " : ""}${(100 * Math.abs(guess / known - 1)).toPrecision(2) * 1} % too ${way}`;
  }
  if (Number(ratio.toPrecision(2)) === 2) {
    return `${Number(ratio.toPrecision(3)) === 2 ? "" : "about "}${way === "low" ? "half" : "twice"} the answer`;
  }
  const few = (value) => Number(value.toPrecision(2)).toLocaleString("en");
  return `${way === "high" ? `${few(ratio)} times` : ratio < 10 ? `${few(100 / ratio)} % of` : `1/${few(ratio)} of`} the answer`;
}

// What compare() says in the notebook: how far off a guess is and, of a tempting one, why one would think so; whether
// it is right; and the class that colours it.
function verdict(words, said, {known, reasons = "{}"}, asked) {
  if (known === undefined) return {judged: `Your guess: ${words}.`};
  const judge = (is) => `Your guess of ${words} is ${is}.`;
  if (/^[A-Z]+$/.test(known)) {
    return letters(said) === known ? {judged: judge("right"), right: true, kind: "right"}
      : {judged: judge("not right in every place"), kind: "far"};
  }
  const {value, alone} = readGuess(said, asked), answer = Number(known), off = ([one]) => Math.abs(value - one);
  const [why] = Object.entries(JSON.parse(reasons)).filter((one) => off(one) <= .02 * value)
    .sort((one, other) => off(one) - off(other));
  const away = distance(value, answer), ratio = farther(value, answer);
  if (away === EXACT) return {judged: judge(away), right: true, kind: "right"};
  const meant = alone && !why && inAnother(value, answer, asked);
  if (meant) {
    const there = distance(meant.other, answer);
    return {judged: `Your guess is ${words}. In ${meant.unit}? That is ${meant.said}, ${there}.`, right: there === EXACT, kind: "right"};
  }
  const nothing = value === 0 && answer > 0 && !why && NOTHING[wanted(asked).kind];
  return {judged: nothing ? `Your guess is 0. ${nothing}.` : judge(away), why: why?.[1],
    kind: ratio <= CLOSE ? "right" : ratio <= NEAR ? "near" : "far"};
}

// What is said of a choice: that it is right, or why one would think so, and the answer last.
function chosen(words, value, {known, reasons = "{}"}) {
  if (known === undefined) return {judged: `Your guess: ${words}.`};
  if (value === known) return {judged: `Your guess is right: ${words}.`, right: true, kind: "right"};
  const why = JSON.parse(reasons)[value];
  return {judged: `Not ${/^[a-z]+$/.test(words) ? `the ${words}` : words}.`, reason: why && ` ${why}`, kind: "far"};
}

// A field for a guess, or buttons for its choices: what is in it, and why that cannot be taken.
class Guess {
  constructor(box) {
    this.box = box;
    this.fields = [...box.querySelectorAll("input")];
    this.asked = {unit: box.dataset.unit, asked: box.dataset.asked || box.textContent};
    this.name = this.fields[0].name;
    this.said = stored.get(`${PAGE} ${this.name}`);
    const button = document.createElement("button");
    Object.assign(button, {type: "button", textContent: "Compare"});
    if (this.chosen) {
      const letters = Math.max(...this.fields.map((one) => one.parentElement.textContent.trim().length));
      box.style.setProperty("--choices", `${this.fields.length * Math.max(4, .6 * letters + 2.5)}em`);  // side by side
      box.appendChild(document.createElement("div")).append(button);  // a line of its own
    } else box.querySelector("label").after(button);
    button.addEventListener("click", () => this.compared());
    for (const field of this.fields) {
      field.addEventListener("change", () => stored.set(`${PAGE} ${this.name}`, this.said));
      field.addEventListener("keydown", ({key}) => key === "Enter" && this.compared());
    }
  }
  get chosen() { return ["radio", "checkbox"].includes(this.fields[0].type); }
  get checked() { return this.fields.filter((one) => one.checked); }
  get said() {  // of boxes, 14 for the first and the fourth
    return this.chosen ? this.checked.map((one) => one.value).join("") : this.fields[0].value.trim();
  }
  measure() {  // the unit stands beside the field; what is asked for is not said again where it is no more than that
    if (this.chosen || this.box.querySelector(".unit")) return;
    const unit = document.createElement("span"), {label} = wanted(this.asked), asked = this.box.querySelector(":scope > span");
    Object.assign(unit, {className: "unit", textContent: label});
    const only = asked.textContent.replace(/^in /, "");
    asked.hidden = !only || Boolean(label) && (SHORT[only] || only) === label;
    this.box.querySelector("button").before(unit);
  }
  set said(said) {
    if (!this.chosen) this.fields[0].value = said;
    else for (const one of this.fields) one.checked = one.type === "radio" ? one.value === said : said.includes(one.value);
  }
  get words() {
    if (this.chosen) return this.checked.map((one) => one.parentElement.textContent.trim()).join(" and ");
    return readGuess(this.said, this.asked).words || this.said;
  }
  truth({known, told}) {  // in words
    if (!this.chosen) return told ? ` ${told}` : "";
    const right = this.fields.filter(({value}) => known?.includes(value)).map((one) => one.parentElement.textContent.trim());
    return right.length ? ` The answer: ${right.join(" and ")}.` : "";
  }
  refused(known) {
    const why = this.checked.length > 2 ? "One or two were asked for: take some away."
      : this.said ? !this.chosen && refusal(this.said, known, this.asked)
        : this.chosen ? "Choose one first." : "Write a guess first.";
    this.tell(why || "");
    return why;
  }
  tell(said) {
    this.box.querySelector(".refused")?.remove();
    if (!said) return;
    const line = this.box.appendChild(document.createElement("span"));
    line.className = "refused";
    line.setAttribute("role", "status");
    line.append(said);
  }
  compared() { this.box.dispatchEvent(new Event("compared")); }
}

// A link to a box, named by the heading of its section.
function section(of) {
  const title = of.closest("section").querySelector("h2, h3, h4");
  if (!title) return "";
  of.id ||= `${of.className}-${[...document.querySelectorAll(".guess, .veil")].indexOf(of)}`;
  const link = document.createElement("a");
  return Object.assign(link, {href: `#${of.id}`, textContent: title.firstChild.textContent.trim()});
}

// Where the answer stands below a heading of its own, the guess says which, and leads there.
function later(guess, fold) {
  const link = section(fold);
  if (fold.closest("section").contains(guess.box) || !link) return;
  const said = document.createDocumentFragment();
  said.append("Your guess is kept. It is answered in ", link, ".");
  guess.tell(said);
}

// What a fold hides, in words: 2 paragraphs and a picture.
function hidden(fold) {
  const kinds = {paragraph: "p", picture: "figure.picture, .course-page", table: ".table-wrapper", formula: ".formula"};
  const parts = Object.entries(kinds).map(([name, of]) => [name, [...fold.querySelectorAll(of)].filter((one) =>
    one.closest("details") === fold && !one.closest(".course-card, .guess, td, th, figcaption")).length]);
  const words = parts.filter(([, many]) => many).map(([name, many]) => many === 1 ? `a ${name}` : `${many} ${name}s`);
  return words.length ? `: ${[words.slice(0, -1).join(", "), words.at(-1)].filter(Boolean).join(" and ")}` : "";
}

// The first sentence of a text, with its code and without its links.
function sentence(text) {
  const all = new Range(), {length} = text.textContent.match(/^.*?[.?!](?=\s|$)/s)?.[0] || "";
  const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  all.setStart(text, 0);
  for (let left = length, node; (node = walker.nextNode()); left -= node.length) {
    if (left <= node.length) { all.setEnd(node, left); break; }
  }
  const said = all.cloneContents();
  for (const box of said.querySelectorAll("a, p")) box.replaceWith(...box.childNodes);
  return said;
}

// What goes further is folded, a line for each of its sections: its title, and its first sentence. A link to it opens it.
function further() {
  const title = [...document.querySelectorAll("article h2")].find(({firstChild}) => firstChild.textContent === "Going further");
  const folds = [...title?.parentElement.querySelectorAll(":scope > section") || []].map((part) => {
    const fold = document.createElement("details"), line = document.createElement("summary"), heading = part.querySelector("h3");
    const text = [...part.querySelectorAll(":scope > p, :scope > .exercise > p, :scope > .exercise > ul > li")].find((one) => !/· \d+ points?/.test(one.textContent));
    const lead = document.createElement("span");
    fold.className = "further";
    lead.append(text ? sentence(text) : "");
    heading.before(fold);
    while (fold.nextSibling) fold.append(fold.nextSibling);
    line.append(heading, lead);
    fold.prepend(line);
    return fold;
  });
  const reveal = () => {
    const part = addressed()?.closest("section");
    for (const fold of folds) if (part && fold.parentElement.contains(part)) fold.open = true;
  };
  reveal();
  addEventListener("hashchange", reveal);
  let closed = [];
  addEventListener("beforeprint", () => { closed = folds.filter((one) => !one.open); folds.forEach((one) => { one.open = true; }); });
  addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
}

// What follows a guess is folded until the guess is compared, or a reader asks for it, here or on every page.
function guesses() {
  const known = new Map([...document.querySelectorAll(".guess")].map((box) => new Guess(box)).map((one) => [one.name, one]));
  const veils = [...document.querySelectorAll("details.veil")].map((fold) => {
    const asked = fold.dataset.guess.split(" ").map((name) => known.get(name)), opened = `${PAGE} ${fold.dataset.guess} opened`;
    if (fold.dataset.unit && asked.length === 1) asked[0].asked.unit = fold.dataset.unit;
    asked.forEach((one) => one.measure());
    const lines = [], summary = fold.querySelector("summary"), here = fold.closest("section");
    const card = [...fold.querySelectorAll(".compared")].find((one) => one.closest(".veil") === fold);
    const answer = card?.closest(".output");
    const away = asked.find(({box}) => !here.contains(box));
    summary.querySelector("u").after(hidden(fold));
    if (away) summary.querySelector("span").append(". The guess stands in ", section(away.box));
    let sought = null;  // a place in the fold to which a link has led
    const tell = () => {
      lines.splice(0).forEach((line) => line.remove());
      if (sought && !fold.open) {
        lines.push(Object.assign(document.createElement("p"), {className: "guessed",
          textContent: "The place you look for is behind this guess: guess, or show it."}));
        fold.before(lines[0]);
      }
      if (answer) answer.hidden = false;
      for (const one of fold.open ? asked.filter((guess) => guess.said && !guess.refused(fold.dataset.known)) : []) {
        const line = document.createElement("p"), first = document.createElement("b");
        const {judged, reason = "", why, right, kind} = one.chosen ? chosen(one.words, one.said, fold.dataset)
          : verdict(one.words, one.said, fold.dataset, one.asked);
        line.className = `guessed ${kind || ""}`;
        line.setAttribute("role", "status");
        first.textContent = judged;
        const exact = right && / answer, /.test(fold.dataset.told);  // it says where the number comes from
        const truth = kind && (!right || exact) ? one.truth(fold.dataset) : "";
        line.append(first, reason, truth, why ? ` ${why}` : "");
        if (answer && (right || truth)) answer.hidden = true;  // the line has said it
        fold.before(line);
        lines.push(line);
        later(one, fold);
        const low = line.getBoundingClientRect().bottom > innerHeight - 40;
        if (low && one.box.contains(document.activeElement)) line.scrollIntoView({block: "center"});  // who has just guessed
      }
    };
    for (const one of asked) {
      one.box.addEventListener("compared", () => {
        if (asked.some((guess) => guess.refused(fold.dataset.known))) return tell();  // nothing of the guess before
        stored.set(opened, "yes");
        fold.open = true;
        tell();
      });
    }
    summary.addEventListener("click", ({target}) => target.matches("a") || stored.set(opened, fold.open ? "" : "yes"));
    fold.addEventListener("toggle", () => {
      tell();
      if (!fold.open) return;
      if (sought && !asked.some((one) => one.said)) sought.scrollIntoView({block: "center"});  // or the guess is answered
      sought = null;
    });
    const hide = () => {
      fold.open = Boolean(stored.get(EVERYWHERE) || stored.get(opened));
      tell();
    };
    const halt = (place) => {
      sought = place;
      tell();
      return away ? lines[0] : asked[0].box;
    };
    return {fold, hide, halt};
  });
  const hide = () => {
    document.body.classList.toggle("answers-shown", Boolean(stored.get(EVERYWHERE)));
    veils.forEach((veil) => veil.hide());
  };
  // A link to a place behind a guess stops at the guess, and so does one to a section whose marked words are all there.
  const halt = () => {
    const target = addressed(), part = target?.closest("section");
    const marks = [...part?.querySelectorAll(".highlighted") || []].filter((one) => one.closest("section") === part);
    const veil = target && veils.find(({fold}) => fold.contains(target)
      || marks.length && marks.every((mark) => fold.contains(mark)));
    veil?.hide();  // a browser opens the fold itself
    const far = marks[0] && !veil && marks[0].getBoundingClientRect().top - part.getBoundingClientRect().top > .8 * innerHeight;
    stop = veil && !veil.fold.open ? veil.halt(marks[0] || target) : far ? marks[0] : null;
    stop?.scrollIntoView({block: "center"});
  };
  hide();
  halt();
  addEventListener("hashchange", halt);
  addEventListener("load", () => setTimeout(halt, 100));  // the search has marked its words
  addEventListener("beforeprint", () => veils.forEach(({fold}) => { fold.open = true; }));
  addEventListener("afterprint", hide);
  if (veils.length) setting("Hide answers until I guess", EVERYWHERE, false, hide);
}

// Imports and checks are hidden, with their folds, from those who only read; other folds of code are closed.
function plumbing() {
  const folds = document.querySelectorAll(":is(.tag_plumbing, .tag_quiet) > details.hide");
  const show = () => {
    const shown = Boolean(stored.get(CODE));
    document.body.classList.toggle("code-hidden", !shown);
    for (const fold of folds) fold.open = shown && !fold.matches(".below-input");
  };
  show();
  if (folds.length) setting("Show all code", CODE, true, show);
}

// A box below the title, for this and every other page: `on` is whether it is checked while something is stored.
function setting(words, name, on, changed) {
  const label = document.createElement("label"), box = label.appendChild(document.createElement("input"));
  label.className = "setting";
  Object.assign(box, {type: "checkbox", checked: Boolean(stored.get(name)) === on});
  label.append(` ${words}`);
  box.addEventListener("change", () => { stored.set(name, box.checked === on ? "yes" : ""); changed(); });
  const settings = document.querySelector(".settings") || document.createElement("div");
  settings.className = "settings";
  settings.append(label);
  document.querySelector(".nearby")?.after(settings);
}

// Output in columns is not wrapped.
function columns() {
  for (const output of document.querySelectorAll(".cell_output pre")) {
    const rows = output.textContent.split("\n").filter((line) => /\S {2,}\S/.test(line));
    output.classList.toggle("columns", rows.length > 1);
  }
}

// Rows of columns that are still read where each takes two lines.
const few = (box) => box.textContent.trim().split("\n").length <= 4 && box.scrollWidth < 1.8 * box.clientWidth;

// Each line of code in a box of its own, so that what is wrapped goes on below its own beginning; a row of columns is
// parted between two of them.
function hanging(pre, rows) {
  if (pre.querySelector(":scope > .line")) return;
  const texts = [], walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push(walker.currentNode);
  const ends = texts.flatMap((text) => [...text.data.matchAll(/\n/g)].map(({index}) => [text, index + 1]));
  if (texts.length && !texts.at(-1).data.endsWith("\n")) ends.push([texts.at(-1), texts.at(-1).length]);
  let start = [pre, 0];
  const lines = ends.map((end) => {
    const range = new Range(), line = document.createElement("span");
    range.setStart(...start);
    range.setEnd(...end);
    start = end;
    line.className = "line";
    line.append(range.cloneContents());
    if (rows) line.textContent = line.textContent.replace(/(?<=\S) (?=\S)/g, "\u00a0");
    line.style.setProperty("--in", line.textContent.search(/\S|$/));
    return line;
  });
  pre.replaceChildren(...lines);
}

// On a phone a picture is whole, as wide as the window, and where its letters are small it says that a tap makes it
// larger. Letters of pictures are 10 points high at 100 pixels an inch (course_lib.plots.canvas), and shrink with them.
const LETTERS = 10 * 100 / 72, SMALLEST = 9;
function tapped() {
  for (const picture of document.querySelectorAll(".cell_output img")) {
    const small = LETTERS * innerWidth / Number(picture.getAttribute("width")) < SMALLEST;
    picture.closest("figure.picture, .course-player")?.classList.toggle("told", small);
  }
}

function wider() {
  const mark = (box) => {
    if (box.matches(".table-wrapper")) box.classList.remove("wider");  // which it makes wider
    if (box.matches(".formula")) {  // is first drawn in smaller letters
      box.style.removeProperty("--fit");
      const fit = box.clientWidth / box.scrollWidth;
      if (fit < 1) box.style.setProperty("--fit", Math.max(.8, .99 * fit));
    }
    const pre = box.matches("pre"), rows = box.matches(".columns");
    if (pre) box.classList.remove("wrapped");
    const empty = rows ? parseFloat(getComputedStyle(box).paddingRight) : 0;  // nothing to read is hidden
    const beyond = box.scrollWidth - box.clientWidth - empty, fits = pre && (!rows || few(box));
    if (pre) box.classList.toggle("wrapped", beyond > 1 && fits);
    if (beyond > 1 && fits) hanging(box, rows);
    box.classList.toggle("wider", beyond > 1 && !fits);
  };
  const watch = new ResizeObserver((seen) => {
    for (const box of new Set(seen.map(({target}) => target.closest(BOXES)))) {
      if (box) mark(box);
    }
  });
  const boxes = document.querySelectorAll(BOXES);
  boxes.forEach(mark);  // before the page is at the place that its address names: a mark has a height
  for (const box of boxes) {
    for (const one of box.matches("pre") ? [box] : [box, ...box.children]) watch.observe(one);
  }
}

// A picture that is clicked fills the window, until it is clicked again: below its title or its controls, and turned
// where it is wide and the window of a phone is upright.
function whole() {
  const dialog = document.body.appendChild(document.createElement("dialog"));
  dialog.className = "whole";
  dialog.setAttribute("aria-label", "The picture, as large as the window");
  dialog.innerHTML = '<div class="stage"><button aria-label="Close">✕</button><p></p><div class="course-player"></div></div>';
  const [, title, bar] = dialog.firstChild.children, large = document.createElement("img");
  dialog.addEventListener("click", ({target}) => bar.contains(target) || dialog.close());
  let back = null;  // brings the controls of a picture to their place
  dialog.addEventListener("close", () => { back?.(); back = null; large.remove(); });
  const put = (picture) => {
    dialog.firstChild.append(large);
    Object.assign(large, {src: picture.src, alt: picture.alt});
    dialog.classList.toggle("broad", picture.clientWidth > picture.clientHeight);
  };
  const show = (picture) => {
    const player = picture.closest(".course-player"), controls = player?.querySelector(".course-controls");
    put(picture);
    title.textContent = picture.closest("figure")?.querySelector("figcaption")?.textContent || "";
    title.hidden = !title.textContent;
    bar.hidden = !controls;
    if (controls) {  // they go on to work while the picture is large
      const box = picture.parentElement, watch = new MutationObserver(() => box.firstChild && put(box.firstChild));
      bar.append(controls);
      watch.observe(box, {childList: true});
      back = () => { watch.disconnect(); player.prepend(controls); };
    }
    dialog.showModal();
  };
  for (const picture of document.querySelectorAll(".cell_output img")) picture.tabIndex = 0;
  document.addEventListener("click", ({target}) => target.matches(".cell_output img") && show(target));
  document.addEventListener("keydown", (event) => {
    const {key, target} = event;
    if (key !== "Enter" || !target.matches(".cell_output img")) return;
    event.preventDefault();  // or the key would press the button that closes the picture
    show(target);
  });
}

// The arrows of the keyboard move the steps of the picture that has the focus or fills the window, or else of the one in
// view that is nearest to the middle. Where a field has the focus, the arrows are its own.
function steps() {
  const away = ({top, bottom}) => Math.abs(top + bottom - innerHeight) / 2;
  const players = [...document.querySelectorAll(".course-player:has(.course-steps)")];
  document.addEventListener("keydown", (event) => {
    const {key, target} = event, way = {ArrowLeft: -1, ArrowRight: 1}[key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (target.matches("input, select, textarea")) return;
    const inside = document.querySelector("dialog.whole[open] .course-player") || target.closest(".course-player");
    const [near] = inside ? [inside] : players.map((player) => [player, player.getBoundingClientRect()])
      .filter(([, {top, bottom}]) => top < innerHeight && bottom > 0 && away({top, bottom}) < innerHeight / 2)
      .sort(([, one], [, other]) => away(one) - away(other))[0] || [];
    const slider = near?.querySelector(".course-steps input[type=range]");
    if (!slider) return;
    event.preventDefault();
    slider.value = Number(slider.value) + way;
    slider.dispatchEvent(new Event("input"));
  }, true);  // before the controls keep their keys for themselves
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
    for (const to of note.querySelectorAll("a")) {  // not "(chapter 3)" to those who read it
      const [before, after] = [to.previousSibling, to.nextSibling];
      if (to.pathname !== location.pathname) continue;
      if (/\($/.test(before?.data) && /^\)/.test(after?.data)) {
        before.data = before.data.replace(/\s*\($/, "");
        after.data = after.data.slice(1);
        to.remove();
      } else to.replaceWith(to.textContent);
    }
    note.showPopover();
    const [at] = link.getClientRects(), room = document.documentElement.clientWidth - note.offsetWidth - 8;
    const above = at.top - note.offsetHeight - 4, head = document.querySelector(".mobile-header")?.offsetHeight || 0;
    note.style.left = `${Math.max(8, Math.min(at.left, room))}px`;
    note.style.top = `${above > head ? above : at.bottom + at.height + 8}px`;  // below, the next line stays free
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

// The lists that a phone slides over the page go when they have led somewhere.
function drawers() {
  for (const link of document.querySelectorAll(".toc-drawer a, .sidebar-drawer a")) {
    link.addEventListener("click", () => {
      for (const box of document.querySelectorAll("#__toc, #__navigation")) box.checked = false;
    });
  }
}

// Code is copied by a button.
function copies() {
  for (const box of document.querySelectorAll("article div.highlight")) {
    if (!navigator.clipboard || box.closest(".cell_output")) continue;
    const button = document.createElement("button");
    Object.assign(button, {type: "button", className: "copy", textContent: "Copy"});
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(box.querySelector("pre").textContent);
      button.textContent = "Copied";
      button.addEventListener("blur", () => { button.textContent = "Copy"; }, {once: true});
    });
    box.append(button);
  }
}

// A long name in the list of chapters is broken after an underscore; on a phone one in a table, too, and after a point
// or a bracket.
function names() {
  for (const name of PHONE ? document.querySelectorAll("article table.docutils code .pre") : []) {
    name.replaceWith(...name.textContent.split(/(?<=[_.(](?!$))/).flatMap((part, place) => {
      const piece = name.cloneNode();
      piece.textContent = part;
      return place ? [document.createElement("wbr"), piece] : [piece];
    }));
  }
  for (const name of document.querySelectorAll(".sidebar-tree code .pre")) {
    name.replaceChildren(...name.textContent.split(/(?<=_)/).flatMap((part) => [part, document.createElement("wbr")]));
  }
}

// The map and the list of chapters mark the one that was read last, and the first page's button leads there.
function place() {
  const [, chapter] = PAGE.match(/^(ch\d\d\w*?)(?:_exercises)?\.html$/) || [];
  if (chapter) stored.set(PLACE, chapter);
  const to = `${stored.get(PLACE)}.html`, button = document.querySelector(".begin .button");
  for (const one of document.querySelectorAll(`:is(.map, .in-order) a[href="${to}"]`)) {
    one.classList.add("here");
    const minutes = one.querySelector("text:last-child") || one.parentElement.querySelector("small");
    minutes.textContent = one.closest(".map") ? "you are here" : `${minutes.textContent}, you are here`;
    if (button) Object.assign(button, {href: to, textContent: `Continue with chapter ${Number(to.slice(2, 4))}`});
  }
}

// The list beside the page marks the section that is read: the first that begins in the upper third of the window, or
// else the one that has begun above; where a link has led, the one that it names.
function reading() {
  const list = document.querySelector(".toc-scroll"), parts = [];
  for (const link of list?.querySelectorAll("a[href^='#']") || []) {
    const section = document.getElementById(decodeURIComponent(link.hash.slice(1)))?.closest("section");
    if (section) parts.push({hash: link.hash, item: link.closest("li"), heading: section.querySelector("h1, h2, h3, h4")});
  }
  if (!parts.length) return;
  let arrived = null, marked = null;
  const mark = () => {
    const tops = parts.map(({heading}) => heading.getBoundingClientRect().top), third = innerHeight / 3;
    const end = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    const linked = arrived?.y === scrollY ? parts.findIndex(({hash}) => hash === location.hash) : -1;
    const near = tops.findIndex((top) => top > -5 && top < third);
    const at = linked >= 0 ? linked : end ? parts.length - 1
      : near >= 0 ? near : tops.findLastIndex((top) => top < 0);
    if (marked === parts[at]?.item) return;
    marked?.classList.remove("here");
    marked = parts[at]?.item;
    marked?.classList.add("here");
    const box = marked?.getBoundingClientRect(), room = list.getBoundingClientRect();
    if (box && (box.top < room.top || box.bottom > room.bottom)) list.scrollTop += box.top - room.top - room.height / 2;
  };
  const arrive = () => requestAnimationFrame(() => { arrived = {y: scrollY}; mark(); });
  addEventListener("hashchange", arrive);
  addEventListener("load", () => location.hash ? arrive() : mark());
  addEventListener("scroll", () => requestAnimationFrame(mark), {passive: true});
  addEventListener("resize", () => requestAnimationFrame(mark));
}

// The place that the address names stays in its place while fonts, marks and folds move what is above it, until the
// reader moves. Not every browser holds it by itself, and none does so in every case.
function arrive() {
  const hold = () => stop ? stop.scrollIntoView({block: "center"}) : addressed()?.scrollIntoView();
  const watch = new ResizeObserver(hold);
  watch.observe(document.querySelector("article"));
  for (const move of ["pointerdown", "wheel", "touchstart", "keydown", "hashchange"]) {
    addEventListener(move, () => watch.disconnect(), {once: true, passive: true});
  }
  hold();
}

// The words that a link has led to are marked while a tint fades: of a heading, or of a term of the glossary.
function arrived() {
  const at = addressed();
  if (!at || !at.matches("dt, section, section > span")) return;
  const place = at.matches("dt") ? at : at.closest("section").querySelector("h1, h2, h3, h4, h5, h6");
  if (!place || place.querySelector(".arrived")) return;
  const words = document.createElement("span");
  words.className = "arrived";
  words.append(...[...place.childNodes].filter((one) => !one.matches?.(".headerlink")));
  place.prepend(words);
  words.addEventListener("animationend", () => words.replaceWith(...words.childNodes));
}
addEventListener("hashchange", arrived);

Documentation.TRANSLATIONS["Hide Search Matches"] = "Clear highlights";

further();
guesses();
arrived();
plumbing();
names();
drawers();
copies();
place();
reading();
columns();
tapped();
wider();
whole();
steps();
terms();
arrive();
