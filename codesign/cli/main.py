"""Entry point: finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys

import click

from codesign._common.errors import CodesignError

# command -> (module, attribute, short help); modules load only when their command
# runs, so that `codesign --help` does not wait for pandas.
_COMMANDS = {
    "characterize": ("characterize", "Measure a workload, read traces, or compose a recipe."),
    "show": ("show", "Show what a characterization, model or recommendation file holds."),
    "fit": ("fit", "Fit the sensitivity model, with diagnostics."),
    "project": ("project", "Project a characterization onto other hardware."),
    "recommend": ("recommend", "Rank hardware levers over a portfolio and write the report."),
    "backtest": ("backtest", "Score projections on GPUs that the model has not seen."),
    "hw": ("hw", "List, show, check and compare the hardware library."),
    "doctor": ("doctor", "What is installed, which GPU, what to do next."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"codesign.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="codesign")
def cli() -> None:
    """Which hardware change is worth most, by what the workloads measurably do.

    \b
    Example, from measured kernels to a ranked report:
      codesign characterize --recipe llama-3.1-8b-sft -o sft.parquet
      codesign fit -o model.json
      codesign recommend default --model model.json -o report.html
    """


def main() -> None:
    """Run the command line. The only place that prints an error and exits."""
    # A legacy console must not turn a CJK workload name into a crash.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except CodesignError as error:
        click.echo(f"codesign: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is wrong and nothing can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
