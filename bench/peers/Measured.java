import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * One measured run of Kafka Streams, which writes one line of JSON as bench/span.py does.
 *
 * <p>The clock runs from the first record that is measured to the commit of the last one, which the
 * group's positions show: what is slow in closing counts for nothing.
 */
public final class Measured {
    /** A record of the input of word counts. */
    public static final class Word {
        public String word;
        public long n;
        public long ts;
        public String pad;
    }

    /** A record of the output of word counts. */
    public record Update(String word, long count) {}

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final long POLL_MS = 10;

    private final Options options;
    private final long first;
    private final long total;
    private final AtomicLong seen = new AtomicLong();
    private final CountDownLatch all = new CountDownLatch(1);
    private volatile long startedAt;
    private volatile long startedCpu;

    private Measured(String[] words) {
        options = new Options(words, 1);
        first = options.number("preload") + 1;
        total = options.number("total");
    }

    public static void main(String[] words) throws Exception {
        new Measured(words).run(words[0]);
        System.exit(0);
    }

    private void run(String workload) throws Exception {
        Properties settings = options.settings();
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1_000);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, options.text("threads"));
        if (!workload.equals("on-commit")) {
            settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // every update
        }
        StreamsBuilder builder = new StreamsBuilder();
        build(workload, builder);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", options.text("bootstrap")))) {
            Map<TopicPartition, Long> ends = ends(admin);
            streams.start();
            all.await();
            Thread closing = new Thread(() -> streams.close(Duration.ofSeconds(60)));
            closing.start();
            while (!committed(admin, ends)) {
                Thread.sleep(POLL_MS);
            }
            report();
            closing.join();
        }
    }

    private void build(String workload, StreamsBuilder builder) {
        String source = options.text("source");
        String output = options.text("output");
        Serde<String> text = Serdes.String();
        Serde<byte[]> bytes = Serdes.ByteArray();
        switch (workload) {
            case "passthrough" -> counted(builder.stream(source, Consumed.with(bytes, bytes)))
                    .to(output, Produced.with(bytes, bytes));
            case "window" -> counted(builder.stream(source, Consumed.with(text, bytes)))
                    .groupByKey()
                    .windowedBy(TimeWindows.ofSizeAndGrace(
                            Duration.ofMillis(options.number("size")),
                            Duration.ofMillis(options.number("grace"))))
                    .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts")
                            .withKeySerde(text)
                            .withValueSerde(Serdes.Long()))
                    .toStream()
                    .to(output, Produced.with(
                            WindowedSerdes.timeWindowedSerdeFrom(String.class, options.number("size")),
                            Serdes.Long()));
            default -> counted(builder.stream(source, Consumed.with(text, json(Word.class))))
                    .groupByKey()
                    .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                            .withKeySerde(text)
                            .withValueSerde(Serdes.Long()))
                    .toStream()
                    .mapValues((word, count) -> new Update(word, count))
                    .to(output, Produced.with(text, json(Update.class)));
        }
    }

    private <K, V> KStream<K, V> counted(KStream<K, V> records) {
        return records.peek((key, value) -> {
            long number = seen.incrementAndGet();
            if (number == first) {
                startedAt = System.nanoTime();
                startedCpu = SYSTEM.getProcessCpuTime();
            }
            if (number == total) {
                all.countDown();
            }
        });
    }

    private Map<TopicPartition, Long> ends(Admin admin) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        for (int partition = 0; partition < options.number("partitions"); partition++) {
            wanted.put(new TopicPartition(options.text("source"), partition), OffsetSpec.latest());
        }
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(wanted).all().get().forEach((tp, found) -> ends.put(tp, found.offset()));
        return ends;
    }

    private boolean committed(Admin admin, Map<TopicPartition, Long> ends) throws Exception {
        var positions = admin.listConsumerGroupOffsets(options.text("output"))
                .partitionsToOffsetAndMetadata()
                .get();
        return ends.entrySet().stream().allMatch(end -> {
            var position = positions.get(end.getKey());
            return end.getValue() == 0 || position != null && position.offset() >= end.getValue();
        });
    }

    private void report() throws IOException {
        long cpu = SYSTEM.getProcessCpuTime() - startedCpu;
        System.out.printf(
                Locale.ROOT,
                "{\"records\": %d, \"from\": %.6f, \"to\": %.6f, \"cpu_s\": %.3f, \"rss_mb\": %.1f}%n",
                total - first + 1, startedAt / 1e9, System.nanoTime() / 1e9, cpu / 1e9, peakRssMb());
    }

    private static double peakRssMb() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024.0;
            }
        }
        return 0;
    }

    private static <T> Serde<T> json(Class<T> type) {
        ObjectReader reader = JSON.readerFor(type);
        ObjectWriter writer = JSON.writerFor(type);
        return Serdes.serdeFrom(
                (topic, value) -> {
                    try {
                        return writer.writeValueAsBytes(value);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                },
                (topic, data) -> {
                    try {
                        return reader.readValue(data);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                });
    }
}
