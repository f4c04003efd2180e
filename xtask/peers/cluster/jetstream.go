package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const stream = "bench"

// natsCluster is three servers of NATS with a stream of three replicas. Each syncs each message before it acknowledges.
type natsCluster struct {
	servers []*server.Server
	streams []jetstream.JetStream
}

func openJetStream(folder string, connections int) (cluster, error) {
	opened := &natsCluster{}
	// A server of a cluster starts only with the routes to all others.
	routes := make([]*url.URL, members)
	for member := range routes {
		free, err := loopbackURL()
		if err != nil {
			return nil, err
		}
		routes[member] = &url.URL{Scheme: "nats", Host: free.Host}
	}
	for member := range members {
		name := "member-" + strconv.Itoa(member)
		port, err := strconv.Atoi(routes[member].Port())
		if err != nil {
			return nil, err
		}
		served, err := server.NewServer(&server.Options{
			ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(folder, name), SyncAlways: true,
			Cluster: server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: port},
			Routes:  routes,
		})
		if err != nil {
			return nil, err
		}
		go served.Start()
		opened.servers = append(opened.servers, served)
	}
	for _, served := range opened.servers {
		if !served.ReadyForConnections(10 * time.Second) {
			return nil, fmt.Errorf("a server is not ready")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first, err := opened.connect(opened.servers[0])
	if err != nil {
		return nil, err
	}
	made, err := create(ctx, first)
	if err != nil {
		return nil, err
	}
	info, err := made.Info(ctx)
	if err != nil {
		return nil, err
	}
	leader := opened.servers[0]
	for _, member := range opened.servers {
		if info.Cluster != nil && member.Name() == info.Cluster.Leader {
			leader = member
		}
	}
	for range connections {
		connected, err := opened.connect(leader)
		if err != nil {
			return nil, err
		}
		opened.streams = append(opened.streams, connected)
	}
	return opened, nil
}

// create makes the stream, as soon as the servers have elected a leader.
func create(ctx context.Context, connected jetstream.JetStream) (jetstream.Stream, error) {
	for {
		// A request before that has no answer.
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		made, err := connected.CreateStream(once, jetstream.StreamConfig{
			Name: stream, Subjects: []string{stream}, Storage: jetstream.FileStorage, Replicas: members,
		})
		cancel()
		if err == nil || ctx.Err() != nil {
			return made, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (cluster *natsCluster) connect(to *server.Server) (jetstream.JetStream, error) {
	connection, err := nats.Connect(to.ClientURL())
	if err != nil {
		return nil, err
	}
	return jetstream.New(connection)
}

func (cluster *natsCluster) putter(client int) (func() error, error) {
	connected := cluster.streams[client%len(cluster.streams)]
	return func() error {
		_, err := connected.Publish(context.Background(), stream, payload)
		return err
	}, nil
}

func (cluster *natsCluster) close() {
	for _, member := range cluster.servers {
		member.Shutdown()
	}
}
