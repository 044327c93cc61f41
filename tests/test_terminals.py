"""Pipes that close, full disks, terminals that speak ASCII, labels that try to steer them, and an early Ctrl-C."""

import io
import os
import signal
import subprocess
import sys
import warnings

import pytest
from rich.console import Console

from dissensus.cli import cli, main
from dissensus.cli.output import SafeOutput, printable
from dissensus.cli.progress import Display, RunProgress, progress_table
from dissensus.engine.events import Event

EVIL = "\x1b[2J[red]gone[/red] [/x] \x07\u202eabc\x9b31m :smile:"


def dissensus(*arguments, **options):
    """The command line in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "dissensus", *map(str, arguments)], stderr=subprocess.PIPE, **options)


def test_output_to_a_full_disk_is_said_and_is_no_success():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        process = dissensus("--help", stdout=full)
        error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 2
    assert error == "dissensus: the output cannot be written (No space left on device).\n"


def test_a_warning_is_words_and_not_a_line_of_our_code(capsys, monkeypatch):
    def warn(*arguments, **options):
        warnings.warn(f"an MLP {EVIL[:5]} is left out", stacklevel=2)

    monkeypatch.setattr(cli, "main", warn)
    with warnings.catch_warnings(action="always"), pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err == "  warning: an MLP \\x1b[2J[ is left out\n"


def test_a_reader_that_leaves_early_is_no_error():
    read, write = os.pipe()
    os.close(read)
    process = dissensus("--help", stdout=write)
    os.close(write)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode in (1, 141)  # 1 is click's own


@pytest.mark.parametrize(
    ("encoding", "command"),
    [("ascii", ("data", "list")), ("ascii", ("inspect", "–×.csv")), ("cp1252", ("inspect", "–×日.csv"))],
)
def test_a_terminal_that_lacks_letters_gets_question_marks(encoding, command):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "0"}
    process = dissensus(*command, stdout=subprocess.PIPE, env=environment)
    out, error = process.communicate(timeout=120)
    assert b"Traceback" not in error
    (out + error).decode(encoding)
    assert process.returncode == (2 if command[0] == "inspect" else 0)


@pytest.mark.parametrize("moment", ["import", "fork server"])
def test_ctrl_c_in_the_first_seconds_is_one_line_and_code_130(tmp_path, moment):
    """The signal goes to the whole group of processes, as from a terminal."""
    process = dissensus(
        *("run", "demo", "--scale", "smoke", "--workers", 2, "--out", tmp_path / "o"),
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
    )
    marker = b"click" if moment == "import" else b"torch.nn"  # by then the server has begun its own imports
    for line in process.stderr:
        if marker in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    error = process.communicate(timeout=60)[1].decode()
    lines = [line for line in error.splitlines() if line.strip() and not line.startswith("import time")]
    assert lines == ["dissensus: interrupted"]
    assert process.returncode == 130


def test_what_would_steer_a_terminal_is_spelled_out():
    shown = printable(EVIL)
    assert shown.isprintable()
    assert printable(shown) == shown
    assert "\\x1b[2J[red]gone" in shown
    assert printable("naïve – ✓ 日本\n\t") == "naïve – ✓ 日本\n\t"


def test_only_bold_letters_pass_to_standard_output():
    stream = io.StringIO()
    SafeOutput(stream).write(f"\x1b[1mname\x1b[0m {EVIL}\n")
    assert stream.getvalue() == f"\x1b[1mname\x1b[0m {printable(EVIL)}\n"


def test_labels_with_escapes_and_markup_are_shown_as_they_are():
    written = io.StringIO()
    console = Console(file=written, width=200, force_terminal=False)
    display = Display({"a": EVIL}, {}, console)
    for kind in ("started", "note", "failed"):
        display(Event(kind, "a", message=f"because {EVIL}"))
    console.print(progress_table({EVIL: RunProgress(1, 2, 0.5)}))
    text = written.getvalue()
    assert text.count("[red]gone[/red] [/x]") >= 3
    assert not set(text) & set("\x1b\x07\u202e\x9b")


def test_errors_show_what_was_typed_without_obeying_it(capsys, monkeypatch):
    for arguments in (
        ["inspect", EVIL],
        ["run", EVIL, "--out", "x"],
        ["run", "demo", "--seeds", EVIL, "--out", "x"],
        [EVIL],
    ):
        monkeypatch.setattr(sys, "argv", ["dissensus", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        printed = capsys.readouterr()
        assert not set(printed.out + printed.err) & set("\x1b\x07\u202e\x9b")
