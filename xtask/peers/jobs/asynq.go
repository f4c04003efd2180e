package main

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
)

// asynqSystem is asynq on Redis; what is kept when is a setting of the server.
type asynqSystem struct {
	redis  asynq.RedisClientOpt
	client *asynq.Client
}

func openAsynq(address string) system {
	redis := asynq.RedisClientOpt{Addr: address, PoolSize: workers + clients}
	return &asynqSystem{redis, asynq.NewClient(redis)}
}

func (system *asynqSystem) enqueuer(count int) (func() error, error) {
	// There is no call that enqueues many.
	return func() error {
		for range count {
			if _, err := system.client.Enqueue(asynq.NewTask("bench", payload), asynq.Queue(queue)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (system *asynqSystem) work(jobs int) error {
	ended := newCountdown(jobs)
	server := asynq.NewServer(system.redis, asynq.Config{
		Concurrency: workers,
		LogLevel:    asynq.FatalLevel,
		Queues:      map[string]int{queue: 1},
	})
	handle := func(context.Context, *asynq.Task) error {
		ended.one()
		return nil
	}
	if err := server.Start(asynq.HandlerFunc(handle)); err != nil {
		return err
	}
	<-ended.done
	// Until those that are at work have ended their jobs.
	server.Shutdown()
	inspector := asynq.NewInspector(system.redis)
	defer inspector.Close()
	info, err := inspector.GetQueueInfo(queue)
	if err == nil && (info.Size != 0 || info.ProcessedTotal < jobs) {
		err = fmt.Errorf("%d jobs are left, %d were processed of %d", info.Size, info.ProcessedTotal, jobs)
	}
	return err
}

func (system *asynqSystem) close() { system.client.Close() }
