"""Places an order, works it and mails it, each step exactly once: `main.rs` in Python.

    python orders.py [http://127.0.0.1:7070]
"""

import sys
import tempfile

import quire


def place(db: quire.Database, order: int, customer: str) -> None:
    tags = [f"order:{order}"]
    placed_before = quire.fail_if_matches(quire.Query("OrderPlaced", tags=tags))
    placed = quire.Commit().append("shop/orders", "OrderPlaced", {"customer": customer}, tags=tags, conditions=placed_before)
    db.commit(placed.enqueue("shop/charges", order).produce("orders", f"{customer} ordered {order}", key=tags[0]))


directory = tempfile.TemporaryDirectory()
with quire.connect(sys.argv[1]) if len(sys.argv) > 1 else quire.open(directory.name + "/data", sync="os") as db:
    place(db, 17, "ann")
    try:
        place(db, 17, "ann")
    except quire.ConditionFailed as refused:
        print("the second attempt:", refused)

    worker = db.queue("shop/charges").worker("cashier-1")

    def charge(job: quire.Job) -> quire.Commit:
        worker.stop()  # after this order
        return quire.Commit().append("shop/orders", "OrderCharged", tags=[f"order:{job.json()}"])

    worker.run(charge)
    orders = next(consumer := db.topic("orders").consumer("mailer"))  # the mail and the offset are one commit
    consumer.ack(orders, quire.Commit().enqueue("mails", f"Thank you: {orders.records[0].text()}"))
    mails = db.queue("mails").fetch("smtp-1", 10)
    print(f"mails: {len(mails)}, events: {db.store('shop/orders').head()}")
