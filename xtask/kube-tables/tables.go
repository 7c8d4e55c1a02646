package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"reflect"
	"slices"
	"strings"

	_ "k8s.io/kubernetes/pkg/controlplane" // registers every group with the scheme

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubernetesopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// tables collects types, each under its alias (`core.PodSpec`), and what OpenAPI says of them.
type tables struct {
	definitions map[string]common.OpenAPIDefinition
	namer       *openapinamer.DefinitionNamer

	packages     map[string]string // alias -> line
	types        map[string]string // alias -> block of lines
	descriptions map[string]string // alias[.field[[]]] -> text
}

func newTables() *tables {
	ref := func(name string) spec.Ref {
		return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(name))
	}
	definitions := kubernetesopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(definitions, apiextensionsopenapi.GetOpenAPIDefinitions(ref))
	return &tables{
		definitions: definitions,
		namer: openapinamer.NewDefinitionNamer(
			legacyscheme.Scheme, apiextensions.Scheme, aggregator.Scheme),
		packages:     map[string]string{},
		types:        map[string]string{},
		descriptions: map[string]string{},
	}
}

func (t *tables) add(root any) {
	t.expression(reflect.TypeOf(root))
}

// expression gives the way the tables write a Go type, and sees to it that its parts are there.
func (t *tables) expression(goType reflect.Type) string {
	if goType.Name() != "" && goType.PkgPath() != "" {
		return t.named(goType)
	}
	switch goType.Kind() {
	case reflect.Pointer:
		return "*" + t.expression(goType.Elem())
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + t.expression(goType.Elem())
	case reflect.Map:
		return "map[" + t.expression(goType.Key()) + "]" + t.expression(goType.Elem())
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return goType.Kind().String()
	}
	log.Fatalf("no way to write %v", goType)
	return ""
}

func (t *tables) named(goType reflect.Type) string {
	alias := t.alias(goType)
	name := alias + "." + goType.Name()
	if _, seen := t.types[name]; seen {
		return name
	}
	t.types[name] = "" // types refer to themselves

	definition, described := t.definitions[modelName(goType)]
	switch {
	case implements[json.Unmarshaler](goType):
		t.types[name] = fmt.Sprintf("opaque %s schema=%s\n", name, definitionSchema(definition))
	case goType.Kind() == reflect.Struct:
		if !described {
			log.Fatalf("no OpenAPI definition of %v", goType)
		}
		t.types[name] = t.structure(name, goType, definition.Schema)
	default:
		line := "name " + name + " " + t.expression(underlying(goType))
		if implements[protobufMessage](goType) {
			// A list with a name of its own is a message with the elements as field 1.
			line += " message"
		}
		t.types[name] = line + "\n"
		return name
	}
	t.describe(name, definition.Schema.Description)
	return name
}

// structure writes a struct: a line for the type, then one for each field.
func (t *tables) structure(name string, goType reflect.Type, schema spec.Schema) string {
	var block strings.Builder
	block.WriteString("struct " + name)
	_, extensions := t.namer.GetDefinitionName(modelName(goType))
	if kinds := groupVersions(extensions, goType.Name()); kinds != "" {
		block.WriteString(" kind=" + kinds)
	}
	for _, key := range slices.Sorted(maps.Keys(schema.Extensions)) {
		switch key {
		case "x-kubernetes-map-type":
			fmt.Fprintf(&block, " map=%v", schema.Extensions[key])
		case "x-kubernetes-group-version-kind":
		default:
			fmt.Fprintf(&block, " also=%s",
				compact(map[string]any{key: schema.Extensions[key]}))
		}
	}
	block.WriteString("\n")
	for i := range goType.NumField() {
		field := goType.Field(i)
		if !field.IsExported() || field.Tag.Get("json") == "-" {
			continue
		}
		block.WriteString("\t" + t.field(name, field, schema) + "\n")
	}
	return block.String()
}

func (t *tables) field(owner string, field reflect.StructField, schema spec.Schema) string {
	jsonName, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	tokens := []string{jsonName, t.expression(field.Type)}
	inline := field.Anonymous && jsonName == ""
	if inline {
		tokens[0] = "-"
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			tokens = append(tokens, option)
		case "inline", "":
		default:
			log.Fatalf("%s.%s: unknown JSON option %q", owner, field.Name, option)
		}
	}
	if number := protobufNumber(field); number != "" {
		tokens = append(tokens, "pb="+number)
	}
	if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
		tokens = append(tokens, "patch="+strategy)
	}
	if key := field.Tag.Get("patchMergeKey"); key != "" {
		tokens = append(tokens, "patchkey="+key)
	}
	if !inline {
		property, ok := schema.Properties[jsonName]
		if !ok {
			log.Fatalf("%s.%s: OpenAPI does not know it", owner, field.Name)
		}
		if slices.Contains(schema.Required, jsonName) {
			tokens = append(tokens, "required")
		}
		tokens = append(tokens, t.property(owner+"."+jsonName, property)...)
	}
	return strings.Join(tokens, " ")
}

// property gives what OpenAPI adds to the Go type of a field.
func (t *tables) property(path string, property spec.Schema) []string {
	t.describe(path, property.Description)
	var tokens []string
	for _, key := range slices.Sorted(maps.Keys(property.Extensions)) {
		value := property.Extensions[key]
		switch key {
		case "x-kubernetes-list-type":
			tokens = append(tokens, fmt.Sprintf("list=%v", value))
		case "x-kubernetes-list-map-keys":
			tokens = append(tokens, "keys="+commaList(value))
		case "x-kubernetes-map-type":
			tokens = append(tokens, fmt.Sprintf("map=%v", value))
		case "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key": // as in the Go tags
		default:
			log.Fatalf("%s: unknown extension %s", path, key)
		}
	}
	if property.Enum != nil {
		tokens = append(tokens, "enum="+commaList(property.Enum))
	}
	if items := element(property); items != nil {
		t.describe(path+"[]", items.Description)
		if items.Enum != nil {
			tokens = append(tokens, "itemenum="+commaList(items.Enum))
		}
		if list, ok := items.Extensions["x-kubernetes-list-type"]; ok {
			tokens = append(tokens, fmt.Sprintf("itemlist=%v", list))
		}
	}
	if property.Default != nil {
		tokens = append(tokens, "default="+string(compact(property.Default)))
	}
	return tokens
}

func element(schema spec.Schema) *spec.Schema {
	if schema.Items != nil {
		return schema.Items.Schema
	}
	if schema.AdditionalProperties != nil {
		return schema.AdditionalProperties.Schema
	}
	return nil
}

func (t *tables) describe(path, text string) {
	if text != "" {
		t.descriptions[path] = text
	}
}

// alias shortens a package path: k8s.io/api/core/v1 is `core`. Only v1 goes without its version.
func (t *tables) alias(goType reflect.Type) string {
	path := strings.Split(goType.PkgPath(), "/")
	last := path[len(path)-1]
	alias := last
	if strings.HasPrefix(last, "v1") || strings.HasPrefix(last, "v2") {
		alias = path[len(path)-2]
		if last != "v1" {
			alias += "_" + last
		}
	}
	model := modelName(goType)
	line := fmt.Sprintf("package %s %s", alias, strings.Split(goType.String(), ".")[0])
	if model != "" {
		line += " " + strings.TrimSuffix(model, "."+goType.Name())
	}
	// A type without a model name must not hide the model prefix of its package.
	if known, ok := t.packages[alias]; !ok || strings.HasPrefix(line, known) {
		t.packages[alias] = line
	} else if !strings.HasPrefix(known, line) {
		log.Fatalf("two packages called %s:\n%s\n%s", alias, known, line)
	}
	return alias
}

func (t *tables) writeTypes(out *bufio.Writer) {
	for _, alias := range slices.Sorted(maps.Keys(t.packages)) {
		fmt.Fprintln(out, t.packages[alias])
	}
	for _, name := range slices.Sorted(maps.Keys(t.types)) {
		out.WriteString(t.types[name])
	}
}

func (t *tables) writeDescriptions(out *bufio.Writer) {
	for _, path := range slices.Sorted(maps.Keys(t.descriptions)) {
		fmt.Fprintf(out, "%s %s\n", path, compact(t.descriptions[path]))
	}
}

// definitionSchema is the schema of a type that encodes itself, without its description.
func definitionSchema(definition common.OpenAPIDefinition) []byte {
	schema := definition.Schema
	schema.Description = ""
	delete(schema.Extensions, common.ExtensionV2Schema)
	return compact(schema)
}

// groupVersions lists the API versions in which a type is a kind; its kind is always its name.
func groupVersions(extensions spec.Extensions, kind string) string {
	listed, _ := extensions["x-kubernetes-group-version-kind"].([]any)
	var versions []string
	for _, item := range listed {
		gvk := item.(map[string]any)
		if gvk["kind"] != kind {
			continue // a type without a model name of its own shows that of the one it embeds
		}
		versions = append(versions,
			strings.TrimPrefix(fmt.Sprintf("%v/%v", gvk["group"], gvk["version"]), "/"))
	}
	return strings.Join(versions, ",")
}

// protobufNumber reads the field number. The wire type in the tag is not always what the generated
// code writes; that follows from the Go type.
func protobufNumber(field reflect.StructField) string {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// underlying is a named type without its name.
func underlying(goType reflect.Type) reflect.Type {
	switch goType.Kind() {
	case reflect.Slice:
		return reflect.SliceOf(goType.Elem())
	case reflect.Map:
		return reflect.MapOf(goType.Key(), goType.Elem())
	case reflect.String:
		return reflect.TypeFor[string]()
	case reflect.Bool:
		return reflect.TypeFor[bool]()
	case reflect.Int32:
		return reflect.TypeFor[int32]()
	case reflect.Int64:
		return reflect.TypeFor[int64]()
	}
	log.Fatalf("a named %v: %v", goType.Kind(), goType)
	return nil
}

type protobufMessage interface{ Unmarshal([]byte) error }

func implements[I any](goType reflect.Type) bool {
	return reflect.PointerTo(goType).Implements(reflect.TypeFor[I]())
}

func modelName(goType reflect.Type) string {
	if model, ok := reflect.Zero(goType).Interface().(interface{ OpenAPIModelName() string }); ok {
		return model.OpenAPIModelName()
	}
	return ""
}

func commaList(list any) string {
	values := reflect.ValueOf(list)
	texts := make([]string, values.Len())
	for i := range texts {
		texts[i] = fmt.Sprint(values.Index(i).Interface())
	}
	return strings.Join(texts, ",")
}

func compact(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
	return bytes.TrimSpace(buffer.Bytes())
}
