#!/bin/sh
# Writes a draft. A draft that was rejected comes back as the target, and the review with it.
set -eu
. "$(dirname "$0")/read.sh"

if [ "$type" = GoalDefined ]; then
  draft="Here is $payload."
else
  echo "version $version was rejected; now with a title" >&2
  draft="# A page\\n\\n$payload"
fi
printf '{"artefact_type":"Draft","artefact_payload":"%s","summary":"wrote a draft"}\n' "$draft"
