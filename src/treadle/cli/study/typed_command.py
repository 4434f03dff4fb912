"""The present command line, in a form that can be run again."""

import shlex

import click
from click.core import ParameterSource


def command_line(context: click.Context) -> str:
    """The command, its arguments and the given options, without defaults."""
    words = context.command_path.split()
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        value = context.params.get(name)
        if isinstance(parameter, click.Argument):
            words.append(str(value))
        elif given and parameter.param_type_name == "option" and value is not None:
            options.append(parameter.opts[0])
            if not (isinstance(parameter, click.Option) and parameter.is_flag):
                options.append(str(value))
    return shlex.join([*words, *options])
