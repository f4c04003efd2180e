// Orders places an order, works it and mails it, each step once. Usage: orders 127.0.0.1:7071
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	quire "quire/clients/go"
	"quire/clients/go/quirev1"
)

func main() {
	client := must(quire.Dial(os.Args[1]))
	defer client.Close()
	ctx := context.Background()

	// Placing is one commit: an event under a condition, a job and a message.
	placed := quire.Events(quire.Event("OrderPlaced", []byte(`{"customer":"ann"}`), "order:17"))
	order := []quire.Part{
		quire.Append("shop/orders", placed, quire.FailIfMatches(quire.Matching("OrderPlaced", "order:17"), 0)),
		quire.Enqueue(&quirev1.NewJob{Queue: "shop/charges", Payload: []byte("17")}),
		quire.Produce("orders", []byte("17"), []byte("ann")),
	}
	must(client.Commit(ctx, order...))
	_, err := client.Commit(ctx, order...)
	fmt.Println("the second attempt:", err)

	// The event and the acknowledgement of the job are one commit.
	charges := &quirev1.FetchJobsRequest{Queues: []string{"shop/charges"}, Count: 1, WaitUs: 10_000_000}
	for _, job := range must(client.Jobs.Fetch(ctx, charges)).Jobs {
		charged := quire.Event("OrderCharged", nil, "order:"+string(job.Payload))
		must(client.Commit(ctx, quire.Append("shop/orders", quire.Events(charged)), quire.Ack(job, nil)))
	}

	// The mails' jobs and the offset of the group are one commit.
	orders := must(client.Streams.Consume(ctx, &quirev1.ConsumeRequest{Group: "mailer", Topic: "orders"}))
	page := must(orders.Recv())
	mails := []quire.Part{quire.CommitOffset("mailer", "orders", page)}
	for _, record := range page.Records {
		text := fmt.Appendf(nil, "Thank you, %s", record.Value)
		mails = append(mails, quire.Enqueue(&quirev1.NewJob{Queue: "mails", Payload: text}))
	}
	must(client.Commit(ctx, mails...))
	sent := must(client.Jobs.Fetch(ctx, &quirev1.FetchJobsRequest{Queues: []string{"mails"}, Count: 10}))
	fmt.Println("mails:", len(sent.Jobs))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
