package storeways;

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;

/**
 * Everything a broker can be asked about its messages, as lines {@code category TAB key TAB value}.
 *
 * <p>The request lists queues as {@code Q topic queue} and consumer offsets as {@code O group topic queue}.
 */
final class Inventory {
    private static final int AT_ONCE = 4;
    private static final int KEY_RESULTS_MAX = 64;
    /** Java's index keeps whole seconds: what was stored this close to a bound of a range is not compared. */
    private static final long RANGE_MARGIN_MS = 2_000;

    private final Broker broker;
    private final Set<String> lines = new TreeSet<>();
    private final ConcurrentLinkedQueue<String> found = new ConcurrentLinkedQueue<>();
    /** Keys and tags that have their question. */
    private final Set<String> asked = ConcurrentHashMap.newKeySet();
    private final List<Callable<Void>> later = new ArrayList<>();

    private Inventory(Broker broker) {
        this.broker = broker;
    }

    static void take(Broker broker, Path request, Path result) throws Exception {
        Inventory inventory = new Inventory(broker);
        List<Callable<Void>> first = new ArrayList<>();
        for (String line : Files.readAllLines(request)) {
            String[] words = line.split(" ");
            if (words[0].equals("Q")) {
                first.add(() -> inventory.queue(words[1], Integer.parseInt(words[2])));
            } else {
                first.add(() -> inventory.committed(words[1], words[2], words[3]));
            }
        }
        inventory.perform(first);
        inventory.perform(List.copyOf(inventory.later));
        inventory.lines.addAll(inventory.found);
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(result))) {
            inventory.lines.forEach(out::println);
        }
    }

    private void perform(List<Callable<Void>> tasks) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        for (Future<Void> done : pool.invokeAll(tasks)) {
            done.get();
        }
        pool.shutdown();
    }

    private void line(String category, String key, String value) {
        found.add(category + "\t" + key + "\t" + value.replaceAll("[\\n\\t]", " "));
    }

    private Void committed(String group, String topic, String queue) throws Exception {
        line("offset", group + "/" + topic + "/" + queue, broker.field("offset", RequestCode.QUERY_CONSUMER_OFFSET,
            "consumerGroup", group, "topic", topic, "queueId", queue));
        return null;
    }

    private Void queue(String topic, int queue) throws Exception {
        String min = broker.field("offset", RequestCode.GET_MIN_OFFSET, "topic", topic, "queueId", queue);
        String max = broker.field("offset", RequestCode.GET_MAX_OFFSET, "topic", topic, "queueId", queue, "committed", true);
        String earliest = broker.field("timestamp", RequestCode.GET_EARLIEST_MSG_STORETIME, "topic", topic, "queueId", queue);
        line("queue", topic + "/" + queue, min + " to " + max + ", earliest " + earliest);
        if (!min.matches("\\d+") || !max.matches("\\d+")) {
            return null;
        }
        List<Stored> messages = pull(topic, queue, Long.parseLong(min), Long.parseLong(max));
        Set<Long> times = new TreeSet<>();
        List<Callable<Void>> questions = new ArrayList<>();
        for (Stored message : messages) {
            line("message", message.place(), message.text);
            questions.add(() -> id(message));
            String unique = message.properties.get("UNIQ_KEY");
            String tag = message.properties.get("TAGS");
            if (tag != null && asked.add(topic + "#" + tag)) {
                questions.add(() -> key("tag", topic, tag, 0, Long.MAX_VALUE));
            }
            Set<String> keys = new LinkedHashSet<>(List.of(message.properties.getOrDefault("KEYS", "").split(" ")));
            keys.remove("");
            for (String key : keys) {
                if (asked.add(topic + "# " + key)) {
                    questions.add(() -> key("key", topic, key, 0, Long.MAX_VALUE));
                }
            }
            if (unique != null) {
                questions.add(() -> key("unique", topic, unique, 0, Long.MAX_VALUE));
            }
            if (message.queueOffset % 16 == 0 && !keys.isEmpty()) { // a range around it, and one that ended before; Java's are exact to a second
                questions.add(() -> key("key", topic, keys.iterator().next(), message.storeTime - 60_000, message.storeTime + 60_000));
                questions.add(() -> key("key", topic, keys.iterator().next(), 0, message.storeTime - 60_000));
            }
            times.addAll(List.of(message.storeTime - 1, message.storeTime, message.storeTime + 1));
        }
        times.addAll(List.of(0L, Long.MAX_VALUE / 4));
        if (topic.equals("Inner")) { // Java's answers depend on where its files of such a queue end
            times.clear();
        }
        times.forEach(time -> questions.add(() -> time(topic, queue, time)));
        synchronized (later) {
            later.addAll(questions);
        }
        return null;
    }

    private List<Stored> pull(String topic, int queue, long from, long max) throws Exception {
        List<Stored> messages = new ArrayList<>();
        for (long offset = from; offset < max; ) {
            RemotingCommand answer = broker.pull(topic, queue, offset);
            List<Stored> batch = answer.getCode() == 0 ? Stored.all(answer.getBody()) : List.of();
            if (batch.isEmpty()) {
                line("message", topic + "/" + queue + "/" + offset, Broker.refusal(answer));
                return messages;
            }
            messages.addAll(batch);
            offset = Long.parseLong(answer.getExtFields().get("nextBeginOffset"));
        }
        return messages;
    }

    private Void id(Stored message) throws Exception {
        RemotingCommand answer = broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, "topic", message.topic, "offset", message.position);
        List<Stored> records = answer.getCode() == 0 ? Stored.all(answer.getBody()) : List.of();
        boolean same = records.size() == 1 && records.get(0).text.equals(message.text);
        line("id", message.place(), same ? "the message" : records.isEmpty() ? Broker.refusal(answer) : records.get(0).text);
        return null;
    }

    private Void key(String kind, String topic, String key, long begin, long end) throws Exception {
        RemotingCommand answer = broker.ask(RequestCode.QUERY_MESSAGE, "topic", topic, "key", key, "maxNum", KEY_RESULTS_MAX,
            "beginTimestamp", begin, "endTimestamp", end, kind.equals("unique") ? "_UNIQUE_KEY_QUERY" : "indexType", switch (kind) {
                case "unique" -> "true";
                case "tag" -> "T";
                default -> "K";
            });
        TreeSet<Long> positions = new TreeSet<>();
        List<Stored> records = answer.getCode() == 0 ? Stored.all(answer.getBody()) : List.of();
        boolean isRange = end != Long.MAX_VALUE;
        records.stream().filter(one -> !isRange || Math.min(Math.abs(one.storeTime - begin), Math.abs(one.storeTime - end)) > RANGE_MARGIN_MS)
            .forEach(one -> positions.add(one.position));
        String full = records.size() < KEY_RESULTS_MAX ? "" : " full"; // older ones did not fit
        String range = isRange ? " from " + begin + " to " + end : "";
        boolean isRefusal = answer.getCode() != 0 && !(isRange && answer.getCode() == ResponseCode.QUERY_NOT_FOUND);
        line(kind, topic + "#" + key + range, isRefusal ? Broker.refusal(answer) : positions + full);
        return null;
    }

    private Void time(String topic, int queue, long time) throws Exception {
        for (String boundary : List.of("LOWER", "UPPER")) {
            line("time", topic + "/" + queue + "/" + time + "/" + boundary, broker.field("offset", RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
                "topic", topic, "queueId", queue, "timestamp", time, "boundaryType", boundary));
        }
        return null;
    }
}
