package interop;

import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** Comparisons whose failure says what was expected and what was found. */
final class Check {
    /** Longest wait for an outcome. */
    static final long PATIENCE_SECONDS = 240;

    private Check() {}

    static void equal(Object expected, Object found, String what) {
        if (!java.util.Objects.equals(expected, found)) {
            throw new AssertionError(what + ": expected " + shorten(expected) + ", found " + shorten(found));
        }
    }

    static void equal(byte[] expected, byte[] found, String what) {
        if (!java.util.Arrays.equals(expected, found)) {
            int at = java.util.Arrays.mismatch(expected, found);
            throw new AssertionError(what + ": bytes differ from position " + at + " (" + expected.length + " expected, "
                + found.length + " found)");
        }
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    /** Waits until the condition holds; the progress text is part of the failure. */
    static void await(String what, BooleanSupplier holds, Supplier<?> progress) throws InterruptedException {
        long end = System.nanoTime() + PATIENCE_SECONDS * 1_000_000_000L;
        while (!holds.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("waited " + PATIENCE_SECONDS + " s for " + what + "; found " + shorten(progress.get()));
            }
            Thread.sleep(20);
        }
    }

    private static String shorten(Object value) {
        String text = String.valueOf(value);
        return text.length() <= 300 ? text : text.substring(0, 300) + "...";
    }
}
