package quire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"quire/clients/go/quirev1"
)

// start starts a server with an empty database. QUIRE is the path of its program.
func start(t *testing.T) map[string]string {
	program := os.Getenv("QUIRE")
	if program == "" {
		t.Skip("set QUIRE to the path of the program quire")
	}
	listen := []string{"serve", "--data", t.TempDir() + "/data", "--durability", "os"}
	for _, name := range []string{"http", "grpc", "kafka"} {
		listen = append(listen, "--"+name, "127.0.0.1:0")
	}
	server := exec.Command(program, listen...)
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	addresses := map[string]string{}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) >= 2 {
			addresses[words[0]] = words[1]
		}
		if strings.HasPrefix(lines.Text(), "serving") {
			return addresses
		}
	}
	t.Fatal("the server ended")
	return nil
}

func TestAKeyIsSentWithEveryCallAndNotShown(t *testing.T) {
	addresses := start(t)
	answer, err := http.Post("http://"+addresses["http"]+"/v1/access/init", "application/json", strings.NewReader(`{"user": "root"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var made struct{ Key string }
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, attempt := range []struct {
		key  string
		code codes.Code
	}{{"", codes.Unauthenticated}, {"qk_wrong", codes.Unauthenticated}, {made.Key, codes.OK}} {
		client, err := Dial(addresses["grpc"])
		if attempt.key != "" {
			client, err = Dial(addresses["grpc"], WithKey(attempt.key))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Commit(ctx, Append("s", Events(Event("A", nil))))
		if status.Code(err) != attempt.code {
			t.Errorf("expected %v, got %v", attempt.code, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", apiKey("secret"), apiKey("secret"), apiKey("secret"), apiKey("secret")); strings.Contains(text, "secret") {
		t.Error(text)
	}
}

func TestADryRunCommitsNothingAndLocalReadsHavePositions(t *testing.T) {
	client, err := Dial(start(t)["grpc"])
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	register := Append("accounts", Events(Event("Registered", nil, "username:ada")), FailIfMatches(Matching("", "username:ada"), 0))
	tried, err := client.DryRun(ctx, register)
	if err != nil {
		t.Fatal(err)
	}
	if !tried.DryRun || len(tried.Entries) == 0 || tried.Position != 1 {
		t.Errorf("expected the entries of a dry run, got %v", tried)
	}
	done, err := client.Commit(ctx, register)
	if err != nil || done.Position != tried.Position || len(done.Entries) != 0 {
		t.Fatalf("expected the position of the dry run, got %v, %v", done, err)
	}
	if _, err := client.DryRun(ctx, register); status.Code(err) != codes.Aborted {
		t.Errorf("expected Aborted, got %v", err)
	}
	_, refused := client.Commit(ctx, register)
	refusals, err := client.Refusals(ctx)
	if err != nil || len(refusals) != 1 || refusals[0].Message != status.Convert(refused).Message() {
		t.Errorf("expected the refusal %v, got %v, %v", refused, refusals, err)
	}
	if samples, err := client.History(ctx, time.Now().Add(time.Hour)); err != nil || len(samples) != 0 {
		t.Errorf("expected no samples of the future, got %v, %v", samples, err)
	}

	head := &quirev1.HeadEventsRequest{Store: "accounts"}
	for _, local := range []context.Context{Local(ctx), LocalAt(ctx, done.Position)} {
		var header metadata.MD
		read, err := client.Events.Head(local, head, grpc.Header(&header))
		if err != nil || read.Head != 1 || header.Get("quire-position")[0] != "1" {
			t.Errorf("expected the head 1 at the position 1, got %v, %v, %v", read, header, err)
		}
	}
	if _, err := client.Events.Head(LocalAt(ctx, 99), head); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("expected FailedPrecondition, got %v", err)
	}
	if _, err := client.Commit(Local(ctx), register); status.Code(err) != codes.InvalidArgument {
		t.Errorf("expected InvalidArgument, got %v", err)
	}
}
