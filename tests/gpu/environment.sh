#!/bin/sh
# Makes FOLDER/python, a Python with torch and Triton on the CPU: sh tests/gpu/environment.sh FOLDER
#
# Wheels of torch for Linux on x86-64 need gigabytes of CUDA packages. Debian 12 has torch 1.13 without CUDA: its
# packages are unpacked into FOLDER (about 630 MB), and nothing is installed. Triton comes as a wheel. On other systems
# name a Python that has both: make test-gpu GPU_PYTHON=/path/to/python
set -eu
folder=$1
triton=3.5.1
if [ -n "${GPU_PYTHON:-}" ]; then
    mkdir -p "$folder"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$GPU_PYTHON" > "$folder/python"
else
    if ! command -v apt-get >/dev/null || ! apt-cache show python3-torch >/dev/null 2>&1; then
        echo "error: there is no package python3-torch here; name a Python with torch and triton: make test-gpu GPU_PYTHON=..." >&2
        exit 2
    fi
    rm -rf "$folder"
    mkdir -p "$folder/packages" "$folder/root"
    packages=$(apt-get install -s --no-install-recommends python3-torch | awk '/^Inst/ {print $2}')
    # What is installed already is found where it is.
    (cd "$folder/packages" && apt-get download -qq $packages 2>/dev/null)
    for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root"; done
    rm -rf "$folder/packages"
    /usr/bin/python3 -m venv --without-pip "$folder/venv"
    "${PIP_PYTHON:-python3}" -m pip --python "$folder/venv/bin/python" install -q --no-deps "triton==$triton"
    root=$(cd "$folder/root" && pwd)
    libraries="$root/usr/lib/x86_64-linux-gnu"
    cat > "$folder/python" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$libraries:$libraries/blas:$libraries/lapack:$root/usr/lib:$root/lib/x86_64-linux-gnu"
export PYTHONPATH="$root/usr/lib/python3/dist-packages"
exec "$(cd "$folder/venv/bin" && pwd)/python" "\$@"
END
fi
chmod +x "$folder/python"
"$folder/python" -c 'import torch, triton; print(f"torch {torch.__version__}, Triton {triton.__version__}")'
