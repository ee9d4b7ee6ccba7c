"""In a notebook, shows what goes wrong in a call of this course as one sentence with the learner's line.

Why not raise such sentences where they happen? What the course refuses, it does refuse in a sentence; but Python itself
refuses a keyword that is not there, and a number where a result was wanted fails anywhere. A notebook's handler of
exceptions sees them all. `%tb` still shows every line.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from types import FrameType, ModuleType
from typing import Any

from course_lib import chapter_names, slips
from course_lib.cards import Told, in_notebook
from course_lib.engine.libraries import is_library, part_of_package
from course_lib.results import RankFailed, instead, line_of, short

KINDS = (NotImplementedError, TypeError, AttributeError, NameError, LookupError, ImportError, ValueError, RuntimeError,
         RankFailed, Told)  # fmt: skip
OURS = ("course_lib", "exercises_tests")
FEW = 12  # names that are listed
LONG = 100  # letters of a signature
ABOVE = "`{}` is made in an earlier cell: Run > Run All Above Selected Cell"
GUESSED = "`{}` is a guess in the cell above: write {} in place of None, and run that cell"
UNWRITTEN = "`{}` is an exercise that is not written or not run yet: write it, or borrow it, and run its cell"
IMPORTED = ("`{}` comes from the cell with the imports, near the top of the chapter: run it first, or "
            "Run > Run All Above Selected Cell")  # fmt: skip
_CALL = re.compile(r"([\w.<>]+)\(\) (?:got|missing|takes) .*", re.DOTALL)
_KEYWORD = re.compile(r"got an unexpected keyword argument '(\w+)'")


def near(name: str, known: Iterable[str]) -> str:
    """Return the words "did you mean ...?" for a name that is not known, or nothing."""
    known = list(known)
    small = {one.lower(): one for one in known}
    found = get_close_matches(name, known, 1) or [small[one] for one in get_close_matches(name.lower(), small, 1)]
    return f"did you mean {found[0]}?" if found else ""


def with_meant(said: str, message: str, known: Iterable[str]) -> str:
    """Return `said` with the name that was meant, where `message` in it is about one that is not there."""
    missing = re.search(r"name '(\w+)' is not defined", message)
    if not missing or "did you mean" in said:
        return said
    hint = near(missing[1], [name for name in known if not name.startswith("_")])
    return said.replace(missing[0], f"{missing[0]}; {hint}", 1) if hint else said


def _hint(name: str, known: Iterable[str]) -> str:
    """Return what a name was meant to be, or all that there is, if it is little; as the end of a sentence."""
    found = [one for one in known if not one.startswith("_")]
    checks = [one for one in found if one.startswith("check_")]
    found = checks if name.startswith("check_") and checks else found
    words = near(name, found) or (f"it has {', '.join(found)}" if 0 < len(found) <= FEW else "")
    return words and f": {words}"


def install() -> bool:
    """Let the notebook that runs this, if any, show short errors; return whether there is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        shell.set_custom_exc(KINDS, _show)
    return shell is not None


def _show(shell: Any, kind: type, error: BaseException, stack: Any, tb_offset: Any = None) -> list[str]:
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, stack  # what %tb shows
    if isinstance(error, Told) and in_notebook():
        from IPython.display import display

        display({"text/plain": str(error), "text/html": error.card()}, raw=True)
        shell._last_traceback = error._render_traceback_()  # the reply says that the cell has failed, and why
        return []
    if isinstance(error, RankFailed) and error.error == "NameError":
        missing = re.search(r"name '(\w+)' is not defined", error.message)
        above = missing and _above(missing[1], _cell(shell))
        (said,) = error._render_traceback_()
        told = f"{said}\n{above}" if above else with_meant(said, error.message, shell.user_ns)
        if told != said:  # a rank has only the names that its function uses
            shell._showtraceback(kind, error, [told])
            return []
    said = None if hasattr(error, "_render_traceback_") else sentence(error, shell.user_ns, _cell(shell))
    if said is None:
        shell.showtraceback((kind, error, stack), tb_offset=tb_offset)
        return []
    shell._showtraceback(kind, error, [said])
    return []


def _cell(shell: Any) -> str:
    """Return the id of the cell that runs, where the notebook's program tells it."""
    parent = shell.kernel.get_parent() if getattr(shell, "kernel", None) else None
    return ((parent or {}).get("metadata") or {}).get("cellId") or ""


def sentence(error: BaseException, names: dict[str, Any], cell: str = "") -> str | None:
    """Return an error in short, or None where the learner needs the traceback: it is in their own code.

    `names` are the learner's; `cell` is the id of the cell that runs.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [place for place, frame in enumerate(frames) if not is_library(frame.f_code.co_filename)]
    if isinstance(error, NotImplementedError):
        name = raiser(error)
        unwritten = not str(error) and name and not name.startswith("<")
        return f"NotImplementedError: needs {name}: write it, or borrow it" if unwritten else None
    if not own:
        return None
    last, inner = frames[own[-1]], frames[own[-1] + 1 :]
    said = _misspelt(error, names, cell) or _misfit(error, names, last) or _of_tuple(error, last)
    said = said or (_refused(error, inner) if inner else None)
    return said and f"{type(error).__name__}: {said}{_lines(error, own)}"


def raiser(error: BaseException) -> str:
    """Return the learner's function or class in which an exception was raised."""
    code = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [
        c.co_qualname.rpartition("<locals>.")[2].partition(".")[0]
        for c in code
        if not is_library(c.co_filename)
    ]
    return names[-1] if names else ""


def _lines(error: BaseException, own: Sequence[int]) -> str:
    stack = list(traceback.walk_tb(error.__traceback__))
    shown = [(stack[place][0].f_code.co_filename, stack[place][1], stack[place][0].f_code.co_name) for place in own]
    last = {frame[:2]: frame for frame in reversed(shown)}  # of a line and the loop inside it, the line
    return "".join(f"\n    {line_of(*frame)}" for frame in [*reversed(last.values())][-3:])


def _misspelt(error: BaseException, names: dict[str, Any], cell: str) -> str | None:
    """Return what a name was meant to be that is not there."""
    if isinstance(error, NameError):
        name = getattr(error, "name", None) or ""
        if f"check_{name}" not in names and (above := _above(name, cell)):
            return above
        if name in part_of_package("course_lib.__all__"):  # an import would make a circle
            return f"{error}: from course_lib import {name}"
        if f"check_{name}" in names:
            return UNWRITTEN.format(name)
        if cell.startswith("guess_"):
            return _bare_word(name, cell)
        hint = near(name, [known for known in (*names, *dir(builtins)) if not known.startswith("_")])
        if not hint and name.startswith("check_"):
            hint = "run the cell with the imports first, near the top of the chapter"
        return f"{error}: {hint}" if hint else None
    if isinstance(error, KeyError):
        return _no_row(error, names)
    if isinstance(error, AttributeError) and getattr(error, "name", None) and _is_ours(error.obj):
        what = error.obj
        label = what.__name__ if isinstance(what, ModuleType | type) else type(what).__name__
        return f"{label} has no {error.name!r}{_hint(error.name, dir(what))}"
    if isinstance(error, ImportError):
        found = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
        if found and found[2].partition(".")[0] in OURS:
            return f"{found[2]} has no {found[1]!r}{_hint(found[1], dir(sys.modules[found[2]]))}"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in OURS:
        package, _, name = error.name.rpartition(".")
        return f"{package or 'the course'} has no module {name!r}{_hint(name, _modules(package))}"
    return None


def _bare_word(name: str, cell: str) -> str:
    """Return what to write for a word that stands in the place of a guess."""
    if _in_letters(cell):
        return f'{name} has no quotes: write "{name}"'
    return f"{name} is {slips.meant(name, '') or 'a word: write a number'}"


def _in_letters(cell: str) -> bool:
    """Return whether the guess of a cell is one in letters, in quotes."""
    return "in quotes" in chapter_names.source_of(cell)


def _above(name: str, cell: str) -> str:
    """Return that a cell above makes a name, "" where none does."""
    made = chapter_names.made_before(name, cell)
    if made and made == name and name.startswith("guess_"):
        return GUESSED.format(name, "your letters" if _in_letters(made) else "a number")
    words = {"imports": IMPORTED, name: UNWRITTEN}  # an exercise's cell is called as what it asks for
    return made and words.get(made, ABOVE).format(name)


def _no_row(error: KeyError, names: dict[str, Any]) -> str | None:
    """Return which row of a table of the course, as MODELS or GPUS, was meant on the learner's line."""
    frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
    source = linecache.getline(frame.f_code.co_filename, line)
    for table in re.findall(r"\b([A-Z_]+)\[", source):
        found = _look_up(table, names, dict)
        if found and error.args and isinstance(error.args[0], str) and error.args[0] not in found:
            key, rows = error.args[0], [row for row in found if isinstance(row, str)]
            inside = [row for row in rows if key.lower() in row.lower()]
            meant = f"did you mean {' or '.join(inside)}?" if inside else near(key, rows)
            words = meant or f"it has {', '.join(rows)}"
            return f"{table} has no {key!r}: {words}"
    return None


def _modules(package: str) -> list[str]:
    import pkgutil

    found = sys.modules.get(package)
    return [module.name for module in pkgutil.iter_modules(getattr(found, "__path__", None) or [])]


def _misfit(error: BaseException, names: dict[str, Any], last: FrameType) -> str | None:
    """Return how a function of the course, or one that runs on ranks, should have been called in the frame `last`."""
    found = _CALL.fullmatch(str(error)) if isinstance(error, TypeError) else None
    if not found:
        return None
    called = found[1].removesuffix(".__init__").removesuffix(".__new__").rpartition("<locals>.")[2]
    target = _look_up(called, names)
    if target is None:
        return None
    signature = _signature(target)
    if not _is_ours(target):
        takes = list(signature.parameters)
        if "missing" in str(error) and takes[:1] == ["dist"] and last.f_code.co_name == "<module>":
            call = ", ".join([called, *takes[1:], "ranks=4"])
            return f"{called} runs on ranks, and run gives each rank its dist: run({call})"
        return None
    keyword = _KEYWORD.search(str(error))
    if keyword:
        takes = [name for name in signature.parameters if name not in ("args", "kwargs", "self")]
        hint = near(keyword[1], takes) or f"it takes {', '.join(takes) or 'nothing'}"
        return f"{called} does not take {keyword[1]}=: {hint}"
    return f"{str(error)[: -len(found[0])]}{found[0]}: it takes {called}{_in_short(signature)}"


def _of_tuple(error: BaseException, last: FrameType) -> str:
    """Return what to write where a line puts something into a place of a tuple, "" where it does not."""
    line = list(traceback.walk_tb(error.__traceback__))[-1][1]
    said = instead(str(error), [(last.f_code.co_filename, line, "")])
    return said and f"{error}{said}"


def _in_short(signature: inspect.Signature) -> str:
    """Return a signature; of a long one only what must be given."""
    if len(str(signature)) <= LONG:
        return str(signature)
    needed = [name for name, one in signature.parameters.items() if one.default is one.empty]
    return f"({', '.join([*needed, '...'])})"


def _look_up(called: str, names: dict[str, Any], kind: type | None = None) -> Any:
    """Return what is called so, if it is of a kind (default: can be called): a name of the learner's, or a part of a
    module that has a name."""
    first, *rest = called.split(".")
    found = names.get(first)
    if found is None:
        modules = [value for value in names.values() if isinstance(value, ModuleType) and _is_ours(value)]
        found = next((vars(module)[first] for module in modules if first in vars(module)), None)
    for name in rest:
        found = getattr(found, name, None)
    return found if (isinstance(found, kind) if kind else callable(found)) else None


def _signature(target: Any) -> inspect.Signature:
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return inspect.Signature()
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return inspect.Signature(plain)


def _is_ours(thing: Any) -> bool:
    known = thing if isinstance(thing, ModuleType | type) or hasattr(thing, "__code__") else type(thing)
    module = known.__name__ if isinstance(known, ModuleType) else getattr(known, "__module__", None) or ""
    return module.partition(".")[0] in OURS


def _refused(error: BaseException, inner: Sequence[FrameType]) -> str | None:
    """Return what a function of the course says of what it was given; `inner` are the frames of its call."""
    if inner[0].f_globals.get("__name__", "").partition(".")[0] not in OURS:
        return None
    last = inner[-1]
    lines = list(traceback.walk_tb(error.__traceback__))
    raised = linecache.getline(last.f_code.co_filename, lines[-1][1]).strip()
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    if raised.startswith("raise ") and last.f_globals.get("__name__", "").partition(".")[0] in OURS:
        return str(text)
    first = inner[0]
    name = first.f_code.co_name
    if name.startswith("<"):
        return None
    given = [first.f_locals.get(word) for word in first.f_code.co_varnames[: first.f_code.co_argcount]]
    said = ", ".join(one if len(one := _short(value)) < 40 else "..." for value in given if value is not None)
    target = first.f_globals.get(name)
    takes = _row_of(given) or (f"; it takes {name}{_in_short(_signature(target))}" if callable(target) else "")
    about = (inspect.getdoc(target) or "").partition("\n")[0] if callable(target) else ""
    return f"{name}({said}) does not work: {text}{takes}{about and chr(10) + '    ' + about}"


def _row_of(given: Sequence[Any]) -> str:
    """Return which row of a table was meant where a function was given its name only, as the end of a sentence."""
    for package, table in (("course_lib.models", "MODELS"), ("course_lib.hardware", "GPUS")):
        rows = getattr(sys.modules.get(package), table, {})
        if found := [value for value in given if isinstance(value, str) and value in rows]:
            return f"; did you mean {table}[{found[0]!r}]?"
    return ""


def _short(value: Any) -> str:
    try:
        return short(value)
    except Exception:  # a learner's own __repr__
        return f"a {type(value).__name__}"
