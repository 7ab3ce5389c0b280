"""Loads a server until its cost stays the same: Java's compiler runs on the broker's own processor, and a broker that still
compiles costs a multiple of one that is done."""

WINDOW_SECONDS = 10
# Windows in a row that differ by less than this count as equal.
SPREAD = 0.05
SECONDS_MAX = 180


def add_option(parser):
    parser.add_argument("--warm-max", type=float, default=SECONDS_MAX, metavar="SECONDS",
                        help="Java is loaded in windows of 10 s until two in a row differ by less than 5 %% in CPU per message, or for so long (default: %(default)s)")


def difference(costs):
    """Between the last two windows, of the later one."""
    return abs(costs[-1] - costs[-2]) / max(costs[-1], 1e-9) if len(costs) > 1 else float("inf")


def until_steady(name, window, seconds_max):
    """Calls `window(seconds)`, which loads the server for so long and answers its CPU in us per message, until it is steady or
    the time is up; says which, and answers what was seen."""
    costs = [window(WINDOW_SECONDS)]
    while difference(costs) >= SPREAD and (len(costs) + 1) * WINDOW_SECONDS <= seconds_max:
        costs.append(window(WINDOW_SECONDS))
    is_steady = difference(costs) < SPREAD
    told = ", ".join(f"{cost:.2f}" for cost in costs)
    seconds = len(costs) * WINDOW_SECONDS
    print(f"{name}: {'warm' if is_steady else 'NOT WARM, given up'} after {seconds} s; CPU us per message of each {WINDOW_SECONDS} s: {told}", flush=True)
    return {"steady": is_steady, "windows": costs}
