// What somebody typed as a guess: a number in the unit that is asked for, or a sentence that says what to write.
"use strict";

const SIZES = {B: 1, byte: 1, bytes: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30,
  TiB: 2 ** 40, bit: 1 / 8, bits: 1 / 8, kbit: 125, Mb: 125e3, Mbit: 125e3, Gb: 125e6, Gbit: 125e6, Tb: 125e9,
  kilobytes: 1e3, megabytes: 1e6, gigabytes: 1e9};
const KINDS = {  // what each is called, and its units: in seconds, in bytes, in bytes a second, or of a whole
  time: {is: "a time", units: {ns: 1e-9, µs: 1e-6, us: 1e-6, microseconds: 1e-6, microsecond: 1e-6, ms: 1e-3,
    milliseconds: 1e-3, millisecond: 1e-3, s: 1, sec: 1, secs: 1, second: 1, seconds: 1, min: 60, minute: 60,
    minutes: 60, h: 3600, hour: 3600, hours: 3600, d: 86400, day: 86400, days: 86400}},
  size: {is: "a number of bytes", units: SIZES},
  rate: {is: "a rate", units: Object.fromEntries(Object.entries(SIZES).map(([unit, bytes]) => [`${unit}/s`, bytes]))},
  ratio: {is: "a ratio", units: {times: 1, time: 1, x: 1, "×": 1, fold: 1, share: 1}},
  share: {is: "a share", units: {"%": .01, percent: .01}},
};
const SHORT = {microseconds: "µs", milliseconds: "ms", seconds: "s", percent: "%"};
const MEANT_ALONE = ["ns", "µs", "ms", "s", "bytes", "kB", "MB", "GB", "bytes/s", "kB/s", "MB/s", "GB/s"];
const COUNTS = {k: 1e3, thousand: 1e3, million: 1e6, billion: 1e9, trillion: 1e12};
const NUMBER = String.raw`(?:\d{1,3}(?: \d{3})+(?!\d)|\d+(?:,\d{3})*)?(?:\.\d+|(?<=\d)\.?)(?:e[-+]?\d+)?`;
const FIRST = new RegExp(`^([-+]?${NUMBER})(?!\\d|[.,]\\d)\\s*(.*)$`, "i");
const SIGN = String.raw`(?:[^\d\s]*\s*(-|to|or)|([/÷*×·x;,&]|and|))`;  // of a range, or between two numbers
const SECOND = new RegExp(`^${SIGN}\\s*(${NUMBER})(?!\\d|[.,]\\d)\\s*(.*)$`, "i");

const number = (digits) => Number(digits.replace(/[\s,]/g, ""));
const spoken = (value) => value.toLocaleString("en", {maximumSignificantDigits: 6});

// The kind of a unit, how much one of it is, and what is said after it. A b that is small means bytes where no unit
// has it: mb is MB, and Mb a million bits.
function unitOf(words) {
  const rate = /\s*\/\s*s(?:ec|econd)?\b|\s+(?:per|a|each) s(?:ec|econd)?\b|(?<=[bB])ps\b/;
  const [, first, rest] = words.trim().replace(rate, "/s").match(/^[-–]?(%|×|[^\s,:;%×]+)\s*(.*)$/) || [];
  for (const same of first ? [(unit) => unit === first, (unit) => unit.toLowerCase() === first.toLowerCase()] : []) {
    for (const [kind, {units}] of Object.entries(KINDS)) {
      const unit = Object.keys(units).find(same);
      if (unit) return {kind, unit, one: units[unit], rest};
    }
  }
  return null;
}

// What a question asks for: its kind, one of it, and in words. `unit` is that of the answer, where it has one.
function wanted({unit = "", asked = ""}) {
  const known = unitOf(unit);
  if (known?.kind === "share") return {kind: "ratio", one: .01, label: "%", words: "%"};
  if (known && known.kind !== "ratio") {
    const label = SHORT[known.unit] || known.unit;
    return {...known, label, words: label};
  }
  const ratio = !unit || known;
  if (ratio && (known?.unit === "share" || /\b(?:share|fraction)\b/.test(asked))) {
    return {kind: "ratio", one: 1, label: "", words: "a share, such as 0.3 or 30 %"};
  }
  if (known || ratio && / \/ |\b(?:times|ratio|multiples?|relative)\b/.test(asked)) {
    return {kind: "ratio", one: 1, label: "times", words: "how many times"};
  }
  const counted = unit && !/^of\b/.test(unit);
  return {kind: "count", one: 1, label: counted ? unit : "", words: counted ? unit : "a number without a unit"};
}

// What can be read: examples, in words.
function readable({kind, label}) {
  if (kind === "ratio" && label !== "times") return "0.3, 3/10 or 30 %";
  return `12, 1.5e3, 3/4 or 12${label ? ` ${label}` : "k"}`;
}

// {value, words} of a guess, or {refused}. The words say the value again where a unit or a fraction made it another.
function readGuess(said, asked) {
  const refused = (why) => ({refused: `“${said}” ${why}.`});
  const wants = wanted(asked);
  const text = said.replace(/[−–—‑]/g, "-").replace(/[\u00a0\u2009\u202f]/g, " ").replaceAll("μ", "µ")
    .replace(/^(?:about|around|ca\.?|[~≈<>=\s])+/i, "").trim();
  if (/^-?\d+,\d{1,2}(?!\d)/.test(text)) return refused(`is not a number here: write ${said.replace(",", ".")}`);
  let [, digits, after] = text.match(FIRST) || [], value = digits ? number(digits) : NaN;
  const typed = value, [, range, between, second, rest] = digits && after.match(SECOND) || [];
  if (second) {
    const other = number(second), sign = (range || between).toLowerCase();
    if (["-", "to"].includes(sign)) {
      return refused(`is a range: write one number, such as ${spoken((value + other) / 2)}`);
    }
    if (!["/", "÷", "*", "×", "·", "x"].includes(sign)) {
      const right = sign ? digits : `${digits}${second} or ${digits}.${second}`;
      return refused(`is two numbers: write one, such as ${right}`);
    }
    [after, value] = [rest, ["/", "÷"].includes(sign) ? value / other : value * other];
  }
  if (!Number.isFinite(value)) return refused(`is not a number: write one such as ${readable(wants)}`);
  const [, many] = after.match(/^(k|thousand|million|billion|trillion)(?![\p{L}\p{N}/])/iu) || [];
  if (many) [value, after] = [value * COUNTS[many.toLowerCase()], after.slice(many.length)];
  const words = after.trim().replace(/\.$/, ""), found = unitOf(words);
  const write = wants.kind === "ratio" && !wants.label ? "write it as a share"
    : `write ${spoken(value)}${wants.label ? ` or ${spoken(value)} ${wants.label}` : ""}`;
  if (found) {
    const same = found.kind === wants.kind || wants.kind === "ratio" && found.kind === "share";
    const other = (right) => refused(`is ${KINDS[found.kind].is}, but the question asks for ${wants.words}: ${right}`);
    if (!same && ["ratio", "share"].includes(found.kind)) {
      const [, all] = found.kind === "share" && (asked.asked || "").match(/\bof ([\d,]*\d)/) || [];
      return other(`write ${all ? spoken(value * found.one * number(all))
        : `the number itself${wants.label ? `, in ${wants.label}` : ""}`}`);
    }
    if (!same) return other(write);
    value = Number((value * found.one / wants.one).toPrecision(12));
  } else if (words && !(wants.kind === "count" && isNamed(words, asked))) {
    return refused(`ends in “${words}”, but the question asks for ${wants.words}: ${write}`);
  }
  const [, all] = wants.kind === "count" && (asked.asked || "").match(/\bof (\d[\d,]*)(?![\w.-])/) || [];
  if (all && value > number(all)) return refused(`is more than all ${all}: write a number from 0 to ${all}`);
  const again = value === typed ? "" : ` (${`${spoken(value)} ${wants.label}`.trim()})`;
  return {value, alone: !words, words: said + again};
}

// Whether words are those of the question: "places", "of 10,000 places", "requests/s".
function isNamed(words, {unit = "", asked = ""}) {
  const parts = (text) => text.toLowerCase().replace(/\b(?:per|each)\b/g, "a").replace(/\/\s*s(?:ec)?\b/g, " a second")
    .match(/[\p{L}\p{N}](?:[\p{L}\p{N},.-]*[\p{L}\p{N}])?/gu)?.map((word) => word.replace(/(?<=..)s$/, "")) || [];
  const known = new Set(parts(`${unit} ${asked} a of`)), said = parts(words);
  return said.length > 0 && said.every((word) => known.has(word));
}

// The value in the unit that is asked for of a plain number that was meant in another, where that is near the answer.
function inAnother(value, known, asked) {
  const wants = wanted(asked);
  for (const unit of /^(?:time|size|rate)$/.test(wants.kind) ? MEANT_ALONE : []) {
    const {kind, one} = unitOf(unit), other = Number((value * one / wants.one).toPrecision(12));
    if (kind === wants.kind && one !== wants.one && Math.abs(other - known) <= .02 * Math.abs(known)) {
      return {unit, other, said: `${spoken(other)} ${wants.label}`};
    }
  }
  return null;
}
