"""A made-up study to report on, and what a reader finds on its page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np
import torch

from dissensus import metrics, report
from dissensus.experiments.description import Experiment, ScoreTable
from dissensus.metrics import temperature as calibrate
from dissensus.random import numpy_generator
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Run, Spec

CLASSES = ("cat", "dog", "owl", "fox")


@dataclass(frozen=True)
class Fake:
    """A made-up study: a crowd with a known truth, and methods that are that truth, sharpened and blurred."""

    ledger: Ledger
    classes: tuple[str, ...] = CLASSES
    train: int = 160
    items: int = 40
    votes: int = 20
    epochs: int = 6
    checkpoints: tuple[str, ...] = ("last",)
    keep: bool = True
    images: np.ndarray | None = None
    split: str = "holdout"
    provenance: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ("The crowd is simulated.",)

    def crowd(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The true distributions and the votes of this seed's evaluation items."""
        draw = numpy_generator(seed, "probe", "crowd")
        truth = draw.dirichlet(np.full(len(self.classes), 0.15), self.items) * 0.98 + 0.02 / len(self.classes)
        return truth, draw.multinomial(self.votes, truth)

    def publish(self, table: str, label: str, seed: int, *, sharpness: float, blur: float, shift: float = 0.0) -> str:
        """Write a finished run. `shift` adds an exact amount to its soft NLL, where a test must know the difference."""
        truth, counts = self.crowd(seed)
        draw = numpy_generator(seed, "probe", table, label)
        logits = sharpness * np.log(truth) + blur * draw.standard_normal(truth.shape)
        people, labels = torch.from_numpy(counts / counts.sum(1, keepdims=True)), torch.from_numpy(truth.argmax(1))
        rows, z = torch.arange(self.items) * 3 + 1, torch.from_numpy(logits)
        spec = Spec("train", self.settings(table, label, seed))
        fitted = calibrate.tempered(z, people, labels, rows=rows, seed=seed)
        judged = {"raw": torch.log_softmax(z, -1)}
        judged |= {name: one.log_probs for name, one in fitted.items()}
        scores = {}
        for name, log_probs in judged.items():
            scores[name] = metrics.score(log_probs, people, gold=labels, counts=torch.from_numpy(counts))
            scores[name]["kl_to_truth"] = float(metrics.kl(log_probs, torch.from_numpy(truth)).mean())
            scores[name]["soft_nll"] += shift
        temperatures = {name: [half.value for half in one.temperatures] for name, one in fitted.items()}
        facts = {
            "items": {"train": self.train, "evaluation": self.items},
            "classes": list(self.classes),
            "gold": "given",
            "ties": 2,
            "temperatures": dict.fromkeys(self.checkpoints, temperatures),
            "parameters": 1234,
            "notes": list(self.notes),
        }
        made_with = {
            "dissensus": "0.1.0",
            "torch": "2.0",
            "device": "cpu",
            "threads": 1,
            "seconds": 1.5,
            **self.provenance,
        }
        run = Run(spec, dict.fromkeys(self.checkpoints, scores), self.curve(scores["raw"], draw), facts, made_with)
        arrays = {}
        if self.keep:
            arrays["predictions"] = {
                "rows": rows.numpy(),
                "ids": np.array([f"id{row}" for row in rows.tolist()]),
                "logits": logits.astype(np.float32),
                "people": people.numpy(),
                "labels": labels.numpy(),
                "counts": counts,
                "truth": truth,
            }
            if self.images is not None:
                most = np.argsort(-metrics.entropy(people).numpy(), kind="stable")[: len(self.images)]
                arrays["gallery"] = {"rows": rows.numpy()[most], "x": self.images[: len(most)]}
        self.ledger.publish(run, arrays, {})
        return run.id

    def settings(self, table: str, label: str, seed: int) -> dict[str, object]:
        """A spec's settings, as far as the report reads them."""
        return {
            "data": {"name": "fake", "options": {}, "digest": "0"},
            "model": {"name": "mlp", "hidden": [32]},
            "target": {"name": label},
            "votes": {"name": "resampled", "votes": 3} if "3" in table else None,
            "split": {"name": self.split},
            "epochs": self.epochs,
            "seed": seed,
        }

    def curve(self, scores: Mapping[str, object], draw: np.random.Generator) -> dict[str, list[float | None]]:
        """Curves that fall, or rise, to the final scores."""
        end, best = float(scores["soft_nll"]), float(scores["accuracy"])
        epochs = range(1, self.epochs + 1)
        return {
            "train_loss": [2 / epoch + 0.1 * float(draw.random()) for epoch in epochs],
            "soft_nll": [None if epoch == 2 else end + 1.5 / epoch - 1.5 / self.epochs for epoch in epochs],
            "accuracy": [best - 0.4 / epoch + 0.4 / self.epochs for epoch in epochs],
        }

    def table(
        self, title: str, methods: Mapping[str, Mapping[str, float]], seeds: Sequence[int], **options: object
    ) -> ScoreTable[str]:
        """A table of finished runs; the first method is the baseline."""
        cells = {
            label: {"": {str(seed): self.publish(title, label, seed, **how) for seed in seeds}}
            for label, how in methods.items()
        }
        return score_table(title, cells, **options)


def score_table(title: str, cells: Mapping[str, Mapping[str, Mapping[str, str]]], **options: object) -> ScoreTable[str]:
    fixed = {
        "key": re.sub(r"\W+", "-", title.lower()).strip("-"),
        "title": title,
        "cells": cells,
        "baseline": next(iter(cells)),
        "methods": {label: f"{label} × soft" for label in cells},
        "columns": COLUMNS,
    }
    return ScoreTable(**{**fixed, **options})


COLUMNS = ("soft_nll", "kl", "kl_to_truth", "accuracy", "ece_mass_15", "entropy_spearman")
GOOD = {"sharpness": 1.0, "blur": 0.2}
METHODS = {"Soft": GOOD, "Sampled": {"sharpness": 1.0, "blur": 0.21}, "Majority": {"sharpness": 3.0, "blur": 0.5}}


def experiment_of(*exhibits: object, **changes: object) -> Experiment[str]:
    fixed = {
        "key": "fake",
        "title": "A made-up study",
        "question": "Which one?",
        "scale": "laptop",
        "command": "dissensus run fake --scale laptop",
        "exhibits": exhibits,
    }
    return Experiment(**{**fixed, **changes})


class Page(HTMLParser):
    """Checks that tags are balanced, and collects the cells of every table, the text, and the attributes."""

    VOID = frozenset({"meta", "img", "br", "hr", "link", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.words: list[str] = []
        self.feed(text)
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.rows = self.tables.setdefault(dict(attrs).get("id") or "", [])
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"closed without being open: {tag}"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"], ["title"]):
            self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def page_of(paths: report.Written) -> Page:
    return Page(paths.html.read_text(encoding="utf-8"))


def shown(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".replace("-", "−")
