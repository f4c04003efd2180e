// kafka-acls and kafka-configs (passwords, quotas) against a server with access control: java -cp 'JARS/*' Acls.java BOOTSTRAP TLS_BOOTSTRAP CERTIFICATE USER KEY
//
// The first check that does not hold ends the run with status 1.

import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Acls {
    // Generous: it bounds how long a broken server can hang the run.
    static final long SECONDS_MAX = 60;
    static final String PASSWORD = "pencil-2";
    static String bootstrap, tlsBootstrap, plain, tls;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        tlsBootstrap = arguments[1];
        String certificate = arguments[2], jaas = jaas("plain.PlainLoginModule", arguments[3], arguments[4]);
        plain = settings("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.jaas.config=" + jaas);
        tls = settings("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "sasl.jaas.config=" + jaas, "ssl.truststore.type=PEM", "ssl.truststore.location=" + certificate);
        acls();
        passwords();
        quotas();
        System.exit(0);
    }

    static String jaas(String module, String user, String password) {
        return "org.apache.kafka.common.security." + module + " required username=\"" + user + "\" password=\"" + password + "\";";
    }

    /** A file of settings. */
    static String settings(String... lines) throws Exception {
        Path file = Files.createTempFile("client", "properties");
        file.toFile().deleteOnExit();
        Files.write(file, List.of(lines));
        return file.toString();
    }

    static void expect(boolean holds, String found) {
        if (!holds) throw new AssertionError("found " + found);
    }

    /** Runs a tool, and gives its output. */
    static String run(boolean succeeds, String tool, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of("java", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), tool));
        command.addAll(List.of(arguments));
        Path out = Files.createTempFile("tool", "out");
        try {
            var process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(out.toFile()).start();
            if (!process.waitFor(SECONDS_MAX, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new AssertionError(tool + " did not end");
            }
            expect((process.exitValue() == 0) == succeeds, tool + " with status " + process.exitValue() + ": " + Files.readString(out));
            return Files.readString(out);
        } finally {
            Files.delete(out);
        }
    }

    static String acl(String... arguments) throws Exception {
        var all = new ArrayList<>(List.of("--bootstrap-server", bootstrap, "--command-config", plain));
        all.addAll(List.of(arguments));
        return run(true, "org.apache.kafka.tools.AclCommand", all.toArray(String[]::new));
    }

    static String config(boolean succeeds, String address, String client, String... arguments) throws Exception {
        var all = new ArrayList<>(List.of("--bootstrap-server", address, "--command-config", client));
        all.addAll(List.of(arguments));
        return run(succeeds, "kafka.admin.ConfigCommand", all.toArray(String[]::new));
    }

    static void acls() throws Exception {
        acl("--add", "--allow-principal", "User:bob", "--operation", "Read", "--operation", "Describe", "--topic", "orders");
        acl("--add", "--deny-principal", "User:bob", "--operation", "All", "--topic", "pay.", "--resource-pattern-type", "prefixed");
        String listed = acl("--list");
        for (String expected : List.of("name=orders, patternType=LITERAL", "principal=User:bob, host=*, operation=READ, permissionType=ALLOW", "name=pay., patternType=PREFIXED", "operation=ALL, permissionType=DENY")) {
            expect(listed.contains(expected), listed);
        }
        listed = acl("--list", "--topic", "pay.secrets", "--resource-pattern-type", "match");
        expect(listed.contains("name=pay.") && !listed.contains("name=orders"), listed);
        acl("--remove", "--force", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "orders");
        listed = acl("--list", "--principal", "User:bob", "--topic", "orders");
        expect(listed.contains("operation=DESCRIBE") && !listed.contains("operation=READ"), listed);
        System.out.println("ok      kafka-acls adds, lists and removes");
    }

    static void passwords() throws Exception {
        String[] add = {"--alter", "--entity-type", "users", "--entity-name", "cleo", "--add-config", "SCRAM-SHA-512=[iterations=4096,password=" + PASSWORD + "]"};
        String refused = config(false, bootstrap, plain, add);
        expect(refused.contains("over TLS only"), refused);
        config(true, tlsBootstrap, tls, add);
        var settings = new HashMap<String, Object>(Map.of("bootstrap.servers", bootstrap, "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "SCRAM-SHA-512", "sasl.jaas.config", jaas("scram.ScramLoginModule", "cleo", PASSWORD)));
        try (var admin = Admin.create(settings)) {
            admin.listTopics().names().get(SECONDS_MAX, TimeUnit.SECONDS);
        }
        config(true, tlsBootstrap, tls, "--alter", "--entity-type", "users", "--entity-name", "cleo", "--delete-config", "SCRAM-SHA-512");
        System.out.println("ok      kafka-configs sets and removes the password of a user");
    }

    static String quota(String... arguments) throws Exception {
        return config(true, bootstrap, plain, arguments);
    }

    static void quotas() throws Exception {
        quota("--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config", "producer_byte_rate=1048576,request_percentage=50");
        quota("--alter", "--entity-type", "users", "--entity-default", "--add-config", "consumer_byte_rate=2097152");
        quota("--alter", "--entity-type", "clients", "--entity-name", "slow", "--add-config", "producer_byte_rate=1024");
        quota("--alter", "--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-name", "app", "--add-config", "consumer_byte_rate=512");
        String listed = quota("--describe", "--entity-type", "users");
        for (String expected : List.of("Quota configs for user-principal 'bob' are", "producer_byte_rate=1048576.0", "request_percentage=50.0", "Quota configs for the default user-principal are consumer_byte_rate=2097152.0")) {
            expect(listed.contains(expected), listed);
        }
        listed = quota("--describe", "--entity-type", "clients");
        expect(listed.contains("Quota configs for client-id 'slow' are producer_byte_rate=1024.0"), listed);
        listed = quota("--describe", "--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-name", "app");
        expect(listed.contains("consumer_byte_rate=512.0"), listed);
        System.out.println("ok      kafka-configs sets and lists quotas of users and clients");
        throttled();
        quota("--alter", "--entity-type", "clients", "--entity-name", "slow", "--delete-config", "producer_byte_rate");
        listed = quota("--describe", "--entity-type", "clients");
        expect(!listed.contains("slow"), listed);
        System.out.println("ok      kafka-configs removes a quota");
    }

    /** The client `slow` is told to wait, and other clients are not. */
    static void throttled() throws Exception {
        var settings = new Properties();
        try (var lines = Files.newBufferedReader(Path.of(plain))) {
            settings.load(lines);
        }
        settings.put("bootstrap.servers", bootstrap);
        try (var admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic("throttled", 1, (short) 1))).all().get(SECONDS_MAX, TimeUnit.SECONDS);
        }
        for (String client : List.of("slow", "quick")) {
            settings.put("client.id", client);
            try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                producer.send(new ProducerRecord<>("throttled", new byte[4096])).get(SECONDS_MAX, TimeUnit.SECONDS);
                double waited = producer.metrics().entrySet().stream().filter(metric -> metric.getKey().name().equals("produce-throttle-time-max")).mapToDouble(metric -> (double) metric.getValue().metricValue()).max().orElseThrow();
                expect(waited > 0 == client.equals("slow"), client + " waited " + waited + " ms");
            }
        }
        System.out.println("ok      a producer beyond its quota is told to wait");
    }
}
