import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Counts, counts in windows and a join with a table under exactly_once_v2, every update written; the
 * same as bench/peers/exact_app.py. SIGTERM ends it in order.
 */
public final class Exact {
    private Exact() {}

    public static void main(String[] words) {
        Options options = new Options(words, 0);
        Properties settings = options.settings();
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        StreamsBuilder builder = new StreamsBuilder();
        build(builder, options);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(
                new Thread(() -> streams.close(Duration.ofSeconds(60))));
        streams.start();
    }

    private static void build(StreamsBuilder builder, Options options) {
        String output = options.text("output");
        Serde<String> text = Serdes.String();
        Consumed<String, String> texts = Consumed.with(text, text);
        KStream<String, String> records = builder.stream(options.text("source"), texts);
        KGroupedStream<String, String> words = records.groupByKey();
        words.count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
                .toStream()
                .to(output + "-counts", Produced.with(text, Serdes.Long()));
        words.windowedBy(TimeWindows.ofSizeAndGrace(
                        Duration.ofMillis(options.number("size")),
                        Duration.ofMillis(options.number("grace"))))
                .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows"))
                .toStream()
                .to(output + "-windows", Produced.with(
                        WindowedSerdes.timeWindowedSerdeFrom(String.class, options.number("size")),
                        Serdes.Long()));
        records.join(
                        builder.table(options.text("rows"), texts),
                        (value, row) -> value + "/" + row,
                        Joined.with(text, text, text))
                .to(output + "-joined", Produced.with(text, text));
    }
}
