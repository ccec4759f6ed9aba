#!/bin/sh
# setup_env.sh VENV PYTHON EXTRA: make the virtual environment VENV if it is not there, with PYTHON (empty: the first
# suitable one on the path), and install this directory into it, editable, with its extra EXTRA; or, for EXTRA "lowest",
# with the oldest releases that pyproject.toml allows, and for "minimal" without extras, and with pytest in both.
# pip's own settings (index, proxy, certificates, constraints) apply as everywhere.
set -eu

venv=$1
python=$2
extra=$3

is_suitable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

has_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

find_python() {
    if [ -n "$python" ]; then
        is_suitable "$python" && echo "$python"
        return
    fi
    fallback=
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if is_suitable "$name"; then
            if has_venv "$name"; then
                echo "$name"
                return
            fi
            fallback=${fallback:-$name}
        fi
    done
    echo "$fallback"
}

explain_missing_python() {
    [ -z "$python" ] || echo "PYTHON=$python does not run, or is older than 3.11." >&2
    cat >&2 <<'TEXT'
Python 3.11 or newer was not found. Install it, for instance
    Debian, Ubuntu:  apt install python3 python3-venv
    Fedora:          dnf install python3
    macOS:           brew install python
    conda:           conda create -n smp python=3.12 && conda activate smp
or name it:          make test PYTHON=/path/to/python3
TEXT
    exit 1
}

explain_missing_venv() {
    cat >&2 <<TEXT
$1 cannot make virtual environments: its modules venv and ensurepip are missing.
    Debian, Ubuntu:  apt install python3-venv      (for another version: python3.12-venv)
or name another one: make test PYTHON=/path/to/python3
TEXT
    exit 1
}

works() {
    is_suitable "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

if ! works; then
    found=$(find_python) || true
    [ -n "$found" ] || explain_missing_python
    has_venv "$found" || explain_missing_venv "$found"
    # Refuse to clear a directory that is something else than an environment (VENV=. by mistake).
    if [ -d "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
        echo "$venv exists and is not a virtual environment; choose another directory: make ... VENV=directory" >&2
        exit 1
    fi
    echo "Making the virtual environment $venv with $("$found" --version)."
    "$found" -m venv --clear "$venv"
fi

# Defaults that the caller's own settings override; PIP_USER must not reach into an environment.
: "${PIP_DISABLE_PIP_VERSION_CHECK:=1}" "${PIP_PREFER_BINARY:=1}" "${PIP_RETRIES:=5}"
PIP_USER=0
export PIP_DISABLE_PIP_VERSION_CHECK PIP_PREFER_BINARY PIP_RETRIES PIP_USER

# PyTorch's usual build for Linux brings gigabytes for GPUs, which no test needs: the build for CPUs, if the package
# index has it.
install_torch() {
    cpu=$("$venv/bin/python" -m pip index versions torch 2>/dev/null | grep -o '[0-9.]*+cpu' | head -n 1)
    if [ -n "$cpu" ]; then
        "$venv/bin/python" -m pip install --quiet "torch==$cpu"
    elif [ "$(uname)" != Linux ]; then
        "$venv/bin/python" -m pip install --quiet --editable ".[torch]"
    else
        echo "The package index has no PyTorch for CPUs, so its tests are left out: PIP_EXTRA_INDEX_URL names another." >&2
    fi
}

install() {
    case $extra in
        lowest)
            # The extras whose own lower bounds are those of the core.
            "$venv/bin/python" tools/lower_bounds.py plot progress io fast > "$venv/lowest.txt"
            "$venv/bin/python" -m pip install --quiet --requirement "$venv/lowest.txt" &&
                "$venv/bin/python" -m pip install --quiet --no-deps --editable .
            ;;
        torch) install_torch ;;
        minimal) "$venv/bin/python" -m pip install --quiet --editable . pytest hypothesis ;;
        *) "$venv/bin/python" -m pip install --quiet --editable ".[$extra]" ;;
    esac
}

echo "Installing tensorly_smp[$extra] into $venv; the first time downloads some 100 MB."
for pause in 5 20 none; do
    if install; then
        exit 0
    fi
    [ "$pause" = none ] || { echo "pip failed; trying again in $pause seconds." >&2; sleep "$pause"; }
done
echo "pip could not install tensorly_smp[$extra]: see its messages above. Behind a proxy or on a mirror, set" >&2
echo "HTTPS_PROXY or PIP_INDEX_URL; an interrupted environment is made anew after: make distclean" >&2
exit 1
