"""The changes of `make mutants` that programs of many ranks invite, and the functions that such mutants call."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

import torch

COLLECTIVES = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "reduce", "gather", "scatter"}
CALLED = ("Done", "anew", "through", "widened", "in_two", "each_number",
          "reduce_scatter_by_all_reduce", "all_gather_by_all_reduce")
KINDS = ("float16", "float32")


def made(template: str, **parts: ast.AST) -> Any:
    """Return the node of a line of Python in which names stand for nodes."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:  # noqa: N802
            return parts.get(name.id, name)

    (line,) = ast.parse(template).body
    return Fill().visit(line.value if isinstance(line, ast.Expr) else line)


def with_(node: Any, **fields: Any) -> Any:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def of_ranks(node: Any) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Name(id="rank", ctx=ast.Load()) | ast.Call(func=ast.Attribute(attr="get_rank")):
            yield from (("rank +1", made("R + 1", R=node)), ("rank -1", made("R - 1", R=node)))
        case ast.Name(id="ranks", ctx=ast.Load()) | ast.Call(func=ast.Attribute(attr="get_world_size")):
            yield from (("ranks +1", made("R + 1", R=node)), ("ranks -1", made("R - 1", R=node)))
        case ast.AugAssign(op=ast.Add() | ast.Sub(), value=value):
            yield from ((f"sums through {kind}", with_(node, value=_through(value, kind))) for kind in KINDS)
        case ast.Return(value=value) if value is not None:
            yield from ((f"result through {kind}", ast.Return(_through(value, kind))) for kind in KINDS)
            yield "result of float64", ast.Return(made("widened(V)", V=value))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="copy_"), args=[value, *_])):
            yield "a name set, nothing written", ast.Assign([ast.Name(name.id, ast.Store())], value, lineno=0)
        case ast.Assign(targets=[ast.Subscript(value=ast.Name() as name, slice=ast.Slice())], value=value):
            yield "a name set, nothing written", ast.Assign([ast.Name(name.id, ast.Store())], value, lineno=0)
        case ast.Call(func=ast.Attribute(value=dist, attr=name), args=args, keywords=keywords):
            yield from _messages(node, name)
            if name in COLLECTIVES:
                yield from _collectives(node, dist, name, args, keywords)


def _messages(node: Any, name: str) -> Iterator[tuple[str, ast.AST]]:
    def called(other: str) -> ast.Call:
        return with_(node, func=with_(node.func, attr=other))

    if name in ("isend", "irecv"):
        yield f"{name[1:]} instead of {name}", made("Done(C)", C=called(name[1:]))
    if name in ("send", "recv"):
        yield f"i{name} not waited for", called(f"i{name}")
    first, *rest = node.args or [None]
    if name in ("send", "isend") and first:
        yield from ((f"{name} through {kind}", with_(node, args=[_through(first, kind), *rest])) for kind in KINDS)
    if name in ("all_reduce", "broadcast", "recv", "irecv") and first:
        yield f"{name} of a copy", with_(node, args=[made("T.clone()", T=first), *rest])


def _collectives(node: Any, dist: Any, name: str, args: list, keywords: list) -> Iterator[tuple[str, ast.AST]]:
    given = {one.arg for one in keywords}
    if "async_op" in given:
        yield "async_op not set", made("Done(C)", C=with_(node, keywords=[k for k in keywords if k.arg != "async_op"]))
    else:
        yield "async_op set, not waited for", _more(node, "async_op", ast.Constant(True))
    if name in ("all_reduce", "reduce_scatter", "reduce") and "op" not in given:
        yield "op MAX", _more(node, "op", made("D.ReduceOp.MAX", D=dist))
        yield "op AVG", _more(node, "op", made("D.ReduceOp.AVG", D=dist))
    if name == "all_reduce":
        yield "result on rank 0 only", with_(node, func=with_(node.func, attr="reduce"), args=[*args, ast.Constant(0)])
        for helper in ("in_two", "each_number"):
            yield f"all_reduce {helper}", with_(node, func=ast.Name(helper), args=[dist, *args])
    lists = {"all_gather": 0, "reduce_scatter": 1, "all_to_all": 0}.get(name)
    if lists is not None and len(args) > lists:
        backwards = made("list(L)[::-1]", L=args[lists])
        yield "pieces in reverse", with_(node, args=[*args[:lists], backwards, *args[lists + 1 :]])
    if name in ("all_gather", "reduce_scatter"):
        yield f"{name} by an all-reduce", with_(node, func=ast.Name(f"{name}_by_all_reduce"), args=[dist, *args])


def _more(node: Any, name: str, value: ast.AST) -> Any:
    return with_(node, keywords=[*node.keywords, ast.keyword(name, value)])


def _through(value: ast.AST, kind: str) -> ast.AST:
    return made(f"through(V, {kind!r})", V=value)


# What mutants call


class Unsuited(Exception):  # noqa: N818
    """A mutation met what it is not meant for: such a mutant is not counted."""


class Done:
    """The handle of what is over already."""

    def __init__(self, result: Any = None) -> None:
        self.result = result

    def wait(self) -> Any:
        return self.result

    def is_completed(self) -> bool:
        return True


def anew(value: Any) -> Any:
    """Return what would be changed in place; numbers never are."""
    if isinstance(value, (int, float)):
        raise Unsuited
    return value


def through(value: Any, kind: str) -> Any:
    """Return a tensor rounded to another dtype and back, or each of several; a number of Python's to float16 only."""
    if isinstance(value, (list, tuple)) and value:
        return type(value)(through(one, kind) for one in value)
    if isinstance(value, dict) and value:
        return {name: through(one, kind) for name, one in value.items()}
    if isinstance(value, torch.Tensor) and value.dtype != torch.bool:
        return value.to(getattr(torch, kind)).to(value.dtype)
    if isinstance(value, float) and kind == "float16":  # float32 is within what checks of numbers tolerate
        return torch.tensor(value, dtype=getattr(torch, kind)).item()
    raise Unsuited


def widened(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and value:
        return type(value)(widened(one) for one in value)
    if isinstance(value, torch.Tensor):
        return value.double()
    raise Unsuited


def in_two(dist: Any, tensor: Any, **more: Any) -> Done:
    """Sum a tensor in two messages."""
    return _in_parts(dist, tensor.view(-1).chunk(2), more)


def each_number(dist: Any, tensor: Any, **more: Any) -> Done:
    return _in_parts(dist, tensor.view(-1).split(1), more)


def _in_parts(dist: Any, parts: Any, more: dict[str, Any]) -> Done:
    for handle in [dist.all_reduce(part, **more) for part in parts]:
        if handle is not None:
            handle.wait()
    return Done()


def reduce_scatter_by_all_reduce(dist: Any, output: Any, pieces: Any, **more: Any) -> Any:
    """Sum everything everywhere and keep one's own piece: the right value from twice the bytes."""
    whole = torch.stack(list(pieces))
    handle = dist.all_reduce(whole, **more)
    if handle is not None:
        handle.wait()
    output.copy_(whole[dist.get_rank(more.get("group"))])
    return handle


def all_gather_by_all_reduce(dist: Any, outputs: Any, piece: Any, **more: Any) -> Any:
    """Sum what is zero but for one's own piece: the right value from twice the bytes."""
    whole = torch.zeros(len(outputs), *piece.shape, dtype=piece.dtype)
    whole[dist.get_rank(more.get("group"))] = piece
    handle = dist.all_reduce(whole, **more)
    if handle is not None:
        handle.wait()
    for output, one in zip(outputs, whole, strict=True):
        output.copy_(one)
    return handle
