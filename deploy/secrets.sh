#!/bin/sh
# Writes .env beside docker-compose.yaml: the example, with a random secret wherever none is set.
# What stands there already stays, so it may be run again after an upgrade.
#
#   deploy/secrets.sh [FILE]
set -eu
umask 077
example=$(dirname -- "$0")/.env.example
file=${1:-$(dirname -- "$0")/../.env}

random() {
    case $1 in
        AIRFLOW_FERNET_KEY) openssl rand -base64 32 | tr '+/' '-_' ;;  # what Fernet takes
        *) openssl rand -hex 32 ;;  # letters that mean nothing in a URL
    esac
}

[ -e "$file" ] || cp -- "$example" "$file"
{
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
            *=?*) printf '%s\n' "$line" ;;
            [A-Z]*=) printf '%s%s\n' "$line" "$(random "${line%=}")" ;;
            *) printf '%s\n' "$line" ;;
        esac
    done < "$file"
    for name in $(sed -n 's/^\([A-Z0-9_]*\)=$/\1/p' "$example"); do
        grep -q "^$name=" "$file" || printf '%s=%s\n' "$name" "$(random "$name")"
    done
} > "$file.new"
mv -- "$file.new" "$file"
echo "$file has every secret; keep it where only you can read it."
