package storeways;

import java.nio.file.Path;

/**
 * Steps against one broker, one after the other: name server, broker, then steps.
 *
 * <ul>
 * <li>{@code fill:PHASE:KINDS:FILE} sends messages of the kinds and writes down what became of them
 * <li>{@code load:FILE} sends until the broker is gone
 * <li>{@code inventory:REQUEST:FILE} writes down everything the broker answers
 * <li>{@code resume:GROUP:TOPIC:COUNT:SECONDS:FILE} consumes from the stored offsets
 * </ul>
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        int code = 0;
        try (Broker broker = new Broker(arguments[1])) {
            for (int i = 2; i < arguments.length; i++) {
                long start = System.nanoTime();
                perform(broker, arguments[0], arguments[i].split(":"));
                System.err.printf("%s took %.1f s%n", arguments[i], (System.nanoTime() - start) / 1e9);
            }
        } catch (Throwable failure) {
            failure.printStackTrace();
            code = 1;
        }
        System.err.flush();
        Runtime.getRuntime().halt(code); // client threads that outlive their shutdown must not hold the process
    }

    private static void perform(Broker broker, String namesrv, String[] step) throws Exception {
        switch (step[0]) {
            case "fill" -> Fill.fill(broker, namesrv, Integer.parseInt(step[1]), step[2], Path.of(step[3]));
            case "load" -> Load.send(namesrv, Path.of(step[1]));
            case "inventory" -> Inventory.take(broker, Path.of(step[1]), Path.of(step[2]));
            case "resume" -> Resume.consume(namesrv, step[1], step[2], Integer.parseInt(step[3]), Double.parseDouble(step[4]), Path.of(step[5]));
            default -> throw new IllegalArgumentException(step[0]);
        }
    }
}
