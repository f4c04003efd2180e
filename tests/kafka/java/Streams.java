// Kafka Streams against a server that runs already: java -cp 'JARS/*' Streams.java BOOTSTRAP
//
// A word count, at least once, that makes its internal topics by itself. It is stopped and started again without its local
// state, which it then restores from its changelog. The first thing that does not hold ends the run with status 1.

import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

public class Streams {
    // Generous: it bounds how long a broken server can hang the run.
    static final long SECONDS_MAX = 120;
    static final String APPLICATION = "word-count";
    static final String LINES = "lines", COUNTS = "counts";
    static final List<String> WORDS = List.of("log", "stream", "event", "job", "graph", "commit", "quire");
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (var admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(LINES, 2, (short) 1), new NewTopic(COUNTS, 2, (short) 1))).all().get(SECONDS_MAX, TimeUnit.SECONDS);
            var expected = new TreeMap<String, Long>();
            count(600, expected);
            count(400, expected);
            Set<String> topics = admin.listTopics().names().get(SECONDS_MAX, TimeUnit.SECONDS);
            String changelog = topics.stream().filter(name -> name.startsWith(APPLICATION) && name.endsWith("-changelog")).findFirst().orElseThrow();
            String repartition = topics.stream().filter(name -> name.startsWith(APPLICATION) && name.endsWith("-repartition")).findFirst().orElseThrow();
            expect(setting(admin, changelog, "cleanup.policy").value().equals("compact"), "the changelog is not compacted");
            ConfigEntry bytes = setting(admin, repartition, "segment.bytes");
            expect(bytes.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, "segment.bytes of " + repartition + " comes from " + bytes.source());
        }
        System.out.println("ok      Kafka Streams counts words, and restores its state from the changelog");
        System.exit(0);
    }

    static void expect(boolean holds, String found) {
        if (!holds) throw new AssertionError(found);
    }

    static ConfigEntry setting(Admin admin, String topic, String name) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get(SECONDS_MAX, TimeUnit.SECONDS).get(resource).get(name);
    }

    /** Produces lines, runs the application on a new directory until it has counted all lines so far, and stops it. */
    static void count(int lines, Map<String, Long> expected) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int line = 0; line < lines; line++) {
                String one = WORDS.get(line % WORDS.size()), other = WORDS.get(line * 5 % 3);
                producer.send(new ProducerRecord<>(LINES, one + " " + other));
                expected.merge(one, 1L, Long::sum);
                expected.merge(other, 1L, Long::sum);
            }
        }
        var builder = new StreamsBuilder();
        builder.<String, String>stream(LINES)
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("words"))
            .toStream()
            .to(COUNTS, Produced.with(Serdes.String(), Serdes.Long()));
        var directory = Files.createTempDirectory("streams");
        var properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // Streams does not leave its group when it stops: the next run waits for the end of the session.
        properties.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        properties.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1000);
        var failed = new CompletableFuture<Throwable>();
        try (var streams = new KafkaStreams(builder.build(), properties)) {
            streams.setUncaughtExceptionHandler(failure -> {
                failed.complete(failure);
                return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            long deadline = System.nanoTime() + SECONDS_MAX * 1_000_000_000;
            Map<String, Long> found = Map.of();
            while (!found.equals(expected)) {
                if (failed.isDone()) throw new AssertionError(failed.get());
                expect(System.nanoTime() < deadline, "found " + found + ", expected " + expected);
                found = read();
            }
        }
    }

    /** The last count of each word in the output. */
    static Map<String, Long> read() {
        var found = new TreeMap<String, Long>();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", "false", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            var partitions = List.of(new TopicPartition(COUNTS, 0), new TopicPartition(COUNTS, 1));
            consumer.assign(partitions);
            var ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                for (var record : consumer.poll(Duration.ofMillis(100))) found.put(record.key(), record.value());
            }
        }
        return found;
    }
}
