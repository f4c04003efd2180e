package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverArgs struct {
	Payload []byte `json:"payload"`
}

func (riverArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	ended *countdown
}

func (worker *riverWorker) Work(context.Context, *river.Job[riverArgs]) error {
	worker.ended.one()
	return nil
}

// countdown tells when so many jobs were handled.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func newCountdown(jobs int) *countdown {
	down := &countdown{done: make(chan struct{})}
	down.left.Store(int64(jobs))
	return down
}

func (down *countdown) one() {
	if down.left.Add(-1) == 0 {
		close(down.done)
	}
}

// riverSystem is River on PostgreSQL; what is kept when is a setting of the server.
type riverSystem struct{ pool *pgxpool.Pool }

func openRiver(url string) (system, error) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url+"&pool_max_conns=20")
	if err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	// Each case begins with nothing there.
	_, err = pool.Exec(ctx, "TRUNCATE river_job")
	return &riverSystem{pool}, err
}

func (system *riverSystem) enqueuer(count int) (func() error, error) {
	ctx := context.Background()
	client, err := river.NewClient(riverpgxv5.New(system.pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if count == 1 {
		return func() error {
			_, err := client.Insert(ctx, riverArgs{payload}, nil)
			return err
		}, nil
	}
	many := make([]river.InsertManyParams, count)
	for index := range many {
		many[index].Args = riverArgs{payload}
	}
	return func() error {
		// By COPY, and without the rows as they were inserted: the fastest that there is.
		_, err := client.InsertManyFast(ctx, many)
		return err
	}, nil
}

func (system *riverSystem) work(jobs int) error {
	ctx := context.Background()
	ended := newCountdown(jobs)
	kinds := river.NewWorkers()
	river.AddWorker(kinds, &riverWorker{ended: ended})
	client, err := river.NewClient(riverpgxv5.New(system.pool), &river.Config{
		// As often as it may.
		FetchCooldown: time.Millisecond,
		Logger:        slog.New(slog.DiscardHandler),
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:       kinds,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-ended.done
	// Until their ends are in the database.
	if err := client.Stop(ctx); err != nil {
		return err
	}
	var completed int
	err = system.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&completed)
	if err == nil && completed != jobs {
		err = fmt.Errorf("%d of %d jobs are completed", completed, jobs)
	}
	return err
}

func (system *riverSystem) close() { system.pool.Close() }
