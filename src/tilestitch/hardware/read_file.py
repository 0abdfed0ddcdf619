"""A machine's file as its model, or one error that lists every mistake in it.

What one field says is checked by the models of `file_models`, what several fields say together by `contradictions`, and
last what axes and memories make together; neither of the first two stops at the first mistake.
"""

from tilestitch.base.errors import InputError
from tilestitch.hardware.contradictions import contradictions
from tilestitch.hardware.file_models import MachineModel, model_of
from tilestitch.hardware.old_form import old_form
from tilestitch.hardware.tree_file import tree_mistakes
from tilestitch.hardware.yaml_path import named
from tilestitch.hardware.yaml_tree import Mistake, Tree, read_tree

MAX_FILE_BYTES = 256 * 1024
ONE_PAGE = "; a machine is about one page of YAML"
MAX_LINES = 100  # of one error message


def parsed(text: str, where: str) -> tuple[Tree, MachineModel]:
    """What a YAML text says; `where` begins each line of an error, which lists every mistake."""
    if len(text) > MAX_FILE_BYTES:
        raise InputError(f"{where}: expected at most {MAX_FILE_BYTES:,} bytes, found more{ONE_PAGE}")
    mistakes: list[Mistake] = []
    tree = read_tree(text, where, mistakes)
    return tree, checked(tree, mistakes, where)


def checked(tree: Tree, mistakes: list[Mistake], where: str) -> MachineModel:
    """The model of what a file says, unless its text already has mistakes."""
    if old := old_form(tree):
        raise InputError(f"{where}: {old}")
    model, wrong = model_of(tree)
    found = [*mistakes, *wrong, *contradictions(tree)]
    if model is not None and not found:
        found = list(tree_mistakes(model))
    if model is None or found:
        lines = [f"{where}: {Mistake(named(tree, one.path), one.problem)}" for one in found[:MAX_LINES]]
        if len(found) > MAX_LINES:
            lines.append(f"{where}: and {len(found) - MAX_LINES} more mistakes")
        raise InputError("\n".join(lines))
    return model
