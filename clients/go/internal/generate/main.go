// Generate writes the package quirev1 from the files in proto/. With -check it compares instead.
//
// Run it in clients/go: go run ./internal/generate
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	protoRoot = "../../proto"
	module    = "quire/clients/go"
	goPackage = module + "/quirev1"
)

var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	log.SetFlags(0)
	check := flag.Bool("check", false, "compare the files, and write nothing")
	flag.Parse()
	request, err := request()
	if err != nil {
		log.Fatal(err)
	}
	for _, plugin := range plugins {
		response, err := run(plugin, request)
		if err != nil {
			log.Fatalf("%s: %v", plugin, err)
		}
		for _, file := range response.File {
			if err := place(file.GetName(), file.GetContent(), *check); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// request describes all files of the package to a plugin.
func request() (*pluginpb.CodeGeneratorRequest, error) {
	files, err := filepath.Glob(filepath.Join(protoRoot, "quire/v1/*.proto"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no .proto file in %s: run this in clients/go", protoRoot)
	}
	for i, file := range files {
		files[i] = path.Join("quire/v1", filepath.Base(file))
	}
	resolver := protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{protoRoot}})
	compiler := protocompile.Compiler{Resolver: resolver, SourceInfoMode: protocompile.SourceInfoStandard}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files}
	options := []string{"module=" + module}
	for _, file := range files {
		options = append(options, "M"+file+"="+goPackage)
	}
	request.Parameter = proto.String(strings.Join(options, ","))
	seen := map[string]bool{}
	for _, file := range compiled {
		request.ProtoFile = withImports(request.ProtoFile, file, seen)
	}
	return request, nil
}

// withImports adds a file after the files that it imports.
func withImports(files []*descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return files
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		files = withImports(files, file.Imports().Get(i).FileDescriptor, seen)
	}
	return append(files, protoutil.ProtoFromFileDescriptor(file))
}

func run(plugin string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	command := exec.Command("go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s", response.GetError())
	}
	return response, nil
}

func place(name, content string, check bool) error {
	if !check {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(name, []byte(content), 0o644)
	}
	found, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if string(found) != content {
		return fmt.Errorf("%s is not what proto/ gives: in clients/go, run go run ./internal/generate", name)
	}
	return nil
}
