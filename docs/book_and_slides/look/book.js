// A guess that is written down stands beside what was measured, once that is unfolded.
"use strict";

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

guesses();
