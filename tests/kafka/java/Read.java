// Reads the records of a partition by Kafka's own Java client: java -cp 'JARS/*' Read.java BOOTSTRAP read TOPIC BEGIN END
//
// Writes a line for each record from one offset to before another: its offset, its key, and its value unless it has none.

import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Read {
    // Generous: it bounds how long a broken server can hang the run.
    static final long SECONDS_MAX = 30;

    public static void main(String[] arguments) {
        var place = new TopicPartition(arguments[2], 0);
        long begin = Long.parseLong(arguments[3]), end = Long.parseLong(arguments[4]);
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "enable.auto.commit", "false", "auto.offset.reset", "none");
        long deadline = System.nanoTime() + SECONDS_MAX * 1_000_000_000;
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(place));
            consumer.seek(place, begin);
            while (consumer.position(place) < end) {
                if (System.nanoTime() > deadline) throw new AssertionError("came to " + consumer.position(place) + " of " + end);
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(record.offset() + "\t" + record.key() + (record.value() == null ? "" : "\t" + record.value()));
                }
            }
        }
    }
}
