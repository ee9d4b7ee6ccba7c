// Marks the cells of a chapter by their tags, so that cells.css can show what each is for, lets an answer and the texts
// that tell it wait for a guess, keeps a formula's full stop on its line, indents the lines of an error, and enlarges a
// picture that is clicked. Where an answer waits, a cell's node gets a card of its own: without this file nothing is
// missing.
(() => {
  const CSS = new URL("cells.css", document.currentScript.src).href;
  const WAITS = "This text waits for your guess above.";
  const FIRST = "Guess first: write your guess in the place of None, and run both cells.";
  const NONE_YET = "This is no guess yet: write yours in the place of None, and run this cell again.";
  const ANYWAY = "Show the answer without a guess";
  const NOT_YET = /answer is not shown yet|guess cannot be read yet/;  // what course_lib.notebook says to a guess that it cannot read
  const NO_GUESS = /^no guess/m;  // and what course_lib.notebook says beside the answer where the guess is None
  const clicked = new WeakSet(), earned = new WeakMap();  // `earned`: by an answer, the guess with which it was seen
  const tagged = (cell, tag) => (cell.model.getMetadata("tags") || []).includes(tag);
  const source = (cell) => cell.model.sharedModel.getSource();
  const set = (cell, name, value) => { if (value) cell.node.dataset[name] = value; else delete cell.node.dataset[name]; };

  // What stands above a cell. Points and level are known to an exercise's check.
  const label = (cell, all) => {
    if (tagged(cell, "prediction")) return ["guess", "your guess"];
    if (tagged(cell, "check")) return ["check", "check"];
    if (!tagged(cell, "exercise")) return [];
    const {level, points} = all.find((one) => one.model.id === `check_${cell.model.id}`)?.model.getMetadata("course") || {};
    return ["exercise", ["exercise", level, points && `${points} point${points === 1 ? "" : "s"}`].filter(Boolean).join(" · ")];
  };
  const outputs = ({model: {outputs: all}}) => Array.from({length: all.length}, (_, place) => all.get(place));
  const says = (cell, words) => outputs(cell).some(({data}) => words.test(data["text/plain"] ?? ""));
  const unread = (cell) => says(cell, NOT_YET);
  const unguessed = (cell) => !clicked.has(cell.model) && says(cell, NO_GUESS);
  // What was seen once stays in sight until there is another guess: also where the cell is run again and fails.
  const told = (cell, guess) => {
    const compares = cell.model.executionCount !== null && !unguessed(cell) && !unread(cell)
      && !outputs(cell).some(({type}) => type === "error");
    if (compares) earned.set(cell.model, source(guess));
    return compares || clicked.has(cell.model) || earned.get(cell.model) === source(guess);
  };

  // The cell that compares a guess, if there is one, and all such pairs.
  const judge = (all, guess) => {
    const name = source(guess).match(/^\w+/)?.[0];
    return all.find((cell) => cell !== guess && cell.model.type === "code"
      && RegExp(`^(compare|judge_letters)\\(${name}\\b`, "m").test(source(cell)));
  };
  const compared = (all) => all.filter((cell) => tagged(cell, "prediction"))
    .map((guess) => [guess, judge(all, guess)]).filter(([, cell]) => cell);
  // A guess that was run as it came; once its answer has been asked for, that has a card.
  const noneYet = (cell, all) => tagged(cell, "prediction") && cell.model.executionCount !== null
    && /^\w+ *= *None\b/.test(source(cell)) && judge(all, cell)?.model.executionCount === null;

  // The texts below the cell that compares a guess, each with that cell: to the next guess or heading, where something
  // else begins, or to the next output, because what that shows is explained below it.
  const waiting = (all) => {
    const found = new Map();
    for (const [guess, cell] of compared(all)) {
      if (told(cell, guess)) continue;
      for (const text of all.slice(all.indexOf(cell) + 1)) {
        if (tagged(text, "prediction") || tagged(text, "exercise")) break;
        if (text.model.type === "code" && text.model.outputs.length) break;
        if (text.model.type !== "markdown") continue;
        if (source(text).startsWith("#")) break;
        found.set(text, cell);
        if (/^#/m.test(source(text))) break;
      }
    }
    return found;
  };
  // In the place of what waits: a sentence, and a button that shows all that waits for the same guess.
  const ask = (cell, words, show) => {
    const card = Object.assign(document.createElement("div"), {className: "course-first"});
    card.dataset.words = words;
    const button = Object.assign(document.createElement("button"), {textContent: ANYWAY});
    if (show) button.addEventListener("click", show);
    if (words) card.append(Object.assign(document.createElement("p"), {textContent: words}));
    if (show) card.append(button);
    if (cell.model.type === "code") cell.node.append(card); else cell.node.prepend(card);
  };
  // `run` runs a cell: one whose guess cannot be read tells the answer when it is run again.
  const mark = (notebook, run) => {
    const all = [...notebook.widgets], wait = waiting(all);
    const show = (cell) => {
      clicked.add(cell.model);
      if (unread(cell)) run(cell);
      mark(notebook, run);
    };
    const first = new Set(compared(all).map(([, cell]) => cell).filter((cell) => unguessed(cell) || unread(cell)));
    // What waits right below something that waits for the same guess needs no card of its own.
    const joined = new Set([...wait].filter(([cell, asks]) => {
      const above = all[all.indexOf(cell) - 1];
      return above === asks ? first.has(above) : wait.get(above) === asks;
    }).map(([cell]) => cell));
    for (const cell of all) {
      const [kind, words] = cell.model.type === "code" ? label(cell, all) : [];
      // Where a guess cannot be read, the output itself says what to write.
      const asked = joined.has(cell) ? null : wait.has(cell) ? WAITS : noneYet(cell, all) ? NONE_YET
        : !first.has(cell) ? null : unread(cell) ? "" : FIRST;
      set(cell, "courseKind", kind);
      set(cell, "courseLabel", words);
      set(cell, "courseWaits", wait.has(cell) && (joined.has(cell) ? "joined" : "yes"));
      set(cell, "courseFirst", first.has(cell) && (unread(cell) ? "unread" : "none"));
      const card = cell.node.querySelector(":scope > .course-first");
      if (card && card.dataset.words !== asked) card.remove();
      if (asked !== null && card?.dataset.words !== asked) {
        ask(cell, asked, asked !== NONE_YET && (() => show(wait.get(cell) || cell)));
      }
    }
  };

  // A picture that is clicked fits the window; clicked again, it is large and scrolls; a third click makes it fit again.
  const enlarge = ({target}) => {
    if (!target.matches(".course-drawn, .course-picture img")) return;
    const dialog = document.body.appendChild(Object.assign(document.createElement("dialog"), {className: "course-whole"}));
    const picture = Object.assign(new Image(), {src: target.src, alt: target.alt});
    const close = Object.assign(document.createElement("button"), {textContent: "✕", ariaLabel: "Close", title: "Close"});
    picture.style.setProperty("--shape", target.naturalWidth / target.naturalHeight);
    picture.style.setProperty("--own", `${target.naturalWidth / 2}px`);
    picture.addEventListener("click", () => dialog.classList.toggle("course-large"));
    dialog.append(picture, close);
    dialog.addEventListener("click", ({target: clicked}) => { if (clicked !== picture) dialog.close(); });
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  };

  // The lines of an error without colours, which are the course's own, so that one that is too long goes on further in.
  const lines = (notebook) => {
    for (const text of notebook.node.querySelectorAll("[data-mime-type$=stderr] > pre")) {
      if (text.childElementCount) continue;
      text.replaceChildren(...text.textContent.replace(/\n$/, "").split("\n").map((line) => {
        const one = Object.assign(document.createElement("span"), {className: "course-line", textContent: line});
        one.style.setProperty("--in", line.match(/^ */)[0].length);
        return one;
      }));
    }
  };

  // A full stop or a comma after a formula never begins a line: a browser may break there, whatever the letters are.
  const join = (notebook) => {
    for (const formula of notebook.node.querySelectorAll("mjx-container:not([display], .course-joined > *)")) {
      const after = formula.nextSibling, stop = after?.nodeType === Node.TEXT_NODE && after.data.match(/^[^\s\w]+/)?.[0];
      if (!stop) continue;
      const whole = Object.assign(document.createElement("span"), {className: "course-joined"});
      formula.replaceWith(whole);
      after.data = after.data.slice(stop.length);
      whole.append(formula, stop);
    }
  };

  const activate = (app) => {
    document.head.append(Object.assign(document.createElement("link"), {rel: "stylesheet", href: CSS}));
    const known = new WeakSet();
    const follow = async ({content: notebook, context}) => {
      if (known.has(context) || !context?.path.endsWith(".ipynb") || !notebook?.node) return;
      known.add(context);
      await context.ready;
      let asked = 0;  // many signals come together
      const run = (cell) => {
        notebook.activeCellIndex = notebook.widgets.indexOf(cell);
        app.commands.execute("notebook:run-cell");
      };
      const soon = () => { asked ||= requestAnimationFrame(() => { asked = 0; mark(notebook, run); }); };
      notebook.node.addEventListener("click", enlarge);
      let joining = 0;
      new MutationObserver(() => { joining ||= requestAnimationFrame(() => { joining = 0; join(notebook); lines(notebook); }); })
        .observe(notebook.node, {childList: true, subtree: true});
      context.model.contentChanged.connect(soon);
      soon();
      // In a chapter of which nothing has run, the first Shift+Enter draws its picture: the text above needs no running.
      const code = notebook.widgets.filter(({model}) => model.type === "code");
      if (notebook.activeCellIndex === 0 && code.length && code.every(({model}) => model.executionCount === null)) {
        notebook.activeCellIndex = notebook.widgets.indexOf(code[0]);
      }
    };
    const all = () => [...app.shell.widgets("main")].forEach((widget) => follow(widget).catch(console.warn));
    app.shell.currentChanged?.connect(all);
    app.restored.then(all);
  };
  const plugin = {id: "course-cells:plugin", description: "Marks the cells of a chapter", autoStart: true, activate};
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["course-cells"] = {init: () => {}, get: async () => () => ({default: plugin, __esModule: true})};
})();
