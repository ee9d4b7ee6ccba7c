"""The fixed list of changes that `make mutants` makes to an answer, one at a time: general ones, and those of ranks.

A change is yielded as its name and the node that takes the place of another. Why not a package such as cosmic-ray or
mutmut? They write each mutant into the source file and start a whole test command for it, here five seconds to import
torch for a check of a tenth of a second, five thousand times; and of ranks and messages they know nothing.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

from mutations_of_ranks import made, of_ranks, with_

COMPARED = {ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt),
            ast.GtE: (ast.Gt, ast.LtE), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,),
            ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,)}  # fmt: skip
COUNTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
           ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitXor: ast.Add}  # fmt: skip
PAIRS = ("sum mean", "max min", "amax amin", "argmax argmin", "MAX SUM", "any all", "log exp", "ceil floor",
         "zeros ones", "zeros_like ones_like", "triu tril", "left right", "to source", "going coming", "inside across",
         "previous following", "forwards backwards", "issuperset issubset", "rank ranks",
         "get_rank get_world_size")  # fmt: skip
OTHER = {a: b for pair in map(str.split, PAIRS) for a, b in (pair, pair[::-1])}
LEFT_OUT = {"clone", "detach", "contiguous", "wait", "double", "float", "item", "sqrt", "square", "log", "exp", "copy",
            "flatten", "requires_grad_", "list", "reversed", "sorted", "set", "abs"}  # fmt: skip
BUFFERS = {"empty_like", "zeros_like", "empty", "zeros", "new_empty", "new_zeros"}
NOT_NAMES = {"dist", "self", "ctx", "torch", "np", "math", "io", "serving"}


class Mutant(NamedTuple):
    """An answer with one change: `change` tells the lines that differ, as "was -> is"."""

    exercise: str
    mutation: str
    change: str
    source: str
    """Of the whole file of solutions."""

    def __str__(self) -> str:
        return f"{self.exercise}: {self.mutation}: {self.change}"


def mutants(text: str, exercise: str, deep: bool = False) -> list[Mutant]:
    """Return every mutant of one answer in a file of solutions, in the order of its lines; no two are the same code.

    With `deep` also those of the other answers that it calls, which its own check is to judge.
    """
    known = {node.name: node for node in ast.parse(text).body if hasattr(node, "name")}
    lines, found, names = text.splitlines(), {}, [exercise]
    for name in names:  # which grows
        before = ast.unparse(known[name])
        for node, around in _inside(known[name]):
            for mutation, other in (*general(node, around), *of_ranks(node)):
                after = ast.unparse(copy.deepcopy(known[name], {id(node): other}))
                if after != before and after not in found:
                    source = [*lines[: known[name].lineno - 1], after, *lines[known[name].end_lineno :]]
                    found[after] = Mutant(exercise, mutation, difference(before, after), "\n".join(source))
            if deep and getattr(node, "id", None) in known and node.id not in names:
                names.append(node.id)
    seen: dict[str, int] = {}
    for after, mutant in found.items():
        seen[str(mutant)] = count = seen.get(str(mutant), 0) + 1
        if count > 1:  # the same change of the same words, in another line
            found[after] = mutant._replace(mutation=f"{mutant.mutation}, number {count}")
    return list(found.values())


def difference(before: str, after: str) -> str:
    """Return the lines that differ on one line."""
    was, now = ([line.strip() for line in text.splitlines() if line.strip()] for text in (before, after))
    blocks = [op for op in difflib.SequenceMatcher(None, was, now, False).get_opcodes() if op[0] != "equal"]
    changed = [[line for op in blocks for line in lines[op[at] : op[at + 1]]] for lines, at in ((was, 1), (now, 3))]
    sides = [" / ".join(lines if len(lines) < 4 else [*lines[:2], "..."]) or "(nothing)" for lines in changed]
    return " -> ".join(sides if sides[0] != sides[1] else [sides[0], "(moved)"])


class Around(NamedTuple):
    """What stands around a node: the names and texts of its function, in order, and the function's last line."""

    names: list[str]
    texts: list[str]
    last: ast.AST | None


def _inside(answer: ast.AST) -> Iterator[tuple[ast.AST, Around]]:
    """Yield the nodes that may change: no docstring, and no error message, whose words are free."""
    nodes = list(ast.walk(answer))
    names = dict.fromkeys(one.arg if isinstance(one, ast.arg) else one.id for one in nodes
                          if isinstance(one, ast.arg) or isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    texts = dict.fromkeys(one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)
                          and " " not in one.value)  # fmt: skip
    around = Around([name for name in names if name not in NOT_NAMES], list(texts), getattr(answer, "body", [None])[-1])
    todo: list[ast.AST] = [answer]
    while todo:
        node = todo.pop(0)
        yield node, around
        todo[:0] = [inner for inner in ast.iter_child_nodes(node)
                    if not isinstance(inner, (ast.Raise, ast.JoinedStr, ast.arguments)) and not _is_text(inner)]


# What any program may get wrong


def general(node: Any, around: Around) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                for other in COMPARED.get(type(op), ()):
                    yield "another comparison", with_(node, ops=[*ops[:place], other(), *ops[place + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield "and, or exchanged", with_(node, op=ast.And() if isinstance(op, ast.Or) else ast.Or())
            yield from (("a condition dropped", with_(node, values=[v for v in values if v is not value]))
                        for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield "not dropped", inner
        case ast.BinOp(op=op, left=left, right=right):
            if type(op) in COUNTED:
                yield "another operation", with_(node, op=COUNTED[type(op)]())
            yield from (("left side alone", left), ("right side alone", right))
        case ast.AugAssign(target=target, op=op, value=value):
            if type(op) in COUNTED:
                yield "another operation", with_(node, op=COUNTED[type(op)]())
            yield "assigned, not added to", ast.Assign([target], value, lineno=0)
            old = made("anew(T)", T=_loaded(target))
            yield "copy instead of in place", ast.Assign([target], ast.BinOp(old, op, value), lineno=0)
        case ast.Constant(value=bool() as value):
            yield "true, false exchanged", ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield from ((f"number {sign}1", ast.Constant(value + step)) for sign, step in (("+", 1), ("-", -1)))
        case ast.Constant(value=str() as value) if value in around.texts and len(around.texts) > 1:
            yield "another text", ast.Constant(_next(around.texts, value))
        case ast.Slice(lower=lower, upper=upper, step=step):
            yield "slice begins later", with_(node, lower=made("E + 1", E=lower) if lower else ast.Constant(1))
            yield "slice ends earlier", with_(node, upper=made("E - 1", E=upper) if upper else ast.Constant(-1))
            if upper:
                yield "slice ends later", with_(node, upper=made("E + 1", E=upper))
            for name, bound in (("lower", lower), ("upper", upper), ("step", step)):
                if bound:
                    yield f"{name} of slice dropped", with_(node, **{name: None})
        case ast.Subscript(slice=ast.Constant(value=0 | -1 as place)):
            yield "first, last exchanged", with_(node, slice=ast.Constant(-1 - place))
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
            yield "first, last exchanged", with_(node, slice=ast.Constant(0))
        case ast.IfExp(body=body, orelse=orelse):
            yield from (("always", body), ("never", orelse), ("if turned", with_(node, body=orelse, orelse=body)))
        case ast.If(test=test):
            yield "always", with_(node, test=ast.Constant(True))
            yield "never", with_(node, test=ast.Constant(False))
            yield "if turned", with_(node, test=made("not T", T=test))
        case ast.comprehension(target=target, iter=it, ifs=ifs):
            yield from ((name, with_(node, iter=other)) for name, other in _loops(it)
                        if ast.unparse(target) != "_" or "backwards" not in name)
            if ifs:
                yield "condition dropped", with_(node, ifs=[])
        case ast.For(iter=it):
            yield from ((name, with_(node, iter=other)) for name, other in _loops(it))
        case ast.Break() | ast.Continue():
            yield "break, continue exchanged", ast.Continue() if isinstance(node, ast.Break) else ast.Break()
        case ast.Return(value=value) if value is not None:
            yield "nothing returned", ast.Return(ast.Constant(None))
            if isinstance(value, ast.Tuple):
                yield "returned in another order", ast.Return(ast.Tuple(value.elts[::-1], ast.Load()))
        case ast.Attribute(attr=name) if name in OTHER:
            yield f"{name}, {OTHER[name]} exchanged", with_(node, attr=OTHER[name])
        case ast.Name(id=name, ctx=ast.Load()):
            if name in OTHER and (name not in around.names or OTHER[name] in around.names):
                yield f"{name}, {OTHER[name]} exchanged", with_(node, id=OTHER[name])
            if name in around.names and len(around.names) > 1:
                yield "another name", with_(node, id=_next(around.names, name))
        case ast.Call(func=func, args=args, keywords=keywords):
            yield from _calls(node, func, args, keywords)
    for field in ("body", "orelse"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield from ((name, with_(node, **{field: other})) for name, other in _blocks(block, around))
    if isinstance(node, (ast.For, ast.While)) and len(node.body) > 1:
        yield "last line of the loop after it", _lines([with_(node, body=node.body[:-1]), node.body[-1]])


def _loaded(target: ast.AST) -> ast.AST:
    return ast.parse(ast.unparse(target)).body[0].value


def _next(names: list[str], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)]


def _lines(lines: list[ast.stmt]) -> ast.AST:
    return ast.If(ast.Constant(True), lines, [])


def _loops(it: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    yield "loop backwards", made("list(I)[::-1]", I=it)
    yield "loop without its first", made("list(I)[1:]", I=it)
    yield "loop without its last", made("list(I)[:-1]", I=it)


def _calls(node: Any, func: Any, args: list, keywords: list) -> Iterator[tuple[str, ast.AST]]:
    name = getattr(func, "attr", getattr(func, "id", ""))
    if len(args) > 1:
        yield "arguments exchanged", with_(node, args=[args[1], args[0], *args[2:]])
    yield from ((f"{one.arg} dropped", with_(node, keywords=[k for k in keywords if k is not one]))
                for one in keywords if one.arg != "strict")  # fmt: skip
    if name in LEFT_OUT:
        inner = func.value if isinstance(func, ast.Attribute) else args[0] if args else None
        if inner is not None:
            yield f"{name} dropped", inner
    if name == "range":
        last = min(1, len(args) - 1)  # the place of where it ends
        for how, template in (("more", "E + 1"), ("less", "E - 1")):
            yield f"one round {how}", with_(node, args=[*args[:last], made(template, E=args[last]), *args[last + 1 :]])
    if name == "append":
        yield "put first, not last", with_(node, func=with_(func, attr="insert"), args=[ast.Constant(0), *args])
    if name in BUFFERS:
        yield from (("buffer of float64", made("C.double()", C=node)), ("buffer of float16", made("C.half()", C=node)))


def _is_text(line: ast.AST) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _blocks(block: list[ast.stmt], around: Around) -> Iterator[tuple[str, list]]:
    for place, line in enumerate(block):
        if _is_text(line):
            continue
        rest = block[place + 1 :]
        if line is not around.last or not isinstance(line, ast.Return):
            yield "line dropped", [*block[:place], *rest] or [ast.Pass()]
        if isinstance(line, (ast.Expr, ast.AugAssign)) and not ast.unparse(line).endswith(".wait()"):
            yield "line twice", [*block[: place + 1], line, *rest]
        if isinstance(line, ast.FunctionDef) or rest and isinstance(rest[0], ast.FunctionDef):
            continue  # where a function stands makes no difference
        if rest and (_touched(line) & _used(rest[0]) or _touched(rest[0]) & _used(line)):
            yield "lines exchanged", [*block[:place], rest[0], line, *rest[1:]]


def _used(line: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(line) if isinstance(node, ast.Name)}


def _touched(line: ast.stmt) -> set[str]:
    """Return the names that a line sets, or whose things it may change, as a call does; `dist` is always changed."""
    calls = [node for node in ast.walk(line) if isinstance(node, ast.Call)]
    inner = {name for call in calls for name in _used(call) if isinstance(line, ast.Expr) or "dist" in _used(call)}
    set_ = {node.id for node in ast.walk(line) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return inner | set_
