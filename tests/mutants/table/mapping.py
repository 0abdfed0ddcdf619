"""Mappings of one loop nest on an array."""

from tests.mutants.mutant import Mutant

MAPPING = (
    Mutant(
        "mapping: results stall the array for nothing",
        "mapping/published.py",
        "            cycles += (compute + sums) * passes // each\n",
        "            cycles += sums * passes // each\n",
        ("test_mapping::test_published_mode_is_the_published_model",),
    ),
    Mutant(
        "mapping: loops that move an operand do not end its stay",
        "mapping/price.py",
        "                    break\n                runs[k, loop] = 1\n",
        "                    continue\n                runs[k, loop] = 1\n",
        ("test_mapping::test_published_mode_is_the_published_model",),
    ),
    Mutant(
        "mapping: gaps between windows are thought to be loaded",
        "mapping/search.py",
        "            touched = np.unique(touched[:, None] + abs(step) * np.arange(nest.extents[loop]))\n",
        "            touched = np.arange((len(touched) - 1) + abs(step) * (nest.extents[loop] - 1) + 1)\n",
        ("test_mapping::test_brute_force_finds_nothing_better",),
    ),
    Mutant(
        "mapping: a bound of passes forgets which operand stays",
        "mapping/bounds.py",
        "            if k == stays:\n                energy += least[k]\n",
        "            if k < 0:\n                energy += least[k]\n",
        ("test_mapping::test_brute_force_finds_nothing_better",),
    ),
    Mutant(
        "mapping: two operands that stay at once are not looked for",
        "mapping/factors.py",
        "    return all(sum(at not in operand.indexed_by for operand in nest.operands) <= 1 for at in _moving(nest))\n",
        "    return True\n",
        (
            "test_mapping::test_brute_force_finds_nothing_better",
            "test_mapping::test_two_operands_that_stay_at_once_are_seen",
        ),
    ),
    Mutant(
        "mapping: the checker believes the number of tilings",
        "mapping/certificate.py",
        "    if found[TILINGS] != certificate.tilings:\n",
        "    if found[TILINGS] < 0:\n",
        ("test_mapping_certificate::test_a_proof_that_was_tampered_with_is_refused",),
    ),
    Mutant(
        "mapping: the checker believes that nothing is better",
        "mapping/certificate.py",
        "    if found[BETTER]:\n",
        "    if found[BETTER] > 1:\n",
        ("test_mapping_certificate::test_proofs_of_small_searches_are_accepted_on_any_machine",),
    ),
)
