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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
