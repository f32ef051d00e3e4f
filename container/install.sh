#!/usr/bin/env bash
# Installs strata into a new virtual environment and shows that it starts. The images run exactly this, and so does a test.
#
#   container/install.sh TARGET [twin|cuda]
#
# TARGET   folder of the virtual environment; must not exist yet
# twin     (default) no CUDA: the virtual card; set TORCH_INDEX to take PyTorch's CPU build from there
# cuda     adds the extra "gpu"
# PYTHON   the interpreter to build on (default python3)
set -euo pipefail

target=${1:?usage: install.sh TARGET [twin|cuda]}
body=${2:-twin}
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case $body in
  twin) requirement=$source ;;
  cuda) requirement=$source[gpu] ;;
  *) echo "install.sh: body=$body is not known; twin or cuda" >&2; exit 2 ;;
esac
if [ -e "$target" ]; then
  echo "install.sh: $target exists already; name a new folder" >&2
  exit 2
fi

index=()
if [ -n "${TORCH_INDEX:-}" ]; then index=(--extra-index-url "$TORCH_INDEX"); fi

# Built from a copy, so that the build leaves nothing behind in the source tree and a read-only one will do.
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp -R "$source"/{pyproject.toml,README.md,LICENSE,strata,sim,kernels} "$build"/
requirement=$build${requirement#"$source"}

"${PYTHON:-python3}" -m venv "$target"
"$target/bin/python" -m pip install -q --no-cache-dir --disable-pip-version-check --root-user-action=ignore \
  "${index[@]}" "$requirement"
"$target/bin/python" -m strata --help >/dev/null
echo "install.sh: strata is in $target ($body)"
