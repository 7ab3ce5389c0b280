"""Rows of the result as text, with ratios and the figures that Vostok must reach.

`CPU` is the server's share of one core, `others` what everything but server and load took, the kernel's writing included:
on a machine that does something else meanwhile it is high and the row is worth little.
"""


def rows(results):
    lines = [f"{'server':<13} {'w':>4} {'size':>5} {'TPS':>10} {'p50 us':>8} {'p99 us':>8} {'p99.9 us':>9} {'max us':>9} "
             f"{'CPU us/msg':>10} {'CPU':>5} {'others':>6} {'switches/msg':>12} {'RSS MB':>7} {'anon MB':>8} {'failed':>7}"]
    for one in results:
        lines.append(row(one))
    return lines


def row(one):
    latency, resident = one["latency_us"], one["rss_bytes"]
    return (f"{label(one):<13} {one['w']:>4} {one['size']:>5} {one['tps']:>10,.0f} {latency['p50']:>8,.0f} {latency['p99']:>8,.0f} "
            f"{latency['p999']:>9,.0f} {latency['max']:>9,.0f} {one['cpu_us_per_message']:>10.2f} {one['cpu_share']:>5.0%} {one['others_share']:>6.0%} "
            f"{one['switches_per_message']:>12.3f} {resident['VmRSS'] >> 20:>7,} {resident.get('RssAnon', 0) >> 20:>8,} {one['failures']:>7,}")


def label(one):
    return one["server"] + ("/sync" if one["sync"] else "") + ("/rate" if "rate" in one else "")


def find(results, server, **wanted):
    for one in results:
        if one["server"] == server and all(one.get(key) == value for key, value in wanted.items()):
            return one
    return None


def ratios(results):
    lines = [f"{'w':>4} {'size':>5} {'flush':>6} {'TPS vostok/java':>16} {'CPU java/vostok':>16} {'TPS vostok/log-echo':>20} "
             f"{'p50 - log-echo us':>18} {'p99.9 vostok/java':>18}"]
    for vostok in results:
        if vostok["server"] != "vostok" or "rate" in vostok:
            continue
        cell = {key: vostok[key] for key in ("w", "size", "sync")}
        java, echo = find(results, "java", rate=None, **cell), find(results, "log-echo", rate=None, **cell)
        tps = f"{vostok['tps'] / max(1, java['tps']):.2f}" if java else "-"
        cpu = f"{java['cpu_us_per_message'] / max(1e-9, vostok['cpu_us_per_message']):.2f}" if java else "-"
        tail = f"{vostok['latency_us']['p999'] / max(1, java['latency_us']['p999']):.2f}" if java else "-"
        share = f"{vostok['tps'] / max(1, echo['tps']):.0%}" if echo else "-"
        near = f"{vostok['latency_us']['p50'] - echo['latency_us']['p50']:+.0f}" if echo else "-"
        lines.append(f"{cell['w']:>4} {cell['size']:>5} {'sync' if cell['sync'] else 'async':>6} {tps:>16} {cpu:>16} {share:>20} {near:>18} {tail:>18}")
    return lines


def targets(results):
    """The figures of the targets that this run measured, each with whether it was reached."""
    lines = []

    def add(reached, text):
        lines.append(f"{'reached' if reached else 'MISSED ':<8} {text}")

    def cells(w, sync=False):
        keys = {"w": w, "size": 1024, "sync": sync, "rate": None}
        return (find(results, name, **keys) for name in ("vostok", "java", "log-echo"))

    vostok, java, _ = cells(60)
    if vostok and java:
        ratio = java["cpu_us_per_message"] / max(1e-9, vostok["cpu_us_per_message"])
        add(ratio >= 8, f"CPU per 1 KiB message at w = 60: 1/{ratio:.1f} of Java, target 1/8")
    for w in (60, 200):
        vostok, java, echo = cells(w)
        if vostok and java:
            add(vostok["tps"] >= 5 * java["tps"], f"TPS at w = {w}: {vostok['tps'] / max(1, java['tps']):.1f} x Java, target 5 x")
        if vostok and echo:
            add(vostok["tps"] >= 0.6 * echo["tps"], f"TPS at w = {w}: {vostok['tps'] / max(1, echo['tps']):.0%} of the logging echo, target 60 %")
    vostok, java, echo = cells(1)
    if vostok and echo:
        near = vostok["latency_us"]["p50"] - echo["latency_us"]["p50"]
        add(near <= 15, f"p50 at w = 1: {near:+.0f} us from the logging echo, target 15 us")
    if vostok and java:
        ratio = vostok["latency_us"]["p999"] / max(1, java["latency_us"]["p999"])
        add(ratio <= 1 / 3, f"p99.9 at w = 1: {ratio:.2f} of Java's, target 0.33")
    vostok, java, _ = cells(200, sync=True)
    if vostok and java:
        add(vostok["tps"] >= 3 * java["tps"], f"TPS with sync flush at w = 200: {vostok['tps'] / max(1, java['tps']):.1f} x Java, target 3 x")
    for one in results:
        if one["server"] == "vostok" and "rate" in one:
            add(one["latency_us"]["max"] <= 10_000,
                f"max at {one['rate']:,.0f}/s for {one['seconds']:.0f} s: {one['latency_us']['max'] / 1000:.1f} ms, target 10 ms")
    return lines
