// Package quire is a client for Quire over gRPC: a connection with a client of each service, and functions that build
// the parts of a commit. The messages are in quirev1, generated from the files in proto/.
package quire

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"quire/clients/go/quirev1"
)

// Client calls one server.
type Client struct {
	Quire   quirev1.QuireClient
	Events  quirev1.EventsClient
	Streams quirev1.StreamsClient
	Jobs    quirev1.JobsClient
	Graph   quirev1.GraphClient
	Sql     quirev1.SqlClient

	connection *grpc.ClientConn
}

// Dial returns a client of the server at this address, for example 127.0.0.1:7071. It connects with the first call.
// Without grpc.WithTransportCredentials among the options, it does not use TLS.
func Dial(address string, options ...grpc.DialOption) (*Client, error) {
	// A later option of the same kind wins.
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient(address, append([]grpc.DialOption{plain}, options...)...)
	if err != nil {
		return nil, err
	}
	return &Client{
		Quire:      quirev1.NewQuireClient(connection),
		Events:     quirev1.NewEventsClient(connection),
		Streams:    quirev1.NewStreamsClient(connection),
		Jobs:       quirev1.NewJobsClient(connection),
		Graph:      quirev1.NewGraphClient(connection),
		Sql:        quirev1.NewSqlClient(connection),
		connection: connection,
	}, nil
}

// WithKey sends an API key with every call. Over a network, use TLS as well.
func WithKey(key string) grpc.DialOption {
	return grpc.WithPerRPCCredentials(apiKey(key))
}

// apiKey is a bearer token. Its text is not shown.
type apiKey string

func (key apiKey) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(key)}, nil
}

// RequireTransportSecurity is false: a server on this machine has no TLS by default.
func (apiKey) RequireTransportSecurity() bool { return false }

func (apiKey) String() string { return "API key" }

func (apiKey) GoString() string { return "API key" }

// Close ends the connection.
func (client *Client) Close() error {
	return client.connection.Close()
}

// Commit commits parts of any models: all of them, or none. A refusal is a gRPC status with the google.rpc.ErrorInfo of
// its reason, see docs/errors.md.
func (client *Client) Commit(ctx context.Context, parts ...Part) (*quirev1.CommitResponse, error) {
	return client.Quire.Commit(ctx, &quirev1.CommitRequest{Parts: parts})
}

// DryRun decides a commit as Commit does, and commits nothing. The response is the one that the commit would get, with the
// entries that it would append.
func (client *Client) DryRun(ctx context.Context, parts ...Part) (*quirev1.CommitResponse, error) {
	return client.Quire.Commit(ctx, &quirev1.CommitRequest{Parts: parts, DryRun: true})
}

// Refusals returns the last refused commits of the server, the newest first: at most 200, with their reasons.
func (client *Client) Refusals(ctx context.Context) ([]*quirev1.RefusedCommit, error) {
	response, err := client.Quire.Refusals(ctx, &quirev1.RefusalsRequest{})
	return response.GetRefusals(), err
}

// History returns the figures of the last hour after a time, one sample every 10 seconds. The zero time stands for all.
func (client *Client) History(ctx context.Context, after time.Time) ([]*quirev1.HistorySample, error) {
	request := &quirev1.HistoryRequest{}
	if !after.IsZero() {
		request.AfterUs = uint64(max(after.UnixMicro(), 0))
	}
	response, err := client.Quire.History(ctx, request)
	return response.GetSamples(), err
}

// Local returns a context for calls that read: the server answers them from its own records, whichever node of the cluster
// leads. The last commits may be missing. A server refuses it for calls that write or wait for new data without an end.
func Local(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "quire-read", "local")
}

// LocalAt is like Local. The reads show the commit at this position and all earlier ones: the server waits up to 2 s for
// the position.
func LocalAt(ctx context.Context, position uint64) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "quire-read", "at="+strconv.FormatUint(position, 10))
}

// Part is a command of a commit.
type Part = *quirev1.CommitPart

// Events returns a list of events to append.
func Events(events ...*quirev1.NewEvent) []*quirev1.NewEvent {
	return events
}

// Event returns an event to append.
func Event(eventType string, data []byte, tags ...string) *quirev1.NewEvent {
	return &quirev1.NewEvent{Type: eventType, Data: data, Tags: bytesOf(tags)}
}

// Matching returns a query for the events that have the type and all of the tags. An empty type stands for all types.
func Matching(eventType string, tags ...string) *quirev1.EventQuery {
	item := &quirev1.EventQueryItem{Tags: bytesOf(tags)}
	if eventType != "" {
		item.Types = []string{eventType}
	}
	return &quirev1.EventQuery{Items: []*quirev1.EventQueryItem{item}}
}

// FailIfMatches returns the condition that no event after this position matches; 0 is the beginning.
func FailIfMatches(query *quirev1.EventQuery, after uint64) *quirev1.EventCondition {
	return &quirev1.EventCondition{Kind: &quirev1.EventCondition_FailIfEventsMatch_{
		FailIfEventsMatch: &quirev1.EventCondition_FailIfEventsMatch{Query: query, After: after},
	}}
}

// Append appends events to a store if every condition holds.
func Append(store string, events []*quirev1.NewEvent, conditions ...*quirev1.EventCondition) Part {
	return &quirev1.CommitPart{Kind: &quirev1.CommitPart_Append{
		Append: &quirev1.CommitPart_AppendPart{Store: store, Events: events, Conditions: conditions},
	}}
}

// Enqueue enqueues a job.
func Enqueue(job *quirev1.NewJob) Part {
	return &quirev1.CommitPart{Kind: &quirev1.CommitPart_Enqueue{Enqueue: job}}
}

// Ack completes a leased job.
func Ack(job *quirev1.FetchedJob, result []byte) Part {
	return &quirev1.CommitPart{Kind: &quirev1.CommitPart_Report{Report: &quirev1.JobReport{
		Job: job.Job, Token: job.Token, What: &quirev1.JobReport_Ack_{Ack: &quirev1.JobReport_Ack{Result: result}},
	}}}
}

// Produce produces a record. A nil key is no key, and a nil value is a tombstone.
func Produce(topic string, key, value []byte) Part {
	return &quirev1.CommitPart{Kind: &quirev1.CommitPart_Produce{
		Produce: &quirev1.CommitPart_ProducePart{Topic: topic, Record: &quirev1.NewRecord{Key: key, Value: value}},
	}}
}

// CommitOffset commits the offset after a page of Consume, unless the partition has moved to another member.
func CommitOffset(group, topic string, page *quirev1.ConsumeResponse) Part {
	return &quirev1.CommitPart{Kind: &quirev1.CommitPart_CommitOffset{CommitOffset: &quirev1.CommitOffsetRequest{
		Group: group, Topic: topic, Partition: page.Partition, Offset: page.NextOffset, Owner: page.Owner,
	}}}
}

func bytesOf(texts []string) [][]byte {
	all := make([][]byte, len(texts))
	for i, text := range texts {
		all[i] = []byte(text)
	}
	return all
}
