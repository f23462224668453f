"""The page of all experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from examples.papers.claims import Claim, Experiment, table

__all__ = ["ELSEWHERE", "page", "section"]

_HEAD = (Path(__file__).parent / "page_head.md").read_text().rstrip()

ELSEWHERE = """## What cannot be run or checked here

| source | data | why |
|---|---|---|
| Young et al. | COCO-People, FG-Net, All-Age-Faces, EVA | photographs, and weights of a CLIP encoder |
| Levi et al. | KITTI, COCO | photographs, and a trained detector |
| Ovadia et al. | ImageNet, CIFAR-10, MNIST | images to download, and days of training |
| Ovadia et al. | Criteo | 45 million rows to download |
| Ovadia et al. | 20 newsgroups, LM1B | texts to download |
| Park & Muandet | the simulation of the HSCIC | conditional dependence: no measure of it here |
| Ovadia et al. | the printed quartile tables (two rows are said to be exchanged) | we had no copy of them |

Once you have the data, these lines run the experiments:

```py
import fastmcmd as fm
from fastmcmd.encoders import OpenCLIP, SentenceTransformer

# Photographs: files or arrays, outcomes y, mean and std of a network.
clip = OpenCLIP()
prediction = fm.Gaussian(mean, std)
published = {"x_kernel": "paper", "y_kernel": "paper", "draws": 1}
print(fm.cce(photographs, y, prediction, encoder=clip, **published))
print(fm.congruence_test(photographs, y, prediction, encoder=clip))

# Boxes: edges, and mean and std of a detector (n, 4).
for edge in range(4):
    detected = fm.Gaussian(box_mean[:, edge], box_std[:, edge])
    scaled = fm.recalibration.StdScaling().fit(detected, boxes[:, edge]).transform(detected)
    print(fm.ence(boxes[:, edge], detected), fm.ence(boxes[:, edge], scaled))

# Classes of photographs or texts: probabilities (n, C) of the data, and of data of no class.
print(fm.classification.evaluate(labels, probabilities, p_out=probabilities_of_others))
text = SentenceTransformer()
print(
    fm.congruence_test(texts, labels, fm.Categorical(probabilities), y_kernel=fm.Delta(), encoder=text)
)

# Clicks: millions of rows, in parts.
ece, nll = fm.streaming.ClassificationECE(), fm.streaming.ClassificationNLL()
for part_labels, part_probabilities in parts:
    ece.update(part_labels, part_probabilities)
    nll.update(part_labels, part_probabilities)
print(ece.compute(), nll.compute())
```"""


def section(experiment: Experiment, claims: Sequence[Claim], seeds: int) -> str:
    """Return the part of the page about an experiment."""
    name = experiment.name
    parts = [
        f"## {experiment.title}",
        f"Source: {experiment.source}. {seeds} repetitions.",
        f"Run it: `python -m examples.papers {name}`.",
        f"![{experiment.title}](papers/{name}.png)",
        table(claims),
    ]
    if experiment.details is not None:
        parts.append(experiment.details(seeds))
    return "\n\n".join(parts)


def _author(source: str) -> str:
    """Return the first author among those of the five sources, or "ours"."""
    places = {name: source.find(name) for name in ("Young", "Park", "Levi", "Ovadia", "Chung")}
    positions = {name: place for name, place in places.items() if place >= 0}
    return "ours" if source.startswith("ours") else min(positions, key=lambda name: positions[name])


def _summary(results: Sequence[tuple[Experiment, Sequence[Claim]]]) -> str:
    """Return how many claims hold, and those that do not."""
    lines = ["| experiment | source | holds | partly | not |", "|---|---|---|---|---|"]
    for experiment, claims in results:
        count = Counter(one.verdict for one in claims)
        lines.append(
            f"| {experiment.title} | {_author(experiment.source)} | "
            + " | ".join(str(count[one]) for one in ("holds", "partly", "not"))
            + " |"
        )
    open_claims = [
        f"- {one.text} ({experiment.title}): **{one.verdict}**"
        for experiment, claims in results
        for one in claims
        if one.verdict != "holds"
    ]
    return "\n".join(
        [
            *lines,
            "",
            "What does not hold, or only in part:",
            "",
            *open_claims,
        ]
    )


def page(results: Sequence[tuple[Experiment, Sequence[Claim], int]]) -> str:
    """Return the whole page."""
    summary = _summary([(experiment, claims) for experiment, claims, _ in results])
    sections = [section(*one) for one in results]
    return "\n\n".join([_HEAD, summary, *sections, ELSEWHERE]) + "\n"
