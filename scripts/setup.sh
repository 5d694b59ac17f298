#!/usr/bin/env bash
# Brings a fresh machine to where Névé runs; does nothing, quickly, where all is there.
#
#   scripts/setup.sh python    the virtual environment, from the lock file
#   scripts/setup.sh spark     … with Java and Spark's jars (what the demo needs; the default)
#   scripts/setup.sh tests     … with the jars for S3 and a PostgreSQL server (what the tests need)
#
# Python ≥ 3.11 is presumed. What else is missing comes by apt where we may use it; otherwise one sentence says what to
# install. PYTHON=… chooses the interpreter, JAVA_HOME=… the Java.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

VENV=.venv
STAMPS=$VENV/stamps

# done_before NAME KEY: whether step NAME was finished with the same KEY.
done_before() { [ "$(cat "$STAMPS/$1" 2>/dev/null || true)" = "$2" ]; }
mark_done() { mkdir -p "$STAMPS" && printf '%s\n' "$2" >"$STAMPS/$1"; }

# --- Python ---------------------------------------------------------------------------------------------------------

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s' "$candidate" && return 0
        fi
    done
    return 1
}

# Debian splits `venv` from its Python.
ensure_venv_module() {
    local package
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return 0
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    apt_install "$package" || true
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        die "This Python cannot make virtual environments: install $package (apt install $package) and run this again."
}

# An environment knows its own path, so one that was moved or copied is made anew; so is one whose Python is gone.
venv_is_sound() {
    grep -qF "$PWD/$VENV" "$VENV/bin/activate" 2>/dev/null &&
        "$VENV/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

create_venv() {
    local python
    python=$(find_python) || die "Névé needs Python 3.11 or newer: install it, or name it with PYTHON=/path/to/python3."
    ensure_venv_module "$python"
    say "creating $VENV with $("$python" --version)"
    "$python" -m venv --clear "$VENV"
}

# The lock names uv too: its entry alone, hashes included, bootstraps the rest.
install_uv() {
    awk '/^uv==/ { found = 1 } found { print } found && !/\\$/ { exit }' requirements.lock >"$VENV/uv.lock"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$VENV/uv.lock"
}

# uv is quick; pip is the way round where uv cannot use this machine's index or certificates.
install_locked() {
    if "$VENV/bin/uv" pip sync --quiet --python "$VENV/bin/python" --require-hashes --compile-bytecode \
        --build-constraints requirements.lock requirements.lock; then
        return 0
    fi
    say "uv could not install the lock file; trying pip"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
}

install_project() {
    "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --no-deps --no-build-isolation --offline --editable .
    "$VENV/bin/python" -m compileall -q src || true # a syntax error is for the checks to report
}

setup_python() {
    local key
    key="$(cat requirements.lock pyproject.toml | cksum) $PWD"
    if done_before python "$key" && [ -x "$VENV/bin/python" ]; then
        return 0
    fi
    rm -f "$STAMPS/python"
    venv_is_sound || create_venv
    say "installing the locked packages (pyspark is large: a minute or two the first time)"
    install_uv
    install_locked
    install_project
    mark_done python "$key"
}

# --- Spark ----------------------------------------------------------------------------------------------------------

setup_java() {
    local home
    home=$(find_java) || {
        apt_install openjdk-17-jre-headless openjdk-21-jre-headless || true
        home=$(find_java) ||
            die "Spark needs Java 17 or 21: install one (apt install openjdk-17-jre-headless) or set JAVA_HOME to it."
    }
    mark_done java "$home"
}

# `neve doctor --repair` fetches the jars and prepares the class-data archive that makes later starts quick. Once for each
# Java, Spark and list of jars.
setup_jars() {
    local key
    key="$(cat "$STAMPS/java") $(grep '^pyspark==' requirements.lock) $(cksum <src/neve/engine/jars.py)"
    if done_before jars "$key"; then
        return 0
    fi
    say "fetching Spark's jars"
    scripts/run.sh neve doctor --repair
    mark_done jars "$key"
}

# What a lake needs that reads files on S3: asked for by any setting of `s3`. The tests can do without, and then say so.
setup_s3() {
    local key lake
    key="$(cat "$STAMPS/jars")"
    if done_before s3 "$key"; then
        return 0
    fi
    say "fetching the jars for S3"
    lake=$(mktemp -d)
    scripts/run.sh neve init "$lake" >/dev/null
    if NEVE_S3__REGION=us-east-1 scripts/run.sh neve doctor --repair --lake "$lake"; then
        mark_done s3 "$key"
    else
        say "no jars for S3: the suite that needs them will be named as not run"
    fi
    rm -rf "$lake"
}

# --- PostgreSQL -----------------------------------------------------------------------------------------------------

# The tests can do without it: a suite that misses it says so in the last lines of `make test`.
setup_postgres() {
    find_postgres >/dev/null && return 0
    apt_install postgresql && find_postgres >/dev/null && return 0
    say "no PostgreSQL server found (apt install postgresql): its suite will be named as not run"
}

case "${1:-spark}" in
    python) steps=(python) ;;
    spark) steps=(python java jars) ;;
    tests) steps=(python java jars s3 postgres) ;;
    *) die "usage: scripts/setup.sh [python|spark|tests]" ;;
esac
for step in "${steps[@]}"; do
    "setup_$step" # on its own line: in an && list, bash would not stop at a failure inside
done
