// Kafka's own console tools, each a process, against a server that runs already: java -cp 'JARS/*' Tools.java BOOTSTRAP
//
// Each check is a method; the first that does not hold ends the run with status 1.

import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;

public class Tools {
    // Generous: it bounds how long a broken server can hang the run.
    static final long SECONDS_MAX = 60;
    static final String TOPIC = "console";
    static final String GROUP = "console-readers";
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topics();
        produceAndConsume();
        groups();
        System.out.println("Kafka's console tools: 3 checks");
        System.exit(0);
    }

    static void ok(String check) {
        System.out.println("ok      " + check);
    }

    static void expect(boolean holds, String found) {
        if (!holds) throw new AssertionError("found " + found);
    }

    /** Runs a tool with this input, and gives its output. */
    static String run(String input, String tool, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of("java", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), tool));
        command.addAll(List.of("--bootstrap-server", bootstrap));
        command.addAll(List.of(arguments));
        Path in = Files.createTempFile("tool", "in"), out = Files.createTempFile("tool", "out");
        try {
            Files.writeString(in, input);
            var process = new ProcessBuilder(command).redirectInput(in.toFile()).redirectOutput(out.toFile()).redirectError(ProcessBuilder.Redirect.DISCARD).start();
            if (!process.waitFor(SECONDS_MAX, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new AssertionError(tool + " did not end");
            }
            expect(process.exitValue() == 0, tool + " with status " + process.exitValue() + ": " + Files.readString(out));
            return Files.readString(out);
        } finally {
            Files.delete(in);
            Files.delete(out);
        }
    }

    static String topic(String... arguments) throws Exception {
        return run("", "org.apache.kafka.tools.TopicCommand", arguments);
    }

    static String group(String... arguments) throws Exception {
        return run("", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", arguments);
    }

    static void topics() throws Exception {
        topic("--create", "--topic", TOPIC, "--partitions", "2", "--config", "retention.ms=3600000");
        String described = topic("--describe", "--topic", TOPIC);
        expect(described.contains("PartitionCount: 2") && described.contains("retention.ms=3600000"), described);
        topic("--alter", "--topic", TOPIC, "--partitions", "3");
        String listed = topic("--list");
        expect(listed.lines().anyMatch(TOPIC::equals), listed);
        described = topic("--describe", "--topic", TOPIC);
        expect(described.contains("PartitionCount: 3"), described);
        ok("kafka-topics creates, describes, alters and lists");
    }

    static void produceAndConsume() throws Exception {
        var lines = new StringBuilder();
        for (int number = 0; number < 100; number++) lines.append("key").append(number % 7).append(":value").append(number).append('\n');
        run(lines.toString(), "org.apache.kafka.tools.ConsoleProducer", "--topic", TOPIC, "--property", "parse.key=true", "--property", "key.separator=:", "--compression-codec", "lz4");
        String read = run("", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", TOPIC, "--from-beginning", "--group", GROUP, "--max-messages", "100", "--timeout-ms", "30000", "--property", "print.key=true", "--property", "key.separator=:");
        var sent = new TreeSet<>(lines.toString().lines().toList());
        var found = new TreeSet<>(read.lines().toList());
        expect(sent.equals(found), found.toString());
        String offsets = run("", "org.apache.kafka.tools.GetOffsetShell", "--topic", TOPIC);
        long sum = offsets.lines().mapToLong(line -> Long.parseLong(line.substring(line.lastIndexOf(':') + 1))).sum();
        expect(sum == 100, offsets);
        ok("kafka-console-producer's lines are kafka-console-consumer's, and counted by kafka-get-offsets");
    }

    static void groups() throws Exception {
        String listed = group("--list");
        expect(listed.lines().anyMatch(GROUP::equals), listed);
        String described = group("--describe", "--group", GROUP);
        long lag = described.lines().filter(line -> line.startsWith(GROUP)).mapToLong(line -> Long.parseLong(line.trim().split("\\s+")[5])).sum();
        expect(described.contains(TOPIC) && lag == 0, described);
        group("--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest", "--execute");
        described = group("--describe", "--group", GROUP);
        lag = described.lines().filter(line -> line.startsWith(GROUP)).mapToLong(line -> Long.parseLong(line.trim().split("\\s+")[5])).sum();
        expect(lag == 100, described);
        group("--delete", "--group", GROUP);
        listed = group("--list");
        expect(listed.lines().noneMatch(GROUP::equals), listed);
        topic("--delete", "--topic", TOPIC);
        listed = topic("--list");
        expect(listed.lines().noneMatch(TOPIC::equals), listed);
        ok("kafka-consumer-groups lists, describes, resets and deletes; kafka-topics deletes");
    }
}
