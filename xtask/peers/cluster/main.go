// cluster-load STORE CASE DURABILITY OPS FOLDER loads a cluster of three members as the case of that name of `quire-bench cluster` loads
// Quire: clients that each put 256 bytes, and wait until it is acknowledged.
//
// The three members run in this process, on loopback, with their files in FOLDER. It prints one line of JSON, with the names that
// `quire-bench --json` has.
package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	members      = 3
	payloadBytes = 256
	// Connections of a load. More clients share them.
	connectionsMax = 32
)

var payload = bytes.Repeat([]byte("q"), payloadBytes)

// A cluster, opened for one case.
type cluster interface {
	// putter returns what puts one value, and waits until it is acknowledged, for one client.
	putter(client int) (func() error, error)
	close()
}

func open(store, folder string, connections int) (cluster, error) {
	switch store {
	case "etcd":
		return openEtcd(folder, connections)
	case "jetstream":
		return openJetStream(folder, connections)
	}
	return nil, fmt.Errorf("there is no store %s", store)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster-load:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 6 {
		return fmt.Errorf("cluster-load STORE CASE DURABILITY OPS FOLDER")
	}
	store, name, durability := os.Args[1], os.Args[2], os.Args[3]
	if durability != "sync" {
		return fmt.Errorf("all members sync")
	}
	ops, err := strconv.Atoi(os.Args[4])
	if err != nil {
		return err
	}
	clients, err := strconv.Atoi(strings.TrimPrefix(name, "put-"))
	if err != nil {
		return fmt.Errorf("there is no case %s", name)
	}
	cluster, err := open(store, os.Args[5], min(clients, connectionsMax))
	if err != nil {
		return err
	}
	defer cluster.close()
	calls := make([]func() error, clients)
	for client := range calls {
		if calls[client], err = cluster.putter(client); err != nil {
			return err
		}
	}
	if err := calls[0](); err != nil {
		return err
	}
	return put(name, calls, ops)
}

func put(name string, calls []func() error, ops int) error {
	clients := len(calls)
	latencies := make([][]time.Duration, clients)
	failed := make([]error, clients)
	var group sync.WaitGroup
	begun := time.Now()
	for client := range clients {
		group.Go(func() {
			for range (ops + clients - 1) / clients {
				before := time.Now()
				if err := calls[client](); err != nil {
					failed[client] = err
					return
				}
				latencies[client] = append(latencies[client], time.Since(before))
			}
		})
	}
	group.Wait()
	elapsed := time.Since(begun)
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	quantile := func(share float64) int64 { return all[int(float64(len(all))*share)].Nanoseconds() }
	fmt.Printf(`{"case":"%s","entries_per_op":1,"ops":%d,"ops_per_s":%.1f,"p50_ns":%d,"p99_ns":%d}`+"\n",
		name, len(all), float64(len(all))/elapsed.Seconds(), quantile(0.5), quantile(0.99))
	return nil
}
