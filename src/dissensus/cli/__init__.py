"""The command line: parse, call, print. Heavy packages are imported where they are needed, so that help is instant."""

from __future__ import annotations

import os
import sys

import click

from dissensus import __version__
from dissensus.cli.data_commands import data
from dissensus.cli.embed_command import embed
from dissensus.cli.experiment_commands import demo, recipes, report, run
from dissensus.cli.model_commands import example, fit, predict
from dissensus.cli.run_commands import runs, watch
from dissensus.cli.vote_commands import inspect, score
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


for command in (demo, fit, predict, example, inspect, score, embed, run, recipes, report, runs, watch, data):
    cli.add_command(command)
    command.context_settings.update(
        HELP
    )  # click caches the help option of a command's first call, even without the group


def main() -> None:
    """Run a command. Bad input exits with code 2 and a message, an interruption with 130; neither shows a traceback."""
    try:
        cli(standalone_mode=False)
    except InputError as problem:
        click.echo(f"dissensus: {problem}", err=True)
        sys.exit(2)
    except click.exceptions.Abort:
        click.echo("dissensus: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except BrokenPipeError:  # the reader of our output closed the pipe (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
