"""Inputs that cannot be right, in groups: each ends in one clear error, soon, and leaves nothing behind."""

from collections.abc import Mapping

from tests.hostile.inputs.commands import OPTIONS, PLACES
from tests.hostile.inputs.contest import CONTEST
from tests.hostile.inputs.files import EXTERNAL, FILES, WEIGHTS
from tests.hostile.inputs.functions import FUNCTIONS
from tests.hostile.inputs.fusion import FUSION
from tests.hostile.inputs.growths import GROWTHS
from tests.hostile.inputs.machines import MACHINES
from tests.hostile.inputs.making import Hostile
from tests.hostile.inputs.networks import ATTRIBUTES, BOMBS, SHAPES, STRUCTURE
from tests.hostile.inputs.simulation import SIMULATION
from tests.hostile.inputs.sizes import SIZES
from tests.hostile.inputs.validation import VALIDATION
from tests.hostile.inputs.values import VALUES

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
