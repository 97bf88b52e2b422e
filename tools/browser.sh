# Chromium and Playwright, for scripts that source this file from the repository's root: sets CHROMIUM and BROWSER_PYTHON. Installs
# (as root, on Debian) chromium, and Playwright from PyPI in .venv-page.
CHROMIUM=${CHROMIUM:-$(command -v chromium || true)}
if [ -z "$CHROMIUM" ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null
  CHROMIUM=$(command -v chromium)
fi
export CHROMIUM
BROWSER_PYTHON=$PWD/.venv-page/bin/python
if ! [ -f .venv-page/ready ]; then
  ${PYTHON:-python3} -m venv .venv-page
  "$BROWSER_PYTHON" -m pip install --quiet --disable-pip-version-check -r web/tests/requirements.txt
  touch .venv-page/ready
fi
