import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.streams.StreamsConfig;

/** What stands on the command line, {@code --name value}, and the settings that follow from it. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] words, int first) {
        for (int index = first; index < words.length; index += 2) {
            values.put(words[index].substring(2), words[index + 1]);
        }
    }

    String text(String name) {
        return values.get(name);
    }

    long number(String name) {
        return Long.parseLong(values.get(name));
    }

    /** Kafka's defaults, but for where to connect and where to keep state. */
    Properties settings() {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, text("output"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, text("bootstrap"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, text("state"));
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put("auto.offset.reset", "earliest");
        return settings;
    }
}
