"""What is known of DiRAC, as it stands in data/dirac.yaml."""

from tilestitch.reproduction.published import Published


class BundledTest(Published):
    """A test that comes with DiRAC: its machine, its loops, how they are mapped, and what it takes."""

    name: str
    nest: str
    rows: int
    columns: int
    register_bytes: int
    banks: int  # both halves
    bank_bytes: int
    dram: dict[str, int]
    spm: dict[str, int]
    rf: dict[str, int]
    spatial: dict[str, int]
    innermost: str
    ticks: int
    macs: int
    first_load: int | None = None
    array: int | None = None
    last_store: int | None = None
    loaded_bytes: dict[str, int]
    stored_bytes: int
    network_words: dict[str, int]
    result_words: int
    model_cycles: int | None = None


class PublishedDirac(Published):
    """Both tests, and the preset that has the other parameters of their machine."""

    machine: str
    instruction_words: int
    tests: list[BundledTest]
