package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writeBootstrapPolicy writes the RBAC objects that a server creates at its start, in the order in
// which it creates them, as a JSON list with one rule or subject per line.
func writeBootstrapPolicy(out *bufio.Writer) {
	var objects []any
	for _, role := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		role.TypeMeta = rbacMeta("ClusterRole")
		objects = append(objects, role)
	}
	for _, binding := range append(
		bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		binding.TypeMeta = rbacMeta("ClusterRoleBinding")
		objects = append(objects, binding)
	}
	roles := bootstrappolicy.NamespaceRoles()
	for _, namespace := range slices.Sorted(maps.Keys(roles)) {
		for _, role := range roles[namespace] {
			role.TypeMeta = rbacMeta("Role")
			objects = append(objects, role)
		}
	}
	bindings := bootstrappolicy.NamespaceRoleBindings()
	for _, namespace := range slices.Sorted(maps.Keys(bindings)) {
		for _, binding := range bindings[namespace] {
			binding.TypeMeta = rbacMeta("RoleBinding")
			objects = append(objects, binding)
		}
	}

	out.WriteString("[\n")
	for i, object := range objects {
		if i > 0 {
			out.WriteString(",\n")
		}
		writeObject(out, object)
	}
	out.WriteString("\n]\n")
}

func rbacMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func writeObject(out *bufio.Writer, object any) {
	var members map[string]json.RawMessage
	check(json.Unmarshal(compact(object), &members))
	out.WriteString("{")
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(out, "\n %q: ", name)
		var items []json.RawMessage
		if json.Unmarshal(members[name], &items) != nil || len(items) == 0 {
			out.Write(members[name])
			continue
		}
		out.WriteString("[")
		for j, item := range items {
			if j > 0 {
				out.WriteString(",")
			}
			out.WriteString("\n  ")
			out.Write(item)
		}
		out.WriteString("]")
	}
	out.WriteString("}")
}
