"""Parses command lines: the flags of a `FlagTable`, their help and their checks."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from absl import flags

from bert_mgpu.config.base import FlagTable, fields
from bert_mgpu.config.other_names import OTHER_NAMES
from bert_mgpu.core.errors import UserError, short_repr, shortened

Settings = TypeVar("Settings", bound=FlagTable)
# google-research/bert's flags for TPUs: accepted so that old scripts run.
_TPU_FLAGS = {
    "tpu_name": None,
    "tpu_zone": None,
    "gcp_project": None,
    "master": None,
    "num_tpu_cores": 8,
    "iterations_per_loop": 1000,
    "use_one_hot_embeddings": False,
}
_DEFINE = {
    "bool": flags.DEFINE_bool,
    "int": flags.DEFINE_integer,
    "float": flags.DEFINE_float,
    "str": flags.DEFINE_string,
}
# The values that a flag takes, by absl's name for its type.
_WANTED = {"bool": "true or false", "int": "a whole number", "float": "a number"}
_BAD_VALUE = re.compile(r"flag --(\w+)=(.*?): ", re.DOTALL)
_BAD_SWITCH = re.compile(r"--?no(\w+)=.* does not take an argument", re.DOTALL)
_LONGEST_NAME = 80  # characters of a flag's name
_ALIKE = 0.7  # least similarity, 0 to 1, of a name that is suggested
_SEE_HELP = "(--help=all lists all flags)"
_MOST = 10**12  # the maximum of whole numbers (steps, rows) without one of their own


class HelpRequested(Exception):
    """--help was given; the argument is the help text."""


def _define(values: flags.FlagValues, table: type[FlagTable]) -> None:
    for field in fields(table):
        text, choices = field.metadata["help"], field.metadata["choices"]
        if choices:
            flags.DEFINE_enum(field.name, field.default, choices, text, values)
        else:
            type_name = str(field.type).removesuffix(" | None")
            _DEFINE[type_name](field.name, field.default, text, flag_values=values)
    if table.has_tpu_flags:
        flags.DEFINE_bool("use_tpu", False, "", values)
        for name, default in _TPU_FLAGS.items():
            type_name = "str" if default is None else type(default).__name__
            _DEFINE[type_name](name, default, "", flag_values=values)
    flags.DEFINE_bool("help", False, "", values, short_name="h")
    flags.DEFINE_bool("helpfull", False, "", values)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is None:
        return ""
    value = str(field.default).lower() if field.type == "bool" else field.default
    return f" [{value}]"


def help_text(usage: str, table: type[FlagTable], whole: bool = True) -> str:
    """Usage and flags by group, with defaults in brackets, 80 columns wide.

    whole: show all flags, not only those in the table's `first`, if it has any.
    """
    shown = [f for f in fields(table) if whole or f.name in table.first]
    hidden = bool(shown) and len(fields(table)) - len(shown)
    lines = [usage.strip(), ""]
    group = None
    for field in shown or fields(table):
        if field.metadata["group"] != group:
            group = field.metadata["group"]
            lines += [f"{group}:"]
        value = "|".join(field.metadata["choices"])
        value = value or {"bool": "true|false", "int": "N", "float": "X"}.get(
            str(field.type).removesuffix(" | None"), "..."
        )
        lines.append(f"  --{field.name}={value}")
        lines += textwrap.wrap(
            field.metadata["help"] + _default(field),
            width=78,
            initial_indent=" " * 8,
            subsequent_indent=" " * 8,
            break_on_hyphens=False,
        )
    if hidden:
        lines += ["", f"--help=all shows {hidden} more flags."]
    return "\n".join(lines)


def _explain(
    error: flags.Error | ValueError, values: flags.FlagValues, table: type[FlagTable]
) -> str:
    """A message for absl's error: what is wrong and what to pass instead."""
    if isinstance(error, flags.UnrecognizedFlagError):
        known = [field.name for field in fields(table)]
        name = shortened(error.flagname)
        here = OTHER_NAMES.get(name, "")
        if here.partition("=")[0] in known:
            return f"--{name}: here it is called --{here} {_SEE_HELP}"
        near = difflib.get_close_matches(name, known, n=2, cutoff=_ALIKE)
        meant = " or ".join(f"--{known_name}" for known_name in near)
        hint = f": did you mean {meant}?" if near else ""
        return f"--{name}: there is no such flag{hint} {_SEE_HELP}"
    if match := _BAD_VALUE.match(str(error)):
        flag = values[match[1]]
        choices = getattr(flag.parser, "enum_values", None)
        wanted = ", ".join(choices) if choices else _WANTED[flag.flag_type()]
        value = shortened(match[2])
        return f"--{match[1]}={value}: pass {'one of ' * bool(choices)}{wanted}"
    if match := _BAD_SWITCH.match(str(error)):
        name = match[1]
        return f"--no{name} takes no value: pass --{name}=true or --{name}=false"
    return f"{shortened(str(error))} {_SEE_HELP}"


def _check_follower(
    argv: Sequence[str], name: str, value: Any, *, known: flags.FlagValues
) -> None:
    """Raises UserError if the next flag was taken as the value of this one."""
    names, text = (f"-{name}", f"--{name}"), str(value)
    follower = text.removeprefix("-").partition("=")[0]
    is_flag = text.startswith("--") or (
        text.startswith("-") and {follower, follower.removeprefix("no")} & {*known}
    )
    if is_flag and any(
        part in names and after == value for part, after in itertools.pairwise(argv)
    ):
        shown = shortened(value)
        raise UserError(f"--{name} has no value, {shown} follows: write --{name}=VALUE")


def _check_text(name: str, value: str) -> None:
    shown = shortened(value)
    # TensorFlow accepts no other file names, and settings are saved as UTF-8.
    if "\0" in value or not (value.isascii() or _is_utf_8(value)):
        fault = "holds a NUL byte" if "\0" in value else "is not UTF-8"
        raise UserError(
            f"--{name}={shown!r}: {fault}: pass plain text, or rename the file"
        )


def _is_utf_8(value: str) -> bool:
    try:
        return bool(value.encode())
    except UnicodeEncodeError:  # surrogates, from bytes that are not UTF-8
        return False


def _check(
    name: str, value: Any, minimum: float | None, *, maximum: float | None
) -> None:
    if isinstance(value, str):
        _check_text(name, value)
    elif isinstance(value, int) and maximum is None:
        maximum = _MOST
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"--{name}={value}: pass a finite number")
    if None not in (minimum, value) and value < minimum:
        raise UserError(f"--{name}={shortened(value)}: pass at least {minimum}")
    if None not in (maximum, value) and value > maximum:
        raise UserError(f"--{name}={shortened(value)}: pass at most {maximum}")


def arguments(values: Mapping[str, Any]) -> list[str]:
    """The command-line arguments for these flags, without those that are None.

    Lists are joined by commas, and dicts are written as JSON. Raises UserError for an
    item of a list that contains a comma.
    """
    texts = []
    for name, value in values.items():
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, Mapping):
            # Numbers may be numpy scalars.
            value = json.dumps(value, ensure_ascii=False, default=float)
        elif isinstance(value, list | tuple):
            if parts := [part for part in map(str, value) if "," in part]:
                raise UserError(
                    f"{name}: {short_repr(parts[0])}: a comma separates the items: pass"
                    " one without"
                )
            value = ",".join(map(str, value))
        if value is not None:
            texts.append(f"--{name}={value}")
    return texts


def _joined(argv: Sequence[str], table: type[FlagTable]) -> list[str]:
    """The command line with `--do_train true`, as people type it, as one argument."""
    names = [field.name for field in fields(table) if "bool" in str(field.type)]
    switches = {f"{dashes}{name}" for name in names for dashes in ("-", "--")}
    parts = [*argv[:1]]
    for part in argv[1:]:
        if parts[-1] in switches and part.lower() in ("true", "false"):
            parts[-1] += f"={part}"
        else:
            parts.append(part)
    return parts


def parse(
    argv: Sequence[str], usage: str, table: type[Settings]
) -> tuple[Settings, list[str]]:
    """Returns the settings and notes for the log; argv: in the form of sys.argv.

    Raises UserError for flags that are unknown, malformed or out of range, and
    HelpRequested for --help.
    """
    values = flags.FlagValues()
    _define(values, table)
    whole = "--help=all" in argv
    argv = ["--help" if part == "--help=all" else part for part in argv]
    for name in (arg.partition("=")[0] for arg in argv[1:]):
        if name.startswith("-") and len(name) > _LONGEST_NAME:  # absl recurses over it
            raise UserError(f"{shortened(name)}: there is no such flag {_SEE_HELP}")
    argv = _joined(argv, table)
    try:
        rest = values(argv)[1:]
    except (flags.Error, ValueError) as error:  # ValueError: --noNAME=VALUE
        raise UserError(_explain(error, values, table)) from None
    if values.help or values.helpfull:
        raise HelpRequested(help_text(usage, table, whole=whole or values.helpfull))
    if rest:
        raise UserError(
            f"{shortened(rest[0])!r} is not a flag: write --NAME=VALUE {_SEE_HELP}"
        )
    if "use_tpu" in values and values.use_tpu:
        raise UserError(
            "--use_tpu=true: bert_mgpu runs on GPUs and CPUs: leave the flag out and"
            " pass --n_gpus"
        )
    settings: dict[str, Any] = {}
    for field in fields(table):
        value = values[field.name].value
        _check_follower(argv, field.name, value, known=values)
        _check(
            field.name,
            value,
            field.metadata["minimum"],
            maximum=field.metadata["maximum"],
        )
        # An empty value, such as that of an unset variable of a script, means none.
        settings[field.name] = None if value == "" else value
    given = frozenset(name for name in values if values[name].present)
    ignored = sorted(given & set(_TPU_FLAGS))
    notes = []
    if ignored:
        names = ", ".join(f"--{name}" for name in ignored)
        notes.append(f"{names}: for TPUs only, without effect here")
    return table(**settings, given=given), notes
