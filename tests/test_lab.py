"""What make lab starts, and what it says instead where JupyterLab cannot be started as it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from small_course import NAME, make_course

from exercises_tests.__main__ import main
from exercises_tests.tools import lab
from exercises_tests.tools.chapters import ROOT, ChapterError


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course after `make lab`, on a machine with an ordinary user."""
    course = make_course(tmp_path)
    assert main(["lab", "--copy-only"], course) == 0
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(lab, "can_write", lambda folder: True)
    return course


def test_jupyterlab_opens_on_the_start_page_also_at_the_printed_address(course):
    start = lab.prepared(["--port=9999"], course, {})
    assert start.command[1:3] == ["-m", "jupyterlab"] and start.command[-1] == "--port=9999"
    assert "--LabApp.default_url=/lab/tree/start.md" in start.command
    assert f"--ServerApp.root_dir={course / 'work'}" in start.command


def test_without_a_start_page_it_opens_on_the_first_chapter(course):
    (course / "work" / "start.md").unlink()
    assert f"--LabApp.default_url=/lab/tree/{NAME}.ipynb" in lab.prepared([], course, {}).command


def test_the_command_runs_what_was_prepared(course, monkeypatch):
    started = []
    monkeypatch.setattr(os, "execve", lambda path, arguments, environment: started.append(arguments))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    main(["lab", "--port=9999"], course)
    assert [arguments[-1] for arguments in started] == ["--port=9999"]


def test_the_courses_defaults_are_read_before_those_of_the_machine(course):
    paths = lab.prepared([], course, {"JUPYTER_CONFIG_PATH": "/etc/elsewhere"}).environment["JUPYTER_CONFIG_PATH"]
    first, second = paths.split(os.pathsep)
    defaults = json.loads((lab.SETTINGS / "labconfig" / "default_setting_overrides.json").read_text())
    assert first == str(lab.SETTINGS) and second == "/etc/elsewhere"
    assert defaults["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"]["markdown"] == "Markdown Preview"
    assert defaults["@jupyterlab/notebook-extension:tracker"]["codeCellConfig"]["lineWrap"] is False  # it scrolls


def test_the_extensions_that_keep_the_start_page_fresh_and_mark_cells_are_loaded(course):
    (option,) = [part for part in lab.prepared([], course, {}).command if "labextensions" in part]
    found = {about.parent.name: about for about in Path(option.partition("=")[2]).glob("*/package.json")}
    assert sorted(found) == ["course-cells", "course-start"]
    for about in found.values():
        assert (about.parent / json.loads(about.read_text())["jupyterlab"]["_build"]["load"]).is_file()


def test_the_theme_follows_the_system(course):
    defaults = json.loads((lab.SETTINGS / "labconfig" / "default_setting_overrides.json").read_text())
    assert defaults["@jupyterlab/apputils-extension:themes"] == {"adaptive-theme": True}


def test_root_is_told_what_to_type(course, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for typed, advised in (([], "--allow-root"), (["--no-browser"], "--no-browser --allow-root")):
        with pytest.raises(ChapterError, match=f'make lab ARGS="{advised}"'):
            lab.prepared(typed, course, {})
    assert lab.prepared(["--allow-root"], course, {}).command


def test_a_home_that_cannot_be_written_to_is_replaced_and_said(course, monkeypatch):
    monkeypatch.setattr(lab, "can_write", lambda folder: False)
    start = lab.prepared([], course, {"IPYTHONDIR": "/mine"})
    assert lab.NO_HOME in start.sentences
    assert start.environment["JUPYTER_RUNTIME_DIR"] == str(course / "work" / ".jupyter" / "runtime")
    assert start.environment["IPYTHONDIR"] == "/mine"  # who has named a folder has meant it


def test_on_a_hub_nothing_is_started_and_a_sentence_says_what_to_open(course):
    start = lab.prepared([], course, {"JUPYTERHUB_SERVICE_PREFIX": "/user/ada/"})
    assert start.command == [] and start.sentences == [lab.HUB]
    assert "start.md" in lab.HUB and "%pip install -e .." in lab.HUB


def test_over_ssh_the_tunnel_is_told_and_no_browser_opened(course):
    start = lab.prepared([], course, {"SSH_CONNECTION": "10.0.0.1 22"})
    assert lab.REMOTE in start.sentences and "--no-browser" in start.command


@pytest.mark.parametrize("environ", [{}, {"SSH_CONNECTION": "10.0.0.1 22", "BROWSER": "/an/editors/helper"}])
def test_where_a_browser_can_be_opened_it_is(course, environ):
    start = lab.prepared([], course, environ)
    assert lab.REMOTE not in start.sentences and "--no-browser" not in start.command


def test_the_help_tells_copying_from_starting_without_a_browser(capsys):
    with pytest.raises(SystemExit):
        main(["lab", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "do not start JupyterLab" in said and "--no-browser starts it without opening a browser" in said


def test_the_settings_of_a_hub_are_written_once_and_never_over_others(tmp_path):
    assert lab.write_settings(tmp_path) == lab.write_settings(tmp_path)
    path = tmp_path / "etc" / "jupyter" / "jupyter_lab_config.json"
    assert json.loads(path.read_text())["LabApp"]["default_url"] == "/lab/tree/work/start.md"
    assert list((tmp_path / "share" / "jupyter" / "labextensions").glob("*/static/*.js"))
    path.write_text("{}")
    with pytest.raises(ChapterError, match="says something else: nothing was written"):
        lab.write_settings(tmp_path)


def test_the_page_of_unusual_machines_tells_the_same():
    assert "(docs/machines.md)" in (ROOT / "README.md").read_text()
    text = " ".join((ROOT / "docs" / "machines.md").read_text().split())
    for words in ("make lab ARGS=--allow-root", "make lab ARGS=--no-browser", "work/.jupyter/",
                  "ssh -L 8888:localhost:8888", "%pip install -e .."):
        assert words in text
