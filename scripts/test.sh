#!/usr/bin/env bash
# Every test, in two steps side by side: those without a JVM, told when both are done, and those with one. Every test
# belongs to exactly one step. The last lines name what was not run. Called by `make test`; PLAIN_WORKERS and SPARK_WORKERS
# set the processes of each step.
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
    [ "$status" -eq 0 ] || [ "$status" -eq "$NO_TESTS" ]
}

# Spark's two processes leave a fifth of two cores unused, while they wait for one another and for what they start.
step plain -m "not spark" --numprocesses "${PLAIN_WORKERS:-1}" --dist worksteal "$@" >"$REPORTS/plain.txt" 2>&1 &
plain=$!
# Tests run much code seldom: Java's second compiler would cost a quarter of their time and never pay it back. Without it
# Java keeps room for a fifth of the compiled code only, throws some away and compiles it again: another fifth. What they
# allocate is garbage at once: one collector thread and much room for the young, and a sixth less of their CPU time.
export JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS:-} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xmn600m"
step spark -m "spark and not soak" --numprocesses "${SPARK_WORKERS:-2}" --dist loadfile "$@" || failed=1
wait "$plain" || failed=1
cat "$REPORTS/plain.txt"

[ "$failed" -eq 0 ] || say "tests failed: see above"
python scripts/name_not_run.py "$REPORTS" || failed=1
say "left for \`make soak\`: tests of several minutes (marker soak)"
exit "$failed"
