"""The file of `explore --space`: options of the command, written once, as YAML.

Its keys are the command's long options without their dashes, and `models`; what stands on the command line as well is
taken from there, or added where an option may be repeated.
"""

from collections.abc import Iterator, Sequence

import click

from tilestitch.base.errors import InputError

OPTION = "--space"
MODELS = "models"
MAX_BYTES = 256 * 1024


class WithSpaceFile(click.Command):
    """A command that puts the options of such a file before those of its command line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Before click looks at anything: what the file says is checked as if it had been typed."""
        return super().parse_args(ctx, list(self._expanded(args)))

    def _expanded(self, args: Sequence[str]) -> list[str]:
        paths = [args[at + 1] for at, arg in enumerate(args[:-1]) if arg == OPTION]
        paths += [arg.partition("=")[2] for arg in args if arg.startswith(f"{OPTION}=")]
        if len(paths) > 1:
            raise InputError(f"{OPTION}: is given {len(paths)} times; put everything into one file")
        if not paths or "--help" in args or "-h" in args:
            return list(args)
        return [*self._arguments(paths[0]), *args]

    def _arguments(self, path: str) -> Iterator[str]:
        from tilestitch.base.text_files import file_text
        from tilestitch.hardware.fields import closest
        from tilestitch.hardware.yaml_tree import Scalar, Tree, read_tree

        mistakes = []
        tree = read_tree(file_text(path, "YAML", MAX_BYTES), path, mistakes)
        known = {one.opts[-1].removeprefix("--"): one for one in self.params if isinstance(one, click.Option)}
        for name in ("space", "json", "html", "quiet", "debug"):
            del known[name]

        def fail(key: str, expected: str) -> InputError:
            return InputError(f"{path}: {key}: expected {expected}")

        def texts(key: str, value: Tree) -> list[str]:
            """One value, or several in a list."""
            items = value if isinstance(value, list) else [value]
            found = [one.text for one in items if isinstance(one, Scalar) and one.text]
            if len(found) != len(items) or not items:
                raise fail(key, "a value or a list of values")
            return found

        if mistakes:
            raise InputError("\n".join(f"{path}: {mistake}" for mistake in mistakes[:20]))
        if not isinstance(tree, dict):
            raise InputError(f"{path}: expected a mapping with keys such as {MODELS}, machine and vary")
        for key, value in tree.items():
            if key == MODELS:
                yield from texts(key, value)
                continue
            if key not in known:
                names = [MODELS, *known]
                raise InputError(f"{path}: {key}: unknown key{closest(key, names)}; known: {', '.join(names)}")
            option = known[key]
            if key == "vary":
                if not isinstance(value, dict):
                    raise fail(key, "a mapping from names or paths to values, such as {bandwidth: 4..16*2}")
                for name, values in value.items():
                    yield from ("--vary", f"{name}={','.join(texts(f'{key}.{name}', values))}")
                continue
            given = texts(key, value)
            if option.is_flag:
                if given not in (["true"], ["false"]):
                    raise fail(key, "true or false")
                yield from option.opts[-1:] if given == ["true"] else option.secondary_opts
                continue
            if len(given) > 1 and not option.multiple:
                raise fail(key, "one value")
            for one in given:
                yield f"--{key}={one}"
