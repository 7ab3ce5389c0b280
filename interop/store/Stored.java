package storeways;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** One record as the broker sent it, taken apart only to name it and to show what differs. */
final class Stored {
    final int queueId;
    final long queueOffset;
    final long position;
    final long storeTime;
    final String topic;
    final byte[] body;
    final Map<String, String> properties = new LinkedHashMap<>();
    /** Every field in words, and the digest of all bytes. */
    final String text;

    private Stored(ByteBuffer record) throws Exception {
        byte[] bytes = new byte[record.remaining()];
        record.duplicate().get(bytes);
        record.getInt();
        boolean longTopic = record.getInt() == 0xdaa320ab;
        int crc = record.getInt();
        queueId = record.getInt();
        int flag = record.getInt();
        queueOffset = record.getLong();
        position = record.getLong();
        int sysFlag = record.getInt();
        long born = record.getLong();
        String bornHost = host(record, (sysFlag & 16) != 0);
        storeTime = record.getLong();
        String storeHost = host(record, (sysFlag & 32) != 0);
        int reconsumed = record.getInt();
        long prepared = record.getLong();
        body = take(record, record.getInt());
        topic = new String(take(record, longTopic ? record.getShort() : record.get()), StandardCharsets.UTF_8);
        String all = new String(take(record, record.getShort()), StandardCharsets.UTF_8);
        for (String one : all.split("\u0002")) {
            int at = one.indexOf('\u0001');
            if (at > 0) {
                properties.put(one.substring(0, at), one.substring(at + 1));
            }
        }
        text = "position=" + position + " bytes=" + bytes.length + " crc=" + crc + " flag=" + flag + " sysFlag=" + sysFlag
            + " born=" + born + "@" + bornHost + " stored=" + storeTime + "@" + storeHost + " reconsumed=" + reconsumed
            + " prepared=" + prepared + " body=" + body.length + ":" + digest(body) + " properties=" + all.replace('\u0001', '=').replace('\u0002', ';')
            + " record=" + digest(bytes);
    }

    String place() {
        return topic + "/" + queueId + "/" + queueOffset;
    }

    /** All records of an answer's body. */
    static List<Stored> all(byte[] body) throws Exception {
        List<Stored> found = new ArrayList<>();
        ByteBuffer buffer = ByteBuffer.wrap(body == null ? new byte[0] : body);
        while (buffer.remaining() > 4) {
            int size = buffer.getInt(buffer.position());
            found.add(new Stored(buffer.slice(buffer.position(), size)));
            buffer.position(buffer.position() + size);
        }
        return found;
    }

    private static byte[] take(ByteBuffer from, int length) {
        byte[] bytes = new byte[length];
        from.get(bytes);
        return bytes;
    }

    private static String host(ByteBuffer from, boolean v6) throws Exception {
        return InetAddress.getByAddress(take(from, v6 ? 16 : 4)).getHostAddress() + ":" + from.getInt();
    }

    static String digest(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(bytes), 0, 8);
    }
}
