#!/bin/sh
# Approves a draft with an empty object; anything else is what should be better.
set -eu
. "$(dirname "$0")/read.sh"

case $payload in
  '# '*) verdict='{}' ;;
  *) verdict='a title is missing' ;;
esac
echo "version $version: $verdict" >&2
printf '{"artefact_type":"Review","artefact_payload":"%s","summary":"read a draft"}\n' "$verdict"
