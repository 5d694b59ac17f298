#!/usr/bin/env bash
# Runs a command in the project's environment: `scripts/run.sh neve --help`. The set-up must have been run before.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib.sh"

[ -x "$root/.venv/bin/python" ] || die "There is no virtual environment yet: run \`make setup\` first."
if [ -s "$root/.venv/stamps/java" ]; then
    JAVA_HOME=$(cat "$root/.venv/stamps/java")
    export JAVA_HOME
fi
postgres=$(find_postgres || true)
export VIRTUAL_ENV=$root/.venv
export PATH=$root/.venv/bin:$PATH${postgres:+:$postgres}
unset PYTHONHOME PYTHONPATH SPARK_HOME # another Python's or Spark's files must not mix with ours
exec "$@"
