"""The commands script and solved, and what every command says to bad input."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_course import ANSWER, NAME, cells, edit, make_course, save, sources

from exercises_tests.__main__ import main
from exercises_tests.tools import chapters, copies


@pytest.fixture
def course(tmp_path):
    return make_course(tmp_path)


@pytest.fixture
def working(tmp_path):
    """A course after `make lab`, and the learner's copy of its chapter."""
    course = make_course(tmp_path)
    assert main(["lab", "--copy-only"], course) == 0
    return course, course / "work" / f"{NAME}.ipynb"


def solve(copy):
    edit(copy, total=ANSWER)


def test_script_holds_imports_answers_and_the_demo_under_a_main_guard(working):
    course, copy = working
    solve(copy)
    assert main(["script", "ch98"], course) == 0
    text = (course / "work" / f"{NAME}.py").read_text()
    ast.parse(text)
    assert "import os" in text and ANSWER in text
    demo = text.split('if __name__ == "__main__":\n')[1]
    assert demo == '    text = """first\nsecond"""\n    print_once(total(os, ranks=6))\n'


def test_the_slurm_file_is_bash_and_asks_for_as_many_ranks_as_the_demo(working):
    course, copy = working
    solve(copy)
    main(["script", "ch98"], course)
    path = course / "work" / f"{NAME}.slurm"
    assert subprocess.run(["bash", "-n", str(path)], timeout=600).returncode == 0
    text = path.read_text()
    assert text.startswith("#!/bin/bash\n")
    assert "#SBATCH --nodes=2\n" in text and "--nproc-per-node=3" in text and "--rdzv-endpoint" in text


def test_the_lines_that_script_prints_work_in_any_shell(working, capsys, tmp_path):
    course, copy = working
    solve(copy)
    main(["script", "ch98"], course)
    here, cluster = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}  # nothing is activated
    program, options = here.split(" --standalone ")
    done = subprocess.run(f"{program} --help", shell=True, cwd=course, env=bare, capture_output=True, timeout=600)
    assert done.returncode == 0 and b"--standalone" in done.stdout
    assert options == f"--nproc-per-node=6 work/{NAME}.py"
    slurm = tmp_path / "bin" / "sbatch"  # stands in for Slurm's, which hands on the environment
    slurm.parent.mkdir()
    slurm.write_text('#!/bin/sh\ntest -e "$1" && command -v torchrun')
    slurm.chmod(0o755)
    found = subprocess.run(cluster, shell=True, cwd=course, env=bare | {"PATH": f"{slurm.parent}:/usr/bin:/bin"},
                           capture_output=True, text=True, timeout=600)
    assert found.stdout.strip() == str(Path(sys.executable).parent / "torchrun")


def test_script_writes_its_own_files_again(working):
    course, copy = working
    solve(copy)
    main(["script", "ch98"], course)
    edit(copy, total=ANSWER + "  # better")
    assert main(["script", "ch98"], course) == 0
    assert "# better" in (course / "work" / f"{NAME}.py").read_text()


@pytest.mark.parametrize("suffix", ["py", "slurm"])
def test_script_refuses_to_overwrite_a_file_that_was_edited(working, capsys, suffix):
    course, copy = working
    solve(copy)
    main(["script", "ch98"], course)
    written = course / "work" / f"{NAME}.{suffix}"
    written.write_text(written.read_text() + "# mine\n")
    assert main(["script", "ch98"], course) == 2
    assert written.read_text().endswith("# mine\n")
    assert "was edited or not written by make script" in capsys.readouterr().err


def test_script_overwrites_by_force(working):
    course, copy = working
    solve(copy)
    (course / "work" / f"{NAME}.py").write_text("mine")
    assert main(["script", "ch98", "--force"], course) == 0
    assert ANSWER in (course / "work" / f"{NAME}.py").read_text()


def test_script_names_the_stub_that_its_demo_needs(working, capsys):
    course, _ = working
    assert main(["script", "ch98"], course) == 2
    assert f"The demo of {NAME} needs total: write it in work/{NAME}.ipynb" in capsys.readouterr().err


def test_script_names_a_stub_that_another_answer_uses(working, capsys):
    course, copy = working
    edit(copy, total="def total(dist, value):\n    return Counter().add()")
    assert main(["script", "ch98"], course) == 2
    assert "needs Counter" in capsys.readouterr().err


def test_script_names_a_cell_that_is_not_plain_python(working, capsys):
    course, copy = working
    edit(copy, total="%%time\n" + ANSWER)
    assert main(["script", "ch98"], course) == 2
    assert "cell total, line 1 is not plain Python" in capsys.readouterr().err


def test_script_of_a_chapter_without_a_demo_says_so(course, capsys):
    save(course / "notebooks" / f"{NAME}.ipynb", [c for c in cells() if c.id != "demo"])
    main(["lab", "--copy-only"], course)
    assert main(["script", "ch98"], course) == 2
    assert "has no cell tagged script" in capsys.readouterr().err


def test_script_before_lab_says_what_is_missing(course, capsys):
    assert main(["script", "ch98"], course) == 2
    assert capsys.readouterr().err == f"work/ has no copy of {NAME}: make lab makes one.\n"


def test_solved_writes_the_solved_chapter(course):
    assert main(["solved", "ch98", str(course / "out.ipynb")], course) == 0
    assert "return value * dist" in sources(course / "out.ipynb")["total"]


@pytest.mark.parametrize("command", [["lab", "--copy-only"], ["update"], ["script", "ch98"]])
def test_a_pristine_chapter_that_is_not_json_is_one_sentence_and_exit_code_2(course, capsys, command):
    (course / "notebooks" / f"{NAME}.ipynb").write_text("{broken")
    assert main(command, course) == 2
    said = capsys.readouterr().err
    assert "is not a notebook: it is not JSON" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", [["lab", "--copy-only"], ["update"], ["script", "ch98"]])
def test_a_work_folder_that_cannot_be_used_is_one_sentence_and_exit_code_2(course, capsys, command):
    (course / "work").write_text("a file")
    assert main(command, course) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to a read-only folder")
def test_a_read_only_work_folder_is_one_sentence(course, capsys):
    (course / "work").mkdir(mode=0o555)
    assert main(["lab", "--copy-only"], course) == 2
    assert "cannot be written: Permission denied" in capsys.readouterr().err


def test_a_write_that_is_refused_is_one_sentence_and_exit_code_2(course, capsys, monkeypatch):
    def refuse(**options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(copies.tempfile, "NamedTemporaryFile", lambda *a, **options: refuse(**options))
    assert main(["lab", "--copy-only"], course) == 2
    assert capsys.readouterr().err == f"{course}/work/{NAME}.ipynb cannot be written: Permission denied.\n"


def test_the_commands_run_as_a_module(course):
    shutil.copytree(chapters.ROOT / "exercises_tests", course / "exercises_tests",
                    ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-m", "exercises_tests", "lab", "--copy-only"], cwd=course,
                          capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, f"Copied {NAME} to work/{NAME}.ipynb.\n")
