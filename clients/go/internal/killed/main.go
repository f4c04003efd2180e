// Killed kills a server again and again under clients that repeat each unanswered call by its idempotency key.
// Usage: killed QUIRE [KILLS]
//
// Each writer commits an event, a job, a record and a block in one commit, and each worker fetches jobs and acknowledges
// each with an event, in one commit. A call gets no answer when the server dies, and is sent again until it has one. In
// the end each effect must be there exactly once, and a copy of each commit must get the first answer. It is the form
// over gRPC of tests/clients/killed.py.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	quire "quire/clients/go"
	"quire/clients/go/quirev1"
)

const (
	writers = 6
	workers = 3
	store   = "kills/events"
	queue   = "kills/jobs"
	topic   = "kills"
	graph   = "kills"
)

// server is a server at one address, which is killed and started again on the same database.
type server struct {
	command []string
	process *exec.Cmd
}

func (server *server) start() {
	server.process = exec.Command(server.command[0], server.command[1:]...)
	output := must(server.process.StdoutPipe())
	check(server.process.Start())
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "serving") {
			go io.Copy(io.Discard, output)
			return
		}
	}
	fail("the server ended: %v", server.process.Wait())
}

func (server *server) kill() {
	check(server.process.Process.Kill())
	server.process.Wait()
}

// caller sends calls until they are answered.
type caller struct {
	client     *quire.Client
	unanswered *atomic.Int64
}

// commit sends a commit with its key until it is answered.
func (caller caller) commit(key string, parts ...quire.Part) *quirev1.CommitResponse {
	ctx := metadata.AppendToOutgoingContext(context.Background(), "idempotency-key", key)
	for {
		done, err := caller.client.Commit(ctx, parts...)
		if err == nil {
			return done
		}
		// A killed server breaks the connection, and the next one does not listen at once.
		if status.Code(err) != codes.Unavailable {
			fail("commit %s: %v", key, err)
		}
		caller.unanswered.Add(1)
		time.Sleep(5 * time.Millisecond)
	}
}

// written is a commit of a writer, with its first answer.
type written struct {
	parts  []quire.Part
	answer *quirev1.CommitResponse
}

// ledger has what the clients were told.
type ledger struct {
	sync.Mutex
	written map[string]written
	worked  []string
}

func (ledger *ledger) write(caller caller, name string, stop *atomic.Bool) {
	for number := 1; !stop.Load(); number++ {
		commit := fmt.Sprintf("%s-%d", name, number)
		block := &quirev1.PutBlock{Block: &quirev1.BlockRef{Ref: &quirev1.BlockRef_Name{Name: commit}}, Kind: "commit"}
		parts := []quire.Part{
			quire.Append(store, quire.Events(quire.Event("Written", []byte(commit)))),
			quire.Enqueue(&quirev1.NewJob{Queue: queue, Payload: []byte(commit)}),
			quire.Produce(topic, nil, []byte(commit)),
			{Kind: &quirev1.CommitPart_Graph{Graph: &quirev1.CommitPart_GraphPart{
				Graph:   graph,
				Command: &quirev1.GraphCommand{Kind: &quirev1.GraphCommand_PutBlock{PutBlock: block}},
			}}},
		}
		answer := caller.commit(commit, parts...)
		ledger.Lock()
		ledger.written[commit] = written{parts, answer}
		ledger.Unlock()
	}
}

// work works jobs; it ends when it is told to and the queue is empty.
func (ledger *ledger) work(caller caller, name string, stop *atomic.Bool) {
	count, lease := uint32(8), uint64(86_400_000_000)
	fetch := &quirev1.CommitPart{Kind: &quirev1.CommitPart_Fetch{Fetch: &quirev1.CommitPart_FetchPart{
		Queues: []string{queue}, Count: &count, LeaseUs: &lease, Worker: name,
	}}}
	for number := 1; ; number++ {
		isLast := stop.Load()
		fetched := caller.commit(fmt.Sprintf("%s-fetch-%d", name, number), fetch).Replies[0].GetFetched().GetJobs()
		for _, job := range fetched {
			commit := string(job.Payload)
			done := quire.Append(store, quire.Events(quire.Event("Worked", job.Payload)))
			caller.commit("work-"+commit, quire.Ack(job, nil), done)
			ledger.Lock()
			ledger.worked = append(ledger.worked, commit)
			ledger.Unlock()
		}
		if len(fetched) == 0 {
			if isLast {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// check compares the database with what the clients were told.
func (ledger *ledger) check(caller caller) {
	ctx, expected := context.Background(), []string{}
	for commit, first := range ledger.written {
		expected = append(expected, commit)
		if len(expected) <= 200 {
			again := caller.commit(commit, first.parts...)
			if !proto.Equal(again, first.answer) {
				fail("the copy of commit %s was answered %v, and the first %v", commit, again, first.answer)
			}
		}
	}
	events := map[string][]string{}
	pages := must(caller.client.Events.Read(ctx, &quirev1.ReadEventsRequest{Store: store}))
	for page := range all(pages) {
		for _, event := range page.Events {
			events[event.Type] = append(events[event.Type], string(event.Data))
		}
	}
	same("events of the writers", events["Written"], expected)
	same("events of the workers", events["Worked"], expected)
	same("worked jobs", ledger.worked, expected)
	records := []string{}
	for next := uint64(0); ; {
		from := &quirev1.FetchRecordsRequest_Offset{Offset: next}
		page := must(caller.client.Streams.Fetch(ctx, &quirev1.FetchRecordsRequest{Topic: topic, From: from}))
		for _, record := range page.Records {
			records = append(records, string(record.Value))
		}
		if len(page.Records) == 0 {
			break
		}
		next = page.NextOffset
	}
	same("records", records, expected)
	blocks := []string{}
	for page := range all(must(caller.client.Graph.ListBlocks(ctx, &quirev1.ListBlocksRequest{Graph: graph}))) {
		for _, block := range page.Blocks {
			blocks = append(blocks, block.GetName())
		}
	}
	same("blocks", blocks, expected)
}

// all iterates over the messages of a stream.
func all[T any](stream grpc.ServerStreamingClient[T]) func(yield func(*T) bool) {
	return func(yield func(*T) bool) {
		for {
			message, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			check(err)
			if !yield(message) {
				return
			}
		}
	}
}

// same compares two lists without their order.
func same(what string, found, expected []string) {
	found, expected = slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(expected))
	if !slices.Equal(found, expected) {
		fail("%s: %d, and %d of them different, instead of %d", what, len(found),
			len(slices.Compact(slices.Clone(found))), len(expected))
	}
}

func main() {
	log.SetFlags(0)
	kills := 20
	if len(os.Args) > 2 {
		kills = must(strconv.Atoi(os.Args[2]))
	}
	folder := must(os.MkdirTemp("", "quire-killed"))
	probe := must(net.Listen("tcp", "127.0.0.1:0"))
	address := probe.Addr().String()
	check(probe.Close())
	server := &server{command: []string{os.Args[1], "serve", "--data", folder + "/data", "--durability", "os",
		"--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--grpc", address}}
	cleanUp = func() {
		if server.process != nil && server.process.Process != nil {
			server.process.Process.Kill()
			server.process.Wait()
		}
		os.RemoveAll(folder)
	}
	server.start()

	unanswered := &atomic.Int64{}
	dial := func() caller {
		soon := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1,
			MaxDelay: 5 * time.Millisecond}, MinConnectTimeout: time.Second}
		options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(soon)}
		return caller{must(quire.Dial(address, options...)), unanswered}
	}
	ledger := &ledger{written: map[string]written{}}
	var stopWriting, stopWorking atomic.Bool
	var writing, working sync.WaitGroup
	for number := range writers {
		writing.Go(func() { ledger.write(dial(), fmt.Sprintf("w%d", number), &stopWriting) })
	}
	for number := range workers {
		working.Go(func() { ledger.work(dial(), fmt.Sprintf("worker-%d", number), &stopWorking) })
	}
	for range kills {
		time.Sleep(time.Duration(20+rand.IntN(280)) * time.Millisecond)
		server.kill()
		server.start()
	}
	stopWriting.Store(true)
	writing.Wait()
	stopWorking.Store(true)
	working.Wait()
	ledger.check(dial())
	cleanUp()
	if unanswered.Load() < int64(kills) {
		fail("only %d attempts had no answer", unanswered.Load())
	}
	fmt.Printf("gRPC: %d kills, %d commits, %d jobs, %d attempts without an answer: each effect once\n", kills,
		len(ledger.written), len(ledger.worked), unanswered.Load())
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

// cleanUp ends the server and removes its database, also when the test fails.
var cleanUp = func() {}

func fail(format string, arguments ...any) {
	cleanUp()
	log.Fatalf(format, arguments...)
}
