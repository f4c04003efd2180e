// Kafka's own Java client against a server that runs already. Run from the source: java -cp 'JARS/*' Clients.java BOOTSTRAP
//
// Each check is a method; the first that does not hold ends the run with status 1.

import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

public class Clients {
    // Generous: it bounds how long a broken server can hang the run.
    static final long SECONDS_MAX = 30;
    static final long START_MS = 1_700_000_000_000L;
    static String bootstrap;
    static Admin admin;

    interface Check {
        String run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("every codec is read back with every acks", Clients::codecs);
        checks.put("an idempotent producer numbers without a gap", Clients::idempotent);
        checks.put("offsets are found by time", Clients::times);
        checks.put("a group shares the partitions while members join, leave and fall silent", Clients::group);
        checks.put("committed offsets are where a group goes on", Clients::offsets);
        checks.put("topics are created, described, altered and deleted", Clients::topics);
        checks.put("a few partitions of many are fetched in one session", Clients::sessions);
        for (var check : checks.entrySet()) {
            System.out.println("ok      " + check.getKey() + ": " + check.getValue().run());
        }
        System.out.println("Java client " + org.apache.kafka.common.utils.AppInfoParser.getVersion() + ": " + checks.size() + " checks");
        System.exit(0);
    }

    static void expect(boolean holds, Object found) {
        if (!holds) throw new AssertionError("found " + found);
    }

    static <T> T get(Future<T> future) throws Exception {
        try {
            return future.get(SECONDS_MAX, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            throw (Exception) failed.getCause();
        }
    }

    static <T> T until(Supplier<T> found, String what) {
        long deadline = System.nanoTime() + SECONDS_MAX * 1_000_000_000;
        while (true) {
            T answer = found.get();
            if (answer != null) return answer;
            expect(System.nanoTime() < deadline, "nothing in time where " + what + " was expected");
        }
    }

    static void create(String topic, int partitions) throws Exception {
        get(admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all());
    }

    static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        all.putAll(settings);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        all.putAll(settings);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    /** Sends values to partition 0, each a second later than the one before; says where they went. */
    static List<Long> send(String topic, List<String> values, Map<String, Object> settings) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = producer(settings)) {
            for (int i = 0; i < values.size(); i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, START_MS + i * 1000L, null, values.get(i))));
            }
        }
        List<Long> offsets = new ArrayList<>();
        for (var future : sent) offsets.add(get(future).offset());
        return offsets;
    }

    static List<String> read(String topic, int count, long from) {
        try (var consumer = consumer(Map.of())) {
            var place = new TopicPartition(topic, 0);
            consumer.assign(List.of(place));
            consumer.seek(place, from);
            List<String> values = new ArrayList<>();
            return until(() -> {
                for (var record : consumer.poll(Duration.ofMillis(200))) values.add(record.value());
                return values.size() >= count ? values : null;
            }, count + " messages");
        }
    }

    static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(Integer::toString).toList();
    }

    static String codecs() throws Exception {
        create("java-codecs", 1);
        List<String> all = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            for (String acks : List.of("0", "1", "all")) {
                var values = numbers(50).stream().map(number -> (codec + acks + number).repeat(9)).toList();
                send("java-codecs", values, Map.of("compression.type", codec, "acks", acks, "enable.idempotence", "false"));
                all.addAll(values);
                var place = new TopicPartition("java-codecs", 0);
                try (var consumer = consumer(Map.of())) {
                    // What nobody acknowledged may come later than what comes next.
                    until(() -> consumer.endOffsets(List.of(place)).get(place) == all.size() ? place : null, "the end");
                }
            }
        }
        expect(read("java-codecs", all.size(), 0).equals(all), "other messages, or another order");
        return all.size() + " messages";
    }

    static String idempotent() throws Exception {
        create("java-idempotent", 1);
        var offsets = send("java-idempotent", numbers(5000), Map.of("enable.idempotence", "true", "batch.size", "200"));
        expect(offsets.equals(LongStream.range(0, 5000).boxed().toList()), offsets);
        expect(read("java-idempotent", 5000, 0).equals(numbers(5000)), "another order");
        return "5000 messages";
    }

    static String times() throws Exception {
        create("java-times", 1);
        send("java-times", numbers(500), Map.of("compression.type", "zstd"));
        var place = new TopicPartition("java-times", 0);
        try (var consumer = consumer(Map.of())) {
            var found = consumer.offsetsForTimes(Map.of(place, START_MS + 123_456)).get(place);
            expect(found.offset() == 124 && found.timestamp() == START_MS + 124_000, found);
            expect(consumer.offsetsForTimes(Map.of(place, START_MS * 2)).get(place) == null, "something later than all");
        }
        var latest = get(admin.listOffsets(Map.of(place, OffsetSpec.maxTimestamp())).partitionResult(place));
        expect(latest.offset() == 499, latest);
        expect(read("java-times", 1, 124).get(0).equals("124"), "another message");
        return "500 messages";
    }

    static KafkaConsumer<String, String> member(String group) {
        var member = consumer(Map.of("group.id", group, "session.timeout.ms", "6000", "heartbeat.interval.ms", "200",
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        member.subscribe(List.of(group));
        return member;
    }

    static String group() throws Exception {
        create("java-group", 12);
        List<KafkaConsumer<String, String>> members = new ArrayList<>();
        Supplier<KafkaConsumer<String, String>> join = () -> member("java-group");
        IntConsumer shared = each -> until(() -> {
            members.forEach(member -> member.poll(Duration.ofMillis(50)));
            var shares = members.stream().map(member -> member.assignment().size()).toList();
            return shares.stream().allMatch(share -> share == each) ? shares : null;
        }, each + " partitions for each member");
        members.add(join.get());
        members.add(join.get());
        shared.accept(6);
        members.add(join.get());
        shared.accept(4);
        members.remove(0).close();
        shared.accept(6);
        var described = get(admin.describeConsumerGroups(List.of("java-group")).describedGroups().get("java-group"));
        expect(described.members().size() == 2 && described.groupState() == GroupState.STABLE, described);
        members.add(join.get());
        shared.accept(4);
        // As one that is killed: it goes without a word.
        var silent = CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP;
        members.remove(0).close(CloseOptions.groupMembershipOperation(silent));
        shared.accept(6);
        members.forEach(KafkaConsumer::close);
        return "2 members, 3, 2 again, and a third that went without a word";
    }

    static String offsets() throws Exception {
        create("java-offsets", 1);
        send("java-offsets", numbers(10), Map.of());
        var place = new TopicPartition("java-offsets", 0);
        Map<String, Object> settings = Map.of("group.id", "java-offsets");
        try (var consumer = consumer(settings)) {
            consumer.assign(List.of(place));
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(4, "so far")));
        }
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of("java-offsets"));
            var record = until(() -> consumer.poll(Duration.ofMillis(200)).records(place).stream().findFirst().orElse(null), "a message");
            expect(record.offset() == 4, record);
        }
        get(admin.alterConsumerGroupOffsets("java-offsets", Map.of(place, new OffsetAndMetadata(7))).all());
        var offsets = get(admin.listConsumerGroupOffsets("java-offsets").partitionsToOffsetAndMetadata());
        expect(offsets.get(place).offset() == 7, offsets);
        get(admin.deleteConsumerGroups(List.of("java-offsets")).all());
        var groups = get(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all()).stream().map(GroupListing::groupId).toList();
        expect(!groups.contains("java-offsets"), groups);
        return "committed, altered, listed, deleted";
    }

    static String topics() throws Exception {
        var wanted = new NewTopic("java-topic", 2, (short) 1).configs(Map.of("retention.ms", "3600000"));
        get(admin.createTopics(List.of(wanted), new CreateTopicsOptions().validateOnly(true)).all());
        expect(!get(admin.listTopics().names()).contains("java-topic"), "it was only to be validated");
        get(admin.createTopics(List.of(wanted)).all());
        try {
            get(admin.createTopics(List.of(wanted)).all());
            throw new AssertionError("the topic is there already");
        } catch (TopicExistsException refused) {
        }
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, "java-topic");
        var change = new AlterConfigOp(new ConfigEntry("max.message.bytes", "1000"), AlterConfigOp.OpType.SET);
        get(admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all());
        var all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        var config = get(admin.describeConfigs(List.of(resource), all).values().get(resource));
        var retention = config.get("retention.ms");
        var from = retention.synonyms().stream().map(it -> it.source() + ":" + it.name() + "=" + it.value()).toList();
        expect(from.equals(List.of("DYNAMIC_TOPIC_CONFIG:retention.ms=3600000", "DEFAULT_CONFIG:log.retention.ms=-1")), from);
        expect(retention.documentation().contains("kept"), retention.documentation());
        expect(config.get("retention.ms").value().equals("3600000") && config.get("max.message.bytes").value().equals("1000"), config);
        try {
            send("java-topic", List.of("x".repeat(2000)), Map.of());
            throw new AssertionError("the message is larger than the topic takes");
        } catch (RecordTooLargeException refused) {
        }
        get(admin.createPartitions(Map.of("java-topic", NewPartitions.increaseTo(5))).all());
        send("java-topic", numbers(3), Map.of());
        var place = new TopicPartition("java-topic", 0);
        var deleted = get(admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(place));
        expect(deleted.lowWatermark() == 2, deleted.lowWatermark());
        var described = get(admin.describeTopics(List.of("java-topic")).topicNameValues().get("java-topic"));
        expect(described.partitions().size() == 5, described);
        expect(get(admin.describeCluster().nodes()).size() == 1, "other brokers");
        get(admin.deleteTopics(List.of("java-topic")).all());
        expect(!get(admin.listTopics().names()).contains("java-topic"), "it was deleted");
        return "2 partitions, then 5";
    }

    /** The client names its partitions once, and is then told of those that have something new. */
    static String sessions() throws Exception {
        create("java-many", 200);
        try (var consumer = consumer(Map.of("fetch.max.wait.ms", "100")); var producer = producer(Map.of())) {
            consumer.assign(IntStream.range(0, 200).mapToObj(number -> new TopicPartition("java-many", number)).toList());
            Set<String> read = new HashSet<>();
            for (int round = 0; round < 20; round++) {
                Set<String> sent = new HashSet<>();
                for (int i = 0; i < 5; i++) {
                    String value = round + " " + i;
                    get(producer.send(new ProducerRecord<>("java-many", (round * 37 + i) % 200, null, value)));
                    sent.add(value);
                }
                until(() -> {
                    for (var record : consumer.poll(Duration.ofMillis(100))) read.add(record.value());
                    return read.containsAll(sent) ? read : null;
                }, "round " + round);
            }
            double size = (double) consumer.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("records-consumed-total") && metric.getKey().tags().size() == 1)
                .findFirst().orElseThrow().getValue().metricValue();
            expect(size == 100, size + " messages, and 100 were sent");
        }
        return "100 messages in 200 partitions";
    }
}
