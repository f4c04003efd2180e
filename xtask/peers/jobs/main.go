// jobs-load STORE CASE DURABILITY OPS PLACE loads a job system as the case of that name of `quire-bench jobs` loads Quire over gRPC:
// ten clients that enqueue, each waiting for the answer, or a pool of workers that take what was enqueued before and end it.
//
// PLACE is the address of the server, or for JetStream, which is served in this process, a folder. It prints one line of JSON, with the
// names that `quire-bench --json` has. Payloads have 100 bytes; handlers do nothing.
package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// As many as the cases of Quire have.
	clients      = 10
	batch        = 1000
	payloadBytes = 100
	// Handlers that may be at work at the same time. Quire's case has ten connections with one job each; these systems take jobs
	// and end them for all of their workers together, and are faster the more there are.
	workers = 200
	queue   = "bench"
)

var payload = bytes.Repeat([]byte("q"), payloadBytes)

// A jobs system, opened for one case.
type system interface {
	// enqueuer returns what enqueues so many jobs and waits until they are kept, for one client.
	enqueuer(count int) (func() error, error)
	// work takes and ends so many jobs that are there, and returns when the last one's end is kept.
	work(jobs int) error
	close()
}

func open(store, durability, place string) (system, error) {
	switch store {
	case "river":
		return openRiver(place)
	case "asynq":
		return openAsynq(place), nil
	case "jetstream":
		return openJetStream(place, durability == "sync")
	}
	return nil, fmt.Errorf("there is no store %s", store)
}

func main() {
	if len(os.Args) != 6 {
		fail(fmt.Errorf("jobs-load STORE CASE DURABILITY OPS PLACE"))
	}
	ops, err := strconv.Atoi(os.Args[4])
	if err != nil {
		fail(err)
	}
	system, err := open(os.Args[1], os.Args[3], os.Args[5])
	if err != nil {
		fail(err)
	}
	defer system.close()
	name := os.Args[2]
	switch name {
	case "grpc-enqueue":
		err = enqueue(system, name, ops, 1)
	case "grpc-enqueue-1000":
		err = enqueue(system, name, ops, batch)
	case "grpc-fetch-ack":
		err = work(system, name, ops)
	default:
		err = fmt.Errorf("there is no case %s", name)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "jobs-load:", err)
	os.Exit(1)
}

// onEach runs fn for each client, and returns the first error.
func onEach(fn func(client int) error) error {
	var group sync.WaitGroup
	failed := make([]error, clients)
	for client := range clients {
		group.Go(func() { failed[client] = fn(client) })
	}
	group.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func enqueue(system system, name string, ops, count int) error {
	calls := make([]func() error, clients)
	for client := range calls {
		call, err := system.enqueuer(count)
		if err != nil {
			return err
		}
		// Connections are made, and statements prepared.
		if err := call(); err != nil {
			return err
		}
		calls[client] = call
	}
	latencies := make([][]time.Duration, clients)
	begun := time.Now()
	err := onEach(func(client int) error {
		for range ops / clients {
			before := time.Now()
			if err := calls[client](); err != nil {
				return err
			}
			latencies[client] = append(latencies[client], time.Since(before))
		}
		return nil
	})
	if err == nil {
		say(name, count, time.Since(begun), ops/clients*clients, slices.Concat(latencies...))
	}
	return err
}

func work(system system, name string, ops int) error {
	count := min(batch, ops/clients)
	calls := (ops/clients + count - 1) / count
	err := onEach(func(int) error {
		call, err := system.enqueuer(count)
		for made := 0; err == nil && made < calls; made++ {
			err = call()
		}
		return err
	})
	if err != nil {
		return err
	}
	jobs := clients * calls * count
	begun := time.Now()
	if err := system.work(jobs); err != nil {
		return err
	}
	say(name, 1, time.Since(begun), jobs, nil)
	return nil
}

func say(name string, entries int, elapsed time.Duration, ops int, latencies []time.Duration) {
	slices.Sort(latencies)
	quantile := func(share float64) int64 {
		if len(latencies) == 0 {
			return 0
		}
		return latencies[int(float64(len(latencies))*share)].Nanoseconds()
	}
	rate := float64(ops) / elapsed.Seconds()
	fmt.Printf(`{"case":"%s","entries_per_op":%d,"ops":%d,"ops_per_s":%.1f,"p50_ns":%d,"p99_ns":%d}`+"\n",
		name, entries, ops, rate, quantile(0.5), quantile(0.99))
}
