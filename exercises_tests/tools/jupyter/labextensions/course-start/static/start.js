// Reads the start page again, where it has changed, when its tab or the browser's window is looked at again: JupyterLab
// itself does so only when the browser's page is reloaded. In a narrow window it begins without the list of files, which
// would take half of it. Written as JupyterLab loads an extension that is built.
(() => {
  const PAGE = "start.md", NARROW = 800;  // pixels
  const activate = (app) => {
    const reread = async (widget) => {
      const {context} = widget;
      if (context?.path.split("/").pop() !== PAGE || !context.isReady || context.model.dirty) return;
      const there = await app.serviceManager.contents.get(context.path, {content: false});
      if (there.last_modified !== context.contentsModel.last_modified) await context.revert();
    };
    const all = () => [...app.shell.widgets("main")].forEach((widget) => reread(widget).catch(console.warn));
    app.shell.currentChanged?.connect(all);
    window.addEventListener("focus", all);
    app.restored.then(() => { if (window.innerWidth < NARROW) app.shell.collapseLeft(); });
  };
  const plugin = {id: "course-start:plugin", description: "Reads the start page again", autoStart: true, activate};
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["course-start"] = {init: () => {}, get: async () => () => ({default: plugin, __esModule: true})};
})();
