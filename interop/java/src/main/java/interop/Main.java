package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Runs the named scenarios, several at a time, each with its own topic and groups. Arguments and output are those of
 * {@code interop/remoting_clients.py}; {@code list} prints the names of the scenarios.
 */
public final class Main {
    interface Scenario {
        /** Returns a short note on what was checked, or throws. */
        String run(Stage stage) throws Exception;
    }

    private static final int AT_ONCE = 6;
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private static Map<String, Scenario> scenarios() throws ReflectiveOperationException {
        Map<String, Scenario> all = new LinkedHashMap<>(); // the ones that mostly wait come first
        all.put("retry-dlq", Retries::deadLetter);
        all.put("transactions", Transactions::all);
        all.put("requests", Requests::replies);
        all.put("trace", Traces::both);
        all.put("orderly", Groups::orderly);
        all.put("rebalance", Groups::rebalance);
        all.put("send-sync", Sends::sync);
        all.put("send-async", Sends::async);
        all.put("send-oneway", Sends::oneWay);
        all.put("send-batch", Sends::batch);
        all.put("compression", Bodies::compression);
        all.put("large-body", Bodies::large);
        all.put("refusals", Bodies::refusals);
        all.put("offsets", Offsets::lookups);
        all.put("queries", Queries::byKeyAndId);
        all.put("tags", Pushes::tags);
        all.put("sql", Filters::sql);
        all.put("volume", Pushes::volume);
        all.put("long-polling", Pushes::longPolling);
        all.put("broadcast", Pushes::broadcast);
        all.put("lite-pull", LitePulls::assignAndSubscribe);
        all.put("tls", Encrypted::sendAndConsume);
        all.put("restart", Restarts::resume);
        all.put("kill9", Restarts::kill);
        for (String later : List.of("interop.Pops", "interop.InnerBatches")) { // 5.x only
            try {
                Class.forName(later).getMethod("add", Map.class).invoke(null, all);
            } catch (ClassNotFoundException older) {
                return all; // compiled without it
            }
        }
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scenario> all = scenarios();
        if (arguments.length == 1 && arguments[0].equals("list")) {
            all.keySet().forEach(OUT::println);
            return;
        }
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        for (String name : List.of(arguments).subList(3, arguments.length)) {
            Scenario scenario = all.get(name);
            if (scenario == null) {
                OUT.println("@fail " + name + " 0 no such scenario in this client");
                continue;
            }
            Stage stage = new Stage(arguments[0], arguments[1], name, arguments[2]);
            pool.execute(() -> perform(name, scenario, stage));
        }
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.HOURS); // the runner ends the program before
        OUT.flush();
        Runtime.getRuntime().halt(0); // client threads that outlive their shutdown must not hold the process
    }

    private static void perform(String name, Scenario scenario, Stage stage) {
        long start = System.nanoTime();
        String outcome;
        try {
            String note = scenario.run(stage);
            outcome = "@ok " + name + " " + seconds(start) + " " + note;
        } catch (Throwable failure) {
            failure.printStackTrace();
            outcome = "@fail " + name + " " + seconds(start) + " " + String.valueOf(failure).replaceAll("\\s+", " ");
        }
        OUT.println(outcome);
        stage.close();
    }

    /** Asks the runner for a restart and waits until the server is back. */
    static void ask(String request) throws Exception {
        OUT.println("@" + request);
        Check.that(IN.readLine() != null, "the runner went away during " + request);
    }

    private static String seconds(long start) {
        return String.format("%.1f", (System.nanoTime() - start) / 1e9);
    }
}
