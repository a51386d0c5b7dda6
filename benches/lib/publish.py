"""Fills BENCHMARKS.md between its markers, and benches/results/, from the newest figures.

    benches/run.sh publish
"""

import json
import re
import shutil

import paper
import tables
from common import BENCHES, OUT

PAGE = BENCHES.parent / "BENCHMARKS.md"
RESULTS = BENCHES / "results"


def newest(name: str):
    """The figures of this file, copied to where they are kept; None if there are none."""
    source = OUT / name
    if not source.exists():
        print(f"{name}: there is none, its part of the page stays as it is")
        return None
    figures = json.loads(source.read_text())
    if isinstance(figures, dict) and figures.get("is_quick"):
        raise SystemExit(f"{name} is of a quick run: it has no figures to publish")
    return figures


def keep(*names: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        shutil.copyfile(OUT / name, RESULTS / name)


def fill(page: str, name: str, content: str) -> str:
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if begin not in page or end not in page:
        raise SystemExit(f"BENCHMARKS.md has no {begin} … {end}")
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{content}\n{end}", page, flags=re.DOTALL)


def main() -> None:
    page = PAGE.read_text()
    more = newest("more.json")
    results = newest("results.json")
    if more and results:
        keep("results.json", "more.json", "comparison.svg")
        text = (
            "![messages a second, requests, CPU, memory and cold start of each system]"
            "(benches/results/comparison.svg)\n\n"
            f"{tables.about(more)} Medians of {more['rounds']} rounds.\n\n"
            f"{tables.comparison(results, more)}"
        )
        page = fill(page, "comparison", text)
    growth = newest("growth.json")
    if growth:
        pictures = [f"growth-{sweep['name']}.svg" for sweep in growth["sweeps"]]
        keep("growth.json", *pictures)
        images = "\n\n".join(
            f"![{sweep['title']}](benches/results/{picture})"
            for sweep, picture in zip(growth["sweeps"], pictures)
        )
        page = fill(page, "growth", f"{images}\n\n{tables.about(growth)}\n\n{tables.growth(growth)}")
    instructions = newest("instructions.json")
    if instructions:
        keep("instructions.json")
        page = fill(page, "instructions", tables.instructions(instructions))
    page = fill(page, "need", paper.need())
    page = fill(page, "cost", paper.cost())
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
