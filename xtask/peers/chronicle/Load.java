import java.util.Arrays;
import java.util.Locale;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;

/**
 * {@code Load CASE FOLDER OPS}: loads Chronicle Queue as the case of that name of {@code quire-bench log} loads Quire, and prints a line of
 * JSON with the names that {@code quire-bench --json} has.
 *
 * <p>What is appended is with the system when the call returns, in a mapping; the queue has nothing that waits for the disk (its sync is
 * msync with MS_ASYNC). A batch is a row of appends, for it has none of its own.
 */
public final class Load {
    private static final int PAYLOAD_BYTES = 116;
    private static final int ENTRIES = 1_000_000;
    /** What a virtual machine needs to compile what it runs. */
    private static final int WARM_UP = 100_000;

    private interface Op {
        void run(int number);
    }

    public static void main(String[] arguments) {
        String name = arguments[0];
        int ops = Integer.parseInt(arguments[2]);
        try (ChronicleQueue queue = ChronicleQueue.singleBuilder(arguments[1]).build()) {
            switch (name) {
                case "append-single" -> append(name, queue, ops, 1);
                case "append-batch-100" -> append(name, queue, ops, 100);
                case "append-batch-1000" -> append(name, queue, ops, 1_000);
                case "read-back" -> readBack(name, queue, ops);
                case "random-read-1m" -> randomRead(name, queue, ops);
                default -> throw new IllegalArgumentException("there is no case " + name);
            }
        }
    }

    private static void append(String name, ChronicleQueue queue, int ops, int batch) {
        Bytes<?> payload = payload();
        ExcerptAppender appender = queue.createAppender();
        Op op = number -> {
            for (int entry = 0; entry < batch; entry++) {
                payload.readPosition(0);
                appender.writeBytes(payload);
            }
        };
        measure(name, WARM_UP / batch, ops, batch, op);
    }

    private static void readBack(String name, ChronicleQueue queue, int ops) {
        int batch = 1_000;
        fill(queue, ops * batch);
        Bytes<?> into = Bytes.allocateElasticDirect(PAYLOAD_BYTES);
        for (int pass = 0; pass < 2; pass++) {
            ExcerptTailer tailer = queue.createTailer();
            // Once to warm up, and then to count.
            boolean counts = pass == 1;
            Op op = number -> {
                for (int entry = 0; entry < batch; entry++) {
                    into.clear();
                    check(tailer.readBytes(into) && into.readRemaining() == PAYLOAD_BYTES);
                }
            };
            if (counts) {
                measure(name, 0, ops, batch, op);
            } else {
                for (int number = 0; number < ops; number++) {
                    op.run(number);
                }
            }
        }
    }

    private static void randomRead(String name, ChronicleQueue queue, int ops) {
        long[] indexes = fill(queue, ENTRIES);
        ExcerptTailer tailer = queue.createTailer();
        Bytes<?> into = Bytes.allocateElasticDirect(PAYLOAD_BYTES);
        Op op = number -> {
            long which = Long.remainderUnsigned(number * 0x9E3779B97F4A7C15L, ENTRIES);
            into.clear();
            check(tailer.moveToIndex(indexes[(int) which]));
            check(tailer.readBytes(into) && into.readRemaining() == PAYLOAD_BYTES);
        };
        measure(name, ops / 10, ops, 1, op);
    }

    private static Bytes<?> payload() {
        byte[] bytes = new byte[PAYLOAD_BYTES];
        Arrays.fill(bytes, (byte) 'q');
        return Bytes.allocateElasticDirect(PAYLOAD_BYTES).write(bytes);
    }

    private static long[] fill(ChronicleQueue queue, int entries) {
        Bytes<?> payload = payload();
        ExcerptAppender appender = queue.createAppender();
        long[] indexes = new long[entries];
        for (int entry = 0; entry < entries; entry++) {
            payload.readPosition(0);
            appender.writeBytes(payload);
            indexes[entry] = appender.lastIndexAppended();
        }
        return indexes;
    }

    private static void check(boolean holds) {
        if (!holds) {
            throw new IllegalStateException("an entry that was appended is not there");
        }
    }

    private static void measure(String name, int warmUp, int ops, int batch, Op op) {
        for (int number = 0; number < warmUp; number++) {
            op.run(number);
        }
        long[] latencies = new long[ops];
        long begun = System.nanoTime();
        long before = begun;
        for (int number = 0; number < ops; number++) {
            op.run(number);
            long now = System.nanoTime();
            latencies[number] = now - before;
            before = now;
        }
        double rate = ops / ((before - begun) / 1e9);
        Arrays.sort(latencies);
        System.out.printf(
                Locale.ROOT,
                "{\"case\":\"%s\",\"entries_per_op\":%d,\"ops\":%d,\"ops_per_s\":%.1f,\"p50_ns\":%d,\"p99_ns\":%d}%n",
                name, batch, ops, rate, latencies[ops / 2], latencies[(int) (ops * 0.99)]);
    }
}
