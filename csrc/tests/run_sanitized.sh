#!/bin/sh
# Builds and runs the C++ tests under sanitizers: run_sanitized.sh [kind ...]
#   address   AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer
#   thread    ThreadSanitizer; GCC 11 or Clang 12 at least, since older ones do not know the timed
#             wait on the steady clock and report races that are none
#   fuzz      libFuzzer for FUZZ_SECONDS, 60 by default; needs Clang
# Default: address thread. Other variables: CXX, JOBS, and BUILD, the folder to build in.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$source/../build/sanitized}
jobs=${JOBS:-2}

# configure KIND SANITIZERS [cmake argument ...]
configure() {
  kind=$1 sanitizers=$2
  shift 2
  cmake -S "$source" -B "$build/$kind" -DSALIENT_TESTS=ON -DSALIENT_WERROR=ON \
    -DSALIENT_SANITIZE="$sanitizers" -DCMAKE_BUILD_TYPE=RelWithDebInfo "$@" >/dev/null
}

# run_tests KIND [ctest argument ...]
run_tests() {
  folder=$build/$1
  shift
  cmake --build "$folder" -j "$jobs"
  (cd "$folder" && ctest --output-on-failure "$@")
}

export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"

for kind in ${@:-address thread}; do
  echo "== $kind"
  case $kind in
    address)
      configure address address,undefined
      run_tests address
      ;;
    thread)
      configure thread thread
      run_tests thread -R 'sampler|gather|slab|batch_preparer|twins' # the others have one thread
      ;;
    fuzz)
      configure fuzz address,undefined,fuzzer-no-link -DCMAKE_CXX_COMPILER="${CXX:-clang++}"
      cmake --build "$build/fuzz" -j "$jobs" --target fuzz_graph
      mkdir -p "$build/fuzz/corpus"
      "$build/fuzz/tests/fuzz_graph" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -len_control=0 \
        -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$build/fuzz/" "$build/fuzz/corpus"
      ;;
    *)
      echo "unknown kind: $kind; expected address, thread or fuzz" >&2
      exit 2
      ;;
  esac
done
