// Command kube-tables writes the tables from which the embedded API server knows Kubernetes'
// built-in kinds: how each Go type is decoded and encoded, what OpenAPI says of it, and the RBAC
// objects that a server creates for itself. See README.md.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: kube-tables KUBERNETES-VERSION OUTPUT-DIRECTORY")
	}
	version, dir := os.Args[1], os.Args[2]

	tables := newTables()
	for _, root := range roots {
		tables.add(root)
	}
	write(dir, "types.txt", func(out *bufio.Writer) {
		fmt.Fprintf(out, "# Kubernetes %s. Written by xtask/kube-tables: do not edit.\n", version)
		tables.writeTypes(out)
	})
	write(dir, "descriptions.txt", func(out *bufio.Writer) {
		fmt.Fprintf(out, "# Kubernetes %s. Written by xtask/kube-tables: do not edit.\n", version)
		tables.writeDescriptions(out)
	})
	write(dir, "rbac.json", writeBootstrapPolicy)
}

func write(dir, name string, fill func(*bufio.Writer)) {
	file, err := os.Create(filepath.Join(dir, name))
	check(err)
	out := bufio.NewWriter(file)
	fill(out)
	check(out.Flush())
	check(file.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
