"""Inputs that cannot be right, in groups: each ends in one clear error, soon, and leaves nothing behind."""

from collections.abc import Mapping

from tests.hostile_inputs.commands import OPTIONS, PLACES
from tests.hostile_inputs.contest import CONTEST
from tests.hostile_inputs.files import EXTERNAL, FILES, WEIGHTS
from tests.hostile_inputs.functions import FUNCTIONS
from tests.hostile_inputs.fusion import FUSION
from tests.hostile_inputs.growths import GROWTHS
from tests.hostile_inputs.machines import MACHINES
from tests.hostile_inputs.making import Hostile
from tests.hostile_inputs.networks import ATTRIBUTES, BOMBS, SHAPES, STRUCTURE
from tests.hostile_inputs.simulation import SIMULATION
from tests.hostile_inputs.sizes import SIZES
from tests.hostile_inputs.validation import VALIDATION
from tests.hostile_inputs.values import VALUES

GROUPS: Mapping[str, tuple[Hostile, ...]] = {
    "files": FILES,
    "external": EXTERNAL,
    "weights": WEIGHTS,
    "structure": STRUCTURE,
    "shapes": SHAPES,
    "attributes": ATTRIBUTES,
    "functions": FUNCTIONS,
    "bombs": BOMBS,
    "growths": GROWTHS,
    "sizes": SIZES,
    "machines": MACHINES,
    "options": OPTIONS,
    "places": PLACES,
    "contest": CONTEST,
    "fusion": FUSION,
    "simulation": SIMULATION,
    "validation": VALIDATION,
    "values": VALUES,
}
