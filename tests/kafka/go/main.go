// franz-go, a client that shares no code with the others, against a server that runs already: go run . BOOTSTRAP
//
// Each check is a function; the first that does not hold ends the run with status 1. As `go run . BOOTSTRAP read TOPIC BEGIN END` it only
// reads a partition: a line for each record from one offset to before another, with its offset, its key, and its value unless it has none.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Generous: it bounds how long a broken server can hang the run.
const patience = 30 * time.Second

const startMs = int64(1_700_000_000_000)

var bootstrap string

func main() {
	bootstrap = os.Args[1]
	if len(os.Args) == 6 && os.Args[2] == "read" {
		if err := readOut(os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 4 {
		member(os.Args[2], os.Args[3])
		return
	}
	checks := []struct {
		name string
		run  func(context.Context) (string, error)
	}{
		{"every codec is read back with every acks", codecs},
		{"an idempotent producer numbers without a gap", idempotent},
		{"offsets are found by time", times},
		{"a group shares the partitions while members join, leave and are killed", groups},
		{"committed offsets are where a group goes on", offsets},
		{"topics are created, described, altered and deleted", topics},
	}
	for _, check := range checks {
		context, cancel := context.WithTimeout(context.Background(), 2*patience)
		found, err := check.run(context)
		cancel()
		if err != nil {
			fmt.Printf("FAILED  %s: %v\n", check.name, err)
			os.Exit(1)
		}
		fmt.Printf("ok      %s: %s\n", check.name, found)
	}
	fmt.Printf("franz-go: %d checks\n", len(checks))
}

func client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)...)
}

// withAdmin creates a topic, and calls with a client for administration.
func withAdmin(call func(*kadm.Client) error) error {
	plain, err := client()
	if err != nil {
		return err
	}
	defer plain.Close()
	return call(kadm.NewClient(plain))
}

func create(ctx context.Context, topic string, partitions int32) error {
	return withAdmin(func(admin *kadm.Client) error {
		created, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
		return errors.Join(err, created.Err)
	})
}

// produce sends values to partition 0, each a second later than the one before, and says where they went.
func produce(ctx context.Context, topic string, values []string, options ...kgo.Opt) ([]int64, error) {
	producer, err := client(options...)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	var records []*kgo.Record
	for number, value := range values {
		at := time.UnixMilli(startMs + int64(number)*1000)
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(value), Timestamp: at})
	}
	results := producer.ProduceSync(ctx, records...)
	var offsets []int64
	for _, record := range records {
		offsets = append(offsets, record.Offset)
	}
	return offsets, results.FirstErr()
}

func read(ctx context.Context, topic string, count int, from int64) ([]string, error) {
	places := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}
	consumer, err := client(kgo.ConsumePartitions(places))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var values []string
	for len(values) < count {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return values, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, nil
}

// readOut writes what a partition holds from one offset to before another, which the newest record stands right before.
func readOut(topic, begin, end string) error {
	from, err := strconv.ParseInt(begin, 10, 64)
	if err != nil {
		return err
	}
	to, err := strconv.ParseInt(end, 10, 64)
	if err != nil {
		return err
	}
	consumer, err := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}))
	if err != nil {
		return err
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for next := from; next < to; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("came to %d of %d: %w", next, to, err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			next = record.Offset + 1
			line := fmt.Sprintf("%d\t%s", record.Offset, record.Key)
			if record.Value != nil {
				line += "\t" + string(record.Value)
			}
			fmt.Println(line)
		})
	}
	return nil
}

func numbers(count int) []string {
	var numbers []string
	for number := range count {
		numbers = append(numbers, strconv.Itoa(number))
	}
	return numbers
}

func codecs(ctx context.Context) (string, error) {
	const topic = "franz-codecs"
	if err := create(ctx, topic, 1); err != nil {
		return "", err
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"none": kgo.NoAck(), "leader": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	var sent []string
	for codecName, codec := range codecs {
		for acksName, acks := range acks {
			var values []string
			for _, number := range numbers(50) {
				values = append(values, strings.Repeat(codecName+acksName+number, 9))
			}
			options := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite()}
			if _, err := produce(ctx, topic, values, options...); err != nil {
				return "", fmt.Errorf("%s, acks %s: %w", codecName, acksName, err)
			}
			sent = append(sent, values...)
			// What nobody acknowledged is there when it can be read.
			if _, err := read(ctx, topic, len(sent), 0); err != nil {
				return "", fmt.Errorf("%s, acks %s: %w", codecName, acksName, err)
			}
		}
	}
	found, err := read(ctx, topic, len(sent), 0)
	if err != nil || !slices.Equal(found, sent) {
		return "", fmt.Errorf("what was read is not what was sent: %v", err)
	}
	return fmt.Sprintf("%d messages", len(sent)), nil
}

func idempotent(ctx context.Context) (string, error) {
	const topic = "franz-idempotent"
	if err := create(ctx, topic, 1); err != nil {
		return "", err
	}
	values := numbers(2000)
	offsets, err := produce(ctx, topic, values, kgo.ProducerBatchMaxBytes(4096))
	if err != nil {
		return "", err
	}
	for number, offset := range offsets {
		if offset != int64(number) {
			return "", fmt.Errorf("message %d has offset %d", number, offset)
		}
	}
	found, err := read(ctx, topic, len(values), 0)
	if err != nil || !slices.Equal(found, values) {
		return "", fmt.Errorf("the order is another: %v", err)
	}
	return "2000 messages", nil
}

func times(ctx context.Context) (string, error) {
	const topic = "franz-times"
	if err := create(ctx, topic, 1); err != nil {
		return "", err
	}
	if _, err := produce(ctx, topic, numbers(500), kgo.ProducerBatchCompression(kgo.GzipCompression())); err != nil {
		return "", err
	}
	err := withAdmin(func(admin *kadm.Client) error {
		for ms, expected := range map[int64]int64{startMs + 122_500: 123, startMs: 0, startMs + 3_600_000: 500} {
			listed, err := admin.ListOffsetsAfterMilli(ctx, ms, topic)
			if err != nil {
				return err
			}
			if found, _ := listed.Lookup(topic, 0); found.Err != nil || found.Offset != expected {
				return fmt.Errorf("at %d: %d (%v), not %d", ms, found.Offset, found.Err, expected)
			}
		}
		latest, err := admin.ListMaxTimestampOffsets(ctx, topic)
		if err != nil {
			return err
		}
		if found, _ := latest.Lookup(topic, 0); found.Err != nil || found.Offset != 499 {
			return fmt.Errorf("the latest record is at %d (%v)", found.Offset, found.Err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	found, err := read(ctx, topic, 1, 123)
	if err != nil || found[0] != "123" {
		return "", fmt.Errorf("another record is there: %v %v", found, err)
	}
	return "500 messages", nil
}

// member joins a group and tells its share whenever that changes, until it is killed or its input ends.
func member(group, topic string) {
	var lock sync.Mutex
	share := map[int32]bool{}
	tell := func(partitions map[string][]int32, mine bool) {
		lock.Lock()
		defer lock.Unlock()
		for _, partition := range partitions[topic] {
			if mine {
				share[partition] = true
			} else {
				delete(share, partition)
			}
		}
		var all []string
		for partition := range share {
			all = append(all, strconv.Itoa(int(partition)))
		}
		fmt.Println("share", strings.Join(all, " "))
	}
	consumer, err := client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { tell(partitions, true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { tell(partitions, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { tell(partitions, false) }),
	)
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	go func() {
		for !consumer.PollFetches(context.Background()).IsClientClosed() {
		}
	}()
	// Whoever wants it to leave closes its input.
	os.Stdin.Read(make([]byte, 1))
	consumer.Close()
}

// A process that is a member of a group.
type process struct {
	command *exec.Cmd
	leave   func() error
	lock    sync.Mutex
	share   []string
}

func join(group, topic string) (*process, error) {
	command := exec.Command(os.Args[0], bootstrap, group, topic)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := &process{command: command, leave: input.Close}
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() {
		lines := make([]byte, 0, 1024)
		buffer := make([]byte, 1024)
		for {
			count, err := output.Read(buffer)
			lines = append(lines, buffer[:count]...)
			for {
				line, rest, whole := strings.Cut(string(lines), "\n")
				if !whole {
					break
				}
				lines = []byte(rest)
				started.lock.Lock()
				started.share = strings.Fields(line)[1:]
				started.lock.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
	return started, nil
}

func shared(ctx context.Context, members []*process, sizes []int) error {
	for {
		var all []string
		var found []int
		for _, member := range members {
			member.lock.Lock()
			all, found = append(all, member.share...), append(found, len(member.share))
			member.lock.Unlock()
		}
		slices.Sort(all)
		slices.Sort(found)
		if slices.Equal(all, numbers(6)) && slices.Equal(found, sizes) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the partitions are not shared as %v, but %v: %w", sizes, found, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func groups(ctx context.Context) (string, error) {
	const topic, group = "franz-group", "franz-group"
	if err := create(ctx, topic, 6); err != nil {
		return "", err
	}
	var members []*process
	defer func() {
		for _, member := range members {
			member.command.Process.Kill()
			member.command.Wait()
		}
	}()
	for count, sizes := range [][]int{{6}, {3, 3}, {2, 2, 2}} {
		started, err := join(group, topic)
		if err != nil {
			return "", err
		}
		members = append(members, started)
		if err := shared(ctx, members, sizes); err != nil {
			return "", fmt.Errorf("%d members: %w", count+1, err)
		}
	}
	left := members[0]
	left.leave()
	left.command.Wait()
	if err := shared(ctx, members[1:], []int{3, 3}); err != nil {
		return "", fmt.Errorf("one left: %w", err)
	}
	members[1].command.Process.Kill()
	members[1].command.Wait()
	if err := shared(ctx, members[2:], []int{6}); err != nil {
		return "", fmt.Errorf("one was killed: %w", err)
	}
	members = members[2:]
	return "1 member, 2, 3, 2 and 1", nil
}

func offsets(ctx context.Context) (string, error) {
	const topic, group = "franz-offsets", "franz-offsets"
	if err := create(ctx, topic, 1); err != nil {
		return "", err
	}
	if _, err := produce(ctx, topic, numbers(10)); err != nil {
		return "", err
	}
	err := withAdmin(func(admin *kadm.Client) error {
		committed := kadm.Offsets{}
		committed.AddOffset(topic, 0, 4, -1)
		if err := admin.CommitAllOffsets(ctx, group, committed); err != nil {
			return err
		}
		fetched, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			return err
		}
		if found, _ := fetched.Lookup(topic, 0); found.At != 4 {
			return fmt.Errorf("committed is %d", found.At)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	consumer, err := client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	if err != nil {
		return "", err
	}
	fetches := consumer.PollFetches(ctx)
	var first int64 = -1
	fetches.EachRecord(func(record *kgo.Record) {
		if first < 0 {
			first = record.Offset
		}
	})
	if err := errors.Join(fetches.Err(), consumer.CommitUncommittedOffsets(ctx)); err != nil {
		return "", err
	}
	consumer.Close()
	if first != 4 {
		return "", fmt.Errorf("the group went on at %d", first)
	}
	return "committed, gone on from, deleted", withAdmin(func(admin *kadm.Client) error {
		lags, err := admin.Lag(ctx, group)
		if err != nil {
			return err
		}
		lag := lags[group]
		if lag.Lag.Total() != 0 || lag.Error() != nil {
			return fmt.Errorf("the lag is %d: %w", lag.Lag.Total(), lag.Error())
		}
		deleted, err := admin.DeleteGroup(ctx, group)
		if err := errors.Join(err, deleted.Err); err != nil {
			return err
		}
		listed, err := admin.ListGroups(ctx)
		if _, there := listed[group]; there {
			return errors.New("a deleted group is listed")
		}
		return err
	})
}

func topics(ctx context.Context) (string, error) {
	const topic = "franz-topic"
	return "created, altered, trimmed, deleted", withAdmin(func(admin *kadm.Client) error {
		ms := "3600000"
		created, err := admin.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": &ms}, topic)
		if err := errors.Join(err, created.Err); err != nil {
			return err
		}
		again, _ := admin.CreateTopic(ctx, 2, 1, nil, topic)
		if !errors.Is(again.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("created twice: %v", again.Err)
		}
		limit := "1000"
		altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, topic)
		if err := errors.Join(err, altered[0].Err); err != nil {
			return err
		}
		described, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return err
		}
		found := map[string]string{}
		for _, config := range described[0].Configs {
			found[config.Key] = config.MaybeValue()
		}
		if found["retention.ms"] != ms || found["max.message.bytes"] != limit {
			return fmt.Errorf("the settings are %v", found)
		}
		large := []string{strings.Repeat("x", 2000)}
		if _, err := produce(ctx, topic, large, kgo.ProducerBatchCompression(kgo.NoCompression())); !errors.Is(err, kerr.MessageTooLarge) {
			return fmt.Errorf("a message that is too large: %v", err)
		}
		if _, err := produce(ctx, topic, numbers(10)); err != nil {
			return err
		}
		before := kadm.Offsets{}
		before.AddOffset(topic, 0, 3, -1)
		trimmed, err := admin.DeleteRecords(ctx, before)
		if err != nil {
			return err
		}
		if at, _ := trimmed.Lookup(topic, 0); at.Err != nil || at.LowWatermark != 3 {
			return fmt.Errorf("trimmed to %d: %v", at.LowWatermark, at.Err)
		}
		more, err := admin.CreatePartitions(ctx, 3, topic)
		if err := errors.Join(err, more[topic].Err); err != nil {
			return err
		}
		listed, err := admin.ListTopics(ctx, topic)
		if err != nil || len(listed[topic].Partitions) != 5 {
			return fmt.Errorf("there are %d partitions: %v", len(listed[topic].Partitions), err)
		}
		deleted, err := admin.DeleteTopics(ctx, topic)
		return errors.Join(err, deleted[topic].Err)
	})
}
