"""Every mutant, by the part of the compiler that it breaks."""

from tests.mutants.table.blame import BLAME
from tests.mutants.table.commands import COMMANDS
from tests.mutants.table.cost import COST
from tests.mutants.table.forms import FORMS
from tests.mutants.table.kernels import KERNELS
from tests.mutants.table.lower import LOWER
from tests.mutants.table.mapping import MAPPING
from tests.mutants.table.network import NETWORK
from tests.mutants.table.partition import PARTITION
from tests.mutants.table.schedule import SCHEDULE
from tests.mutants.table.shown import SHOWN
from tests.mutants.table.sim import SIM
from tests.mutants.table.trees import TREES

MUTANTS = (
    *NETWORK,
    *FORMS,
    *KERNELS,
    *MAPPING,
    *COST,
    *PARTITION,
    *SCHEDULE,
    *LOWER,
    *SIM,
    *BLAME,
    *COMMANDS,
    *SHOWN,
    *TREES,
)
