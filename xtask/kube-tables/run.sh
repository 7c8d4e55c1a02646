#!/bin/sh
# Writes crates/apiserver/tables/ anew. Usage: run.sh [KUBERNETES-VERSION]
# The Go module is made in a scratch folder, because k8s.io/kubernetes can only be depended on with
# one `replace` for each of its staging modules.
set -eu
version=${1:-1.36.3}
here=$(cd "$(dirname "$0")" && pwd)
tables=$here/../../crates/apiserver/tables
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cp "$here"/*.go "$scratch"
cd "$scratch"
go mod init kube-tables 2>/dev/null
modfile=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
for module in $(sed -n 's|^[[:space:]]*\(k8s.io/[a-z0-9-]*\) => ./staging.*|\1|p' "$modfile"); do
    go mod edit -replace "$module=$module@v0.${version#1.}"
done
go mod edit -require "k8s.io/kubernetes@v$version"
go mod tidy
CGO_ENABLED=0 go build -trimpath -o kube-tables .
./kube-tables "v$version" "$tables"
