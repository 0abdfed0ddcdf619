"""A network is gone when the last who asked for it is: errors that were tried and overcome keep none alive."""

import gc

import pytest

from tests.helpers.verified import machine_named
from tilestitch import zoo
from tilestitch.base.errors import DoesNotFit
from tilestitch.ir.graph import Graph
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named


def graphs() -> list[Graph]:
    return [one for one in gc.get_objects() if type(one) is Graph]  # isinstance asks dead proxies


@pytest.mark.parametrize("strategy", ["graphturbo", "auto", "best"])
def test_no_network_waits_for_a_search_of_cycles(strategy: str) -> None:
    model = zoo.build("bert-base-64", small=True)
    gc.collect()
    before = {id(one): one for one in graphs()}
    gc.disable()
    try:
        done = compile_network(model, "bert", machine_named("toy"), strategy_named(strategy), Options(batch=8))
        assert done.graph is not None
        del done
        assert [one.name for one in graphs() if id(one) not in before] == []
    finally:
        gc.enable()


def test_an_error_is_raised_again_as_if_for_the_first_time() -> None:
    with pytest.raises(DoesNotFit) as caught:
        raise DoesNotFit("net: too large.", "a smaller --batch")
    again = caught.value.unraised()
    assert (str(again), again.remedies, again.__traceback__) == (str(caught.value), ("a smaller --batch",), None)
