"""What is shown of a run: annotations, differences, panes of a page, and the page on which a schedule is changed."""

from tests.mutants.mutant import Mutant

SHOWN = (
    Mutant(
        "an annotated node has the traffic of another port",
        "pipeline/annotate.py",
        '"ddr_bytes.simulated": str(total.ddr_bytes),',
        '"ddr_bytes.simulated": str(total.gb_bytes),',
        ("test_annotate::test_the_numbers_of_the_nodes_add_up_to_the_report",),
    ),
    Mutant(
        "annotations of an earlier run stay",
        "pipeline/annotate.py",
        "for one in entries if not one.key.startswith(PREFIX)]",
        "for one in entries]",
        ("test_annotate::test_the_metadata_of_others_stays_and_ours_is_replaced",),
    ),
    Mutant(
        "any network may be annotated",
        "pipeline/annotate.py",
        "    if strange:\n",
        "    if len(strange) > 1000:\n",
        ("test_annotate::test_another_network_is_refused",),
    ),
    Mutant(
        "the second run of a comparison is the first",
        "commands/diff/compared.py",
        "return Figure(what, unit, origin, of(a), of(b))",
        "return Figure(what, unit, origin, of(a), of(a))",
        ("test_diff::test_the_numbers_are_those_of_the_reports",),
    ),
    Mutant(
        "a decision about an operator is not compared",
        "commands/diff/compared.py",
        '        ("pieces", lambda one: f"{one.pieces}"),\n',
        "",
        ("test_diff::test_every_decision_about_an_operator_is_compared",),
    ),
    Mutant(
        "an operator of the second run alone is left out",
        "commands/diff/compared.py",
        "    for name in dict.fromkeys((*first, *second)):\n        left,",
        "    for name in first:\n        left,",
        ("test_diff::test_an_operator_of_one_run_alone_is_shown",),
    ),
    Mutant(
        "stages that no verifier saw are said to hold",
        "report/html/proof.py",
        "verified=report.outcome is not None)]",
        "verified=True)]",
        ("test_html_proof::test_only_what_was_looked_at_is_said_to_hold",),
    ),
    Mutant(
        "DDR that all clusters share counts as private",
        "report/html/proof.py",
        "sharers = 1 if machine.private_ddr else schedule.clusters",
        "sharers = schedule.clusters if machine.private_ddr else 1",
        ("test_html_proof::test_the_limits_of_a_page_are_the_bounds_of_the_report",),
    ),
    Mutant(
        "the pane of values shows the program's numbers twice",
        "report/html/values.py",
        "numbers = (sample.found, sample.expected,",
        "numbers = (sample.found, sample.found,",
        ("test_html_proof::test_the_values_of_a_page_are_those_that_were_compared",),
    ),
    Mutant(
        "any token opens the page",
        "serve/app.py",
        "if not secrets.compare_digest(given, self.token):",
        "if not given:",
        ("test_serve::test_a_request_from_elsewhere_is_refused",),
    ),
    Mutant(
        "other sites may ask",
        "serve/app.py",
        'if headers.get(b"origin", next(iter(self.origins))) not in self.origins:',
        "if not headers:",
        ("test_serve::test_a_request_from_elsewhere_is_refused",),
    ),
    Mutant(
        "the token of an address allows changes",
        "serve/app.py",
        'if not given and scope["method"] in ("GET", "HEAD"):',
        "if not given:",
        ("test_serve::test_the_token_in_an_address_changes_nothing",),
    ),
    Mutant(
        "a schedule is written through a link",
        "serve/workbench.py",
        "if target.is_symlink() or (target.exists() and not target.is_file()):",
        "if target.exists() and not target.is_file():",
        ("test_serve::test_a_link_is_not_written_through",),
    ),
    Mutant(
        "places of results are lost when groups change",
        "serve/edits.py",
        "[part.scope for part in parts])\n",
        "[None for part in parts])\n",
        ("test_edits::test_results_wait_where_they_are_told",),
    ),
)
