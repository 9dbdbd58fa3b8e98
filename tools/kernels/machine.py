"""A machine that QEMU emulates: a kernel of Debian's, the files of this machine (read only, below a file system in memory
that takes what is written), a folder for results, and no network but `lo`."""

import glob
import io
import lzma
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import time

# What leads to the root; kernels that have one of them built in say so. All other modules are loaded from there.
MODULES = ("virtio_pci", "virtio_rng", "9pnet_virtio", "9p", "overlay")
SHARE = "trans=virtio,version=9p2000.L,msize=524288"

INIT = f"""#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev
exec >/dev/console 2>&1
mount -t proc none /proc
mount -t sysfs none /sys
for module in $(cat /modules/order); do insmod /modules/$module; done
mount -t 9p -o ro,cache=loose,{SHARE} root /lower && mount -t tmpfs -o size=75% none /upper && mkdir /upper/files /upper/work &&
  mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work none /root || poweroff -f
mkdir -p /root/dev /root/proc /root/sys /root/run /root/tmp
mount -t tmpfs none /root/run
mkdir -p /root/run/shared /root/run/lock
mount -t 9p -o rw,cache=none,{SHARE} shared /root/run/shared
umount /proc /sys
mount --move /dev /root/dev
exec switch_root /root /bin/sh /run/shared/start
"""

# What an init would mount and make; then the command. Opening some nodes loads a module, such as that of TUN.
START = """export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc none /proc
mount -t sysfs none /sys
mkdir -p /dev/pts /dev/shm /lib/modules
mount -t cgroup2 none /sys/fs/cgroup
mount -t bpf none /sys/fs/bpf
mount -t devpts none /dev/pts
mount -t tmpfs none /dev/shm
ln -sfn /proc/self/fd /dev/fd
ln -sfn fd/0 /dev/stdin
ln -sfn fd/1 /dev/stdout
ln -sfn fd/2 /dev/stderr
ln -sfn {kernel}/lib/modules/{release} /lib/modules/{release}
ln -sfn {kernel}/boot/config-{release} /boot/config-{release}
while read -r module node device; do
  [ "$module" != "#" ] && ! [ -e "/dev/$node" ] || continue
  mkdir -p "$(dirname "/dev/$node")"
  numbers=${{device#?}}
  mknod "/dev/$node" "${{device%"$numbers"}}" "${{numbers%:*}}" "${{numbers#*:}}"
done </lib/modules/{release}/modules.devname
hostname kernels
ip link set lo up
cd {folder}
setsid sh -c {command} >/run/shared/said 2>&1 </dev/null
echo $? >/run/shared/status
sync
busybox poweroff -f
"""


def archive(files):
    """Files (name, mode, contents) as the kernel takes them for its first file system: cpio, format `newc`."""
    made = io.BytesIO()
    for number, (name, mode, contents) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        name = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(contents), 0, 0, 0, 0, len(name), 0)
        made.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name)
        made.write(bytes(-made.tell() % 4) + contents)
        made.write(bytes(-made.tell() % 4))
    return made.getvalue()


def needed(program):
    """A program and the libraries that it needs, none if it is static."""
    ldd = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return [program, *re.findall(r"(?:^\s+|=> )(/\S+) \(", ldd.stdout, re.M)]


def first_files(kernel, release):
    """Busybox, and the modules that lead to the root, in their order."""
    program, *libraries = needed(shutil.which("busybox"))
    folders = {"bin", "dev", "proc", "sys", "lower", "upper", "root", "modules"}
    for library in libraries:
        parts = os.path.dirname(library).strip("/").split("/")
        folders |= {"/".join(parts[:length + 1]) for length in range(len(parts))}
    files = [(name, stat.S_IFDIR | 0o755, b"") for name in sorted(folders)]
    files.append(("init", stat.S_IFREG | 0o755, INIT.encode()))
    for name, path in [("bin/busybox", program), *((library.strip("/"), library) for library in libraries)]:
        with open(path, "rb") as file:
            files.append((name, stat.S_IFREG | 0o755, file.read()))
    order = {}
    for module in MODULES:
        shown = subprocess.run(["modprobe", "--dirname", kernel, "--set-version", release, "--show-depends", module],
                               check=True, stdout=subprocess.PIPE, text=True).stdout
        order |= {os.path.basename(path).removesuffix(".xz"): path for path in re.findall(r"^insmod (\S+)", shown, re.M)}
    for name, path in order.items():
        with lzma.open(path) if path.endswith(".xz") else open(path, "rb") as file:
            files.append((f"modules/{name}", stat.S_IFREG | 0o644, file.read()))
    files.append(("modules/order", stat.S_IFREG | 0o644, "\n".join(order).encode()))
    return files


def is_virtual():
    """The processor runs the machine's instructions itself."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return os.access("/dev/kvm", os.W_OK) and re.search(r"\b(vmx|svm)\b", file.read()) is not None


class Machine:
    """Boots a kernel and runs a command there; `shared` is the folder that both see, the guest as /run/shared."""

    def __init__(self, kernel):
        self.kernel, self.release = kernel, os.path.basename(kernel)
        self.folder = tempfile.TemporaryDirectory(prefix="kernels-")
        self.shared = f"{self.folder.name}/shared"
        os.mkdir(self.shared)
        with open(f"{self.folder.name}/first", "wb") as file:
            file.write(archive(first_files(kernel, self.release)))

    def text(self, name):
        """What a file that the guest wrote has, if it is there."""
        try:
            with open(f"{self.folder.name}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def qemu(self):
        image, = glob.glob(f"{self.kernel}/boot/vmlinuz-*") or glob.glob(f"{self.kernel}/lib/modules/*/vmlinuz")
        # Five levels of page tables make emulation slower, and are of no use here.
        emulated = ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"]
        processor = ["-accel", "kvm", "-cpu", "host"] if is_virtual() else emulated
        words = ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-machine", "q35", "-smp", "2",
                 "-m", "2G", *processor, "-device", "virtio-rng-pci", "-kernel", image, "-initrd", f"{self.folder.name}/first",
                 "-append", "console=ttyS0 loglevel=4 panic=-1 mitigations=off tsc=reliable",
                 "-serial", f"file:{self.folder.name}/console"]
        for tag, path, readonly in (("root", "/", "on"), ("shared", self.shared, "off")):
            share = f"local,id={tag},path={path},security_model=none,multidevs=remap,readonly={readonly}"
            words += ["-fsdev", share, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        return words

    def run(self, command, seconds, look):
        """Runs a command, and calls `look` now and then. Returns what went wrong with the machine itself, or nothing."""
        with open(f"{self.shared}/start", "w", encoding="utf-8") as file:
            file.write(START.format(kernel=shlex.quote(self.kernel), release=shlex.quote(self.release),
                                    folder=shlex.quote(os.getcwd()), command=shlex.quote(shlex.join(command))))
        end = time.monotonic() + seconds
        with subprocess.Popen(self.qemu(), stdin=subprocess.DEVNULL) as guest:
            try:
                while guest.poll() is None and time.monotonic() < end:
                    time.sleep(0.5)
                    look()
            finally:
                guest.kill()
        look()
        status = self.text("shared/status").strip()
        if status == "0":
            return ""
        if status:
            what = f"the command ended with {status}"
        elif time.monotonic() > end:
            what = f"it did not end within {seconds:.0f} s"
        else:
            what = "the machine ended"
        return f"{what}\nIt said:\n{self.text('shared/said')[-3000:]}\nIts kernel:\n{self.text('console')[-3000:]}"
