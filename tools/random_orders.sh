#!/usr/bin/env bash
# Runs tests in so many random orders, each named by its seed. Usage: tools/random_orders.sh BIN RUNS TEST...
set -eu
bin=$1; runs=$2; shift 2
# The order is what is tried here, not the inputs.
export HYPOTHESIS_PROFILE=${HYPOTHESIS_PROFILE:-quick}
for seed in $(seq 1 "$runs"); do
  echo "== random order, --randomly-seed=$seed ($seed of $runs)"
  "$bin/python" -m pytest -q --randomly-seed="$seed" "$@"
done
