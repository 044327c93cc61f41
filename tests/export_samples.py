"""Small files in the layout of each export, written by hand, with the votes counted by hand.

`SAMPLES` are read; `REFUSED` are recognised and refused. `reader_fuzz.py` mutates the samples.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

Content = bytes | Mapping[str, bytes]  # of a file, or of the files of a folder


@dataclass(frozen=True)
class ExportSample:
    """A file of an export. `votes` are (item, annotator or None, label, how many)."""

    export: str
    file: str
    content: Content
    votes: tuple[tuple[str, str | None, str, int], ...] = ()
    skipped: tuple[str, ...] = ()  # words that the notes must hold
    says: str = ""  # words of the refusal
    asked: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self.content, bytes):
            path.write_bytes(self.content)
        else:
            path.mkdir(exist_ok=True)
            for name, content in self.content.items():
                (path / name).write_bytes(content)
        return path

    @property
    def title(self) -> str:
        return f"{self.export}-{self.file.replace('/', '-')}"


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


def as_lines(*records: Any) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def choice(label: str, name: str = "sentiment") -> dict[str, Any]:
    return {"from_name": name, "id": "Dx_aB91ISN", "to_name": "text", "type": "choices", "value": {"choices": [label]}}


def annotation(person: Any, *results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": 1001,
        "completed_by": person,
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2021-03-09T22:16:08.728353Z",
        "lead_time": 4.288,
        **more,
    }


def task(number: int, *annotations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "data": {"text": f"text {number}", "ref": f"t{number}"},
        "annotations": list(annotations),
        "predictions": [],
        "drafts": [],
        **more,
    }


comment = {"from_name": "why", "to_name": "text", "type": "textarea", "value": {"text": ["it is rude"]}}
span = {
    "from_name": "label",
    "to_name": "text",
    "type": "labels",
    "value": {"start": 0, "end": 4, "text": "text", "labels": ["PER"]},
}
LABEL_STUDIO = [
    task(
        1,
        annotation(10, choice("pos"), comment),
        annotation(11, choice("neg")),
        annotation(12, choice("pos"), was_cancelled=True),
    ),
    task(
        2,
        annotation(10, choice("neg")),
        annotation({"id": 12, "email": "eva@x.org"}, choice("neg")),
        annotation(11, comment),
        predictions=[{"model_version": "m1", "score": 0.9, "result": [choice("pos")]}],
        drafts=[{"id": 1, "result": [choice("pos")]}],
    ),
    task(3),
]
LABEL_STUDIO_VOTES = (("1", "10", "pos", 1), ("1", "11", "neg", 1), ("2", "10", "neg", 1), ("2", "eva@x.org", "neg", 1))


def min_row(number: int, person: int, **answers: Any) -> dict[str, Any]:
    times = {"created_at": "2021-03-09T22:16Z", "updated_at": "2021-03-09T22:17Z", "lead_time": 4.2}
    return {"text": f"text {number}", "id": number, **answers, "annotator": person, "annotation_id": number * 10, **times}


LABEL_STUDIO_CSV = b""""annotation_id","annotator","created_at","id","lead_time","sentiment","text","updated_at"
31,"ann@x.org","2021-03-09",1,4.2,"pos","first text, with a comma","2021-03-09"
32,"bob@x.org","2021-03-09",1,3.1,"neg","first text, with a comma","2021-03-09"
33,"ann@x.org","2021-03-09",2,2.2,"neg","second text","2021-03-09"
34,"bob@x.org","2021-03-09",2,2.2,"","second text","2021-03-09"
"","","",3,"","","third text",""
"""


def argilla_row(item: str, values: Any, users: Any, status: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": item,
        "status": "completed",
        "_server_id": "6f1",
        "text": f"text of {item}",
        "label.responses": values,
        "label.responses.users": users,
        "label.responses.status": status,
        "label.suggestion": "pos",
        "label.suggestion.agent": "model",
        **more,
    }


ARGILLA_ROWS = [
    argilla_row("a", ["pos", "neg", "pos"], ["u1", "u2", "u3"], ["submitted", "submitted", "draft"]),
    argilla_row("b", ["neg", None], ["u1", "u2"], ["submitted", "discarded"]),
    argilla_row("c", None, None, None),
]
ARGILLA_VOTES = (("a", "u1", "pos", 1), ("a", "u2", "neg", 1), ("b", "u1", "neg", 1))
ARGILLA_NESTED = [
    {
        "id": "a",
        "fields": {"text": "first"},
        "metadata": {},
        "suggestions": {"label": {"value": "pos", "score": 0.9, "agent": "model"}},
        "responses": {
            "label": [
                {"value": "pos", "user_id": "u1", "status": "submitted"},
                {"value": "neg", "user_id": "u2", "status": "submitted"},
                {"value": "pos", "user_id": "u3", "status": "draft"},
            ],
            "tags": [{"value": ["x", "y"], "user_id": "u1", "status": "submitted"}],
        },
    },
    {
        "id": "b",
        "fields": {"text": "second"},
        "metadata": {},
        "suggestions": {},
        "responses": {
            "label": [
                {"value": "neg", "user_id": "u1", "status": "submitted"},
                {"value": None, "user_id": "u2", "status": "discarded"},
            ]
        },
    },
    {"id": "c", "fields": {"text": "third"}, "metadata": {}, "suggestions": {}, "responses": {}},
]


def prodigy(item: int, person: str, answer: str = "accept", **more: Any) -> dict[str, Any]:
    return {
        "text": f"text {item}",
        "_input_hash": item,
        "_task_hash": -item,
        "_view_id": "choice",
        **more,
        "answer": answer,
        "_timestamp": 1707211049,
        "_annotator_id": person,
        "_session_id": person,
    }


OPTIONS = [{"id": "pos", "text": "Positive"}, {"id": "neg", "text": "Negative"}, {"id": "other", "text": "Other"}]
PRODIGY_CHOICES = [
    prodigy(7, "db-ann", options=OPTIONS, accept=["pos"]),
    prodigy(7, "db-bob", options=OPTIONS, accept=["neg"]),
    prodigy(8, "db-ann", options=OPTIONS, accept=["neg"]),
    prodigy(8, "db-bob", "ignore", options=OPTIONS, accept=[]),
    prodigy(9, "db-ann", "reject", options=OPTIONS, accept=[]),
    prodigy(9, "db-bob", options=OPTIONS, accept=[]),
]
PRODIGY_BINARY = [
    prodigy(7, "db-ann", label="SPAM"),
    prodigy(7, "db-bob", "reject", label="SPAM"),
    prodigy(8, "db-ann", "ignore", label="SPAM"),
    prodigy(8, "db-bob", label="SPAM"),
]


def doccano(number: int, labels: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "text": f"text {number}", "label": labels, "Comments": [], **more}


TOLOKA = (
    b"INPUT:image\tOUTPUT:result\tGOLDEN:result\tHINT:text\tASSIGNMENT:assignment_id\tASSIGNMENT:worker_id\tASSIGNMENT:status\n"
    b"img/1.png\tcat\t\t\ta1\tw1\tAPPROVED\n"
    b"img/2.png\tdog\t\t\ta1\tw1\tAPPROVED\n"
    b"img/9.png\tcat\tcat\t\ta1\tw1\tAPPROVED\n"
    b"\n"
    b"img/1.png\tdog\t\t\ta2\tw2\tSUBMITTED\n"
    b"img/2.png\tdog\t\t\ta3\tw3\tREJECTED\n"
    b"img/2.png\t\t\t\ta2\tw2\tSUBMITTED\n"
)
TOLOKA_VOTES = (("img/1.png", "w1", "cat", 1), ("img/2.png", "w1", "dog", 1), ("img/1.png", "w2", "dog", 1))
CROWDFLOWER_HEAD = b"_unit_id,_created_at,_golden,_id,_missed,_tainted,_channel,_trust,_worker_id,_country,"
CROWDFLOWER = CROWDFLOWER_HEAD + (
    b"relevance,comment,relevance_gold,comment_gold,text\n"
    b'7101,2/12/2015 10:14:51,false,1,,false,neodev,0.91,301,GBR,yes,,,,"Thanks, all"\n'
    b'7101,2/12/2015 10:15:02,false,2,,false,neodev,0.84,302,USA,no,,,,"Thanks, all"\n'
    b"7102,2/12/2015 10:15:09,false,3,,false,neodev,0.91,301,GBR,no,,,,No way\n"
    b"7102,2/12/2015 10:15:33,false,4,,true,neodev,0.31,303,IND,yes,,,,No way\n"
    b"7102,2/12/2015 10:16:00,false,5,,false,neodev,0.84,302,USA,,,,,No way\n"
    b"7103,2/12/2015 10:16:20,true,6,true,false,neodev,0.84,302,USA,yes,,no,,Known\n"
)
CROWDFLOWER_VOTES = (("7101", "301", "yes", 1), ("7101", "302", "no", 1), ("7102", "301", "no", 1))
CROWDFLOWER_PLAIN = (
    b"_unit_id,_id,_tainted,_trust,_worker_id,tone,text,url\n"
    b"7101,1,false,0.91,301,rude,Thanks,u/1\n"
    b"7101,2,false,0.84,302,kind,Thanks,u/1\n"
    b"7102,3,false,0.91,301,kind,No way,u/2\n"
)


def classified(user: str, subject: str, *tasks: dict[str, Any], gold: str = "", workflow: str = "12") -> str:
    cell = json.dumps(list(tasks)).replace('"', '""')
    return f'{user},,a1b2,{workflow},Round or not,5.7,2019-01-01,{gold},,{{}},"{cell}",{{}},{subject}\n'


def answered(value: Any, name: str = "T0", title: str = "Is it round?") -> dict[str, Any]:
    return {"task": name, "task_label": title, "value": value}


ZOONIVERSE_HEAD = (
    "user_name,user_id,user_ip,workflow_id,workflow_name,workflow_version,created_at,gold_standard,expert,metadata,"
    "annotations,subject_data,subject_ids\n"
)
ZOONIVERSE = (
    ZOONIVERSE_HEAD
    + classified("ann", "501", answered("Smooth"), answered("it, too", "T3"), answered([], "T4"))
    + classified("not-logged-in-1f2e", "501", answered("Disk"))
    + classified("ann", "502", answered([answered("Disk"), answered([{"x": 1, "y": 2}], "T1")], "T9"))
    + classified("bob", "502", answered(None))
    + classified("bob", "501", answered(["Arms"], "T4"))
    + classified("eva", "502", answered("Smooth"), gold="true")
).encode()


def merged_later(item: str, **answers: Any) -> dict[str, Any]:
    entries = [
        {"workerId": f"private.{worker}", "annotationData": {"content": json.dumps(form), "s3Uri": None}}
        for worker, form in answers.items()
    ]
    return {"datasetObjectId": item, "dataObject": {"content": f"text {item}"}, "annotations": entries}


def classifier(label: Any) -> dict[str, Any]:
    return {"crowd-classifier": {"label": label}}


MTURK_HEAD = b"HITId,HITTypeId,Title,Reward,AssignmentId,WorkerId,AssignmentStatus,WorkTimeInSeconds,Input.text,"
MTURK = MTURK_HEAD + (
    b"Answer.sentiment.label,Approve,Reject\n"
    b'3A,T1,Rate,$0.05,A1,W1,Approved,20,"nice, really",Positive,x,\n'
    b'3A,T1,Rate,$0.05,A2,W2,Submitted,12,"nice, really",Negative,,\n'
    b"3B,T1,Rate,$0.05,A3,W1,Approved,20,bad,Negative,x,\n"
    b"3B,T1,Rate,$0.05,A4,W3,Rejected,2,bad,Positive,,too fast\n"
    b"3B,T1,Rate,$0.05,A5,W2,Submitted,9,bad,,,\n"
)
MTURK_VOTES = (("3A", "W1", "Positive", 1), ("3A", "W2", "Negative", 1), ("3B", "W1", "Negative", 1))
MTURK_RADIO = MTURK_HEAD + (
    b"Answer.topic.sport,Answer.topic.politics,Approve,Reject\n"
    b"3A,T1,Rate,$0.05,A1,W1,Approved,20,nice,true,false,,\n"
    b"3A,T1,Rate,$0.05,A2,W2,Approved,20,nice,false,true,,\n"
    b"3B,T1,Rate,$0.05,A3,W1,Approved,20,bad,true,false,,\n"
)
MTURK_JSON = MTURK_HEAD + (
    b"Answer.taskAnswers,Approve,Reject\n"
    b'3A,T1,Rate,$0.05,A1,W1,Approved,20,nice,"[{""sentiment"":{""label"":""Positive""}}]",,\n'
    b'3A,T1,Rate,$0.05,A2,W2,Approved,20,nice,"[{""sentiment"":{""label"":""Negative""}}]",,\n'
    b'3B,T1,Rate,$0.05,A3,W1,Approved,20,bad,"[{""sentiment"":{""label"":""Negative""}}]",,\n'
)
MTURK_POLARITY = (
    b"WorkerId,Input.id,Input.original_sentence,Answer.sent\n"
    b"W1,s1,good film,pos\n"
    b"W2,s1,good film,neg\n"
    b"W1,s2,bad film,neg\n"
)


def chaos(uid: str, e: int, n: int, c: int, bits: float) -> dict[str, Any]:
    counter = {letter: count for letter, count in zip("enc", (e, n, c), strict=True) if count}
    return {
        "uid": uid,
        "label_counter": counter,
        "majority_label": "e",
        "label_dist": [e / 4, n / 4, c / 4],
        "label_count": [e, n, c],
        "entropy": bits,
        "example": {"uid": uid, "premise": "A", "hypothesis": "B", "source": "snli"},
        "old_label": "e",
        "old_labels": ["entailment", "neutral"],
    }


def lewidi(annotators: str, annotations: Any, number: int, **more: Any) -> dict[str, Any]:
    return {
        "annotation task": "hate speech detection",
        "text": "a text",
        "number of annotations": number,
        "annotators": annotators,
        "annotations": annotations,
        "soft_label": {"0": 0.5, "1": 0.5},
        "split": "train",
        "lang": "en",
        "other_info": {"Domain": "BLM"},
        **more,
    }


FER_PLUS = (
    b"Usage,Image name,neutral,happiness,surprise,sadness,anger,disgust,fear,contempt,unknown,NF\n"
    b"Training,fer0000000.png,4,0,0,1,3,2,0,0,0,0\n"
    b"Training,,0,0,0,0,0,0,0,0,0,10\n"
    b"PublicTest,fer0028638.png,0,10,0,0,0,0,0,0,0,0\n"
)
DAVIDSON = (
    b",count,hate_speech,offensive_language,neither,class,tweet\n"
    b"0,3,0,0,3,2,!!! RT @somebody: some text\n"
    b'1,3,0,3,0,1,"two lines\nof text, and a comma"\n'
    b"4,6,1,5,0,1,more text\n"
)
CLEANLAB = b",A0001,A0002,A0003\n0,1.0,,0.0\n1,,2.0,2.0\n2,0.0,0.0,1.0\n"
LABELS = {
    name: np.array(values)
    for name, values in {
        "clean_label": [3, 8, 9],
        "worse_label": [3, 0, 9],
        "aggre_label": [3, 8, 9],
        "random_label1": [3, 8, 9],
        "random_label2": [3, 0, 9],
        "random_label3": [5, 8, 9],
    }.items()
}
TRIALS = b"""annotator_id,trial_index,is_attn_check,true_category,chosen_category,true_label,chosen_label,correct_guess,\
cifar10_test_test_idx,image_filename,subcategory,reaction_time,time_elapsed
0,1,0,cat,cat,3,3,1,1,a.png,tabby,812.5,1000
0,2,1,dog,dog,5,5,1,-99999,b.png,hound,600,2000
0,3,0,ship,truck,8,9,0,0,c.png,liner,1500,3000
7,1,0,cat,dog,3,5,0,1,a.png,tabby,90,1000
7,2,1,dog,cat,5,3,0,-99999,b.png,hound,400,2000
9,1,0,cat,dog,3,5,0,1,a.png,tabby,-20,1000
9,2,1,dog,dog,5,5,1,-99999,b.png,hound,700,2000
"""
TRIAL_VOTES = (("0", "0", "truck", 1), ("1", "0", "cat", 1), ("1", "9", "dog", 1))
CIFAR_N_VOTES = (("0", None, "3", 2), ("0", None, "5", 1), ("1", None, "8", 2), ("1", None, "0", 1), ("2", None, "9", 3))

SAMPLES = (
    ExportSample(
        "label-studio",
        "project-1.json",
        as_json(LABEL_STUDIO),
        LABEL_STUDIO_VOTES,
        ("cancelled annotations (1)", "predictions by models (1)", "drafts (1)", "without an answer", "tasks without"),
    ),
    ExportSample("label-studio", "lines.jsonl", as_lines(*LABEL_STUDIO), LABEL_STUDIO_VOTES),
    ExportSample(
        "label-studio",
        "min.json",
        as_json(
            [
                min_row(1, 4, sentiment="pos"),
                min_row(1, 5, sentiment="neg"),
                min_row(2, 4, sentiment="neg"),
                min_row(2, 5),
            ]
        ),
        (("1", "4", "pos", 1), ("1", "5", "neg", 1), ("2", "4", "neg", 1)),
        ("without an answer to 'sentiment' (1)",),
    ),
    ExportSample(
        "label-studio",
        "project-1.csv",
        LABEL_STUDIO_CSV,
        (("1", "ann@x.org", "pos", 1), ("1", "bob@x.org", "neg", 1), ("2", "ann@x.org", "neg", 1)),
        ("tasks without an annotation (1)",),
    ),
    ExportSample(
        "argilla",
        "train.parquet",
        parquet(ARGILLA_ROWS),
        ARGILLA_VOTES,
        ("draft responses (1)", "discarded responses (1)"),
    ),
    ExportSample("argilla", "train.jsonl", as_lines(*ARGILLA_ROWS), ARGILLA_VOTES, ("records without a response (1)",)),
    ExportSample("argilla", "records.json", as_json(ARGILLA_NESTED), ARGILLA_VOTES, ("draft responses (1)",)),
    ExportSample(
        "prodigy",
        "choice.jsonl",
        as_lines(*PRODIGY_CHOICES),
        (("7", "db-ann", "pos", 1), ("7", "db-bob", "neg", 1), ("8", "db-ann", "neg", 1)),
        ("ignored tasks (1)", "rejected tasks (no option was right) (1)", "accepted tasks without a choice (1)"),
    ),
    ExportSample(
        "prodigy",
        "binary.jsonl",
        as_lines(*PRODIGY_BINARY),
        (("7", "db-ann", "SPAM", 1), ("7", "db-bob", "not SPAM", 1), ("8", "db-bob", "SPAM", 1)),
        ("ignored tasks (1)", "a rejected 'SPAM' counts as a vote for 'not SPAM'"),
    ),
    ExportSample(
        "doccano",
        "per-user",
        {
            "admin.jsonl": as_lines(doccano(1, ["pos"]), doccano(2, ["neg"])),
            "eva.jsonl": as_lines(doccano(1, ["neg"]), doccano(2, [])),
        },
        (("1", "admin", "pos", 1), ("1", "eva", "neg", 1), ("2", "admin", "neg", 1)),
        ("examples without a label (1)",),
    ),
    ExportSample(
        "doccano",
        "all.jsonl",
        as_lines(doccano(1, ["pos"], user="eva"), doccano(1, ["neg"], user="tom"), doccano(2, ["neg"], user="eva")),
        (("1", "eva", "pos", 1), ("1", "tom", "neg", 1), ("2", "eva", "neg", 1)),
    ),
    ExportSample(
        "doccano",
        "old.jsonl",
        as_lines(
            {"id": 1, "text": "a", "annotations": [{"label": 3, "id": 1, "user": 1}, {"label": 4, "id": 2, "user": 2}]},
            {"id": 2, "text": "b", "annotations": [{"label": 3, "id": 3, "user": 1}]},
        ),
        (("1", "1", "3", 1), ("1", "2", "4", 1), ("2", "1", "3", 1)),
    ),
    ExportSample(
        "crowd-kit",
        "older.tsv",
        b"task\tperformer\tlabel\nt1\tw1\tcat\nt1\tw2\tdog\nt2\tw1\tdog\n",
        (("t1", "w1", "cat", 1), ("t1", "w2", "dog", 1), ("t2", "w1", "dog", 1)),
    ),
    ExportSample(
        "toloka",
        "assignments.tsv",
        TOLOKA,
        TOLOKA_VOTES,
        ("rejected assignments (1)", "answers to control tasks (1)", "rows without a label (1)"),
    ),
    ExportSample("mturk", "batch.csv", MTURK, MTURK_VOTES, ("rejected assignments (1)", "without an answer (1)")),
    ExportSample(
        "mturk",
        "radio.csv",
        MTURK_RADIO,
        (("3A", "W1", "sport", 1), ("3A", "W2", "politics", 1), ("3B", "W1", "sport", 1)),
    ),
    ExportSample("mturk", "answers.csv", MTURK_JSON, MTURK_VOTES),
    ExportSample(
        "mturk",
        "polarity.csv",
        MTURK_POLARITY,
        (("s1", "W1", "pos", 1), ("s1", "W2", "neg", 1), ("s2", "W1", "neg", 1)),
    ),
    ExportSample(
        "crowdflower",
        "full.csv",
        CROWDFLOWER,
        CROWDFLOWER_VOTES,
        ("judgments on test questions (1)", "tainted judgments (1)", "rows without a label (1)"),
    ),
    ExportSample(
        "crowdflower",
        "plain.csv",
        CROWDFLOWER_PLAIN,
        (("7101", "301", "rude", 1), ("7101", "302", "kind", 1), ("7102", "301", "kind", 1)),
    ),
    ExportSample(
        "sagemaker",
        "annotations.json",
        as_json([merged_later("0", a=classifier("cat"), b=classifier("dog")), merged_later("1", a=classifier("dog"))]),
        (("0", "private.a", "cat", 1), ("0", "private.b", "dog", 1), ("1", "private.a", "dog", 1)),
    ),
    ExportSample(
        "sagemaker",
        "radio.json",
        as_json(
            [
                merged_later("0", a={"tone": {"rude": True, "kind": False}}, b={"tone": {"rude": False, "kind": True}}),
                merged_later("1", a={"tone": {"rude": False, "kind": True}}, b={"tone": {"rude": False, "kind": False}}),
            ]
        ),
        (("0", "private.a", "rude", 1), ("0", "private.b", "kind", 1), ("1", "private.a", "kind", 1)),
        ("annotations without an answer (1)",),
    ),
    ExportSample(
        "zooniverse",
        "classifications.csv",
        ZOONIVERSE,
        (("501", "ann", "Smooth", 1), ("501", "not-logged-in-1f2e", "Disk", 1), ("502", "ann", "Disk", 1)),
        (
            "gold-standard classifications (1)",
            "classifications without an answer (1)",
            "classifications without this task (1)",
            "12.T0 asks 'Is it round?'",
        ),
        asked={"labels": "T0"},
    ),
    ExportSample(
        "cleanlab",
        "frame.csv",
        CLEANLAB,
        (
            ("0", "A0001", "1", 1),
            ("0", "A0003", "0", 1),
            ("1", "A0002", "2", 1),
            ("1", "A0003", "2", 1),
            ("2", "A0001", "0", 1),
            ("2", "A0002", "0", 1),
            ("2", "A0003", "1", 1),
        ),
    ),
    ExportSample(
        "nested",
        "nested.json",
        as_json(
            [
                {
                    "id": "a",
                    "text": "t",
                    "annotations": [{"annotator": "w1", "label": "x"}, {"annotator": "w2", "label": "y"}],
                },
                {
                    "id": "b",
                    "text": "u",
                    "annotations": [
                        {"annotator": "w1", "label": "x", "status": "draft"},
                        {"annotator": "w2", "label": "x", "status": "submitted"},
                    ],
                },
                {"id": "c", "text": "v", "annotations": []},
            ]
        ),
        (("a", "w1", "x", 1), ("a", "w2", "y", 1), ("b", "w2", "x", 1)),
        ("draft entries (1)", "records without a vote (1)"),
    ),
    ExportSample(
        "nested",
        "keyed.json",
        as_json({"a": {"w1": "x", "w2": "y"}, "b": {"w2": "x"}, "c": {"w1": "x"}}),
        (("a", "w1", "x", 1), ("a", "w2", "y", 1), ("b", "w2", "x", 1), ("c", "w1", "x", 1)),
    ),
    ExportSample(
        "peerannot",
        "answers.json",
        as_json({"0": {"7": 1, "9": 0}, "1": {"7": 1}, "2": {}}),
        (("0", "7", "1", 1), ("0", "9", "0", 1), ("1", "7", "1", 1)),
        ("tasks without an answer (1)",),
    ),
    ExportSample(
        "chaosnli",
        "chaos.jsonl",
        as_lines(chaos("p1", 2, 1, 1, 1.5), chaos("p2", 4, 0, 0, 0.0)),
        (
            ("p1", None, "entailment", 2),
            ("p1", None, "neutral", 1),
            ("p1", None, "contradiction", 1),
            ("p2", None, "entailment", 4),
        ),
    ),
    ExportSample(
        "lewidi",
        "train-2023.json",
        as_json(
            {
                "1": lewidi("Ann1,Ann2,Ann3", "1,0,0", 3, hard_label="0"),
                "2": lewidi("Ann1,Ann4", "0,0", 2, hard_label="0"),
                "3": lewidi("Ann1,Ann4", "", 0, hard_label=""),
            }
        ),
        (
            ("1", "Ann1", "1", 1),
            ("1", "Ann2", "0", 1),
            ("1", "Ann3", "0", 1),
            ("2", "Ann1", "0", 1),
            ("2", "Ann4", "0", 1),
        ),
        ("entries without annotations (1)",),
    ),
    ExportSample(
        "lewidi",
        "train-2025.json",
        as_json(
            {
                "3944": lewidi("Ann1,Ann2", {"Ann1": "1", "Ann2": "0"}, 2),
                "1907": lewidi("Ann2", {"Ann2": "1"}, 1),
            }
        ),
        (("3944", "Ann1", "1", 1), ("3944", "Ann2", "0", 1), ("1907", "Ann2", "1", 1)),
    ),
    ExportSample(
        "answer-matrix",
        "answers.txt",
        b"1 -1 0\n-1 -1 2\n-1 -1 -1\n0 -1 0\n",
        (("0", "0", "1", 1), ("0", "2", "0", 1), ("1", "2", "2", 1), ("3", "0", "0", 1), ("3", "2", "0", 1)),
        ("rows without an answer (1)", "annotators without an answer (1)", "-1 means no answer"),
    ),
    ExportSample(
        "answer-matrix",
        "matrix.csv",
        b"1,-1,0\n-1,1,2\n",
        (("0", "0", "1", 1), ("0", "2", "0", 1), ("1", "1", "1", 1), ("1", "2", "2", 1)),
    ),
    ExportSample(
        "answer-matrix",
        "zeros.txt",
        b"1 0 2\n0 2 2\n",
        (("0", "0", "1", 1), ("0", "2", "2", 1), ("1", "1", "2", 1), ("1", "2", "2", 1)),
        ("0 means no answer",),
        asked={"missing": ["0"]},
    ),
    ExportSample(
        "ferplus",
        "fer2013new.csv",
        FER_PLUS,
        (
            ("fer0000000.png", None, "neutral", 4),
            ("fer0000000.png", None, "sadness", 1),
            ("fer0000000.png", None, "anger", 3),
            ("fer0000000.png", None, "disgust", 2),
            ("fer0028638.png", None, "happiness", 10),
        ),
        ("images without a name (no face) (1)",),
    ),
    ExportSample(
        "davidson",
        "labeled_data.csv",
        DAVIDSON,
        (
            ("0", None, "neither", 3),
            ("1", None, "offensive_language", 3),
            ("4", None, "hate_speech", 1),
            ("4", None, "offensive_language", 5),
        ),
    ),
    ExportSample("cifar-n", "CIFAR-10_human.pt", saved(LABELS), CIFAR_N_VOTES),
    ExportSample(
        "cifar-10h",
        "cifar10h-raw.csv",
        TRIALS,
        TRIAL_VOTES,
        ("attention checks (3)", "votes of 1 of 3 annotators", "less than 75%"),
    ),
    ExportSample(
        "torch",
        "answers.pt",
        saved(torch.tensor([[1, -1], [0, 2]])),
        (("0", "0", "1", 1), ("1", "0", "0", 1), ("1", "1", "2", 1)),
    ),
    ExportSample(
        "torch",
        "counts.pt",
        saved(torch.tensor([[1, 2], [0, 3]])),
        (("0", None, "0", 1), ("0", None, "1", 2), ("1", None, "1", 3)),
    ),
    ExportSample(
        "annotator-folder",
        "raters",
        {"ann.csv": b"id,label\na,cat\nb,dog\n", "bob.csv": b"id,label\na,dog\nb,\n"},
        (("a", "ann", "cat", 1), ("b", "ann", "dog", 1), ("a", "bob", "dog", 1)),
        ("rows without a label (1)",),
    ),
)

several = {"from_name": "tags", "to_name": "text", "type": "choices", "value": {"choices": ["x", "y"]}}
per_region = {
    "from_name": "kind",
    "to_name": "text",
    "type": "choices",
    "value": {"start": 0, "end": 2, "choices": ["x"]},
}
REFUSED = (
    ExportSample("label-studio", "multi.json", as_json([task(1, annotation(1, several))]), says="several choices"),
    ExportSample("label-studio", "spans.json", as_json([task(1, annotation(1, span))]), says="spans of text"),
    ExportSample(
        "label-studio", "regions.json", as_json([task(1, annotation(1, per_region))]), says="one choice per region"
    ),
    ExportSample(
        "label-studio",
        "questions.json",
        as_json([task(1, annotation(1, choice("a"), choice("b", "topic")))]),
        says="sentiment, topic",
    ),
    ExportSample(
        "label-studio",
        "cancelled.json",
        as_json([task(1, annotation(1, choice("a"), was_cancelled=True), predictions=[{"result": [choice("b")]}])]),
        says="no question",
    ),
    ExportSample(
        "label-studio",
        "multi-min.json",
        as_json([min_row(1, 4, tags={"choices": ["x", "y"]}), min_row(2, 4, tags="x")]),
        says="several choices",
    ),
    ExportSample(
        "label-studio", "spans-min.json", as_json([min_row(1, 4, ner=[{"start": 0, "labels": ["x"]}])]), says="regions"
    ),
    ExportSample(
        "label-studio",
        "twice.json",
        as_json([task(1, annotation(1, choice("a")), annotation(1, choice("b")))]),
        says="for the second time",
    ),
    ExportSample(
        "argilla",
        "tags.jsonl",
        as_lines(argilla_row("a", [["x", "y"]], ["u1"], ["submitted"])),
        says="several labels per record",
    ),
    ExportSample(
        "argilla",
        "spans.jsonl",
        as_lines(argilla_row("a", [[{"label": "PER", "start": 4, "end": 10}]], ["u1"], ["submitted"])),
        says="spans of text",
    ),
    ExportSample(
        "argilla",
        "ranking.jsonl",
        as_lines(argilla_row("a", [[{"value": "x", "rank": 1}, {"value": "y", "rank": 2}]], ["u1"], ["submitted"])),
        says="a ranking",
    ),
    ExportSample(
        "argilla",
        "questions.jsonl",
        as_lines(
            argilla_row("a", ["x"], ["u1"], ["submitted"], **{"topic.responses": ["y"], "topic.responses.users": ["u1"]})
        ),
        says="label, topic",
    ),
    ExportSample(
        "argilla",
        "uneven.jsonl",
        as_lines(argilla_row("a", ["x"], ["u1", "u2"], ["submitted"])),
        says="1 responses, 2 users",
    ),
    ExportSample(
        "argilla",
        "text.jsonl",
        as_lines(*(argilla_row(f"i{i}", [f"free text {i}"], ["u1"], ["submitted"]) for i in range(30))),
        says="free text",
    ),
    ExportSample(
        "prodigy",
        "multi.jsonl",
        as_lines(prodigy(7, "a", options=OPTIONS, accept=["pos", "neg"])),
        says="several choices",
    ),
    ExportSample(
        "prodigy",
        "ner.jsonl",
        as_lines(prodigy(7, "a", tokens=[], spans=[{"start": 0, "end": 2, "label": "PER"}])),
        says="spans",
    ),
    ExportSample(
        "prodigy",
        "span.jsonl",
        as_lines(prodigy(7, "a", label="PER", spans=[{"start": 0, "end": 2, "label": "PER"}])),
        says="span of text",
    ),
    ExportSample(
        "prodigy", "labels.jsonl", as_lines(prodigy(7, "a", label="SPAM"), prodigy(7, "a", label="AD")), says="SPAM, AD"
    ),
    ExportSample(
        "prodigy",
        "review.jsonl",
        as_lines(prodigy(7, "a", options=OPTIONS, accept=["pos"], versions=[])),
        says="reviewed",
    ),
    ExportSample("doccano", "multi.jsonl", as_lines(doccano(1, ["x", "y"])), says="several choices"),
    ExportSample("doccano", "spans.jsonl", as_lines(doccano(1, [[0, 4, "PER"]])), says="spans"),
    ExportSample(
        "doccano",
        "mixed",
        {"a.jsonl": as_lines(doccano(1, ["x"])), "b.jsonl": as_lines(doccano(1, ["x"], text="another"))},
        says="another text",
    ),
    ExportSample(
        "toloka",
        "outputs.tsv",
        b"INPUT:image\tOUTPUT:result\tOUTPUT:sure\tASSIGNMENT:worker_id\nx.png\tcat\tyes\tw1\n",
        says="OUTPUT:result, OUTPUT:sure",
    ),
    ExportSample(
        "toloka",
        "areas.tsv",
        b'INPUT:image\tOUTPUT:result\tASSIGNMENT:worker_id\nx.png\t"[{""shape"": ""box""}]"\tw1\n',
        says="lists, areas or objects",
    ),
    ExportSample(
        "toloka",
        "inputs.tsv",
        b"INPUT:a\tINPUT:b\tOUTPUT:result\tASSIGNMENT:worker_id\nx\ty\tcat\tw1\n",
        says="2 inputs",
    ),
    ExportSample(
        "crowdflower",
        "aggregated.csv",
        b"_unit_id,_golden,_trusted_judgments,tone,tone:confidence,text\n7101,false,3,rude,0.67,Thanks\n",
        says="not the judgments",
    ),
    ExportSample(
        "crowdflower",
        "boxes.csv",
        CROWDFLOWER_PLAIN.replace(b"rude", b'"rude\nkind"'),
        says="several choices",
    ),
    ExportSample("crowdflower", "two.csv", CROWDFLOWER.replace(b",no,,,,", b",no,why,,,"), says="relevance, comment"),
    ExportSample("crowdflower", "unanimous.csv", CROWDFLOWER_PLAIN.replace(b"rude", b"kind"), says="no question"),
    ExportSample(
        "sagemaker",
        "labels.json",
        as_json([merged_later("0", a={"crowd-classifier-multi-select": {"labels": ["cat", "dog"]}})]),
        says="several choices",
    ),
    ExportSample(
        "sagemaker",
        "boxes.json",
        as_json([merged_later("0", a={"annotatedResult": {"boundingBoxes": [{"top": 1}]}})]),
        says="lists, boxes or objects",
    ),
    ExportSample(
        "sagemaker",
        "ticks.json",
        as_json([merged_later("0", a={"tone": {"rude": True, "kind": True}})]),
        says="several choices",
    ),
    ExportSample(
        "sagemaker",
        "unnamed.json",
        as_json([merged_later("0", a={"tone": {"": True, "kind": False}}, b={"tone": {"": False, "kind": True}})]),
        says="option of 'tone' is missing",
    ),
    ExportSample(
        "sagemaker",
        "elsewhere.json",
        as_json([{"datasetObjectId": "0", "annotations": [{"workerId": "a", "annotationData": {"s3Uri": "s3://b/0"}}]}]),
        says="holds no answer itself",
    ),
    ExportSample(
        "zooniverse",
        "several.csv",
        (ZOONIVERSE_HEAD + classified("ann", "501", answered(["Arms", "Bar"]))).encode(),
        says="several choices",
    ),
    ExportSample(
        "zooniverse",
        "drawn.csv",
        (ZOONIVERSE_HEAD + classified("ann", "501", answered([{"x": 1, "y": 2}]))).encode(),
        says="drawings, menus or surveys",
    ),
    ExportSample(
        "zooniverse",
        "workflows.csv",
        (
            ZOONIVERSE_HEAD
            + classified("ann", "501", answered("Arms"))
            + classified("ann", "501", answered("Bar"), workflow="13")
        ).encode(),
        says="12.T0, 13.T0",
    ),
    ExportSample("mturk", "boxes.csv", MTURK_RADIO.replace(b"false,true", b"true,true"), says="several choices"),
    ExportSample("mturk", "joined.csv", MTURK.replace(b",Positive,x", b",Negative|Positive,x"), says="joined by |"),
    ExportSample(
        "mturk", "questions.csv", MTURK.replace(b"Input.text", b"Answer.comment"), says="comment, sentiment.label"
    ),
    ExportSample(
        "nested",
        "ticked.json",
        as_json([{"id": "a", "votes": [{"user": "w1", "choice": ["x", "y"]}]}]),
        says="several labels per vote",
    ),
    ExportSample(
        "peerannot", "frame.json", as_json({"a": {"0": 1, "1": 2}, "b": {"0": 3, "1": 4}}), says="columns and rows"
    ),
    ExportSample("chaosnli", "wrong.jsonl", as_lines(chaos("p1", 2, 1, 1, 1.4)), says="the entropy of"),
    ExportSample(
        "chaosnli",
        "differs.jsonl",
        as_lines(chaos("p1", 2, 1, 1, 1.5) | {"label_counter": {"e": 3, "n": 1}}),
        says="differ",
    ),
    ExportSample(
        "lewidi",
        "several.json",
        as_json({"1": lewidi("Ann1,Ann2,Ann2", {"Ann1": "neutral", "Ann2": "entailment,neutral"}, 3)}),
        says="several choices",
    ),
    ExportSample("lewidi", "uneven.json", as_json({"1": lewidi("Ann1,Ann2", "1,0,0", 3)}), says="3 annotations by 2"),
    ExportSample("lewidi", "test.json", as_json({"1": lewidi("", "", 0)}), says="no vote"),
    ExportSample("answer-matrix", "full.txt", b"1 0 2\n0 1 2\n", says="--missing 0"),
    ExportSample("answer-matrix", "ragged.txt", b"1 0 -1\n0 1\n", says="2 numbers where the first line has 3"),
    ExportSample("answer-matrix", "negative.txt", b"1 0 -1\n0 1 -7\n", says="neither a class"),
    ExportSample("ferplus", "half.csv", FER_PLUS.replace(b",4,0,", b",4.5,0,"), says="not a count"),
    ExportSample("davidson", "sum.csv", DAVIDSON.replace(b"0,3,0,0,3", b"0,4,0,0,3"), says="add up to 3"),
    ExportSample("cifar-n", "weights.pt", saved({"layer.weight": torch.zeros(2, 2)}), says="no random_label1"),
    ExportSample("cifar-n", "range.pt", saved(LABELS | {"random_label1": np.array([3, 8, 12])}), says="outside 0 to 9"),
    ExportSample("cifar-10h", "label.csv", TRIALS.replace(b"8,9,0", b"8,12,0"), says="chosen_label is 12"),
    ExportSample(
        "cifar-10h", "vote.csv", TRIALS.replace(b"0,1,a.png", b"0,-99999,a.png"), says="a vote is on image -99999"
    ),
    ExportSample("torch", "probs.pt", saved(torch.full((2, 2), 0.5)), says="no matrix of whole numbers"),
    ExportSample("torch", "code.pt", saved(Path("x")), says="without running code from it (it names pathlib"),
    ExportSample(
        "annotator-folder",
        "named",
        {"a.csv": b"id,worker,label\nx,w,cat\n", "b.csv": b"id,worker,label\nx,w,cat\n"},
        says="names annotators",
    ),
    ExportSample("annotator-folder", "texts", {"a.csv": b"x,y\n1,2\n", "b.csv": b"x,y\n1,2\n"}, says="known to hold"),
)

ORDINARY = {
    "crowd-kit.csv": b"task,worker,label\nt1,w1,cat\nt1,w2,dog\nt2,w1,dog\n",
    "long.csv": b"item,annotator,label\na,w1,cat\na,w2,dog\nb,w1,cat\n",
    "long.tsv": b"item\tworker\tlabel\na\tw1\tcat\na\tw2\tdog\n",
    "long.jsonl": as_lines(
        {"item": "a", "annotator": "w1", "label": "cat"}, {"item": "b", "annotator": "w1", "label": "dog"}
    ),
    "long.json": as_json(
        [{"item": "a", "annotator": "w1", "label": "cat"}, {"item": "b", "annotator": "w1", "label": "dog"}]
    ),
    "long.parquet": parquet([{"item": "a", "annotator": "w1", "label": "cat"}]),
    "texts.csv": b"id,text,label,user\n1,a text,pos,eva\n1,a text,neg,tom\n",
    "wide.csv": b"item,annotator_1,annotator_2\na,cat,dog\nb,dog,\n",
    "ratings.csv": b"item,ann,bob\na,1,2\nb,5,\n",
    "counts.csv": b"item,cat,dog\na,2,1\nb,0,3\n",
    "counts-total.csv": b"item,count,cat,dog\na,3,2,1\nb,3,0,3\n",
    "counts-headless.csv": b"2,1,0\n0,3,0\n",
    "lists.jsonl": as_lines({"id": "a", "labels": ["cat", "dog", "cat"]}, {"id": "b", "labels": ["dog", "dog"]}),
    "lists-text.jsonl": as_lines(
        {"id": 1, "text": "t", "label": ["cat", "dog"]}, {"id": 2, "text": "u", "label": ["dog"]}
    ),
    "dicts.jsonl": as_lines({"id": "a", "label": {"w1": "cat", "w2": "dog"}}, {"id": "b", "label": {"w1": "dog"}}),
    "indexed.csv": b",item,worker,label\n0,a,w1,1\n1,a,w2,\n",
    "indexed-counts.csv": b",cat,dog\n0,2,1\n1,0,3\n",
    "people.json": as_json({"Ann1": {"Age": "33", "Gender": "f"}, "Ann2": {"Age": "41", "Gender": "m"}}),
}
"""Tables of votes that no platform wrote: every reader leaves them to `read_votes`."""


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """The same bytes with one thing wrong: cut short, a byte, a slice or a word changed, lost, doubled or moved."""
    kind = rng.integers(8)
    at = int(rng.integers(len(content)))
    to = min(len(content), at + 1 + int(rng.integers(12)))
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + bytes([int(rng.integers(256))]) + content[at + 1 :]
    if kind == 2:
        return content[:at] + bytes(rng.choice(list(b'",:[]{}01-ntf \n\t'), 1).astype(np.uint8)) + content[at + 1 :]
    if kind == 3:
        return content[:at] + content[to:]
    if kind == 4:
        return content[:to] + content[at:]
    words = re.findall(rb"[A-Za-z_.:]+|-?[0-9.]+|[^A-Za-z0-9_]", content)
    first, second = (int(index) for index in rng.integers(len(words), size=2))
    if kind == 5:
        words[first] = words[second]
    elif kind == 6:
        words[first], words[second] = words[second], words[first]
    else:
        values = (
            b"null",
            b"true",
            b"[]",
            b"{}",
            b'""',
            b"-1",
            b"1e400",
            b"NaN",
            b"0.5",
            b"99999999999999999999",
            b'"\\ud800"',
        )
        words[first] = values[int(rng.integers(len(values)))]
    return b"".join(words)
