"""The terminal door: one command, one file, loaded when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

import click

from allaboard.api.errors import (
    AboardError,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unauthorized,
    Unavailable,
)

# Every command and what it does; its file has the same name.
COMMANDS = {
    "run": "train a script (or the built-in `hello`) and follow it to the end",
    "up": "start the embedded plane on this machine",
    "down": "stop it; its state stays",
    "status": "what runs here",
    "certify": "a kubeconfig for another user of this plane, with a client certificate",
    "apply": "create or change what a file describes",
    "get": "list objects of a kind, or show some",
    "describe": "one object, its conditions, its children and what was said about it",
    "ps": "the jobs, in order, each with the reason it waits",
    "queue": "the tree of queues, what each deserves, may have and holds",
    "top": "what nodes and jobs asked for, and what they use",
    "events": "what was said about a job, or about everything",
    "logs": "what the ranks of a job print, merged",
    "plan": "whether a job would start now, where, and who would have to go",
    "why": "why a job waits, failed, or runs the way it does",
    "wait": "until a job is complete, running or in a condition",
    "suspend": "take a job off its nodes, to be resumed later",
    "resume": "let a suspended job go on",
    "scale": "give a job that waits, is suspended or is elastic another size",
    "move": "put a job into another queue",
    "retry": "start a job that is over again",
    "exec": "run a command inside a rank of a job",
    "attach": "listen to the process of a rank from now on",
    "cp": "copy files into a rank of a job, or out of one",
    "port-forward": "reach a port of a rank on this machine",
    "delete": "remove objects, their children and their processes",
    "render": "the final objects of a TrainJob, and who set every field",
    "lint": "what would go wrong with files, without sending them",
    "convert": "turn PyTorchJob and MPIJob manifests into TrainJobs",
    "doctor": "what this machine can do for pods, and the remedy for what it cannot",
    "images": "which local environment stands for which image",
    "snapshot": "save what the scheduler sees now",
    "replay": "decide a saved scheduling cycle again",
    "control": "run our controllers against a real cluster",
    "join": "run the pods a real cluster binds to this machine",
    "serve": "run a plane in the foreground",
    "version": "which version this is",
}
HIDDEN = {"node": "the node agent of a plane (started by `serve`)"}

EXIT_CODES = {
    Unavailable: 4,
    Unauthorized: 5,
    Forbidden: 5,
    Invalid: 5,
    Conflict: 5,
    NotFound: 3,
}


class Commands(click.Group):
    """The table above, each entry imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS and name not in HIDDEN:
            return None
        command: click.Command = load(f"allaboard.cli.{name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = _nearest(args[0])
            raise click.UsageError(f'no command "{args[0]}"{close}', ctx) from error


def load(module: str) -> ModuleType:
    """A module by name, on first use: what a command does not need does not slow it down."""
    return importlib.import_module(module)


def _nearest(word: str) -> str:
    close = load("difflib").get_close_matches(word, COMMANDS, n=1)
    return f'; did you mean "{close[0]}"?' if close else "; `aboard --help` lists them"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kubeconfig", default="", help="The cluster to talk to (default: the plane on this machine).")
@click.option("--context", "context_name", default="", help="Which context of the kubeconfig.")
@click.option("-n", "--namespace", default="", help="The namespace to work in.")
@click.pass_context
def aboard(ctx: click.Context, kubeconfig: str, context_name: str, namespace: str) -> None:
    """All Aboard: gang-scheduled distributed training, from one laptop command to any Kubernetes cluster."""
    ctx.obj = {"kubeconfig": kubeconfig, "context": context_name, "namespace": namespace}


def main() -> None:
    """Run a command; whatever goes wrong is one sentence on stderr and a documented exit code."""
    try:
        sys.exit(aboard.main(prog_name="aboard", standalone_mode=False))
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        _complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except AboardError as error:
        _complain(str(error), exit_code(error))


def exit_code(error: AboardError) -> int:
    """What the shell is told: documented in docs/reference/exit-codes.md."""
    if isinstance(error, ApiError):
        return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
    return error.exit_code


def _complain(sentence: str, code: int) -> None:
    click.echo(f"{click.style('error:', fg='red')} {sentence}", err=True)
    sys.exit(code)
