"""What `make lab` starts: JupyterLab in work/, on the start page, quietly; or a sentence where that cannot be."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exercises_tests.tools.chapters import ChapterError, chapters
from exercises_tests.tools.copies import write
from exercises_tests.tools.start_page import NAME

# labconfig/ has defaults that a learner's own settings override; labextensions/, what keeps the start page fresh;
# first_error.py is run by each kernel.
SETTINGS = Path(__file__).with_name("jupyter")
HUB = """\
This is a JupyterHub, where JupyterLab runs already: open start.md in the folder work/ (right-click it, Open With,
Markdown Preview). Where a chapter does not find course_lib, run %pip install -e .. in a cell and restart the kernel."""
AS_ROOT = """\
JupyterLab does not start as root unless it is told to, because a notebook may do whatever root may: be another user, or
type make lab ARGS="{0}" (without make: python -m exercises_tests lab {0})."""
REMOTE = """\
No browser is opened here. On the machine in front of you, type ssh -L 8888:localhost:8888 and this machine's name; then
open the address below there."""
NO_HOME = "Your home folder cannot be written to, so JupyterLab keeps its settings in work/.jupyter/ this time."
# Where Jupyter, IPython and matplotlib write, by the variable that says so.
KEPT_AT_HOME = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
                "IPYTHONDIR": "ipython", "MPLCONFIGDIR": "matplotlib"}  # fmt: skip


@dataclass
class Start:
    """What to say, and the command to run with its environment; no command where none is needed."""

    sentences: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def prepared(options: list[str], root: Path, environ: Mapping[str, str]) -> Start:
    """Return how JupyterLab is started for a learner, with JupyterLab's own options last: they win."""
    if "JUPYTERHUB_SERVICE_PREFIX" in environ:
        return Start([HUB])
    if importlib.util.find_spec("jupyterlab") is None:
        raise ChapterError("JupyterLab is not installed for this Python: make lab installs it, or pip install -e .")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options:
        raise ChapterError(AS_ROOT.format(" ".join([*options, "--allow-root"])))
    work, said = root / "work", []
    paths = [str(SETTINGS), *filter(None, [environ.get("JUPYTER_CONFIG_PATH")])]
    environment = {"PYTHONSTARTUP": str(SETTINGS / "first_error.py"), **environ,
                   "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}  # fmt: skip
    if not can_write(Path.home()):
        said.append(NO_HOME)
        environment |= {name: str(work / ".jupyter" / folder) for name, folder in KEPT_AT_HOME.items()
                        if name not in environ}
    # As an option, not as a file to open: so the address that is printed leads there as well.
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={work}",
               f"--LabApp.default_url=/lab/tree/{opening(root)}",
               f"--LabApp.extra_labextensions_path={SETTINGS / 'labextensions'}",
               "--log-level=ERROR", "--LabApp.log_level=ERROR"]
    said.append("Starting JupyterLab on the course's start page; Ctrl-C here ends it.")
    if "SSH_CONNECTION" in environ and "BROWSER" not in environ:  # an editor's terminal names one that opens over there
        said.append(REMOTE)
        command.append("--no-browser")
    return Start(said, command + options, environment)


def opening(root: Path) -> str:
    """Return the page in work/ that JupyterLab opens: the start page, or else the first chapter."""
    if (root / "work" / NAME).exists():
        return NAME
    return next((f"{chapter.name}.ipynb" for chapter in chapters(root)), "")


def can_write(folder: Path) -> bool:
    """Return whether files can be made in a folder, or the folder itself where it is missing."""
    return os.access(folder if folder.exists() else folder.parent, os.W_OK)


def write_settings(prefix: Path) -> list[str]:
    """Give every JupyterLab of an installation what `make lab` gives: settings and extension; return what was written.

    For the image of a hub, where the hub starts the servers. Raises ChapterError where somebody has settings there.
    """
    folder, labconfig = prefix / "etc" / "jupyter", Path("labconfig") / "default_setting_overrides.json"
    page = json.dumps({"LabApp": {"default_url": f"/lab/tree/work/{NAME}"}}, indent=2) + "\n"
    texts = {folder / labconfig: (SETTINGS / labconfig).read_text(), folder / "jupyter_lab_config.json": page}
    for path in sorted((SETTINGS / "labextensions").rglob("*.*")):
        texts[prefix / "share" / "jupyter" / path.relative_to(SETTINGS)] = path.read_text()
    for path, text in texts.items():
        if path.exists() and path.read_text() != text:
            raise ChapterError(f"{path} is there and says something else: nothing was written.")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)
    return [f"Wrote {path}." for path in texts]
