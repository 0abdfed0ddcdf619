"""Compiles kernels for a GPU without one: python compile_kernels.py FOLDER, with kernels.json, for sm_80 and sm_90.

It runs in the environment with torch and Triton, which has nothing of Tilestitch.
"""

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton  # pyright: ignore[reportMissingImports]
from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
from triton.compiler import ASTSource  # pyright: ignore[reportMissingImports]


def registers(made) -> list[int]:
    """Registers of a thread, and the bytes of its stack, where what finds no register lies."""
    tool = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert found is not None, text
    return [int(number) for number in found.groups()]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for row in json.loads((folder / "kernels.json").read_text(encoding="utf-8")):
        spec = importlib.util.spec_from_file_location(row["module"], folder / f"{row['module']}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, row["kernel"])
        types = dict(zip(kernel.arg_names, [*row["pointers"], "i32"], strict=False))
        signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
        # Tensors of torch begin at multiples of 16 bytes, which Triton finds out when it starts a kernel.
        aligned = {(place,): [["tt.divisibility", 16]] for place, name in enumerate(kernel.arg_names) if name in types}
        for capability in (80, 90):
            target = GPUTarget("cuda", capability, 32)
            source = ASTSource(kernel, signature, constexprs=row["blocks"], attrs=aligned)
            made = triton.compile(
                source, target=target, options={"num_warps": row["warps"], "num_stages": row["stages"]}
            )
            found = {"name": made.metadata.name, "sm": capability, "bytes": len(made.asm["cubin"])}
            print(json.dumps({**found, "shared_bytes": made.metadata.shared, "registers": registers(made)}))
