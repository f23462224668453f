#!/bin/sh
# Run tests/core_threads.cpp under the thread sanitizer. Needs GCC or Clang with its runtime library, no Python.
# Usage, from anywhere: tests/sanitize_threads.sh
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Its shadow memory has no place beside addresses that are randomised widely.
fixed=""
setarch -R true 2>/dev/null && fixed="setarch -R"
${CXX:-c++} -std=c++17 -O1 -g1 -fsanitize=thread -DFASTMCMD_DEBUG -DFASTMCMD_WITHOUT_LOOPS \
    -I"$root/fastmcmd/device" "$root/tests/core_threads.cpp" \
    -o "$work/core_threads" -pthread
TSAN_OPTIONS=halt_on_error=1 $fixed "$work/core_threads"
echo "thread sanitizer: nothing found"
