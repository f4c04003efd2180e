package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// How many messages a worker has the server send ahead.
const ahead = 100

// natsSystem is a work queue of NATS JetStream, served in this process over loopback.
type natsSystem struct {
	server      *server.Server
	connections []*nats.Conn
	stream      jetstream.Stream
}

func openJetStream(folder string, syncs bool) (system, error) {
	served, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: folder, SyncAlways: syncs,
	})
	if err != nil {
		return nil, err
	}
	served.Start()
	if !served.ReadyForConnections(10 * time.Second) {
		return nil, fmt.Errorf("the server is not ready")
	}
	system := &natsSystem{server: served}
	stream, err := system.connect()
	if err != nil {
		return nil, err
	}
	system.stream, err = stream.CreateStream(context.Background(), jetstream.StreamConfig{
		Name: queue, Subjects: []string{queue}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	})
	return system, err
}

func (system *natsSystem) connect() (jetstream.JetStream, error) {
	connection, err := nats.Connect(system.server.ClientURL())
	if err != nil {
		return nil, err
	}
	system.connections = append(system.connections, connection)
	return jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(batch))
}

func (system *natsSystem) enqueuer(count int) (func() error, error) {
	ctx := context.Background()
	stream, err := system.connect()
	if err != nil {
		return nil, err
	}
	if count == 1 {
		return func() error {
			_, err := stream.Publish(ctx, queue, payload)
			return err
		}, nil
	}
	return func() error {
		acks := make([]jetstream.PubAckFuture, 0, count)
		for range count {
			ack, err := stream.PublishAsync(queue, payload)
			if err != nil {
				return err
			}
			acks = append(acks, ack)
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				return err
			}
		}
		return nil
	}, nil
}

func (system *natsSystem) work(jobs int) error {
	ctx := context.Background()
	consumer := jetstream.ConsumerConfig{Durable: queue, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1}
	if _, err := system.stream.CreateConsumer(ctx, consumer); err != nil {
		return err
	}
	ended := newCountdown(jobs)
	streams := make([]jetstream.JetStream, clients)
	for client := range streams {
		stream, err := system.connect()
		if err != nil {
			return err
		}
		streams[client] = stream
	}
	return onEach(func(client int) error {
		consumer, err := streams[client].Consumer(ctx, queue, queue)
		if err != nil {
			return err
		}
		messages, err := consumer.Messages(jetstream.PullMaxMessages(ahead))
		if err != nil {
			return err
		}
		go func() {
			<-ended.done
			messages.Stop()
		}()
		slots := make(chan struct{}, workers/clients)
		failed := make(chan error, 1)
		for {
			message, err := messages.Next()
			if err != nil {
				break
			}
			slots <- struct{}{}
			go func() {
				// Answered by the server, as an ack of Quire's is.
				if err := message.DoubleAck(ctx); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
				<-slots
				ended.one()
			}()
		}
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	})
}

func (system *natsSystem) close() {
	for _, connection := range system.connections {
		connection.Close()
	}
	system.server.Shutdown()
}
