#!/bin/sh
# Places an order, works it and mails it, each step once. Usage: orders.sh http://127.0.0.1:7070
set -e
quire=${1:-http://127.0.0.1:7070}
post() { path=$1; shift; curl -sS "$quire$path" -H 'Content-Type: application/json' -d @- "$@"; echo; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

# Placing is one commit: an event under a condition, a job and a message. The key makes it safe to send again.
place() {
    post /v1/commit -H "Idempotency-Key: $1" <<JSON
{"parts": [
  {"append": {"store": "shop/orders",
    "events": [{"type": "OrderPlaced", "tags": ["order:17"], "data": {"customer": "ann"}}],
    "conditions": [{"fail_if_events_match": {"items": [{"types": ["OrderPlaced"], "tags": ["order:17"]}]}}]}},
  {"enqueue": {"queue": "shop/charges", "payload": {"order": 17}}},
  {"produce": {"topic": "orders", "key": "17", "value": {"customer": "ann"}}}]}
JSON
}
place order-17
echo "sent again: $(place order-17)"
echo "another attempt: $(place another | field detail)"

# The event and the acknowledgement of the job are one commit.
leased=$(echo '{"worker": "cashier-1", "wait_ms": 10000}' | post /v1/queues/shop%2Fcharges/fetch)
post /v1/commit <<JSON
{"parts": [
  {"ack": {"job": "$(echo "$leased" | field job)", "token": "$(echo "$leased" | field token)"}},
  {"append": {"store": "shop/orders", "events": [{"type": "OrderCharged", "tags": ["order:17"]}]}}]}
JSON

# The mail's job and the offset of the group are one commit.
next=$(curl -sS "$quire/v1/topics/orders/partitions/0/records" | field next_offset)
post /v1/commit <<JSON
{"parts": [{"enqueue": {"queue": "mails", "payload": "Thank you, ann"}},
  {"commit_offset": {"group": "mailer", "topic": "orders", "partition": 0, "offset": $next}}]}
JSON
echo "mails: $(echo '{"count": 10}' | post /v1/queues/mails/fetch | grep -o '"token"' | wc -l), events: $(curl -sS "$quire/v1/events/shop%2Forders/head" | field head)"
