"""The commands: python -m exercises_tests lab|update|catch-up|script|solved|settings|grade|watch|submit, for make."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from exercises_tests.tools.catch_up import catch_up
from exercises_tests.tools.chapters import ROOT, ChapterError, find, solved
from exercises_tests.tools.copies import shown, to_work, update, write
from exercises_tests.tools.lab import prepared, write_settings
from exercises_tests.tools.parsing import Parser
from exercises_tests.tools.start_page import write_start
from exercises_tests.tools.torchrun_script import write_script

FAILED = 2
LAB = """\
Copy new chapters to work/ and open JupyterLab on the start page. Options that are not listed below go to JupyterLab:
--no-browser starts it without opening a browser, --port=9999 on another port."""


def main(argv: list[str], root: Path = ROOT) -> int:
    """Run one command; return its exit code: 0, or 2 after one sentence on stderr."""
    try:
        if argv[:1] in (["grade"], ["submit"]):  # they have options of their own
            from exercises_tests.grading import commands

            return commands.main(argv) or 0
        if argv[:1] == ["watch"]:
            from exercises_tests.grading import watch

            return watch.main(argv, root)
        options, rest = parser().parse_known_args(argv)
        if rest and options.command != "lab":
            parser().refuse(options.command, rest)
        return options.run(options, rest, root)
    except ChapterError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}.", file=sys.stderr)
    return FAILED


def parser() -> Parser:
    top = Parser(prog="python -m exercises_tests", description="The commands of the course.")
    commands = top.add_subparsers(dest="command", required=True)
    lab = commands.add_parser("lab", help="copy new chapters to work/ and open JupyterLab", description=LAB)
    lab.add_argument("--copy-only", action="store_true", help="copy new chapters to work/, and do not start JupyterLab")
    lab.set_defaults(run=run_lab)
    commands.add_parser("update", help="put answers in work/ on newer chapters").set_defaults(run=run_update)
    behind = commands.add_parser("catch-up", help="borrow the core exercises of a chapter that are not written yet")
    behind.add_argument("chapter")
    behind.set_defaults(run=run_catch_up)
    script = commands.add_parser("script", help="write a chapter for torchrun and Slurm")
    script.add_argument("chapter")
    script.add_argument("--force", action="store_true", help="overwrite files that were edited")
    script.set_defaults(run=run_script)
    answered = commands.add_parser("solved", help="write a chapter with the answers in it")
    answered.add_argument("chapter")
    answered.add_argument("to", nargs="?", type=Path, help="where to (default: work/solved/<chapter>.ipynb)")
    answered.set_defaults(run=run_solved)
    settings = commands.add_parser("settings", help="for the image of a hub: let every JupyterLab open the start page")
    settings.set_defaults(run=run_settings)
    for name in ("grade", "submit", "watch"):
        commands.add_parser(name, help=f"see: {name} --help", add_help=False)
    return top


def run_lab(options: argparse.Namespace, jupyter_options: list[str], root: Path) -> int:
    say(to_work(root))
    say(write_start(root))
    if options.copy_only:
        return 0
    start = prepared(jupyter_options, root, os.environ)
    say(start.sentences)
    sys.stdout.flush()
    if not start.command:
        return 0
    os.chdir(root)
    os.execve(start.command[0], start.command, start.environment)


def run_update(options: argparse.Namespace, rest: list[str], root: Path) -> int:
    said, well = update(root)
    say(said)
    return 0 if well else FAILED


def run_catch_up(options: argparse.Namespace, rest: list[str], root: Path) -> int:
    say(catch_up(options.chapter, root))
    return 0


def run_script(options: argparse.Namespace, rest: list[str], root: Path) -> int:
    say(write_script(options.chapter, root, options.force))
    return 0


def run_solved(options: argparse.Namespace, rest: list[str], root: Path) -> int:
    chapter = find(options.chapter, root)
    target = options.to or root / "work" / "solved" / f"{chapter.name}.ipynb"
    notebook = solved(chapter, root)
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target, notebook)
    say([f"Wrote {shown(target, root) if options.to is None else target}."])
    return 0


def run_settings(options: argparse.Namespace, rest: list[str], root: Path) -> int:
    say(write_settings(Path(sys.prefix)))
    return 0


def say(sentences: list[str]) -> None:
    for sentence in sentences:
        print(sentence)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
