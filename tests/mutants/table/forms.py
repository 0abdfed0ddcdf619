"""How graphs and programs are written and read back."""

from tests.mutants.mutant import Mutant

FORMS = (
    Mutant(
        "a text of a graph leaves out padding",
        "ir/forms/graph_form.py",
        'if str(access.pad_value) != "0.0":',
        "if access.pad_value > 0:",
        ("test_forms::test_a_strange_graph_reads_back",),
    ),
    Mutant(
        "an index reads the dims in the order of the loops",
        "ir/forms/graph_form.py",
        "axis = Axis(tuple(terms), offset)",
        "axis = Axis(tuple(sorted(terms)), offset)",
        ("test_forms::test_a_random_graph_reads_back",),
    ),
    Mutant(
        "a digest takes in the name of the network",
        "ir/forms/graph_form.py",
        "{**_structure(graph), **names}",
        '{"name": graph.name, **_structure(graph), **names}',
        ("test_forms::test_the_digest_stands_for_all_that_decisions_depend_on",),
    ),
    Mutant(
        "a program may name what is not there",
        "ir/verify.py",
        "np.flatnonzero((column < least) | (column >= stop))[:1]:",
        "np.flatnonzero(column < least)[:1]:",
        ("test_forms::test_a_changed_number_is_refused_or_is_a_right_value",),
    ),
)
