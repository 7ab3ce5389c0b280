package storeways;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;

/**
 * Steps of one case, one a line of standard input: name server, broker, step. Each is answered with {@code @done} or {@code @failed}.
 *
 * <ul>
 * <li>{@code fill:PHASE:KINDS:FILE} sends messages of the kinds and writes down what became of them
 * <li>{@code load:FILE} sends until the broker is gone
 * <li>{@code inventory:REQUEST:FILE} writes down everything the broker answers
 * <li>{@code resume:GROUP:TOPIC:COUNT:FILE} consumes from the stored offsets
 * </ul>
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
        for (String line = steps.readLine(); line != null; line = steps.readLine()) {
            String[] words = line.split(" ");
            long start = System.nanoTime();
            String result = "@done";
            try (Broker broker = new Broker(words[1])) {
                perform(broker, words[0], words[2].split(":"));
            } catch (Throwable failure) {
                failure.printStackTrace();
                result = "@failed";
            }
            System.err.printf("%s took %.1f s%n", line, (System.nanoTime() - start) / 1e9);
            System.out.println(result);
        }
        Runtime.getRuntime().halt(0); // client threads that outlive their shutdown must not hold the process
    }

    private static void perform(Broker broker, String namesrv, String[] step) throws Exception {
        switch (step[0]) {
            case "fill" -> Fill.fill(broker, namesrv, Integer.parseInt(step[1]), step[2], Path.of(step[3]));
            case "load" -> Load.send(namesrv, Path.of(step[1]));
            case "inventory" -> Inventory.take(broker, Path.of(step[1]), Path.of(step[2]));
            case "resume" -> Resume.consume(namesrv, step[1], step[2], Integer.parseInt(step[3]), Path.of(step[4]));
            default -> throw new IllegalArgumentException(step[0]);
        }
    }
}
