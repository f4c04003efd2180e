// Kafka's Java client against a server with access control: java -cp 'JARS/*' Sasl.java BOOTSTRAP PASSWORD KEY_ID KEY TOKEN
//
// The first check that does not hold ends the run with status 1.

import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.*;
import org.apache.kafka.common.serialization.*;

public class Sasl {
    // Generous: it bounds how long a broken server can hang the run.
    static final int SECONDS_MAX = 30;
    static final int MESSAGES = 100;
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String password = arguments[1], keyId = arguments[2], key = arguments[3];
        for (String mechanism : List.of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")) {
            roundTrip(settings(mechanism, "ann", password), "java-" + mechanism);
            if (mechanism.equals("PLAIN")) {
                roundTrip(settings(mechanism, keyId, key), "java-key-id");
                roundTrip(settings(mechanism, "ann", key), "java-key-user");
            }
            isRefused(settings(mechanism, "ann", "wrong"));
            isRefused(settings(mechanism, "nobody", password));
            System.out.println("ok      the Java client authenticates with " + mechanism);
        }
        roundTrip(withToken(arguments[4]), "java-token");
        isRefused(withToken(arguments[4] + "x"));
        System.out.println("ok      the Java client authenticates with OAUTHBEARER");
        System.exit(0);
    }

    /** Gives the client the token that is an option of its module. */
    public static class TokenHandler implements AuthenticateCallbackHandler {
        String token;

        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            token = (String) entries.get(0).getOptions().get("token");
        }

        public void close() {}

        public void handle(Callback[] callbacks) {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback wanted) wanted.token(new Token(token));
            }
        }
    }

    record Token(String value) implements OAuthBearerToken {
        public Set<String> scope() {
            return Set.of();
        }

        public long lifetimeMs() {
            return System.currentTimeMillis() + TimeUnit.HOURS.toMillis(1);
        }

        public String principalName() {
            return "ann";
        }

        public Long startTimeMs() {
            return null;
        }
    }

    static Map<String, Object> withToken(String token) {
        String jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required token=\"" + token + "\";";
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap, "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "OAUTHBEARER", "sasl.jaas.config", jaas, "sasl.login.callback.handler.class", TokenHandler.class));
    }

    static Map<String, Object> settings(String mechanism, String user, String password) {
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        String jaas = "org.apache.kafka.common.security." + module + " required username=\"" + user + "\" password=\"" + password + "\";";
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap, "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", mechanism, "sasl.jaas.config", jaas));
    }

    static void expect(boolean holds, String found) {
        if (!holds) throw new AssertionError("found " + found);
    }

    static void roundTrip(Map<String, Object> settings, String topic) throws Exception {
        try (var admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get(SECONDS_MAX, TimeUnit.SECONDS);
        }
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < MESSAGES; number++) producer.send(new ProducerRecord<>(topic, "value " + number));
        }
        var reading = new HashMap<>(settings);
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        var read = new ArrayList<String>();
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX);
            while (read.size() < MESSAGES && System.nanoTime() < until) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) read.add(record.value());
            }
        }
        expect(read.size() == MESSAGES && read.get(MESSAGES - 1).equals("value " + (MESSAGES - 1)), read.toString());
    }

    static void isRefused(Map<String, Object> settings) throws Exception {
        try (var admin = Admin.create(settings)) {
            admin.listTopics().names().get(SECONDS_MAX, TimeUnit.SECONDS);
            throw new AssertionError("a wrong password is accepted");
        } catch (ExecutionException refused) {
            expect(refused.getCause() instanceof SaslAuthenticationException, refused.toString());
        }
    }
}
