#!/usr/bin/env bash
# Runs the given tests on every supported Python on PATH that is not the one of .venv.
# Usage: tools/other_pythons.sh BIN TEST...
set -eu
bin=$1; shift
have=$("$bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ran=0
for version in 3.11 3.12 3.13; do
  [ "$version" = "$have" ] && continue
  # pyenv's shims exist for versions that are not selected; ask the interpreter itself.
  "python$version" -c '' 2>/dev/null || continue
  venv=.venv-$version
  if [ ! -e "$venv/.ready" ] || [ pyproject.toml -nt "$venv/.ready" ]; then
    PYTHON=python$version tools/setup.sh "$venv"
    touch "$venv/.ready"
  fi
  echo "== Python $version"
  "$venv/bin/python" -m pytest -q "$@"
  ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || echo "== pythons: no other supported Python is installed; $have was tested"
