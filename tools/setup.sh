#!/usr/bin/env bash
# Builds the virtual environment of the checkout. Usage: tools/setup.sh VENV
set -eu
venv=$1

fail() { echo "setup: $*" >&2; exit 2; }

python=""
for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
  if command -v "$candidate" >/dev/null 2>&1 &&
     "$candidate" -c 'import sys; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || fail "needs Python 3.11, 3.12 or 3.13 on PATH; on Debian: apt-get install python3 python3-venv"

# Debian splits venv's pip out of Python.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "== setup: installing Debian's python3-venv"
    { apt-get update -qq && apt-get install -y -qq python3-venv; } >/dev/null || fail "apt-get install python3-venv failed; run it by hand"
  else
    fail "Python has no venv module; run: sudo apt-get install python3-venv"
  fi
fi

free_mb=$(df -Pm . | awk 'NR==2 {print $4}')
[ "$free_mb" -ge 2500 ] || fail "needs 2.5 GB free on this disk, found ${free_mb} MB; free some space and run it again"

if ! "$venv/bin/python" -c '' 2>/dev/null; then
  echo "== setup: creating $venv with $("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi
echo "== setup: installing pipecat-voicectx and its development tools into $venv (about 1.5 GB, a few minutes the first time)"
log=$venv/install.log
"$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off -e '.[dev]' >"$log" 2>&1 || {
  grep -E "^(ERROR|      [A-Z][A-Za-z]*Error)" "$log" | tail -n 3 >&2
  fail "pip could not install the package (full log: $log); check the network to the package index and run it again"
}
"$venv/bin/voicectx" --version
