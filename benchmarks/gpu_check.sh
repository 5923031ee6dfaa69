#!/usr/bin/env bash
# All that is to be measured on a GPU, in under 8 minutes on an H200 with 16 cores:
#   build, GPU tests, the ladder, PyG against SALIENT with every model, a profiler's trace.
# On a machine without one: DEVICE=cpu DATASETS=synthetic:small benchmarks/gpu_check.sh
#
# Variables, all optional:
#   DEVICE    cuda, cpu, or an emulated device       DATASETS  names, separated by spaces
#   PYTHON    an interpreter that has torch          WHEELS    folder of wheels, for no network
#   OUT       folder for records, trace and log      WORKERS   processes or threads
#   REPEATS   measured epochs after the warm-up      BUDGET    seconds for everything
set -euo pipefail
cd "$(dirname "$0")/.."

DEVICE=${DEVICE:-cuda}
DATASETS=${DATASETS:-synthetic:arxiv synthetic:products}
PYTHON=${PYTHON:-python3}
WHEELS=${WHEELS:-}
OUT=${OUT:-results/gpu_check}
WORKERS=${WORKERS:-$(nproc)}
REPEATS=${REPEATS:-2}
BUDGET=${BUDGET:-480}

mkdir -p "$OUT"
export PYTHONUNBUFFERED=1
summary=()
failed=0

# step NAME SECONDS COMMAND...: runs it with a limit, within what is left of the budget. A step that
# fails does not stop the others, but the script then ends with 1.
step() {
  local name=$1 limit=$2 began=$SECONDS left=$((BUDGET - SECONDS)) code=0
  shift 2
  if ((left < 10)); then
    summary+=("skipped  $name: no time left of $BUDGET s")
    failed=1
    return
  fi
  echo "== $name"
  timeout --kill-after=5 $((limit < left ? limit : left)) "$@" || code=$?
  case $code in
    0) summary+=("ok       $name: $((SECONDS - began)) s") ;;
    124 | 137) summary+=("timeout  $name: $((SECONDS - began)) s") failed=1 ;;
    *) summary+=("failed   $name: exit code $code, $((SECONDS - began)) s") failed=1 ;;
  esac
}

# A virtual environment on top of the interpreter's own packages, torch above all.
build() {
  local parent pip=(.venv-gpu/bin/python -m pip --disable-pip-version-check -q install)
  "$PYTHON" -c 'import torch; print("torch", torch.__version__)'
  parent=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$PYTHON" -m venv .venv-gpu
  # addsitedir, so that the parent's own .pth files are followed.
  echo "import site; site.addsitedir('$parent')" \
    >"$(.venv-gpu/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/parent.pth"
  [[ -z $WHEELS ]] || pip+=(--no-index --find-links "$WHEELS")
  local missing=() module
  for module in scikit_build_core pybind11 ninja numpy click tqdm filelock tabulate pydantic \
    torch_geometric psutil scipy pytest pytest_timeout hypothesis; do
    .venv-gpu/bin/python -c "import $module" 2>/dev/null || missing+=("${module//_/-}")
  done
  if ((${#missing[@]})); then
    echo "installing: ${missing[*]}"
    "${pip[@]}" "${missing[@]}"
  fi
  .venv-gpu/bin/python -m pip --disable-pip-version-check -q install --no-deps \
    --no-build-isolation -e .
}
export -f build
export PYTHON WHEELS

step "build" 150 bash -euo pipefail -c build
if [[ ! -x .venv-gpu/bin/python ]]; then
  printf '%s\n' "${summary[@]}"
  exit 1
fi
py=.venv-gpu/bin/python
step "what works here" 60 $py -m salient doctor
step "GPU tests" 120 $py -m pytest -q -m gpu
for dataset in $DATASETS; do
  step "ladder, $dataset" 150 $py -m benchmarks.ladder --dataset "$dataset" --device "$DEVICE" \
    --workers "$WORKERS" --repeats "$REPEATS" --results "$OUT/records"
  step "PyG against SALIENT, all models, $dataset" 180 $py -m benchmarks.ladder \
    --dataset "$dataset" --device "$DEVICE" --model all --rung pyg/processes/blocking \
    --rung salient/threads/pipelined --workers "$WORKERS" --repeats "$REPEATS" \
    --results "$OUT/records"
done
case $DEVICE in
  emulated:*) ;; # there is nothing to trace
  *)
    step "trace, ${DATASETS%% *}" 60 $py -m benchmarks.overlap_trace --dataset "${DATASETS%% *}" \
      --device "$DEVICE" --out "$OUT/trace.json"
    ;;
esac

printf '%s\n' "== Summary, $SECONDS s in all; records in $OUT/records" "${summary[@]}" |
  tee "$OUT/summary.txt"
exit $failed
