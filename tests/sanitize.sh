#!/bin/sh
# Build the extension with the address and undefined-behaviour sanitizers (and assertions) in a
# temporary copy and run tests/test_core.py under them. Needs GCC or Clang with their runtime libraries.
# The thread sanitizer has a script of its own, sanitize_threads.sh.
# Usage, from anywhere: [PYTHON=python3] tests/sanitize.sh [pytest arguments]
#
# The interpreter is not built with the sanitizer, so its runtime must be loaded first; leaks are
# not looked for, as the interpreter itself never frees everything.
set -eu

python=${PYTHON:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/fastmcmd" "$work/tests"
cp -R "$root/csrc" "$root/setup.py" "$work"
cp -R "$root/fastmcmd/device" "$work/fastmcmd" # formulas.h, which the core includes
cp "$root/tests/test_core.py" "$root/tests/conftest.py" "$work/tests"
# The core alone: the package around it is neither needed nor tested here.
touch "$work/fastmcmd/__init__.py"
printf '[pytest]\nmarkers =\n    gpu\n    slow\n' > "$work/pytest.ini" # pyproject.toml names warnings of the package

cd "$work"
FASTMCMD_SANITIZE=address,undefined FASTMCMD_DEBUG=1 FASTMCMD_WITHOUT_LOOPS=1 \
    "$python" setup.py -q build_ext --build-temp "$work/build" --inplace

runtime=$(${CXX:-c++} -print-file-name=libasan.so)
# The C++ runtime too, or exceptions thrown by the extension are not recognised.
standard=$(${CXX:-c++} -print-file-name=libstdc++.so)

# Runs tests of the core under the sanitizers, without plugins of pytest, which load packages that are not tested here.
# NumPy's BLAS computes expected values only: threads of it that wait busily take a third of the processor time.
checked() {
    OPENBLAS_NUM_THREADS=1 PYTHONPATH="$work" PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 \
        ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
        LD_PRELOAD="$runtime $standard" \
        "$python" -m pytest -q -p no:cacheprovider tests/test_core.py "$@"
}

checked --deselect tests/test_core.py::test_every_other_instruction_set "$@"
# Of the narrowest instruction set the tests whose shapes reach every edge of a tile: numbers are tested without
# sanitizers.
export FASTMCMD_ISA=baseline
checked -k "shape or solves or pivot"
