"""Compiles kernels for a GPU without one: python compile_kernels.py FOLDER, with kernels.json, for sm_80 and sm_90.

It runs in the environment with torch and Triton, which has nothing of Tilestitch.
"""

import importlib.util
import json
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for row in json.loads((folder / "kernels.json").read_text(encoding="utf-8")):
        spec = importlib.util.spec_from_file_location(row["module"], folder / f"{row['module']}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, row["kernel"])
        types = dict(zip(kernel.arg_names, row["pointers"], strict=False))
        signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
        for capability in (80, 90):
            target = GPUTarget("cuda", capability, 32)
            source = ASTSource(kernel, signature, constexprs=row["blocks"])
            made = triton.compile(source, target=target, options={"num_warps": row["warps"]})
            print(row["kernel"], row["form"], f"sm_{capability}", len(made.asm["cubin"]))
