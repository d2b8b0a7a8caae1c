#!/usr/bin/env bash
# Builds Weft for action.yml below $RUNNER_TEMP/weft: the action's own sources, or the branch or tag that the input
# `version` names. Cargo finds what the cache already has.
set -euo pipefail

sources=$ACTION_PATH
if [[ -n ${INPUT_VERSION:-} ]]; then
    sources=$RUNNER_TEMP/weft-sources
    rm -rf "$sources"
    git clone --quiet --depth 1 --branch "$INPUT_VERSION" -- \
        "${GITHUB_SERVER_URL:-https://github.com}/$ACTION_REPOSITORY" "$sources"
fi
if ! command -v cargo > /dev/null; then
    echo "::error::Weft is built with cargo, which this runner lacks: install Rust in a step before this one"
    exit 1
fi
cargo build --release --locked --manifest-path "$sources/Cargo.toml" --target-dir "$RUNNER_TEMP/weft"
