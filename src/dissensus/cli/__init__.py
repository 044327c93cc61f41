"""The command line: parse, call, print. Heavy packages are imported where they are needed, so that help is instant."""

from __future__ import annotations

import io
import os
import sys
import warnings
from contextlib import suppress
from typing import TextIO

import click

from dissensus import __version__
from dissensus.cli.clean_command import clean
from dissensus.cli.compare_command import compare
from dissensus.cli.convert_command import convert
from dissensus.cli.data_commands import data
from dissensus.cli.embed_command import embed
from dissensus.cli.evaluate_command import evaluate
from dissensus.cli.experiment_commands import demo, recipes, report, run
from dissensus.cli.export_command import export
from dissensus.cli.inspect_command import inspect
from dissensus.cli.model_commands import example, fit, predict
from dissensus.cli.models_command import models
from dissensus.cli.output import printable, safe_output, silence
from dissensus.cli.plan_command import plan
from dissensus.cli.run_commands import runs, watch
from dissensus.cli.slurm_command import slurm
from dissensus.cli.split_command import split
from dissensus.cli.vote_commands import score
from dissensus.engine.plugins import load_plugins
from dissensus.errors import InputError

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(
    context_settings=HELP,
    epilog="""\b
Examples:
  dissensus demo                                  compare ways to use votes on built-in data, in two minutes
  dissensus example try && cd try                 a small votes.csv and features.npy to play with
  dissensus inspect votes.csv                     describe the votes
  dissensus fit votes.csv --features features.npy --out model
  dissensus score predictions.csv votes.csv       score any model's probabilities against the votes
""",
)
@click.version_option(__version__, prog_name="dissensus")
def cli() -> None:
    """Train and evaluate classifiers on the votes of people who disagree about the labels."""
    load_plugins()


COMMANDS = (
    demo,
    compare,
    fit,
    predict,
    plan,
    example,
    inspect,
    split,
    export,
    score,
    evaluate,
    convert,
    clean,
    embed,
    run,
    recipes,
    report,
    runs,
    watch,
    slurm,
    data,
    models,
)
for command in COMMANDS:
    cli.add_command(command)
    command.context_settings.update(
        HELP
    )  # click caches the help option of a command's first call, even without the group


def main() -> None:
    """Run a command. Bad input, and a system that cannot read or write, end with code 2 and a message, an interruption
    with 130; neither shows a traceback: a traceback is for our bugs."""
    with safe_output(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        sys.exit(_flushed(_exit_code()))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """What went otherwise than expected, in words: where in our code it was noticed helps nobody here."""
    name = "" if category is UserWarning else f"{category.__name__}: "
    _complain(f"  warning: {name}{message}", 0)


def _exit_code() -> int | str | None:
    try:
        cli(standalone_mode=False)
    except InputError as problem:
        return _complain(f"dissensus: {problem}", 2)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _complain("dissensus: interrupted", 130)
    except click.ClickException as problem:
        problem.show(words := io.StringIO())
        return _complain(words.getvalue().rstrip("\n"), problem.exit_code)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:
        return ended.code
    except BrokenPipeError:  # the reader of our output closed the pipe (`| head`)
        silence(sys.stdout)
        return 141
    except OSError as problem:
        named = f"{os.fsdecode(problem.filename)}: " if isinstance(problem.filename, (str, bytes)) else ""
        return _complain(f"dissensus: {named}{problem.strerror or type(problem).__name__}.", 2)
    except MemoryError:
        return _complain("dissensus: there is not enough memory for this.\n  Use less data, or a larger machine.", 2)
    return 0


def _flushed(code: int | str | None) -> int | str | None:
    """The exit code, once all output is written: a command whose output is lost did not succeed."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        return 141
    except InputError as problem:
        silence(sys.stdout)
        return _complain(f"dissensus: {problem}", 2)
    return code


def _complain(words: str, code: int) -> int:
    with suppress(OSError):  # standard error is full: the exit code still tells
        if sys.stderr is not None:
            sys.stderr.write(f"{printable(words)}\n")
            sys.stderr.flush()
    return code
