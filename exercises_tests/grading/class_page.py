"""One page for the class, without a name on it: what to do first tomorrow, where it stands, and on what it fails.

It may be projected. Who is meant by "12 of 40" stands in grades.csv; pairs of answers that are alike have a page of
their own, which is not for the projector.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from typing import Any

from exercises_tests.grading import lanes
from exercises_tests.grading.anonymous import example, names_in, without_names
from exercises_tests.grading.feedback import code_style, coloured
from exercises_tests.grading.gradebook import write_whole
from exercises_tests.grading.sheet import GREEN, chapter, keys, number, page, several, stack, text
from exercises_tests.grading.standing import MANY, TRIES, Mistake, Place, Standing, standing

MOST_MISTAKES, MOST_SHOWN = 12, 3  # mistakes in the list; of the first of them an example is shown
BINS = 10
STYLE = """.lead{font-size:1.15rem}.bins{display:flex;align-items:flex-end;gap:3px;height:7rem;max-width:34rem}
.bins span{flex:1;text-align:center;font-size:.8rem;color:var(--soft)}.bins i{display:block;background:var(--green);
border-radius:2px 2px 0 0}h3 code{overflow-wrap:anywhere}@media (max-width:34rem){
.places,.places thead,.places tbody{display:block}.places tr{display:grid;grid-template-columns:1fr 3rem 6rem;
align-items:center;margin:.35rem 0}.places td:first-child{grid-column:1/-1;overflow-wrap:anywhere}
.places th:first-child{display:none}.places th:nth-child(n+3){text-align:right}
.places td.wide,.places td.n{width:auto}}.places+h3{margin-top:1.2rem}"""


def write(path: Path, records: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Write the page: `records` are the submissions of grades.json, `about` the rest of it."""
    write_whole(path, class_page(records, about))


def class_page(records: list[dict[str, Any]], about: dict[str, Any]) -> str:
    found = standing(records, about.get("attempts", ()))
    names = names_in(found.learners)
    cells = {(one["learner"], one["chapter"]): one.get("cells") or {} for one in records}
    body = ["<h1>The class</h1>", '<section class="card told"><h3>The first ten minutes</h3>']
    body += [f'<p class="{"" if place else "lead"}">{text(said)}</p>'
             for place, said in enumerate(found.advice(lambda said: without_names(said, names)))]  # fmt: skip
    body += ["</section>", *_points(found), *_exercises(found), *_mistakes(found, cells, names), *_faults(found)]
    body.append(f"<footer><p>{text(about['graded with'])}</p></footer>")
    return page("The class", body, STYLE + code_style())


def _points(found: Standing) -> Iterator[str]:
    """Yield how the points are spread: a column for each tenth of what could be earned."""
    if not found.shares:
        return
    bins = [0] * BINS
    for share in found.shares:
        bins[min(int(BINS * share), BINS - 1)] += 1
    most, middle = max(bins), sorted(found.shares)[len(found.shares) // 2]
    said = "; ".join(f"{several(count, 'learner')} with {100 * place // BINS} to {100 * (place + 1) // BINS} %"
                     for place, count in enumerate(bins) if count)  # fmt: skip
    columns = "".join(
        f'<span>{count or ""}<i style="height:{5.4 * count / most:.2f}rem"></i>{100 * place // BINS}</span>'
        for place, count in enumerate(bins)
    )
    yield f"<h2>Half of the {len(found.shares)} who handed in have {middle:.0%} of their points or more</h2>"
    yield f'<figure style="--green:{GREEN}"><div class="bins" role="img" aria-label="{said}">{columns}</div>'
    yield '<p class="soft">learners, by the percentage of the points of what they handed in</p></figure>'


def _exercises(found: Standing) -> Iterator[str]:
    yield "<h2>Points by exercise</h2>" + keys(["passed", "partly", "wrong", "borrowed", "open"])
    if not found.places:
        yield "<p>Nothing has been graded yet.</p>"
    for name, places in groupby(found.places, key=lambda place: place.chapter):
        own = list(places)
        handed_in = max(len(place.states) + place.ungraded for place in own)
        yield f"<h3>{text(chapter(name))}</h3>"
        yield f'<p class="soft">{handed_in} of {len(found.learners)} handed it in; a bar is as long as the class.</p>'
        yield '<table class="places"><thead><tr><th>exercise</th><th></th><th>stuck</th><th>mean</th></tr></thead>'
        yield "<tbody>"
        yield from (_row(place, len(found.learners)) for place in own)
        yield "</tbody></table>"


def _row(place: Place, learners: int) -> str:
    each = place.points / max(1, len(place.states))
    mean = f"{number(round(place.earned / max(1, len(place.states)), 1))} of {number(round(each, 1))}"
    ungraded = f'<br><span class="soft">{place.ungraded} not graded</span>' if place.ungraded else ""
    return (f'<tr><td><code>{text(place.exercise, 60)}</code>{ungraded}</td>'
            f'<td class="wide">{stack(place.counts, learners)}</td><td class="n">{place.stuck or ""}</td>'
            f'<td class="n">{mean if place.states else ""}</td></tr>')  # fmt: skip


def _mistakes(found: Standing, cells: dict, names: set[str]) -> Iterator[str]:
    known = [mistake for mistake in found.mistakes if len(mistake) > 1]
    alone = len(found.mistakes) - len(known)
    if not found.mistakes:
        return
    yield "<h2>The most frequent mistakes</h2>"
    for place, mistake in enumerate(known[:MOST_MISTAKES]):
        yield f'<section class="card wrong"><h3>{len(mistake)} of {len(found.learners)}: '
        yield f"<code>{text(mistake.exercise, 60)}</code>, {text(mistake.code, 80)}</h3>"
        yield from _said(without_names(mistake.sentence, names))
        yield from _example(mistake, cells, names, f"m{place}") if place < MOST_SHOWN else ()
        yield "</section>"
    if alone:
        yield f'<p class="soft">{several(alone, "mistake")} more, each made by one learner only.</p>'


def _said(sentence: str) -> Iterator[str]:
    """Yield a sentence, and the lines below it; those that are set in are a list, of ranks or parts."""
    sentence = sentence[:1].upper() + sentence[1:]
    for inner, some in groupby(sentence.split("\n"), key=lambda line: line.startswith(" ")):
        lines = "\n".join(some)
        yield f"<pre>{text(dedent(lines))}</pre>" if inner else f"<p>{text(lines)}</p>" if lines else ""


def _example(mistake: Mistake, cells: dict, names: set[str], name: str) -> Iterator[str]:
    """Yield one answer with this mistake, if five or more made it: neither the shortest nor the longest."""
    if len(mistake) < MANY:
        return
    shown = []
    for learner, result in mistake.results.items():
        code = example(cells.get((learner, mistake.chapter), {}).get(mistake.exercise, ""), names)
        if code:
            shown.append((code.count("\n"), code, result))
    if shown:
        _, code, result = sorted(shown, key=lambda one: one[:2])[len(shown) // 2]
        yield f'<p class="soft">As one of them wrote it:</p><pre class="code">{coloured(code)}</pre>'
        if result.get("events"):
            yield lanes.figure(result["events"], name, "The")


def _faults(found: Standing) -> Iterator[str]:
    faulty = [place for place in found.places if place.text_may_be_at_fault]
    if not faulty:
        return
    yield "<h2>Exercises whose text may be at fault</h2><ul>"
    for place in faulty:
        code, most = place.tries.most_common(1)[0]
        yield (f"<li><code>{text(place.exercise, 60)}</code>: {most} of {place.tries.total()} wrong tries end in "
               f"{text(code, 80)}, and {several(place.stuck, 'learner')} are stuck there</li>")  # fmt: skip
    yield (f'</ul><p class="soft">Listed are exercises with at least {TRIES} wrong tries, most of which end in one '
           "mistake, and where a third of all who tried are stuck.</p>")  # fmt: skip
