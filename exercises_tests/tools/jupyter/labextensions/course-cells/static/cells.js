// Marks the cells of a chapter by their tags, so that cells.css can show what each is for, lets an answer and the texts
// that tell it wait for a guess, and shows a picture of a narrow window at its own size. A cell's node only gets data-*
// attributes and, where an answer waits, a card of its own: without this file nothing is missing.
(() => {
  const CSS = new URL("cells.css", document.currentScript.src).href;
  const WAITS = "This text waits for your guess above.";
  const FIRST = "Guess first: write your guess in the place of None, and run both cells.";
  const ANYWAY = "Show the answer without a guess";
  const NOT_YET = /The answer is not shown yet/;  // what course_lib.notebook says to a guess that it cannot read
  const NO_GUESS = /^no guess/m;  // and what course_lib.notebook says beside the answer where the guess is None
  const clicked = new WeakSet();
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
  const told = (cell) => clicked.has(cell.model) || cell.model.executionCount !== null && !unguessed(cell) && !unread(cell)
    && !outputs(cell).some(({type}) => type === "error");

  // The places of the cells that compare a guess.
  const compared = (all) => all.filter((cell) => tagged(cell, "prediction")).map((guess) => {
    const name = source(guess).match(/^\w+/)?.[0];
    return all.findIndex((cell) => cell !== guess && cell.model.type === "code"
      && RegExp(`^(compare|judge_letters)\\(${name}\\b`, "m").test(source(cell)));
  }).filter((place) => place >= 0);

  // The texts below the cell that compares a guess, each with that cell: to the next guess or heading, where something
  // else begins, or to the next output, because what that shows is explained below it.
  const waiting = (all) => {
    const found = new Map();
    for (const place of compared(all)) {
      if (told(all[place])) continue;
      for (const text of all.slice(place + 1)) {
        if (tagged(text, "prediction") || tagged(text, "exercise")) break;
        if (text.model.type === "code" && text.model.outputs.length) break;
        if (text.model.type !== "markdown") continue;
        if (source(text).startsWith("#")) break;
        found.set(text, all[place]);
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
    button.addEventListener("click", show);
    if (words) card.append(Object.assign(document.createElement("p"), {textContent: words}));
    card.append(button);
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
    const first = new Set(compared(all).map((place) => all[place]).filter((cell) => unguessed(cell) || unread(cell)));
    for (const cell of all) {
      const [kind, words] = cell.model.type === "code" ? label(cell, all) : [];
      const asked = wait.has(cell) ? WAITS : unread(cell) ? "" : FIRST;  // its own output says what to write anew
      set(cell, "courseKind", kind);
      set(cell, "courseLabel", words);
      set(cell, "courseWaits", wait.has(cell) && "yes");
      set(cell, "courseFirst", first.has(cell) && (unread(cell) ? "unread" : "none"));
      const card = cell.node.querySelector(":scope > .course-first");
      if ((wait.has(cell) || first.has(cell)) && card?.dataset.words !== asked) {
        card?.remove();
        ask(cell, asked, () => show(wait.get(cell) || cell));
      }
    }
  };

  // A picture that is clicked in a narrow window fills it, until it is clicked again.
  const NARROW = matchMedia("(max-width: 760px)");
  const enlarge = ({target}) => {
    if (!NARROW.matches || !target.matches(".course-drawn, .course-picture img")) return;
    const dialog = document.body.appendChild(Object.assign(document.createElement("dialog"), {className: "course-whole"}));
    const large = Object.assign(new Image(), {src: target.src, alt: target.alt});
    large.style.setProperty("--own", target.style.getPropertyValue("--own"));
    dialog.append(large);
    dialog.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
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
      context.model.contentChanged.connect(soon);
      soon();
    };
    const all = () => [...app.shell.widgets("main")].forEach((widget) => follow(widget).catch(console.warn));
    app.shell.currentChanged?.connect(all);
    app.restored.then(all);
  };
  const plugin = {id: "course-cells:plugin", description: "Marks the cells of a chapter", autoStart: true, activate};
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["course-cells"] = {init: () => {}, get: async () => () => ({default: plugin, __esModule: true})};
})();
