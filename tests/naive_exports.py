"""The same exports read in the plainest way, record by record with the standard library: the readers must agree.

A twin gets bytes that a reader accepted, and which field the reader took for what, so it checks nothing; it only counts.
`TWINS` maps a sample's file name to its twin.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Vote = tuple[str, str | None, str]
Columns = Mapping[str, str]
Twin = Callable[[bytes, Columns], Iterator[Vote]]


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def nothing(value: Any) -> bool:
    return value is None or value == ""


def records(content: bytes) -> list[dict[str, Any]]:
    text = content.decode("utf-8-sig")
    try:
        value = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    return value if isinstance(value, list) else [value]


def rows(content: bytes, delimiter: str = ",") -> list[dict[str, str]]:
    text = content.decode("utf-8-sig").lstrip("\r\n")  # DictReader would take an empty first line for the header
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))


def label_studio(content: bytes, columns: Columns) -> Iterator[Vote]:
    for task in records(content):
        for annotation in task.get("annotations", task.get("completions")) or []:
            if annotation.get("was_cancelled") or annotation.get("skipped"):
                continue
            person = annotation.get("completed_by")
            person = (person.get("email") or person.get("id")) if isinstance(person, dict) else person
            for result in annotation.get("result") or []:
                chosen = result["value"]["choices"] if result["from_name"] == columns["label"] else []
                if chosen and chosen[0] != "":
                    item = task.get("id", task.get("inner_id"))
                    yield text_of(item), None if nothing(person) else text_of(person), chosen[0]


def label_studio_rows(content: bytes, columns: Columns) -> Iterator[Vote]:
    for row in records(content) if content.lstrip()[:1] in (b"[", b"{") else rows(content):
        if not nothing(row["annotation_id"]) and not nothing(row.get(columns["label"])):
            person = row["annotator"]
            yield text_of(row["id"]), None if nothing(person) else text_of(person), text_of(row[columns["label"]])


def argilla(content: bytes, columns: Columns) -> Iterator[Vote]:
    for record in records(content):
        if "responses" in record:
            listed = (record.get("responses") or {}).get(columns["label"]) or []
            responses = [(entry["value"], entry.get("user_id"), entry.get("status")) for entry in listed]
        else:
            values = record[columns["label"]] or []
            statuses = record.get(columns["label"] + ".status") or [None] * len(values)
            responses = list(zip(values, record[columns["label"] + ".users"] or [], statuses, strict=True))
        for value, user, status in responses:
            if status in (None, "", "submitted") and not nothing(value):
                yield text_of(record["id"]), None if nothing(user) else text_of(user), text_of(value)


def prodigy(content: bytes, columns: Columns) -> Iterator[Vote]:
    for task in records(content):
        item = task.get("_input_hash", task.get("_task_hash"))
        person = task.get("_annotator_id", task.get("_session_id"))
        who = None if nothing(person) else text_of(person)
        if task["answer"] == "accept" and task.get("accept"):
            yield text_of(item), who, text_of(task["accept"][0])
        elif "label" in task and task["answer"] != "ignore":
            yield text_of(item), who, task["label"] if task["answer"] == "accept" else f"not {task['label']}"


def doccano(content: bytes, columns: Columns) -> Iterator[Vote]:
    for record in records(content):
        labels = record[columns["label"]]
        for label in labels if isinstance(labels, list) else [] if nothing(labels) else [labels]:
            if isinstance(label, dict):
                yield text_of(record[columns["item"]]), text_of(label["user"]), text_of(label["label"])
                continue
            who = next(
                (record[name] for name in ("user", "annotator", "username") if not nothing(record.get(name))), None
            )
            yield text_of(record[columns["item"]]), None if who is None else text_of(who), text_of(label)


def crowd_kit(content: bytes, columns: Columns) -> Iterator[Vote]:
    for row in rows(content, "\t"):
        if row["label"]:
            yield row["task"], row[columns["annotator"]], row["label"]


def toloka(content: bytes, columns: Columns) -> Iterator[Vote]:
    for row in rows(content, "\t"):
        states = ("rejected", "skipped", "expired", "active")
        control = any(value.strip() for name, value in row.items() if name.startswith(("GOLDEN:", "HINT:")))
        if row.get("ASSIGNMENT:status", "").strip().lower() not in states and not control and row[columns["label"]]:
            yield row[columns["item"]], row["ASSIGNMENT:worker_id"], row[columns["label"]]


def mturk(content: bytes, columns: Columns) -> Iterator[Vote]:
    for row in rows(content):
        if row.get("AssignmentStatus") in (None, "", "Submitted", "Approved") and not row.get("Reject"):
            answers = {name: value for name, value in row.items() if name.startswith("Answer.") and value}
            if written := answers.pop("Answer.taskAnswers", None):
                for question, parts in json.loads(written)[0].items():
                    for part, value in parts.items() if isinstance(parts, dict) else {"": parts}.items():
                        answers[f"Answer.{question}.{part}".rstrip(".")] = value
            question = columns["label"]
            label = answers.get(question)
            for name, value in answers.items():
                if name.startswith(f"{question}.") and str(value).lower() == "true":
                    label = name.removeprefix(f"{question}.")
            if not nothing(label):
                yield row[columns["item"]], row[columns.get("annotator", "WorkerId")] or None, text_of(label)


def crowdflower(content: bytes, columns: Columns) -> Iterator[Vote]:
    for row in rows(content):
        yes = {name for name, value in row.items() if name and value and value.strip().lower() in ("true", "1")}
        known = (row.get(columns["label"] + "_gold") or "").strip()
        test = "_golden" in yes if "_golden" in row else known != ""
        if not test and "_tainted" not in yes and row[columns["label"]]:
            yield row[columns["item"]], row["_worker_id"], row[columns["label"]]


def sagemaker(content: bytes, columns: Columns) -> Iterator[Vote]:
    if columns["label"].startswith("annotations."):  # no longer Ground Truth's: votes inside records
        yield from nested(content, columns)
        return
    for record in records(content):
        for entry in record["annotations"]:
            form = json.loads(entry["annotationData"]["content"])
            name, _, part = columns["label"].partition(".")
            answer = form[columns["label"]] if columns["label"] in form else form.get(name)
            if isinstance(answer, dict):
                ticked = [option for option, tick in answer.items() if tick is True]
                answer = answer.get(part) if part else ticked[0] if ticked else None
            if not nothing(answer):
                worker = entry.get("workerId")
                yield text_of(record["datasetObjectId"]), None if nothing(worker) else text_of(worker), text_of(answer)


def zooniverse(content: bytes, columns: Columns) -> Iterator[Vote]:
    for row in rows(content):
        if row.get("gold_standard", "").lower() == "true":
            continue
        waiting = json.loads(row["annotations"]) if row["annotations"] else []
        while waiting:
            task = waiting.pop()
            parts = task.get("value")
            if isinstance(parts, list) and any("task" in part for part in parts):
                waiting += parts
            elif f"{row['workflow_id']}.{task['task']}" == columns["label"] and not nothing(parts):
                yield row["subject_ids"], row["user_name"] or None, text_of(parts)


def cleanlab(content: bytes, columns: Columns) -> Iterator[Vote]:
    header, *lines = [line for line in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")) if line]
    for line in lines:
        for person, cell in zip(header[1:], line[1:], strict=True):
            if cell.strip():
                yield line[0], person, str(int(float(cell)))


def nested(content: bytes, columns: Columns) -> Iterator[Vote]:
    for record in records(content):
        for entry in record.get(columns["label"].split(".")[0]) or []:
            if any(entry.get(name) is True for name in ("was_cancelled", "cancelled", "skipped", "rejected")):
                continue
            status, who = entry.get("status"), columns.get("annotator", "")
            counted = {"submitted", "completed", "approved", "accepted", "finished", "done", "valid"}
            if isinstance(status, str) and status.lower() not in counted:
                continue
            label = entry.get(columns["label"].split(".")[1])
            label = (label[0] if label else None) if isinstance(label, list) else label
            person = record[who] if who in record else entry.get(who)
            item = record[columns["item"]] if columns["item"] in record else entry.get(columns["item"])
            if not nothing(label):
                yield text_of(item), None if nothing(person) else text_of(person), text_of(label)


def keyed(content: bytes, columns: Columns) -> Iterator[Vote]:
    for item, entry in json.loads(content.decode("utf-8-sig")).items():
        for person, label in entry.items() if isinstance(entry, dict) else [(None, label) for label in entry]:
            yield item, person, text_of(label)


def peerannot(content: bytes, columns: Columns) -> Iterator[Vote]:
    for task, answers in json.loads(content).items():
        for worker, label in answers.items():
            yield task, worker, str(label)


def chaosnli(content: bytes, columns: Columns) -> Iterator[Vote]:
    for record in records(content):
        for name, count in zip(("entailment", "neutral", "contradiction"), record["label_count"], strict=True):
            yield from [(text_of(record["uid"]), None, name)] * count


def lewidi(content: bytes, columns: Columns) -> Iterator[Vote]:
    for item, entry in json.loads(content).items():
        labels = entry["annotations"]
        if isinstance(labels, dict):
            yield from ((item, person, text_of(label)) for person, label in labels.items() if not nothing(label))
        elif labels:
            people = [person.strip() for person in entry["annotators"].split(",")]
            yield from zip([item] * len(people), people, [label.strip() for label in labels.split(",")], strict=True)


def matrix(content: bytes, columns: Columns, missing: str = "-1") -> Iterator[Vote]:
    lines = [line.replace(",", " ").replace(";", " ").split() for line in content.decode("utf-8-sig").split("\n")]
    for row, line in enumerate(line for line in lines if line):
        for person, cell in enumerate(line):
            if cell.lower() != "nan" and float(cell) != float(missing):
                yield str(row), str(person), str(int(float(cell)))


def counts(content: bytes, item: str, classes: tuple[str, ...]) -> Iterator[Vote]:
    for row in rows(content):
        for name in classes:
            if row[item]:
                yield from [(row[item], None, name)] * int(float(row[name]))


EMOTIONS = ("neutral", "happiness", "surprise", "sadness", "anger", "disgust", "fear", "contempt", "unknown", "NF")


def trials(content: bytes, columns: Columns) -> Iterator[Vote]:
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    classes = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    checks: dict[int, list[float]] = {}
    for row in rows:
        if float(row["is_attn_check"]) == 1:
            checks.setdefault(int(float(row["annotator_id"])), []).append(float(row["correct_guess"]))
    for row in rows:
        who = int(float(row["annotator_id"]))
        passed = who not in checks or sum(checks[who]) / len(checks[who]) >= 0.75
        if float(row["is_attn_check"]) == 0 and passed:
            image = int(float(row["cifar10_test_test_idx"]))
            yield str(image), str(who), classes[int(float(row["chosen_label"]))]


TWINS: dict[str, Twin] = {
    "cifar10h-raw.csv": trials,
    "project-1.json": label_studio,
    "lines.jsonl": label_studio,
    "min.json": label_studio_rows,
    "project-1.csv": label_studio_rows,
    "train.jsonl": argilla,
    "records.json": argilla,
    "choice.jsonl": prodigy,
    "binary.jsonl": prodigy,
    "all.jsonl": doccano,
    "old.jsonl": doccano,
    "older.tsv": crowd_kit,
    "assignments.tsv": toloka,
    "batch.csv": mturk,
    "radio.csv": mturk,
    "answers.csv": mturk,
    "polarity.csv": mturk,
    "full.csv": crowdflower,
    "plain.csv": crowdflower,
    "annotations.json": sagemaker,
    "radio.json": sagemaker,
    "classifications.csv": zooniverse,
    "frame.csv": cleanlab,
    "answers.json": peerannot,
    "nested.json": nested,
    "keyed.json": keyed,
    "chaos.jsonl": chaosnli,
    "train-2023.json": lewidi,
    "train-2025.json": lewidi,
    "answers.txt": matrix,
    "matrix.csv": matrix,
    "zeros.txt": lambda content, columns: matrix(content, columns, "0"),
    "fer2013new.csv": lambda content, columns: counts(content, "Image name", EMOTIONS),
    "labeled_data.csv": lambda content, columns: counts(
        content,
        "" if columns["item"] == "the index" else columns["item"],
        ("hate_speech", "offensive_language", "neither"),
    ),
}


def naive_votes(file: str, content: bytes, columns: Columns, with_people: bool) -> Counter[Vote]:
    """(item, annotator, label) of each vote; without annotators where a reader gave them up."""
    votes = TWINS[file](content, columns)
    return Counter((item, person if with_people else None, class_of(label)) for item, person, label in votes)


def class_of(label: str) -> str:
    """The rule for labels in all files: `1.` and `1.0` are 1, and `True` is true."""
    if label in ("True", "TRUE", "False", "FALSE"):
        return label.lower()
    return label[: label.index(".")] if re.fullmatch(r"[+-]?[0-9]+\.0*", label) else label
