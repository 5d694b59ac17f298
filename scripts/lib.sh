# Shared by the scripts beside it: how to speak, where Java and PostgreSQL are, what apt may install.
# shellcheck shell=bash

say() { printf '▸ %s\n' "$*" >&2; }
die() { printf '✗ %s\n' "$*" >&2; exit 1; }

# --- apt ------------------------------------------------------------------------------------------------------------

# The prefix that lets us run apt: nothing for root, `sudo -n` where it asks no password; fails if we may not.
apt_prefix() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" -eq 0 ]; then
        return 0
    fi
    command -v sudo >/dev/null && sudo -n true 2>/dev/null && printf 'sudo -n'
}

# apt_install PACKAGE…: installs the first of the packages that apt knows. Quiet; its log is shown only if it fails.
apt_install() {
    local prefix package log
    prefix=$(apt_prefix) || return 1
    log=$(mktemp)
    $prefix apt-get update -q >"$log" 2>&1 || true # one broken source must not stop us
    for package in "$@"; do
        apt-cache show "$package" >/dev/null 2>&1 || continue
        say "installing $package with apt"
        if $prefix env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$package" \
            >>"$log" 2>&1 </dev/null; then
            rm -f "$log"
            return 0
        fi
    done
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
}

# --- Java -----------------------------------------------------------------------------------------------------------

# java_major HOME: 17 for a Java 17; from the release file where there is one, as starting a JVM is slow.
java_major() {
    local version
    [ -n "$1" ] && [ -x "$1/bin/java" ] || return 1
    version=$(sed -n 's/^JAVA_VERSION="\([^"]*\)".*/\1/p' "$1/release" 2>/dev/null || true)
    if [ -z "$version" ]; then
        version=$("$1/bin/java" -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1)
    fi
    printf '%s' "${version%%[.+-]*}"
}

# The home of a Java that Spark 4.1 runs on: 17 or 21. Java 25 does not start it.
find_java() {
    local on_path home
    on_path=$(command -v java || true)
    for home in \
        "${JAVA_HOME:-}" \
        "${on_path:+$(dirname "$(dirname "$(readlink -f "$on_path")")")}" \
        /usr/lib/jvm/* \
        /Library/Java/JavaVirtualMachines/*/Contents/Home; do
        case "$(java_major "$home" || true)" in
            17 | 21) printf '%s\n' "$home" && return 0 ;;
        esac
    done
    return 1
}

# --- PostgreSQL -----------------------------------------------------------------------------------------------------

# The folder with a PostgreSQL server's own programs; Debian keeps them off the PATH. The newest of several.
find_postgres() {
    local on_path folder
    on_path=$(command -v initdb || true)
    for folder in \
        "${on_path:+$(dirname "$(readlink -f "$on_path")")}" \
        $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV) \
        /usr/pgsql-*/bin \
        /opt/homebrew/opt/postgresql*/bin; do
        if [ -n "$folder" ] && [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then
            printf '%s\n' "$folder" && return 0
        fi
    done
    return 1
}
