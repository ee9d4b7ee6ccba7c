// What moves on a page of the book: panels of frames, and guesses that are kept until the answer is unfolded.
"use strict";

function panel(figure) {
  const { start, free, frames, wide } = JSON.parse(figure.querySelector("script").textContent);
  const image = figure.querySelector(".stage img"), note = figure.querySelector(".note");
  const caption = figure.querySelector("figcaption"), said = figure.querySelector(".said");
  const controls = [...figure.querySelectorAll(".control")];
  const kept = new Map();
  let at = [...start], playing = null;

  const ready = () => {  // every frame is in memory before a hand moves, so that the picture follows it
    for (const [file] of Object.values(frames)) {
      if (file && !kept.has(file)) {
        const frame = new Image();
        frame.src = file;
        kept.set(file, frame);
      }
    }
  };

  const show = () => {
    const [file, width, title, words, text] = frames[at.join()];
    image.hidden = !file;
    if (file) {
      image.src = file;
      image.alt = words;
      image.style.width = `${100 * width / wide}%`;
    }
    caption.textContent = title;
    if (said) said.textContent = text;
    for (const control of controls) {
      const place = at[control.dataset.place];
      const range = control.querySelector("input"), list = control.querySelector("select");
      if (range) {
        const value = JSON.parse(control.dataset.values)[place];
        range.value = place;
        range.setAttribute("aria-valuetext", value);
        control.querySelector("output").textContent = value;
      } else if (list) {
        list.value = place;
      } else {
        for (const button of control.querySelectorAll("button")) {
          button.setAttribute("aria-pressed", String(Number(button.value) === place));
        }
      }
    }
  };

  const move = (place, value) => {
    const next = [...at];
    next[place] = value;
    let back = false;
    if (!(next.join() in frames)) {  // not drawn: what does not move together goes back to where it began
      back = true;
      for (let other = 0; other < next.length; other += 1) {
        if (other !== place && !(free.includes(place) && free.includes(other))) next[other] = start[other];
      }
    }
    note.hidden = !back;
    if (back) {
      note.textContent = "This page holds some of the combinations only, so the other controls went back to where " +
        "they began. The notebook draws them all.";
    }
    at = next;
    show();
  };

  for (const control of controls) {
    const place = Number(control.dataset.place);
    const range = control.querySelector("input"), list = control.querySelector("select");
    const play = control.querySelector(".play");
    const stop = () => {
      clearInterval(playing);
      playing = null;
      play.innerHTML = "&#9654;";
    };
    if (range) {
      range.addEventListener("input", () => { if (playing) stop(); move(place, Number(range.value)); });
      if (play) play.addEventListener("click", () => {
        if (playing) { stop(); return; }
        ready();
        play.innerHTML = "&#10074;&#10074;";
        const last = Number(range.max);
        if (at[place] === last) move(place, 0);
        playing = setInterval(() => {
          if (at[place] < last) move(place, at[place] + 1);
          if (at[place] >= last) stop();
        }, 900);
      });
    } else if (list) {
      list.addEventListener("change", () => move(place, Number(list.value)));
    } else {
      for (const button of control.querySelectorAll("button")) {
        button.addEventListener("click", () => move(place, Number(button.value)));
      }
    }
  }
  new IntersectionObserver((seen, watch) => {
    if (seen.some((one) => one.isIntersecting)) { ready(); watch.disconnect(); }
  }, { rootMargin: "600px" }).observe(figure);
}

function guesses() {
  const names = [...document.querySelectorAll(".guess input")];
  for (const fold of document.querySelectorAll("details.below-input")) {
    const code = fold.closest(".cell").querySelector(".cell_input");
    const asked = code ? names.filter((field) => code.textContent.includes(field.name)) : [];
    fold.addEventListener("toggle", () => {
      fold.querySelector(".guessed")?.remove();
      const told = asked.filter((field) => field.value.trim());
      if (fold.open && told.length) {
        const line = document.createElement("p");
        line.className = "guessed";
        line.textContent = `Your guess: ${told.map((field) => field.value.trim()).join(", ")}`;
        fold.querySelector("summary").after(line);
      }
    });
  }
}

document.querySelectorAll(".frames").forEach(panel);
guesses();
