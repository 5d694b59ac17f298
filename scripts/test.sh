#!/usr/bin/env bash
# Every test, in two steps: those without a JVM in parallel, then those with one. Every test belongs to exactly one step.
# The last lines name what was not run. Called by `make test`; WORKERS and SPARK_WORKERS set the processes of each step.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

REPORTS=.reports
NO_TESTS=5 # pytest's exit status for an empty selection

rm -rf "$REPORTS"
mkdir -p "$REPORTS"
failed=0

# step NAME ARGUMENT…: one run of pytest; an empty step is no failure, and is named at the end.
step() {
    local name=$1 status=0
    shift
    say "tests: $name"
    pytest --quiet --junit-xml="$REPORTS/$name.xml" "$@" || status=$?
    if [ "$status" -ne 0 ] && [ "$status" -ne "$NO_TESTS" ]; then
        failed=1
    fi
}

step plain -m "not spark" --numprocesses "${WORKERS:-2}" --dist worksteal "$@"
# Tests run much code seldom: Java's second compiler would cost a quarter of their time and never pay it back.
export JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS:-} -XX:TieredStopAtLevel=1"
step spark -m "spark and not soak" --numprocesses "${SPARK_WORKERS:-2}" --dist loadfile "$@"

[ "$failed" -eq 0 ] || say "tests failed: see above"
python scripts/name_not_run.py "$REPORTS" || failed=1
say "left for \`make soak\`: tests of several minutes (marker soak)"
exit "$failed"
