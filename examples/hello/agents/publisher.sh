#!/bin/sh
# A Terminal artefact ends the work on a goal.
set -eu
. "$(dirname "$0")/read.sh"

printf '{"artefact_type":"Page","structural_type":"Terminal","artefact_payload":"%s",' "$payload"
printf '"summary":"published version %s"}\n' "$version"
