// Below each result of the search: the sections in which its words stand, as links, with the text around the words.
"use strict";

const ROOM = 220;  // letters of an excerpt
const BEHIND = 4;  // the part of a section that waits behind a guess, and is found but not shown

const MEANT = {oom: "out of memory"};  // what is typed, and how the chapters say it
const instead = MEANT[new URLSearchParams(location.search).get("q")?.trim().toLowerCase()];
if (instead) location.replace(`?q=${encodeURIComponent(instead)}`);

const asked = splitQuery((new URLSearchParams(location.search).get("q") || "").toLowerCase());
const words = asked.filter((word) => !stopwords.has(word)).map((word) => {
  const stem = new Stemmer().stemWord(word).replace(/[iy]$/, "[iy]");
  return new RegExp(`(?<![\\p{L}\\p{N}_])(?:${word}|${stem})[\\p{L}\\p{N}_]*`, "giu");
});

// Where the book does not have what was typed, it searches for the term of the glossary that is nearest to it. Above all
// pages stands the term itself.
Documentation.TRANSLATIONS["Your search did not match any documents. Please make sure that all words are spelled "
  + "correctly and that you've selected enough categories."] = "No page has all of these words.";

function apart(one, other) {  // letters to add, leave out or change
  let row = [...Array(other.length + 1).keys()];
  for (const [place, letter] of [...one].entries()) {
    row = row.reduce((next, above, at) => [...next, at === 0 ? place + 1
      : Math.min(above + 1, next[at - 1] + 1, row[at - 1] + (letter !== other[at - 1]))], []);
  }
  return row.at(-1);
}

function nearest(most) {
  const said = asked.join(" "), near = ([, title]) => Math.min(apart(said, title.toLowerCase()),
                                                               apart(said, `${title.toLowerCase()}s`));
  const [best] = (courseTexts.glossary || []).filter(([to]) => to.startsWith("term-"))
    .sort((one, other) => near(one) - near(other));
  return best && near(best) <= most ? best : null;
}

function suggest() {
  const best = nearest(0), link = document.createElement("a");
  if (!best) return;
  Object.assign(link, {href: `glossary.html#${best[0]}`, textContent: best[1]});
  Search.status.append(" In the glossary: ", link, ".");
}

// A section that has all words in its title comes first, and of these one that has them in its text, too; but before all
// the page itself where it is named by them.
const has = (text) => words.every((word) => text.search(word) >= 0);
const about = ([, title, text], top) => has(title) ? 2 + (top ? 2 : has(text)) : Number(has(text));

function excerpt(text) {
  const within = (place) => words.filter((word) => text.slice(place, place + ROOM / 2).search(word) >= 0).length;
  const places = words.flatMap((word) => [...text.matchAll(word)].map((match) => match.index));
  const first = places.reduce((best, place) => within(place) > within(best) ? place : best, places[0] ?? 0);
  const from = first > ROOM / 2 ? text.indexOf(" ", first - ROOM / 2) + 1 : 0;
  const cut = text.slice(from, from + ROOM), more = from + ROOM < text.length;
  const line = document.createElement("span");
  line.append(from ? "… " : "");
  let last = 0;
  const marks = words.flatMap((word) => [...cut.matchAll(word)]).sort((one, other) => one.index - other.index);
  for (const {0: word, index} of marks) {
    if (index < last) continue;
    const mark = document.createElement("mark");
    mark.textContent = word;
    line.append(cut.slice(last, index), mark);
    last = index + word.length;
  }
  line.append(more ? `${cut.slice(last).replace(/\s\S*$/, "")} …` : cut.slice(last));
  return line;
}

function explain(item) {
  const [page, anchor] = item.querySelector("a").getAttribute("href").split("#");
  if (!anchor && item.parentElement.querySelector(`a[href^="${page}#term-"]`)) return item.remove();  // it is there
  const known = courseTexts[page.replace(/\.html$/, "")] || [];
  // In prose rather than in code or behind a guess, and all words rather than some.
  const ways = [["every", 2], ["every", 3], ["every", BEHIND], ["some", 2], ["some", 3], ["some", BEHIND]].map(([how, part]) => known
    .filter((one) => words[how]((word) => `${one[1]} ${one[part]}`.search(word) >= 0))
    .sort((one, other) => about(other, other === known[0]) - about(one, one === known[0]))
    .map((one) => [one[0], one[1], part === BEHIND ? null : one[part]]));
  const some = ways.find((way) => way.length) || [];
  for (const [to, title, text] of anchor ? known.filter((one) => one[0] === anchor) : some.slice(0, 3)) {
    const found = item.appendChild(document.createElement("p"));
    found.className = "context";
    const link = found.appendChild(document.createElement("a"));
    Object.assign(link, {href: `${page}#${to}`, textContent: to === known[0][0] ? "At its beginning" : title});
    found.append(": ", text === null ? "behind a guess, which you make first." : excerpt(text));
  }
}

// How much of a page is about what was asked: the words as they were typed, side by side, weigh more than the words
// anywhere, and those in a heading most.
const typed = new RegExp(asked.map(RegExp.escape ?? ((word) => word.replace(/[^\p{L}\p{N}_]/gu, "\\$&")))
  .map((word) => `(?<![\\p{L}\\p{N}_])${word}`).join("[\\s-]+"), "giu");
const times = (text, word) => text.match(word)?.length ?? 0;

function weight(item) {
  const [page, anchor] = item.querySelector("a").getAttribute("href").split("#");
  if (anchor) return Infinity;  // the term itself
  const parts = courseTexts[page.replace(/\.html$/, "")] || [];
  const all = parts.map(([, ...said]) => said.join(" ")).join(" ");
  const heads = parts.filter(([, title]) => has(title)).length;
  const sections = parts.filter(([, ...said]) => has(said.join(" "))).length;
  const chapter = /^ch\d\d_(?!.*_exercises)/.test(page) ? 1e6 : 0;  // where it is explained, before lists
  const least = Math.min(...words.map((word) => times(all, word)));
  return chapter + 8 * heads + 4 * times(all, typed) + sections + least / 10;
}

function sorted() {
  const items = [...document.querySelectorAll("#search-results ul.search > li")].map((item) => [weight(item), item]);
  items.sort(([one], [other]) => other > one ? 1 : other < one ? -1 : 0);  // two are Infinity: no difference
  for (const [, item] of items) item.parentElement.append(item);
  const typed = new URLSearchParams(location.search).get("for");
  if (typed) Search.status.append(` No page has “${typed}”: these are for “${searched}”.`);
  if (items.length) Search.status.firstChild.data = `${items.length} result${items.length > 1 ? "s" : ""}.`;
}

// Enter opens the first result, and the arrows go from one to the next, and back into the field.
const field = document.querySelector(".sidebar-search"), searched = new URLSearchParams(location.search).get("q");
document.addEventListener("keydown", (event) => {
  const {key, target} = event, way = {ArrowDown: 1, ArrowUp: -1}[key];
  const results = [...document.querySelectorAll("#search-results ul.search a")], at = results.indexOf(target);
  if (!results.length || target !== field && target !== document.body && at < 0) return;
  if (way) {
    event.preventDefault();
    (results[at + way] || (at + way < 0 ? field : target)).focus();
  } else if (key === "Enter" && at < 0 && field.value === searched) {
    event.preventDefault();
    results[0].click();
  }
});

// Where else to look, when no page has the words.
function elsewhere() {
  const links = [["glossary.html", "glossary"], ["index.html", "contents"]].map(([href, textContent]) =>
    Object.assign(document.createElement("a"), {href, textContent}));
  Search.status.append(" Try fewer words, or look in the ", links[0], " or the ", links[1], ".");
}

// Without words to look for, the page has a field for them.
if (!searched) {
  const form = document.getElementById("search-results").appendChild(document.createElement("form"));
  form.className = "ask";
  form.innerHTML = '<h1>Search</h1><label>Look for <input name="q" type="search" autofocus></label> <button>Search</button>';
}

let told = false;
new MutationObserver((changes) => {
  const end = told ? "" : Search.status?.textContent || "";
  if (end.startsWith("No page has")) {
    const best = nearest(2);
    if (best) location.replace(`?q=${encodeURIComponent(best[1])}&for=${encodeURIComponent(searched)}`);
    else elsewhere();
  } else if (end.startsWith("Search finished")) suggest();
  const ended = /^(No page has|Search finished)/.test(end);
  told ||= ended;
  for (const item of changes.flatMap((change) => [...change.addedNodes])) {
    if (item.matches?.("li") && !item.querySelector(".context")) explain(item);  // sorted, it comes once more
  }
  if (ended) sorted();
}).observe(document.getElementById("search-results"), {childList: true, subtree: true});
