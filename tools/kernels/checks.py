"""The checks of a kernel, which run there: checks.py PROGRAM RESULTS [CHECK…] appends a line of JSON to RESULTS
for each that has none there."""

import functools
import json
import os
import re
import socket
import struct
import subprocess
import sys
import time

from network import (IPPROTO_MPTCP, SIZE, Failed, Host, Network, NotSupported, Running, Transfer, call, connection, ended, half,
                     transfers, until)

PROGRAM = sys.argv[1]
VERSION = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
# Since when Linux has what the program says that it lacks.
TCX, STRUCT_OPS_LINKS = (6, 6), (6, 4)
NAME = "kernels"
CHECKS = {}
# What is kept of what a check has to say, characters.
SAID_LEN_MAX = 600


def check(function):
    """A check is called as its function is, and its first line says what it does. It returns what is worth knowing, maybe
    with further fields of its result."""
    CHECKS[function.__name__] = function
    return function


def lacks(since, said, text):
    """The program says in its first line that the kernel lacks something, and this kernel does."""
    if text not in said:
        raise Failed(said)
    if VERSION >= since:
        raise Failed(f"it says of this kernel: {said}")
    raise NotSupported(said.splitlines()[0])


class Accelerator(Running):
    """`cellerator run` at the box of a network."""

    def __init__(self, network, *options, steering="auto"):
        self.network = network
        words = [PROGRAM, "run", "--wired", "w0", "--mobile", network.mobile, "--name", NAME, "--direction", "both",
                 "--steering", steering, "--recover-within", "10 s", *options]
        super().__init__(network.box, words, "ready:")
        self.steering = self.status()["steering"]

    def ask(self, question):
        return json.loads(self.network.box.call(PROGRAM, question, NAME, "--json"))

    def status(self):
        return self.ask("status")

    def count(self, name):
        return self.status()["counters"].get(name, 0)

    def close(self):
        """Ends it, whatever process it is by then. Nothing of it may be left at the box."""
        process = self.status()["process"]
        call(["kill", str(process)])
        if process == self.process.pid:
            self.ended()
        until("the process ends", lambda: not os.path.exists(f"/proc/{process}"))
        until("its devices are gone", lambda: "cell" not in self.network.box.call("ip", "link"))
        for family in ("-4", "-6"):
            rules = self.network.box.call("ip", family, "rule").splitlines()
            if len(rules) != (3 if family == "-4" else 2):
                raise Failed(f"rules are left: {rules}")


def accelerated(accelerator, flows):
    """As many flows were accelerated."""
    count = accelerator.count("flows_accelerated")
    if count != flows:
        raise Failed(f"{count} of {flows} flows were accelerated; passed: {accelerator.status()['passed']}")


def both_ways(network, size, *options, steering="auto"):
    """A download and an upload at once, both accelerated; returns how it was steered."""
    accelerator = Accelerator(network, *options, steering=steering)
    ended(transfers(network, size))
    accelerated(accelerator, 2)
    accelerator.close()
    return accelerator.steering


@check
def doctor():
    """what `doctor` says of the kernel is so"""
    driver = os.path.exists("/sys/class/misc/tun")
    with Network() as network:
        # Its exit code says what the verdict says.
        words = network.box.words([PROGRAM, "doctor", "w0", "m0", "--json"])
        asked = subprocess.run(words, stdout=subprocess.PIPE, check=False)
        said = json.loads(asked.stdout)
        found = {finding["subject"]: finding for finding in said["findings"]}
        wrong = [f"{name}: {found[name]['found']}" for name, is_good in (
            ("TUN devices", True), ("tcx", VERSION >= TCX), ("clsact", True), ("kernel types", VERSION >= STRUCT_OPS_LINKS),
            ("AF_PACKET", True), ("MPTCP", True), ("BPF programs", True)) if (found[name]["health"] == "good") != is_good]
        if wrong or said["verdict"] not in ("good", "limited"):
            raise Failed(f"{said['verdict']}; {'; '.join(wrong)}")
        if os.path.exists("/sys/class/misc/tun") != driver:
            raise Failed("it loaded the driver of TUN")
        accelerator = Accelerator(network)
        steering = accelerator.steering
        accelerator.close()
        if steering not in found["steering"]["found"]:
            raise Failed(f"it says `{found['steering']['found']}`, and `run` steers by {steering}")
    return f"{said['verdict']}, steering by {steering}"


def steered(steering):
    with Network() as network:
        try:
            both_ways(network, SIZE, steering=steering)
        except Failed as failed:
            if "tcx is missing" in str(failed):
                lacks(TCX, str(failed), "no steering by tcx")
            raise
    return ""


@check
def tcx():
    """`run` by programs (tcx): 20 MB down and up at once"""
    return steered("tcx")


@check
def rules():
    """`run` by rules: 20 MB down and up at once"""
    return steered("rules")


@check
def killed():
    """killed by SIGKILL in the middle of 20 MB down and up"""
    with Network() as network:
        accelerator = Accelerator(network)
        # These have ended when it is killed, and are known for a while.
        ended(transfers(network, 1_000_000))
        begun = transfers(network, SIZE)
        half(begun)
        accelerator.process.kill()
        accelerator.process.wait()
        ended(begun)
        successor = accelerator.status()
        if successor["process"] == accelerator.process.pid or not successor["recovery"]["flows_recovered"]:
            raise Failed(f"nobody went on: {successor['recovery']}")
        if "reset" in successor["passed"]:
            raise Failed(f"flows that ended well count as reset: {successor['passed']}")
        with open(f"/proc/{successor['process']}/comm", encoding="utf-8") as file:
            name = file.read().strip()
        if name != "cellerator":
            raise Failed(f"the process that goes on is called `{name}`")
        accelerator.close()
        return f"{accelerator.steering}, {successor['recovery']['flows_recovered']} flows went on"


@check
def upgraded():
    """replaced by another process (`--replace`) in the middle of 20 MB down and up"""
    with Network() as network:
        first = Accelerator(network)
        begun = transfers(network, SIZE)
        half(begun)
        second = Accelerator(network, "--replace", NAME)
        first.ended()
        ended(begun)
        passed = second.status()["passed"]
        if "reset" in passed:
            raise Failed(f"flows count as reset: {passed}")
        second.close()
        return second.steering


@check
def drwa():
    """`drwa attach` at the client: 20 MB down, windows lowered"""
    with Network() as network:
        attached = Running(network.client, [PROGRAM, "drwa", "attach", "eth0"], "eth0")
        ended(transfers(network, SIZE, ["down"]))
        status, = json.loads(network.client.call(PROGRAM, "drwa", "status", "--json"))["attached"]
        counted = status["counters"]
        if counted["managed"] != 1 or counted["received_bytes"] < SIZE or not counted["windows_lowered"]:
            raise Failed(f"it managed nothing: {counted}")
        attached.stop()
        if json.loads(network.client.call(PROGRAM, "drwa", "status", "--json"))["attached"]:
            raise Failed("it has ended, and status shows it")
        return status["hook"]


class Uplinks:
    """A client with two uplinks to a server that answers probes."""

    def __init__(self):
        self.client, self.server = self.hosts = Host("client"), Host("server")
        self.kept = []
        self.server.ip("address add 10.9.0.1/32 dev lo")
        for number, uplink in enumerate(("wifi0", "lte0")):
            own, peer = f"10.{100 + number}.0.2", f"10.{100 + number}.0.1"
            self.client.ip(f"link add {uplink} type veth peer name {uplink} netns server", f"address add {own}/24 dev {uplink}",
                           f"link set {uplink} up")
            self.server.ip(f"address add {peer}/24 dev {uplink}", f"link set {uplink} up")
            self.client.ip(f"route add default via {peer} dev {uplink} metric {100 + number}")
            for host in (self.client, self.server):
                host.call(*f"tc qdisc add dev {uplink} root netem rate 20mbit delay 10ms limit 200".split())
        self.probes = Running(self.server, [PROGRAM, "probe", "server", "--listen", "10.9.0.1:7311"], "7311")

    __enter__, __exit__ = Network.__enter__, Network.__exit__

    def paths(self):
        return json.loads(self.client.call(PROGRAM, "multipath", "status", "--json"))["paths"]

    def connection(self):
        return connection(self, IPPROTO_MPTCP, "10.9.0.1")


@check
def multipath():
    """`multipath run`: 20 MB down over two paths, one of which dies in the middle without a word"""
    with Uplinks() as network:
        daemon = Running(network.client, [PROGRAM, "multipath", "run", "--server", "10.9.0.1:7311"], "lte0")
        until("both paths are up", lambda: sum(path["state"] == "up" for path in network.paths()) == 2)
        near, far = network.connection()
        transfer = Transfer(far, near, SIZE)
        half([transfer])
        used = network.client.call("ss", "-Htn", "state", "established", "dport", ">", "0").count("10.9.0.1:")
        if used != 2:
            raise Failed(f"the transfer has {used} subflows")
        network.client.call("tc", "qdisc", "change", "dev", "wifi0", "root", "netem", "loss", "100%")
        network.server.call("tc", "qdisc", "change", "dev", "wifi0", "root", "netem", "loss", "100%")
        transfer.ended()
        until("the dead path is down", lambda: {path["state"] for path in network.paths()} == {"up", "down"})
        daemon.stop()
        return "two subflows, then one"


@check
def congestion():
    """`multipath congestion load`: 5 MB over two paths by BALIA"""
    with Uplinks() as network:
        try:
            loaded = Running(network.server, [PROGRAM, "multipath", "congestion", "load", "balia"], "balia")
        except Failed as failed:
            lacks(STRUCT_OPS_LINKS, str(failed), "struct_ops that ends with its owner is missing")
        daemon = Running(network.client, [PROGRAM, "multipath", "run", "--server", "10.9.0.1:7311"], "lte0")
        until("both paths are up", lambda: sum(path["state"] == "up" for path in network.paths()) == 2)
        near, far = network.connection()
        transfer = Transfer(far, near, 5_000_000)
        half([transfer])
        said = network.server.call("ss", "-Htni", "state", "established")
        transfer.ended()
        if "balia" not in said:
            raise Failed(f"no subflow has it: {said}")
        daemon.stop()
        loaded.stop()
        until("it is gone", lambda: "balia" not in call(["sysctl", "net.ipv4.tcp_available_congestion_control"]))
        return f"{said.count('balia')} subflows had it"


@check
def server_congestion():
    """`congestion load` at the server: 20 MB down by it, killed by SIGKILL in the middle, and none is left"""
    with Network() as network:
        try:
            loaded = Running(network.server, [PROGRAM, "congestion", "load"], "ready:")
        except Failed as failed:
            lacks(STRUCT_OPS_LINKS, str(failed), "struct_ops that ends with its owner is missing")
        begun = transfers(network, 20_000_000, ["down"])
        half(begun)
        sockets = network.server.call("ss", "-Htni", "state", "established")
        said = json.loads(network.server.call(PROGRAM, "congestion", "status", "--json"))
        shown = [each for one in said["loaded"] for each in one["connections"]]
        if not shown or "adaptive" not in sockets:
            raise Failed(f"no connection has it: {said}, {sockets}")
        loaded.process.kill()
        loaded.process.wait()
        ended(begun)
        until("it is gone", lambda: "adaptive" not in call(["sysctl", "net.ipv4.tcp_available_congestion_control"]))
        return f"bound by: {shown[0]['bound']}"


@check
def compared_congestion():
    """`congestion compare` at the server: 16 downloads in two groups, all of them counted, and nothing is left"""
    with Network() as network:
        words = [PROGRAM, "congestion", "compare", "--with", "reno", "--by", "connection", "--json"]
        try:
            running = Running(network.server, words, "ready:")
        except Failed as failed:
            lacks(STRUCT_OPS_LINKS, str(failed), "struct_ops that ends with its owner is missing")
        for _ in range(16):
            ended(transfers(network, 300_000, ["down"]))
        running.stop()
        said = running.said()
        report = json.loads(said[said.index("\n{"):])
        counts = [report[side]["connections"] for side in ("other", "adaptive")]
        values = [metric[side] for metric in report["metrics"] for side in ("other", "adaptive")]
        if sum(counts) != 16 or 0 in counts or report["lost_connections"] or None in values:
            raise Failed(f"not all of them are counted in two groups: {report}")
        until("it is gone", lambda: "adaptive" not in call(["sysctl", "net.ipv4.tcp_available_congestion_control"]))
        return f"{counts[0]} by Reno, {counts[1]} by adaptive"


def negotiated(client, server):
    """What two hosts agree on by `tcp_ecn` (Documentation/networking/ip-sysctl.rst)."""
    if client in (0, 2, 5) or server == 0:
        return "nothing"
    return "accurate" if client == 3 and server in (3, 4, 5) else "classic"


@check
def tcp_ecn():
    """`tcp_ecn` 0 to 5 at the client, 0 to 5 at the server: accelerated, by accurate ECN where both agree on it"""
    wrong, pairs = [], []
    with Network(rate="1gbit", delay="1ms") as network:
        accelerator = Accelerator(network)
        takes = [value for value in range(6) if is_taken(network.client, value)]
        for client in takes:
            network.client.sysctl(tcp_ecn=client)
            for server in takes:
                network.server.sysctl(tcp_ecn=server)
                before = accelerator.status()
                ended(transfers(network, 200_000, ["down"]))
                after = until("the flow is counted", functools.partial(counted, accelerator, before))
                grown, accurate = (after["counters"][name] - before["counters"][name]
                                   for name in ("flows_accelerated", "flows_accurate_ecn"))
                passed = {why: count - before["passed"].get(why, 0) for why, count in after["passed"].items()}
                agreed, outcome = negotiated(client, server), "accelerated" if grown else "passed"
                pairs.append({"client": client, "server": server, "negotiated": agreed, "outcome": outcome})
                if outcome == "passed" or (agreed == "accurate") != (accurate > 0):
                    wrong.append(f"{client} to {server} ({agreed}): {outcome}, {accurate} by accurate ECN, {passed}")
        accelerator.close()
    if wrong:
        raise Failed("; ".join(wrong))
    accurate = [f"{pair['client']} to {pair['server']}" for pair in pairs if pair["negotiated"] == "accurate"]
    text = f"{len(pairs)} pairs, none passed"
    if accurate:
        text += f"; by accurate ECN: {', '.join(accurate)}"
    left = [str(value) for value in range(6) if value not in takes]
    return text + (f"; this kernel does not take {', '.join(left)}" if left else ""), {"pairs": pairs}


def is_taken(host, value):
    try:
        host.sysctl(tcp_ecn=value)
    except OSError:
        return False
    return True


def counted(accelerator, before):
    """The status, once a flow more has been accelerated or passed."""
    after = accelerator.status()
    passed = [sum(status["passed"].values()) + status["counters"]["flows_accelerated"] for status in (before, after)]
    return after if passed[1] > passed[0] else None


def mark_by_number(host):
    host.call("nft", "table inet marks { chain out { type filter hook postrouting priority 0; ip ecn ect0 ip length > 600 "
              "numgen inc mod 40 == 9 counter ip ecn set ce; }; }")


def mark_by(*discipline):
    """A queue of 20 Mbit/s that marks."""
    def begin(host):
        if discipline[0] == "cake":
            host.call("tc", "qdisc", "add", "dev", "eth0", "root", "cake", "bandwidth", "20mbit", "rtt", "10ms")
            return
        host.call("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "tbf", "rate", "20mbit", "burst", "5kb",
                  "latency", "400ms")
        host.call("tc", "qdisc", "add", "dev", "eth0", "parent", "1:1", *discipline)
    return begin


def marked(host):
    """CE marks by the host's rules or queue so far."""
    tables = host.call("nft", "list", "tables")
    if "marks" in tables:
        return int(re.search(r"counter packets (\d+)", host.call("nft", "list", "table", "inet", "marks"))[1])
    shown = host.call("tc", "-s", "qdisc", "show", "dev", "eth0")
    found = re.search(r"ecn_mark (\d+)|^\s*marks((?:\s+\d+)+)", shown, re.M)
    if not found:
        raise Failed(f"no marks are counted: {shown}")
    return int(found[1]) if found[1] else sum(map(int, found[2].split()))


def tcp_info(source):
    """Packets that the peer of a connection says came marked, and those that it has not acknowledged."""
    info = source.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return [struct.unpack_from("=I", info, at)[0] for at in (196, 24)]


def told_of(network, size):
    """Sends that much down: CE marks that the sender was told of, and Mbit/s."""
    begun = time.monotonic()
    going, = transfers(network, size, ["down"])
    going.join()
    lasted = time.monotonic() - begun
    until("all is acknowledged", lambda: tcp_info(going.source)[1] == 0)
    told, _ = tcp_info(going.source)
    going.ended()
    return told, size * 8 / lasted / 1e6


@check
def marks():
    """accurate ECN: marks by number, by fq_codel and by CAKE on the wired side, told to the server one by one"""
    said, figures = [], []
    for name, begin in (("by number", mark_by_number), ("fq_codel", mark_by("fq_codel", "ecn", "target", "1ms", "interval", "10ms")),
                        ("CAKE", mark_by("cake"))):
        with Network(rate="60mbit", delay="5ms") as network:
            if not all(is_taken(host, 3) for host in (network.client, network.server)):
                raise NotSupported("this kernel has no accurate ECN: `tcp_ecn` does not take 3")
            network.server.ip("link set dev eth0 gso_max_segs 1")
            begin(network.server)
            direct = told_of(network, 6_000_000)
            before = marked(network.server)
            if direct[0] != before:
                raise Failed(f"{name}, without the program: {before} marks, told {direct[0]}")
            accelerator = Accelerator(network)
            told, rate = told_of(network, 6_000_000)
            count = marked(network.server) - before
            accelerated(accelerator, 1)
            accelerator.close()
            if told != count or count == 0:
                raise Failed(f"{name}: {count} marks, told {told}")
            said.append(f"{name}: {count} of {count}, {rate:.1f} Mbit/s ({direct[1]:.1f} without)")
            figures.append({"queue": name, "marks": count, "told": told, "mbps": round(rate, 2), "direct_mbps": round(direct[1], 2)})
    return "; ".join(said), {"marks": figures}


@check
def window():
    """a client with a receive window of 17 KB: 1 MB down by `--window-policy` `honour`, and by `opportunistic`"""
    told = []
    # Linux 6.12 makes another window of the same memory than 6.1 does.
    memory = 30_400 if VERSION >= (6, 12) else 35_040
    with Network(rate="5600kbit", delay="28ms") as network:
        network.client.sysctl(tcp_rmem=f"4096 {memory} {memory}")
        for policy in ("honour", "opportunistic"):
            accelerator = Accelerator(network, "--window-policy", policy, "--controller", "fixed", "--rate", "5.4 Mbit/s")
            begun = time.monotonic()
            going = transfers(network, 1_000_000, ["down"])
            half(going)
            known = accelerator.ask("flows")
            windows = [flow["client_window_bytes"] for flow in known["flows"] if flow["direction"] == "downlink"]
            if len(windows) != 1 or not 16_000 <= windows[0] <= 18_500:
                raise Failed(f"{policy}: the client's window is not 17 KB: {windows}, {known}")
            ended(going)
            lasted = time.monotonic() - begun
            accelerated(accelerator, 1)
            accelerator.close()
            told.append(f"{policy} {1_000_000 * 8 / lasted / 1e6:.1f} Mbit/s")
    return f"{', '.join(told)} of 5.6"


SCENARIO = """name = "kernels"
seed = 1
time_limit = "60 s"
[wan]
delay = "20 ms"
[radio.down]
rate = "8 Mbit/s"
delay = "20 ms"
queue = "200 packets"
[radio.up]
rate = "4 Mbit/s"
delay = "20 ms"
queue = "200 packets"
[workload]
size = "4 MB"
[[case]]
name = "direct"
[[case]]
name = "accelerated"
[case.accelerator]
enabled = true
"""


def disciplines():
    """Of the interfaces of a lab, once there are all four; the accelerator's own are its own matter."""
    found = {}
    for host in os.listdir("/run/netns"):
        listed = subprocess.run(["tc", "-n", host, "qdisc", "show"], stdout=subprocess.PIPE, text=True, check=False).stdout
        ours = re.findall(r"^qdisc (\S+) \S+ dev ((?:wan|radio)\S*) root", listed, re.M)
        found |= {f"{host} {device}": kind for kind, device in ours}
    return found if len(found) == 4 else None


@check
def lab():
    """`lab run`: a download of 4 MB, directly and accelerated"""
    with open("/tmp/scenario.toml", "w", encoding="utf-8") as file:
        file.write(SCENARIO)
    with open("/tmp/lab.log", "wb") as log:
        words = [PROGRAM, "lab", "run", "/tmp/scenario.toml", "--json", "/tmp/lab.json"]
        lab_run = subprocess.Popen(words, stdout=log, stderr=log)
    found = until("the lab has its interfaces", disciplines)
    if set(found.values()) != {"pfifo_fast"}:
        raise Failed(f"interfaces have queueing disciplines as the machine has them: {found}")
    if lab_run.wait(300) != 0:
        with open("/tmp/lab.log", encoding="utf-8") as log:
            raise Failed(f"lab run ended with {lab_run.returncode}: {log.read()[-400:]}")
    with open("/tmp/lab.json", encoding="utf-8") as file:
        cases = json.load(file)["scenarios"][0]["cases"]
    wrong = [case["name"] for case in cases if not case["figures"]["transfer"]["hashes_equal"]]
    if wrong or len(cases) != 2:
        raise Failed(f"{len(cases)} cases, {wrong} arrived otherwise than they were sent")
    used = {case["name"]: case["figures"]["radio"]["utilisation"] for case in cases}
    return ", ".join(f"{name} {100 * share:.0f} % of the link" for name, share in used.items())


FIREWALL = """
table inet filter {
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state vmap { established : accept, related : accept, invalid : drop }
    iifname "m0" oifname "w0" accept
    iifname cellw0 oifname w0 accept
    iifname m0 oifname cellm0 accept
    iifname cellm0 oifname m0 accept
  }
}
table ip nat {
  chain postrouting {
    type nat hook postrouting priority srcnat;
    oifname w0 masquerade
  }
}
"""


@check
def firewall():
    """masquerade and a stateful firewall: 5 MB down and up"""
    with Network() as network:
        network.box.call("nft", "-f", "-", input=FIREWALL)
        # The server knows no way to the client's own address.
        network.server.ip("route del default via 10.2.0.1")
        return both_ways(network, 5_000_000)


@check
def vlan():
    """the client behind an interface of 8021q: 5 MB down and up"""
    with Network() as network:
        network.vlan()
        return both_ways(network, 5_000_000)


@check
def pppoe():
    """the client behind an interface of PPPoE: 5 MB down and up"""
    with Network() as network:
        network.pppoe()
        return both_ways(network, 5_000_000)


@check
def wireguard():
    """the client behind an interface of WireGuard: 5 MB down and up"""
    with Network() as network:
        network.wireguard()
        return both_ways(network, 5_000_000)


def main():
    with open(sys.argv[2], "a+", encoding="utf-8") as file:
        file.seek(0)
        done = [json.loads(line)["check"] for line in file]
    for name in sys.argv[3:] or CHECKS:
        if name in done:
            continue
        begun = time.monotonic()
        further = {}
        try:
            result, why = "ok", CHECKS[name]()
            if isinstance(why, tuple):
                why, further = why
        except NotSupported as because:
            result, why = "not supported", str(because)
        except (Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            result, why = "failed", str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        why = " ".join(why.split())[:SAID_LEN_MAX]
        lasted = round(time.monotonic() - begun, 1)
        line = {"check": name, "what": CHECKS[name].__doc__, "result": result, "said": why, "seconds": lasted}
        line |= further
        with open(sys.argv[2], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
