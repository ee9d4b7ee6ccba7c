// Reads the start page again, where it has changed, when its tab or the browser's window is looked at again: JupyterLab
// itself does so only when the browser's page is reloaded. In a narrow window it begins without the list of files, which
// would take half of it, and the page without its picture. Written as JupyterLab loads an extension that is built.
(() => {
  const PAGE = "start.md", NARROW = matchMedia("(max-width: 900px)");
  const LOOKS = "@media (max-width: 1100px) { .course-start-picture { display: none; } }"
    + ".jp-MarkdownViewer :is(h1, .course-start-title) { line-height: 1.2; }"
    + ".jp-MarkdownViewer :is(h1, p, div) { text-wrap: pretty; }";
  const activate = (app) => {
    document.head.append(Object.assign(document.createElement("style"), {textContent: LOOKS}));
    const reread = async (widget) => {
      const {context} = widget;
      if (context?.path.split("/").pop() !== PAGE || !context.isReady || context.model.dirty) return;
      const there = await app.serviceManager.contents.get(context.path, {content: false});
      if (there.last_modified !== context.contentsModel.last_modified) await context.revert();
    };
    const all = () => [...app.shell.widgets("main")].forEach((widget) => reread(widget).catch(console.warn));
    app.shell.currentChanged?.connect(all);
    window.addEventListener("focus", all);
    // Once what was open is back, JupyterLab opens its address, this page, over a chapter that was clicked meanwhile.
    app.restored.then(() => {
      let chosen = null;
      const heard = (_, {id, args, result}) => {
        if (["rendermime:handle-local-link", "docmanager:open"].includes(id) && args.path !== PAGE) chosen = args.path;
        if (id === "filebrowser:open-path") result.then(() => {
          app.commands.commandExecuted.disconnect(heard);
          const found = [...app.shell.widgets("main")].find(({context}) => chosen && context?.path === chosen);
          if (found) app.shell.activateById(found.id);
        });
      };
      app.commands.commandExecuted.connect(heard);
    });
    const shut = () => { if (NARROW.matches) app.shell.collapseLeft(); };
    NARROW.addEventListener("change", shut);  // a window that is made narrow, too
    // In a workspace that is new, JupyterLab opens the list when it is restored, and it may do so after us.
    app.restored.then(() => { shut(); requestAnimationFrame(() => setTimeout(shut)); });
  };
  const plugin = {id: "course-start:plugin", description: "Reads the start page again", autoStart: true, activate};
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["course-start"] = {init: () => {}, get: async () => () => ({default: plugin, __esModule: true})};
})();
