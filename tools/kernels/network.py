"""client, box and server in namespaces, cables between them, sockets in them, and transfers that are compared by their hash."""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
IPPROTO_MPTCP = 262
# Longest wait for anything; an emulated machine is slow.
PATIENCE_S = 60


class Failed(Exception):
    """A check found something wrong."""


class NotSupported(Exception):
    """The kernel lacks what a check needs."""


def call(words, **options):
    """What a program says; Failed with what it says where it fails."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: {done.stdout.strip()}")
    return done.stdout


def until(what, is_so):
    end = time.monotonic() + PATIENCE_S
    while not (found := is_so()):
        if time.monotonic() > end:
            raise Failed(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.05)
    return found


class Host:
    """A network namespace."""

    def __init__(self, name):
        self.name = name
        call(["ip", "netns", "add", name])
        self.ip("link set lo up")

    def ip(self, *lines):
        call(["ip", "-n", self.name, "-batch", "-"], input="\n".join(lines) + "\n")

    def words(self, words):
        return ["ip", "netns", "exec", self.name, *words]

    def call(self, *words, **options):
        return call(self.words(words), **options)

    def sysctl(self, **values):
        """Of net.ipv4."""
        with self.inside():
            for name, value in values.items():
                with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="utf-8") as file:
                    file.write(str(value))

    @contextlib.contextmanager
    def inside(self):
        """The calling thread is in this namespace."""
        with open("/proc/thread-self/ns/net", "rb") as home, open(f"/run/netns/{self.name}", "rb") as there:
            enter(there)
            try:
                yield
            finally:
                enter(home)

    def socket(self, protocol=0):
        with self.inside():
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
        made.settimeout(PATIENCE_S)
        return made


def enter(namespace):
    if LIBC.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Running:
    """A program that runs at a host; what it says goes to a file."""

    def __init__(self, host, words, ready):
        self.words, self.log = words, f"/tmp/said-{time.monotonic_ns()}"
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen(host.words(words), stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            until(f"{' '.join(words)} says `{ready}`", lambda: ready in self.said() or self.process.poll() is not None)
            if ready not in self.said():
                raise Failed(self.said().strip() or f"{' '.join(words)} ended with {self.process.returncode}")
        except Failed:
            self.process.kill()
            self.process.wait()
            raise

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def ended(self):
        """It was told to end, or ends by itself; it has to end well."""
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed(f"{' '.join(self.words[1:])} does not end: {self.said()[-300:]}") from None
        # Some commands tell by their exit code that they were interrupted.
        if status not in (0, 128 + signal.SIGTERM):
            raise Failed(f"{' '.join(self.words[1:])} ended with {status}: {self.said().strip()[-300:]}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.ended()


class Network:
    """client (10.1.0.2) -- m0 box w0 -- server (10.2.0.2). `mobile` is the box's interface towards the client."""

    def __init__(self, rate="40mbit", delay="10ms"):
        self.client, self.box, self.server = self.hosts = tuple(Host(name) for name in ("client", "box", "server"))
        self.mobile, self.kept = "m0", []
        # Several queues, as cards have.
        pair = "numtxqueues 2 numrxqueues 2"
        self.box.ip(f"link add m0 {pair} type veth peer name eth0 {pair} netns client",
                    f"link add w0 {pair} type veth peer name eth0 {pair} netns server",
                    "address add 10.1.0.1/24 dev m0", "address add 10.2.0.1/24 dev w0", "link set m0 up", "link set w0 up")
        for host, own, gateway in ((self.client, "10.1.0.2", "10.1.0.1"), (self.server, "10.2.0.2", "10.2.0.1")):
            host.ip(f"address add {own}/24 dev eth0", "link set eth0 up", f"route add default via {gateway}")
        self.box.sysctl(ip_forward=1)
        for host, device in ((self.box, "m0"), (self.client, "eth0")):
            host.call("tc", "qdisc", "add", "dev", device, "root", "netem", "rate", rate, "delay", delay, "limit", "400")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for listener in self.kept:
            listener.close()
        for host in self.hosts:
            for process in call(["ip", "netns", "pids", host.name]).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            call(["ip", "netns", "delete", host.name])

    def vlan(self):
        """The client behind a VLAN."""
        for host, device, own in ((self.box, "m0", "10.1.0.1"), (self.client, "eth0", "10.1.0.2")):
            host.ip(f"address flush dev {device}", f"link add link {device} name tagged type vlan id 10",
                    f"address add {own}/24 dev tagged", "link set tagged up")
        self.client.ip("route add default via 10.1.0.1")
        self.mobile = "tagged"

    def tunnel(self, box_device, client_device):
        """The client behind a tunnel, whose ends are these devices; the cable below has addresses of its own."""
        for host, cable, device, own, peer in ((self.box, "m0", box_device, "10.1.0.1", "10.1.0.2"),
                                               (self.client, "eth0", client_device, "10.1.0.2", "10.1.0.1")):
            host.ip(f"address del {own}/24 dev {cable}", f"address add {own} peer {peer} dev {device}",
                    f"link set {device} up mtu 1400")
        self.client.ip("route replace default via 10.1.0.1")
        self.mobile = box_device

    def wireguard(self):
        keys = {host.name: call(["wg", "genkey"]).strip() for host in (self.box, self.client)}
        for host, other, cable, own, peer in ((self.box, self.client, "m0", "192.168.9.1", "192.168.9.2"),
                                              (self.client, self.box, "eth0", "192.168.9.2", "192.168.9.1")):
            host.ip(f"address add {own}/24 dev {cable}", "link add wg0 type wireguard")
            public = call(["wg", "pubkey"], input=keys[other.name]).strip()
            host.call("wg", "set", "wg0", "private-key", "/dev/stdin", "listen-port", "51820", "peer", public, "endpoint",
                      f"{peer}:51820", "allowed-ips", "0.0.0.0/0", input=keys[host.name])
        self.tunnel("wg0", "wg0")

    def pppoe(self):
        """A session of PPPoE as after its negotiation: what carries packets is the kernel's."""
        hosts = ((self.box, "m0"), (self.client, "eth0"))
        macs = []
        for host, device in hosts:
            shown = host.call("ip", "-o", "link", "show", device)
            macs.append(bytes.fromhex(re.search(r"link/ether (\S+)", shown)[1].replace(":", "")))
        for (host, device), peer in zip(hosts, reversed(macs)):
            with host.inside():
                self.kept += ppp_device(device, peer)
        self.tunnel("ppp0", "ppp0")


def ppp_device(device, peer):
    """Makes an interface ppp0 of session 7 with that neighbour; it lives as long as what is returned."""
    af_pppox, px_proto_oe = 24, 0
    number = LIBC.socket(af_pppox, socket.SOCK_STREAM, px_proto_oe)
    if number < 0:
        raise Failed(f"no socket for PPPoE: {os.strerror(ctypes.get_errno())}")
    session = open(number, "r+b", buffering=0)
    # struct sockaddr_pppox: packed; the session's number is in network order.
    address = struct.pack("=HI", af_pppox, px_proto_oe) + struct.pack("!H", 7) + peer + device.encode().ljust(16, b"\0")
    address = address.ljust(30, b"\0")
    if LIBC.connect(number, address, len(address)) != 0:
        raise Failed(f"no session of PPPoE: {os.strerror(ctypes.get_errno())}")
    pppiocgchan, pppiocattchan, pppiocnewunit, pppiocconnect = 0x80047437, 0x40047438, 0xC004743E, 0x4004743A
    number = fcntl.ioctl(session, pppiocgchan, bytes(4))
    channel, unit = (open("/dev/ppp", "r+b", buffering=0) for _ in range(2))
    fcntl.ioctl(channel, pppiocattchan, number)
    made = fcntl.ioctl(unit, pppiocnewunit, struct.pack("=i", 0))
    fcntl.ioctl(channel, pppiocconnect, made)
    return [session, channel, unit]


SIZE = 20_000_000
DATA = random.Random(47).randbytes(SIZE)


class Transfer(threading.Thread):
    """Data from one end of a connection to the other one."""

    def __init__(self, source, sink, size):
        super().__init__(daemon=True)
        self.source, self.sink, self.size, self.got, self.wrong = source, sink, size, 0, ""
        self.sender = threading.Thread(target=self.send, daemon=True)
        self.sender.start()
        self.start()

    def send(self):
        try:
            self.source.sendall(memoryview(DATA)[:self.size])
            self.source.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.wrong = self.wrong or f"while sending: {error}"

    def run(self):
        digest = hashlib.sha256()
        try:
            while piece := self.sink.recv(1 << 18):
                digest.update(piece)
                self.got += len(piece)
            if digest.digest() != hashlib.sha256(memoryview(DATA)[:self.size]).digest():
                self.wrong = self.wrong or f"{self.got} of {self.size} bytes, and not what was sent"
        except OSError as error:
            self.wrong = self.wrong or f"after {self.got} of {self.size} bytes: {error}"

    def ended(self):
        """Waits; Failed unless everything came, and as it was."""
        self.join()
        self.sender.join()
        self.source.close()
        self.sink.close()
        if self.wrong:
            raise Failed(f"a transfer failed {self.wrong}")


def connection(network, protocol=0, to="10.2.0.2"):
    """A connection from the client to the server: both ends."""
    listener = network.server.socket(protocol)
    listener.bind((to, 0))
    listener.listen()
    near = network.client.socket(protocol)
    near.connect((to, listener.getsockname()[1]))
    far, _ = listener.accept()
    far.settimeout(PATIENCE_S)
    # Further subflows of MPTCP need it.
    network.kept.append(listener)
    return near, far


def transfers(network, size, ways=("down", "up")):
    """Begins transfers over a connection each."""
    begun = []
    for way in ways:
        near, far = connection(network)
        begun.append(Transfer(far, near, size) if way == "down" else Transfer(near, far, size))
    return begun


def ended(begun):
    for transfer in begun:
        transfer.ended()


def half(begun):
    """Waits until half of each has come."""
    until("half of the data", lambda: any(t.wrong for t in begun) or all(t.got > t.size // 2 for t in begun))
