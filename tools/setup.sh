#!/usr/bin/env bash
# Makes the virtual environment given as $1 from requirements.lock (every file checked by its hash).
set -euo pipefail
venv=$1
python=${PYTHON:-python3}

fail() { echo "setup: $*" >&2; exit 1; }

command -v "$python" >/dev/null || fail "$python is not on PATH. Install Python 3.11 or newer (apt-get install python3 python3-venv)."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || fail "$("$python" --version) is too old: Python 3.11 or newer is needed. Choose another one with PYTHON=…"
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  # Debian splits ensurepip off into python3-venv.
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing python3-venv"
    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
  else
    fail "the venv module is missing. Run: sudo apt-get install python3-venv"
  fi
fi
echo "setup: making $venv with $("$python" --version), $(grep -c '^[a-z].*==' requirements.lock) packages (a minute or two)"
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --editable .
