// A guess that is written down stands beside what was measured, once that is unfolded; a box that is wider than its
// place is marked.
"use strict";

const BOXES = ".map, figure.picture, .course-picture, .formula, .table-wrapper";

function guesses() {
  const names = [...document.querySelectorAll(".guess input")];
  for (const fold of document.querySelectorAll("details.measured")) {
    const code = fold.previousElementSibling;
    const asked = names.filter((field) => code.textContent.includes(field.name));
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

function wider() {
  const watch = new ResizeObserver((seen) => {
    for (const box of new Set(seen.map(({target}) => target.closest(BOXES)))) {
      box.classList.toggle("wider", box.scrollWidth > box.clientWidth + 1);
    }
  });
  for (const box of document.querySelectorAll(BOXES)) {
    for (const one of [box, ...box.children]) watch.observe(one);
  }
}

guesses();
wider();
