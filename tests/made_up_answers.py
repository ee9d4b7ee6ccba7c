"""A made-up class: real answers, each rewritten in the habits of the learner who hands it in, and some that are copied.

Honest learners draw one of a chapter's many answers (its solution, the right and the wrong ones of
tests/wrong_answers) and put it down in their own way: other statements, not only other names. Who copies changes only
what a person who understands nothing dares to change.
"""

from __future__ import annotations

import ast
import inspect
import random
import textwrap
from importlib import import_module

from exercises_tests.tools.chapters import Chapter, solutions

WORDS = ["total", "piece", "step", "mine", "left", "turn", "near", "part", "size", "value", "rest", "other"]


def pool(chapter: Chapter) -> dict[str, list[str]]:
    """Return the texts that there are of each exercise's answers: the solution, right ones, wrong ones."""
    module = import_module(f"wrong_answers.{chapter.name}")
    rights = [*module.RIGHT, *((one.exercise, one.answer) for one in module.WRONG)]
    found = {name: [text] for name, text in solutions(chapter).items()}
    for exercise, answer in rights:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(answer)))
        except (OSError, TypeError, SyntaxError):
            continue  # made by a function, not written as one
        if exercise in found and isinstance(tree.body[0], ast.FunctionDef | ast.ClassDef):
            tree.body[0].decorator_list, tree.body[0].name = [], exercise
            found[exercise].append(ast.unparse(tree))
    return found


class Habits(ast.NodeTransformer):
    """Puts an answer down in one learner's way: each habit is one that the learner has or has not."""

    def __init__(self, seed: str) -> None:
        self.draw = random.Random(seed)
        self.has = {name: self.draw.random() < 0.5 for name in ("loops", "whiles", "turns", "steps", "sums", "looks")}
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"{self.draw.choice(WORDS)}_{self.count}"

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        simple = isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range" and len(node.iter.args) == 1
        leaves = any(isinstance(inside, ast.Continue | ast.Break) for inside in ast.walk(node))
        if not (self.has["whiles"] and simple and not leaves and isinstance(node.target, ast.Name)):
            return node
        var = node.target.id
        loop = ast.parse(f"{var} = 0\nwhile {var} < {ast.unparse(node.iter.args[0])}:\n    {var} += 1").body
        loop[1].body[:0] = node.body
        return loop

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        value = node.value
        if self.has["loops"] and isinstance(value, ast.ListComp) and len(value.generators) == 1:
            made = self.name()
            body: list[ast.stmt] = ast.parse(f"{made}.append(0)").body
            body[0].value.args = [value.elt]
            for test in value.generators[0].ifs:
                body = [ast.If(test, body, [])]
            loop = ast.For(value.generators[0].target, value.generators[0].iter, body, [])
            return [*ast.parse(f"{made} = []").body, loop, ast.Assign(node.targets, ast.Name(made))]
        if self.has["steps"] and isinstance(value, ast.BinOp) and not isinstance(value.right, ast.Name | ast.Constant):
            made = self.name()
            return [ast.Assign([ast.Name(made)], value.right),
                    ast.Assign(node.targets, ast.BinOp(value.left, value.op, ast.Name(made)))]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not self.has["sums"] or not isinstance(node.target, ast.Name):
            return node
        return ast.Assign([node.target], ast.BinOp(ast.Name(node.target.id), node.op, node.value))

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if not self.has["steps"] or node.value is None or isinstance(node.value, ast.Name | ast.Constant):
            return node
        made = self.name()
        return [ast.Assign([ast.Name(made)], node.value), ast.Return(ast.Name(made))]

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        turned = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq}
        if not self.has["turns"] or len(node.ops) != 1 or type(node.ops[0]) not in turned:
            return node
        return ast.Compare(node.comparators[0], [turned[type(node.ops[0])]()], [node.left])

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if not self.has["turns"] or not node.orelse or isinstance(node.orelse[0], ast.If):
            return node
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if self.has["looks"]:  # what was printed to see it is still there
            shown = [arg.arg for arg in node.args.args][-1:]
            node.body[:0] = ast.parse(f"print({', '.join(shown)})").body if shown else []
        return node


def honest(texts: dict[str, list[str]], learners: list[str], seed: int = 0) -> dict[str, dict[str, str]]:
    """Return each learner's own answers: texts are dealt out so that few have the same, then put down in their ways."""
    found: dict[str, dict[str, str]] = {learner: {} for learner in learners}
    for exercise, some in texts.items():
        draw, row = random.Random(f"{seed} {exercise}"), []
        while len(row) < len(learners):
            row += draw.sample(some, len(some))
        for learner, text in zip(learners, row, strict=False):
            found[learner][exercise] = renamed(rewritten(text, f"{learner} {exercise}"), learner)
    return found


def rewritten(text: str, seed: str) -> str:
    tree = Habits(seed).visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(tree))


def renamed(text: str, seed: str) -> str:
    """Return an answer whose own variables have other names; its parameters too, and not its name."""
    draw, tree = random.Random(seed), ast.parse(text)
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = {name: f"{draw.choice(WORDS)}{number}" for number, name in enumerate(sorted(bound))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)


def reformatted(text: str, seed: str) -> str:
    """Return an answer with comments, blank lines and brackets where there were none."""
    draw, found = random.Random(seed), []
    for line in text.splitlines():
        if draw.random() < 0.4:
            indent = line[:len(line) - len(line.lstrip())]
            found += ["", f"{indent}# {' '.join(draw.sample(WORDS, 3))}"]
        found.append(line.replace(" = ", "  =  ", 1) + ("  # so" if draw.random() < 0.3 else ""))
    return "\n".join(found) + "\n"


def one_line_changed(answers: dict[str, str]) -> dict[str, str]:
    """Return answers in whose longest one a simple statement in the middle is another one."""
    longest = max(answers, key=lambda name: len(answers[name]))
    tree = ast.parse(answers[longest])
    lines = [(node, place) for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)
             for place, line in enumerate(node.body) if isinstance(line, ast.Assign | ast.Expr | ast.AugAssign)]
    if lines:
        node, place = lines[len(lines) // 2]
        node.body[place] = ast.parse("assert True, 'not yet'").body[0]
    return answers | {longest: ast.unparse(tree)}


def copied(answers: dict[str, str], way: str, seed: str) -> dict[str, str]:
    """Return what somebody hands in who copies all of these answers in one of the ways of copying."""
    if way in ("one line changed", "all of it"):
        answers = one_line_changed(answers)
    if way in ("renamed", "all of it"):
        answers = {name: renamed(text, seed) for name, text in answers.items()}
    if way in ("reformatted", "all of it"):
        answers = {name: reformatted(text, seed) for name, text in answers.items()}
    return answers
