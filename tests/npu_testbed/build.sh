#!/usr/bin/env bash
# Builds the NPU test bed: build.sh VENV_DIR
#
# Makes the virtual environment VENV_DIR (or uses the one there), installs the pinned
# packages and puts the fake CANN libraries and stub tools into VENV_DIR/fakecann.
# Running it again skips packages that are there. PYTHON (default python3.11) makes the
# environment; PIP_ARGS is added to the pip command (for example an index).
set -euo pipefail

die() { echo "build.sh: $*" >&2; exit 1; }

[ $# -eq 1 ] || die "usage: build.sh VENV_DIR"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$1
python=${PYTHON:-python3.11}

# torch must be the CPU build: torch_npu refuses to load next to CUDA.
packages=(torch==2.13.0+cpu torch_npu==2.13.0 triton_ascend==3.2.0 ascendnpu-ir==1.2.0
          numpy pyyaml pybind11)

# ---- what we need of the machine ------------------------------------------
[ "$(uname -sm)" = "Linux x86_64" ] || die "needs Linux x86_64, this is $(uname -sm)"
command -v gcc >/dev/null || die "gcc not found"

# ---- the environment ------------------------------------------------------
if [ ! -x "$venv/bin/python" ]; then
    command -v "$python" >/dev/null || die "$python not found (set PYTHON)"
    echo "== making $venv"
    "$python" -m venv "$venv" || die "could not make the virtual environment"
fi
venv=$(cd "$venv" && pwd)
py=$venv/bin/python
"$py" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    die "$venv is not a Python 3.11 environment (the wheels are cp311)"

have() {
    "$py" - "${packages[@]}" <<'PY'
import sys
from importlib.metadata import PackageNotFoundError, version
for spec in sys.argv[1:]:
    name, _, want = spec.partition("==")
    try:
        got = version(name)
    except PackageNotFoundError:
        sys.exit(1)
    if want and got != want:
        sys.exit(1)
PY
}
if have; then
    echo "== packages are there"
else
    echo "== installing packages"
    install() {
        "$py" -m pip install --quiet --disable-pip-version-check ${PIP_ARGS:-} "$@" \
            "${packages[@]}"
    }
    install || {
        echo "== once more, with PyTorch's own index of CPU builds"
        install --extra-index-url https://download.pytorch.org/whl/cpu
    } || die "pip could not install: ${packages[*]}"
    have || die "the packages are not at the pinned versions after the install"
fi
sp=$("$py" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')

# ---- the real compiler: wheels may lose the executable bit ----------------
irbin=$sp/ascendnpuir/bin
[ -f "$irbin/bishengir-compile" ] || die "no bishengir-compile in $irbin"
chmod +x "$irbin"/* "$sp"/triton/backends/ascend/triton-adapter-opt

# ---- fake CANN libraries --------------------------------------------------
out=$venv/fakecann
mkdir -p "$out/bin"
echo "== fake CANN libraries"
"$py" "$here/gen_stub.py" "$here/symbols.txt" "$here/fake_cann.c" "$out/stub.c" ||
    die "gen_stub.py failed"
gcc -shared -fPIC -O1 -w -Wl,-soname,libascendcl.so -o "$out/libascendcl.so" "$out/stub.c" -lpthread ||
    die "gcc could not build libascendcl.so"
# The companions are empty; they only lead to libascendcl.so next to them.
# The first five are needed at load time, the others are opened by name.
for lib in libhccl libacl_op_compiler libge_runner libgraph libacl_tdt_channel \
           libruntime libopapi libmsprofiler libascend_hal; do
    gcc -shared -fPIC -o "$out/$lib.so" "-Wl,-soname,$lib.so" -Wl,--no-as-needed \
        -x c /dev/null -x none -L"$out" -lascendcl "-Wl,-rpath,\$ORIGIN" ||
        die "gcc could not build $lib.so"
done

# ---- stub tools -----------------------------------------------------------
echo "== stub tools"
version=$("$irbin/bishengir-compile" --version 2>/dev/null) ||
    die "bishengir-compile does not run here"
# "bishengir-compile 1.2.0 (... 0123abcd 2026-01-31)" -> "1.2.0 (0123abcd 2026-01-31)"
stamp=$(sed -nE '1s/^bishengir-compile ([0-9.]+) \(.* ([0-9a-f]+) ([0-9-]+)\).*/\1 (\2 \3)/p' <<<"$version")
[ -n "$stamp" ] || die "cannot read the version of bishengir-compile: $version"

# Triton asks the device compiler for its targets to see that it is there.
cat >"$out/bin/bisheng" <<'SH'
#!/bin/bash
echo hiipu64
SH

# hivmc would turn the final HIVM IR into machine code; here it copies it.
cat >"$out/bin/hivmc" <<SH
#!/bin/bash
if [ "\$1" = --version ]; then echo "hivmc $stamp"; exit 0; fi
SH
cat >>"$out/bin/hivmc" <<'SH'
in= out=
while [ $# -gt 0 ]; do
    case $1 in
    -o) out=$2; shift 2 ;;
    -*) shift ;;
    *) in=$1; shift ;;
    esac
done
[ -f "$in" ] && [ -n "$out" ] || { echo "hivmc stub: no input or output" >&2; exit 1; }
cp "$in" "$out" && cp "$in" "$out.o"
SH

# The real compiler, less the option that this version does not know.  That
# option asks for the used UB size on stdout; ub_bits.py reads it off the
# memory plan that the real compiler left in the output.
cp "$here/ub_bits.py" "$out/bin/ub_bits.py"
cat >"$out/bin/bishengir-compile" <<'SH'
#!/bin/bash
here=$(dirname "$(readlink -f "$0")")
real=$(echo "$here"/../../lib/python3.*/site-packages/ascendnpuir/bin/bishengir-compile)
args=() ub= out= prev=
for a in "$@"; do
    case $a in
    --enable-print-memory-allocated-size) ub=1 ;;
    *) args+=("$a") ;;
    esac
    [ "$prev" = -o ] && out=$a
    prev=$a
done
"$real" "${args[@]}"
rc=$?
if [ $rc -eq 0 ] && [ -n "$ub" ]; then
    "$here/../../bin/python" -I -S "$here/ub_bits.py" "$out.o" || true
fi
exit $rc
SH
chmod +x "$out"/bin/bisheng "$out"/bin/hivmc "$out"/bin/bishengir-compile

# ---- does it load? --------------------------------------------------------
echo "== checking"
PYTHONPATH=$here "$py" -B - <<'PY' || die "the test bed does not load"
import npu_testbed
npu_testbed.activate()
import torch
import torch_npu
import triton
print("torch", torch.__version__, "torch_npu", torch_npu.__version__,
      "triton_ascend", triton.__version__, "devices", torch.npu.device_count())
PY
echo "== done: activate with npu_testbed.activate() in $py"
