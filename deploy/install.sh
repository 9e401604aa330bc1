#!/bin/sh
# Installs a release of Paydesk into a folder of its own, each package verified by its SHA-256.
#
#   install.sh [--kit | --otel] [--prefix FOLDER] [--wheelhouse FOLDER] [--python PROGRAM] [RELEASE]
#   install.sh --back [--prefix FOLDER]
#
# RELEASE      the folder of the release, with SHA256SUMS; by default the folder of this script
# --prefix     where to install; by default /opt/paydesk, for an ordinary user ~/.local/share/paydesk
# --kit        also installs the development kit, which has `paydesk dev`
# --otel       also installs what sends traces to a collector
# --wheelhouse takes the dependencies from this folder instead of a package index; a folder `wheelhouse` in the
#              release is taken without being named
# --python     the Python of the installation, 3.11 or newer; by default the first that is found
# --back       makes the version that was installed before the current one again
#
# Each version gets a virtual environment, PREFIX/versions/VERSION. PREFIX/bin/paydesk is the current one, and changes
# when the new version is complete. Nothing else is changed: no database, no service. Run it as root or as any user.
set -eu
umask 022

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"; }
wrong() { printf '%s\n\n' "$*" >&2; usage >&2; exit 2; }

prefix='' wheelhouse='' python='' release='' kit='' otel='' back=''
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --kit) kit=yes ;;
        --otel) otel=yes ;;
        --back) back=yes ;;
        --prefix | --wheelhouse | --python)
            [ $# -gt 1 ] && [ -n "$2" ] || wrong "$1 needs a value."
            case $1 in
                --prefix) prefix=$2 ;;
                --wheelhouse) wheelhouse=$2 ;;
                --python) python=$2 ;;
            esac
            shift
            ;;
        -*) wrong "There is no option $1." ;;
        *)
            [ -z "$release" ] || wrong "Give one folder of a release."
            release=$1
            ;;
    esac
    shift
done

[ -z "$kit" ] || [ -z "$otel" ] || wrong "Give one of --kit and --otel: each has a lock of its own."
if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/opt/paydesk; else prefix=${HOME:?HOME is not set: give --prefix.}/.local/share/paydesk; fi
fi

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    if [ -n "$python" ]; then
        is_recent "$python" || fail "$python is not Python 3.11 or newer."
        return
    fi
    for python in python3.11 python3.12 python3.13 python3.14 python3; do
        if is_recent "$python"; then return; fi
    done
    fail "Paydesk needs Python 3.11 or newer; none was found. Name it with --python."
}

# A link is replaced at once, so that `paydesk` is one of the two versions at any time. An installation that was killed
# can have left the new link.
point() { "$python" -c 'import contextlib, os, sys
target, link = sys.argv[1:]
with contextlib.suppress(FileNotFoundError):
    os.unlink(f"{link}.new")
os.symlink(target, f"{link}.new")
os.replace(f"{link}.new", link)' "$1" "$2"; }

# What is there without being a link of this script stays: a folder cannot be replaced, and is somebody else's.
check_links() {
    for link in bin current previous; do
        if [ -e "$prefix/$link" ] || [ -L "$prefix/$link" ]; then
            case $link:$(readlink "$prefix/$link" || true) in
                bin:current/bin | current:versions/* | previous:versions/*) ;;
                *) fail "$prefix/$link is not of Paydesk. Choose a folder of its own with --prefix. Nothing was changed." ;;
            esac
        fi
    done
}

make_current() {
    [ -L "$prefix/bin" ] || point current/bin "$prefix/bin"
    before=$(readlink "$prefix/current" || true)
    [ "$before" = "$1" ] && return
    if [ -n "$before" ]; then point "$before" "$prefix/previous"; fi
    point "$1" "$prefix/current"
}

find_python
check_links

if [ -n "$back" ]; then
    [ -L "$prefix/previous" ] || fail "$prefix has no earlier version to go back to."
    earlier=$(readlink "$prefix/previous")
    [ -f "$prefix/$earlier/complete" ] ||
        fail "The earlier version is not complete: $prefix/$earlier. Install its release again. Nothing was changed."
    make_current "$earlier"
    say "$prefix/bin/paydesk is $("$prefix/bin/paydesk" --version)."
    exit 0
fi

[ -n "$release" ] || release=$(dirname "$0")
[ -f "$release/SHA256SUMS" ] || fail "$release is not the folder of a release: it has no SHA256SUMS."
release=$(cd "$release" && pwd)

# Files may be absent, such as the image's archive. What is there must be listed, and match.
"$python" - "$release" <<'EOF' || exit 1
import hashlib, pathlib, sys

folder = pathlib.Path(sys.argv[1])
lines = (line.split("  ", 1) for line in (folder / "SHA256SUMS").read_text().splitlines())
listed = {name: digest for digest, name in lines}
for file in sorted(folder.iterdir()):
    if not file.is_file() or file.name == "SHA256SUMS":
        continue
    if file.name not in listed:
        sys.exit(f"{file} is not in SHA256SUMS, so it is not of this release. Remove it, or copy the release again.")
    with file.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != listed[file.name]:
            sys.exit(f"{file} is not the file of the release: its SHA-256 differs. Copy the release again.")
EOF

wheel=$(find "$release" -maxdepth 1 -name 'paydesk-*.whl')
[ -f "$wheel" ] || fail "$release has no wheel of Paydesk. Copy the release again."
version=$(basename "$wheel" | cut -d- -f2)
lock=$release/requirements.lock
if [ -n "$kit" ]; then
    lock=$release/requirements-kit.lock
    kit=$release/paydesk_dev-$version-py3-none-any.whl
    [ -f "$kit" ] || fail "$kit is missing. Copy the release again."
fi
[ -z "$otel" ] || lock=$release/requirements-otel.lock
[ -f "$lock" ] || fail "$lock is missing. Copy the release again."
if [ -z "$wheelhouse" ] && [ -d "$release/wheelhouse" ]; then wheelhouse=$release/wheelhouse; fi
[ -z "$wheelhouse" ] || [ -d "$wheelhouse" ] || fail "There is no folder $wheelhouse."

"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || fail "$python lacks the modules venv and ensurepip.
On Debian and Ubuntu: apt-get install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
mkdir -p "$prefix/versions" 2>/dev/null && [ -w "$prefix/versions" ] ||
    fail "$prefix cannot be written to. Run this as root, or choose another folder with --prefix."
prefix=$(cd "$prefix" && pwd)
venv=$prefix/versions/$version${kit:+-kit}${otel:+-otel}

if [ -f "$venv/complete" ]; then
    say "Paydesk $version is installed already, in $venv. To install it anew, remove that folder."
else
    rm -rf "$venv"
    trap 'rm -rf "$venv"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    say "Installing Paydesk $version in $venv …"
    "$python" -m venv "$venv"
    pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
    set -- --require-hashes --only-binary :all: --requirement "$lock"
    if [ -n "$wheelhouse" ]; then set -- --no-index --find-links "$wheelhouse" "$@"; fi
    pip install "$@" || fail "The dependencies could not be installed, see above. Nothing was changed.
Without a package index, give --wheelhouse: a folder that this fills on a machine that has one:
  pip download --require-hashes --only-binary :all: --requirement ${lock##*/} --dest wheelhouse"
    # Unquoted on purpose: without the kit there is no argument.
    pip install --no-index --no-deps "$wheel" ${kit:+"$kit"} || fail "Paydesk could not be installed, see above."
    "$venv/bin/paydesk" --version >/dev/null || fail "Paydesk does not start, see above. Nothing was changed."
    : >"$venv/complete"
    trap - EXIT
fi

make_current "versions/${venv##*/}"
say "$prefix/bin/paydesk is $("$prefix/bin/paydesk" --version)."
if [ -f "$prefix/previous/complete" ]; then
    say "The version before is kept: $0 --back --prefix $prefix"
fi
